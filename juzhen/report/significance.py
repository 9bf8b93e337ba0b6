"""Tests of differences between rows, from stored results, corrected for their number."""

import math
import statistics
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd

from juzhen.core.kinds import CORRELATIONS
from juzhen.metrics.correlation import Gap, Z
from juzhen.metrics.matrix_statistics import LEVEL, Needed, holm, needed
from juzhen.report.matrix import Cell, Matrix
from juzhen.report.table import ReportTable

LEAST_SEEDS = 3
"""Seeds that both rows need for a test over seeds. With two it could hardly find anything."""

TESTS = {
    "rows": "compare row by row what runs have kept, as `juzhen compare` does, with the spread of several seeds",
    "intervals": "compare values by their bootstrap intervals and the spread of several seeds (Welch, Fisher's z for "
    "correlations), which errs on the side of undecided, as rows are not paired",
    "seeds": "are paired over three seeds or more, without intervals",
}
"""Tests of a difference, the strongest first."""

VERDICTS = ("higher", "lower", "undecided", "not tested")
TURNED = {name: name for name in VERDICTS} | {"higher": "lower", "lower": "higher"}
"""Verdict of the first row → verdict of the second."""


def differences(matrix: Matrix) -> pd.DataFrame:
    """Test every pair of rows in every common column, as one family for Holm's correction (1979).

    Args:
        matrix: The transfer matrix.

    Returns:
        A frame: `first` and `second` row, `column`, `points` (first minus second, ×100), `tested_by` (one of TESTS, or
            "" without a test, and then p is NaN), `p` and `p_holm` before and after correction, and `verdict` of the
            first row.
    """
    body = []
    for first, second in combinations(matrix.rows, 2):
        for column in matrix.columns:
            if column in first.cells and column in second.cells:
                a, b = first.cells[column], second.cells[column]
                tested_by, gap = compare_cells(matrix, column, a, b)
                p = math.nan if gap is None else gap.p
                body.append((first.label, second.label, column, 100 * (a.mean - b.mean), tested_by, p))
    frame = pd.DataFrame(body, columns=["first", "second", "column", "points", "tested_by", "p"])
    frame["p_holm"] = holm(frame["p"])
    frame["verdict"] = np.select(
        [frame["p_holm"].isna(), frame["p_holm"] > LEVEL, frame["points"] > 0],
        ["not tested", "undecided", "higher"],
        "lower",
    )
    return frame


SUPERSCRIPTS = "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖ"
"""Letters of rows, for superscripts in cells. With more rows they would be unreadable."""


def beaten(matrix: Matrix) -> dict[tuple[str, str], str]:
    """Find the rows that each cell beats significantly.

    A row has the letter of its place in the matrix. After ranx (Bassani 2022, https://github.com/AmenRa/ranx).

    Args:
        matrix: The transfer matrix.

    Returns:
        (label, column) → letters. Empty with too many rows.
    """
    letters = {row.label: letter for row, letter in zip(matrix.rows, SUPERSCRIPTS, strict=False)}
    if not 1 < len(matrix.rows) <= len(SUPERSCRIPTS):
        return {}
    frame = both_ways(differences(matrix))
    won = frame[frame["verdict"] == "higher"]
    return {
        (str(first), str(column)): "".join(
            sorted((letters[label] for label in group), key=SUPERSCRIPTS.index)
        )
        for (first, column), group in won.groupby(["first", "column"])["second"]
    }


def both_ways(frame: pd.DataFrame) -> pd.DataFrame:
    """List each difference twice, also with the second row as the first."""
    verdict = frame["verdict"].map(TURNED)
    turned = frame.assign(first=frame["second"], second=frame["first"], verdict=verdict)
    return pd.concat([frame, turned], ignore_index=True)


def compare_cells(matrix: Matrix, column: str, a: Cell, b: Cell) -> tuple[str, Gap | None]:
    """Test two cells of a column with the strongest possible test. Returns "" and None without one."""
    if (gap := matrix.kept.gap(column, a, b)) is not None:
        return "rows", gap
    if (gap := _welch(_estimate(a), _estimate(b))) is not None:
        return "intervals", gap
    gap = _paired(a, b)
    return ("", None) if gap is None else ("seeds", gap)


def difference_interval(matrix: Matrix, column: str, a: Cell, b: Cell) -> tuple[float, float, str] | None:
    """Compute the 95 % interval of `a` minus `b` in points, ×100, and its test. It excludes 0 if p < 0.05.

    It is not corrected for the number of differences. For correlations it is the interval of Fisher's z, scaled to
    points by the slope between the two values. None without a test.
    """
    tested_by, gap = compare_cells(matrix, column, a, b)
    if gap is None:
        return None
    low, high = _in_score_units(tested_by, gap, a, b).interval
    return 100 * low, 100 * high, tested_by


def _in_score_units(tested_by: str, gap: Gap, a: Cell, b: Cell) -> Gap:
    slope = 1.0
    if tested_by == "intervals":
        slope = (a.mean - b.mean) / gap.value if gap.value else slope
        slope = 1 - a.mean**2 if not gap.value and a.metric in CORRELATIONS else slope
    return Gap(slope * gap.value, slope * gap.error, gap.freedom)


class CellDifference(NamedTuple):
    """Difference of two cells, as a fraction.

    Attributes:
        gap: The difference with its error.
        seed_error: Part of the error from seeds. None if no training was repeated.
        rows: Evaluation rows, 0 if unknown.
        seeds: Seeds of the side with fewer.
    """

    gap: Gap
    seed_error: float | None
    rows: int
    seeds: int

    @property
    def row_error(self) -> float:
        return math.sqrt(max(self.gap.error**2 - (self.seed_error or 0.0) ** 2, 0.0))

    @property
    def needed(self) -> Needed:
        """What would decide a difference of this size."""
        size, of_seeds = abs(self.gap.value), self.seed_error or 0.0
        return needed(size, self.row_error, of_seeds, rows=self.rows, seeds=self.seeds)


def contrast(matrix: Matrix, column: str, a: Cell, b: Cell) -> CellDifference | None:
    """Subtract two cells of a column by the test of `compare_cells`. None without one."""
    tested_by, gap = compare_cells(matrix, column, a, b)
    if gap is None:
        return None
    parts = [None if cell.seed_noise is None else cell.seed_noise[0] / cell.num_seeds for cell in (a, b)]
    known = [part for part in parts if part is not None]
    seed_error = math.sqrt(sum(known)) if len(known) == len(parts) else None
    seeds = (
        min(cell.num_seeds for cell in (a, b) if cell.seed_noise is None or cell.seed_noise[0])
        if any(parts) or None in parts
        else 1
    )
    return CellDifference(
        _in_score_units(tested_by, gap, a, b), seed_error, min(a.count or 0, b.count or 0), seeds
    )


def _estimate(cell: Cell) -> tuple[float, float, float] | None:
    """Value of a cell, its variance and the doubtful part of it, for Welch's test. None without an interval.

    It varies with evaluation rows (the interval) and, with several seeds, with training (their deviation). Correlations
    are transformed to Fisher's z.
    """
    scale = math.atanh if cell.metric in CORRELATIONS else float
    if cell.low is None or cell.high is None:
        return None
    values = list(cell.values.values())
    if scale is math.atanh and max(map(abs, (*values, cell.low, cell.high))) >= 1:
        return None
    values = [scale(value) for value in values]
    variance, doubt = ((scale(cell.high) - scale(cell.low)) / (2 * Z)) ** 2, 0.0
    noise = (statistics.variance(values), len(values) - 1) if len(values) > 1 else cell.seed_noise
    if noise is not None:
        slope = 1 if len(values) > 1 or scale is float else 1 / (1 - cell.mean**2)
        of_mean = slope**2 * noise[0] / len(values)
        variance, doubt = variance + of_mean, of_mean**2 / noise[1]
    return statistics.fmean(values), variance, doubt


def _welch(a: tuple[float, float, float] | None, b: tuple[float, float, float] | None) -> Gap | None:
    """Difference of two estimates.

    Hard rows of a set are hard for both models, so the true error of the difference is smaller. The test errs towards
    `undecided`.
    """
    if a is None or b is None or not (variance := a[1] + b[1]):
        return None
    doubt = a[2] + b[2]
    return Gap(a[0] - b[0], math.sqrt(variance), variance**2 / doubt if doubt else 0.0)


def _paired(a: Cell, b: Cell) -> Gap | None:
    """Mean difference over common seeds."""
    gaps = [a.values[seed] - b.values[seed] for seed in sorted(a.values.keys() & b.values.keys())]
    if len(gaps) < LEAST_SEEDS:
        return None
    return Gap(statistics.fmean(gaps), statistics.stdev(gaps) / math.sqrt(len(gaps)), len(gaps) - 1)


def significance_table(matrix: Matrix, frame: pd.DataFrame) -> ReportTable:
    """Count significant differences of each row to all others."""
    counts_of_tests = frame["tested_by"].value_counts()
    tests = "; ".join(
        f"{counts_of_tests[name]:,} {about}" for name, about in TESTS.items() if name in counts_of_tests
    )
    note = (
        "Cells, row against row, in which a difference is certain at 5 % after Holm's correction over all "
        f"{frame['p'].notna().sum():,} tests of this report: {tests or 'none'}. With one seed, what another seed would "
        "change is not seen."
    )
    two_ways = both_ways(frame)
    counts = pd.crosstab(two_ways["first"], two_ways["verdict"]).reindex(
        index=[row.label for row in matrix.rows], columns=list(VERDICTS), fill_value=0
    )
    body = [(str(label), *map(str, row)) for label, *row in counts.itertuples()]
    title = "Which differences are more than chance"
    return ReportTable("significance", title, note, ("trained on", *VERDICTS), body)
