"""Rows of a CSV file by the names in its first line, and rows as the text of one."""

import csv
import io
from collections.abc import Iterable
from pathlib import Path

from juzhen.core.errors import UserError
from juzhen.core.opened import read_bytes
from juzhen.core.texts import short


def csv_rows(path: Path) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """Names of the columns, and line and values of each row; a value that a row lacks is "".

    Raises UserError for a file that is no CSV in UTF-8, and for a row with more values than there are names.
    """
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}: byte {error.start + 1} is not UTF-8; expected a CSV file in UTF-8"
        ) from error
    reader = csv.DictReader(io.StringIO(text.replace("\r\n", "\n"), newline="\n"), restval="")
    try:
        names = list(reader.fieldnames or [])
        rows = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: no CSV ({short(str(error))})") from error
    for line, row in rows:
        if None in row:  # where DictReader puts what has no name
            raise UserError(f"{path}, line {line}: more values than the {len(names)} names of the first line")
    return names, rows


def csv_text(rows: Iterable[Iterable[object]], *, delimiter: str = ",") -> str:
    """The rows as CSV, that of the names first where there is one; lines end in a line feed alone."""
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return file.getvalue()
