"""Pictures: figures as files, the matrix as a heat map and as dots with intervals, reliability."""

import re
import textwrap
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize, to_hex
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager, get_font, get_font_names
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from juzhen.core.atomic_write import atomic_write
from juzhen.core.calibration_files import SCALINGS
from juzhen.core.errors import UserError
from juzhen.core.kinds import metric_title
from juzhen.report.html_shell import GAINS, ink_on
from juzhen.report.matrix import BELOW, LEAKY, Cell, Matrix, Row
from juzhen.report.table import heading, of_measures, percent

CHINESE = re.compile(r"[\u3000-\u9fff\uff00-\uffef]")
CHINESE_FONTS = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "PingFang SC", "Hiragino Sans GB", "Heiti TC",
    "Microsoft YaHei", "SimHei", "WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "Noto Serif CJK JP", "Arial Unicode MS",
)  # fmt: skip
"""Chinese fonts of Linux, macOS and Windows. A collection has the name of its first font."""

MISSING_GLYPH = r"Glyph (\d+) .*missing from"
"""Warning of matplotlib about a character that no font has."""

COLOURS = "cividis"
"""Nuñez, Anderton and Renslow (2018): equal for every kind of colour vision, and even in grey."""

LABEL_WIDTH, LABEL_LINES = 44, 2
INCHES_PER_COLUMN, INCHES_PER_ROW, LEAST_INCHES = 0.72, 0.34, 5.5

PANELS, PANEL_INCHES = 2, 5.5
"""Panels of dots side by side, and their width."""

STYLE: dict[Any, Any] = {"svg.fonttype": "none", "font.size": 9}
"""Keep words as text in an SVG."""


def save_picture(figure: Figure, *paths: Path) -> list[Path]:
    """Write a figure as .svg or .png, atomically. The same figure gives the same file.

    Args:
        figure: The figure.
        paths: Files to write.

    Returns:
        The paths.
    """
    boxes: dict[str, None] = {}
    for path in paths:
        is_svg = path.suffix == ".svg"
        options = {"metadata": {"Date": None}} if is_svg else {"dpi": 150}
        if not is_svg:
            _use_chinese_font(figure)
        with (
            matplotlib.rc_context({"svg.hashsalt": "juzhen"}),
            warnings.catch_warnings(record=True) as told,
            atomic_write(path, "wb") as file,
        ):
            warnings.filterwarnings("always", message=MISSING_GLYPH)
            figure.savefig(file, format=path.suffix[1:], **options)
        for each in told if not is_svg else ():
            if found := re.match(MISSING_GLYPH, str(each.message)):
                boxes[chr(int(found[1]))] = None
    if boxes:
        signs = " ".join([*boxes][:8])
        warnings.warn(
            f"picture: no installed font has {signs}. A .png shows boxes there. Install a font with Chinese "
            "characters, such as Noto Sans CJK (fonts-noto-cjk on Debian), or open the .svg, whose viewer chooses "
            "the font.",
            stacklevel=2,
        )
    return list(paths)


@cache
def _chinese_fonts() -> list[str]:
    """The installed fonts of CHINESE_FONTS, or else any other font with Chinese characters."""
    installed = get_font_names()
    return [name for name in CHINESE_FONTS if name in installed] or [
        entry.name
        for entry in fontManager.ttflist
        if "Last Resort" not in entry.name and get_font(entry.fname).get_char_index(ord("的"))
    ][:1]


def _use_chinese_font(figure: Figure) -> None:
    """Draw Chinese words with an installed font that has them. An SVG leaves the font to the viewer."""
    for text in figure.findobj(Text):
        if isinstance(text, Text) and CHINESE.search(text.get_text()):
            text.set_fontfamily([*matplotlib.rcParams["font.sans-serif"][:1], *_chinese_fonts()])


def _lay_out(figure: Figure) -> None:
    """Place the axes for the words that they have, and fix the layout."""
    texts = [text for text in figure.findobj(Text) if isinstance(text, Text)]
    families = [text.get_fontfamily() for text in texts]
    _use_chinese_font(figure)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=MISSING_GLYPH)
        figure.draw_without_rendering()
    for text, family in zip(texts, families, strict=True):
        text.set_fontfamily(family)
    figure.set_layout_engine(None)  # with any engine, "none" included, a file is drawn twice


GAIN_COLOURS = LinearSegmentedColormap.from_list("gains", [f"#{colour}" for colour in GAINS["light"]])


def draw_heat_map(
    matrix: Matrix, rows: Sequence[Row], columns: Sequence[str], gains: pd.DataFrame, folder: Path
) -> list[Path]:
    """Draw `<folder>/matrix.svg` and `.png`, readable without colour.

    Colours show the gain over the untrained weights. Each column has its own scale, and white is no gain. Without a
    gain they show the score.

    Args:
        matrix: The transfer matrix.
        rows: Rows from top to bottom.
        columns: Columns from left to right.
        gains: Row label and column → gain, in points.
        folder: Folder for the files.

    Returns:
        The paths. Empty without scores.
    """
    columns = [column for column in columns if any(column in row.cells for row in rows)]
    rows = [row for row in rows if row.cells.keys() & set(columns)]
    if not rows:
        return []
    values = 100 * matrix.frame("mean", columns, rows).to_numpy()
    labels = [short_label(row.label) for row in rows]
    lines = [line for label in labels for line in label.split("\n")]
    label_width = 0.075 * max(len(line) + len(CHINESE.findall(line)) for line in lines) + 1.2
    width = max(LEAST_INCHES, label_width + INCHES_PER_COLUMN * len(columns))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, 1.7 + INCHES_PER_ROW * len(rows)), layout="constrained")
        axes = figure.subplots()
        by_gain = gains.reindex([row.label for row in rows], columns=columns)
        is_by_gain = bool(by_gain.notna().any(axis=None))
        shown, norm = values, Normalize(vmin=min(0.0, np.nanmin(values)), vmax=100)
        if is_by_gain:
            shown = (by_gain / by_gain.abs().max().replace(0, 1)).fillna(0).to_numpy()
            norm = Normalize(vmin=-1, vmax=1)
        image = axes.imshow(shown, cmap=GAIN_COLOURS if is_by_gain else COLOURS, norm=norm, aspect="auto")
        axes.set_xticks(
            range(len(columns)), [heading(column, matrix) for column in columns], rotation=35, ha="right"
        )
        axes.set_yticks(range(len(rows)), labels)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        legend = f"outlined: trained on it, {LEAKY} leaky, {BELOW} below the lexical baseline"
        colour = "\ncolour: gain over the untrained weights, each column by its largest" if is_by_gain else ""
        title = f"{of_measures(matrix, ', or what a column names')}{colour}\n{legend}"
        axes.set_title(title, fontsize=8, loc="left")
        ticks = [-1, 0, 1] if is_by_gain else None
        bar = figure.colorbar(image, ax=axes, fraction=0.03, pad=0.02, ticks=ticks)
        if is_by_gain:
            bar.ax.set_yticklabels(["loss", "0", "gain"])
        _lay_out(figure)  # the cells have no part in it, and each pass over them takes long
        inks = [[ink_on(to_hex(colour)) for colour in line] for line in image.to_rgba(shown)]
        for y, row in enumerate(rows):
            for x, column in enumerate(columns):
                _annotate(axes, row.cells.get(column), x, y, inks[y][x])
        return save_picture(figure, folder / "matrix.svg", folder / "matrix.png")


def short_label(label: str) -> str:
    """Break a label into at most two lines.

    Args:
        label: Label of a row.

    Returns:
        At most LABEL_LINES lines of LABEL_WIDTH characters. A longer label ends in "…".

    >>> short_label("csts · model.templates.zh.anchor=这句话")
    'csts · model.templates.zh.anchor=这句话'
    """
    return "\n".join(textwrap.wrap(label, LABEL_WIDTH, max_lines=LABEL_LINES, placeholder=" …"))


def _annotate(axes: Axes, cell: Cell | None, x: int, y: int, colour: str) -> None:
    style: dict[str, Any] = {"ha": "center", "va": "center", "in_layout": False}
    if cell is None:
        axes.text(x, y, "·", color="#888888", **style)
        return
    axes.text(x, y, percent(cell.mean) + cell.signs, color=colour, fontsize=8, **style)
    if cell.in_domain:
        axes.add_patch(
            Rectangle(
                (x - 0.46, y - 0.44), 0.92, 0.88, fill=False, edgecolor=colour, linewidth=1.2, in_layout=False
            )
        )


def draw_dots(matrix: Matrix, path: Path) -> None:
    """Draw the columns of the table as .svg or .png: a panel for each set, with rows in order of their values.

    Args:
        matrix: The transfer matrix.
        path: File to write.

    Raises:
        UserError: No run has a score.
    """
    columns = [column for column in matrix.columns if any(column in row.cells for row in matrix.rows)]
    if not columns:
        raise UserError(f"picture={path}: no run has a score. Evaluate a run first")
    across, down = min(PANELS, len(columns)), -(-len(columns) // PANELS)
    most = max(sum(column in row.cells for row in matrix.rows) for column in columns)
    size = (PANEL_INCHES * across, down * (1.1 + INCHES_PER_ROW * most))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(down, across, squeeze=False).ravel()
        for panel, column in zip(panels, columns, strict=False):
            _panel(panel, matrix, column)
        for panel in panels[len(columns) :]:
            panel.set_visible(False)
        save_picture(figure, path)


def _panel(axes: Axes, matrix: Matrix, column: str) -> None:
    rows = sorted((row for row in matrix.rows if column in row.cells), key=lambda row: row.cells[column].mean)
    for y, row in enumerate(rows):
        cell = row.cells[column]
        spread = (cell.low, cell.high) if cell.std is None else (cell.mean - cell.std, cell.mean + cell.std)
        ends = [100 * end for end in spread if end is not None]
        axes.plot(ends, [y] * len(ends), color="#3b6ea5", linewidth=2)
        axes.plot(100 * cell.mean, y, "o", color="#12355b", markersize=5)
    axes.set_yticks(range(len(rows)), [short_label(row.label) for row in rows])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#dddddd")
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_title(f"{heading(column)}, {metric_title(matrix.measures[column])} ×100", loc="left", fontsize=9)


# How far scores are to be believed as probabilities, as a picture.


def draw_reliability(report: dict[str, Any], path: Path) -> None:
    """Draw the share of positives over probability, one panel per scaling. Bars below count rows.

    Args:
        report: Output of a calibration: for "raw" and each scaling its bins and its expected calibration error.
        path: Picture to write. Its suffix chooses the format.
    """
    methods = ("raw", *SCALINGS)
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    for axes, method in zip(figure.subplots(1, len(methods), sharey=True), methods, strict=True):
        bins = [row for row in report[method]["bins"] if row["count"]]
        probabilities = [row["probability"] for row in bins]
        axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
        axes.bar(probabilities, [row["count"] / report["rows"] for row in bins], width=0.03, color="0.85")
        axes.plot(probabilities, [row["positives"] for row in bins], "o-", markersize=3)
        axes.set(
            title=f"{method}: ECE {report[method]['ece']:.3f}",
            xlabel="probability",
            xlim=(0, 1),
            ylim=(0, 1),
        )
    figure.axes[0].set_ylabel(f"share of positives, {report['set']}")
    save_picture(figure, path)
