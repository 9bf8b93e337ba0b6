"""What an encoder leaves out of texts, and does not know: counted while it works, and one warning per call."""

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from juzhen.core.errors import UserError
from juzhen.core.texts import short
from juzhen.core.unknown import Readings, UnknownWarning

PACKAGE = str(Path(__file__).resolve().parents[1])

STRICT = "strict=True refuses them."
ELSEWHERE = "Shorten them, or take an encoder that reads more."


class TruncationWarning(UserWarning):
    """Embeddings or scores are of the beginnings of texts, or of the first dimensions of an encoder."""


class Truncations:
    """What a call has left out, and what it has read.

    strict  it raises instead of counting what is left out
    weights  how often each text was given, where equal texts are encoded once
    readings  what each tokenizer has read, by its `id`
    """

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict
        self.weights: Counter[str] = Counter()
        self.counts: dict[tuple[str, int], list[int]] = {}
        self.notes: dict[str, None] = {}
        self.readings: dict[int, Readings] = {}

    def count(
        self, truncated: Sequence[Any], texts: Sequence[Any], *, max_length: int, unit: str = "texts"
    ) -> None:
        """Add texts, or pairs, of which some are truncated.

        Raises:
            UserError: Some are truncated, and the call is strict.
        """
        if truncated and self.strict:
            raise UserError(
                f"{unit[:-1]}={short(repr(truncated[0]))}: longer than {max_length:,} tokens ({len(truncated):,} of "
                f"{len(texts):,} {unit}). Shorten it, or leave strict=True out."
            )
        weighed = [
            sum(self.weights.get(text, 1) for text in part) if self.weights else len(part)
            for part in (truncated, texts)
        ]
        self.add(unit, max_length, *weighed)

    def add(self, unit: str, max_length: int, truncated: int, total: int) -> None:
        """Add counts of texts or pairs."""
        counts = self.counts.setdefault((unit, max_length), [0, 0])
        counts[0] += truncated
        counts[1] += total

    def read(
        self,
        tokenizer: Any,
        texts: Sequence[str],
        is_unknown: Any,
        codes: Any,
        characters: Callable[[Sequence[str]], Counter[str]],
    ) -> None:
        """Add texts that a tokenizer has read.

        Args:
            tokenizer: Of which encoder they are told.
            texts, is_unknown, codes: As of `Readings.add`.
            characters: As of `Readings`. It keeps the tokenizer, so that no other one gets its `id`.
        """
        readings = self.readings.setdefault(id(tokenizer), Readings(characters))
        readings.add(texts, is_unknown, codes, self.weights)

    def note(self, line: str) -> None:
        """Add what else a user must know.

        Raises:
            UserError: The call is strict.
        """
        if self.strict:
            raise UserError(line)
        self.notes[line] = None

    def line(self, advice: str) -> str:
        """What was left out, in sentences; "" where nothing was.

        Args:
            advice: What can be done about truncated texts.
        """
        told = []
        for (unit, max_length), (count, total) in self.counts.items():
            now, then = ("is", "was") if count == 1 else ("are", "were")
            if count:
                told.append(
                    f"{count:,} of {total:,} {unit} {now} longer than {max_length:,} tokens and {then} truncated."
                )
        return " ".join([*told, *([advice] if told else []), *self.notes])

    def unknown_lines(self) -> list[str]:
        """What each encoder does not know; none where it knows all."""
        return [line for readings in self.readings.values() if (line := readings.counted().line())]

    def show(self, advice: str = ELSEWHERE) -> None:
        """Print these lines on stderr, as programs do."""
        for line in filter(None, [self.line(advice), *self.unknown_lines()]):
            print(f"warning: {line}", file=sys.stderr)

    def merge(self, other: "Truncations") -> None:
        for key, counts in other.counts.items():
            self.add(*key, *counts)
        self.notes |= other.notes
        for number, readings in other.readings.items():
            if number in self.readings:
                self.readings[number].merge(readings)
            else:
                self.readings[number] = readings


_current: ContextVar[Truncations | None] = ContextVar("truncations", default=None)


def current() -> Truncations | None:
    """What the call at work counts in; None: nobody asks."""
    return _current.get()


@contextmanager
def collected(*, strict: bool = False) -> Iterator[Truncations]:
    """Count what is left out and not known inside, and leave it to the caller to say so."""
    seen = Truncations(strict=strict)
    token = _current.set(seen)
    try:
        yield seen
    finally:
        _current.reset(token)


@contextmanager
def reported(*, strict: bool = False, advice: str = ELSEWHERE) -> Iterator[Truncations]:
    """Count what is left out and not known inside; the outermost of such calls warns.

    Args:
        strict: Raise UserError for what is left out instead.
        advice: What can be done about truncated texts.
    """
    outer = current()
    with collected(strict=strict) as seen:
        yield seen
    if outer is not None:
        outer.merge(seen)
        return
    if line := seen.line(advice):
        warnings.warn(line, TruncationWarning, stacklevel=_caller())
    for line in seen.unknown_lines():
        warnings.warn(line, UnknownWarning, stacklevel=_caller())


def _caller() -> int:
    """The level of the first frame outside of the library, where Python shows a line once."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith(PACKAGE)
        or frame.f_globals.get("__name__") in ("contextlib", "torch.utils._contextlib")
    ):
        frame, level = frame.f_back, level + 1
    return level
