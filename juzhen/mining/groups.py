"""Texts that are alike: the closest pairs, communities and clusters of embeddings, by the cosine.

Embeddings are those that `SentenceEncoder.encode` gives, as an array or a tensor. All pairs are looked at, a block at a
time; memory grows with the number of texts, and not with that of pairs, but for `cluster` by a score.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from juzhen.core.columns import as_vectors
from juzhen.core.errors import UserError
from juzhen.encoders.pooling import pair_scores, require_finite_vectors, unit

ROWS_AT_ONCE = 256
COLUMNS_AT_ONCE = 32_768
"""Their product is the largest block of scores, 34 MB."""


ROUNDING = 1e-6
"""Largest difference between the products of equal pairs, by their place in a block."""


class Paraphrase(NamedTuple):
    """Two texts, by their numbers from 0, the lower one first, and their cosine."""

    first: int
    second: int
    score: float


def mine_paraphrases(vectors: Any, *, max_pairs: int = 500_000, min_score: float = -1.0) -> list[Paraphrase]:
    """The `max_pairs` closest pairs of texts, closest first; of equal scores the lower numbers come first.

    min_score  pairs below it are left out

    Raises UserError for what is no matrix of numbers.
    """
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


def detect_communities(vectors: Any, *, min_score: float = 0.75, min_size: int = 10) -> list[list[int]]:
    """Groups of texts around one that all of them are close to, the largest first; no text is in two.

    min_score  of a text and the one in the middle, which comes first; the others follow by falling scores
    min_size   smaller groups are left out, and so are texts that are close to nothing

    Texts in the middle are taken by falling numbers of neighbours. Raises UserError for what is no matrix of numbers.
    """
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


def cluster(
    vectors: Any, count: int | None = None, *, min_score: float | None = None, seed: int = 0
) -> Int[np.ndarray, "texts"]:
    """The number of the cluster of each text.

    count      clusters, by k-means on the sphere's points (scikit-learn)
    min_score  in its place: clusters are joined while the mean cosine between their texts is at least this; memory
               grows with the square of the number of texts

    Raises UserError for both, and for neither.
    """
    from sklearn.cluster import AgglomerativeClustering, KMeans

    vectors = _unit_vectors(vectors)
    if (count is None) == (min_score is None):
        raise UserError("cluster: give count, or min_score")
    if min_score is not None:
        options = {"metric": "cosine", "linkage": "average", "distance_threshold": 1 - min_score}
        if len(vectors) < 2:
            return np.zeros(len(vectors), dtype=np.int64)
        return np.asarray(AgglomerativeClustering(n_clusters=None, **options).fit_predict(vectors))
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
