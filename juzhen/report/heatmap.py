"""The matrix as a heat map: SVG and PNG, readable without colour, ASCII set names."""

import re
import textwrap
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from juzhen.report.build import Report
from juzhen.report.entries import EntryRow
from juzhen.report.picture import save_picture
from juzhen.report.table import heading, percent
from juzhen.report.tables import BELOW, LEAKY, signs

COLOURS = "cividis"
"""Nuñez, Anderton and Renslow (2018): the same for every kind of colour vision, and even in grey."""

LABEL_WIDTH, LABEL_LINES = 44, 2
INCHES_PER_COLUMN, INCHES_PER_ROW, LEAST_INCHES = 0.72, 0.34, 5.5


def draw_heat_map(report: Report, folder: Path) -> list[Path]:
    """`<folder>/matrix.svg` and `.png`; the paths. Rows and columns in clustered order, none without any score."""
    rows, columns = report.clustered
    columns = [column for column in columns if any(column in row.cells for row in rows)]
    rows = [row for row in rows if row.cells.keys() & set(columns)]
    if not rows:
        return []
    style = matplotlib.rc_context(
        {
            "svg.fonttype": "none",  # words stay words
            "font.size": 9,
            "figure.constrained_layout.use": True,
        }
    )
    with style:
        figure = _figure(rows, columns, report.matrix.metric)
        return save_picture(figure, folder / "matrix.svg", folder / "matrix.png")


def _figure(rows: list[EntryRow], columns: list[str], metric: str) -> Figure:
    values = np.array(
        [[100 * row.cells[one].mean if one in row.cells else np.nan for one in columns] for row in rows]
    )
    labels = [short_label(row.label) for row in rows]
    label_width = 0.075 * max(len(line) for label in labels for line in label.split("\n")) + 1.2
    size = (
        max(LEAST_INCHES, label_width + INCHES_PER_COLUMN * len(columns)),
        1.7 + INCHES_PER_ROW * len(rows),
    )
    figure = Figure(figsize=size)
    axes = figure.subplots()
    norm = Normalize(vmin=min(0.0, np.nanmin(values)), vmax=100)
    image = axes.imshow(values, cmap=COLOURS, norm=norm, aspect="auto")
    axes.set_xticks(range(len(columns)), [heading(one) for one in columns], rotation=35, ha="right")
    axes.set_yticks(range(len(rows)), labels)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    for y, row in enumerate(rows):
        for x, column in enumerate(columns):
            _annotate(axes, row, column, (x, y), norm(float(values[y, x])))
    axes.set_title(
        f"{metric} ×100\noutlined: trained on it, {LEAKY} leaky, {BELOW} below the lexical baseline",
        fontsize=8,
        loc="left",
    )
    figure.colorbar(image, ax=axes, fraction=0.03, pad=0.02)
    return figure


def short_label(label: str) -> str:
    """At most two lines; what is not Latin becomes an ellipsis, since a fresh machine has no font for it.

    >>> short_label("csts · model.templates.zh.anchor=这句话")
    'csts · model.templates.zh.anchor=…'
    """
    latin = re.sub(r"[^\x20-\x7e→·±]+", "…", label)
    return "\n".join(textwrap.wrap(latin, LABEL_WIDTH, max_lines=LABEL_LINES, placeholder=" …"))


def _annotate(axes: Axes, row: EntryRow, column: str, place: tuple[int, int], lightness: float) -> None:
    entry = row.cells.get(column)
    if entry is None:
        axes.text(*place, "·", ha="center", va="center", color="#888888")
        return
    colour = "black" if lightness > 0.5 else "white"
    axes.text(*place, percent(entry.mean) + signs(entry), ha="center", va="center", color=colour, fontsize=8)
    if entry.in_domain:
        corner = (place[0] - 0.46, place[1] - 0.44)
        axes.add_patch(Rectangle(corner, 0.92, 0.88, fill=False, edgecolor=colour, linewidth=1.2))
