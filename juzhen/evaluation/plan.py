"""What an encoder must see so that several sets can be scored."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Int

from juzhen.core.examples import JUDGED, TEXT_COLUMNS, Examples, Kind
from juzhen.data.rankings import RankingSet
from juzhen.data.retrieval import as_ranking
from juzhen.data.transfer import TransferTask
from juzhen.metrics.transfer import Features

DEPTH = 100
"""Documents that are kept of each query's ranking."""

QUERIES_AT_ONCE = 256
"""Queries that are compared with a whole corpus at a time."""

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
        rows = [one for one in sets if isinstance(one, Examples) and one.kind not in JUDGED]
        self.sets = [one for one in rows if len(TEXT_COLUMNS[one.kind]) > 1]
        self.tasks = list(tasks)

    @abstractmethod
    def scores(self, outputs: np.ndarray) -> list[np.ndarray]:
        """One similarity per row of each set, from the outputs for `examples` in order.

        (rows, candidates) where an anchor is compared with several texts, see `juzhen.data.comparisons`
        """

    def ranked(self, outputs: np.ndarray) -> list[Int[np.ndarray, "queries depth"]]:
        """For each ranking the documents of every query, best first; −1 where a list has ended."""
        return [
            ranked_lists(one, score)
            for one, score in zip(self.rankings, self._matchers(outputs), strict=True)
        ]

    def features(self, outputs: np.ndarray) -> list[dict[str, Features]]:
        """For each task: split → what a classifier sees of its rows."""
        return []

    @abstractmethod
    def _matchers(self, outputs: np.ndarray) -> "list[Matcher]":
        """For each ranking what scores its queries with its documents."""


Matcher = Callable[[np.ndarray, np.ndarray | None], Float[np.ndarray, "queries documents"]]
"""Numbers of queries and of documents (None: all) → their scores, higher = closer."""


def ranked_lists(one: RankingSet, score: Matcher) -> Int[np.ndarray, "queries depth"]:
    """The DEPTH best documents of each query; of equal scores the document with the lower number comes first."""
    queries, lists = np.arange(len(one.queries)), []
    if one.candidates is None:
        for start in range(0, len(queries), QUERIES_AT_ONCE):
            scores = score(queries[start : start + QUERIES_AT_ONCE], None)
            lists += list(np.argsort(-scores, axis=1, kind="stable")[:, :DEPTH])
    else:
        for query, named in enumerate(one.candidates):
            documents = np.unique(named)
            order = np.argsort(-score(queries[query : query + 1], documents)[0], kind="stable")
            lists.append(documents[order][:DEPTH])
    ranked = np.full((len(queries), max(map(len, lists), default=0)), -1, dtype=np.int64)
    for query, documents in enumerate(lists):
        ranked[query, : len(documents)] = documents
    return ranked
