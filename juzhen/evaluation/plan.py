"""What an encoder must see so that several sets can be scored."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Int

from juzhen.core.errors import UserError
from juzhen.core.examples import JUDGED, TEXT_COLUMNS, Examples, Kind
from juzhen.data.rankings import RankingSet
from juzhen.data.retrieval import as_ranking
from juzhen.data.transfer import TransferTask
from juzhen.metrics.transfer import Features

SCORES_AT_ONCE = 2**24
"""Scores of queries with a whole corpus that are held at a time, 64 MiB: never those of all queries."""

MOST_QUERIES = 256
"""Queries that are compared with a small corpus at a time."""

NOTHING = Examples("nothing", "evaluation", Kind.SENTENCE, ["-"], {"text": np.zeros(1, np.int32)}, None)
"""What passes through a model, in name, where a plan needs nothing of it; a pass without rows would be skipped."""


Sets = Sequence[Examples | RankingSet]


class EvaluationPlan(ABC):
    """What goes through an encoder once, and how its outputs become scores.

    sets         those in which texts are compared: one score per row
    rankings     those in which queries look for documents: one ranked list per query
    tasks        those whose classes a classifier is to tell apart
    examples     the rows that the encoder must see; each once, whatever the number of sets it appears in
    temperature  divides scores where a softmax is taken of them: that of cosines, or 1 for logits
    """

    temperature: float
    examples: Examples

    def __init__(self, sets: Sets, tasks: Sequence[TransferTask] = ()) -> None:
        ranked = [one for one in sets if isinstance(one, RankingSet) or one.kind in JUDGED]
        self.rankings = [as_ranking(one) if isinstance(one, Examples) else one for one in ranked]
        for one in self.rankings:
            if not one.queries or not one.corpus:
                raise UserError(
                    f"{one.column}: {len(one.queries)} queries and {len(one.corpus)} documents; expected one of each "
                    "at least"
                )
        rows = [one for one in sets if isinstance(one, Examples) and one.kind not in JUDGED]
        self.sets = [one for one in rows if len(TEXT_COLUMNS[one.kind]) > 1]
        self.tasks = list(tasks)

    @abstractmethod
    def scores(self, outputs: np.ndarray) -> list[np.ndarray]:
        """One similarity per row of each set, from the outputs for `examples` in order.

        (rows, candidates) where an anchor is compared with several texts, see `juzhen.data.comparisons`
        """

    def ranked(self, outputs: np.ndarray, *, depth: int) -> list[Int[np.ndarray, "queries depth"]]:
        """For each ranking the documents of every query, best first; −1 where a list has ended."""
        return [
            ranked_lists(one, score, depth=depth)
            for one, score in zip(self.rankings, self.matchers(outputs), strict=True)
        ]

    def features(self, outputs: np.ndarray) -> list[dict[str, Features]]:
        """For each task: split → what a classifier sees of its rows."""
        return []

    @abstractmethod
    def matchers(self, outputs: np.ndarray) -> "list[Matcher]":
        """For each ranking what scores its queries with its documents, from the outputs for `examples` in order."""


Matcher = Callable[[np.ndarray, np.ndarray | None], Float[np.ndarray, "queries documents"]]
"""Numbers of queries and of documents (None: all) → their scores, higher = closer."""


def ranked_lists(one: RankingSet, score: Matcher, *, depth: int) -> Int[np.ndarray, "queries depth"]:
    """The `depth` best documents of each query, −1 where there are fewer.

    Of equal scores the document with the lower number comes first; trec_eval would take the last id of the alphabet.
    Raises UserError for scores that are no numbers.
    """
    queries = np.arange(len(one.queries))
    ranked = np.full((len(queries), min(depth, len(one.corpus))), -1, dtype=np.int32)
    at_once = 1 if one.candidates else max(1, min(MOST_QUERIES, SCORES_AT_ONCE // len(one.corpus)))
    for start in range(0, len(queries), at_once):
        some = queries[start : start + at_once]
        documents = None if one.candidates is None else np.unique(one.candidates[start])
        scores = score(some, documents)
        require_finite(scores, one.column)
        numbers = np.arange(len(one.corpus)) if documents is None else documents
        if one.own is not None:
            scores = np.where(numbers == one.own[some, None], -np.inf, scores)
        for query, row in zip(some.tolist(), scores, strict=True):
            best = best_places(row, depth)
            ranked[query, : len(best)] = numbers[best]
    return ranked


def best_places(scores: Float[np.ndarray, "documents"], depth: int) -> Int[np.ndarray, "depth"]:
    """Places of the highest scores, the highest first; equal ones in order. −inf is none."""
    kept = np.flatnonzero(scores > -np.inf)
    if len(scores) > depth:
        least = np.partition(scores, -depth)[-depth]
        kept = kept[scores[kept] >= least]
    return kept[np.argsort(-scores[kept], kind="stable")][:depth]


def require_finite(scores: np.ndarray, column: str) -> None:
    """Raises UserError for scores that are no numbers any more."""
    if not np.isfinite(scores).all():
        raise UserError(
            f"{column}: the scores are no finite numbers any more: training has left what the precision can hold; "
            "optimizer.lr too high is the usual reason, or optimizer.clip_norm=null"
        )
