"""Texts for an index, with ids and metadata, out of a file."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from juzhen.core.errors import UserError
from juzhen.core.text import short, text_fault
from juzhen.data.tables import (
    AS_IT_LOOKS,
    TableReading,
    as_text,
    column_place,
    column_values,
    read_texts,
    refuse_rows,
    require_fields,
    text_values,
    with_split_cells,
)


@dataclass(frozen=True)
class Rows:
    """Texts; their ids, or None: their numbers are; their metadata, or None.

    fields   names of metadata
    dropped  faulty rows that were left out
    notes    what a person may know better of the table
    """

    texts: Sequence[str]
    ids: Sequence[str] | None = None
    metadata: Sequence[dict[str, Any]] | None = None
    fields: list[str] = field(default_factory=list)
    dropped: int = 0
    notes: tuple[str, ...] = ()

    def part(self, rows: slice) -> "Rows":
        ids = None if self.ids is None else self.ids[rows]
        metadata = None if self.metadata is None else self.metadata[rows]
        return Rows(self.texts[rows], ids, metadata, self.fields)

    def after(self, count: int) -> "Rows":
        return self.part(slice(count, None))

    def check_metadata(self) -> None:
        """Raises UserError for metadata that no JSON can hold: a filter, and who reads an answer, would fail."""
        for number, record in enumerate(self.metadata or []):
            if fault := metadata_fault(record):
                name = number if self.ids is None else short(self.ids[number])
                raise UserError(f"metadata of text {name}: {fault}. Leave it out, or give null")

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
    reading: TableReading = AS_IT_LOOKS,
    *,
    text: str | None = None,
    id_column: str | None = None,
    metadata: Sequence[str] = (),
) -> Rows:
    """The rows of a file: the lines of a .txt, or columns of a table, by name or by number from 1.

    text, id_column  None: as the reading has `text` and `id`; else the column `text` or the only one, and no ids

    Raises UserError for a faulty row, where no row is left, and for an id that stands twice.
    """
    require_fields(reading, "text", "id")
    named = {"text": text, "id": id_column, **{f"metadata {name}": name for name in metadata}}
    columns = {**reading.columns, **{field: name for field, name in named.items() if name}}
    id_column = columns.get("id")
    reading = replace(reading, columns=columns)
    table, place = read_texts(path, reading)
    table = with_split_cells(table, [place], reading.split_cells)
    texts, ids = column_values(table, place), None
    if id_column is not None:
        ids = [_as_id(value) for value in column_values(table, column_place(table, id_column, "id", reading))]
    places = [column_place(table, name, "metadata", reading) for name in metadata]
    names = [table.names[at] if table.names else name for at, name in zip(places, metadata, strict=True)]
    values = [column_values(table, at) for at in places]
    records: list[dict[str, Any]] | None = [
        dict(zip(names, map(_plain, row), strict=True)) for row in zip(*values, strict=True)
    ] or None
    faults = {int(line): reason for line, reason in table.faults.items()}
    chosen_rows = []
    for row, (line, value) in enumerate(zip(table.lines, texts, strict=True)):
        fault = text_fault(value)
        if fault is None and ids is not None and text_fault(ids[row]):
            fault = f"has no id: it {text_fault(ids[row])}"
        if fault is None and records is not None and (reason := metadata_fault(records[row])):
            fault = f"has metadata with {reason}"
        if fault is None:
            chosen_rows.append(row)
        else:
            faults[int(line)] = (
                f"the text {fault}" if fault.startswith(("is", "holds")) else f"the row {fault}"
            )
    refuse_rows(table, faults, len(chosen_rows), reading)
    chosen = [ids[row] for row in chosen_rows] if ids is not None else None
    if chosen is not None and len({*chosen}) < len(chosen):
        twice = Counter(chosen).most_common(1)[0][0]
        raise UserError(f"{path}: the id {short(twice)} stands twice; an id names one text")
    return Rows(
        [texts[row] for row in chosen_rows],
        chosen,
        None if records is None else [records[row] for row in chosen_rows],
        names,
        len(faults),
        table.notes,
    )


def read_ids(path: Path, reading: TableReading = AS_IT_LOOKS) -> list[str]:
    """Ids of a file: its lines, or the column `id` of a table. Raises UserError where that is not clear."""
    return [*map(_as_id, text_values(path, reading, field="id"))]


def _as_id(value: Any) -> str:
    """Whole numbers of JSON, parquet and Excel are ids, too."""
    return value if isinstance(value, str) else as_text(value)


def _plain(value: Any) -> Any:
    """A missing number of a table as JSON has it."""
    return None if isinstance(value, float) and math.isnan(value) else value


def metadata_fault(record: dict[str, Any]) -> str | None:
    """Why metadata are no JSON; None where they are. Values of other types are stored as texts."""
    try:
        json.dumps(record, ensure_ascii=False, default=str, allow_nan=False).encode()
    except UnicodeEncodeError:
        return "half a surrogate pair, which is no character"
    except (ValueError, RecursionError):
        return "NaN, infinity or endless brackets, which JSON has not"
    return None
