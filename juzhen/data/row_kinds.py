"""What the rows of a table are: which columns are texts, which is the label, and the kind."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from juzhen.core.errors import UserError, nearest
from juzhen.core.examples import NLI_CLASSES, TEACHER_SCORE, negative_columns
from juzhen.core.kinds import JUDGED, TARGET_COLUMN, TEXT_COLUMNS, Kind
from juzhen.data.sniff import (
    ID_NAMES,
    NEGATIVE_NAMES,
    NUMBER,
    POSITIVE_NAMES,
    TARGET_NAMES,
    TEXT_NAMES,
    TOPIC_NAMES,
    RawTable,
    share_of_numbers,
)
from juzhen.data.verify import listed

YES = "1|true|yes|y|t|same|similar|duplicate|paraphrase|equivalent|是|对|相同|相似|同义|真|一致|匹配|等价"
NO = f"0|false|no|n|f|different|否|错|不同|假|(不|非|not[_ ]|non[_-]|un|dis)({YES})"
NLI_WORDS = ("entail(s|ment)?|蕴[含涵]", "neutral|中[立性]", "contradict(s|ion|ory)?|矛盾")
"""Patterns of labels."""

NO_LABEL = ("-", "-1", "")
"""How sets say that annotators did not agree: such rows are left out."""

TEACHER_SCORES = re.compile(TEACHER_SCORE.format(r"(positive|negative(_\d+)?)"))
"""Columns of what a teacher scores each document of a triplet."""

KINDS: tuple[Kind, ...] = tuple(kind for kind in TEXT_COLUMNS if kind not in JUDGED)
"""What a table of one file can be."""


@dataclass(frozen=True)
class Guess:
    """What the rows of a table are.

    columns  field of the example → column
    labels   label as in the file → as it will be written, for kinds with classes
    score_range  lowest and highest score
    notes    what a person may know better, one sentence each
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


def guess(table: RawTable, *, kind: Kind | None = None, columns: Mapping[str, str] | None = None) -> Guess:
    """What the rows are, by the columns' names and contents.

    kind     what a person says that they are
    columns  field of the example → name of the column, or its number from 1

    Raises UserError, with what to type, where it is not clear.
    """
    if columns:
        chosen = {key: _column(table, name) for key, name in columns.items()}
        named = _kind_of_fields(chosen)
        if kind not in (None, named):
            raise UserError(f"--kind {kind}: the fields of --columns are those of a {named}")
        return _classified(table, named, chosen)
    cells, notes = table.cells, [*table.notes]
    scores = [name for name in table.names if TEACHER_SCORES.fullmatch(name)]
    free = [name for name in table.names if name not in scores and not _is_id(name, cells[name])]
    target = _target(cells, free)
    texts = [name for name in free if name != target and _is_text(name, cells[name])]
    if not texts:
        raise UserError(f"{table.path}: no column of texts among {listed(table.names)}; {_advice(table)}")
    if target and len(texts) == 2 and kind is None and _is_topic(target, cells[target], texts):
        notes.append(f"{target} says what a pair is about, and is not read")
        target = None
    if target and len(texts) == 2 and kind in (None, Kind.POSITIVE_PAIR):
        values = [value for value in cells[target].unique() if value]
        classes = pair_classes(values) or {}
        if kind and "0" in classes.values():
            raise UserError(
                f"--kind {kind}: {target} says of some rows that their texts do not belong together"
            )
        if len(values) == 1 and "0" in classes.values():
            raise UserError(f"{table.path}: {target} is {values[0]} in every row: there is nothing to learn")
        if len(values) == 1:
            notes.append(f"{target} is {values[0]} in every row: all pairs belong together")
            kind = Kind.POSITIVE_PAIR
    kind = kind or _kind(table, texts, target)
    if kind is Kind.TRIPLET:
        texts = sorted(texts, key=_role)
    fields = list(TEXT_COLUMNS[kind])
    fields += negative_columns(len(texts) - 2)[1:] if kind is Kind.TRIPLET else []
    target_field = TARGET_COLUMN.get(kind)
    if len(texts) != len(fields) or (target_field and target is None):
        raise UserError(
            f"{table.path}: not clear which of {listed(table.names)} are {listed(_needed(kind))} of a {kind}; "
            f"{_advice(table)}"
        )
    chosen = dict(zip(fields, texts, strict=True))
    if kind is Kind.TRIPLET and {*scores} == {TEACHER_SCORE.format(field) for field in fields[1:]}:
        chosen |= {name: name for name in scores}
    if target_field and target:
        chosen[target_field] = target
    return _classified(table, kind, chosen, notes)


def _needed(kind: Kind) -> list[str]:
    return [*TEXT_COLUMNS[kind], *filter(None, [TARGET_COLUMN.get(kind)])]


def _kind_of_fields(columns: Mapping[str, str]) -> Kind:
    """The kind whose fields these are. Raises UserError where there is none."""
    fields = {
        field
        for field in columns
        if not field.startswith("negative_") and not TEACHER_SCORES.fullmatch(field)
    }
    for kind in KINDS:
        if fields == {*_needed(kind)}:
            return kind
    names = "; ".join(f"{', '.join(_needed(kind))} ({kind})" for kind in KINDS)
    raise UserError(f"--columns {listed([*columns])}: of no kind of rows; expected {names}")


def _kind(table: RawTable, texts: Sequence[str], target: str | None) -> Kind:
    if target is None:
        if len(texts) > 2 and not any(NEGATIVE_NAMES.fullmatch(name) for name in texts):
            raise UserError(
                f"{table.path}: not clear what {listed(texts)} are to one another; {_advice(table, texts)}"
            )
        return (Kind.SENTENCE, Kind.POSITIVE_PAIR, Kind.TRIPLET)[min(len(texts), 3) - 1]
    if len(texts) == 1:
        return Kind.LABELLED_TEXT
    values = [value for value in table.cells[target].unique() if value]
    if nli_classes(values, texts):
        return Kind.NLI_PAIR
    return Kind.LABELLED_PAIR if pair_classes(values) else Kind.SCORED_PAIR


def _classified(table: RawTable, kind: Kind, columns: dict[str, str], notes: Sequence[str] = ()) -> Guess:
    """Adds the classes, or the range of scores."""
    notes = [*notes]
    if kind not in TARGET_COLUMN:
        return Guess(kind, columns, notes=tuple(notes))
    name = columns[TARGET_COLUMN[kind]]
    column = table.cells[name]
    values = [value for value in column.unique() if value]
    where = f"{table.path}: column {name} holds {listed(values[:6])}"
    if kind is Kind.SCORED_PAIR:
        scores = pd.to_numeric(column, errors="coerce").dropna()
        if scores.empty or scores.min() == scores.max():
            raise UserError(f"{where}: no scores, or the same one in all rows; {_advice(table)}")
        return Guess(kind, columns, None, (math.floor(scores.min()), math.ceil(scores.max())), tuple(notes))
    if kind is Kind.LABELLED_TEXT:
        if len(values) > len(column) / 2:
            raise UserError(f"{where}, most of them once: no classes; say --kind sentence to leave it out")
        return Guess(kind, columns, {value: value for value in sorted(values)}, None, tuple(notes))
    texts = [column for field, column in columns.items() if field != TARGET_COLUMN[kind]]
    classes = pair_classes(values) if kind is Kind.LABELLED_PAIR else nli_classes(values, texts)
    if not classes and kind is Kind.NLI_PAIR and len(values) == 3:
        classes = dict(zip(sorted(values), NLI_CLASSES, strict=True))
    if not classes:
        expected = "two classes" if kind is Kind.LABELLED_PAIR else ", ".join(NLI_CLASSES)
        raise UserError(f"{where}, and a {kind} has {expected}; say --kind scored_pair for grades")
    names = "|".join([YES, NO, *NLI_WORDS])
    if not all(re.fullmatch(names, _plain(value)) for value in classes):
        notes.append(
            f"{name}: " + ", ".join(f"{value} is taken for {meant}" for value, meant in classes.items())
        )
    return Guess(kind, columns, classes, None, tuple(notes))


def pair_classes(values: Iterable[str]) -> dict[str, str] | None:
    """Label → "1" for the same meaning, "0" for another; None where the labels are not two classes.

    >>> pair_classes(["是", "否"]), pair_classes(["0.5", "1.5"])
    ({'是': '1', '否': '0'}, None)
    """
    plain = {value: _plain(value) for value in values if value}
    if plain and all(re.fullmatch(f"{YES}|{NO}", word) for word in plain.values()):
        return {value: "1" if re.fullmatch(YES, word) else "0" for value, word in plain.items()}
    numbers = sorted({float(word) for word in plain.values() if NUMBER.fullmatch(word)})
    if len(numbers) == 2 and len(plain) == 2 and all(number.is_integer() for number in numbers):
        return {value: str(int(float(word) == numbers[1])) for value, word in plain.items()}
    return None


def nli_classes(values: Iterable[str], texts: Sequence[str] = ()) -> dict[str, str] | None:
    """Label → its class; None where one of the three is missing.

    texts  names of the text columns: below premise and hypothesis 0, 1, 2 are classes as the authors of SNLI number
           them
    """
    plain = {value: _plain(value) for value in values if _plain(value) not in NO_LABEL}
    classes = {
        value: NLI_CLASSES[number]
        for value, word in plain.items()
        for number, pattern in enumerate(NLI_WORDS)
        if re.fullmatch(pattern, word)
    }
    is_inference = any("hypothesis" in name.lower() or "假设" in name for name in texts)
    if is_inference and {*plain.values()} == {"0", "1", "2"}:
        classes = {value: NLI_CLASSES[int(word)] for value, word in plain.items()}
    return classes if {*classes.values()} == {*NLI_CLASSES} and len(classes) == len(plain) else None


def _plain(label: str) -> str:
    """As labels are compared: 1.0 is 1, Yes is yes."""
    return label.removesuffix(".0").strip().lower()


def _target(cells: pd.DataFrame, names: Sequence[str]) -> str | None:
    """The column of labels or scores: called so, or else numbers, or else a few short words again and again."""
    candidates = []
    for position, name in enumerate(names):
        column = cells.loc[cells[name] != "", name]
        if column.empty:
            continue
        values = [*column.unique()]
        is_named = bool(TARGET_NAMES.fullmatch(name))
        is_numeric = share_of_numbers(column) > 0.9
        is_class = len(values) <= 6 and bool(pair_classes(values) or nli_classes(values, names))
        is_few = len(values) <= max(3, len(column) // 10) and max(map(len, values)) <= 20
        if is_numeric or is_class or (is_few and is_named):
            candidates.append(
                (is_class and is_named, is_class, is_numeric and is_named, is_numeric, position)
            )
    return names[max(candidates)[-1]] if candidates else None


def _is_text(name: str, column: pd.Series) -> bool:
    """Neither numbers nor a category that many rows share."""
    values = column[column != ""]
    if values.empty or share_of_numbers(values) > 0.9:
        return False
    if TEXT_NAMES.fullmatch(name) or POSITIVE_NAMES.fullmatch(name) or NEGATIVE_NAMES.fullmatch(name):
        return True
    return len(values) < 10 or values.nunique() > len(values) / 50 + 2 or values.str.len().mean() > 12


def _is_topic(name: str, column: pd.Series, texts: Sequence[str]) -> bool:
    """Called so, and no label that a pair could have."""
    values = column[column != ""]
    is_label = pair_classes(values.unique()) or nli_classes(values.unique(), texts)
    return bool(TOPIC_NAMES.fullmatch(name)) and not is_label and share_of_numbers(values) < 0.1


def _is_id(name: str, column: pd.Series) -> bool:
    """Called so, or numbers that count the rows."""
    if ID_NAMES.fullmatch(name):
        return True
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(float)
    return len(numbers) > 4 and bool(np.all(np.diff(numbers) == 1))


def _role(name: str) -> int:
    """The order of a triplet's columns by their names."""
    return 2 if NEGATIVE_NAMES.fullmatch(name) else 1 if POSITIVE_NAMES.fullmatch(name) else 0


def _column(table: RawTable, name: str) -> str:
    if name in table.names:
        return name
    if name.isdecimal() and 1 <= int(name) <= len(table.names):
        return table.names[int(name) - 1]
    raise UserError(f"{table.path}: no column {name}; {nearest(name, table.names)}")


def _advice(table: RawTable, names: Sequence[str] = ()) -> str:
    names = [*names, *table.names, "…"]
    return f"say it, as in --columns anchor={names[0]},positive={names[1]} or --columns text_a=1,text_b=2,label=3"
