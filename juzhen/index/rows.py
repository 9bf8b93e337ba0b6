"""Texts for an index, with ids and metadata, out of a file."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from juzhen.core.errors import UserError, nearest
from juzhen.core.numerals import is_position
from juzhen.core.texts import short, text_fault
from juzhen.data.audit.sources import TEXT_SUFFIXES, text_lines
from juzhen.data.readers import FileTable, read_own_table
from juzhen.data.verify import listed, place_in

TEXT_COLUMN = "text"


@dataclass(frozen=True)
class Rows:
    """Texts; their ids, or None: their numbers are; their metadata, or None.

    fields   names of metadata
    dropped  faulty rows that were left out
    """

    texts: Sequence[str]
    ids: Sequence[str] | None = None
    metadata: Sequence[dict[str, Any]] | None = None
    fields: list[str] = field(default_factory=list)
    dropped: int = 0

    def part(self, rows: slice) -> "Rows":
        ids = None if self.ids is None else self.ids[rows]
        metadata = None if self.metadata is None else self.metadata[rows]
        return Rows(self.texts[rows], ids, metadata, self.fields)

    def after(self, count: int) -> "Rows":
        return self.part(slice(count, None))

    @cached_property
    def digest(self) -> str:
        """Of all that is in them: a build that was cut off goes on with equal rows alone."""
        content = hashlib.blake2b(digest_size=16)
        for values in (self.texts, self.ids or [], self.metadata or []):
            for value in values:
                content.update(json.dumps(value, default=str).encode() + b"\n")
        return content.hexdigest()


def read_rows(
    path: Path,
    *,
    text: str | None = None,
    id_column: str | None = None,
    metadata: Sequence[str] = (),
    header: bool = True,
    quoted: bool = False,
    on_bad_row: str = "error",
) -> Rows:
    """The rows of a file: the lines of a .txt, or columns of a table, by name or by place from 0.

    text        None: the column `text`, or the only one
    on_bad_row  error · drop: faulty rows are left out and counted

    Raises UserError for a faulty row, and for an id that stands twice.
    """
    if path.name.endswith(TEXT_SUFFIXES) and text is None and id_column is None and not metadata:
        text_rows = text_lines(path, option="index")
        numbers: Sequence[int] = range(1, len(text_rows) + 1)
        table = FileTable(str(path), ["line"], [text_rows], numbers)  # type: ignore[arg-type]  # places are all that is read
        columns, ids, names = text_rows, None, list[str]()
        records: list[dict[str, Any]] | None = None
    else:
        table = read_own_table(path, header=header, quoted=quoted)
        columns = _column(table, text or _text_column(table), "--text")
        ids = None if id_column is None else [_as_id(value) for value in _column(table, id_column, "--id")]
        names = [_name(table, name) for name in metadata]
        values = [_column(table, name, "--metadata") for name in metadata]
        records = [
            dict(zip(names, map(_plain, row), strict=True)) for row in zip(*values, strict=True)
        ] or None
    faults = {int(line): reason for line, reason in table.faults.items()}
    chosen_rows = []
    for row, (line, value) in enumerate(zip(table.lines, columns, strict=True)):
        fault = text_fault(value)
        if fault is None and ids is not None and text_fault(ids[row]):
            fault = f"has no id: it {text_fault(ids[row])}"
        if fault is None and records is not None and not _is_unicode(records[row]):
            fault = "has metadata with half a surrogate pair, which is no character"
        if fault is None:
            chosen_rows.append(row)
        else:
            faults[int(line)] = (
                f"the text {fault}" if fault.startswith(("is", "holds")) else f"the row {fault}"
            )
    if faults and on_bad_row == "error":
        line = min(faults)
        raise UserError(
            f"{table.at(line)}: {faults[line]}; juzhen index build --on-bad-row drop leaves such rows out"
        )
    chosen = [str(ids[row]) for row in chosen_rows] if ids is not None else None
    if chosen is not None and len({*chosen}) < len(chosen):
        twice = Counter(chosen).most_common(1)[0][0]
        raise UserError(f"{path}: the id {short(twice)} stands twice; an id names one text")
    return Rows(
        [columns[row] for row in chosen_rows],
        chosen,
        None if records is None else [records[row] for row in chosen_rows],
        names,
        len(faults),
    )


def _text_column(table: FileTable) -> str:
    if table.names is None or len(table.columns) == 1:
        return "0" if table.names is None else table.names[0]
    if TEXT_COLUMN not in table.names:
        raise UserError(
            f"{table.place}: which column has the texts? Type --text COLUMN; there are {listed(table.names)}"
        )
    return TEXT_COLUMN


def _place(table: FileTable, name: str, option: str) -> int:
    header = table.names or [str(position) for position in range(len(table.columns))]
    if name in header:
        return place_in(header, name, table.place)
    if is_position(name) and int(name) < len(header):
        return int(name)
    raise UserError(f"{table.place}: {option} {name}: no such column; {nearest(name, map(short, header))}")


def _column(table: FileTable, name: str, option: str) -> list[Any]:
    column = table.columns[_place(table, name, option)]
    return column.to_pylist() if hasattr(column, "to_pylist") else list(column)


def _name(table: FileTable, name: str) -> str:
    return table.names[_place(table, name, "--metadata")] if table.names else name


def _as_id(value: Any) -> str | None:
    """Whole numbers of JSON and parquet are ids, too."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _plain(value: Any) -> Any:
    """A missing number of a table as JSON has it."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _is_unicode(record: dict[str, Any]) -> bool:
    try:
        json.dumps(record, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        return False
    return True
