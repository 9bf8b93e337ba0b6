"""The texts that a study of a space looks at: samples of described sets and of files."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from juzhen.core.aliases import require_set
from juzhen.core.errors import UserError
from juzhen.core.kinds import Kind
from juzhen.core.text import text_fault
from juzhen.data.probe import Probe
from juzhen.data.readers import suffix_of
from juzhen.data.row_checks import listed
from juzhen.data.row_kinds import Guess, guess, read_raw
from juzhen.data.rows import ConfiguredSets, split_raw
from juzhen.data.spec import read_description
from juzhen.data.tables import (
    AS_IT_LOOKS,
    TableReading,
    column_place,
    column_values,
    good_texts,
    names_of,
    read_texts,
    refuse_rows,
    require_fields,
    warn_dropped,
    with_split_cells,
)
from juzhen.evaluation.space import TextSet

FIELDS = ("text", "label")
"""Of a table of texts."""

SPLITS = ("dev", "test", "train")
"""In the order in which they are looked for."""


def read_text_sets(
    names: Sequence[str],
    sets: ConfiguredSets,
    *,
    split: str | None,
    most: int,
    seed: int,
    reading: TableReading = AS_IT_LOOKS,
) -> list[TextSet]:
    """A sample of each set, or file, of at most `most` texts. Raises UserError for what is neither, and faulty rows.

    names    sets that have a description; files with one text per line (.txt), or tables with a column `text`, and
             `label` where there are classes
    reading  what a person says of the files
    """
    chosen = []
    for name in names:
        if name in sets.files:
            chosen.append(_described(name, sets, split=split, most=most, seed=seed))
        elif Path(name).suffix:
            chosen.append(_of_file(Path(name), reading, most=most, seed=seed))
        else:
            require_set("--data", name, sets.files)
    return chosen


def _described(name: str, sets: ConfiguredSets, *, split: str | None, most: int, seed: int) -> TextSet:
    splits = sets.splits(name, [split] if split else SPLITS, option="--data ")
    rows = next(rows for _, rows in splits if rows is not None)
    labels: dict[int, str] = {}
    for word, number in (read_description(sets.files[name]).labels or {}).items():
        labels.setdefault(number, word)  # a file may write a class in several ways; the first is its name
    probe = Probe.of(rows, num_sentences=most, seed=seed)
    names = [labels.get(number, f"class {number}") for number in range(max(labels, default=-1) + 1)]
    return TextSet(f"{name} ({rows.split})", probe, len(rows.sentences), names)


def _of_file(path: Path, reading: TableReading, *, most: int, seed: int) -> TextSet:
    require_fields(reading, *FIELDS)
    is_of_lines = suffix_of(path) == ".txt" and not reading.columns
    texts, labels = _lines(path, reading) if is_of_lines else _cells(path, reading)
    first: dict[str, int] = {}
    for row, text in enumerate(texts):
        first.setdefault(text, row)
    classes, names = None, list[str]()
    if labels is not None:
        label_names, classes = np.unique([labels[row] for row in first.values()], return_inverse=True)
        names = label_names.tolist()
    probe = Probe.of_texts([*first], num_sentences=most, seed=seed, classes=classes)
    return TextSet(path.name, probe, len(first), names)


def _lines(path: Path, reading: TableReading) -> tuple[list[str], None]:
    table, place = read_texts(path, reading)
    table = with_split_cells(table, [place], reading.split_cells)
    rows, faults = good_texts(table, [place], reading)
    warn_dropped(table.place, len(faults))
    values = column_values(table, place)
    return [values[row] for row in rows], None


def _cells(path: Path, reading: TableReading) -> tuple[list[str], list[str] | None]:
    """The texts of a table, and the class of each where it has one."""
    raw = read_raw(path, reading)
    if reading.columns:
        names = names_of(raw.table)
        columns = {
            field: names[column_place(raw.table, name, field, reading)]
            for field, name in reading.columns.items()
        }
    else:
        columns = {name: name for name in FIELDS if name in raw.names}
    if "text" not in columns:
        columns = guess(raw, columns={}).columns | columns
        if "text" not in columns:
            raise UserError(
                f"--data {path}: no column `text`, but {listed(raw.names)}; name the columns text and label, or say "
                f"which they are: {reading.spell('columns', {'text': '1', 'label': '2'})}"
            )
    kind = Kind.LABELLED_TEXT if "label" in columns else Kind.SENTENCE
    raw = split_raw(raw, Guess(kind, columns))
    faults, rows = raw.faults, []
    cells = {field: raw.cells[columns[field]].tolist() for field in FIELDS if field in columns}
    for row, (line, *values) in enumerate(zip(raw.cells.index.tolist(), *cells.values(), strict=True)):
        pairs = zip(cells, values, strict=True)
        wrong = [f"{field} {fault}" for field, value in pairs if (fault := text_fault(value))]
        if wrong:
            faults.setdefault(line, wrong[0])
        else:
            rows.append(row)
    refuse_rows(raw.table, faults, len(rows), reading)
    warn_dropped(raw.place, len(faults))
    texts, *labels = ([values[row] for row in rows] for values in cells.values())
    return texts, labels[0] if labels else None
