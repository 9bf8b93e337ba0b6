"""Token vectors behind centroids: documents that are near by these are scored exactly, the others are not looked at.

The first stages of PLAID (Santhanam et al. 2022, https://arxiv.org/abs/2205.09707); vectors are kept as they are.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from juzhen.core.commands import require_packages
from juzhen.core.errors import UserError
from juzhen.encoders.embedding_cache import encoder_digest
from juzhen.encoders.search import on_one_thread, require_encoder
from juzhen.encoders.token_table import runs
from juzhen.families.late.scores import TokenVectors

PROBED = (2, 4)
"""Centroids that are looked at for each token of a query: where at most FEW documents are asked for, and where more."""

FEW = 10

LEAST = 64
"""Documents that are scored exactly, at least; else four times as many as are asked for."""

PER_CENTROID = 64
"""Tokens of each centroid that k-means looks at, at most."""


class TokenIndex:
    """Documents in lists by the centroids nearest to their tokens: 8 bytes for a token beside its vector.

    documents  vectors of the tokens of each document
    encoder    what made them; another one is refused when it searches here. None: it is not looked at

    The centroids are 4 · √tokens, by k-means on one thread: the same documents give the same index. Raises UserError
    where FAISS is not installed, and without documents.
    """

    def __init__(self, documents: TokenVectors, *, encoder: Any = None) -> None:
        require_packages("an index of token vectors", "faiss", extra="search")
        import faiss

        if not len(documents):
            raise UserError("corpus: no documents; an index needs one at least")
        self.documents = documents
        self._digest = None if encoder is None else encoder_digest(encoder, encoder.facts)
        vectors = [documents[row] for row in range(len(documents))]
        self._sizes = np.array([len(rows) for rows in vectors], dtype=np.int64)
        self._starts = np.cumsum(self._sizes) - self._sizes
        tokens = np.concatenate(vectors)
        count = min(max(int(4 * np.sqrt(len(tokens))), 1), len(tokens))
        with on_one_thread(faiss):
            means = faiss.Kmeans(
                tokens.shape[1],
                count,
                niter=8,
                seed=0,
                spherical=True,
                min_points_per_centroid=1,
                max_points_per_centroid=PER_CENTROID,
            )
            means.train(tokens)
            self._codes = means.index.search(tokens, 1)[1][:, 0].astype(np.int32)
        self._centroids: Any = means.centroids  # (centroids, dim)
        owners = np.repeat(np.arange(len(vectors), dtype=np.int32), self._sizes)
        self._owners = owners[np.argsort(self._codes, kind="stable")]
        self._ends = np.cumsum(np.bincount(self._codes, minlength=count))

    def __len__(self) -> int:
        return len(self.documents)

    def check(self, encoder: Any) -> None:
        """Raises UserError where the vectors are known to be of other weights or settings."""
        require_encoder(self._digest, encoder, encoder.facts)

    def search(
        self,
        queries: TokenVectors,
        numbers: Int[np.ndarray, "queries"],
        k: int,
        *,
        advance: Callable[[int], None] = lambda count: None,
    ) -> tuple[Int[np.ndarray, "queries k"], Float[np.ndarray, "queries k"]]:
        """The `k` best documents of each query and their exact scores, best first; −1 where a list has ended.

        numbers  which of `queries` ask
        advance  is told of each query that is done
        """
        documents = np.full((len(numbers), k), -1)
        scores = np.full((len(numbers), k), -np.inf, dtype=np.float32)
        for row, number in enumerate(numbers.tolist()):
            chosen = np.sort(self._nearest(queries[number], max(4 * k, LEAST), PROBED[k > FEW]))
            exact = queries.matrix(self.documents, np.array([number]), chosen)[0]
            order = np.argsort(-exact, kind="stable")[:k]
            documents[row, : len(order)], scores[row, : len(order)] = chosen[order], exact[order]
            advance(1)
        return documents, scores

    def _nearest(
        self, query: Float[np.ndarray, "tokens dim"], count: int, probed: int
    ) -> Int[np.ndarray, "some"]:
        """So many documents at most, by the MaxSim of the query with the centroids of their tokens."""
        if len(self.documents) <= count:
            return np.arange(len(self.documents))
        products = self._centroids @ query.T
        documents = self._beside(products, probed)
        if len(documents) <= count:
            return documents
        sizes = self._sizes[documents]
        nearest = products[self._codes[runs(self._starts[documents], sizes)]]
        scores = np.maximum.reduceat(nearest, np.cumsum(sizes) - sizes, axis=0).sum(axis=1)
        return documents[np.argpartition(-scores, count)[:count]]

    def _beside(
        self, products: Float[np.ndarray, "centroids tokens"], probed: int
    ) -> Int[np.ndarray, "some"]:
        """Documents with a token in the lists of the centroids nearest to some token of the query."""
        near = np.argpartition(-products, min(probed, len(products)) - 1, axis=0)[:probed]
        lists = np.unique(near)
        sizes = np.diff(self._ends, prepend=0)[lists]
        is_near = np.zeros(len(self.documents), dtype=bool)
        is_near[self._owners[runs(self._ends[lists] - sizes, sizes)]] = True
        return np.flatnonzero(is_near)
