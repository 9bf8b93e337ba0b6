"""Which differences between rows are more than chance, tested with what results hold and corrected for their number."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from scipy.special import ndtr, stdtr

from juzhen.core.measures import CORRELATIONS
from juzhen.report.matrix import Cell, Matrix, Row
from juzhen.report.table import Table

LEVEL = 0.05
LEAST_SEEDS = 3
"""Seeds that both rows need for a test over seeds; with two it could hardly find anything."""

INTERVAL_WIDTH = 2 * 1.959964
"""Of a 95 % interval, in standard errors."""


@dataclass(frozen=True)
class Difference:
    """Row `first` less row `second` in one column.

    points    ×100
    tested_by `intervals` (and seeds, where there are several), `seeds` alone; "" if neither is possible, p None then
    p, p_holm before and after correction for the number of tests
    """

    first: str
    second: str
    column: str
    points: float
    tested_by: str
    p: float | None
    p_holm: float | None = None

    @property
    def verdict(self) -> str:
        """higher, lower, undecided, or not tested: of the first row."""
        if self.p_holm is None:
            return "not tested"
        if self.p_holm > LEVEL:
            return "undecided"
        return "higher" if self.points > 0 else "lower"


class Differences:
    """Every pair of rows in every column that both have; one family for Holm's correction (1979)."""

    def __init__(self, matrix: Matrix) -> None:
        found = [
            _difference(first, second, column, matrix.metric)
            for first, second in combinations(matrix.rows, 2)
            for column in matrix.columns
            if column in first.cells and column in second.cells
        ]
        self.all = _corrected(found)
        self._verdicts: dict[tuple[str, str, str], str] = {}
        for one in self.all:
            turned = {"higher": "lower", "lower": "higher"}.get(one.verdict, one.verdict)
            self._verdicts[one.first, one.second, one.column] = one.verdict
            self._verdicts[one.second, one.first, one.column] = turned

    def verdict(self, first: str, second: str, column: str) -> str:
        """Of `first` beside `second`; `not tested` where one of them has no score."""
        return self._verdicts.get((first, second, column), "not tested")

    @property
    def num_tested(self) -> int:
        return sum(one.p is not None for one in self.all)


def _difference(first: Row, second: Row, column: str, metric: str) -> Difference:
    a, b = first.cells[column], second.cells[column]
    points = 100 * (a.mean - b.mean)
    tested_by, p = "intervals", _by_intervals(a, b, metric)
    if p is None:
        tested_by, p = "seeds", _paired_over_seeds(a, b)
    return Difference(first.label, second.label, column, points, "" if p is None else tested_by, p)


def _by_intervals(a: Cell, b: Cell, metric: str) -> float | None:
    """Two-sided Welch test of two values that vary with the evaluation rows (their intervals) and, where there are
    several seeds, with the training (their deviation); correlations after Fisher's z-transform.

    Rows of a set that are hard for one model are hard for the other, so the true error of the difference is
    smaller than the one used here: the test errs on the side of `undecided`.
    """
    bounds = [(one.low, one.high) for one in (a, b) if one.low is not None and one.high is not None]
    if len(bounds) < 2:
        return None
    scale = math.atanh if metric in CORRELATIONS else float
    variance, doubt, means = 0.0, 0.0, []
    for one, (low, high) in zip((a, b), bounds, strict=True):
        values = [value for _, value in one.values]
        if scale is math.atanh and max(map(abs, (*values, low, high))) >= 1:
            return None
        variance += ((scale(high) - scale(low)) / INTERVAL_WIDTH) ** 2
        means.append(statistics.fmean(map(scale, values)))
        if len(values) > 1:
            of_mean = statistics.variance(map(scale, values)) / len(values)
            variance += of_mean
            doubt += of_mean**2 / (len(values) - 1)
    if variance == 0:
        return None
    t = -abs(means[0] - means[1]) / math.sqrt(variance)
    return float(2 * (stdtr(variance**2 / doubt, t) if doubt else ndtr(t)))


def _paired_over_seeds(a: Cell, b: Cell) -> float | None:
    """Two-sided paired t-test over the seeds that both have; for values without intervals."""
    first, second = dict(a.values), dict(b.values)
    differences = [first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())]
    if len(differences) < LEAST_SEEDS:
        return None
    mean, spread = statistics.fmean(differences), statistics.stdev(differences)
    if spread == 0:
        return float(mean == 0)
    t = mean / (spread / math.sqrt(len(differences)))
    return float(2 * stdtr(len(differences) - 1, -abs(t)))


def _corrected(found: Sequence[Difference]) -> list[Difference]:
    tested = sorted((one.p, place) for place, one in enumerate(found) if one.p is not None)
    adjusted: dict[int, float] = {}
    largest = 0.0
    for rank, (p, place) in enumerate(tested):
        largest = max(largest, min(1.0, p * (len(tested) - rank)))
        adjusted[place] = largest
    return [replace(one, p_holm=adjusted.get(place)) for place, one in enumerate(found)]


def significance_table(matrix: Matrix, differences: Differences) -> Table:
    """Each row beside all others: cells in which the difference is more than chance."""
    note = (
        "Cells, row against row, in which a difference is certain at 5 % after Holm's correction over all "
        f"{differences.num_tested:,} tests of this report. Results hold no scores of single rows, so no test pairs "
        "evaluation rows: values are compared by their bootstrap intervals and, with several seeds, their spread over "
        "seeds (Welch, Fisher's z for correlations); without intervals, paired over three seeds or more. This errs on "
        "the side of undecided. With one seed, what another seed would change is not seen."
    )
    head = ("trained on", "higher", "lower", "undecided", "not tested")
    lines = []
    for row in matrix.rows:
        verdicts = [
            differences.verdict(row.label, other.label, column)
            for other in matrix.rows
            for column in matrix.columns
            if other is not row and column in row.cells and column in other.cells
        ]
        lines.append((row.label, *(str(verdicts.count(word)) for word in head[1:])))
    return Table("significance", "Which differences are more than chance", note, head, lines)
