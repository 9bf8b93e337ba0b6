"""Similar texts: closest pairs, communities and clusters of embeddings, by the cosine.

Embeddings are arrays or tensors as returned by `SentenceEncoder.encode`. All pairs are compared block by block. Memory
grows with the number of texts, not of pairs, except for `cluster` with `min_score`.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from juzhen.core.columns import as_vectors
from juzhen.core.errors import UserError, check_count, require_number
from juzhen.encoders.peer_options import takes_peer_options
from juzhen.encoders.pooling import pair_scores, require_finite_vectors, unit

ROWS_AT_ONCE = 256
COLUMNS_AT_ONCE = 32_768
"""Their product is the largest block of scores, 34 MB."""


ROUNDING = 1e-6
"""Largest difference between the products of equal pairs, by their place in a block."""


class Paraphrase(NamedTuple):
    """Two texts and their cosine.

    Args:
        first, second: Numbers of the texts, from 0, the lower one first.
        score: The cosine.
    """

    first: int
    second: int
    score: float


@takes_peer_options
def mine_paraphrases(vectors: Any, *, max_pairs: int = 500_000, min_score: float = -1.0) -> list[Paraphrase]:
    """Find the closest pairs of texts.

    Args:
        vectors: Embeddings (texts, dim).
        max_pairs: Largest number of pairs.
        min_score: Drop pairs whose cosine is lower.

    Returns:
        Pairs by falling score. Ties are ordered by text numbers.

    Raises:
        UserError: `vectors` is not a matrix of finite numbers, or `min_score` is no cosine.

    Example:
        >>> mine_paraphrases(np.eye(3) + 0.5, max_pairs=1)[0][:2]
        (0, 1)
    """
    require_number("min_score", min_score, -1, 1)
    check_count("max_pairs", max_pairs)
    vectors = _unit_vectors(vectors)
    (rows, columns), scores = np.empty((2, 0), dtype=np.int64), np.empty(0, dtype=np.float32)
    least = np.float32(min_score)
    for block_rows, start, block in _blocks(vectors, upper=True):
        is_later = start + np.arange(block.shape[1]) > block_rows[:, None]
        positions = np.nonzero(is_later & (block >= least - ROUNDING))
        rows = np.concatenate([rows, block_rows[positions[0]]])
        columns = np.concatenate([columns, start + positions[1]])
        scores = np.concatenate([scores, block[positions]])
        if len(scores) > 2 * max_pairs:
            least = np.partition(scores, -max_pairs)[-max_pairs]
            stays = scores >= least - ROUNDING
            rows, columns, scores = rows[stays], columns[stays], scores[stays]
    exact = pair_scores(vectors, vectors, rows, columns)  # equal pairs have equal scores, wherever they stand
    order = np.lexsort((columns, rows, -exact))[:max_pairs]
    order = order[exact[order] >= min_score]
    pairs = zip(rows[order].tolist(), columns[order].tolist(), exact[order].tolist(), strict=True)
    return [Paraphrase(*pair) for pair in pairs]


@takes_peer_options
def detect_communities(vectors: Any, *, min_score: float = 0.75, min_size: int = 10) -> list[list[int]]:
    """Group texts around a central text that all of them are close to.

    Central texts are taken by falling number of neighbours. No text is in two groups.

    Args:
        vectors: Embeddings (texts, dim).
        min_score: Lowest cosine between a text and the central text.
        min_size: Drop groups with fewer texts.

    Returns:
        Groups of text numbers, the largest first. The central text comes first, then the others by falling score.

    Raises:
        UserError: `vectors` is not a matrix of finite numbers, or `min_score` is no cosine.

    Example:
        >>> detect_communities(np.array([[1, 0], [1, 0.1], [0, 1]]), min_score=0.9, min_size=2)
        [[0, 1]]
    """
    check_count("min_size", min_size)
    require_number("min_score", min_score, -1, 1)
    vectors = _unit_vectors(vectors)
    counts = np.zeros(len(vectors), dtype=np.int64)
    for rows, _, block in _blocks(vectors):
        counts[rows] += (block >= min_score).sum(axis=1)
    middles = np.argsort(-counts, kind="stable")
    middles = middles[counts[middles] >= min_size]
    is_free = np.ones(len(vectors), dtype=bool)
    groups: list[list[int]] = []
    for middle in middles.tolist():
        if not is_free[middle]:
            continue
        scores = vectors @ vectors[middle]
        scores[middle] = np.inf
        members = np.flatnonzero((scores >= min_score) & is_free)
        if len(members) >= min_size:
            groups.append(members[np.argsort(-scores[members], kind="stable")].tolist())
            is_free[members] = False
    return sorted(groups, key=len, reverse=True)


@takes_peer_options
def cluster(
    vectors: Any, count: int | None = None, *, min_score: float | None = None, seed: int = 0
) -> Int[np.ndarray, "texts"]:
    """Assign each text to a cluster.

    Args:
        vectors: Embeddings (texts, dim).
        count: Number of clusters, by k-means on the unit sphere (scikit-learn).
        min_score: Join clusters while the mean cosine of their texts is at least this. Memory grows with the
            square of the number of texts. Give either `count` or `min_score`.
        seed: Seed of k-means.

    Returns:
        Cluster number of each text, int.

    Raises:
        UserError: Both or neither of `count` and `min_score`, or one outside its range.

    Example:
        >>> len({*cluster(np.array([[1, 0], [1, 0.1], [0, 1]]), min_score=0.9).tolist()})
        2
    """
    from sklearn.cluster import AgglomerativeClustering, KMeans

    vectors = _unit_vectors(vectors)
    check_count("seed", seed, least=0, most=2**32 - 1)  # as scikit-learn takes it
    if (count is None) == (min_score is None):
        raise UserError("cluster: give count, or min_score")
    if min_score is not None:
        require_number("min_score", min_score, -1, 1)
        options = {"metric": "cosine", "linkage": "average", "distance_threshold": 1 - min_score}
        if len(vectors) < 2:
            return np.zeros(len(vectors), dtype=np.int64)
        return np.asarray(AgglomerativeClustering(n_clusters=None, **options).fit_predict(vectors))
    check_count("count", count, most=len(vectors))
    return np.asarray(KMeans(count, n_init=3, random_state=seed).fit_predict(vectors))


def _unit_vectors(values: Any) -> Float[np.ndarray, "texts dim"]:
    vectors = as_vectors(values)
    if vectors is None or vectors.ndim != 2:
        raise UserError("vectors: expected a matrix (texts, dim), as encoder.encode(texts) gives it")
    require_finite_vectors(vectors, "vectors")
    return unit(vectors)


def _blocks(
    vectors: Float[np.ndarray, "texts dim"], *, upper: bool = False
) -> Iterator[tuple[Int[np.ndarray, "rows"], int, Float[np.ndarray, "rows columns"]]]:
    """Numbers of some texts, the first of others, and all their products. upper: others that come later, at least."""
    for start in range(0, len(vectors), ROWS_AT_ONCE):
        rows = np.arange(start, min(start + ROWS_AT_ONCE, len(vectors)))
        for first in range(start if upper else 0, len(vectors), COLUMNS_AT_ONCE):
            yield rows, first, vectors[rows] @ vectors[first : first + COLUMNS_AT_ONCE].T
