"""What is left out of texts: counted while an encoder works, and one warning per call."""

import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from juzhen.core.errors import UserError
from juzhen.core.texts import short

PACKAGE = str(Path(__file__).resolve().parents[1])

STRICT = "strict=True refuses them."
ELSEWHERE = "Shorten them, or take an encoder that reads more."


class TruncationWarning(UserWarning):
    """Embeddings or scores are of the beginnings of texts, or of the first dimensions of an encoder."""


class Truncations:
    """What a call has left out.

    strict  it raises instead of counting
    weights  how often each text was given, where equal texts are encoded once
    """

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict
        self.weights: Counter[str] = Counter()
        self.counts: dict[tuple[str, int], list[int]] = {}
        self.notes: dict[str, None] = {}

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

    def show(self, advice: str = ELSEWHERE) -> None:
        """Print that line on stderr, as programs do."""
        if line := self.line(advice):
            print(f"warning: {line}", file=sys.stderr)

    def merge(self, other: "Truncations") -> None:
        for key, counts in other.counts.items():
            self.add(*key, *counts)
        self.notes |= other.notes


_current: ContextVar[Truncations | None] = ContextVar("truncations", default=None)


def current() -> Truncations | None:
    """What the call at work counts in; None: nobody asks."""
    return _current.get()


@contextmanager
def collected(*, strict: bool = False) -> Iterator[Truncations]:
    """Count what is left out inside, and leave it to the caller to say so."""
    seen = Truncations(strict=strict)
    token = _current.set(seen)
    try:
        yield seen
    finally:
        _current.reset(token)


@contextmanager
def reported(*, strict: bool = False, advice: str = ELSEWHERE) -> Iterator[Truncations]:
    """Count what is left out inside; the outermost of such calls warns.

    Args:
        strict: Raise UserError instead.
        advice: What can be done about truncated texts.
    """
    outer = current()
    with collected(strict=strict) as seen:
        yield seen
    if outer is not None:
        outer.merge(seen)
    elif line := seen.line(advice):
        warnings.warn(line, TruncationWarning, stacklevel=_caller())


def _caller() -> int:
    """The level of the first frame outside of the library, where Python shows a line once."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith(PACKAGE)
        or frame.f_globals.get("__name__") in ("contextlib", "torch.utils._contextlib")
    ):
        frame, level = frame.f_back, level + 1
    return level
