"""Sheets of Excel files."""

import io
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from juzhen.core.errors import UserError, foreign_reason, nearest, require_packages
from juzhen.core.safe_open import open_regular_file

EXCEL = ".xlsx"

FAULTS = frozenset({"#N/A", "#REF!", "#VALUE!", "#DIV/0!", "#NAME?", "#NULL!", "#NUM!"})
"""Cell values of a failed formula."""

MOST_EMPTY = 50
"""Empty cells for each filled one, above ALWAYS_CELLS. With more, a sheet is not a table and would fill the memory."""
ALWAYS_CELLS = 2**20
ALWAYS_BYTES, MOST_TIMES = 2**26, 200
"""A workbook, perhaps a stranger's, may unpack to ALWAYS_BYTES, or to MOST_TIMES its size."""
MOST_ROWS = 2**20
"""Rows of an Excel sheet. A damaged file may have a row number of 10^12."""


@dataclass(frozen=True)
class Sheet:
    """Filled cells of a sheet. Nothing is padded, so a stray cell costs one cell.

    Args:
        name: Name of the sheet.
        rows: Row number, from 1 → column index, from 0 → value.
        others: Names of the other visible sheets.
    """

    name: str
    rows: dict[int, dict[int, Any]]
    others: list[str]


def read_sheet(
    path: Path, sheet: str | None = None, *, content: bytes | None = None, most_bytes: int | None = None
) -> Sheet:
    """Read a sheet of an Excel file.

    Args:
        path: The file.
        sheet: Name of the sheet, or its number from 1. None: the first with content.
        content: Bytes of the file. None: they are read.
        most_bytes: Limit of the unpacked size. None: that of other packed files (`juzhen.data.readers`).

    Returns:
        The cells of the sheet.

    Raises:
        UserError: The file cannot be read, or its cells are scattered. The message has file and reason.
    """
    require_packages(str(path), "openpyxl", extra="excel", otherwise=", or save the table as CSV")
    import openpyxl

    if content is None:
        with open_regular_file(path) as file:
            content = file.read()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as parts:
            size = sum(
                part.file_size for part in parts.infolist() if not part.filename.startswith("xl/media/")
            )
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile) as error:
        reason = f"{foreign_reason(error)}; is it an .xls, or kept by a password? Save it as .xlsx or as CSV"
        raise UserError(f"{path}: not a readable Excel file: {reason}") from error
    room = max(ALWAYS_BYTES, MOST_TIMES * len(content)) if most_bytes is None else most_bytes
    if size > room:
        raise UserError(
            f"{path}: unpacks to {size / 2**20:,.0f} MiB. At most {room / 2**20:,.0f} MiB of a file of this size are "
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
    except Exception as error:  # a parser of strangers' files may raise anything: the file cannot be read
        raise UserError(
            f"{path}: not a readable Excel table ({type(error).__name__}: {foreign_reason(error)}). Open it in "
            "Excel and save it again, or save the table as CSV"
        ) from error
    columns = {column for cells in rows.values() for column in cells}
    held = sum(map(len, rows.values()))
    if len(rows) * len(columns) > max(ALWAYS_CELLS, MOST_EMPTY * held):
        raise UserError(
            f"{path}: the {held:,} cells of the sheet {name} are scattered over {len(rows):,} rows and "
            f"{len(columns):,} columns, so this is not a table. Delete the stray cells"
        )
    return Sheet(name, rows, [other for other in seen if other != name])


def _chosen(
    path: Path, sheet: str | None, seen: list[str], sheets: dict[str, Any]
) -> tuple[str, dict[int, dict[int, Any]]]:
    """Name and cells of the sheet that is asked for, or of the first with content."""
    if sheet is not None:
        name = seen[int(sheet) - 1] if sheet.isdecimal() and 0 < int(sheet) <= len(seen) else sheet
        if name not in sheets:
            raise UserError(f"sheet={sheet}: {path} has no such sheet. {nearest(sheet, sheets)}")
        return name, _cells(sheets[name])
    for name in seen:
        if rows := _cells(sheets[name]):
            return name, rows
    raise UserError(f"{path}: the file is empty. Give another file")


def _cells(sheet: Any) -> dict[int, dict[int, Any]]:
    sheet.reset_dimensions()  # many programs write wrong dimensions
    rows = {}
    for number, values in enumerate(sheet.iter_rows(values_only=True), 1):
        if number > MOST_ROWS:
            raise ValueError(f"a row has a number above {MOST_ROWS:,}")
        if not values:  # a missing row
            continue
        cells = {
            column: value
            for column, value in enumerate(values)
            if value is not None and value not in FAULTS and str(value).strip()
        }
        if cells:
            rows[number] = cells
    return rows
