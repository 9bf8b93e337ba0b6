"""From scores of queries with documents to the best documents of each query."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

from juzhen.core.errors import UserError
from juzhen.data.rankings import RankingSet
from juzhen.encoders.search import Best
from juzhen.metrics.ranking import RankedLists

SCORES_AT_ONCE = 2**24
"""Scores of queries with a whole corpus that are held at a time, 64 MiB: never those of all queries."""

MOST_QUERIES = 256
"""Queries that are compared with a small corpus at a time."""

Matcher = Callable[[np.ndarray, np.ndarray | None], Float[np.ndarray, "queries documents"]]
"""Numbers of queries and of documents (None: all) → their scores, higher = closer."""


def ranked_lists(one: RankingSet, score: Matcher, *, depth: int) -> RankedLists:
    """The `depth` best documents of each query, −1 where there are fewer, and which of them score alike.

    Of equal scores the document with the lower number comes first, which no measure heeds. Raises UserError for scores
    that are no numbers.
    """
    queries, depth = np.arange(len(one.queries)), min(depth, len(one.corpus))
    ranked = np.full((len(queries), depth), -1, dtype=np.int32)
    values = np.full(ranked.shape, -np.inf, dtype=np.float32)
    beyond, answers = np.zeros(len(queries), dtype=np.int64), [np.empty((2, 0), dtype=np.int64)]
    at_once = 1 if one.candidates else max(1, min(MOST_QUERIES, SCORES_AT_ONCE // len(one.corpus)))
    for start in range(0, len(queries), at_once):
        some = queries[start : start + at_once]
        documents = None if one.candidates is None else np.unique(one.candidates[start])
        scores = np.asarray(score(some, documents), dtype=np.float32)
        require_finite(scores, one.column)
        numbers = np.arange(len(one.corpus)) if documents is None else documents
        if one.own is not None:
            scores = np.where(numbers == one.own[some, None], np.float32(-np.inf), scores)
        best = Best(len(some), depth)
        best.add(scores, 0)
        places, values[some] = best.lists()
        ranked[some] = np.where(places < 0, -1, numbers[places])
        last = values[some, -1:]
        beyond[some] = (scores == last).sum(axis=1) - (values[some] == last).sum(axis=1)
        beyond[some[np.isneginf(last[:, 0])]] = 0
        for query in some[beyond[some] > 0].tolist():
            known = np.setdiff1d(np.fromiter(one.relevant[query], np.int64), ranked[query])
            where = np.minimum(np.searchsorted(numbers, known), len(numbers) - 1)
            known = known[(numbers[where] == known) & (scores[query - start, where] == values[query, -1])]
            answers.append(np.stack([np.full(len(known), query), known]))
    return RankedLists.of(ranked, values, beyond, np.concatenate(answers, axis=1))


def require_finite(scores: np.ndarray, column: str) -> None:
    """Raises UserError for scores that are no numbers any more."""
    if not np.isfinite(scores).all():
        raise UserError(
            f"{column}: the scores are no finite numbers any more: training has left what the precision can hold; "
            "a learning rate that is too high is the usual reason, or gradients that are not clipped"
        )


def embedding_matcher(
    queries: Float[np.ndarray, "queries dim"],
    embeddings: Float[np.ndarray, "sentences dim"],
    rows: Int[np.ndarray, "documents"],
) -> Matcher:
    """The products with the embeddings of the documents, at `rows`; equal texts, which share a row, have equal ones.

    A product of floats depends on where in the matrix it stands, so each row is in it once.
    """
    distinct, places = np.unique(rows, return_inverse=True)
    if len(distinct) == len(rows):
        documents = embeddings[rows]
        return lambda some, others: queries[some] @ (documents if others is None else documents[others]).T
    documents = embeddings[distinct]

    def score(some: np.ndarray, others: np.ndarray | None) -> Float[np.ndarray, "queries documents"]:
        if others is None:
            return (queries[some] @ documents.T)[:, places]
        needed, where = np.unique(places[others], return_inverse=True)
        return (queries[some] @ documents[needed].T)[:, where]

    return score
