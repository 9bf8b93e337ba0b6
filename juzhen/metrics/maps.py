"""Maps of a space in two dimensions: PCA and t-SNE of embeddings at length 1, so that near is alike by cosine."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float
from scipy.linalg import orthogonal_procrustes

from juzhen.core.errors import UserError, require_choice
from juzhen.metrics.geometry import explained_variance, unit

PCA, TSNE = "pca", "tsne"
TITLES = {PCA: "PCA", TSNE: "t-SNE"}
FEWEST = {PCA: 3, TSNE: 10}
"""Texts that a map needs: with fewer, t-SNE has no neighbourhoods to keep."""
PERPLEXITY = 30
"""Of t-SNE, as its authors have it; of few texts (n − 1) / 3."""

Map = Float[np.ndarray, "texts two"]


def require_maps(methods: Sequence[str], num_texts: int) -> None:
    """Raises UserError for an unknown map, and for one that cannot be drawn of so many texts."""
    for method in methods:
        require_choice("map", method, FEWEST)
        if num_texts < FEWEST[method]:
            raise UserError(
                f"{TITLES[method]} of {num_texts} texts: a map by it needs at least {FEWEST[method]}; give more texts"
            )


def project(embeddings: Float[np.ndarray, "texts dim"], method: str, *, seed: int) -> Map:
    """The map of one space; the same seed gives the same map. Where all embeddings are equal, so are the points."""
    vectors = unit(embeddings)
    if not len(explained_variance(vectors)):
        return np.zeros((len(vectors), 2))
    return np.asarray(_METHODS[method](vectors, seed), dtype=np.float64)


def shown_share(embeddings: Float[np.ndarray, "texts dim"]) -> float | None:
    """Share of the variance that a map by PCA shows; None where there is none."""
    shares = explained_variance(unit(embeddings))
    return float(shares[:2].sum()) if len(shares) else None


def turned(points: Map, like: Map) -> Map:
    """A map turned and mirrored so that its points come as near as they can to those of another one.

    Distances within a map stay; which way it lies means nothing. (Orthogonal Procrustes, Schönemann 1966)
    """
    points, like = points - points.mean(axis=0), like - like.mean(axis=0)
    return points @ orthogonal_procrustes(points, like)[0]


def _pca(vectors: np.ndarray, seed: int) -> np.ndarray:
    from sklearn import decomposition

    return decomposition.PCA(2, svd_solver="full").fit_transform(vectors)


def _tsne(vectors: np.ndarray, seed: int) -> np.ndarray:
    from sklearn import manifold

    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    return manifold.TSNE(2, perplexity=perplexity, init="pca", random_state=seed).fit_transform(vectors)


_METHODS: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {PCA: _pca, TSNE: _tsne}
