"""From scores of queries with documents to the best documents of each query."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

from juzhen.core.errors import UserError
from juzhen.data.rankings import RankingSet
from juzhen.encoders.search import Best
from juzhen.metrics.ranking import FirstAnswers, RankedLists

SCORES_AT_ONCE = 2**24
"""Scores of queries with a whole corpus that are held at a time, 64 MiB: never those of all queries."""

MOST_QUERIES = 256
"""Queries that are compared with a small corpus at a time."""

Matcher = Callable[[np.ndarray, np.ndarray | None], Float[np.ndarray, "queries documents"]]
"""Numbers of queries and of documents (None: all) → their scores, higher = closer."""


def ranked_lists(ranking: RankingSet, score: Matcher, *, depth: int) -> RankedLists:
    """The `depth` best documents of each query, −1 where there are fewer, and which of them score alike.

    Of equal scores the document with the lower number comes first, which no measure heeds. Raises UserError for scores
    that are no numbers.
    """
    queries, depth = np.arange(len(ranking.queries)), min(depth, len(ranking.corpus))
    ranked = np.full((len(queries), depth), -1, dtype=np.int32)
    values = np.full(ranked.shape, -np.inf, dtype=np.float32)
    beyond, answers = np.zeros(len(queries), dtype=np.int64), [np.empty((2, 0), dtype=np.int64)]
    at_once = 1 if ranking.candidates else _queries_at_once(ranking)
    for start in range(0, len(queries), at_once):
        portion = queries[start : start + at_once]
        documents = None if ranking.candidates is None else np.unique(ranking.candidates[start])
        scores = np.asarray(score(portion, documents), dtype=np.float32)
        require_finite(scores, ranking.column)
        numbers = np.arange(len(ranking.corpus)) if documents is None else documents
        if ranking.own is not None:
            scores = np.where(numbers == ranking.own[portion, None], np.float32(-np.inf), scores)
        best = Best(len(portion), depth)
        best.add(scores, 0)
        positions, values[portion] = best.lists()
        ranked[portion] = np.where(positions < 0, -1, numbers[positions])
        last = values[portion, -1:]
        beyond[portion] = (scores == last).sum(axis=1) - (values[portion] == last).sum(axis=1)
        beyond[portion[np.isneginf(last[:, 0])]] = 0
        for query in portion[beyond[portion] > 0].tolist():
            missing = np.setdiff1d(np.fromiter(ranking.relevant[query], np.int64), ranked[query])
            where = np.minimum(np.searchsorted(numbers, missing), len(numbers) - 1)
            missing = missing[
                (numbers[where] == missing) & (scores[query - start, where] == values[query, -1])
            ]
            answers.append(np.stack([np.full(len(missing), query), missing]))
    return RankedLists.of(ranked, values, beyond, np.concatenate(answers, axis=1))


def first_answers(ranking: RankingSet, score: Matcher) -> FirstAnswers:
    """Where the first answer of each query stands. Raises UserError for scores that are no numbers."""
    parts = []
    at_once = _queries_at_once(ranking)
    for start in range(0, len(ranking.queries), at_once):
        relevant = ranking.relevant[start : start + at_once]
        scores = np.asarray(score(np.arange(start, start + len(relevant)), None), dtype=np.float32)
        require_finite(scores, ranking.column)
        answers = np.zeros(scores.shape, dtype=bool)
        answers[
            np.repeat(np.arange(len(relevant)), [*map(len, relevant)]),
            np.fromiter((document for documents in relevant for document in documents), dtype=np.int64),
        ] = True
        right = np.where(answers, scores, -np.inf).max(axis=1)
        other = np.where(answers, -np.inf, scores).max(axis=1)
        is_equal = scores == right[:, None]
        parts.append(
            (
                right,
                np.where(np.isneginf(other), np.nan, other),
                ((scores > right[:, None]) & ~answers).sum(axis=1),
                (is_equal & answers).sum(axis=1),
                (is_equal & ~answers).sum(axis=1),
            )
        )
    return FirstAnswers(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def _queries_at_once(ranking: RankingSet) -> int:
    return max(1, min(MOST_QUERIES, SCORES_AT_ONCE // len(ranking.corpus)))


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
    distinct, row_places = np.unique(rows, return_inverse=True)
    if len(distinct) == len(rows):
        documents = embeddings[rows]
        return lambda portion, candidates: (
            queries[portion] @ (documents if candidates is None else documents[candidates]).T
        )
    documents = embeddings[distinct]

    def score(portion: np.ndarray, candidates: np.ndarray | None) -> Float[np.ndarray, "queries documents"]:
        if candidates is None:
            return (queries[portion] @ documents.T)[:, row_places]
        needed, where = np.unique(row_places[candidates], return_inverse=True)
        return (queries[portion] @ documents[needed].T)[:, where]

    return score
