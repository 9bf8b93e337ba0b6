"""Near duplicates: all pairs of texts whose character n-grams overlap enough, and no others.

A similarity join with prefix filtering (Chaudhuri, Ganti, Kaushik 2006, A Primitive Operator for Similarity
Joins, ICDE, and Bayardo, Ma, Srikant 2007, Scaling Up All Pairs Similarity Search, WWW). Two sets can only
reach the Jaccard index t when they share one of their ⌊(1 − t)·size⌋ + 1 rarest elements. So few pairs are
compared, and no pair is missed. The result does not depend on random hash functions as with MinHash.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from scipy import sparse

NEAR = 0.7
"""Jaccard index of character trigrams from which on two texts are near duplicates: one changed character in 17."""

_PAD = "\0"
_BITS = 21  # of a code point: three fit into 63 bits, so a trigram is a number and never collides
_BLOCK = 100_000
_PIECE = 4096
_VERIFIED_AT_ONCE = 200_000
_ROUNDING = 1e-9


class NearIndex:
    """Index of texts, to find near duplicates of other texts.

    Args:
        threshold: Least Jaccard index |A ∩ B| / |A ∪ B| of the sets of trigrams, each text padded by one
            mark.
    """

    def __init__(self, texts: Sequence[str], *, threshold: float = NEAR) -> None:
        rows, grams = _trigrams(texts)
        self.threshold = threshold
        self._vocabulary, tokens = np.unique(grams, return_inverse=True)
        frequency = np.bincount(tokens, minlength=len(self._vocabulary))
        self._rank = np.empty(len(self._vocabulary), dtype=np.int64)
        self._rank[np.argsort(frequency, kind="stable")] = np.arange(len(self._vocabulary))
        rows, values = _distinct(rows, self._rank[tokens], len(self._vocabulary))
        self._sizes = np.bincount(rows, minlength=len(texts))
        self._sets = self._matrix(rows, values, len(texts))
        chosen = self._in_prefix(rows, self._sizes)
        self._prefixes = self._matrix(rows[chosen], values[chosen], len(texts)).T.tocsr()

    def search(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return every near pair: indices into the index and indices into `texts`, both int64 (pairs,)."""
        pairs = [
            (indexed, start + other)
            for start in range(0, len(texts), _BLOCK)
            for indexed, other in self._search_block(texts[start : start + _BLOCK])
        ]
        if not pairs:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        return np.concatenate([row for row, _ in pairs]), np.concatenate([other for _, other in pairs])

    def _search_block(self, texts: Sequence[str]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        rows, values, num_unknown = self._known_sets(texts)
        sizes = np.bincount(rows, minlength=len(texts))
        # Trigrams unknown to the index are rarer than all others: they come first in every prefix.
        chosen = self._in_prefix(rows, sizes) & (values >= num_unknown)
        prefixes = self._matrix(rows[chosen], values[chosen] - num_unknown, len(texts))
        is_known = values >= num_unknown
        sets = self._matrix(rows[is_known], values[is_known] - num_unknown, len(texts))
        for start in range(0, len(texts), _PIECE):
            candidates = (prefixes[start : start + _PIECE] @ self._prefixes).tocoo()
            other, indexed = candidates.row.astype(np.int64) + start, candidates.col.astype(np.int64)
            smaller = np.minimum(sizes[other], self._sizes[indexed])
            larger = np.maximum(sizes[other], self._sizes[indexed])
            possible = smaller >= self.threshold * larger - _ROUNDING
            other, indexed = other[possible], indexed[possible]
            near = self._jaccard(sets, sizes, other, indexed) >= self.threshold - _ROUNDING
            yield indexed[near], other[near]

    def _known_sets(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, int]:
        """Distinct trigrams by row and rising rank. Those unknown to the index are below `num_unknown`."""
        rows, grams = _trigrams(texts)
        distinct, tokens = np.unique(grams, return_inverse=True)
        positions = np.searchsorted(self._vocabulary, distinct)
        positions[positions == len(self._vocabulary)] = 0
        is_known = np.zeros(len(distinct), dtype=bool)
        if len(self._vocabulary):
            is_known = self._vocabulary[positions] == distinct
        num_unknown = len(distinct)
        order = np.arange(num_unknown)
        order[is_known] = num_unknown + self._rank[positions[is_known]]
        rows, values = _distinct(rows, order[tokens], num_unknown + len(self._vocabulary))
        return rows, values, num_unknown

    def _in_prefix(self, rows: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """True for the elements of concatenated sets that belong to their set's prefix."""
        starts = np.cumsum(sizes) - sizes
        length = sizes - np.ceil(self.threshold * sizes - _ROUNDING).astype(np.int64) + 1
        return np.arange(len(rows)) - starts[rows] < length[rows]

    def _matrix(self, rows: np.ndarray, values: np.ndarray, num_rows: int) -> sparse.csr_matrix:
        shape = (num_rows, len(self._vocabulary))
        starts = np.searchsorted(rows, np.arange(num_rows + 1))
        return sparse.csr_matrix((np.ones(len(rows), dtype=np.int32), values, starts), shape=shape)

    def _jaccard(
        self, sets: sparse.csr_matrix, sizes: np.ndarray, other: np.ndarray, indexed: np.ndarray
    ) -> np.ndarray:
        shared = np.zeros(len(indexed), dtype=np.int64)
        for start in range(0, len(indexed), _VERIFIED_AT_ONCE):
            piece = slice(start, start + _VERIFIED_AT_ONCE)
            shared[piece] = sets[other[piece]].multiply(self._sets[indexed[piece]]).sum(axis=1).A1
        return shared / (sizes[other] + self._sizes[indexed] - shared)


def _trigrams(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Row and trigram (three code points in one number) of every position. A text of n characters has n."""
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    joined = _PAD + (_PAD * 2).join(texts) + _PAD
    points = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.int64)
    grams = (points[:-2] << (2 * _BITS)) | (points[1:-1] << _BITS) | points[2:]
    rows = np.repeat(np.arange(len(texts)), lengths)
    return rows, grams[np.arange(len(rows)) + 2 * rows]


def _distinct(rows: np.ndarray, values: np.ndarray, num_values: int) -> tuple[np.ndarray, np.ndarray]:
    """Each (row, value) once, sorted by row and then by value."""
    keys = np.sort(rows * max(num_values, 1) + values)
    keys = keys[np.diff(keys, prepend=-1) > 0]
    return np.divmod(keys, max(num_values, 1))
