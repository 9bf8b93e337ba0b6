"""What each kind of encoder does in an evaluation: which plan it has, and what it gives for a batch of it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from juzhen.backends import open_backend, require_packages
from juzhen.backends.names import BackendName
from juzhen.core.batch import Batch
from juzhen.core.errors import UserError
from juzhen.core.examples import NLI_CLASSES, Kind
from juzhen.core.measures import UNSCORED, UNSCORED_BY_BM25, UNSCORED_BY_PAIRS
from juzhen.core.named import TF_IDF
from juzhen.data.transfer import TransferTask
from juzhen.encoders.backend import Backend
from juzhen.encoders.cross_encoder import CrossEncoder, similarity
from juzhen.encoders.embedding_cache import EmbeddingCache, Shelf
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.evaluation.cosine_plan import CosinePlan
from juzhen.evaluation.cross_encoder_plan import CrossEncoderPlan
from juzhen.evaluation.lexical_plan import BM25Plan, LexicalPlan
from juzhen.evaluation.plan import NOTHING, EvaluationPlan, Sets
from juzhen.evaluation.scoring import Evaluation, measure
from juzhen.metrics.bm25 import BM25, CHARACTERS, K1, B, cut_of, require_bm25s
from juzhen.metrics.classes import score_classes


class Evaluator(ABC):
    """One encoder, as far as an evaluation is concerned: `plan` → `begin` → `output` of each batch → `measured`.

    unscored   kinds of sets that it has no measure of, and why
    plan_type  makes its plans
    """

    unscored: ClassVar[Mapping[Kind, str]] = UNSCORED
    plan_type: ClassVar[type[EvaluationPlan]]

    def plan(self, sets: Sets, tasks: Sequence[TransferTask] = ()) -> EvaluationPlan:
        """What must be encoded to score `sets` and to make the classifiers of `tasks`."""
        return self.plan_type(sets, tasks)

    @abstractmethod
    def output(self, batch: Batch) -> Float[Tensor, "batch ..."]:
        """What is kept of each row of a planned batch: an embedding, or a score."""

    def begin(self, plan: EvaluationPlan) -> None:  # noqa: B027  most have nothing to prepare
        """Called before each pass, as the weights may be others by then."""

    def measured(self, plan: EvaluationPlan, outputs: np.ndarray, **how: Any) -> Evaluation:
        """All that is planned, scored, from the outputs for `plan.examples`; `how` as of `measure`."""
        return measure(plan, outputs, **how)


class EmbeddingEvaluator(Evaluator):
    """A bi-encoder or prompt encoder: encodes the sentences of a plan with a back end, but for those that a cache has.

    backend    a BackendName; any but torch must be able to export the encoder
    cache_dir  embeddings are kept below it; None: nowhere
    precision  in which the encoder runs; embeddings of each are kept apart
    """

    def __init__(
        self,
        encoder: SentenceEncoder,
        *,
        backend: str = BackendName.TORCH,
        cache_dir: str | Path | None = None,
        precision: str = "32-true",
    ) -> None:
        self.encoder = encoder
        self._name = BackendName(backend)
        require_packages(self._name)
        self._cache = None if cache_dir is None else EmbeddingCache(cache_dir)
        is_plain = self._name is not BackendName.TORCH or precision == "32-true"
        self._variant = str(self._name) if is_plain else f"{self._name} {precision}"
        self._backend: Backend | None = None
        self._shelves: dict[int, Shelf] = {}

    def plan(self, sets: Sets, tasks: Sequence[TransferTask] = ()) -> CosinePlan:
        return CosinePlan(sets, tasks, head=self.encoder.score_head, sides=self.encoder.sides)

    def try_out(self) -> None:
        """Raises UserError when the encoder cannot be exported: better before training than after."""
        if self._name.needs_onnx:
            open_backend(self.encoder, self._name)

    def begin(
        self,
        plan: EvaluationPlan,
        *,
        is_first: bool = True,
        shared: Callable[[Any], Any] = lambda found: found,
    ) -> None:
        """Tells the plan which embeddings are known.

        is_first  of several processes this is the first, which alone asks the cache
        shared    gives all processes what the first one has found
        """
        self._backend = None
        if self._cache is None or not isinstance(plan, CosinePlan):
            return
        found = None
        if is_first:
            known = np.empty((len(plan.sentences), self.encoder.dim), dtype=np.float32)
            pending = [np.empty(0, dtype=np.int64)]
            for side in np.unique(plan.read).tolist():
                shelf = self._cache.shelf(self.encoder.reading(side), self._variant)
                rows = np.flatnonzero(plan.read == side)
                own = np.empty((len(rows), self.encoder.dim), dtype=np.float32)
                pending.append(rows[shelf.fill([plan.sentences[row] for row in rows.tolist()], own)])
                known[rows], self._shelves[side] = own, shelf
            found = (np.sort(np.concatenate(pending)), known)
        plan.recall(*shared(found))

    def output(self, batch: Batch) -> Float[Tensor, "batch dim"]:
        if batch.task == NOTHING.name:
            return torch.zeros(len(batch), self.encoder.dim)
        if self._name is BackendName.TORCH:
            return self.encoder(batch.tokens)[batch.columns["text"]]
        if self._backend is None:
            self._backend = open_backend(self.encoder, self._name)
        return torch.from_numpy(self._backend.encode(batch.tokens))[batch.columns["text"].cpu()]

    def measured(self, plan: EvaluationPlan, outputs: np.ndarray, **how: Any) -> Evaluation:
        self._backend = None
        if isinstance(plan, CosinePlan) and len(plan.pending):
            for side, shelf in self._shelves.items():
                rows = np.flatnonzero(plan.read[plan.pending] == side)
                if len(rows):
                    shelf.add([plan.examples.sentences[row] for row in rows.tolist()], outputs[rows])
        self._shelves = {}
        return super().measured(plan, outputs, **how)


class PairEvaluator(Evaluator):
    """A cross-encoder: the score of each pair, then its class logits where the head has classes."""

    unscored = UNSCORED_BY_PAIRS
    plan_type = CrossEncoderPlan

    def __init__(self, encoder: CrossEncoder) -> None:
        self.encoder = encoder

    def output(self, batch: Batch) -> Float[Tensor, "batch outputs"]:
        if batch.task == NOTHING.name:
            return torch.zeros(len(batch), 1)
        logits = pair_logits(self.encoder, batch)
        scores = similarity(logits).unsqueeze(1)
        return torch.cat([scores, logits], dim=1) if logits.shape[1] > 1 else scores

    def measured(self, plan: EvaluationPlan, outputs: np.ndarray, **how: Any) -> Evaluation:
        assert isinstance(plan, CrossEncoderPlan)  # made by `plan`
        found = super().measured(plan, outputs, **how)
        for one, logits in zip(plan.sets, plan.logits(outputs), strict=True):
            if one.kind is Kind.NLI_PAIR and logits.shape[1] == len(NLI_CLASSES):
                for metric, score in score_classes(logits, one).items():
                    found.scores[f"{one.split}/{one.name}/{metric}"] = score
        return found


class LexicalEvaluator(Evaluator):
    """TF-IDF, which has no encoder."""

    plan_type: ClassVar[type[EvaluationPlan]] = LexicalPlan

    def output(self, batch: Batch) -> Float[Tensor, "batch"]:
        return torch.zeros(len(batch))


class BM25Evaluator(LexicalEvaluator):
    """BM25, which has no encoder either; numbers as of `juzhen.metrics.bm25.BM25`.

    Raises UserError where what it needs is not installed.
    """

    unscored = UNSCORED_BY_BM25
    plan_type = BM25Plan

    def __init__(self, *, tokens: str = CHARACTERS, k1: float = K1, b: float = B) -> None:
        require_bm25s()
        cut_of(tokens)
        self._index = partial(BM25, tokens=tokens, k1=k1, b=b)

    def plan(self, sets: Sets, tasks: Sequence[TransferTask] = ()) -> BM25Plan:
        return BM25Plan(sets, index=self._index)


def lexical_evaluator(name: str, **numbers: Any) -> LexicalEvaluator:
    """That of a model in LEXICAL, with the numbers of its configuration. Errors: as `BM25Evaluator`."""
    return LexicalEvaluator() if name == TF_IDF else BM25Evaluator(**numbers)


def pair_logits(encoder: CrossEncoder, batch: Batch) -> Float[Tensor, "batch outputs"]:
    """The mean over the orders in which the batch holds each pair."""
    every = encoder(batch.tokens)
    return torch.stack([every[rows] for rows in batch.columns.values()]).mean(dim=0)


def embedding_cache_dir(is_kept: bool, cache_dir: str | None) -> str | None:
    """Where `evaluation.cache_embeddings` keeps embeddings. Raises UserError where there is no place for it."""
    if is_kept and cache_dir is None:
        raise UserError(
            "evaluation.cache_embeddings=true: embeddings are kept below cache_dir, which is null; "
            "set cache_dir=<a folder>"
        )
    return cache_dir if is_kept else None
