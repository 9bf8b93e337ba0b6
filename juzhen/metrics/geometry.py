"""Geometry of embedding spaces, and agreement of two spaces of the same texts."""

from collections.abc import Iterator

import numpy as np
import scipy
from jaxtyping import Float, Int

BLOCK = 1024
"""Rows whose similarities to all others are held at once."""

NUM_NEIGHBOURS = 5
POSITIVE_GRADE = 0.8
"""Pairs of at least this grade count as positive where alignment is measured: above 4 of 5, as in Gao et al. 2021."""


def unit(embeddings: np.ndarray) -> np.ndarray:
    """Scale each row to length 1, float64. Rows of zeros stay.

    Args:
        embeddings: Embeddings, (rows, dim).

    Returns:
        float64 array (rows, dim).
    """
    embeddings = np.asarray(embeddings, dtype=np.float64)
    lengths = np.linalg.norm(embeddings, axis=1, keepdims=True)
    return embeddings / np.where(lengths == 0, 1, lengths)


def norms(embeddings: np.ndarray) -> tuple[float | None, float | None]:
    """Mean length of the embeddings, and its sample standard deviation. None below one row, and below two.

    Args:
        embeddings: Embeddings, (rows, dim).

    Returns:
        Mean and deviation.
    """
    lengths = np.linalg.norm(np.asarray(embeddings, dtype=np.float64), axis=1)
    mean = float(lengths.mean()) if len(lengths) else None
    return mean, float(lengths.std(ddof=1)) if len(lengths) > 1 else None


def alignment(first: np.ndarray, second: np.ndarray, *, power: float = 2.0) -> float | None:
    """Mean distance of the two embeddings of positive pairs, to a power. Lower = closer, 0 to 4 for power 2.

    mean ‖u − v‖^α over rows of unit vectors. (Wang and Isola 2020, section 4.1.1, https://arxiv.org/abs/2005.10242)

    Args:
        first: Embeddings of the first texts, (pairs, dim).
        second: Embeddings of the second texts, (pairs, dim).
        power: α.

    Returns:
        The mean. None without pairs.
    """
    if not len(first):
        return None
    return float((np.linalg.norm(unit(first) - unit(second), axis=1) ** power).mean())


def uniformity(embeddings: np.ndarray, *, scale: float = 2.0) -> float | None:
    """Evenness of embeddings on the sphere: lower = more even, 0 when all coincide. None under two rows.

    log mean exp(−t ‖u − v‖²) over all pairs of different rows, t = 2. (Wang and Isola 2020, section 4.1.2)

    Args:
        embeddings: Embeddings, (rows, dim).
        scale: t.

    Returns:
        The logarithm, or None.
    """
    vectors = unit(embeddings)
    if len(vectors) < 2:
        return None
    # On unit vectors ‖u − v‖² = 2 − 2 cos.
    total = sum(np.exp(scale * (2 * cosines - 2)).sum() for cosines in _other_cosines(vectors))
    return float(np.log(total / (len(vectors) * (len(vectors) - 1))))


def mean_cosine(embeddings: np.ndarray) -> float | None:
    """Mean cosine over all pairs of different rows: near 0 in an even space, near 1 in a narrow cone.

    (Ethayarajh 2019, section 3.4, https://arxiv.org/abs/1909.00512, calls it anisotropy.) None under two rows.

    Args:
        embeddings: Embeddings, (rows, dim).

    Returns:
        The mean, or None.
    """
    vectors = unit(embeddings)
    count = len(vectors)
    if count < 2:
        return None
    # The sum of all cosines is the squared length of the sum; each row's cosine with itself is not wanted.
    together = vectors.sum(axis=0)
    return float((together @ together - np.square(vectors).sum()) / (count * (count - 1)))


def explained_variance(embeddings: np.ndarray) -> np.ndarray:
    """Share of the variance along each principal direction, falling, (dim,). Empty without variance.

    Directions of the covariance of the embeddings, centred, not normalized.

    Args:
        embeddings: Embeddings, (rows, dim).

    Returns:
        Shares that sum to 1.
    """
    embeddings = np.asarray(embeddings, dtype=np.float64)
    centred = embeddings - embeddings.mean(axis=0) if len(embeddings) else embeddings
    variances = np.zeros(embeddings.shape[1])
    # Through the smaller product: a hundredth of the time of a decomposition of the embeddings on busy cores.
    product = centred.T @ centred if len(centred) > len(variances) else centred @ centred.T
    eigenvalues = np.linalg.eigvalsh(product)[::-1].clip(min=0)
    variances[: len(eigenvalues)] = eigenvalues
    # What is left of equal rows after centring is rounding: it has no directions.
    negligible = np.square(embeddings).sum() * np.finfo(np.float64).eps ** 2 * embeddings.size
    return variances / variances.sum() if variances.sum() > negligible else np.empty(0)


def singular_values(embeddings: np.ndarray) -> np.ndarray:
    """Singular values of the centred embeddings, falling, the largest 1, (dim,). Empty without variance.

    Args:
        embeddings: Embeddings, (rows, dim).

    Returns:
        Values from 0 to 1.
    """
    shares = explained_variance(embeddings)
    return np.sqrt(shares / shares[0]) if len(shares) else shares


def effective_rank(embeddings: np.ndarray) -> float | None:
    """Number of directions that the embeddings really use, from 1 to dim. None if all are equal.

    exp(−Σ p_k log p_k), p_k the share of the k-th singular value. (Roy and Vetterli 2007,
    https://www.eurasip.org/Proceedings/Eusipco/Eusipco2007/Papers/a5p-h05.pdf)

    Args:
        embeddings: Embeddings, (rows, dim).

    Returns:
        The number, or None.
    """
    shares = np.sqrt(explained_variance(embeddings))
    if not len(shares):
        return None
    shares = shares[shares > 0] / shares.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))


def first_component_isotropy(embeddings: np.ndarray, *, num_components: int = 50) -> float | None:
    """1 minus the share of the strongest direction in the variance of the strongest `num_components`.

    From 0 (a line) to 1 − 1/components (all equal). None without variance. The simplest measure of isotropy:
    `iso_score` uses all directions, and the distance of each from evenness.

    Args:
        embeddings: Embeddings, (rows, dim).
        num_components: Number of directions that count.

    Returns:
        The share, or None.
    """
    shares = explained_variance(embeddings)[:num_components]
    return float(1 - shares[0] / shares.sum()) if len(shares) else None


def iso_score(embeddings: np.ndarray) -> float | None:
    """Isotropy from 0 (a line) to 1 (equal variance in every direction). None without variance or for dim 1.

    With λ̂ the variances scaled to length √d and δ = ‖λ̂ − 1‖ / √(2(d − √d)) their distance from evenness,
    φ = (d − δ²(d − √d))² / d² is the share of directions evenly used, and the score is (dφ − 1) / (d − 1).
    (Rudman et al. 2022, section 4, https://arxiv.org/abs/2108.07344)

    Args:
        embeddings: Embeddings, (rows, dim).

    Returns:
        The score, or None.
    """
    shares = explained_variance(embeddings)
    dim = len(shares)
    if dim < 2:
        return None
    even = shares * np.sqrt(dim) / np.linalg.norm(shares)
    slack = dim - np.sqrt(dim)
    distance = np.linalg.norm(even - 1) / np.sqrt(2 * slack)
    used = (dim - distance**2 * slack) ** 2 / dim**2
    return float((dim * used - 1) / (dim - 1))


def neighbour_similarity(embeddings: np.ndarray, *, num_neighbours: int) -> float | None:
    """Mean cosine of each row with its nearest other rows. None unless there are more rows than neighbours.

    With a low `mean_cosine` it means tight clusters, with a high one a crowded space.

    Args:
        embeddings: Embeddings, (rows, dim).
        num_neighbours: Number of nearest rows, k.

    Returns:
        The mean, or None.
    """
    vectors = unit(embeddings)
    if len(vectors) <= num_neighbours:
        return None
    sums = [
        np.partition(cosines, -num_neighbours, axis=1)[:, -num_neighbours:].sum()
        for cosines in _other_cosines(vectors)
    ]
    return float(sum(sums) / (len(vectors) * num_neighbours))


def nearest_rows(embeddings: np.ndarray, *, num_neighbours: int) -> Int[np.ndarray, "rows neighbours"]:
    """Row numbers of the nearest other rows by cosine, nearest first. There must be more rows than neighbours.

    Args:
        embeddings: Embeddings, (rows, dim).
        num_neighbours: Number of nearest rows, k.

    Returns:
        int array (rows, neighbours).
    """
    vectors = unit(embeddings)
    nearest = []
    for start in range(0, len(vectors), BLOCK):
        cosines = vectors[start : start + BLOCK] @ vectors.T
        cosines[np.arange(len(cosines)), start + np.arange(len(cosines))] = -np.inf
        rows = np.argpartition(cosines, -num_neighbours, axis=1)[:, -num_neighbours:]
        order = np.argsort(-np.take_along_axis(cosines, rows, axis=1), axis=1, kind="stable")
        nearest.append(np.take_along_axis(rows, order, axis=1))
    return np.concatenate(nearest)


def hubness(embeddings: np.ndarray, *, num_neighbours: int) -> float | None:
    """Skewness of how often a row is among the nearest of others: 0 without hubs, high if few rows are near all.

    E[(N − μ)³] / σ³ of the k-occurrences N. (Radovanović et al. 2010, section 2,
    https://jmlr.org/papers/v11/radovanovic10a) None unless there are more rows than neighbours, and if all occur
    equally often.

    Args:
        embeddings: Embeddings, (rows, dim).
        num_neighbours: Number of nearest rows, k.

    Returns:
        The skewness, or None.
    """
    if len(embeddings) <= num_neighbours:
        return None
    nearest = nearest_rows(embeddings, num_neighbours=num_neighbours)
    occurrences = np.bincount(nearest.ravel(), minlength=len(embeddings))
    return float(scipy.stats.skew(occurrences)) if occurrences.std() else None


def silhouette(embeddings: np.ndarray, classes: np.ndarray) -> float | None:
    """Mean silhouette of the classes, from −1 to 1: nearness of a row to its class, compared with the next.

    (b − a) / max(a, b) with the mean distances a to the row's class and b to the nearest other one, between
    embeddings of length 1. (Rousseeuw 1987, https://doi.org/10.1016/0377-0427(87)90125-7) None under two
    classes, or if every class has one row.

    Args:
        embeddings: Embeddings, (rows, dim).
        classes: Class index of each row.

    Returns:
        The mean, or None.
    """
    if not 2 <= len(np.unique(classes)) < len(classes):
        return None
    from sklearn.metrics import silhouette_score

    return float(silhouette_score(unit(embeddings), classes))


def score_histograms(
    scores: np.ndarray, grades: np.ndarray, *, num_bins: int, low: float = -1.0, high: float = 1.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Edges (num_bins + 1,), and counts (num_bins,) of positives (grade above 0.5) and of negatives.

    Scores beyond the ends are counted in the outermost bins, so that the counts add up to the rows.

    Args:
        scores: Score of each row, higher = closer.
        grades: Gold value of each row, higher = closer.
        num_bins: Number of bins.
        low: Lower end of the first bin.
        high: Upper end of the last bin.

    Returns:
        Edges, counts of positives, counts of negatives.
    """
    edges = np.linspace(low, high, num_bins + 1)
    inside = np.clip(np.asarray(scores, dtype=np.float64), low, high)
    is_positive = np.asarray(grades) > 0.5
    positives, negatives = (np.histogram(inside[chosen], edges)[0] for chosen in (is_positive, ~is_positive))
    return edges, positives, negatives


MEANINGS = {
    "norm_mean": "mean length of an embedding",
    "norm_deviation": "standard deviation of the lengths",
    "mean_cosine": "of two texts: near 1 in a narrow cone",
    "neighbour_similarity": "mean cosine with the five nearest texts",
    "hubness": "skewness of how often a text is among the five nearest of others: high = a few are near all",
    "alignment": "mean squared distance of close pairs: lower = closer",
    "uniformity": "lower = more evenly spread",
    "effective_rank": "directions that are used",
    "isotropy": "IsoScore: 0 a line, 1 the same variance in all directions",
    "first_component_isotropy": "1 − part of the first principal component in the first 50",
    "silhouette": "of the classes: −1 to 1, higher = tighter and further apart",
}
"""Measure of a space → what it says, in the order in which they are shown."""


def measure_space(
    embeddings: Float[np.ndarray, "texts dim"],
    *,
    pairs: Int[np.ndarray, "two pairs"],
    grades: Float[np.ndarray, "pairs"],
    classes: Int[np.ndarray, "texts"] | None = None,
) -> dict[str, float | None]:
    """Measure a space, during training or later: name → number, None if undefined.

    Args:
        embeddings: Embeddings, (rows, dim).
        pairs: Row numbers of texts with a known similarity, (2, pairs), and their `grades` from 0 to 1.
        grades: Gold similarity of each pair, from 0 to 1.
        classes: Of each text. With them also `silhouette`.

    Returns:
        Name of the measure → its value.
    """
    first, second = embeddings[pairs]
    close = grades >= POSITIVE_GRADE
    mean, deviation = norms(embeddings)
    measures = {
        "alignment": alignment(first[close], second[close]),
        "uniformity": uniformity(embeddings),
        "mean_cosine": mean_cosine(embeddings),
        "effective_rank": effective_rank(embeddings),
        "isotropy": iso_score(embeddings),
        "first_component_isotropy": first_component_isotropy(embeddings),
        "neighbour_similarity": neighbour_similarity(embeddings, num_neighbours=NUM_NEIGHBOURS),
        "hubness": hubness(embeddings, num_neighbours=NUM_NEIGHBOURS),
        "norm_mean": mean,
        "norm_deviation": deviation,
    }
    return measures if classes is None else measures | {"silhouette": silhouette(embeddings, classes)}


def _other_cosines(vectors: np.ndarray) -> Iterator[np.ndarray]:
    """Cosines of each row with all other rows, (rows of a block, rows − 1), block by block."""
    count = len(vectors)
    for start in range(0, count, BLOCK):
        block = vectors[start : start + BLOCK] @ vectors.T
        is_other = np.ones(block.shape, dtype=bool)
        is_other[np.arange(len(block)), start + np.arange(len(block))] = False
        yield block[is_other].reshape(len(block), count - 1)


AGREEMENTS = {
    "cka": "linear CKA of the two: 1 the same but for rotation and size",
    "neighbours_kept": "share of the five nearest texts that are the same",
}


def linear_cka(first: Float[np.ndarray, "rows dim"], second: Float[np.ndarray, "rows other"]) -> float | None:
    """Linear centred kernel alignment, from 0 to 1: 1 for spaces that differ by a rotation and one factor.

    ‖YᵀX‖² / (‖XᵀX‖ ‖YᵀY‖) in Frobenius norms, both centred. (Kornblith et al. 2019, section 3,
    https://arxiv.org/abs/1905.00414) With fewer rows than dimensions unrelated spaces have a high one, too. None
    where one side has no variance.

    Args:
        first: Embeddings in one space, (rows, dim).
        second: Embeddings of the same rows in another space.

    Returns:
        The alignment, or None.
    """
    first_side, right = (np.asarray(side, dtype=np.float64) for side in (first, second))
    first_side, right = first_side - first_side.mean(axis=0), right - right.mean(axis=0)
    sizes = np.linalg.norm(first_side.T @ first_side) * np.linalg.norm(right.T @ right)
    return float(np.linalg.norm(right.T @ first_side) ** 2 / sizes) if sizes else None


def neighbours_kept(
    first: Float[np.ndarray, "rows dim"], second: Float[np.ndarray, "rows other"], *, num_neighbours: int
) -> float | None:
    """Mean share of a row's nearest rows that are the same in both spaces. By chance k / (rows − 1).

    None unless there are more rows than neighbours.

    Args:
        first: Embeddings in one space, (rows, dim).
        second: Embeddings of the same rows in another space.
        num_neighbours: Number of nearest rows, k.

    Returns:
        The mean share, or None.
    """
    if len(first) <= num_neighbours:
        return None
    both = [nearest_rows(side, num_neighbours=num_neighbours) for side in (first, second)]
    is_same = both[0][:, :, None] == both[1][:, None, :]
    return float(is_same.sum() / both[0].size)
