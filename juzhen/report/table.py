"""A matrix as text: Markdown, console, CSV; and what the other tables of a report are. Fractions are shown ×100."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from juzhen.core.csv_rows import csv_text
from juzhen.core.markup import in_markdown, markdown_table
from juzhen.report.matrix import Cell, Matrix, Row
from juzhen.report.stacked_table import Column, StackedTable

MISSING = "—"

CSV_COLUMNS = ("row", "setup", "split", "dataset", "metric", "mean", "std", "low", "high", "num_seeds")


@dataclass(frozen=True)
class Table:
    """One table of the report, as plain text cells; Markdown and the page are made from the same ones.

    key    a word for markers and anchors
    lines  cells as text, as many as `head` has
    empty  what stands in place of no lines
    """

    key: str
    title: str
    note: str
    head: tuple[str, ...]
    lines: Sequence[tuple[str, ...]]
    empty: str = "Nothing here to answer this from."


def caption(matrix: Matrix) -> str:
    hidden = ", ".join(map(heading, matrix.hidden))
    return (
        f"{matrix.metric.replace('_', ' ')} ×100; row: trained on, column: evaluated on. "
        f"One seed: 95 % bootstrap interval where there is one; several: mean ± standard deviation "
        f"(n: seeds with a value, where not all have one). {MISSING} no score."
        + (f" Not shown: {hidden}; --split both shows them." if hidden else "")
    )


def undefined_lines(matrix: Matrix) -> list[str]:
    """Why cells have no score though their sets were evaluated, a line for the rows of a column that share a reason."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in matrix.rows:
        for column in matrix.columns:
            if why := row.why_missing(column, matrix.metric):
                found.setdefault((column, why), []).append(row.label)
    return [
        f"{MISSING} {heading(column)}: {why} ({', '.join(labels)})" for (column, why), labels in found.items()
    ]


def matrix_table(
    matrix: Matrix, words: Callable[[Row, str], str]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Headings and lines of the matrix; `words` are what a row has in a column."""
    head = ("trained on", "seeds", *map(heading, matrix.columns))
    return head, [
        (row.label, str(row.num_seeds), *(words(row, column) for column in matrix.columns))
        for row in matrix.rows
    ]


def to_markdown(matrix: Matrix) -> str:
    head, lines = matrix_table(matrix, shown)
    told = "".join(f"\n{in_markdown(line)}\n" for line in undefined_lines(matrix))
    return f"{caption(matrix)}\n\n{markdown_table(head, lines, numbers=range(1, len(head)))}\n{told}"


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


def to_csv(
    matrix: Matrix, more: Sequence[str] = (), values_of: Callable[[Any], Sequence[object]] = lambda cell: ()
) -> str:
    """One line per row and split, as fractions in full precision; also splits that the table leaves out.

    more  names of further columns; `values_of` gives what a cell has there
    """
    lines: list[Sequence[object]] = [(*CSV_COLUMNS, *more)]
    for row in matrix.rows:
        for column, cell in sorted(row.cells.items()):
            values = (cell.mean, cell.std, cell.low, cell.high, cell.num_seeds, *values_of(cell))
            lines.append((row.label, row.setup, *column.split("/"), matrix.metric, *values))
    return csv_text(lines)


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def signed(value: float | None) -> str:
    return MISSING if value is None else f"{value:+.1f}"


def heading(column: str) -> str:
    """A column's name in a table: `test/lcqmc` → `lcqmc (test)`."""
    split, dataset = column.split("/")
    return f"{dataset} ({split})"


def shown(row: Row, column: str) -> str:
    """A cell in words, with the number of seeds where not all have a value."""
    cell = row.cells.get(column)
    if cell is None:
        return MISSING
    number = (
        mean_and_deviation(cell) if cell.std is not None else with_interval(cell.mean, cell.low, cell.high)
    )
    return number if cell.num_seeds == row.num_seeds else f"{number} (n = {cell.num_seeds})"


def interval(low: float | None, high: float | None) -> str:
    return MISSING if low is None or high is None else f"[{percent(low)}, {percent(high)}]"


def with_interval(value: float, low: float | None, high: float | None) -> str:
    return f"{percent(value)} {interval(low, high)}".removesuffix(f" {MISSING}")


def mean_and_deviation(cell: Cell) -> str:
    return percent(cell.mean) + (f" ± {percent(cell.std)}" if cell.std is not None else "")
