"""Late-interaction families: encoders scored by MaxSim, and their evaluation."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from juzhen.core.batch import Batch
from juzhen.core.examples import SentenceUnion, Side
from juzhen.core.kinds import UNSCORED_BY_SIDES, UNSCORED_BY_TOKENS
from juzhen.data.loading import TransferTask
from juzhen.encoders.layout import gives_routes, gives_tokens
from juzhen.evaluation.encoding_plan import NOTHING, EncodingPlan, Evaluator, Matcher, Sets, Tables
from juzhen.families.family import AskingEncoders, Family
from juzhen.families.late.encoder import MultiVectorEncoder, QueryDocumentEncoder
from juzhen.families.late.scores import TokenVectors
from juzhen.metrics.ranking import COSINE_TEMPERATURE


class MaxSimPlan(EncodingPlan):
    """Encodes the first text of each row as a query and the others as documents, each distinct text once.

    Attributes:
        vectors: Of the rows of `examples`, filled by the evaluator. dim × 4 bytes for each token.
    """

    temperature = COSINE_TEMPERATURE

    def __init__(
        self, sets: Sets, tasks: Sequence[TransferTask] = (), *, vectors: Callable[[int], Any] = TokenVectors
    ) -> None:
        super().__init__(sets)
        union = SentenceUnion(self.sets, ([*ranking.queries, *ranking.corpus] for ranking in self.searched))
        self._compared = [union.comparisons(number) for number in range(len(self.sets))]
        self._of_rankings = [
            np.split(numbers, [len(ranking.queries)])
            for ranking, numbers in zip(self.searched, union.numbers[len(self.sets) :], strict=True)
        ]
        used = np.zeros((2, len(union.examples)), dtype=bool)
        of_sets = [(compared.first, compared.second) for compared in self._compared]
        for queries, documents in (*of_sets, *self._of_rankings):
            used[0, queries] = used[1, documents] = True
        self.sentences = union.examples.sentences
        read, numbers = np.nonzero(used)
        self._places = np.where(used, used.ravel().cumsum().reshape(used.shape) - 1, -1)
        texts = [self.sentences[number] for number in numbers.tolist()]
        self.sentences, self.pending = texts, np.arange(len(texts))
        self.vectors = vectors(len(texts))
        sides = np.where(read == 0, Side.QUERY, Side.DOCUMENT).astype(np.int8)
        examples = replace(
            union.examples,
            name=f"tokens {id(self)}",
            sentences=texts,
            columns={"text": np.arange(len(texts), dtype=np.int32)},
            sides=sides,
        )
        self.examples = examples if texts else NOTHING
        self._numbers = union.numbers

    def tables(self) -> Tables:
        """Each set with the rows of its texts, read as documents or else as queries.

        Returns:
            (set, rows of its sentences) for each set.
        """
        positions = np.where(self._places[1] >= 0, self._places[1], self._places[0])
        return [
            (dataset, positions[numbers]) for dataset, numbers in zip(self.sets, self._numbers, strict=False)
        ]

    def scores(self, outputs: np.ndarray) -> list[np.ndarray]:
        self.vectors.gather()
        return [
            replace(
                compared,
                first=self._places[0][compared.first],
                second=self._places[1][compared.second],
            ).scored(partial(self.vectors.pairs, self.vectors))
            for compared in self._compared
        ]

    def matchers(self, outputs: np.ndarray) -> list[Matcher]:
        self.vectors.gather()
        return [
            self._matcher(self._places[0][queries], self._places[1][documents])
            for queries, documents in self._of_rankings
        ]

    def _matcher(
        self, queries: Int[np.ndarray, "queries"], documents: Int[np.ndarray, "documents"]
    ) -> Matcher:
        def score(
            numbers: np.ndarray, candidates: np.ndarray | None
        ) -> Float[np.ndarray, "queries documents"]:
            chosen = documents if candidates is None else documents[candidates]
            return self.vectors.matrix(self.vectors, queries[numbers], chosen)

        return score


class MaxSimEvaluator(Evaluator):
    """An encoder of token vectors, or with one vector of length 1 for each text, whose MaxSim is their cosine.

    Its outputs are the vectors. The plan keeps them.

    Args:
        encoder: The encoder.
    """

    unscored = UNSCORED_BY_TOKENS
    plan_type = MaxSimPlan

    def __init__(self, encoder: Any) -> None:
        self.encoder = encoder
        self._plans: WeakValueDictionary[str, Any] = WeakValueDictionary()

    def _vectors(self, count: int) -> Any:
        """Vectors of `count` texts, to be filled by `output`."""
        return TokenVectors(count, sums=self.encoder.sums)

    def plan(self, sets: Sets, tasks: Sequence[TransferTask] = ()) -> MaxSimPlan:
        plan = self.plan_type(sets, tasks, vectors=self._vectors)
        self._plans[plan.examples.name] = plan.vectors
        return plan

    def output(self, batch: Batch) -> Float[Tensor, "batch one"]:
        if batch.task != NOTHING.name:
            vectors, counts = self.encoder.scored_vectors(batch.tokens)
            columns = batch.columns["text"].cpu().numpy()
            parts = np.split(vectors, np.cumsum(counts)[:-1])
            chosen = [parts[column] for column in columns.tolist()]
            self._plans[batch.task].take(
                batch.rows.cpu().numpy(), np.concatenate(chosen), np.array([*map(len, chosen)])
            )
        return torch.zeros(len(batch), 1)

    def read_query(self, query: str, symmetric: bool | None) -> None:
        self.encoder.encode_query(query)


class QueryDocumentEvaluator(MaxSimEvaluator):
    """An encoder with separate weights for queries and documents."""

    unscored = UNSCORED_BY_SIDES


class MultiVectorEncoders(AskingEncoders):
    """Encoders to one vector per token. The first text of a row is the query, the others are documents."""

    unscored = MaxSimEvaluator.unscored
    described = "an encoder of token vectors"
    instead_of_export = (
        "Copy its folder, which PyLate and the MultiVectorEncoder of sentence-transformers 6 open"
    )

    encoder_type = MultiVectorEncoder
    evaluator_type = MaxSimEvaluator

    def holds(self, folder: Path) -> bool:
        return gives_tokens(folder)


class QueryDocumentEncoders(AskingEncoders):
    """Encoders with two sets of weights. The first text of a row is the query, the others are documents."""

    unscored = QueryDocumentEvaluator.unscored
    described = "an encoder with separate weights for queries and documents"
    instead_of_export = "Copy its folder, which sentence-transformers opens"
    save = Family.save
    encoder_type = QueryDocumentEncoder
    evaluator_type = QueryDocumentEvaluator

    def holds(self, folder: Path) -> bool:
        return gives_routes(folder)
