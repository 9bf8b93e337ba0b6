"""Check every row of a table and build Examples from it."""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from juzhen.core.errors import UserError, nearest
from juzhen.core.examples import (
    JUDGED,
    NLI_CLASSES,
    TARGET_COLUMN,
    TEACHER_SCORE,
    TEXT_COLUMNS,
    Examples,
    Kind,
)
from juzhen.core.paths import suffix_of
from juzhen.core.text import counted, is_unseen, number_or_nan, short, text_fault
from juzhen.data.readers import FileTable
from juzhen.data.spec import DatasetConfig, Source, SplitRequest

PORTION = 65_536
"""Texts that are joined to be looked through."""

MOST_NAMES = 20
"""Column names in a message. A file that is not a table may have thousands."""


def verified(
    table: FileTable, request: SplitRequest, *, columns: Mapping[str, Any], promised: int | None = None
) -> Examples:
    """Check the rows of a table and return them as Examples.

    Args:
        table: The rows.
        request: The split, for messages and for `on_bad_row`.
        columns: Field of the example → column name or index from 0.
        promised: Number of rows after those with an ignored label are left out. None: any number.

    Returns:
        The rows without faulty ones, under `on_bad_row=drop`, and without those of ignored labels.

    Raises:
        UserError: The first faulty line, or another number of rows.
    """
    config, key, on_bad_row = request.config, request.key, request.on_bad_row
    kind, rows_key = Kind(config.kind), f"{key}.rows.{request.split}"
    fields = _text_fields(kind, columns, key)
    faults = dict(table.faults)
    if faults and not len(table.lines):  # then the file needs a header, and columns by index are not known
        refuse_faults(table, faults, on_bad_row)
        _check_count(table, rows_key, 0, len(faults), promised)
    read = {field: raw_values(table, field, columns[field], key) for field in fields}
    keep, targets = np.ones(len(table.lines), dtype=bool), None
    if kind in TARGET_COLUMN:
        column = columns[TARGET_COLUMN[kind]]
        gold = raw_values(table, TARGET_COLUMN[kind], column, key)
        if isinstance(column, int) and table.names and request.source != Source.HUB:
            first = table.names[column].strip()
            if not isinstance(_target_of(config, kind, key)(first), str):
                raise UserError(
                    f"{table.place}:1: this is a row ({TARGET_COLUMN[kind]} {first}), not column names. Write "
                    f"`header: false` into the layout of {key}"
                )
        # Class indices count as their names, if `labels` knows these.
        spelt = {
            number: word
            for number, word in enumerate(table.class_names(column))
            if word in (config.labels or {})
        }
        if spelt:
            gold = [spelt.get(value, value) if isinstance(value, int) else value for value in gold]
        targets, keep = read_targets(gold, table, config, key=key, faults=faults)
    documents = [TEACHER_SCORE.format(field) for field in fields[1:]]
    scored = {field: raw_values(table, field, columns[field], key) for field in documents if field in columns}
    missing = None
    if kind is Kind.TRIPLET:
        read, scored, missing = _with_missing(read, scored)
    scores = read_teacher_scores(scored, table, faults=faults) if scored else None
    texts = {field: _stripped(read.pop(field), field, table, keep, faults) for field in fields}
    if request.source != Source.HUB and suffix_of(Path(table.place)) == ".csv" and not request.layout.quoted:
        for field, values in texts.items():
            for row in [
                row for row, text in enumerate(values) if len(text) > 1 and text[0] == text[-1] == '"'
            ]:
                faults.setdefault(
                    int(table.lines[row]), f"{field} is in quotes: write `quoted: true` into the layout"
                )
    refuse_faults(table, faults, on_bad_row)
    if faults:
        keep &= ~np.isin(table.lines, list(faults))
    num_rows = int(keep.sum())
    _check_count(table, rows_key, num_rows, len(faults), promised)
    if num_rows < len(keep):
        rows = np.flatnonzero(keep).tolist()
        texts = {field: [values[row] for row in rows] for field, values in texts.items()}
        targets = None if targets is None else targets[keep]
        scores = None if scores is None else scores[keep]
        missing = None if missing is None or not missing[keep].any() else missing[keep]
    return Examples.from_texts(
        config.name,
        request.split,
        kind=kind,
        texts=texts,
        targets=targets,
        fingerprint=fingerprint_of(kind, _blanked(texts, missing), targets if scores is None else scores),
        num_dropped=len(faults),
        lines=table.lines[keep],
        num_classes=1 + max(config.labels.values()) if config.labels else 0,
        teacher_scores=scores,
        missing=missing,
    )


def _with_missing(
    texts: dict[str, Sequence[Any]], scores: dict[str, Sequence[Any]]
) -> tuple[dict[str, Sequence[Any]], dict[str, Sequence[Any]], np.ndarray | None]:
    """Triplets with different numbers of negatives, and their empty places, as `Examples.missing`.

    Negatives move up, and the row's positive fills the empty places. A row without any negative, and a score without
    its text, stay: they are faults.
    """
    _, positive, *negatives = texts
    is_absent = np.array([[_is_absent(value) for value in texts[name]] for name in negatives]).T
    if scores:
        names = [TEACHER_SCORE.format(field) for field in negatives]
        is_absent &= np.array([[_is_absent(value) for value in scores[name]] for name in names]).T
    is_absent &= ~is_absent.all(axis=1, keepdims=True)
    if not is_absent.any():
        return texts, scores, None
    order = is_absent.argsort(axis=1, kind="stable")
    missing = np.pad(np.take_along_axis(is_absent, order, axis=1), ((0, 0), (1, 0)))

    def moved_up(columns: dict[str, Sequence[Any]], filler: str, names: Sequence[str]) -> None:
        cells = [columns[name] for name in names]
        for place, name in enumerate(names, 1):
            columns[name] = [
                columns[filler][row] if missing[row, place] else cells[order[row, place - 1]][row]
                for row in range(len(order))
            ]

    texts, scores = {**texts}, {**scores}
    moved_up(texts, positive, negatives)
    if scores:
        moved_up(scores, TEACHER_SCORE.format(positive), names)
    return texts, scores, missing


def _is_absent(value: object) -> bool:
    return value is None or value != value or (isinstance(value, str) and not value.strip())


def _blanked(texts: dict[str, list[str]], missing: np.ndarray | None) -> dict[str, list[str]]:
    """Replace texts that only fill empty places by ""."""
    if missing is None:
        return texts
    anchor, *documents = texts
    return {anchor: texts[anchor]} | {
        field: ["" if lacks else text for text, lacks in zip(texts[field], missing[:, place], strict=True)]
        for place, field in enumerate(documents)
    }


def fingerprint_of(kind: Kind, texts: dict[str, list[str]], targets: np.ndarray | None) -> str:
    """Return a hex digest (128 bit BLAKE2b) of kind, texts and targets in order, whatever the file format.

    Args:
        kind: Kind of the rows.
        texts: Field → texts of all rows.
        targets: Compared as float32. None: rows without a gold value.

    Returns:
        32 hex digits.
    """
    digest = hashlib.blake2b(kind.encode(), digest_size=16)
    for field, values in texts.items():
        digest.update(f"\n{field}\n".encode())
        digest.update("\0".join(values).encode())
    if targets is not None:
        digest.update(targets.astype("<f4").tobytes())
    return digest.hexdigest()


def _text_fields(kind: Kind, columns: Mapping[str, Any], key: str) -> list[str]:
    """Text fields that the column map fills, in order. Raises UserError for a missing or an unknown field."""
    required = [*TEXT_COLUMNS[kind], *([TARGET_COLUMN[kind]] if kind in TARGET_COLUMN else [])]
    negatives = [field for field in columns if kind is Kind.TRIPLET and field.startswith("negative_")]
    scores = [TEACHER_SCORE.format(field) for field in ("positive", "negative", *negatives)]
    if kind is Kind.TRIPLET and any(field in columns for field in scores):
        required += scores  # a teacher scores all documents of a row, or none
    require_fields(columns, required, negatives, kind, key)
    return [*TEXT_COLUMNS[kind], *sorted(negatives, key=lambda field: (len(field), field))]


def require_fields(
    columns: Mapping[str, Any], required: Sequence[str], optional: Sequence[str], kind: str, key: str
) -> None:
    """Check that a column map fills the fields of a kind.

    Args:
        columns: Field → column. None counts as missing.
        required: Fields that rows of this kind have.
        optional: Fields that they may have.
        kind: Name of the kind for the message.
        key: Key of the set for the message.

    Raises:
        UserError: A field is missing, or the kind has no such field.
    """
    if missing := [field for field in required if columns.get(field) is None]:
        raise UserError(f"{key}: a {kind} needs a column for {missing[0]}, `columns` gives none")
    for field in columns:
        if field not in (*required, *optional):
            raise UserError(
                f"{key}: `columns` names the field {field}, which a {kind} does not have. "
                f"{nearest(field, (*required, *optional))}"
            )


def raw_values(table: FileTable, field: str, column: str | int, key: str) -> Sequence[Any]:
    """Return the values of one column, by name or index.

    Args:
        table: Cells of a file.
        field: Field of a row, for messages.
        column: Name, or place from 0.
        key: Key of the set for messages.

    Returns:
        Cells in the order of the rows.

    Raises:
        UserError: The table has no such column, or two of this name.
    """
    names = table.names
    header = f"The columns found are {listed(names)}" if names else "The file has no header line"
    if isinstance(column, int):
        if not 0 <= column < len(table.columns):
            raise UserError(
                f"{table.place}: {field} is read from column {column} (counted from 0), but there are "
                f"only {counted(len(table.columns), 'columns')}. {header}. Fix `columns` in the layout of {key}"
            )
        position = column
    elif names and column in names:
        position = _place_in(names, column, table.place)
    else:
        raise UserError(
            f"{table.place}: no column {column} for {field}. {header}{_hint(column, names or (), key)}"
        )
    values = table.columns[position]
    return values.to_pylist() if hasattr(values, "to_pylist") else values


def _hint(column: str, names: Sequence[str], key: str) -> str:
    """Remedy for a missing column, as the end of a sentence."""
    if f'"{column}"' in names:
        return f". The fields are in quotes: write `quoted: true` into the layout of {key}"
    sign = next((sign for sign in ",;|\t" if len(names) == 1 and column in names[0].split(sign)), None)
    if sign:
        kind = {",": ".csv", "\t": ".tsv"}.get(sign, ".tsv or .csv, and put tabs or commas there")
        return f". They are divided by {sign!r}: give the file a name that ends with {kind}"
    hint = nearest(column, names)
    meant = f" {hint}" if hint.startswith("Did you mean") else ""
    return f".{meant} Choose another {key}.layout, or fix `columns` in it"


def listed(names: Sequence[str]) -> str:
    """List column names for a message, shortened.

    Args:
        names: Any number of names.

    Returns:
        Names with commas between them, at most MOST_NAMES, and the number of the others.
    """
    ending = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    return short(", ".join(names[:MOST_NAMES]), 300) + ending


def _place_in(names: Sequence[str], column: str, origin: str) -> int:
    """Return the index of a column.

    Args:
        names: Header of the table.
        column: One of them.
        origin: Name of the table for the message.

    Raises:
        UserError: The header has its name twice.
    """
    positions = [number for number, name in enumerate(names) if name == column]
    if len(positions) > 1:
        raise UserError(
            f"{origin}: the header has the column {short(column)} {len(positions)} times, and it is not clear which is "
            f"meant. Name it by its place, from 0: {' or '.join(map(str, positions))}"
        )
    return positions[0]


def _stripped(
    values: Sequence[Any], field: str, table: FileTable, keep: np.ndarray, faults: dict[int, str]
) -> list[str]:
    """The texts without surrounding white space. Values that are not texts are added to `faults`."""
    try:
        values = list(map(str.strip, values))
        if all(_are_sound(values[start : start + PORTION]) for start in range(0, len(values), PORTION)):
            return values
    except (TypeError, UnicodeEncodeError):
        pass
    for row, value in enumerate(values):
        if keep[row] and (fault := text_fault(value)):
            faults.setdefault(int(table.lines[row]), f"{field} {fault}")
    return [value.strip() if isinstance(value, str) else "" for value in values]


def _are_sound(texts: Sequence[str]) -> bool:
    """True if none of these texts without surrounding white space has a fault. Raises UnicodeEncodeError."""
    joined = "".join(texts)
    joined.encode()  # a lone surrogate, which JSON can spell, would fail much later
    return "" not in texts and "\0" not in joined and not any(map(is_unseen, {text[0] for text in texts}))


def refuse_faults(table: FileTable, faults: dict[int, str], on_bad_row: str) -> None:
    """Refuse the first faulty line, unless such lines are left out.

    Args:
        table: Names the file.
        faults: Line → fault.
        on_bad_row: `error` or `drop`.

    Raises:
        UserError: There is a fault, and `on_bad_row` is `error`.
    """
    if not faults or on_bad_row != "error":
        return
    first, num_others = min(faults), len(faults) - 1
    ending = f" {counted(num_others, 'more rows are faulty', 'more row is faulty')}." if num_others else ""
    raise UserError(
        f"{table.at(first)}: {faults[first]}.{ending} Fix the row, or choose on_bad_row=drop to leave such "
        f"rows out and count them"
    )


def _check_count(
    table: FileTable, rows_key: str, num_rows: int, num_dropped: int, promised: int | None
) -> None:
    """Raises UserError if no row is left, or if their number is not the promised one."""
    dropped = f", {num_dropped} of them faulty" if num_dropped else ""
    if not num_rows:
        raise UserError(
            f"{table.place}: no rows are left ({num_rows + num_dropped} were read{dropped}). Give another file, or "
            "other `ignore_labels`"
        )
    if promised is not None and num_rows + num_dropped != promised:
        raise UserError(
            f"{table.place}: {counted(num_rows + num_dropped, 'rows')}{dropped}, but {rows_key} promises {promised}. "
            f"Is the file complete? If this is another release, type {rows_key}=null"
        )


NUM_CLASSES = {Kind.LABELLED_PAIR: 2, Kind.NLI_PAIR: len(NLI_CLASSES)}


def read_targets(
    gold: Sequence[object], table: FileTable, config: DatasetConfig, *, key: str, faults: dict[int, str]
) -> tuple[np.ndarray, np.ndarray]:
    """Read the gold values of rows.

    Scores are mapped from score_range to [0, 1], labels to class indices, and gains below 0 to 0.

    Args:
        gold: One value for each row.
        table: Names the lines of the rows.
        config: Its kind, labels and score_range.
        key: Key of the set for messages.
        faults: Gets line → fault for other values.

    Returns:
        Targets, float32 (rows,), and False for rows with an ignored label, bool (rows,).

    Raises:
        UserError: Labels or a score_range that do not fit the gold values.
    """
    target_of = _target_of(config, Kind(config.kind), key)
    spelt = [value if isinstance(value, str) else _word(value) for value in gold]
    target_by_word = {word: target_of(word.strip()) for word in set(spelt)}
    wrong = {word: target for word, target in target_by_word.items() if isinstance(target, str)}
    if wrong:
        for row, word in enumerate(spelt):
            if word in wrong:
                faults.setdefault(int(table.lines[row]), wrong[word])
    numbers = {
        word: math.nan if target is None or word in wrong else target
        for word, target in target_by_word.items()
    }
    targets = np.fromiter(map(numbers.__getitem__, spelt), dtype=np.float32, count=len(spelt))
    ignored = {word for word, target in target_by_word.items() if target is None}
    keep = np.fromiter((word not in ignored for word in spelt), dtype=bool, count=len(spelt))
    return targets, keep


def read_teacher_scores(
    columns: Mapping[str, Sequence[object]], table: FileTable, *, faults: dict[int, str]
) -> np.ndarray:
    """Read the scores of a teacher.

    Args:
        columns: Field → one value for each row, a field for each document.
        table: Names the lines of the rows.
        faults: Gets line → fault for values that are not finite numbers.

    Returns:
        float32 (rows, documents).
    """
    scores = np.empty((len(table.lines), len(columns)), dtype=np.float32)
    for origin, (field, values) in enumerate(columns.items()):
        for row, value in enumerate(values):
            scores[row, origin] = number_or_nan(_word(value))
            if not np.isfinite(scores[row, origin]):
                wrong = f"{field} is {short(_word(value))!r}, expected a finite number"
                faults.setdefault(int(table.lines[row]), wrong)
    return scores


def _word(value: object) -> str:
    """A gold value of a typed file as a text file would spell it: the number 1.0 is the label 1."""
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _target_of(config: DatasetConfig, kind: Kind, key: str) -> Callable[[str], float | str | None]:
    """A function: gold word → target, None for an ignored label, or a text with its fault."""
    ignored = frozenset(config.ignore_labels or ())
    if kind in JUDGED:
        return _gain
    if TARGET_COLUMN[kind] == "score":
        scores = config.score_range or []
        if len(scores) != 2 or not scores[0] < scores[1]:
            raise UserError(f"{key}.score_range: expected the lowest and highest score, such as [0,5]")
        low, high = scores
        return lambda word: None if word in ignored else _scaled(word, low, high)
    labels = dict(config.labels or {})
    limit = NUM_CLASSES.get(kind)
    if not labels or min(labels.values()) < 0 or (limit and max(labels.values()) >= limit):
        classes = f"0 to {limit - 1}" if limit else "0 and up"
        raise UserError(f"{key}.labels: expected every gold label with its class number, {classes}")

    def target_of(word: str) -> float | str | None:
        if word in ignored:
            return None
        if word in labels:
            return float(labels[word])
        return f"the label is {short(word)!r}. {nearest(word, labels)}" if word else "the label is missing"

    return target_of


def _gain(word: str) -> float | str:
    """The gain of a document. Official judgements of some sets have −1 or −2 for no gain at all."""
    gain = number_or_nan(word)
    if not math.isfinite(gain):
        return f"the gain is {short(word)!r}, not a finite number" if word else "the gain is missing"
    return max(gain, 0.0)


def _scaled(word: str, low: float, high: float) -> float | str:
    """The score mapped from [low, high] to [0, 1], or a text with its fault."""
    try:
        score = float(word)
    except ValueError:
        return f"the score is {short(word)!r}, not a number" if word else "the score is missing"
    if not low <= score <= high:
        return f"the score is {short(word)}, outside of score_range [{low:g}, {high:g}]"
    return (score - low) / (high - low)
