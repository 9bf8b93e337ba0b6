"""Whether our picture has the shape of a published one: rank correlation between the cells that both have."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from juzhen.report.compare import compare
from juzhen.report.complement import rank_correlation
from juzhen.report.figures import Published
from juzhen.report.matrix import Matrix
from juzhen.report.table import MISSING, Table, heading

RESAMPLES = 2000
CONFIDENCE = 0.95
LEAST_ROWS = 4
"""Rows for an interval, and for the correlation of a single column."""

LEAST_CELLS = 3
"""For a correlation at all."""

ALL = "all cells"
CENTRED = "all cells, columns' levels removed"


@dataclass(frozen=True)
class Fidelity:
    """Spearman correlation between our cells and those of one source.

    scope      ALL; CENTRED: each column less its mean on either side, so that easy and hard sets do not count;
               or a column
    low, high  95 % bootstrap interval; rows are drawn with all their cells, as a row is one training.
               None below LEAST_ROWS rows
    """

    source: str
    scope: str
    cells: int
    rows: int
    value: float | None
    low: float | None
    high: float | None


def shape_fidelity(matrix: Matrix, published: Sequence[Published]) -> list[Fidelity]:
    """Per source: over all cells, over all with levels removed, and per column with at least LEAST_ROWS rows."""
    found = []
    for source in sorted({one.source for one in published}):
        ours, theirs, columns = _shared(matrix, [one for one in published if one.source == source])
        if np.isfinite(ours).sum() < LEAST_CELLS:
            continue
        found.append(_fidelity(source, ALL, ours, theirs))
        if len(columns) > 1:
            found.append(_fidelity(source, CENTRED, _centred(ours), _centred(theirs)))
        for place, column in enumerate(columns):
            if np.isfinite(ours[:, place]).sum() >= LEAST_ROWS:
                found.append(_fidelity(source, column, ours[:, [place]], theirs[:, [place]]))
    return found


def _shared(matrix: Matrix, published: Sequence[Published]) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Two tables, rows = training sets in order, columns = sets of one split; NaN where either has no number.

    Several rows or several figures for the same training are averaged; what is the like of what, `compare` says.
    """
    ours: dict[tuple[str, str], list[float]] = {}
    theirs: dict[tuple[str, str], list[float]] = {}
    for one in compare(matrix, published):
        if one.published is not None:
            key = (f"{one.published.trained_on} {one.published.loss}", one.column)
            ours.setdefault(key, []).append(100 * one.ours.mean)
            theirs.setdefault(key, []).append(one.published.percent)
    keys = list(ours)
    rows, columns = list(dict.fromkeys(row for row, _ in keys)), sorted({column for _, column in keys})
    tables = np.full((2, len(rows), len(columns)), np.nan)
    for row, column in keys:
        for table, known in zip(tables, (ours, theirs), strict=True):
            table[rows.index(row), columns.index(column)] = statistics.fmean(known[row, column])
    return tables[0], tables[1], columns


def _centred(table: np.ndarray) -> np.ndarray:
    return table - np.nanmean(table, axis=0)


def _fidelity(source: str, scope: str, ours: np.ndarray, theirs: np.ndarray) -> Fidelity:
    there = np.isfinite(ours)
    kept = there.any(axis=1)
    ours, theirs, there = ours[kept], theirs[kept], there[kept]
    low = high = None
    if len(ours) >= LEAST_ROWS:
        random = np.random.default_rng(0)
        drawn = random.integers(0, len(ours), (RESAMPLES, len(ours)))
        values = [rank_correlation(ours[rows][there[rows]], theirs[rows][there[rows]]) for rows in drawn]
        known = [value for value in values if value is not None]
        if known:
            tail = 100 * (1 - CONFIDENCE) / 2
            low, high = (float(one) for one in np.percentile(known, [tail, 100 - tail]))
    value = rank_correlation(ours[there], theirs[there])
    return Fidelity(source, scope, int(there.sum()), len(ours), value, low, high)


def fidelity_table(found: Iterable[Fidelity]) -> Table:
    note = (
        "Spearman correlation between our cells and the published ones, over the cells that both have. 95 % interval "
        "from a bootstrap over rows with all their cells. Levels removed: each column less its mean on either side, "
        "so that which set is easy does not count, only which training helps it. An interval from fewer than "
        "ten rows is a hint."
    )
    lines = [
        (
            one.source,
            heading(one.scope) if "/" in one.scope else one.scope,
            str(one.cells),
            str(one.rows),
            MISSING if one.value is None else f"{one.value:.3f}",
            MISSING if one.low is None or one.high is None else f"[{one.low:.3f}, {one.high:.3f}]",
        )
        for one in found
    ]
    head = ("source", "scope", "cells", "rows", "correlation", "95 % interval")
    return Table("fidelity", "Is the shape the published one?", note, head, lines)
