"""Training rows in the formats of other tools: FlagEmbedding, ms-swift, and the columns of sentence-transformers.

Each becomes a table with the fields of a kind (`juzhen.core.kinds`) as columns, and a row for each positive. Rows keep
the lines of the file. A string instead of a list would be read character by character. It is a fault with its line.
"""

import logging
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from juzhen.core.errors import UserError
from juzhen.core.examples import TARGET_COLUMN, TEACHER_SCORE, TEXT_COLUMNS, Kind, negative_columns
from juzhen.core.text import counted, short, text_fault
from juzhen.data.readers import FileTable

log = logging.getLogger(__name__)

LABELS = ("label", "labels", "score", "scores")
"""Columns that sentence-transformers takes for gold values. All others are texts, in their order."""
MEDIA = re.compile(r"(positive_|negative_)?(images|videos|audios)")


class RowError(Exception):
    """The reason why a line of the file is not a row."""


@dataclass(frozen=True)
class ForeignRow:
    """A line of the file. `texts` are anchor and positives. Each positive becomes a row with the same negatives.

    Args:
        scores: A teacher's scores of all positives and then of all negatives. None: the line has none.
        label: Gold value of a pair. None: it has none.
    """

    anchor: str
    positives: list[str]
    negatives: list[str]
    scores: list[float] | None = None
    label: Any = None


def format_of(table: FileTable) -> tuple[str, Kind] | None:
    """Return the tool that wrote a table, by its columns and most of its rows, and the kind of the rows, or None."""
    names = table.names or ()
    if {"messages", "positive_messages"} <= {*names}:
        labels = sum(record.get("label") is not None for record in _records(table))
        if 2 * labels > len(table.lines):
            return "ms_swift", Kind.SCORED_PAIR
        format, negatives = "ms_swift", "negative_messages"
    elif {"query", "pos"} <= {*names}:
        lists = sum(
            isinstance(record[key], list)
            for record in _records(table)
            for key in ("pos", "neg")
            if key in record
        )
        if not lists:
            return None
        format, negatives = "flag_embedding", "neg"
    else:
        return None
    with_negatives = sum(bool(record.get(negatives)) for record in _records(table))
    return format, Kind.TRIPLET if 2 * with_negatives > len(table.lines) else Kind.POSITIVE_PAIR


def as_fields(
    table: FileTable,
    format: str,
    kind: Kind,
    *,
    num_negatives: int | None = None,
    teacher_scores: bool | None = None,
    tell: Callable[[str], None] = log.info,
) -> FileTable:
    """Return the table with the fields of a kind as columns.

    Args:
        table: The table.
        format: A name of FORMATS.
        kind: Kind of the rows.
        num_negatives: Negatives of each row: the first ones, repeated if there are fewer. None: all, and a row with
            fewer than others has empty cells.
        teacher_scores: False: they are not read. True: each row must have them. None: they are read if the file has
            them.
        tell: Gets a sentence if rows have different numbers of negatives.

    Raises:
        UserError: Rows of another kind, or scores that the kind cannot hold.
    """
    read, rows, line_numbers, faults = FORMATS[format], list[ForeignRow](), list[int](), dict(table.faults)
    for line, record in zip(table.lines.tolist(), _records(table), strict=True):
        try:
            row = read(record)
            _require_kind(row, kind, scores=teacher_scores)
        except RowError as fault:
            faults.setdefault(line, str(fault))
        else:
            rows.append(row if teacher_scores is not False else replace(row, scores=None))
            line_numbers.append(line)
    scored = [row.scores is not None for row in rows]
    if any(scored) and not all(scored):
        without = next(line for line, is_scored in zip(line_numbers, scored, strict=True) if not is_scored)
        raise UserError(
            f"{table.at(without)}: no scores of a teacher, and other rows have them. Fix the file, or set "
            "teacher_scores: false in the layout"
        )
    counts = [len(row.negatives) for row in rows] or [1]
    if kind is Kind.TRIPLET and num_negatives is None and min(counts) < max(counts):
        tell(f"{table.place}: rows have {min(counts)} to {max(counts)} negatives, and all of each are read")
    count = (num_negatives or max(counts)) if kind is Kind.TRIPLET else 0
    return _flat(table, rows, line_numbers, faults, kind, count, again=num_negatives is not None)


def _records(table: FileTable) -> Iterator[dict[str, Any]]:
    columns = [values.to_pylist() if hasattr(values, "to_pylist") else values for values in table.columns]
    names = table.names or []
    return (dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True))


def _require_kind(row: ForeignRow, kind: Kind, *, scores: bool | None) -> None:
    """Raises RowError for a row of another kind, and for data of it that would be lost."""
    target = TARGET_COLUMN.get(kind)
    if kind not in (Kind.TRIPLET, Kind.POSITIVE_PAIR) and not (target and len(TEXT_COLUMNS[kind]) == 2):
        raise RowError(f"rows of this format are not a {kind}. Set kind: triplet or positive_pair")
    if target and row.label is None:
        raise RowError(f"no label, which a {kind} has. Set kind: triplet or positive_pair")
    if target and row.negatives:
        raise RowError(f"negatives, which a {kind} does not have. Set kind: triplet")
    if row.label is not None and not target:
        raise RowError(f"a label, which a {kind} does not have. Set kind: labelled_pair or scored_pair")
    if kind is Kind.TRIPLET and not row.negatives:
        raise RowError("no negative. Set kind: positive_pair to read positives alone")
    if kind is not Kind.TRIPLET and row.scores is not None and scores is not False:
        raise RowError(
            f"scores of a teacher, and a {kind} has no place for them. Set kind: triplet with negatives, or "
            "teacher_scores: false in the layout to leave them out"
        )
    if scores and row.scores is None:
        raise RowError("no scores of a teacher, and the layout has teacher_scores: true")


def _flat(
    table: FileTable,
    rows: Sequence[ForeignRow],
    line_numbers: Sequence[int],
    faults: dict[int, str],
    kind: Kind,
    count: int,
    *,
    again: bool,
) -> FileTable:
    """A row of the table for each positive of a row."""
    fields, target = list(TEXT_COLUMNS[kind]), TARGET_COLUMN.get(kind)
    fields += negative_columns(count)[1:]
    is_scored = bool(rows) and rows[0].scores is not None
    names = fields + [TEACHER_SCORE.format(field) for field in fields[1:] if is_scored]
    names += [target] if target else []
    cells, of_rows = list[list[Any]](), list[int]()
    for row, line in zip(rows, line_numbers, strict=True):
        negatives = _of_count(row.negatives, count, again=again)
        for number, positive in enumerate(row.positives):
            cell: list[Any] = [row.anchor, positive, *negatives]
            if row.scores is not None:
                of_negatives = row.scores[len(row.positives) :]
                cell += [row.scores[number], *_of_count(of_negatives, count, again=again)]
            cells.append(cell + ([row.label] if target else []))
            of_rows.append(line)
    columns = [list(column) for column in zip(*cells, strict=True)] or [[] for _ in names]
    return replace(
        table, names=names, columns=columns, lines=np.asarray(of_rows, np.int32), faults=faults, classes={}
    )


def _of_count(values: Sequence[Any], count: int, *, again: bool) -> list[Any]:
    """The first `count` values. If there are fewer, they are repeated, or None is added."""
    return [
        values[number % len(values)] if again or number < len(values) else None for number in range(count)
    ]


def _flag_embedding(record: Mapping[str, Any]) -> ForeignRow:
    """Columns `query`, `pos`, `neg`, and for a teacher `pos_scores`, `neg_scores`.

    A `prompt` is put before its query.
    """
    positives, negatives = _texts(record, "pos"), _texts(record, "neg", may_lack=True)
    scores = None
    if record.get("pos_scores") is not None or record.get("neg_scores") is not None:
        scores = _numbers(record, "pos_scores", len(positives)) + _numbers(
            record, "neg_scores", len(negatives)
        )
    prompt = _text(record.get("prompt") or "", "prompt", may_be_empty=True)
    return ForeignRow(prompt + _text(record.get("query"), "query"), positives, negatives, scores)


def _ms_swift(record: Mapping[str, Any]) -> ForeignRow:
    """Columns `messages`, `positive_messages`, `negative_messages` and, for pairs, `label`."""
    if media := next((key for key in record if MEDIA.fullmatch(key) and record[key]), None):
        raise RowError(f"{media}: only texts are read")
    anchor = _message(record.get("messages"), "messages")
    positives = _messages(record.get("positive_messages"), "positive_messages")
    negatives = _messages(record.get("negative_messages") or [], "negative_messages")
    if not positives:
        raise RowError("positive_messages is empty")
    return ForeignRow(anchor, positives, negatives, label=record.get("label"))


def _messages(value: Any, key: str) -> list[str]:
    conversations = _as_list(value, key, "conversations, each of them a list")
    return [_message(messages, f"{key}[{number}]") for number, messages in enumerate(conversations)]


def _message(value: Any, key: str) -> str:
    """The text of a conversation of one message, with a system instruction and a space before it."""
    if not isinstance(value, list) or not all(isinstance(message, dict) for message in value):
        raise RowError(
            f'{key} is {_what(value)}, expected a list of messages such as {{"role": …, "content": …}}'
        )
    system = [message for message in value if message.get("role") == "system"]
    messages = [message for message in value if message.get("role") != "system"]
    if len(messages) != 1 or len(system) > 1:
        raise RowError(f"{key} has {len(messages)} messages besides the system's, expected one")
    texts = [_text(message.get("content"), f"{key}.content") for message in (*system, *messages)]
    return " ".join(texts)


def _sentence_transformers(record: Mapping[str, Any]) -> ForeignRow:
    """Texts in the order of the columns, whatever their names, and a label, a margin, or a teacher's scores."""
    gold = [key for key in record if key in LABELS]
    if len(gold) > 1:
        raise RowError(f"{' and '.join(gold)}: expected one column of gold values")
    texts = [key for key in record if key not in LABELS]
    if len(texts) < 2:
        raise RowError(f"{counted(len(texts), 'columns')} of texts, expected two at least")
    anchor, positive, *negatives = (_text(record[key], key) for key in texts)
    value = record[gold[0]] if gold else None
    if not gold:
        return ForeignRow(anchor, [positive], negatives)
    if not isinstance(value, list) and not negatives:
        return ForeignRow(anchor, [positive], [], label=value)
    # MarginMSE: one margin per negative, the positive's score less the negative's, or all scores.
    is_margins = not isinstance(value, list) or len(value) == len(negatives)
    values = value if isinstance(value, list) else [value]
    scores = _numbers({gold[0]: values}, gold[0], len(negatives) if is_margins else 1 + len(negatives))
    return ForeignRow(
        anchor, [positive], negatives, [0.0, *(-margin for margin in scores)] if is_margins else scores
    )


FORMATS: dict[str, Callable[[Mapping[str, Any]], ForeignRow]] = {
    "flag_embedding": _flag_embedding,
    "ms_swift": _ms_swift,
    "sentence_transformers": _sentence_transformers,
}
"""`format` of a layout → parser of a line."""
TOOLS = {
    "flag_embedding": "FlagEmbedding",
    "ms_swift": "ms-swift",
    "sentence_transformers": "sentence-transformers",
}
"""`format` → name of the tool."""


def _text(value: Any, key: str, *, may_be_empty: bool = False) -> str:
    if value == "" and may_be_empty:
        return ""
    if fault := text_fault(value):
        raise RowError(f"{key} {fault}")
    return str(value)


def _texts(record: Mapping[str, Any], key: str, *, may_lack: bool = False) -> list[str]:
    value = record.get(key)
    if value is None and may_lack:
        return []
    texts = _as_list(value, key, "texts")
    if not texts and not may_lack:
        raise RowError(f"{key} is an empty list")
    return [_text(text, f"{key}[{number}]") for number, text in enumerate(texts)]


def _numbers(record: Mapping[str, Any], key: str, count: int) -> list[float]:
    value = record.get(key)
    if value is None and not count:
        return []
    numbers = _as_list(value, key, f"{count} numbers")
    wrong = next(
        (v for v in numbers if isinstance(v, bool) or not isinstance(v, int | float) or not math.isfinite(v)),
        None,
    )
    if wrong is not None or len(numbers) != count:
        fault = f"{_what(wrong)} in it" if wrong is not None else f"{len(numbers)} numbers"
        raise RowError(f"{key} has {fault}, expected {count} finite numbers, one for each text")
    return [float(number) for number in numbers]


def _as_list(value: Any, key: str, of: str) -> list[Any]:
    if not isinstance(value, list):
        raise RowError(f"{key} is {_what(value)}, expected a list of {of}")
    return value


def _what(value: Any) -> str:
    if value is None:
        return "missing"
    return f"the text {short(value, 40)!r}" if isinstance(value, str) else short(repr(value), 40)
