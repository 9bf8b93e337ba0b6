"""Detection of a table's text columns, label column and kind of rows."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

import numpy as np
import pandas as pd

from juzhen.core.errors import UserError
from juzhen.core.examples import NLI_CLASSES, TEACHER_SCORE, negative_columns
from juzhen.core.kinds import JUDGED, TARGET_COLUMN, TEXT_COLUMNS, Kind
from juzhen.core.text import counted, short, text_fault
from juzhen.data.headers import (
    ID_NAMES,
    MOST_LABELS,
    NEGATIVE_NAMES,
    NLI_WORDS,
    NO_LABEL,
    NUMBER,
    NUMBERED,
    POSITIVE_NAMES,
    TARGET_NAMES,
    TEXT_NAMES,
    TOOLS,
    TOPIC_NAMES,
    are_numbers,
    as_fields,
    direction,
    format_of,
    is_label,
    nli_classes,
    pair_classes,
    plain_label,
    role,
    settled_classes,
    share_of_numbers,
)
from juzhen.data.readers import FileTable
from juzhen.data.row_checks import PORTION, listed
from juzhen.data.tables import (
    AS_IT_LOOKS,
    SAMPLE,
    TableReading,
    as_text,
    as_texts,
    column_place,
    column_values,
    names_of,
    read_own_table,
    refuse_rows,
)

TEACHER_SCORES = re.compile(TEACHER_SCORE.format(r"(positive|negative(_\d+)?)"))
"""Columns of a teacher's scores for the documents of a triplet."""

ODD_SCORE = re.compile(r"\d+([.,]\d+)?\s*[%％]|\d+[,/]\d+")
"""A score as 80 %, 0,8 or 4/5."""

GOLD_NAMES = re.compile("(?i)(gold[ _]?)?(labels?|scores?)|标签|标注|分数|得分")
"""Columns of gold values, whatever their content. Other values in them are refused with their line."""

GRADE_NAMES = re.compile("(?i)(gold[ _]?)?scores?|分数|得分")
"""Columns of grades, even if nearly all are 0 and 1."""

MANY_LABELS = 0.9
"""The same if a person names the kind. Otherwise the share from which on a remark is made."""

KINDS: tuple[Kind, ...] = tuple(kind for kind in TEXT_COLUMNS if kind not in JUDGED)
"""Kinds of a table in one file."""


@dataclass(frozen=True)
class RawTable:
    """Cells of a table as texts, "" for an empty one.

    Args:
        table: The table of the cells.
        cells: A column for each column of the file. The index is the line of a row, or its number without
            lines. Several rows may have one line.
        format: Format of the file, for messages.
        faults: Line → reason why it is not a row.
        notes: Remarks that a person may want to check, one sentence each.
        reading: Options of the person who named the table.
    """

    table: FileTable
    cells: pd.DataFrame
    format: str
    faults: dict[int, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reading: TableReading = AS_IT_LOOKS

    @property
    def place(self) -> str:
        return self.table.place

    @property
    def names(self) -> list[str]:
        return list(self.cells.columns)


def read_raw(path: Path, reading: TableReading = AS_IT_LOOKS) -> RawTable:
    """Read the cells of a file as texts.

    Args:
        path: A file of any format of `juzhen.data.tables`.
        reading: Options of the table.

    Returns:
        The cells.

    Raises:
        UserError: The file has no table, or no rows.
    """
    return text_cells(read_own_table(path, reading), reading)


def _is_object(cell: object) -> bool:
    """True for what is neither a text, a number nor a list of them."""
    return any(isinstance(one, dict | list) for one in (cell if isinstance(cell, list) else [cell]))


SEPARATOR = "||"
"""Sign between several texts of one cell, as spreadsheets of customer questions have it."""

SEPARATED = 0.01
"""Share of cells with it from which on a note is given."""


def text_cells(table: FileTable, reading: TableReading = AS_IT_LOOKS) -> RawTable:
    """Return the cells of a table as texts. Negatives may be lists.

    Rows in the formats of FlagEmbedding and ms-swift become a row for each positive. A column without name and texts is
    left out.

    Args:
        table: Table as it was read.
        reading: Options with which it was read.

    Returns:
        The cells. A list of negatives becomes a column for each.

    Raises:
        UserError: No column holds a text, another column than negatives holds lists, or no row is left.
    """
    notes = [*table.notes]
    if (written := format_of(table)) is not None:
        table = as_fields(table, *written, tell=notes.append)
        table.format = f"{table.format}, rows of {TOOLS[written[0]]}"
        if not len(table.lines):
            refuse_rows(table, table.faults, 0, reading)
    columns: dict[str, list[str]] = {}
    faults, empty = dict(table.faults), list[str]()
    for place, name in enumerate(names_of(table)):
        cells, classes = column_values(table, place), table.class_names(name)
        may_be_objects = not {dict, list}.isdisjoint(map(type, cells))
        objects = [row for row, cell in enumerate(cells) if _is_object(cell)] if may_be_objects else []
        if objects:
            shown = short(repr(cells[objects[0]]))
            if len(objects) == sum(cell is not None for cell in cells):
                notes.append(f"column {name} is not read: it holds objects, such as {shown}")
                if not {name, str(place + 1)}.isdisjoint(map(str, reading.columns.values())):
                    raise UserError(f"{table.place}: {notes[-1]}. Write texts into columns of their own")
                continue
            lines = table.lines[objects].tolist()
            faults |= dict.fromkeys(lines, f"{name} is {shown}, an object and not a text") | faults
            cells = [None if _is_object(cell) else cell for cell in cells]
        if classes:
            cells = [
                classes[cell] if isinstance(cell, int) and 0 <= cell < len(classes) else cell
                for cell in cells
            ]
        if any(issubclass(kind, list) for kind in {*map(type, cells)}):
            lists = [cell if isinstance(cell, list) else [cell] for cell in cells]
            count = max(map(len, lists))
            if count > 1 and not NEGATIVE_NAMES.fullmatch(name):
                column = name if name.startswith("column ") else f"column {name}"
                raise UserError(
                    f"{table.place}: {column} holds lists of {count} and fewer. Write a row for each text"
                )
            for number in range(max(count, 1)):
                key = f"{name} {number + 1}" if number else name
                columns[key] = [as_text(cell[number]) if number < len(cell) else "" for cell in lists]
        elif any(texts := as_texts(cells)) or (table.names and table.names[place]):
            columns[name] = texts
        elif not table.names:
            empty.append(name)
    if empty:
        notes.append(f"{listed(empty)}: empty in every row, and not read")
    if not columns:
        why = notes[-1] if notes else "no column holds a text"
        raise UserError(f"{table.place}: {why}. Write texts into columns of their own")
    for name, texts in columns.items():
        several = 0
        try:
            for start in range(0, len(texts), PORTION):
                portion = "\n".join(texts[start : start + PORTION])
                several += portion.count(SEPARATOR)
                portion.encode()
        except UnicodeEncodeError:  # half a surrogate pair
            for place, text in enumerate(texts):
                if text.encode("utf-8", "ignore").decode() != text:
                    faults.setdefault(int(table.lines[place]), f"{name} {text_fault(text)}")
                    texts[place] = ""
        if several >= max(1, SEPARATED * len(texts)) and reading.split_cells is None:
            way_out = reading.spell("split_cells", SEPARATOR)
            notes.append(
                f"{name}: cells with {SEPARATOR} are read as one text. {way_out} makes each part a row"
            )
    # The texts themselves: Arrow's strings would be a second copy, and a third when they are read.
    frame = pd.DataFrame(columns, table.lines, dtype=object)
    return RawTable(table, frame, table.format, faults, tuple(notes), reading)


@dataclass(frozen=True)
class Guess:
    """Detected columns and kind of a table.

    Args:
        kind: Kind of the rows.
        columns: Field of the example → column.
        labels: Label in the file → written label, for kinds with classes.
        score_range: Lowest and highest score.
        notes: Remarks that a person may want to check, one sentence each.
    """

    kind: Kind
    columns: dict[str, str]
    labels: dict[str, str] | None = None
    score_range: tuple[float, float] | None = None
    notes: tuple[str, ...] = ()

    @property
    def texts(self) -> list[str]:
        return [name for name in self.columns if name != self.target and name not in self.teacher_scores]

    @property
    def teacher_scores(self) -> list[str]:
        return [name for name in self.columns if TEACHER_SCORES.fullmatch(name)]

    @property
    def target(self) -> str | None:
        return TARGET_COLUMN.get(self.kind)

    @property
    def classes(self) -> list[str]:
        """Written labels, in the order of their indices."""
        written = {Kind.LABELLED_PAIR: ("0", "1"), Kind.NLI_PAIR: NLI_CLASSES}
        return [*written.get(self.kind, (self.labels or {}).values())]


def guess(table: RawTable, *, kind: Kind | None = None, columns: Mapping[str, str] | None = None) -> Guess:
    """Detect the columns and kind of rows by the names and contents of the columns.

    Args:
        table: The rows.
        kind: Kind that a person names.
        columns: Field of the example → name of the column, or its number from 1. None: those of the table's reading.

    Returns:
        The kind, the column of each field, and remarks that a person may want to check.

    Raises:
        UserError: Several readings fit. The message has what to type.
    """
    if chosen_names := table.reading.columns if columns is None else columns:
        chosen = {key: _column(table, key, name) for key, name in chosen_names.items()}
        meant, spell = _kind_of_fields(chosen, table), table.reading.spell
        if len({*chosen.values()}) < len(chosen):
            raise UserError(
                f"{spell('columns', chosen_names)}: two fields are read from one column. Name another"
            )
        if kind not in (None, meant):
            raise UserError(
                f"{spell('kind', str(kind))}: the fields of {spell('columns', chosen_names)} are those of a {meant}"
            )
        return _classified(table, meant, chosen)
    cells, notes = table.cells, [*table.notes]
    scores = [name for name in table.names if TEACHER_SCORES.fullmatch(name)]
    texts, target = find_columns(table)
    if not texts:
        raise UserError(f"{table.place}: no column of texts among {listed(table.names)}. {_advice(table)}")
    if target and not GOLD_NAMES.fullmatch(target):
        labels = (
            name for name in table.names if name not in (*texts, target) and TARGET_NAMES.fullmatch(name)
        )
        if unread := [name for name in labels if pair_classes(cells[name].unique())]:
            notes.append(f"{target} is read as the label, and {listed(unread)} is not")
    if target and len(texts) == 2 and kind is None and _is_topic(target, cells[target], texts):
        notes.append(f"{target} says what a pair is about, and is not read")
        target = None
    if target and len(texts) == 2 and kind in (None, Kind.POSITIVE_PAIR):
        values = [value for value in cells[target].unique() if value]
        classes = settled_classes(pair_classes, cells[target]) or {}
        apart = "0" in classes.values() or any(
            re.fullmatch("|".join(NLI_WORDS[1:]), plain_label(v)) for v in values
        )
        if kind and apart:
            said = table.reading.spell("kind", str(kind))
            raise UserError(f"{said}: the values of {target} mark some rows as negatives")
        is_one = len(values) == 1 or len({*classes.values()}) == 1  # 1 and 是 are one
        if is_one and apart:
            raise UserError(f"{table.place}: {target} is {values[0]} in every row: there is nothing to learn")
        if is_one and classes:
            gaps = cells.index[cells[target] == ""].tolist()
            rows = "every other row" if gaps else "every row"
            notes.append(f"{target} is {values[0]} in {rows}: all pairs belong together")
            for line in gaps:
                table.faults.setdefault(line, f"{target} is empty, and {values[0]} in {rows}")
            kind = Kind.POSITIVE_PAIR
    if target is None and kind is None and len(texts) == 2:
        for name in table.names:
            if TARGET_NAMES.fullmatch(name) and not cells[name].any():
                refuse_missing(table, name)
        notes += _unread_labels(table, [*texts, *scores])
    if kind is None:
        kind = _kind(table, texts, target)
        if kind in (Kind.LABELLED_PAIR, Kind.SCORED_PAIR, Kind.NLI_PAIR) and target:
            notes += odd_labels(table, kind, texts, target)
    if kind in (Kind.TRIPLET, Kind.POSITIVE_PAIR, Kind.NLI_PAIR):
        texts = sorted(texts, key=direction if kind is Kind.POSITIVE_PAIR else role)
    fields = list(TEXT_COLUMNS[kind])
    fields += negative_columns(len(texts) - 2)[1:] if kind is Kind.TRIPLET else []
    target_field = TARGET_COLUMN.get(kind)
    if len(texts) != len(fields) or (target_field and target is None):
        raise UserError(
            f"{table.place}: not clear which of {listed(table.names)} are {listed(_needed(kind))} of a {kind}. "
            f"{_advice(table)}"
        )
    chosen = dict(zip(fields, texts, strict=True))
    of_documents = [TEACHER_SCORE.format(field) for field in fields[1:]] if kind is Kind.TRIPLET else []
    if {*scores} == {*of_documents}:
        chosen |= {name: name for name in scores}
    elif scores:
        reason = f"a triplet needs {listed(of_documents)}" if of_documents else f"a {kind} has no such scores"
        notes.append(f"{listed(scores)}: not read, since {reason}")
    if target_field and target:
        chosen[target_field] = target
    return _classified(table, kind, chosen, notes)


def _unread_labels(table: RawTable, read: Sequence[str]) -> list[str]:
    """Remarks on columns of few short words, perhaps labels. Raises UserError for percentages and without names."""
    notes = []
    for name in table.names:
        column = table.cells[name]
        values = [value for value in column.unique() if value]
        if name in read or len(values) < 2:
            continue
        found = f"{name} holds {listed(values[:4])}, which are not known as labels or scores"
        is_few = len(values) <= 5 and 3 * len(values) <= len(column) and max(map(len, values)) <= 8
        if all(map(ODD_SCORE.fullmatch, values)) or (is_few and not table.table.names):
            raise UserError(f"{table.place}: {found}. Write 1 and 0, or numbers. {_advice(table)}")
        notes += [f"{found}, and is not read"] if is_few and not TOPIC_NAMES.fullmatch(name) else []
    return notes


def refuse_missing(table: RawTable, name: str) -> NoReturn:
    """Refuse labels that are missing in all rows. Without them, negatives would be read as positives.

    Args:
        table: Cells as texts.
        name: Column of the labels.

    Raises:
        UserError: Always, with the place of the table and its number of rows.
    """
    way = table.reading.spell("columns", {"anchor": table.names[0], "positive": table.names[1]})
    raise UserError(
        f"{table.place}: {name} is missing in all {counted(len(table.cells), 'rows')}. Fill it in, or say that "
        f"all pairs belong together: {way}"
    )


def find_columns(table: RawTable) -> tuple[list[str], str | None]:
    """Return the text columns, and the column of labels or scores, by names and contents.

    Args:
        table: Cells as texts.

    Returns:
        Names of the text columns in the order of the table, and the name of the other column or None.
    """
    cells, named = table.cells, _named_texts(table.names)
    free = [
        name
        for name in table.names
        if name not in named and not TEACHER_SCORES.fullmatch(name) and not _is_id(name, cells[name])
    ]
    # A column of numbers beside one of texts holds texts, too, such as telephone numbers.
    numbered = _numbered_texts(table.names)
    numbered = numbered if any(_is_text(name, cells[name]) for name in numbered) else set()
    target = _target(cells, [name for name in free if name not in numbered])
    texts = named or [
        name for name in free if name != target and (name in numbered or _is_text(name, cells[name]))
    ]
    known = [name for name in texts if _is_called_text(name)]
    texts = known if len(texts) > 2 == len(known) else texts
    return texts, target or _gappy_target(cells, [name for name in free if name not in texts])


def pair_columns(table: RawTable) -> list[str]:
    """Return the two text columns of a table of pairs.

    Args:
        table: Cells as texts. The columns that a person named are used.

    Returns:
        Two names, the first text first.

    Raises:
        UserError: Several columns could be meant, or one was named twice.
    """
    if chosen := table.reading.columns:
        texts = [
            _column(table, field, name) for field, name in chosen.items() if field not in ("label", "score")
        ]
        said = table.reading.spell("columns", chosen)
        if len({*texts}) != 2:
            raise UserError(f"{said}: expected two columns of texts. A text with itself scores 1")
        return texts
    texts = find_columns(table)[0]
    texts = texts if len(texts) > 1 or len(table.names) != 2 else table.names
    if len(table.names) == 1:
        raise UserError(
            f"{table.place}: only one column, {listed(table.names)}. Give two columns of texts for pairs"
        )
    if len(texts) != 2:
        raise UserError(
            f"{table.place}: not clear which two columns are compared. There are {listed(table.names)}. Name them: "
            f"{table.reading.spell('columns', {'text_a': '1', 'text_b': '2'})}"
        )
    return sorted(texts, key=role)


def _named_texts(names: Sequence[str]) -> list[str]:
    """Columns with names of a kind's texts. None if there are other text columns, too."""
    by_field = {name.lower(): name for name in reversed(names)}
    for kind in (Kind.TRIPLET, Kind.NLI_PAIR, Kind.LABELLED_PAIR, Kind.POSITIVE_PAIR):
        fields = [*TEXT_COLUMNS[kind]]
        if {*fields} <= by_field.keys():
            if kind is Kind.TRIPLET:
                further = [field for field in by_field if re.fullmatch(r"negative_\d+", field)]
                fields += sorted(further, key=lambda field: (len(field), field))
            others = [name for field, name in by_field.items() if field not in fields]
            if not any(
                _is_called_text(name) and not TARGET_NAMES.fullmatch(name) and not ID_NAMES.fullmatch(name)
                for name in others
            ):
                return [by_field[field] for field in fields]
    return []


def _numbered_texts(names: Sequence[str]) -> set[str]:
    """Neighbouring columns with names such as question1 and question2."""
    return {
        name
        for pair in pairwise(names)
        if NUMBERED.fullmatch("\n".join(pair))
        and TEXT_NAMES.fullmatch(pair[0])
        and not (TARGET_NAMES.fullmatch(pair[0]) or ID_NAMES.fullmatch(pair[0]))
        for name in pair
    }


def _needed(kind: Kind) -> list[str]:
    return [*TEXT_COLUMNS[kind], *filter(None, [TARGET_COLUMN.get(kind)])]


def _kind_of_fields(columns: Mapping[str, str], table: RawTable) -> Kind:
    """The kind with these fields. Raises UserError without such a kind."""
    fields = {
        field
        for field in columns
        if not field.startswith("negative_") and not TEACHER_SCORES.fullmatch(field)
    }
    for kind in KINDS:
        if fields == {*_needed(kind)}:
            return kind
    names = "; ".join(f"{', '.join(_needed(kind))} ({kind})" for kind in KINDS)
    option = table.reading.spell("columns", columns).partition("=")[0].split(" ")[0]
    raise UserError(f"{option} {listed([*columns])}: these columns make no kind of rows. Expected {names}")


def _kind(table: RawTable, texts: Sequence[str], target: str | None) -> Kind:
    if target is None:
        if len(texts) > 2 and not any(NEGATIVE_NAMES.fullmatch(name) for name in texts):
            raise UserError(
                f"{table.place}: the relation of {listed(texts)} is not clear. {_advice(table, texts)}"
            )
        return (Kind.SENTENCE, Kind.POSITIVE_PAIR, Kind.TRIPLET)[min(len(texts), 3) - 1]
    if len(texts) == 1:
        return Kind.LABELLED_TEXT
    column = table.cells[target]
    share = least_labels(column)
    if settled_classes(partial(nli_classes, texts=texts), column, share):
        return Kind.NLI_PAIR
    share = 1.0 if GRADE_NAMES.fullmatch(target) and share == MOST_LABELS else share
    return Kind.LABELLED_PAIR if settled_classes(pair_classes, column, share) else Kind.SCORED_PAIR


def finite_numbers(column: pd.Series) -> pd.Series:
    """Return the numbers of a column.

    Args:
        column: Cells as texts.

    Returns:
        A series with the same index. A cell that is not a finite number is NaN.
    """
    return pd.to_numeric(column, errors="coerce").replace([math.inf, -math.inf], math.nan)


def least_labels(column: pd.Series) -> float:
    """Return the share of labels that must be classes. If no cell is a number, the others cannot be grades.

    Args:
        column: Labels as texts.

    Returns:
        MOST_LABELS with a number among the cells, else MANY_LABELS.
    """
    return MOST_LABELS if any(map(NUMBER.fullmatch, column.unique())) else MANY_LABELS


def odd_labels(table: RawTable, kind: Kind, texts: Sequence[str], target: str) -> list[str]:
    """Return a remark, with the first line, on labels that are few and unlike the others.

    Args:
        table: Cells as texts.
        kind: Kind as which the table is read.
        texts: Names of the two text columns.
        target: Name of the column of labels or scores.

    Returns:
        One sentence, or an empty list.
    """
    column = table.cells[target]
    read = partial(nli_classes, texts=texts) if kind is Kind.NLI_PAIR else pair_classes
    classes = settled_classes(read, column, MANY_LABELS)
    ignored = NO_LABEL if kind is Kind.NLI_PAIR else [""]
    odd = column[~column.isin([*(classes or ()), *ignored])]
    if classes is None or odd.empty:
        return []
    found = (
        f"{len(odd):,} of {counted((column != '').sum(), 'rows')} hold none of {listed(sorted(classes))}, the first is "
        f"{odd.iloc[0]} in {table.table.at(odd.index[0])}"
    )
    fields = dict(zip(("text_a", "text_b"), texts, strict=True))
    if kind is Kind.SCORED_PAIR:
        other = table.reading.spell("columns", fields | {"label": target})
        return [
            f"{target}: {found}. The values are read as grades. For labels, with such rows faulty, say {other}"
        ]
    if kind is Kind.LABELLED_PAIR:
        other = table.reading.spell("columns", fields | {"score": target})
        return [f"{target}: {found}. Such rows are faulty. For grades say {other}"]
    return [f"{target}: {found}. Such rows are faulty"]


def _classified(table: RawTable, kind: Kind, columns: dict[str, str], notes: Sequence[str] = ()) -> Guess:
    notes, spell = [*notes], table.reading.spell
    if kind not in TARGET_COLUMN:
        return Guess(kind, columns, notes=tuple(notes))
    name = columns[TARGET_COLUMN[kind]]
    column = table.cells[name]
    values = [value for value in column.unique() if value]
    where = f"{table.place}: column {name} holds {listed(values[:6])}"
    if kind is Kind.SCORED_PAIR:
        scores = finite_numbers(column).dropna()
        signs = [value for value in values if NUMBER.fullmatch(re.sub("[%％‰,，]", "", value))]
        if scores.empty and signs:
            raise UserError(f"{where}: {signs[0]} is not a plain number. Write 0.05 for 5% and for 0,05")
        if scores.empty or scores.min() == scores.max():
            raise UserError(
                f"{where}. Expected labels such as 1 and 0, or scores that differ. {_advice(table)}"
            )
        return Guess(kind, columns, None, (math.floor(scores.min()), math.ceil(scores.max())), tuple(notes))
    if kind is Kind.LABELLED_TEXT:
        if len(values) > len(column) / 2:
            raise UserError(
                f"{where}, most of them once: no classes. Say {spell('kind', 'sentence')} to leave it out"
            )
        return Guess(kind, columns, {value: value for value in sorted(values)}, None, tuple(notes))
    texts = [column for field, column in columns.items() if field != TARGET_COLUMN[kind]]
    read = pair_classes if kind is Kind.LABELLED_PAIR else partial(nli_classes, texts=texts)
    classes = settled_classes(read, column, MANY_LABELS)
    if not classes and kind is Kind.NLI_PAIR and len(values) == 3:
        classes = dict(zip(sorted(values), NLI_CLASSES, strict=True))
    if not classes:
        expected = "two classes" if kind is Kind.LABELLED_PAIR else ", ".join(NLI_CLASSES)
        raise UserError(
            f"{where}, and a {kind} has {expected}. Say {spell('kind', 'scored_pair')} for grades"
        )
    if not all(map(is_label, classes)):
        notes.append(
            f"{name}: " + ", ".join(f"{value} is taken for {meant}" for value, meant in classes.items())
        )
    return Guess(kind, columns, classes, None, tuple(notes))


def _target(cells: pd.DataFrame, names: Sequence[str]) -> str | None:
    """The column of labels or scores: one with such a name, or else numbers, or a few short words that repeat."""
    called = [name for name in names if GOLD_NAMES.fullmatch(name) and (cells[name] != "").any()]
    if len(called) == 1:
        return called[0]
    candidates = []
    for position, name in enumerate(names):
        column = cells.loc[cells[name] != "", name]
        if column.empty:
            continue
        values = [*column.unique()]
        is_named = bool(TARGET_NAMES.fullmatch(name))
        is_numeric = are_numbers(column, above=0.9)
        is_class = len(values) <= 6 and bool(pair_classes(values) or nli_classes(values, names))
        is_few = len(values) <= max(3, len(column) // 10) and max(map(len, values)) <= 20
        if is_numeric or is_class or (is_few and is_named):
            candidates.append(
                (is_class and is_named, is_class, is_numeric and is_named, is_numeric, position)
            )
    return names[max(candidates)[-1]] if candidates else None


def _gappy_target(cells: pd.DataFrame, names: Sequence[str]) -> str | None:
    """The first column, neither texts nor labels, with numbers or known labels in most of its cells.

    Its other cells are faults. Without the column, pairs of label 0 would become positive pairs.
    """
    for name in names:
        values = cells.loc[cells[name] != "", name]
        labels = values.isin([*filter(is_label, values.unique())])
        if are_numbers(values, above=0.5) or labels.mean() > 0.5:
            return name
    return None


def _is_called_text(name: str) -> bool:
    return any(pattern.fullmatch(name) for pattern in (TEXT_NAMES, POSITIVE_NAMES, NEGATIVE_NAMES))


def _is_text(name: str, column: pd.Series) -> bool:
    """True unless it has numbers, or a category that many rows share."""
    values = column[column != ""]
    if values.empty or are_numbers(values, above=0.9):
        return False
    if _is_called_text(name):
        return True
    return len(values) < 10 or values.nunique() > len(values) / 50 + 2 or values.str.len().mean() > 12


def _is_topic(name: str, column: pd.Series, texts: Sequence[str]) -> bool:
    """True for a column with such a name whose values cannot be labels of pairs."""
    values = column[column != ""]
    is_label = pair_classes(values.unique()) or nli_classes(values.unique(), texts)
    return bool(TOPIC_NAMES.fullmatch(name)) and not is_label and share_of_numbers(values) < 0.1


def _is_id(name: str, column: pd.Series) -> bool:
    """True for a column with such a name, or with numbers that count the rows."""
    if ID_NAMES.fullmatch(name):
        return True
    if TARGET_NAMES.fullmatch(name):
        return False
    parts = (pd.to_numeric(part, errors="coerce").to_numpy(float) for part in (column.head(SAMPLE), column))
    return all(len(numbers) > 4 and bool(np.all(np.diff(numbers) == 1)) for numbers in parts)


def _column(table: RawTable, field: str, name: str) -> str:
    """The name of a column that a person names, or numbers as in the file."""
    if name in table.names and (table.table.names or []).count(name) < 2:
        return name
    return names_of(table.table)[column_place(table.table, name, field, table.reading)]


def _advice(table: RawTable, names: Sequence[str] = ()) -> str:
    names, spell = [*names, *table.names, "…"], table.reading.spell
    of_two = spell("columns", {"anchor": names[0], "positive": names[1]})
    return f"Name them, as in {of_two} or {spell('columns', {'text_a': '1', 'text_b': '2', 'label': '3'})}"
