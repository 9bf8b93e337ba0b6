"""A matrix as dots with intervals: a panel for each set, its rows in the order of their values."""

from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from juzhen.core.errors import UserError
from juzhen.report.heatmap import INCHES_PER_ROW, short_label
from juzhen.report.matrix import Matrix
from juzhen.report.picture import save_picture
from juzhen.report.table import heading

PANELS, PANEL_INCHES = 2, 5.5
"""Panels side by side, and their width."""


def draw_dots(matrix: Matrix, path: Path) -> None:
    """Writes the columns that the table shows as .svg or .png. Raises UserError where none has a score."""
    columns = [column for column in matrix.columns if any(column in row.cells for row in matrix.rows)]
    if not columns:
        raise UserError(f"--picture {path}: no run has a score in {matrix.metric}; there is nothing to draw")
    across, down = min(PANELS, len(columns)), -(-len(columns) // PANELS)
    most = max(sum(column in row.cells for row in matrix.rows) for column in columns)
    size = (PANEL_INCHES * across, down * (1.1 + INCHES_PER_ROW * most))
    with matplotlib.rc_context(
        {"svg.fonttype": "none", "font.size": 9, "figure.constrained_layout.use": True}
    ):
        figure = Figure(figsize=size)
        panels = figure.subplots(down, across, squeeze=False).ravel()
        for panel, column in zip(panels, columns, strict=False):
            _panel(panel, matrix, column)
        for panel in panels[len(columns) :]:
            panel.set_visible(False)
        save_picture(figure, path)


def _panel(axes: Axes, matrix: Matrix, column: str) -> None:
    rows = sorted((row for row in matrix.rows if column in row.cells), key=lambda row: row.cells[column].mean)
    for place, row in enumerate(rows):
        cell = row.cells[column]
        spread = (cell.low, cell.high) if cell.std is None else (cell.mean - cell.std, cell.mean + cell.std)
        ends = [100 * end for end in spread if end is not None]
        axes.plot(ends, [place] * len(ends), color="#3b6ea5", linewidth=2)
        axes.plot(100 * cell.mean, place, "o", color="#12355b", markersize=5)
    axes.set_yticks(range(len(rows)), [short_label(row.label) for row in rows])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#dddddd")
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_title(f"{heading(column)}, {matrix.metric} ×100", loc="left", fontsize=9)
