"""A matrix as text: Markdown, console, CSV. Fractions are shown ×100."""

import csv
import io
from dataclasses import replace
from typing import TYPE_CHECKING

from schema.markup import in_markdown
from sweeps.matrix import Cell, Matrix, Row

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

MISSING = "—"
LABEL_WIDTH = 44
"""Characters of a label on the console before it is folded."""

CSV_COLUMNS = ("row", "setup", "split", "dataset", "metric", "mean", "std", "low", "high", "num_seeds")


def caption(matrix: Matrix) -> str:
    """What the numbers are, in one line."""
    return (
        f"{matrix.metric.replace('_', ' ')} ×100; row: trained on, column: evaluated on. "
        f"One seed: 95 % bootstrap interval where there is one; several: mean ± standard deviation "
        f"(n: seeds with a value, where not all have one). {MISSING} no score.{_not_shown(matrix)}"
    )


def _not_shown(matrix: Matrix) -> str:
    if not matrix.hidden:
        return ""
    return f" Not shown: {', '.join(map(heading, matrix.hidden))}; --split both shows them."


def to_markdown(matrix: Matrix) -> str:
    """A Markdown table below its caption."""
    head = ["trained on", "seeds", *(heading(column) for column in matrix.columns)]
    lines = [head, ["---", *["--:"] * (len(head) - 1)]]
    for row in matrix.rows:
        cells = [shown(row, column) for column in matrix.columns]
        lines.append([row.label, str(row.num_seeds), *cells])
    table = "\n".join(f"| {' | '.join(map(in_markdown, line))} |" for line in lines)
    return f"{caption(matrix)}\n\n{table}\n"


def to_console(matrix: Matrix) -> "Table":
    """A rich table without its caption; intervals stand below their value so that many columns fit."""
    from rich.table import Table
    from rich.text import Text

    table = Table()
    table.add_column("trained on", overflow="fold", max_width=LABEL_WIDTH)
    for column in matrix.columns:
        words = [heading(column), *(shown(row, column) for row in matrix.rows)]
        widest = max(len(line) for word in words for line in word.split(" ", 1))
        table.add_column(heading(column).replace(" ", "\n"), justify="right", no_wrap=True, min_width=widest)
    for row in matrix.rows:
        label = f"{row.label} ({row.num_seeds} seeds)" if row.num_seeds > 1 else row.label
        # Text, not str: a label may hold square brackets, which rich would read as markup.
        cells = (shown(row, column).replace(" ", "\n", 1) for column in matrix.columns)
        table.add_row(Text(label), *map(Text, cells))
    return table


def console_tables(matrix: Matrix, console: "Console") -> list["Table"]:
    """The same in as many tables below each other as the console is too narrow for one with all columns."""
    unbounded = console.options.update(max_width=100_000)
    parts: list[list[str]] = [[]]
    for column in matrix.columns:
        wider = to_console(replace(matrix, columns=[*parts[-1], column]))
        if parts[-1] and console.measure(wider, options=unbounded).minimum > console.width:
            parts.append([])
        parts[-1].append(column)
    return [to_console(replace(matrix, columns=one)) for one in parts]


def to_csv(matrix: Matrix) -> str:
    """One line per row and split, as fractions in full precision; also splits that the table leaves out."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for row in matrix.rows:
        for column, cell in sorted(row.cells.items()):
            split, dataset = column.split("/")
            values = (cell.mean, cell.std, cell.low, cell.high, cell.num_seeds)
            writer.writerow((row.label, row.setup, split, dataset, matrix.metric, *values))
    return file.getvalue()


def percent(value: float) -> str:
    """A fraction ×100 with one decimal."""
    return f"{100 * value:.1f}"


def heading(column: str) -> str:
    """A column's name in a table: `test/lcqmc` → `lcqmc (test)`."""
    split, dataset = column.split("/")
    return f"{dataset} ({split})"


def shown(row: Row, column: str) -> str:
    """A cell in words, with the number of seeds where not all have a value."""
    cell = row.cells.get(column)
    if cell is None:
        return MISSING
    complete = cell.num_seeds == row.num_seeds
    return _number(cell) if complete else f"{_number(cell)} (n = {cell.num_seeds})"


def _number(cell: Cell) -> str:
    if cell.std is not None:
        return f"{percent(cell.mean)} ± {percent(cell.std)}"
    if cell.low is not None and cell.high is not None:
        return f"{percent(cell.mean)} [{percent(cell.low)}, {percent(cell.high)}]"
    return percent(cell.mean)
