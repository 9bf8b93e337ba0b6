"""How rows differ over sets: tests of differences, corrected for their number, and profiles of rows.

Profiles find similar and complementary rows, and compare with published rows.
"""

import math
import statistics
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.cluster.hierarchy import leaves_list, linkage

from juzhen.core.kinds import CORRELATIONS
from juzhen.metrics.correlation import Gap, Z
from juzhen.metrics.matrix_statistics import LEVEL, Needed, holm, needed
from juzhen.report.compare import Published, compare
from juzhen.report.matrix import Cell, Matrix, Row
from juzhen.report.table import MISSING, ReportTable, heading, signed

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
    """List each difference twice, also with the second row as the first.

    Args:
        frame: Differences with the columns `first`, `second` and `verdict`.

    Returns:
        A frame of twice the length. Only names and verdict are turned: other columns are those of the first direction.
    """
    verdict = frame["verdict"].map(TURNED)
    turned = frame.assign(first=frame["second"], second=frame["first"], verdict=verdict)
    return pd.concat([frame, turned], ignore_index=True)


def compare_cells(matrix: Matrix, column: str, a: Cell, b: Cell) -> tuple[str, Gap | None]:
    """Test two cells of a column with the strongest possible test.

    Args:
        matrix: The transfer matrix, with the stored scores of rows.
        column: `split/dataset`.
        a: One cell.
        b: Another cell of the same column.

    Returns:
        "rows", "intervals" or "seeds", and the gap `a` minus `b`. "" and None without a test.
    """
    if (gap := matrix.kept.gap(column, a, b)) is not None:
        return "rows", gap
    if (gap := _welch(_estimate(a), _estimate(b))) is not None:
        return "intervals", gap
    gap = _paired(a, b)
    return ("", None) if gap is None else ("seeds", gap)


def difference_interval(matrix: Matrix, column: str, a: Cell, b: Cell) -> tuple[float, float, str] | None:
    """Compute the 95 % interval of `a` minus `b`, and its test. It excludes 0 if p < 0.05.

    It is not corrected for the number of differences. For correlations it is the interval of Fisher's z, scaled to
    points by the slope between the two values.

    Args:
        matrix: The transfer matrix, with the stored scores of rows.
        column: `split/dataset`.
        a: One cell.
        b: Another cell of the same column.

    Returns:
        Both ends in points, ×100, and the test as of `compare_cells`. None without a test.
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
    """Subtract two cells of a column by the test of `compare_cells`.

    Args:
        matrix: The transfer matrix, with the stored scores of rows.
        column: `split/dataset`.
        a: One cell.
        b: Another cell of the same column.

    Returns:
        `a` minus `b`, with the error between seeds. None without a test.
    """
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
    """Count significant differences of each row to all others.

    Args:
        matrix: The transfer matrix.
        frame: Tested differences, from `differences`.

    Returns:
        A table with a line for each row.
    """
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


LEAST_SHARED = 3
"""Common values that a correlation needs."""

MOST_PAIRS = 10

RESAMPLES = 2000
CONFIDENCE = 0.95
LEAST_ROWS = 4
"""Rows that an interval, or the correlation of a single column, needs."""

ALL = "all cells"
CENTRED = "all cells, columns' levels removed"


def _clean_scores(matrix: Matrix, rows: Sequence[Row], columns: Sequence[str]) -> np.ndarray:
    """Scores ×100. NaN without a score, or with a leak from another training set."""
    flatters = matrix.frame("flatters", columns, rows).eq(True)
    return 100 * matrix.frame("mean", columns, rows).mask(flatters).to_numpy(dtype=float)


def clustered(matrix: Matrix, columns: Sequence[str]) -> tuple[list[Row], list[str]]:
    """Order rows and columns so that similar ones are side by side. Baselines stay at the end.

    Average linkage on 1 − Spearman between profiles, with leaves in optimal order (Bar-Joseph et al. 2001).

    Args:
        matrix: The transfer matrix.
        columns: `split/dataset` keys.

    Returns:
        All rows and the given columns in their new order.
    """
    table = _clean_scores(matrix, matrix.rows, columns)
    trained = [number for number, row in enumerate(matrix.rows) if row.is_trained]
    # A column's level says how hard the set is; what a row has learnt shows in how it departs from it.
    level = pd.DataFrame(table).mean().fillna(0).to_numpy()
    rows = [matrix.rows[trained[number]] for number in _leaf_order((table - level)[trained])]
    rows += [row for row in matrix.rows if not row.is_trained]
    return rows, [columns[number] for number in _leaf_order(table.T)]


def _leaf_order(table: np.ndarray) -> list[int]:
    if len(table) < 3:
        return list(range(len(table)))
    likeness = pd.DataFrame(table.T).corr("spearman", min_periods=LEAST_SHARED).fillna(0).to_numpy()
    condensed = 1 - likeness[np.triu_indices(len(table), 1)]
    return [int(number) for number in leaves_list(linkage(condensed, "average", optimal_ordering=True))]


def complementary_pairs(matrix: Matrix, rows: Sequence[Row], columns: Sequence[str]) -> pd.DataFrame:
    """List pairs of `rows`, the most complementary first, in points over common columns without leaks.

    Args:
        matrix: The transfer matrix.
        rows: Rows to pair, usually of one training set.
        columns: `split/dataset` keys.

    Returns:
        A frame with the labels `first` and `second`. `best_of` is the mean of the better of both, minus the mean of the
        better row: the possible gain of a model that keeps both. `observed` is the same for the best row that was
        trained on both, or NaN. `joint` is its label. `columns` counts columns.
    """
    joint = [row for row in matrix.rows if len(row.sets) == 2]
    table, joint_table = (_clean_scores(matrix, group, columns) for group in (rows, joint))
    pairs = []
    for (first, a), (second, b) in combinations(zip(rows, table, strict=True), 2):
        shared = np.isfinite(a) & np.isfinite(b)
        if not shared.any():
            continue
        better = max(a[shared].mean(), b[shared].mean())
        best_of = np.maximum(a, b)[shared].mean() - better
        observed = [
            (float(values.mean() - better), row.label)
            for row, values in zip(joint, joint_table[:, shared], strict=True)
            if {*row.sets} == {*first.sets, *second.sets}
            and row.setup == first.setup
            and np.isfinite(values).all()
        ]
        pairs.append(
            (first.label, second.label, best_of, *max(observed, default=(np.nan, "")), int(shared.sum()))
        )
    frame = pd.DataFrame(pairs, columns=["first", "second", "best_of", "observed", "joint", "columns"])
    return frame.sort_values("best_of", ascending=False, kind="stable", ignore_index=True)


def greedy_order(matrix: Matrix, rows: Sequence[Row], columns: Sequence[str]) -> pd.DataFrame:
    """Take the row with the best mean, then at each step the row that raises the mean of the best-of most.

    Only columns with clean scores in every row count. The order ends when no row adds anything.

    Args:
        matrix: The transfer matrix.
        rows: Rows to choose from.
        columns: `split/dataset` keys.

    Returns:
        A frame with a line a step. `added`, `mean` and `gain` are the row, the mean of the best-of and its gain in
        points. `improves` lists the columns that it raises.
    """
    table = pd.DataFrame(_clean_scores(matrix, rows, columns), [row.label for row in rows], list(columns))
    table = table.dropna(axis="columns")
    best = pd.Series(-np.inf, table.columns)
    steps: list[tuple[str, float, float, list[str]]] = []
    while table.size and len(steps) < len(rows):
        label = str(table.clip(lower=best, axis="columns").mean(axis="columns").idxmax())
        after = table.loc[label].clip(lower=best)
        gain = (after - best).mean() if steps else 0.0
        if steps and gain <= 0:
            break
        improves = list(table.columns[after > best]) if steps else []
        steps.append((label, after.mean(), gain, improves))
        best = after
    return pd.DataFrame(steps, columns=["added", "mean", "gain", "improves"])


def shape_fidelity(matrix: Matrix, published: Sequence[Published]) -> pd.DataFrame:
    """Correlate our cells with those of each source by Spearman.

    Several rows or figures of the same training are averaged. `compare` decides which cells are comparable.

    Args:
        matrix: The transfer matrix.
        published: Published figures. Sources with fewer than LEAST_SHARED common cells are left out.

    Returns:
        A frame. `scope` is ALL, CENTRED for columns minus their means, so that easy and hard sets do not count, or a
        column with at least LEAST_ROWS rows. `cells` and `rows` count common values. `low` and `high` are a 95 %
        bootstrap interval that samples rows with all their cells, because a row is one training.
    """
    body = []
    for source in sorted({number.source for number in published}):
        compared = compare(matrix, [number for number in published if number.source == source])
        pairs = pd.DataFrame(
            [
                (f"{theirs.trained_on} {theirs.loss}", entry.column, 100 * entry.ours.mean, theirs.percent)
                for entry in compared
                if (theirs := entry.published) is not None
            ],
            columns=["row", "column", "ours", "theirs"],
        )
        means = pairs.groupby(["row", "column"]).mean()
        if len(means) < LEAST_SHARED:
            continue
        # Rows stay in the order of the matrix, which decides what a bootstrap draws.
        ours, theirs = (means[side].unstack().reindex(pairs["row"].unique()) for side in ("ours", "theirs"))
        body.append((source, ALL, *_correlation(ours, theirs)))
        if len(ours.columns) > 1:
            body.append((source, CENTRED, *_correlation(ours - ours.mean(), theirs - theirs.mean())))
        for column in ours.columns[ours.count() >= LEAST_ROWS]:
            body.append((source, column, *_correlation(ours[[column]], theirs[[column]])))
    return pd.DataFrame(body, columns=["source", "scope", "cells", "rows", "value", "low", "high"])


def _correlation(our_frame: pd.DataFrame, their_frame: pd.DataFrame) -> tuple[int, int, float, float, float]:
    """Cells, rows, Spearman correlation and its interval."""
    ours, theirs = (frame.dropna(how="all").to_numpy() for frame in (our_frame, their_frame))
    shared, values = np.isfinite(ours), [np.nan]
    if len(ours) >= LEAST_ROWS:
        samples = np.random.default_rng(0).integers(0, len(ours), (RESAMPLES, len(ours)))
        values = [_spearman(ours[rows][shared[rows]], theirs[rows][shared[rows]]) for rows in samples]
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = (float(pd.Series(values).dropna().quantile(end / 100)) for end in (tail, 100 - tail))
    return int(shared.sum()), len(ours), _spearman(ours[shared], theirs[shared]), low, high


def _spearman(a: np.ndarray, b: np.ndarray) -> float:
    """NaN below two values, or if one side is constant."""
    if len(a) < 2:
        return math.nan
    from scipy.stats import rankdata  # takes half a second, and most runs have nothing published beside them

    ranks = rankdata(np.stack([a, b]), axis=1)
    ranks -= ranks.mean(axis=1, keepdims=True)
    norm = np.sqrt((ranks**2).sum(axis=1)).prod()
    return float(ranks[0] @ ranks[1] / norm) if norm > 0 else math.nan


def complement_tables(matrix: Matrix, rows: Sequence[Row], columns: Sequence[str]) -> list[ReportTable]:
    """Make the tables of complementary pairs and of the next stage.

    Args:
        matrix: The transfer matrix.
        rows: Rows to combine.
        columns: `split/dataset` keys. With fewer than two the tables are empty.

    Returns:
        Two tables.
    """
    note = (
        "Best of both: in each set the better of the two rows, on average, less the better row's average. A model "
        "that keeps both could gain as much. Observed: the same for a row that was trained on both."
    )
    pairs, steps = complementary_pairs(matrix, rows, columns), greedy_order(matrix, rows, columns)
    if len(columns) < 2:  # of a single set the better row is the best of both
        pairs, steps = pairs.head(0), steps.head(0)
    pairs = pairs[(pairs.index < MOST_PAIRS) | pairs["observed"].notna()]
    body = [
        (f"{first} + {second}", str(count), signed(best_of), signed(observed), joint or MISSING)
        for first, second, best_of, observed, joint, count in pairs.itertuples(index=False)
    ]
    head: tuple[str, ...] = ("pair", "sets", "best of both", "observed", "by")
    pairs_table = ReportTable("pairs", "Which pairs complement one another?", note, head, body)
    note = (
        "Starts with the best single row. Each step adds the row that raises the mean of the best-of most. Only sets "
        "count in which every row has a score without a leak from another set. A proposal for the next stage, "
        "not a measurement of it."
    )
    body = [
        (
            str(number + 1),
            added,
            f"{mean:.1f}",
            signed(gain) if number else MISSING,
            ", ".join(map(heading, improves)) or MISSING,
        )
        for number, added, mean, gain, improves in steps.itertuples()
    ]
    head = ("step", "add", "best-of mean", "gain", "improves")
    return [pairs_table, ReportTable("greedy", "What should the next stage be?", note, head, body)]


def fidelity_table(fidelity: pd.DataFrame) -> ReportTable:
    """Make the table of agreement with published numbers.

    Args:
        fidelity: Output of `shape_fidelity`.

    Returns:
        A table with a line for each source and scope.
    """
    note = (
        "Spearman correlation between our cells and the published ones, over the cells that both have. 95 % interval "
        "from a bootstrap over rows with all their cells. Levels removed: each column less its mean on either side, "
        "so that which set is easy does not count, only which training helps it. An interval from fewer than "
        "ten rows is a hint."
    )
    body = [
        (
            source,
            heading(scope) if "/" in scope else scope,
            str(cells),
            str(rows),
            MISSING if pd.isna(value) else f"{value:.3f}",
            MISSING if pd.isna(low) else f"[{low:.3f}, {high:.3f}]",
        )
        for source, scope, cells, rows, value, low, high in fidelity.itertuples(index=False)
    ]
    head = ("source", "scope", "cells", "rows", "correlation", "95 % interval")
    return ReportTable("fidelity", "Is the shape the published one?", note, head, body)
