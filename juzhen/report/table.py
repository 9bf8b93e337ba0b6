"""A matrix as text: Markdown, console, CSV. Fractions are shown ×100."""

import csv
import io

from juzhen.core.markup import in_markdown
from juzhen.report.matrix import Cell, Matrix, Row
from juzhen.report.stacked_table import Column, StackedTable

MISSING = "—"

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


def to_console(matrix: Matrix) -> StackedTable:
    """A table for a terminal, without its caption; intervals stand below their value so that many columns fit."""
    columns = [Column("trained on"), *(Column(heading(one), is_number=True) for one in matrix.columns)]
    rows = [
        [
            f"{row.label} ({row.num_seeds} seeds)" if row.num_seeds > 1 else row.label,
            *(shown(row, column).replace(" ", "\n", 1) for column in matrix.columns),
        ]
        for row in matrix.rows
    ]
    return StackedTable(columns, rows)


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
