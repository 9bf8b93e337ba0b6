"""Family of sparse encoders and its evaluation by dot products."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import torch
from jaxtyping import Float
from torch import Tensor

from juzhen.core.batch import Batch
from juzhen.core.kinds import UNSCORED_BY_WEIGHTS
from juzhen.data.probe import TransferTask
from juzhen.encoders.layout import gives_weights
from juzhen.evaluation.encoding_plan import NOTHING, Evaluator, Sets
from juzhen.families.family import AskingEncoders
from juzhen.families.late.family import MaxSimPlan
from juzhen.families.sparse.encoder import SparseEncoder
from juzhen.families.sparse.vectors import SparseVectors


class SparsePlan(MaxSimPlan):
    """The plan of token vectors with sparse vectors, 8 bytes for each number above 0."""

    temperature = 1.0


class SparseEvaluator(Evaluator):
    """A sparse encoder. Its outputs are the vectors. The plan keeps them."""

    unscored = UNSCORED_BY_WEIGHTS
    plan_type = SparsePlan

    def __init__(self, encoder: SparseEncoder) -> None:
        self.encoder = encoder
        self._plans: WeakValueDictionary[str, SparseVectors] = WeakValueDictionary()

    def plan(self, sets: Sets, tasks: Sequence[TransferTask] = ()) -> SparsePlan:
        plan = SparsePlan(sets, tasks, vectors=partial(SparseVectors, dim=self.encoder.dim))
        self._plans[plan.examples.name] = plan.vectors
        return plan

    def output(self, batch: Batch) -> Float[Tensor, "batch one"]:
        if batch.task != NOTHING.name:
            vectors = self.encoder.sparse_rows(batch.tokens)
            columns = batch.columns["text"].cpu().numpy()
            self._plans[batch.task].take(batch.rows.cpu().numpy(), vectors[columns])
        return torch.zeros(len(batch), 1)

    def read_query(self, query: str, symmetric: bool | None) -> None:
        self.encoder.encode_query(query)


class SparseEncoders(AskingEncoders):
    """Encoders to a weight per token of the vocabulary. The first text of a row is the query."""

    unscored = SparseEvaluator.unscored

    def holds(self, folder: Path) -> bool:
        return gives_weights(folder)

    def load(self, source: str | Path, **options: Any) -> SparseEncoder:
        return SparseEncoder.load(source, **options)

    def evaluator(self, encoder: SparseEncoder, **options: Any) -> SparseEvaluator:
        return SparseEvaluator(encoder)
