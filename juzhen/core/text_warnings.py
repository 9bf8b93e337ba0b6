"""Warnings about the texts of a call: truncated ones, unknown characters, and different texts with equal tokens."""

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from juzhen.core.errors import UserError
from juzhen.core.text import counted, fold, short

if TYPE_CHECKING:
    import numpy as np


NAMED = 5
"""Characters that a warning lists."""

SAMPLED = 20
"""Texts that are tokenised once more to find these characters."""


KEPT = 100_000
"""Texts of a call that are kept to be compared, about 11 MB of short ones. An index may have millions."""


class UnknownWarning(UserWarning):
    """Warning about unknown characters, or about different texts with equal tokens."""


@dataclass(frozen=True)
class Unknown:
    """Counts of unknown characters in some texts.

    Args:
        looked_at: Number of texts that were examined.
        texts: Number of texts with an unknown token.
        pairs: Pairs of different texts with equal token ids, see `equal_pairs`.
        characters: Some of the unknown characters.
        compared: Number of texts, the first ones, that were compared for pairs. None: all.
    """

    looked_at: int
    texts: int
    pairs: int
    characters: tuple[str, ...] = ()
    compared: int | None = None

    @property
    def share(self) -> float:
        return self.texts / self.looked_at if self.looked_at else 0.0

    def facts(self) -> dict[str, Any]:
        """Return the counts for a result.

        Returns:
            `looked_at`, `texts`, `pairs`, and `share` from 0 to 1.
        """
        counts = {name: getattr(self, name) for name in ("looked_at", "texts", "pairs")}
        return counts | {"share": round(self.share, 6)}

    def line(self, encoder: str = "this encoder") -> str:
        """Return the counts in a sentence. "" if every character is known, and all texts differ.

        Args:
            encoder: Words for the encoder.

        Returns:
            A sentence with its full stop.
        """
        parts = []
        if self.texts:
            holds = "holds" if self.texts == 1 else "hold"
            named = " ".join([*self.characters[:NAMED], *(["…"] if self.characters[NAMED:] else [])])
            parts.append(
                f"{self.texts:,} of {self.looked_at:,} texts {holds} characters that {encoder} does not know"
                + f": {named}" * bool(named)
            )
        if self.pairs:
            pairs = counted(self.pairs, "pairs of different texts have", "pair of different texts has")
            among = "" if self.compared is None else f", among the first {self.compared:,}"
            parts.append(f"{pairs} equal tokens for {encoder}{among}")
        return "; ".join(parts) + "." * bool(parts)


def added(counts: Sequence[Unknown]) -> Unknown:
    """Add several counts.

    Args:
        counts: Counts of disjoint texts.

    Returns:
        Their sums, with each character once.
    """
    looked_at, texts, pairs = (
        sum(getattr(one, name) for one in counts) for name in ("looked_at", "texts", "pairs")
    )
    found = dict.fromkeys(character for one in counts for character in one.characters)
    return Unknown(looked_at, texts, pairs, tuple(found))


def equal_pairs(texts: Sequence[str], codes: "np.ndarray") -> int:
    """Count the pairs of different texts with equal codes.

    Two texts are different if they differ after `juzhen.core.text.fold`: an encoder may treat full-width signs, letters
    of both cases and both scripts alike. White space at the ends of a text and repeated white space make no difference
    either. Texts of code 0 are left out.

    Args:
        texts: Equal texts count once.
        codes: uint64 of each text, equal if its token ids are.

    Returns:
        Number of pairs. n different texts with equal codes are n · (n − 1) / 2 pairs.
    """
    import numpy as np

    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    is_equal = (ordered[1:] == ordered[:-1]) & (ordered[1:] != 0)
    # Most texts are equal to no other: a group begins where a text equals the next one, and not the one before.
    ends = np.diff(np.concatenate([[False], is_equal, [False]]).astype(np.int8))
    pairs = 0
    for first, last in zip(np.flatnonzero(ends == 1), np.flatnonzero(ends == -1), strict=True):
        group = {texts[row] for row in order[first : last + 1].tolist()}
        forms = {" ".join(fold(text).split()) for text in group}
        pairs += len(forms) * (len(forms) - 1) // 2
    return pairs


def number_in(model: Mapping[str, Any]) -> int | None:
    """Return the id of the unknown token of the model in a `tokenizer.json`, or None.

    Args:
        model: Its part `model`. A tokenizer without `unk_id` names the token in `unk_token`.

    Returns:
        The id, or None.
    """
    number = model.get("unk_id")
    if number is None and (token := model.get("unk_token")) is not None:
        number = model["vocab"].get(token)
    return number


Encode = Callable[[Sequence[str]], Iterable[tuple[Sequence[int], Sequence[tuple[int, int]] | None]]]
"""Texts → for each its token ids without special tokens, and the span of each token. None: no spans."""


def unknown_characters(texts: Sequence[str], number: int | None, encode: Encode) -> Counter[str]:
    """Count the unknown characters of texts, the most frequent first.

    If a tokenizer knows each character of a piece, and not the piece, the piece is counted.

    Args:
        texts: They are tokenised once more.
        number: Id of the unknown token. None: the tokenizer knows everything.
        encode: The tokenizer.

    Returns:
        Character, or piece, → its number of occurrences.
    """
    pieces: list[str] = []
    for text, (ids, spans) in zip(texts, encode(texts), strict=True) if number is not None else ():
        if spans is None:
            pieces += text.split() if number in ids else []
        else:
            of_text = (
                text[first:end] for token, (first, end) in zip(ids, spans, strict=True) if token == number
            )
            pieces += filter(None, map(str.strip, of_text))
    single = [*dict.fromkeys(character for piece in pieces for character in piece)]
    unknown = {one for one, (ids, _) in zip(single, encode(single), strict=True) if number in ids}
    found: Counter[str] = Counter()
    for piece in pieces:
        found.update([character for character in piece if character in unknown] or [piece])
    return Counter(dict(found.most_common()))


class Readings:
    """Texts that one encoder reads in a call. All are counted, and the first KEPT are kept to be compared.

    Args:
        characters: Finds the unknown characters of texts, the most frequent first.
    """

    def __init__(self, characters: Callable[[Sequence[str]], Counter[str]]) -> None:
        self.characters = characters
        self.looked_at = self.unknown = self.read = 0
        self.texts: list[str] = []
        self.codes: list[np.ndarray] = []
        self.examples: list[str] = []

    def add(
        self,
        texts: Sequence[str],
        is_unknown: "np.ndarray",
        codes: "np.ndarray",
        weights: Mapping[str, int],
    ) -> None:
        """Add texts.

        Args:
            texts: In their order.
            is_unknown: True for texts with an unknown token.
            codes: As of `equal_pairs`.
            weights: Number of times that each text was given. Empty: as often as it comes.
        """
        unknown = [texts[row] for row in is_unknown.nonzero()[0].tolist()]
        looked_at, num_unknown = (
            sum(map(weights.__getitem__, part)) if weights else len(part) for part in (texts, unknown)
        )
        self._count(looked_at, num_unknown, len(texts), unknown)
        self._keep(texts, codes)

    def merge(self, other: "Readings") -> None:
        """Add the texts of another call with the same tokenizer.

        Args:
            other: Its readings, which stay as they are.
        """
        self._count(other.looked_at, other.unknown, other.read, other.examples)
        start = 0
        for codes in other.codes:
            self._keep(other.texts[start : start + len(codes)], codes)
            start += len(codes)

    def _count(self, looked_at: int, unknown: int, read: int, examples: Sequence[str]) -> None:
        self.looked_at += looked_at
        self.unknown += unknown
        self.read += read
        self.examples += examples[: SAMPLED - len(self.examples)]

    def _keep(self, texts: Sequence[str], codes: "np.ndarray") -> None:
        if (room := KEPT - len(self.texts)) > 0:
            self.texts += texts[:room]
            self.codes.append(codes[:room].copy())  # a view would keep the whole array alive

    def counted(self) -> Unknown:
        """Count the unknown characters of all readings.

        Returns:
            Counts of one encoder.
        """
        import numpy as np

        pairs = equal_pairs(self.texts, np.concatenate(self.codes)) if self.codes else 0
        found = tuple(self.characters(self.examples)) if self.examples else ()
        compared = len(self.texts) if len(self.texts) < self.read else None
        return Unknown(self.looked_at, self.unknown, pairs, found, compared)


PACKAGE = str(Path(__file__).resolve().parents[1])

STRICT = "strict=True refuses them."
ELSEWHERE = "Shorten them, or take an encoder that reads more."


class TruncationWarning(UserWarning):
    """Warning about embeddings or scores of truncated texts, or of the first dimensions of an encoder."""


class Truncations:
    """Counts of truncated and unknown texts of a call.

    Args:
        strict: Raise an error instead of counting truncated texts.

    Attributes:
        weights: Number of times that each text was given, because equal texts are encoded once.
        readings: Texts of each tokenizer, by its `id`.
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

        Args:
            truncated: Those of `texts` that are truncated.
            texts: All texts, or pairs, of a batch.
            max_length: Number of tokens that the encoder reads.
            unit: "texts" or "pairs".

        Raises:
            UserError: Some are truncated, and the call is strict.
        """
        if truncated and self.strict:
            raise UserError(
                f"{unit[:-1]}={short(repr(truncated[0]))}: longer than {max_length:,} tokens ({len(truncated):,} of "
                f"{len(texts):,} {unit}). Shorten it, or leave strict=True out."
            )
        weighed = [
            sum(map(self.weights.get, part, repeat(1))) if self.weights else len(part)
            for part in (truncated, texts)
        ]
        self.add(unit, max_length, *weighed)

    def add(self, unit: str, max_length: int, truncated: int, total: int) -> None:
        """Add counts of texts or pairs.

        Args:
            unit: "texts" or "pairs".
            max_length: Number of tokens that the encoder reads.
            truncated: Number of truncated ones.
            total: Number of all.
        """
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
            tokenizer: The tokenizer.
            texts, is_unknown, codes: As of `Readings.add`.
            characters: As of `Readings`. It keeps the tokenizer alive, so that no other one gets its `id`.
        """
        readings = self.readings.setdefault(id(tokenizer), Readings(characters))
        readings.add(texts, is_unknown, codes, self.weights)

    def note(self, line: str) -> None:
        """Add another note for the user.

        Args:
            line: A sentence. The same sentence is kept once.

        Raises:
            UserError: The call is strict.
        """
        if self.strict:
            raise UserError(line)
        self.notes[line] = None

    def line(self, advice: str) -> str:
        """Describe the truncated texts in sentences.

        Args:
            advice: Remedy for truncated texts.

        Returns:
            One line, with all notes at its end. "" without truncated texts and notes.
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
        """Describe the unknown characters of each encoder that has some.

        Returns:
            One line for each encoder. [] if all characters are known.
        """
        return [line for readings in self.readings.values() if (line := readings.counted().line())]

    def show(self, advice: str = ELSEWHERE) -> None:
        """Print these lines on stderr, as programs do.

        Args:
            advice: Last words of the line about truncated texts.
        """
        for line in filter(None, [self.line(advice), *self.unknown_lines()]):
            print(f"warning: {line}", file=sys.stderr)

    def merge(self, other: "Truncations") -> None:
        """Add the counts, notes and texts of another call.

        Args:
            other: Its counts. Texts of new tokenizers are shared with it.
        """
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
    """Return the counts of the running call, or None if nobody collects them.

    Returns:
        Counts of the innermost `reported`, or None.
    """
    return _current.get()


@contextmanager
def collected(*, strict: bool = False) -> Iterator[Truncations]:
    """Collect the counts of a block, and leave the warning to the caller.

    Args:
        strict: True raises UserError for a truncated text in the block.

    Yields:
        Counts that grow during the block.
    """
    seen = Truncations(strict=strict)
    token = _current.set(seen)
    try:
        yield seen
    finally:
        _current.reset(token)


@contextmanager
def reported(*, strict: bool = False, advice: str = ELSEWHERE) -> Iterator[Truncations]:
    """Collect the counts of a block. The outermost of such blocks warns.

    Args:
        strict: Raise UserError for truncated texts instead.
        advice: Remedy for truncated texts.

    Yields:
        Counts that grow during the block.
    """
    outer = current()
    with collected(strict=strict) as seen:
        yield seen
    if outer is not None:
        outer.merge(seen)
        return
    if line := seen.line(advice):
        warnings.warn(line, TruncationWarning, stacklevel=caller_level())
    for line in seen.unknown_lines():
        warnings.warn(line, UnknownWarning, stacklevel=caller_level())


def caller_level() -> int:
    """Stack level of the first frame outside of the library, where Python shows the warning once.

    Returns:
        Number for `stacklevel` of `warnings.warn`, from 1.
    """
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith(PACKAGE)
        or frame.f_globals.get("__name__") in ("contextlib", "torch.utils._contextlib")
    ):
        frame, level = frame.f_back, level + 1
    return level
