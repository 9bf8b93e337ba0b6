"""The reader of users' tables, for all subcommands, `fit`, and the page of a server.

It reads csv, tsv and txt in UTF-8, UTF-16, GBK or Big5, with or without a header, JSON lines, parquet, Arrow and Excel
sheets.
Encoding, delimiter, quotes and header are detected, and reported in `FileTable.format` and `FileTable.notes`. A job
instead reads a set by its description (`juzhen.data.readers`).
"""

import itertools
import json
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from juzhen.core.errors import UserError, nearest, typed
from juzhen.core.paths import TABLES, suffix_of
from juzhen.core.schema import own_file
from juzhen.core.text import counted, is_position, keys_once, short, split_lines, text_fault
from juzhen.data.excel import EXCEL, read_sheet
from juzhen.data.headers import is_header, is_name
from juzhen.data.readers import (
    BYTE_ORDER_MARK,
    COLUMNAR,
    FileTable,
    columnar_table,
    csv_records,
    decoded,
    decompressed,
    json_table,
    require_short_lines,
)

DELIMITERS = {".csv": ",;\t|", ".tsv": "\t,;|", ".txt": "\t,;|"}
"""Suffix → delimiters to try, the likeliest first."""
DELIMITER_NAMES = {"\t": "tab", ",": "comma", ";": "semicolon", "|": "bar"}
JSON = (".jsonl", ".json")

SAMPLE = 1000
"""Rows that delimiter and header are detected from."""

SURE = 0.9
"""Share of rows with the most common number of cells that another delimiter than the likeliest needs."""


@dataclass(frozen=True)
class TableReading:
    """Options of a table. None: detected.

    Args:
        columns: Field of a row → name of its column, or its number from 1.
        header: True if the first row names the columns.
        quoted: True if cells may be in double quotes.
        sheet: Sheet of an Excel file: its name, or its number from 1.
        split_cells: Separator of several texts in one cell, each of which becomes a row.
        on_bad_row: "error" refuses the first faulty row, "drop" leaves faulty rows out and counts them.
        spell: Writes an option for a message.

    Raises:
        UserError: An option with a value of another form.
    """

    columns: Mapping[str, Any] = field(default_factory=dict)
    header: bool | None = None
    quoted: bool | None = None
    sheet: str | None = None
    split_cells: str | None = None
    on_bad_row: str = "error"
    spell: Callable[[str, object], str] = typed

    def __post_init__(self) -> None:
        if not isinstance(self.columns, Mapping):
            raise UserError(
                f"columns={short(repr(self.columns))}: expected field → column, such as {{'text_a': 1, 'text_b': 2}}"
            )
        object.__setattr__(self, "columns", {field: str(column) for field, column in self.columns.items()})
        object.__setattr__(self, "sheet", None if self.sheet is None else str(self.sheet))
        if self.split_cells == "":
            raise UserError(f"{self.spell('split_cells', '')}: expected a separator, such as ||")

    def require_unread(self, place: str, way_out: str = "Leave it out") -> None:
        """Refuse options of tables for a file that is not a table.

        Args:
            place: Name of the file, for the message.
            way_out: Advice at the end of the message, without full stop.

        Raises:
            UserError: An option other than `on_bad_row` is set.
        """
        for name in ("columns", "header", "quoted", "sheet", "split_cells"):
            if (value := getattr(self, name)) not in (None, {}):
                raise UserError(f"{self.spell(name, value)}: for tables, and {place} is not one. {way_out}")


AS_IT_LOOKS = TableReading()


def parse_columns(words: str | Sequence[str] | None, fields: Sequence[str] = ()) -> dict[str, str]:
    """Return field → column from the value of --columns.

    Args:
        words: The value.
        fields: Fields for words without =, in order.

    Raises:
        UserError: Another form.

    >>> parse_columns("text_a=问题,text_b=2")
    {'text_a': '问题', 'text_b': '2'}
    """
    listed = [words] if isinstance(words, str) else list(words or ())
    split = [part for word in listed for part in word.split(",")]
    in_order = bool(fields and listed) and not any("=" in word for word in listed)
    if in_order and len(fields) in (len(listed), len(split)):
        return dict(zip(fields, listed if len(listed) == len(fields) else split, strict=True))
    parts = [part.partition("=") for part in split]
    said = {key.strip(): column.strip() for key, _, column in parts}
    if len(said) < len(parts) or not all([*said, *said.values()]):
        expected = "FIELD=COLUMN, each field once, as in text=问题, or text_a=问题,text_b=相似问,label=3"
        if in_order:
            expected = f"a column for each of {' and '.join(fields)}, as in --columns 1 2"
        raise UserError(f"--columns {' '.join(listed)}: expected {expected}")
    return said


def require_there(path: Path) -> None:
    """Check that a file exists.

    Args:
        path: Path as typed. A broken link counts as a file.

    Raises:
        UserError: The file is missing. The message has the nearest name in its folder.
    """
    if not os.path.lexists(path):
        names = os.listdir(path.parent) if path.parent.is_dir() else []
        hint = nearest(path.name, names) if names else ""
        raise UserError(
            f"{path}: No such file. {hint if hint.startswith('Did') else 'Choose an existing path'}"
        )


def read_own_table(
    path: Path,
    reading: TableReading = AS_IT_LOOKS,
    *,
    content: bytes | None = None,
    most_bytes: int | None = None,
) -> FileTable:
    """Return a file as columns. Cells of text formats are texts, those of others also numbers, lists and None.

    Faulty rows, such as those with another number of cells than most, are in `FileTable.faults`.

    Args:
        path: The file.
        reading: Options of the table.
        content: Bytes of the file. None: they are read.
        most_bytes: Limit of an Excel file's unpacked size. None: that of other packed files.

    Raises:
        UserError: Not a table, or without rows below the names of its columns.
    """
    suffix = suffix_of(path)
    if suffix not in TABLES:
        remedy = (
            "save it as .xlsx or .csv"
            if suffix in (".xls", ".ods", ".numbers", ".et")
            else "give it such a name"
        )
        raise UserError(
            f"{path}: unknown suffix. Expected {', '.join(TABLES)}, and .gz or .zst behind "
            f"it if compressed. {remedy[:1].upper()}{remedy[1:]}"
        )
    if reading.sheet is not None and suffix != EXCEL:
        raise UserError(f"{reading.spell('sheet', reading.sheet)}: {path} has no sheets. Leave it out")
    if content is None:
        require_there(path)
    if suffix == EXCEL:
        table = _sheet(path, reading, content, most_bytes)
    elif suffix in COLUMNAR:
        table = replace(columnar_table(path), format=suffix[1:])
    else:
        raw = decompressed(path) if content is None else content
        text, encoding = decoded(path, raw)
        if not text.strip():
            raise UserError(f"{path}: the file is empty. Give another file")
        if suffix in DELIMITERS:
            table = _delimited(path, text, encoding, DELIMITERS[suffix], reading)
            table = replace(table, needs_mark=encoding != "UTF-8" or raw.startswith(BYTE_ORDER_MARK))
        else:
            is_array = text.lstrip().startswith("[")
            table = json_table(path, _json_rows(path, text) if is_array else text, {})
            table = replace(table, format=suffix[1:], has_lines=not is_array)
            with suppress(ValueError, RecursionError):
                whole = None if is_array or len(table.lines) > 1 else json.loads(text)
                if what := own_file(whole) or (table.faults and isinstance(whole, dict) and "an object"):
                    raise UserError(f"{path}: {what}, and not a table. Give one with a JSON object per line")
    if table.faults:
        refuse_rows(table, table.faults, len(table.lines), replace(reading, on_bad_row="drop"))
    if not len(table.lines):
        raise UserError(f"{path}: no row below the names of the columns")
    return table


def _json_rows(path: Path, text: str) -> str:
    """A JSON array with a line for each of its items. Raises UserError for anything else."""
    try:
        rows = json.loads(text, object_pairs_hook=keys_once)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: no JSON array that can be read ({short(str(error))})") from error
    if not rows:
        raise UserError(f"{path}: the file is empty. Give another file")
    return "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)


def _choose_delimiter(text: str, candidates: str, path: Path = Path()) -> str:
    """Choose the delimiter that gives most rows the same number of cells, at least two, or the first one.

    >>> _choose_delimiter("a;b,c\\nd;e\\n", ",;")
    ';'
    """
    shares = []
    for delimiter in candidates:
        try:
            widths = np.array([len(cells) for _, cells in _records(path, text, delimiter, None, SAMPLE)[0]])
        except UserError:  # quotes that are part of the text
            widths = np.array([], int)
        width = int(np.bincount(widths).argmax()) if len(widths) else 0
        share = round(float((widths == width).mean()), 9) if width > 1 else 0.0
        shares.append(share if share >= SURE or delimiter == candidates[0] else 0.0)
    return candidates[int(np.argmax(shares))]


Record = tuple[int, list[str]]


def _records(
    path: Path, text: str, delimiter: str, quoted: bool | None, count: int | None = None
) -> tuple[list[Record], bool]:
    """Line and cells of the first `count` rows that are not blank, and True for quoted cells.

    In a file with tabs a quote often is part of the text: if cells would span lines, quotes are not special. Raises
    UserError for quotes that are not closed.
    """
    if _may_be_quoted(text, delimiter, quoted):
        try:
            records = [*itertools.islice(csv_records(path, text, delimiter), count)]
            spans = delimiter == "\t" and any("\n" in cell for _, cells in records for cell in cells)
            if quoted or not spans:
                return [record for record in records if any(record[1])], True
        except UserError:
            if quoted or delimiter != "\t":
                raise
    lines = text.split("\n") if count is None else text.split("\n", count)[:count]
    require_short_lines(path, lines)
    return [(number, line.split(delimiter)) for number, line in enumerate(lines, 1) if line.strip()], False


def _may_be_quoted(text: str, delimiter: str, quoted: bool | None) -> bool:
    begins = f'"{delimiter}"', '\n"', f'{delimiter}"'
    seems = quoted is not False and (text.startswith('"') or any(sign in text for sign in begins))
    return bool(quoted) or seems


def _even_columns(lines: Sequence[str], delimiter: str) -> tuple[list[list[str]], np.ndarray] | None:
    # One split of all rows takes a fraction of the time and memory of a split of each. None: their widths differ.
    numbers = np.arange(1, len(lines) + 1, dtype=np.int32)
    filled = np.fromiter((bool(line) and not line.isspace() for line in lines), bool, len(lines))
    if not filled.all():
        lines, numbers = [line for line, is_row in zip(lines, filled, strict=True) if is_row], numbers[filled]
    counts = {line.count(delimiter) for line in lines}
    if len(counts) != 1:
        return None
    width = counts.pop() + 1
    cells = delimiter.join(lines).split(delimiter)
    columns = [cells[place::width] for place in range(width)]
    gaps = [row for row, cell in enumerate(columns[0]) if not cell or cell.isspace()]
    if any(not "".join(column[row] for column in columns).strip() for row in gaps):  # no row
        return None
    return columns, numbers


def _delimited(path: Path, text: str, encoding: str, candidates: str, reading: TableReading) -> FileTable:
    text = text.replace("\r\n", "\n")
    text = text if "\n" in text.rstrip("\n") else text.replace("\r", "\n")  # the oldest spreadsheets
    if said := re.match(r'"?sep=(.)"?(?=\n)', text, re.IGNORECASE):  # a line that Excel writes
        if said[1] not in DELIMITER_NAMES:
            known = ", ".join(DELIMITER_NAMES.values())
            raise UserError(f"{path}:1: {said[0]}: expected {known}. Save the file with one of these")
        candidates, text = said[1], text[said.end() :]
    lines = text.split("\n")
    require_short_lines(path, lines)
    delimiter = _choose_delimiter(text, candidates, path)
    if not _may_be_quoted(text, delimiter, reading.quoted):
        even = _even_columns(lines, delimiter)
        if even is not None:
            form = (
                f"{encoding}, {DELIMITER_NAMES[delimiter]} between columns" if len(even[0]) > 1 else encoding
            )
            return _table(path, *even, {}, reading, form, delimiter=delimiter, quoted=False)
    del lines
    records, quoted = _records(path, text, delimiter, reading.quoted)
    records = [record for record in records if any(cell.strip() for cell in record[1])]
    if not records:
        raise UserError(f"{path}: no cell holds a text. Give another file")
    named = len(records[0][1])  # lines may end in delimiters that the names lack
    if not any(cell.strip() for _, cells in records for cell in cells[named:]):
        records = [(line, cells[:named]) for line, cells in records]
    widths = [len(cells) for _, cells in records]
    width = Counter(widths).most_common(1)[0][0]
    first = records[0]
    if widths[0] != width and reading.header is not False and all(map(is_name, map(str.strip, first[1]))):
        raise UserError(
            f"{path}:{first[0]}: the line that names the columns has {widths[0]} cells, and most others have {width}. "
            "Give each column a name"
        )
    faults = {
        line: f"{counted(len(cells), 'cells')}, expected {width}"
        for line, cells in records
        if len(cells) != width
    }
    rows = [record for record in records if len(record[1]) == width]
    form = f"{encoding}, {DELIMITER_NAMES[delimiter]} between columns" if width > 1 else encoding
    return _table(path, *_transposed(rows), faults, reading, form, delimiter=delimiter, quoted=quoted)


def _sheet(path: Path, reading: TableReading, content: bytes | None, most_bytes: int | None) -> FileTable:
    """A sheet of an Excel file. A column without values is left out."""
    sheet = read_sheet(path, reading.sheet, content=content, most_bytes=most_bytes)
    columns = sorted({column for cells in sheet.rows.values() for column in cells})
    rows, faults = list(sheet.rows.items()), dict[int, str]()
    usual = np.median([len(cells) for cells in sheet.rows.values()] or [0])
    while len(rows) > 1 and usual > 1 and len(rows[0][1]) == 1 < len(rows[1][1]):  # a title above the table
        faults[rows[0][0]] = f"1 cell, expected {len(columns)}: a title, no row"
        rows = rows[1:]
    padded = [(line, [cells.get(column) for column in columns]) for line, cells in rows]
    notes: tuple[str, ...] = ()
    if sheet.others:
        way = reading.spell("sheet", sheet.others[0])
        notes = (
            f"the sheet {sheet.name} is read; there are also {', '.join(sheet.others)}: {way} reads another",
        )
    return _table(
        path,
        *_transposed(padded),
        faults,
        reading,
        f"Excel, sheet {sheet.name}",
        notes=notes,
        needs_mark=True,
        sheets=(sheet.name, *sheet.others),
    )


def _transposed(rows: Sequence[tuple[int, Sequence[Any]]]) -> tuple[list[list[Any]], np.ndarray]:
    columns = [[*column] for column in zip(*(cells for _, cells in rows), strict=True)]
    return columns, np.array([line for line, _ in rows], dtype=np.int32)


def _table(
    path: Path,
    columns: Sequence[list[Any]],
    lines: np.ndarray,
    faults: dict[int, str],
    reading: TableReading,
    form: str,
    **facts: Any,
) -> FileTable:
    """A table of columns, with the first row as names if it looks like a header."""
    first = [as_text(column[0]) for column in columns]
    below = [[as_text(cell) for cell in column[1 : SAMPLE + 1]] for column in columns]
    called = [name for name in reading.columns.values() if not is_position(name)]
    named = any(name in first for name in called) or is_header(first, below)
    named = named if reading.header is None else reading.header
    form += ", first line names the columns" if named else ", no line of names"
    columns, lines = [column[int(named) :] for column in columns], lines[int(named) :]
    return FileTable(str(path), first if named else None, columns, lines, faults, format=form, **facts)


def _distinct_names(names: Sequence[str]) -> list[str]:
    """Make column names distinct: ["问", "", "问"] → ["问", "column 2", "问 (3)"]."""
    earlier: set[str] = set()
    distinct = []
    for number, name in enumerate(names, 1):
        name = name or f"column {number}"
        distinct.append(f"{name} ({number})" if name in earlier else name)
        earlier.add(name)
    return distinct


def names_of(table: FileTable) -> list[str]:
    """Return the names of all columns, each once. A column without a name is "column" and its number, from 1.

    Args:
        table: Table with names or without.
    """
    return _distinct_names(table.names or [""] * len(table.columns))


def as_text(cell: Any) -> str:
    """Return a cell as a text file would spell it, without spaces around it.

    Args:
        cell: A text, number, boolean or None.

    Returns:
        "" for None and NaN, "1" for 1.0 and for True.
    """
    if isinstance(cell, float | np.floating):
        cell = "" if cell != cell else int(cell) if float(cell).is_integer() else cell
    if isinstance(cell, bool | np.bool_):
        cell = int(cell)
    return "" if cell is None else str(cell).replace("\r\n", "\n").strip()


def as_texts(cells: Sequence[Any]) -> list[str]:
    """Return `as_text` of each cell, quickly if all are texts.

    Args:
        cells: Cells of a column.
    """
    if {*map(type, cells)} <= {str}:
        return [cell.replace("\r\n", "\n").strip() for cell in cells]
    return [*map(as_text, cells)]


def column_place(table: FileTable, name: str, field: str, reading: TableReading) -> int:
    """Return the index of a column, from 0.

    Args:
        table: The table.
        name: Its name, or its number from 1.
        field, reading: What the column is, and how options are spelled, for the message.

    Raises:
        UserError: The column is missing, or has its name twice.
    """
    names = names_of(table)
    if table.names and table.names.count(name) > 1:
        places = [str(place) for place, other in enumerate(table.names, 1) if other == name]
        raise UserError(
            f"{table.place}: there is the column {short(name)} {len(places)} times. Name it by its number: "
            f"{reading.spell('columns', {field: ' or '.join(places)})}"
        )
    if name in names:
        return names.index(name)
    if is_position(name) and 0 < int(name) <= len(names):
        return int(name) - 1
    hint = "Columns are numbered from 1" if name == "0" else nearest(name, map(short, names))
    hint += "" if table.names else f". Name it by its number: {reading.spell('columns', {field: '1'})}"
    raise UserError(f"{table.place}: no column {short(name)} for {field}. {hint}")


def column_values(table: FileTable, place: int) -> list[Any]:
    """Return the values of a column as Python objects.

    Args:
        table: The table.
        place: Index of the column, from 0.

    Returns:
        A new list with a value a row.
    """
    column = table.columns[place]
    return column.to_pylist() if hasattr(column, "to_pylist") else list(column)


def read_texts(
    path: Path,
    reading: TableReading = AS_IT_LOOKS,
    *,
    field: str = "text",
    content: bytes | None = None,
) -> tuple[FileTable, int]:
    """Read texts of a file: the lines of a .txt, or a column of a table, and the index of that column.

    A .txt is a table if a column is named. In a table the column is the one called `field`, or the only one. Cells with
    several texts are split.

    Args:
        path: A .txt, or a file of any format of this module. A file without suffix is read as a .txt.
        reading: Options of the table.
        field: Name of the column, and key of `reading.columns` that names another one.
        content: Bytes of the file. None: they are read.

    Returns:
        The table, and the index of the column of texts.

    Raises:
        UserError: Several columns could be meant.
    """
    if content is None:
        require_there(path)
    if not reading.columns and suffix_of(path) in ("", ".txt"):
        replace(reading, split_cells=None).require_unread(str(path))
        lines = split_lines(decoded(path, decompressed(path) if content is None else content)[0])
        if not lines:
            raise UserError(f"{path}: the file is empty. Give another file")
        if len(lines) == 1 and "\r" in lines[0].strip("\r"):
            raise UserError(f"{path}:1: carriage returns are no line ends. Save the file with line feeds")
        return FileTable(str(path), ["line"], [lines], np.arange(1, len(lines) + 1, dtype=np.int32)), 0
    table = read_own_table(path, reading, content=content)
    place = _chosen_column(table, field, reading)
    return with_split_cells(table, [place], reading.split_cells), place


def sound_texts(
    path: Path, reading: TableReading, *, content: bytes | None = None
) -> tuple[FileTable, list[str], list[int], dict[int, str]]:
    """Read the texts of a file that can be encoded.

    Args:
        path: As in `read_texts`.
        reading: Options of the table. They decide whether faulty rows are refused or left out.
        content: Bytes of the file. None: they are read.

    Returns:
        The table of `read_texts`, its sound texts, the line of each, and line → fault of the other rows.

    Raises:
        UserError: As `read_texts` and `refuse_rows`.
    """
    table, place = read_texts(path, reading, content=content)
    rows, faults = good_texts(table, [place], reading)
    values = column_values(table, place)
    return table, [values[row] for row in rows], table.lines[rows].tolist(), faults


def require_fields(reading: TableReading, *fields: str) -> None:
    """Refuse a column that is named for an unused field.

    Args:
        reading: Options of the table.
        *fields: Fields that are used, at least one.

    Raises:
        UserError: `reading.columns` has another field.
    """
    if wrong := [field for field in reading.columns if field not in fields]:
        example = reading.spell("columns", {field: str(number) for number, field in enumerate(fields, 1)})
        raise UserError(
            f"{wrong[0]}: no such field is read here. Expected {' and '.join(fields)}, as in {example}"
        )


def text_values(path: Path, reading: TableReading = AS_IT_LOOKS, *, field: str = "text") -> list[Any]:
    """Return the values of `read_texts` alone. Faulty rows are counted in a warning.

    Args:
        path: As in `read_texts`.
        reading: Options of the table.
        field: As in `read_texts`.

    Returns:
        Values of any type: they are not checked.

    Raises:
        UserError: As of `read_texts`.
    """
    table, place = read_texts(path, reading, field=field)
    warn_dropped(table.place, len(table.faults))
    return column_values(table, place)


def _chosen_column(table: FileTable, field: str, reading: TableReading) -> int:
    """Return the column that a person names, or that has the field's name, or is the only one."""
    names = names_of(table)
    if name := reading.columns.get(field):
        return column_place(table, name, field, reading)
    if len(names) == 1:
        return 0
    if field in names:
        return names.index(field)
    raise UserError(
        f"{table.place}: not clear which column is the {field}. There are {', '.join(map(short, names[:20]))}. "
        f"Name it: {reading.spell('columns', {field: names[0]})}"
    )


def with_split_cells(table: FileTable, places: Sequence[int], sign: str | None) -> FileTable:
    """Return the table with a row for each text of cells that hold several, divided by a separator.

    Args:
        table: The table. It is not changed.
        places: Indices of the columns to split.
        sign: Separator of texts in a cell. None returns the table unchanged.

    Returns:
        A table in which all rows of a cell have its line. Spaces around the texts are removed.
    """
    if sign is None:
        return table

    def parts(place: int, cell: Any) -> Sequence[Any]:
        is_split = place in places and isinstance(cell, str)
        return ([part.strip() for part in cell.split(sign) if part.strip()] if is_split else []) or [cell]

    return with_each_value(table, parts)


def with_each_value(table: FileTable, values_of: Callable[[int, Any], Sequence[Any]]) -> FileTable:
    """Return the table with a row for each combination of values in the cells of a row.

    Args:
        table: The table. It is not changed.
        values_of: Column index, cell → its values. Without values the row is left out.

    Returns:
        A table in which all new rows have the line of the old one.
    """
    columns = [column_values(table, place) for place in range(len(table.columns))]
    rows, lines = list[list[Any]](), list[int]()
    for line, cells in zip(table.lines.tolist(), zip(*columns, strict=True), strict=True):
        for row in itertools.product(*map(values_of, itertools.count(), cells)):
            rows.append([*row])
            lines.append(line)
    split = [[*column] for column in zip(*rows, strict=True)] or columns
    return replace(table, columns=split, lines=np.array(lines, dtype=np.int32))


def good_texts(
    table: FileTable, places: Sequence[int], reading: TableReading
) -> tuple[list[int], dict[int, str]]:
    """Check the texts of some columns.

    Args:
        table: The table, with the faults that its reader found.
        places: Indices of the columns.
        reading: Options of the table.

    Returns:
        Indices of rows whose texts can be encoded, and line → fault of the other rows.

    Raises:
        UserError: As `refuse_rows`.
    """
    faults, names = dict(table.faults), names_of(table)
    good = np.ones(len(table.lines), dtype=bool)
    for place in places:
        for row, value in enumerate(column_values(table, place)):
            if fault := text_fault(value):
                called = "the line" if names == ["line"] else f"{short(names[place])}"
                faults.setdefault(int(table.lines[row]), f"{called} {fault}")
                good[row] = False
    rows = np.flatnonzero(good).tolist()
    refuse_rows(table, faults, len(rows), reading)
    return rows, faults


def refuse_rows(table: FileTable, faults: Mapping[int, str], left: int, reading: TableReading) -> None:
    """Refuse faulty rows, unless they are left out, and a table without a sound row.

    Args:
        table: The table, for its place.
        faults: Line → reason why it is not a row.
        left: Number of sound rows.
        reading: Options of the table, with `on_bad_row`.

    Raises:
        UserError: Rows are faulty and "error" is chosen, or no row is left. The message has the first faulty line.
    """
    if faults and reading.on_bad_row == "error":
        line, others = min(faults), len(faults) - 1
        more = f" {counted(others, 'more rows are faulty', 'more row is faulty')}." if others else ""
        raise UserError(
            f"{table.at(line)}: {faults[line]}.{more} Fix the file, or leave such rows out: "
            f"{reading.spell('on_bad_row', 'drop')}"
        )
    if not left:
        line = min(faults)
        raise UserError(
            f"{table.place}: {counted(len(faults), 'rows are faulty', 'row is faulty')}, and none is left. "
            f"{table.at(line)}: {faults[line]}"
        )


def warn_dropped(place: str, count: int) -> None:
    """Warn about faulty rows that are left out.

    Args:
        place: Name of the file.
        count: Number of these rows. 0 warns of nothing.
    """
    if count:
        warnings.warn(
            f"{place}: {counted(count, 'faulty rows are left out', 'faulty row is left out')}", stacklevel=5
        )
