"""Sheets of Excel files as rows of the cells that are there: nothing is padded, so a stray cell costs a cell."""

import io
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from juzhen.core.commands import require_packages
from juzhen.core.errors import UserError, foreign_reason, nearest
from juzhen.core.opened import open_input

EXCEL = ".xlsx"

FAULTS = frozenset({"#N/A", "#REF!", "#VALUE!", "#DIV/0!", "#NAME?", "#NULL!", "#NUM!"})
"""What a formula that failed leaves in its cell."""

MOST_EMPTY = 50
"""Empty cells for each that holds something, above ALWAYS_CELLS: more are no table, and would fill the memory."""
ALWAYS_CELLS = 2**20
ALWAYS_BYTES, MOST_TIMES = 2**26, 200
"""A book, which a server gets from strangers, may unpack to ALWAYS_BYTES, or to so many times its size."""
MOST_ROWS = 2**20
"""Of a sheet, as Excel has it; a damaged file may number a row 10^12."""


@dataclass(frozen=True)
class Sheet:
    """The cells of a sheet that hold something.

    rows    number of the row, from 1 → number of the column, from 0 → value
    others  names of the other sheets that can be seen
    """

    name: str
    rows: dict[int, dict[int, Any]]
    others: list[str]


def read_sheet(
    path: Path, sheet: str | None = None, *, content: bytes | None = None, most_bytes: int | None = None
) -> Sheet:
    """A sheet of an Excel file: the one of this name or number, from 1; None: the first that holds something.

    content     of the file; None: it is read
    most_bytes  that its parts may unpack to; None: as other packed files (`juzhen.data.readers`)

    Raises UserError, with the file and the reason, for what cannot be read, and for cells that are scattered.
    """
    require_packages(str(path), "openpyxl", extra="excel", otherwise=", or save the table as CSV")
    import openpyxl

    if content is None:
        with open_input(path) as file:
            content = file.read()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as parts:
            size = sum(
                part.file_size for part in parts.infolist() if not part.filename.startswith("xl/media/")
            )
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile) as error:
        reason = f"{foreign_reason(error)}; is it an .xls, or kept by a password? Save it as .xlsx or as CSV"
        raise UserError(f"{path}: no Excel file that can be read: {reason}") from error
    room = max(ALWAYS_BYTES, MOST_TIMES * len(content)) if most_bytes is None else most_bytes
    if size > room:
        raise UserError(
            f"{path}: unpacks to {size / 2**20:,.0f} MiB; at most {room / 2**20:,.0f} MiB of a file of this size are "
            "read. Save the table as CSV"
        )
    try:
        with warnings.catch_warnings(action="ignore"):
            book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
            sheets = {each.title: each for each in book.worksheets}
            seen = [name for name, each in sheets.items() if each.sheet_state == "visible"] or [*sheets]
            name, rows = _chosen(path, sheet, seen, sheets)
    except UserError:
        raise
    except Exception as error:  # of a parser of a stranger's file: each of them says that it cannot be read
        raise UserError(
            f"{path}: no Excel table that can be read ({type(error).__name__}: {foreign_reason(error)}); open it in "
            "Excel and save it again, or save the table as CSV"
        ) from error
    columns = {column for cells in rows.values() for column in cells}
    held = sum(map(len, rows.values()))
    if len(rows) * len(columns) > max(ALWAYS_CELLS, MOST_EMPTY * held):
        raise UserError(
            f"{path}: the {held:,} cells of the sheet {name} are scattered over {len(rows):,} rows and "
            f"{len(columns):,} columns, which is no table; delete what does not belong to it"
        )
    return Sheet(name, rows, [other for other in seen if other != name])


def _chosen(
    path: Path, sheet: str | None, seen: list[str], sheets: dict[str, Any]
) -> tuple[str, dict[int, dict[int, Any]]]:
    """Name and cells of a sheet."""
    if sheet is not None:
        name = seen[int(sheet) - 1] if sheet.isdecimal() and 0 < int(sheet) <= len(seen) else sheet
        if name not in sheets:
            raise UserError(f"{path}: no sheet {sheet}; {nearest(sheet, sheets)}")
        return name, _cells(sheets[name])
    for name in seen:
        if rows := _cells(sheets[name]):
            return name, rows
    raise UserError(f"{path}: the file is empty")


def _cells(sheet: Any) -> dict[int, dict[int, Any]]:
    sheet.reset_dimensions()  # many programs write wrong ones
    rows = {}
    for number, values in enumerate(sheet.iter_rows(values_only=True), 1):
        if number > MOST_ROWS:
            raise ValueError(f"a row has a number above {MOST_ROWS:,}")
        if not values:  # a row that is not there
            continue
        cells = {
            column: value
            for column, value in enumerate(values)
            if value is not None and value not in FAULTS and str(value).strip()
        }
        if cells:
            rows[number] = cells
    return rows
