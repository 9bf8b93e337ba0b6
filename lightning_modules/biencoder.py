"""The bi-encoder: both sentences through one encoder, the cosine of the embeddings as similarity."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch.nn.functional as F
from jaxtyping import Float
from pytorch_lightning.utilities import rank_zero_only
from torch import Tensor

from datamodules.union import SentenceUnion
from encoders import SentenceEncoder, compile_layers, load_backbone, load_encoder
from encoders.collate import SentenceCollator
from encoders.token_cache import CachedTokenizer
from lightning_modules.base import SentenceModule
from schema.batch import Batch, Encoded
from schema.config import JobConfig
from schema.examples import Examples


class CosinePlan:
    """Encodes every distinct sentence of several sets once; a row's score is the cosine of its two embeddings."""

    def __init__(self, sets: Sequence[Examples]) -> None:
        self.sets = list(sets)
        self._union = SentenceUnion(sets)
        self.examples = self._union.examples

    def scores(self, outputs: Float[np.ndarray, "sentences dim"]) -> list[np.ndarray]:
        lengths = np.linalg.norm(outputs, axis=1, keepdims=True)
        unit = outputs / np.maximum(lengths, np.finfo(np.float32).tiny)
        scored = []
        for position in range(len(self.sets)):
            first, second, *_ = self._union.rows(position).values()
            scored.append(np.einsum("rd,rd->r", unit[first], unit[second]))
        return scored


class BiEncoder(SentenceModule):
    """Scores a pair by the cosine of two embeddings (Reimers and Gurevych 2019, https://arxiv.org/abs/1908.10084).

    encoder  backbone and pooling; each distinct sentence of a batch passes through it once
    """

    def __init__(self, *, encoder: SentenceEncoder, **shared: object) -> None:
        super().__init__(**shared)
        self.encoder = encoder
        encoder.piece_tokens = self.job.hardware.train_piece_tokens
        if self.job.hardware.compile:
            compile_layers(encoder.backbone)
        tokenize = CachedTokenizer(
            encoder,
            self.job.cache_dir,
            progress=self.job.logger.progress and rank_zero_only.rank == 0,
        )
        self.collate = SentenceCollator(tokenize, encoder.collate, sharing=self.sharing)

    @staticmethod
    def load_encoder(job: JobConfig, *, folder: Path | None = None) -> SentenceEncoder:
        """The encoder in `folder`, or else the one a job starts from: `init_from` when given, else the backbone."""
        start = folder or job.init_from
        return load_encoder(start) if start else load_backbone(job.backbone, seed=job.seed)

    def encode(self, batch: Batch) -> Encoded:
        embeddings = self.encoder(batch.tokens)
        columns = {column: embeddings[rows] for column, rows in batch.columns.items()}
        pair = [values.float() for values in columns.values()][:2]
        return Encoded(
            kind=batch.kind,
            embeddings=columns,
            text_ids={column: batch.sentence_ids[rows] for column, rows in batch.columns.items()},
            scores=F.cosine_similarity(*pair, dim=-1) if len(pair) == 2 else None,  # one text has no score
            targets=batch.targets,
        )

    def output(self, batch: Batch) -> Float[Tensor, "batch dim"]:
        return self.encoder(batch.tokens)[batch.columns["text"]]

    def plan(self, sets: Sequence[Examples]) -> CosinePlan:
        return CosinePlan(sets)
