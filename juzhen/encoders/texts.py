"""Texts on their way to an encoder: checked, put in batches of like length, with a bar where somebody waits."""

import gc
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from jaxtyping import Int
from rich.console import Console
from rich.progress import Progress

from juzhen.core.errors import UserError
from juzhen.core.texts import short, text_fault

BATCH_TOKENS = 16_384
"""Tokens that an encoder sees at a time where nothing is said."""

PATIENCE = 3.0
"""Seconds of work without a bar, where it is left open whether to show one."""

HALF_A_PAIR = re.compile("[\ud800-\udfff]")
"""What no tokenizer takes: half a surrogate pair is no character."""

EXAMPLE = '("今天天气很好", "今天是个好天气")'


def as_texts(texts: str | Iterable[str]) -> tuple[list[str], bool]:
    """The texts as a list, and whether it was one text alone. Raises UserError for what is no collection of texts."""
    if isinstance(texts, str):
        return [texts], True
    if isinstance(texts, bytes | Mapping) or not isinstance(texts, Iterable):
        raise UserError(f"expected a text or a list of texts, got {_described(texts)}{_remedy(texts)}")
    return list(texts), False


def as_pairs(pairs: Iterable[tuple[str, str]] | tuple[str, str]) -> tuple[list[str], list[str], bool]:
    """First texts, second texts, and whether it was one pair alone. Raises UserError naming what is no pair."""
    if isinstance(pairs, str | bytes) or not isinstance(pairs, Iterable):
        raise UserError(f"expected pairs of texts, got {_described(pairs)}; write [{EXAMPLE}]")
    rows = list(pairs)
    is_one = len(rows) == 2 and all(isinstance(one, str) for one in rows)
    first: list[str] = []
    second: list[str] = []
    each: list[Any] = [rows] if is_one else rows
    for position, pair in enumerate(each):
        if isinstance(pair, str | bytes) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise UserError(
                f"pair {position} is {_described(pair)}; expected two texts, for example {EXAMPLE}"
            )
        first.append(pair[0])
        second.append(pair[1])
    check_texts(first, called="the first text of pair")
    check_texts(second, called="the second text of pair")
    return first, second, is_one


def check_texts(texts: Sequence[str], *, called: str = "text") -> None:
    """Raises UserError naming the first text that cannot be encoded."""
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise UserError(f"{called} {position} is {_described(text)}; expected a string{_remedy(text)}")
        if not text or text.isspace():
            raise UserError(f"{called} {position} is empty; an empty sentence has no embedding")
        if HALF_A_PAIR.search(text):
            raise UserError(f"{called} {position} {text_fault(text)}")


def check_batch_tokens(batch_tokens: int) -> None:
    """Raises UserError for a number of tokens that is none."""
    if not isinstance(batch_tokens, int) or batch_tokens < 1:
        raise UserError(f"batch_tokens={batch_tokens!r}: expected a number of tokens, such as {BATCH_TOKENS}")


def _described(value: object) -> str:
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind} ({short(repr(value))})"


def _remedy(value: object) -> str:
    return '; decode it first: text.decode("utf-8")' if isinstance(value, bytes) else ""


def batches_by_length(
    lengths: Sequence[int] | np.ndarray, *, batch_tokens: int
) -> Iterator[Int[np.ndarray, "batch"]]:
    """Row numbers in batches of at most `batch_tokens` tokens, padding included; longest first.

    Longest first, so that a batch too large for the memory fails at once and not after an hour.
    """
    order = np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable")
    start = 0
    while start < len(order):
        size = max(batch_tokens // max(lengths[order[start]], 1), 1)
        yield order[start : start + size]
        start += size


@contextmanager
def progress_bar(work: str, total: int, *, shown: bool | None) -> Iterator[Callable[[int], None]]:
    """Gives a function that counts what is done.

    shown  None: a bar appears on a terminal, once the work has taken PATIENCE seconds
    """
    bar = Progress(console=Console(stderr=True), transient=True, disable=shown is False)
    task = bar.add_task(work, total=total)
    begun = time.monotonic()

    def advance(count: int) -> None:
        bar.advance(task, count)
        if shown is None and bar.console.is_terminal and time.monotonic() - begun > PATIENCE:
            bar.start()

    if shown:
        bar.start()
    try:
        yield advance
    finally:
        if bar.live.is_started:  # on what is no terminal, a bar that never began would end in an empty line
            bar.stop()


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Keeps Python from looking for cycles, which took a third of the time of tokenising and found none."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
