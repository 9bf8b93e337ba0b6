"""What embeddings score that are cut to fewer numbers, beside the whole ones: a table and a curve."""

from collections.abc import Iterator
from typing import NamedTuple

from juzhen.core.result import nested_name, without_size
from juzhen.report.matrix import Cell, Matrix, Row
from juzhen.report.table import MISSING, ReportTable, heading, percent

WHOLE = "whole"


class Curve(NamedTuple):
    """A row on a set: its cell by size, None being all numbers of an embedding."""

    row: Row
    column: str
    cells: dict[int | None, Cell]


def curves(matrix: Matrix) -> list[Curve]:
    """One for each row and shown column that was scored at several sizes."""
    return [
        Curve(row, column, cells)
        for row in matrix.rows
        for column in matrix.columns
        if len(cells := dict(_cells(row, column))) > 1
    ]


def _cells(row: Row, column: str) -> Iterator[tuple[int | None, Cell]]:
    sizes = {without_size(key) for key in row.cells}
    for dim in sorted(dim for name, dim in sizes if name == column and dim is not None):
        yield dim, row.cells[nested_name(column, dim)]
    if column in row.cells:
        yield None, row.cells[column]


def all_sizes(drawn: list[Curve]) -> list[int | None]:
    """Every size that some curve has, rising, whole embeddings last."""
    sizes = {dim for curve in drawn for dim in curve.cells}
    return [*sorted(dim for dim in sizes if dim is not None), None]


def size_tables(matrix: Matrix) -> list[ReportTable]:
    """None where no row was scored at several sizes."""
    drawn = curves(matrix)
    sizes = all_sizes(drawn)
    body = [
        (curve.row.label, heading(curve.column, matrix), *(_text(curve.cells, dim) for dim in sizes))
        for curve in drawn
    ]
    note = (
        "Embeddings cut to their first numbers; in brackets the share of what whole ones score. In result files such a "
        "column is called lcqmc@64."
    )
    head = ("trained on", "set", *(WHOLE if dim is None else str(dim) for dim in sizes))
    return [ReportTable("sizes", "How small may embeddings be?", note, head, body)] if body else []


def _text(cells: dict[int | None, Cell], dim: int | None) -> str:
    if dim not in cells:
        return MISSING
    whole, value = cells.get(None), cells[dim].mean
    share = "" if dim is None or whole is None or whole.mean <= 0 else f" ({100 * value / whole.mean:.0f} %)"
    return f"{percent(value)}{share}"
