"""Which rows belong together, and which pairs of them complete one another."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
from scipy.stats import rankdata

from juzhen.report.matrix import BASELINES, Matrix, Row
from juzhen.report.table import MISSING, Table, heading, signed

LEAST_SHARED = 3
"""Values that two rows or columns must share to have a correlation."""

MOST_PAIRS = 10


@dataclass(frozen=True)
class Pair:
    """Two single-set rows, in points over the columns that both have without a leak from another set.

    best_of    mean of the better of the two, less the mean of the better row: what a model could gain that kept both
    observed   the same of a row that was trained on both, None where there is none
    joint      label of that row, the best of several
    columns    how many
    """

    first: str
    second: str
    best_of: float
    observed: float | None
    joint: str
    columns: int


@dataclass(frozen=True)
class Step:
    """One choice of the greedy order: what it adds to the best of those before, in points over all columns."""

    added: str
    mean: float
    gain: float
    improves: tuple[str, ...]


def clustered(matrix: Matrix, columns: Sequence[str]) -> tuple[list[Row], list[str]]:
    """Rows and columns with alike ones side by side; baselines stay on top.

    Average linkage on 1 − Spearman between profiles, leaves in optimal order (Bar-Joseph et al. 2001).
    """
    table = _values(matrix.rows, columns)
    trained = [place for place, row in enumerate(matrix.rows) if row.trained_on not in BASELINES]
    rows = [row for row in matrix.rows if row.trained_on in BASELINES]
    # A column's level says how hard the set is; what a row has learnt shows in how it departs from it.
    level = np.array([_mean(values) for values in table.T])
    rows += [matrix.rows[trained[place]] for place in _leaf_order((table - level)[trained])]
    return rows, [columns[place] for place in _leaf_order(table.T)]


def complementary_pairs(rows: Sequence[Row], joint: Sequence[Row], columns: Sequence[str]) -> list[Pair]:
    """Pairs of `rows`, the most complementary first; `joint` are looked up for the same two sets."""
    table = _values(rows, columns)
    pairs = []
    for a, b in combinations(range(len(rows)), 2):
        shared = np.isfinite(table[a]) & np.isfinite(table[b])
        if not shared.any():
            continue
        better = max(table[a, shared].mean(), table[b, shared].mean())
        best_of = np.maximum(table[a, shared], table[b, shared]).mean() - better
        wanted, found = sorted((rows[a].trained_on, rows[b].trained_on)), []
        for row, values in zip(joint, _values(joint, columns)[:, shared], strict=True):
            is_of_both = sorted(row.trained_on.replace("+", ">").split(">")) == wanted
            if is_of_both and row.setup == rows[a].setup and np.isfinite(values).all():
                found.append((float(values.mean() - better), row.label))
        observed, label = max(found) if found else (None, "")
        pairs.append(Pair(rows[a].label, rows[b].label, best_of, observed, label, int(shared.sum())))
    return sorted(pairs, key=lambda one: -one.best_of)


def greedy_order(rows: Sequence[Row], columns: Sequence[str]) -> list[Step]:
    """The row with the best mean, then at each step the one that raises the mean of the best-of most.

    Only columns in which every row has a clean score count; ends when nothing adds anything.
    """
    table = _values(rows, columns)
    complete = np.isfinite(table).all(axis=0) if len(rows) else np.zeros(len(columns), bool)
    names = [column for column, kept in zip(columns, complete, strict=True) if kept]
    table = table[:, complete]
    best = np.full(len(names), -np.inf)
    steps: list[Step] = []
    while names and len(steps) < len(rows):
        place = int(np.argmax(np.maximum(table, best).mean(axis=1)))
        after = np.maximum(table[place], best)
        gain = after.mean() - best.mean() if steps else 0.0
        if steps and gain <= 0:
            break
        improved = tuple(name for name, up in zip(names, after > best, strict=True) if up) if steps else ()
        steps.append(Step(rows[place].label, float(after.mean()), float(gain), improved))
        best = after
    return steps


def _values(rows: Sequence[Row], columns: Sequence[str]) -> np.ndarray:
    """Scores ×100; NaN where there is none, or where another training set leaks."""
    table = np.full((len(rows), len(columns)), np.nan)
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            cell = row.cells.get(column)
            if cell is not None and not cell.flatters:
                table[i, j] = 100 * cell.mean
    return table


def _mean(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else 0.0


def _leaf_order(table: np.ndarray) -> list[int]:
    if len(table) < 3:
        return list(range(len(table)))
    condensed = np.array([_distance(a, b) for a, b in combinations(table, 2)])
    tree = linkage(condensed, method="average")
    return [int(place) for place in leaves_list(optimal_leaf_ordering(tree, condensed))]


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    """1 − Spearman over what both have; 1 where that is too little to say."""
    shared = np.isfinite(a) & np.isfinite(b)
    if shared.sum() < LEAST_SHARED:
        return 1.0
    return 1 - (rank_correlation(a[shared], b[shared]) or 0.0)


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float | None:
    """Spearman's; None below two values, or where one side has no spread."""
    if len(a) < 2:
        return None
    ranks = rankdata(np.stack([a, b]), axis=1)
    ranks -= ranks.mean(axis=1, keepdims=True)
    norm = np.sqrt((ranks**2).sum(axis=1)).prod()
    return float(ranks[0] @ ranks[1] / norm) if norm > 0 else None


def pairs_table(pairs: Sequence[Pair]) -> Table:
    note = (
        "Best of both: in each set the better of the two rows, on average, less the better row's average; what a model "
        "could gain that kept both, own sets included. Observed: the same for a row that was trained on both."
    )
    head = ("pair", "sets", "best of both", "observed", "by")
    lines = [
        (
            f"{one.first} + {one.second}",
            str(one.columns),
            signed(one.best_of),
            signed(one.observed),
            one.joint or MISSING,
        )
        for one in pairs
    ]
    shown = [line for place, line in enumerate(lines) if place < MOST_PAIRS or line[3] != MISSING]
    return Table("pairs", "Which pairs complement one another?", note, head, shown)


def greedy_table(steps: Sequence[Step]) -> Table:
    note = (
        "Starts with the best single row; each step adds the one that raises the mean of the best-of most, over "
        "sets in which every row has a score without a leak from another set. A proposal for the next stage, "
        "not a measurement of it."
    )
    lines = [
        (
            str(place),
            one.added,
            f"{one.mean:.1f}",
            signed(one.gain) if place > 1 else MISSING,
            ", ".join(heading(column) for column in one.improves) or MISSING,
        )
        for place, one in enumerate(steps, start=1)
    ]
    head = ("step", "add", "best-of mean", "gain", "improves")
    return Table("greedy", "What should the next stage be?", note, head, lines)
