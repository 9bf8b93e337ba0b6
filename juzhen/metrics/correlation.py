"""Correlations with gold grades, their confidence intervals, and differences with their error."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy  # its parts are loaded on first use: a training's first step needs none
from jaxtyping import Float

from juzhen.core.columns import as_numbers

POSITIVE_ABOVE = 0.5
"""Pairs of a higher grade count as positives: label 1, entailment, the upper half of graded similarity."""

EPSILON = 1e-12

FEW_ROWS = 100
"""Below so many rows the percentiles of a bootstrap cover too little: 65 % for a mean near 0.9 over ten rows."""

FEW_OTHERS = 10
"""So do sets where fewer rows than these differ from the rest."""

CELLS_PER_CHUNK = 100_000
"""Resampled rows held at once: they fit the processor's cache, four times faster than a few large blocks."""


def spearman(scores: np.ndarray, grades: np.ndarray) -> float | None:
    """Compute Spearman's rank correlation in [-1, 1]: Pearson's correlation of the ranks. Ties share their mean rank.

    Both sides are compared in float32, the precision of a model's scores at evaluation. Coarser formats tie
    scores that differ and so change the ranks.

    Args:
        scores: Score of each row, higher = closer.
        grades: Gold value of each row, higher = closer.

    Returns:
        None with fewer than two rows, or if one side is constant.

    Raises:
        ValueError: A row that is not finite. The message names the first one.
    """
    scores, grades = _columns(scores, grades)
    if _is_constant(scores) or _is_constant(grades):
        return None
    return float(scipy.stats.spearmanr(scores, grades).statistic)


def _columns(scores: np.ndarray, grades: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return finite columns of one length. Arrays of floats of one shape, which evaluation gives, are that already."""
    given = scores, grades
    if not all(
        isinstance(each, np.ndarray) and each.dtype.kind == "f" and each.ndim == 1 for each in given
    ) or len(scores) != len(grades):
        scores, grades = as_numbers(scores=scores, grades=grades)
    return finite(scores, "score"), finite(grades, "grade")


def pearson(scores: np.ndarray, grades: np.ndarray) -> float | None:
    """Pearson's correlation of float32 values, summed in float64. None and errors: as `spearman`.

    Args:
        scores: Score of each row, higher = closer.
        grades: Gold value of each row, higher = closer.

    Returns:
        The correlation, or None.
    """
    scores, grades = _columns(scores, grades)
    if _is_constant(scores) or _is_constant(grades):
        return None
    return float(scipy.stats.pearsonr(scores, grades).statistic)


def partial_spearman(scores: np.ndarray, grades: np.ndarray, given: np.ndarray) -> float | None:
    """Compute Spearman's correlation of scores with grades, controlled for `given`.

    (r_sg − r_sx r_gx) / √((1 − r_sx²)(1 − r_gx²)), x the third. None if one of the three is undefined or ±1.

    Args:
        scores: Score of each row, higher = closer.
        grades: Gold value of each row, higher = closer.
        given: Third value of each row.

    Returns:
        The correlation, or None.
    """
    pairs = ((scores, grades), (scores, given), (grades, given))
    direct, first, second = (spearman(*pair) for pair in pairs)
    if direct is None or first is None or second is None:
        return None
    remainder = (1 - first**2) * (1 - second**2)
    return float((direct - first * second) / np.sqrt(remainder)) if remainder > EPSILON else None


Interval = tuple[float | None, float | None]


def spearman_interval(
    scores: np.ndarray, grades: np.ndarray, *, samples: int, confidence: float, seed: int
) -> Interval:
    """Compute the bootstrap interval (low, high) of `spearman`, rows drawn with replacement (Efron 1979).

    Below FEW_ROWS rows it is that of Fisher's z with the variance (1 + r²/2) / (n − 3) of Bonett and Wright
    (2000, https://doi.org/10.1007/BF02294183), which covers for 0/1 labels too. Up to three rows give no
    interval. Resamples with a constant side have no correlation and are left out. Every resample is ranked
    exactly, though rows are sorted only once: a resample is a vector of counts, and the cumulative counts per
    group of tied rows give its mean ranks.

    Args:
        scores: One score for each row.
        grades: Gold value of each row.
        samples: Number of resamples. Each has as many rows as the data.
        confidence: Share of the resampled correlations inside the interval, for instance 0.95.
        seed: Of the resamples.

    Returns:
        (None, None) without samples, or if the correlation is undefined.
    """
    value = spearman(scores, grades)
    if samples == 0 or value is None:
        return None, None
    if len(scores) < FEW_ROWS:
        return _of_fishers_z(value, grades, confidence)
    values = resampled_correlations(scores, grades, samples=samples, seed=seed)
    return _percentiles(values[np.isfinite(values)], confidence)


def _of_fishers_z(value: float, grades: np.ndarray, confidence: float) -> Interval:
    if (rows := len(grades)) <= 3:
        return -1.0, 1.0
    middle = value
    if abs(value) > 1 - EPSILON:  # its z is infinite: as if two neighbouring grades had changed places
        ranks = scipy.stats.rankdata(grades)
        step = np.diff(np.unique(ranks)).min()
        middle *= max(1 - step**2 / ((ranks - ranks.mean()) ** 2).sum(), 0)
    reach = scipy.special.ndtri((1 + confidence) / 2) * np.sqrt((1 + value**2 / 2) / (rows - 3))
    low, high = np.tanh([np.arctanh(middle) - reach, np.arctanh(middle) + reach])
    return float(min(low, value)), float(max(high, value))


def resampled_correlations(
    scores: np.ndarray, grades: np.ndarray, *, samples: int, seed: int
) -> Float[np.ndarray, "samples"]:
    """`spearman` of each resample of `spearman_interval`, NaN where a side is constant.

    Args:
        scores: Score of each row, higher = closer.
        grades: Gold value of each row, higher = closer.
        samples: Number of resamples.
        seed: Seed of the draws.

    Returns:
        float array (samples,).
    """
    first, second = _TieGroups.of(finite(scores, "score")), _TieGroups.of(finite(grades, "grade"))
    counts = _resamples(len(scores), samples=samples, seed=seed)
    return np.concatenate([_rank_correlations(first, second, chunk) for chunk in counts])


def mean_interval(
    values: np.ndarray,
    *,
    samples: int,
    confidence: float,
    seed: int,
    bounds: tuple[float, float] | None = (0.0, 1.0),
) -> Interval:
    """Compute the bootstrap interval (low, high) of the mean of some rows.

    For fewer than FEW_ROWS rows, or if fewer than FEW_OTHERS differ from the rest, the interval is Gaffke's
    (2004, see https://arxiv.org/abs/1905.06208). Its ends are percentiles of means with random weights, in
    which the bound on that side counts as one more row. For values 0 and 1 it is that of Clopper and Pearson.
    Without bounds it is that of the bootstrap of Student's t.

    Args:
        values: One value for each row.
        samples: Number of resamples.
        confidence: Share of the resampled means inside the interval.
        seed: Of the resamples.
        bounds: Lowest and highest possible value. None: unbounded.

    Returns:
        (None, None) without samples or rows, and without bounds for equal values or fewer than 3 of them.
    """
    values = np.asarray(values, dtype=np.float64)
    if samples == 0 or not len(values):
        return None, None
    _, counts = np.unique(values, return_counts=True)
    if len(values) >= FEW_ROWS and len(values) - counts.max() >= FEW_OTHERS:
        return _percentiles(resampled_means(values, samples=samples, seed=seed), confidence)
    if bounds is None:
        return _of_students_t(values, samples=samples, confidence=confidence, seed=seed)
    generator, tail = np.random.default_rng(seed), (1 - confidence) / 2
    means = []
    for size in _chunk_sizes(len(values) + 1, samples):
        weights = generator.standard_exponential((size, len(values) + 1))
        means.append(weights[:, :-1] @ values + np.outer(bounds, weights[:, -1]))
        means[-1] /= weights.sum(axis=1)
    lows, highs = np.concatenate(means, axis=1)
    low, high = np.quantile(lows, tail), np.quantile(highs, 1 - tail)
    return max(float(low), bounds[0]), min(float(high), bounds[1])  # the sums of weights are rounded


def _of_students_t(values: np.ndarray, *, samples: int, confidence: float, seed: int) -> Interval:
    """Bootstrap of Student's t: the error of each resampled mean in units of its standard error."""
    rows, mean, error = len(values), values.mean(), values.std() / np.sqrt(len(values))
    if rows < 3 or error == 0:  # a resample of two rows that is not constant has their mean
        return None, None
    distances = []
    for counts in _resamples(rows, samples=samples, seed=seed):
        means = counts @ values / rows
        errors = np.sqrt(np.maximum(counts @ (values - mean) ** 2 / rows - (means - mean) ** 2, 0) / rows)
        drawn = errors > 1e-9 * error
        distances.append((means[drawn] - mean) / errors[drawn])
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.concatenate(distances), [tail, 1 - tail])
    return float(mean - high * error), float(mean - low * error)


def resampled_means(values: np.ndarray, *, samples: int, seed: int) -> Float[np.ndarray, "samples"]:
    """The mean in each resample of `mean_interval`, with the draws of `resampled_correlations`.

    Args:
        values: One value for each row.
        samples: Number of resamples.
        seed: Seed of the draws.

    Returns:
        float array (samples,).
    """
    counts = _resamples(len(values), samples=samples, seed=seed)
    return np.concatenate([chunk @ values / len(values) for chunk in counts])


def score_distribution(scores: np.ndarray, grades: np.ndarray) -> dict[str, float | None]:
    """Compute mean and variance of the scores, and the Kolmogorov-Smirnov test of positives against others.

    Args:
        scores: Score of each row, higher = closer.
        grades: Gold value of each row. Above 0.5 is positive.

    Returns:
        score_mean, score_variance: In units of the score, and of its square (divided by N). None without
            rows.
        ks: Largest distance between the shares of positives and of others that score at most s, over all s:
            sup_s |F₊(s) − F₋(s)|. 0: both are spread alike. 1: a threshold divides them. None without
            positives or without others.
        ks_p_value: Probability of such a distance or a larger one if both are draws of one distribution, for
            many rows (Smirnov 1948, https://doi.org/10.1214/aoms/1177730256). None like `ks`.
    """
    scores, is_positive = np.asarray(scores, dtype=np.float64), np.asarray(grades) > POSITIVE_ABOVE
    distance, probability = kolmogorov_smirnov(scores[is_positive], scores[~is_positive])
    return {
        "score_mean": float(scores.mean()) if len(scores) else None,
        "score_variance": float(scores.var()) if len(scores) else None,
        "ks": distance,
        "ks_p_value": probability,
    }


def kolmogorov_smirnov(first: np.ndarray, second: np.ndarray) -> tuple[float | None, float | None]:
    """Largest distance between two empirical distributions, and its p-value from the limit for many rows.

    Args:
        first: First sample.
        second: Second sample.

    Returns:
        Distance and p-value. None for both if a sample is empty.
    """
    if not len(first) or not len(second):
        return None, None
    thresholds = np.concatenate([first, second])
    shares = [
        np.searchsorted(np.sort(values), thresholds, side="right") / len(values) for values in (first, second)
    ]
    distance = float(np.abs(shares[0] - shares[1]).max())
    rows = len(first) * len(second) / len(thresholds)
    return distance, float(scipy.special.kolmogorov(distance * np.sqrt(rows)))


def _percentiles(values: np.ndarray, confidence: float) -> Interval:
    if len(values) == 0:
        return None, None
    tail = (1 - confidence) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)


def _resamples(rows: int, *, samples: int, seed: int) -> Iterator[np.ndarray]:
    """Draws of each row, float64 (resamples of this chunk, rows), in chunks of `samples`."""
    generator = np.random.default_rng(seed)
    for size in _chunk_sizes(rows, samples):
        sampled = generator.integers(0, rows, (size, rows))
        sampled += np.arange(size)[:, None] * rows
        yield np.bincount(sampled.ravel(), minlength=size * rows).reshape(size, rows).astype(np.float64)


def _chunk_sizes(rows: int, samples: int) -> list[int]:
    per_chunk = max(1, CELLS_PER_CHUNK // rows)
    return [min(per_chunk, samples - start) for start in range(0, samples, per_chunk)]


def _rank_correlations(first: "_TieGroups", second: "_TieGroups", counts: np.ndarray) -> np.ndarray:
    """Spearman correlation of two columns in each resample: counts (resamples, rows) → (resamples,)."""
    x, y = first.centred_ranks(counts), second.centred_ranks(counts)
    weighted = counts * x
    shared = np.einsum("sr,sr->s", weighted, y)
    spread = np.einsum("sr,sr->s", weighted, x) * np.einsum("sr,sr->s", counts * y, y)
    # Ranks here are whole numbers, so a constant resample has a spread of exactly 0.
    return shared / np.sqrt(np.where(spread > 0, spread, np.nan))


@dataclass(frozen=True)
class _TieGroups:
    """A column sorted once.

    Attributes:
        order: Rows from the lowest to the highest value.
        last: Position in `order` of the last row of each group of equal values.
        group: Group of each row.
    """

    order: np.ndarray
    last: np.ndarray
    group: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> "_TieGroups":
        _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
        return cls(np.argsort(group, kind="stable"), np.cumsum(sizes) - 1, group)

    def centred_ranks(self, counts: np.ndarray) -> np.ndarray:
        """Twice the mean rank of each row in each resample, less its mean: whole numbers that sum to 0.

        With C drawn rows up to and including a group and B before it, its mean rank is (B + C + 1) / 2.
        """
        upto = np.cumsum(counts[:, self.order], axis=1)[:, self.last]
        ranks = upto - counts.shape[1]
        ranks[:, 1:] += upto[:, :-1]
        return ranks[:, self.group]


def finite(values: np.ndarray, name: str) -> np.ndarray:
    """Return values rounded to float32 and widened to float64.

    Args:
        values: One value for each row.
        name: Name of the values in the message.

    Returns:
        float64 array.

    Raises:
        ValueError: A value that is not finite.
    """
    column = np.asarray(values, dtype=np.float32).astype(np.float64)
    broken = np.flatnonzero(~np.isfinite(column))
    if len(broken):
        raise ValueError(f"row {broken[0]}: the {name} is {column[broken[0]]} ({len(broken)} such rows)")
    return column


def _is_constant(values: np.ndarray) -> bool:
    return len(values) < 2 or bool(np.all(values == values[0]))


CONFIDENCE = 0.95
Z = 1.959964
"""Half of such an interval in standard errors."""


class Gap(NamedTuple):
    """A difference and its precision.

    Args:
        value: The difference.
        error: Its standard error.
        freedom: Degrees of freedom. 0: unlimited.
    """

    value: float
    error: float
    freedom: float = 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval. It excludes 0 exactly if `p` is below 0.05."""
        tail = (1 + CONFIDENCE) / 2
        reach = self.error * (scipy.special.stdtrit(self.freedom, tail) if self.freedom else Z)
        return float(self.value - reach), float(self.value + reach)

    @property
    def p(self) -> float:
        """Two-sided probability of so large a difference by chance."""
        if self.error == 0:
            return float(self.value == 0)
        t = -abs(self.value / self.error)
        return float(2 * (scipy.special.stdtr(self.freedom, t) if self.freedom else scipy.special.ndtr(t)))
