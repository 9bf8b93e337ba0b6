"""Gold values: the score or label of a row as a number."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from juzhen.core.errors import UserError, nearest
from juzhen.core.examples import JUDGED, NLI_CLASSES, Kind
from juzhen.core.numerals import as_number
from juzhen.core.texts import short
from juzhen.data.readers import Table
from juzhen.data.spec import DatasetConfig

NUM_CLASSES = {Kind.LABELLED_PAIR: 2, Kind.NLI_PAIR: len(NLI_CLASSES)}


def read_targets(
    gold: Sequence[object], table: Table, config: DatasetConfig, *, key: str, faults: dict[int, str]
) -> tuple[np.ndarray, np.ndarray]:
    """Targets float32 (rows,), and which rows stay, bool (rows,): those with an ignored label do not.

    Scores are mapped from score_range to [0, 1], labels to class numbers, gains below 0 to 0; what is none of these
    goes to `faults`.
    """
    target_of = _target_of(config, Kind(config.kind), key)
    words = [value if isinstance(value, str) else _word(value) for value in gold]
    known = {word: target_of(word.strip()) for word in set(words)}
    wrong = {word: target for word, target in known.items() if isinstance(target, str)}
    if wrong:
        for row, word in enumerate(words):
            if word in wrong:
                faults.setdefault(int(table.lines[row]), wrong[word])
    numbers = {
        word: math.nan if target is None or word in wrong else target for word, target in known.items()
    }
    targets = np.fromiter(map(numbers.__getitem__, words), dtype=np.float32, count=len(words))
    ignored = {word for word, target in known.items() if target is None}
    keep = np.fromiter((word not in ignored for word in words), dtype=bool, count=len(words))
    return targets, keep


def read_teacher_scores(
    columns: Mapping[str, Sequence[object]], table: Table, *, faults: dict[int, str]
) -> np.ndarray:
    """Scores float32 (rows, documents), one column each; what is no finite number goes to `faults`."""
    scores = np.empty((len(table.lines), len(columns)), dtype=np.float32)
    for place, (field, values) in enumerate(columns.items()):
        for row, value in enumerate(values):
            try:
                scores[row, place] = as_number(_word(value))
            except ValueError:
                scores[row, place] = math.nan
            if not np.isfinite(scores[row, place]):
                wrong = f"{field} is {short(_word(value))!r}, expected a finite number"
                faults.setdefault(int(table.lines[row]), wrong)
    return scores


def _word(value: object) -> str:
    """A gold value of a typed file as a text file would spell it: the number 1.0 is the label 1."""
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _target_of(config: DatasetConfig, kind: Kind, key: str) -> Callable[[str], float | str | None]:
    """A function: gold word → target, None for an ignored label, or a text saying what is wrong with it."""
    ignored = frozenset(config.ignore_labels or ())
    if kind in JUDGED:
        return _gain
    if kind is Kind.SCORED_PAIR:
        if not config.score_range or not config.score_range[0] < config.score_range[1]:
            raise UserError(f"{key}.score_range: expected the lowest and highest score, such as [0,5]")
        low, high = config.score_range
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
        return f"the label is {short(word)!r}, {nearest(word, labels)}" if word else "the label is missing"

    return target_of


def _gain(word: str) -> float | str:
    """How well a document answers; the official judgements of some sets have −1 or −2 where it does not at all."""
    try:
        gain = as_number(word)
    except ValueError:
        gain = math.nan
    if not math.isfinite(gain):
        return f"the gain is {short(word)!r}, not a finite number" if word else "the gain is missing"
    return max(gain, 0.0)


def _scaled(word: str, low: float, high: float) -> float | str:
    """The score mapped from [low, high] to [0, 1], or what is wrong with it."""
    try:
        score = as_number(word)
    except ValueError:
        foreign = "" if word.isascii() else " in ASCII digits"
        return f"the score is {short(word)!r}, not a number{foreign}" if word else "the score is missing"
    if not low <= score <= high:
        return f"the score is {short(word)}, outside of score_range [{low:g}, {high:g}]"
    return (score - low) / (high - low)
