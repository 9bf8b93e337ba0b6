"""Profiles of rows over sets: similar rows, complementary rows, and agreement with published profiles."""

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.cluster.hierarchy import leaves_list, linkage

from juzhen.report.compare import Published, compare
from juzhen.report.matrix import Matrix, Row
from juzhen.report.table import MISSING, ReportTable, heading, signed

LEAST_SHARED = 3
"""Common values that a correlation needs."""

MOST_PAIRS = 10

RESAMPLES = 2000
CONFIDENCE = 0.95
LEAST_ROWS = 4
"""Rows that an interval, or the correlation of a single column, needs."""

ALL = "all cells"
CENTRED = "all cells, columns' levels removed"


def clean_scores(matrix: Matrix, rows: Sequence[Row], columns: Sequence[str]) -> np.ndarray:
    """Scores ×100. NaN without a score, or with a leak from another training set."""
    flatters = matrix.frame("flatters", columns, rows).eq(True)
    return 100 * matrix.frame("mean", columns, rows).mask(flatters).to_numpy(dtype=float)


def clustered(matrix: Matrix, columns: Sequence[str]) -> tuple[list[Row], list[str]]:
    """Order rows and columns so that similar ones are side by side. Baselines stay at the end.

    Average linkage on 1 − Spearman between profiles, with leaves in optimal order (Bar-Joseph et al. 2001).
    """
    table = clean_scores(matrix, matrix.rows, columns)
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

    `best_of` is the mean of the better of both, minus the mean of the better row: the possible gain of a model that
    keeps both. `observed` is the same for the best row that was trained on both, or NaN. `joint` is its label.
    `columns` counts columns.
    """
    joint = [row for row in matrix.rows if len(row.sets) == 2]
    table, joint_table = (clean_scores(matrix, group, columns) for group in (rows, joint))
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

    Only columns with clean scores in every row count. The order ends when no row adds anything. `added`, `mean` and
    `gain` are the row and its gain in points over all columns. `improves` lists the columns that it raises.
    """
    table = pd.DataFrame(clean_scores(matrix, rows, columns), [row.label for row in rows], list(columns))
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

    `scope` is ALL, CENTRED for columns minus their means, so that easy and hard sets do not count, or a column with at
    least LEAST_ROWS rows. `cells` and `rows` count common values. `low` and `high` are a 95 % bootstrap interval that
    samples rows with all their cells, because a row is one training. Several rows or figures of the same training are
    averaged. `compare` decides which cells are comparable.
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
