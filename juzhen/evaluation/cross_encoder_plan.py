"""What a cross-encoder must see so that several sets can be scored."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int

from juzhen.core.errors import UserError
from juzhen.core.examples import Kind, SentenceUnion
from juzhen.data.rankings import RankingSet
from juzhen.data.transfer import TransferTask
from juzhen.evaluation.plan import NOTHING, EvaluationPlan, Sets
from juzhen.evaluation.ranked_lists import Matcher


class CrossEncoderPlan(EvaluationPlan):
    """Scores every distinct pair of several sets once; (a, b) and (b, a) are two pairs.

    Of what the model gives for a pair, the first number is its score; others are its class logits. Raises UserError
    for a ranking without candidates: each query would have to be read with each document.
    """

    temperature = 1.0

    def __init__(self, sets: Sets, tasks: Sequence[TransferTask] = ()) -> None:
        super().__init__(sets)
        union = SentenceUnion([*self.sets, *(one.texts for one in self.rankings)])
        self._compared = [union.comparisons(place) for place in range(len(self.sets))]
        pairs = [np.stack([one.first, one.second], axis=1) for one in self._compared]
        for place, one in enumerate(self.rankings, start=len(self.sets)):
            pairs.append(union.rows(place)["text"][_candidate_pairs(one)])
        distinct, rows = np.unique(
            np.concatenate([np.empty((0, 2), np.int64), *pairs]), axis=0, return_inverse=True
        )
        self._rows = np.split(rows.ravel(), np.cumsum([len(one) for one in pairs])[:-1])[: len(pairs)]
        first, second = distinct.astype(np.int32).T
        columns = {"text_a": first, "text_b": second}
        pairs_once = replace(union.examples, kind=Kind.SCORED_PAIR, columns=columns)
        self.examples = pairs_once if len(distinct) else NOTHING

    def scores(self, outputs: Float[np.ndarray, "pairs outputs"]) -> list[np.ndarray]:
        found = zip(self._compared, self._rows, strict=False)
        return [compared.shaped(outputs[rows, 0]) for compared, rows in found]

    def logits(self, outputs: Float[np.ndarray, "pairs outputs"]) -> list[Float[np.ndarray, "rows classes"]]:
        """Class logits per row of each set; without columns where the model has no classes."""
        return [outputs[rows, 1:] for rows in self._rows[: len(self.sets)]]

    def matchers(self, outputs: Float[np.ndarray, "pairs outputs"]) -> list[Matcher]:
        of_rankings = zip(self.rankings, self._rows[len(self.sets) :], strict=True)
        return [_matcher(one, outputs[rows, 0]) for one, rows in of_rankings]


def _candidates(one: RankingSet) -> list[Int[np.ndarray, "documents"]]:
    """The candidates of each query, each once. Raises UserError where there are none."""
    if one.candidates is None:
        raise UserError(
            f"{one.column}: a cross-encoder would have to read each of {len(one.queries):,} queries with each of "
            f"{len(one.corpus):,} documents; give candidates, or rank with a bi-encoder"
        )
    return [np.unique(named) for named in one.candidates]


def _candidate_pairs(one: RankingSet) -> Int[np.ndarray, "pairs 2"]:
    """Each query with each of its candidates, by their places in `one.texts`."""
    candidates = _candidates(one)
    queries = np.repeat(np.arange(len(one.queries)), [len(named) for named in candidates])
    return np.stack([queries, len(one.queries) + np.concatenate(candidates)], axis=1)


def _matcher(one: RankingSet, scores: Float[np.ndarray, "pairs"]) -> Matcher:
    ends = np.cumsum([len(named) for named in _candidates(one)])
    of_queries = np.split(scores, ends[:-1])
    return lambda some, others: np.stack([of_queries[query] for query in some])
