"""Two models on the same rows: by how much they differ, and how far chance alone could move that.

Rows that are hard for one model are hard for the other, so the difference is measured row by row: it is known far
better than the two values.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from scipy.stats import rankdata

from juzhen.core.examples import NLI_GRADES, Kind
from juzhen.core.row_scores import PLACES, SetRows
from juzhen.metrics.correlation import (
    CONFIDENCE,
    FEW_OTHERS,
    FEW_ROWS,
    Gap,
    Z,
    finite,
    mean_interval,
    spearman,
)

SAMPLES = 1000
"""Of the interval of few rows."""
ROWS_OF_PAIRS = (Kind.SCORED_PAIR, Kind.LABELLED_PAIR, Kind.NLI_PAIR)
"""Kinds whose rows have one score and one gold value."""

PerRow = Float[np.ndarray, "rows"]


@dataclass(frozen=True)
class Scored:
    """The rows of a set as one run has scored them.

    Args:
        rows: Of the set.
        threshold: Pairs from this score on are accepted. None: each half of the rows judges the other, as on
            dev, the split that thresholds are fitted on.
    """

    rows: SetRows
    threshold: float | None = None

    @property
    def kind(self) -> Kind:
        return Kind(self.rows.kind)

    @cached_property
    def gold(self) -> np.ndarray:
        """Gold values for the correlation."""
        gold = self.rows["gold"]
        return np.asarray(NLI_GRADES)[gold.astype(int)] if self.kind is Kind.NLI_PAIR else gold

    @cached_property
    def right(self) -> np.ndarray | None:
        """Mask of the right decisions. None if the set has no decisions."""
        if self.kind is not Kind.LABELLED_PAIR:
            return None
        from juzhen.metrics.threshold import accepted_rows  # loads scikit-learn

        accepted = accepted_rows(self.rows["score"], self.rows["gold"], threshold=self.threshold)
        return None if accepted is None else accepted == (self.rows["gold"] == 1)

    @property
    def measures(self) -> list[str]:
        """Comparable metrics, the main one of the set first."""
        if self.kind in ROWS_OF_PAIRS:
            return ["spearman", *(["accuracy"] if self.right is not None else [])]
        return [name for name in self.rows.columns if name not in (*PLACES, "score", "other")]

    @cached_property
    def error(self) -> np.ndarray:
        """Error of each row within the set from −1 to 1, the worst highest. Right decisions are below 0.

        0/1 pairs: the share of rows between the score and the threshold, positive for wrong decisions · other
        pairs: the distance of the ranks of score and gold value · others: 1 less the metric
        """
        if self.right is not None:
            ranks = rankdata(self.rows["score"]) / len(self.rows)
            accepted = self.right == (self.rows["gold"] == 1)
            border = ((~accepted).sum() + 0.5) / len(ranks)
            return np.abs(ranks - border) * np.where(self.right, -1, 1)
        if self.kind in ROWS_OF_PAIRS:
            return np.abs(rankdata(self.rows["score"]) - rankdata(self.gold)) / len(self.rows)
        return 1 - np.nan_to_num(self.rows[self.measures[0]], nan=1.0)

    def value(self, measure: str) -> float | None:
        """Return a metric of these rows. None if it is undefined.

        Args:
            measure: Name of the metric.

        Returns:
            Its value, or None.
        """
        if measure == "spearman":
            return self._spearman
        per_row = self.per_row(measure)
        return float(per_row.mean()) if len(per_row) else None

    def per_row(self, measure: str) -> PerRow:
        """Finite values of each row, whose mean is the metric. For Spearman's correlation its influence.

        Args:
            measure: Name of the metric.

        Returns:
            One value for each row.
        """
        if measure == "spearman":
            return self._influence
        values = self.right if measure == "accuracy" else self.rows[measure]
        assert values is not None  # it is one of its measures
        values = values.astype(np.float64)
        return values[np.isfinite(values)]

    @cached_property
    def _spearman(self) -> float | None:
        return spearman(self.rows["score"], self.gold)

    @cached_property
    def _influence(self) -> PerRow:
        return spearman_influence(self.rows["score"], self.gold)


def are_same_rows(first: SetRows, other: SetRows) -> bool:
    """True if two runs have scored the same rows of a set in the same order.

    Args:
        first: Rows of one run.
        other: Rows of another run.

    Returns:
        True or False.
    """
    names = [name for name in (*PLACES, "gold") if name in first.columns]
    return (first.fingerprint, len(first)) == (other.fingerprint, len(other)) and all(
        name in other.columns and np.array_equal(first[name], other[name]) for name in names
    )


def paired_gap(
    first: Sequence[Scored],
    other: Sequence[Scored],
    measure: str,
    *,
    noise: Sequence[tuple[float, float] | None] = (None, None),
) -> Gap | None:
    """Compute `first` less `other` in a metric, each the mean over its runs (seeds), on the same rows.

    The error has two parts. One is the differences of the rows. The other is the spread over the runs of a
    side, which another seed would change. For few rows (see `mean_interval`) the first part is as wide as the
    wider side of the interval of the mean difference.

    Args:
        first: Runs of the first side.
        other: Runs of the other side.
        measure: The metric.
        noise: For each side the variance of one training over seeds and its degrees of freedom, for a side of one run.

    Returns:
        None if the metric of a run is undefined, or if some of its rows do not count.
    """
    values = [[run.value(measure) for run in runs] for runs in (first, other)]
    known = [[value for value in side if value is not None] for side in values]
    if known != values:
        return None
    per_row = [[run.per_row(measure) for run in runs] for runs in (first, other)]
    if len({len(row) for side in per_row for row in side}) > 1:
        return None
    sides = [np.mean(side, axis=0) for side in per_row]
    error, freedom = _error_of_rows(sides[0] - sides[1], are_values=measure != "spearman")
    variance, doubt = error**2, error**4 / freedom
    for side, of_one in zip(known, noise, strict=True):
        if len(side) > 1:
            of_one = statistics.variance(side), len(side) - 1
        if of_one is not None:
            of_mean = of_one[0] / len(side)
            variance, doubt = variance + of_mean, doubt + of_mean**2 / of_one[1]
    gap = statistics.fmean(known[0]) - statistics.fmean(known[1])
    return Gap(gap, math.sqrt(variance), variance**2 / doubt if doubt else 0.0)


def mean_difference(gaps: PerRow) -> Gap:
    """Mean of paired differences of rows, with its error.

    Args:
        gaps: Difference of each row.

    Returns:
        Mean and standard error.
    """
    return Gap(float(gaps.mean()), *_error_of_rows(gaps, are_values=True))


def _error_of_rows(gaps: PerRow, *, are_values: bool) -> tuple[float, float]:
    """Standard error of the mean of differences, and its degrees of freedom."""
    rows = len(gaps)
    moved = np.count_nonzero(gaps)
    if are_values and moved and (rows < FEW_ROWS or moved < FEW_OTHERS):
        ends = mean_interval(gaps, samples=SAMPLES, confidence=CONFIDENCE, seed=0, bounds=(-1.0, 1.0))
        return max(abs(float(end or 0) - float(gaps.mean())) for end in ends) / Z, math.inf
    if rows < 2:
        return 0.0, math.inf
    return float(gaps.std(ddof=1) / math.sqrt(rows)), rows - 1.0


def spearman_influence(scores: np.ndarray, grades: np.ndarray) -> PerRow:
    """Influence of each row on `spearman`: the derivative by its share (infinitesimal jackknife).

    Its mean is 0, and its variance over the number of rows that of the correlation (Efron 1982, chapter 6).

    Args:
        scores: Score of each row, higher = closer.
        grades: Gold value of each row, higher = closer.

    Returns:
        One value for each row.
    """
    sides = [finite(scores, "score"), finite(grades, "grade")]
    ranks = [(rankdata(side) - (len(side) + 1) / 2) / len(side) for side in sides]
    (x, y), above = ranks, [_Above(side) for side in sides]
    shared, spread_x, spread_y = (x * y).mean(), (x * x).mean(), (y * y).mean()
    value = shared / math.sqrt(spread_x * spread_y)
    of_shared = x * y + above[0].mean(y) + above[1].mean(x) - 3 * shared
    of_x = x * x + 2 * above[0].mean(x) - 3 * spread_x
    of_y = y * y + 2 * above[1].mean(y) - 3 * spread_y
    return of_shared / math.sqrt(spread_x * spread_y) - value / 2 * (of_x / spread_x + of_y / spread_y)


class _Above:
    """Sums over the rows with a higher value than each row, sorted once."""

    def __init__(self, values: np.ndarray) -> None:
        _, self._group = np.unique(values, return_inverse=True)

    def mean(self, values: np.ndarray) -> PerRow:
        """For each row the sum of `values` over the rows above it and half of its equals, over all rows."""
        sums = np.bincount(self._group, weights=values)
        return ((sums.sum() - np.cumsum(sums) + sums / 2) / len(values))[self._group]
