"""From columns to Examples: every row is checked before it may enter."""

import hashlib
import math
from collections.abc import Callable, Sequence

import numpy as np

from datamodules.readers import Table
from schema.config import DatasetConfig
from schema.errors import UserError, nearest
from schema.examples import NLI_CLASSES, TARGET_COLUMN, TEXT_COLUMNS, Examples, Kind

NUM_CLASSES = {Kind.LABELLED_PAIR: 2, Kind.NLI_PAIR: len(NLI_CLASSES)}


def verified(
    table: Table, config: DatasetConfig, split: str, *, columns: dict, promised: int | None, on_bad_row: str
) -> Examples:
    """The rows of `table` as Examples, or a UserError that names the first faulty line.

    columns     field of the example → column name or 0-based position
    promised    rows expected after those with an ignored label are left out; None: any number
    on_bad_row  "error", or "drop": faulty rows are left out and counted
    """
    kind = Kind(config.kind)
    fields = _text_fields(config, kind, columns)
    faults = dict(table.faults)
    texts = {field: _raw(table, config, field, columns[field]) for field in fields}
    keep, targets = np.ones(len(table.lines), dtype=bool), None
    if kind in TARGET_COLUMN:
        gold = _raw(table, config, TARGET_COLUMN[kind], columns.get(TARGET_COLUMN[kind]))
        targets, keep = _targets(gold, _target_of(config, kind), table, faults)
    for field in fields:
        texts[field] = _stripped(texts[field], field, table, keep, faults)
    if faults and on_bad_row == "error":
        _raise_first(table, faults)
    if faults:
        keep &= ~np.isin(table.lines, list(faults))
    num_rows = int(keep.sum())
    _check_count(table, config, split, num_rows, len(faults), promised)
    if num_rows < len(keep):
        rows = np.flatnonzero(keep).tolist()
        texts = {field: [values[row] for row in rows] for field, values in texts.items()}
        targets = None if targets is None else targets[keep]
    return Examples.from_texts(
        config.name,
        split,
        kind=kind,
        texts=texts,
        targets=targets,
        fingerprint=fingerprint_of(kind, texts, targets),
        num_dropped=len(faults),
        lines=table.lines[keep],
        num_classes=1 + max(config.labels.values()) if config.labels else 0,
    )


def fingerprint_of(kind: Kind, texts: dict[str, list[str]], targets: np.ndarray | None) -> str:
    """Hex digest (128 bit BLAKE2b) of kind, texts and targets in order; the file format leaves no trace."""
    digest = hashlib.blake2b(kind.encode(), digest_size=16)
    for field, values in texts.items():
        digest.update(f"\n{field}\n".encode())
        digest.update("\0".join(values).encode())
    if targets is not None:
        digest.update(targets.astype("<f4").tobytes())
    return digest.hexdigest()


def _text_fields(config: DatasetConfig, kind: Kind, columns: dict) -> list[str]:
    """Text fields that the column map fills, in order. Raises UserError for a field too few or too many."""
    required = [*TEXT_COLUMNS[kind], *([TARGET_COLUMN[kind]] if kind in TARGET_COLUMN else [])]
    negatives = [field for field in columns if kind is Kind.TRIPLET and field.startswith("negative_")]
    for field in required:
        if columns.get(field) is None:
            raise UserError(
                f"dataset.{config.name}: a {kind} needs a column for {field}, `columns` gives none"
            )
    for field in columns:
        if field not in (*required, *negatives):
            raise UserError(
                f"dataset.{config.name}: `columns` names the field {field}, which a {kind} does not have; "
                f"{nearest(field, required)}"
            )
    return [*TEXT_COLUMNS[kind], *sorted(negatives, key=lambda field: (len(field), field))]


def _raw(table: Table, config: DatasetConfig, field: str, column: str | int) -> Sequence:
    """The values of one column, by name or position."""
    names = table.names
    found = (
        f"the columns found are {', '.join(names)}" if names else "it has no header line that names columns"
    )
    if isinstance(column, int):
        if not 0 <= column < len(table.columns):
            raise UserError(
                f"{table.place}: {field} is read from column {column} (counted from 0), but there are "
                f"only {len(table.columns)} columns; {found}. Mend `columns` in the layout of "
                f"dataset.{config.name}"
            )
        position = column
    elif names and column in names:
        position = names.index(column)
    else:
        hint = f"; {nearest(column, names)}" if names else ""
        raise UserError(
            f"{table.place}: no column {column}, from which {field} is read; {found}{hint}. "
            f"Choose another dataset.{config.name}.layout, or mend `columns` in it"
        )
    values = table.columns[position]
    return values.to_pylist() if hasattr(values, "to_pylist") else values


def _stripped(
    values: Sequence, field: str, table: Table, keep: np.ndarray, faults: dict[int, str]
) -> list[str]:
    """The texts without surrounding whitespace; those that are no text are noted in `faults`."""
    try:
        values = list(map(str.strip, values))
        "".join(values).encode()  # half a surrogate pair, which JSON can spell, would fail much later
        if "" not in values:
            return values
    except (TypeError, UnicodeEncodeError):
        pass
    for row, value in enumerate(values):
        if keep[row] and (fault := _text_fault(value)):
            faults.setdefault(int(table.lines[row]), f"{field} {fault}")
    return [value.strip() if isinstance(value, str) else "" for value in values]


def _text_fault(value: object) -> str | None:
    if value is None:
        return "is missing"
    if not isinstance(value, str):
        return f"is {value!r}, not a text"
    if any("\ud800" <= character <= "\udfff" for character in value):
        return "holds half a surrogate pair, which is no character"
    return None if value.strip() else "is empty"


def _targets(
    gold: Sequence, target_of: Callable[[str], float | str | None], table: Table, faults: dict[int, str]
) -> tuple[np.ndarray, np.ndarray]:
    """Targets float32 (rows,), and which rows stay: those with an ignored label (None) do not."""
    words = gold if all(isinstance(value, str) for value in gold) else [_word(value) for value in gold]
    known = {word: target_of(word.strip()) for word in set(words)}
    wrong = {word for word, target in known.items() if isinstance(target, str)}
    if wrong:
        for row in (row for row, word in enumerate(words) if word in wrong):
            faults.setdefault(int(table.lines[row]), known[words[row]])
    numbers = {
        word: math.nan if target is None or word in wrong else target for word, target in known.items()
    }
    targets = np.fromiter(map(numbers.__getitem__, words), dtype=np.float32, count=len(words))
    ignored = {word for word, target in known.items() if target is None}
    keep = np.fromiter((word not in ignored for word in words), dtype=bool, count=len(words))
    return targets, keep


def _word(value: object) -> str:
    """A gold value of a typed file as a text file would spell it: the number 1.0 is the label 1."""
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _target_of(config: DatasetConfig, kind: Kind) -> Callable[[str], float | str | None]:
    """A function: gold word → target, None for an ignored label, or a text saying what is wrong with it."""
    ignored = frozenset(config.ignore_labels or ())
    if kind is Kind.SCORED_PAIR:
        if not config.score_range or not config.score_range[0] < config.score_range[1]:
            raise UserError(
                f"dataset.{config.name}.score_range: expected the lowest and highest score, such as [0,5]"
            )
        low, high = config.score_range
        return lambda word: None if word in ignored else _scaled(word, low, high)
    labels = dict(config.labels or {})
    limit = NUM_CLASSES.get(kind)
    if not labels or min(labels.values()) < 0 or (limit and max(labels.values()) >= limit):
        classes = f"0 to {limit - 1}" if limit else "0 and up"
        raise UserError(
            f"dataset.{config.name}.labels: expected every gold label with its class number, {classes}"
        )

    def target_of(word: str) -> float | str | None:
        if word in ignored:
            return None
        if word in labels:
            return float(labels[word])
        return f"the label is {word!r}, {nearest(word, labels)}" if word else "the label is missing"

    return target_of


def _scaled(word: str, low: float, high: float) -> float | str:
    """The score mapped from [low, high] to [0, 1], or what is wrong with it."""
    try:
        score = float(word.replace("_", "?"))  # Python reads 1_0 as ten
    except ValueError:
        return f"the score is {word!r}, not a number" if word else "the score is missing"
    if not low <= score <= high:
        return f"the score is {word}, outside of score_range [{low:g}, {high:g}]"
    return (score - low) / (high - low)


def _raise_first(table: Table, faults: dict[int, str]) -> None:
    first = min(faults)
    more = f" {len(faults) - 1} more rows are faulty." if len(faults) > 2 else ""
    more = " One more row is faulty." if len(faults) == 2 else more
    raise UserError(
        f"{table.at(first)}: {faults[first]}.{more} Mend the file, or type on_bad_row=drop to leave such "
        f"rows out and count them"
    )


def _check_count(
    table: Table, config: DatasetConfig, split: str, num_rows: int, num_dropped: int, promised: int | None
) -> None:
    """Raises UserError when nothing is left, or when another number of rows was read than promised."""
    dropped = f", {num_dropped} of them faulty" if num_dropped else ""
    if not num_rows:
        raise UserError(f"{table.place}: no rows are left ({num_rows + num_dropped} were read{dropped})")
    if promised is not None and num_rows + num_dropped != promised:
        raise UserError(
            f"{table.place}: {num_rows + num_dropped} rows{dropped}, but {config.name}/{split} promises "
            f"{promised}; is the file complete? If this is another release, type "
            f"dataset.{config.name}.rows.{split}=null"
        )
