"""From scores of queries with documents to the best documents of each query."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

from juzhen.core.errors import UserError
from juzhen.data.rankings import RankingSet
from juzhen.encoders.search import Best

SCORES_AT_ONCE = 2**24
"""Scores of queries with a whole corpus that are held at a time, 64 MiB: never those of all queries."""

MOST_QUERIES = 256
"""Queries that are compared with a small corpus at a time."""

Matcher = Callable[[np.ndarray, np.ndarray | None], Float[np.ndarray, "queries documents"]]
"""Numbers of queries and of documents (None: all) → their scores, higher = closer."""


def ranked_lists(one: RankingSet, score: Matcher, *, depth: int) -> Int[np.ndarray, "queries depth"]:
    """The `depth` best documents of each query, −1 where there are fewer.

    Of equal scores the document with the lower number comes first; trec_eval would take the last id of the alphabet.
    Raises UserError for scores that are no numbers.
    """
    queries, depth = np.arange(len(one.queries)), min(depth, len(one.corpus))
    ranked = np.full((len(queries), depth), -1, dtype=np.int32)
    at_once = 1 if one.candidates else max(1, min(MOST_QUERIES, SCORES_AT_ONCE // len(one.corpus)))
    for start in range(0, len(queries), at_once):
        some = queries[start : start + at_once]
        documents = None if one.candidates is None else np.unique(one.candidates[start])
        scores = score(some, documents)
        require_finite(scores, one.column)
        numbers = np.arange(len(one.corpus)) if documents is None else documents
        if one.own is not None:
            scores = np.where(numbers == one.own[some, None], -np.inf, scores)
        best = Best(len(some), depth)
        best.add(scores, 0)
        places, _ = best.lists()
        ranked[some] = np.where(places < 0, -1, numbers[places])
    return ranked


def require_finite(scores: np.ndarray, column: str) -> None:
    """Raises UserError for scores that are no numbers any more."""
    if not np.isfinite(scores).all():
        raise UserError(
            f"{column}: the scores are no finite numbers any more: training has left what the precision can hold; "
            "optimizer.lr too high is the usual reason, or optimizer.clip_norm=null"
        )
