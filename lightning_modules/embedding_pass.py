"""The final evaluation of a bi-encoder: what encodes, and what a cache makes unnecessary to encode."""

import numpy as np
import pytorch_lightning as pl
import torch
from jaxtyping import Float
from torch import Tensor

from conf.job import BackendName, JobConfig
from juzhen.backends import Backend, open_backend, require_packages
from juzhen.core.batch import Batch
from juzhen.core.errors import UserError
from juzhen.encoders import SentenceEncoder
from juzhen.encoders.embedding_cache import EmbeddingCache, Shelf
from lightning_modules.cosine_plan import CosinePlan
from lightning_modules.scoring import NOTHING


class EmbeddingPass:
    """Encodes the sentences of a plan with the back end of the job, and leaves out those that a cache has.

    Begun for each evaluation, since the weights are others each time.
    """

    def __init__(self, encoder: SentenceEncoder, job: JobConfig) -> None:
        self._encoder = encoder
        self._job = job
        self._name = BackendName(job.evaluation.backend)
        require_packages(self._name)
        if job.evaluation.cache_embeddings and job.cache_dir is None:
            raise UserError(
                "evaluation.cache_embeddings=true: embeddings are kept below cache_dir, which is null; "
                "set cache_dir=<a folder>"
            )
        self._backend: Backend | None = None
        self._shelf: Shelf | None = None

    def try_out(self) -> None:
        """Raises UserError when the encoder cannot be exported: better before training than after."""
        if self._name.needs_onnx:
            open_backend(self._name, self._encoder)

    def begin(self, plan: CosinePlan, trainer: pl.Trainer) -> None:
        """Tells the plan which embeddings are known. All processes go by what the first one finds."""
        self._backend = None
        if not self._job.evaluation.cache_embeddings:
            return
        found = None
        if trainer.is_global_zero:
            self._shelf = EmbeddingCache(self._job.cache_dir).shelf(self._encoder, self._variant())
            known = np.empty((len(plan.sentences), self._encoder.dim), dtype=np.float32)
            found = (self._shelf.fill(plan.sentences, known), known)
        plan.recall(*trainer.strategy.broadcast(found))

    def encode(self, batch: Batch) -> Float[Tensor, "batch dim"]:
        """Embeddings of the planned rows of a batch."""
        if batch.task == NOTHING.name:
            return torch.zeros(len(batch), self._encoder.dim)
        if self._name is BackendName.TORCH:
            return self._encoder(batch.tokens)[batch.columns["text"]]
        if self._backend is None:
            self._backend = open_backend(self._name, self._encoder)
        return torch.from_numpy(self._backend.encode(batch.tokens))[batch.columns["text"].cpu()]

    def keep(self, plan: CosinePlan, outputs: Float[np.ndarray, "sentences dim"]) -> None:
        """Adds what was encoded to the cache; on the first process, once."""
        self._backend = None
        if self._shelf is not None and len(plan.pending):
            self._shelf.add(plan.examples.sentences, outputs)
        self._shelf = None

    def _variant(self) -> str:
        """The back end; where it is torch, in which precision it ran."""
        if self._name is BackendName.TORCH and self._job.hardware.precision != "32-true":
            return f"{self._name} {self._job.hardware.precision}"
        return str(self._name)
