"""Texts on their way to an encoder: put in batches of like length, with a bar where somebody waits."""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from jaxtyping import Int
from rich.console import Console
from rich.progress import Progress

BATCH_TOKENS = 16_384
"""Tokens that an encoder sees at a time where nothing is said."""

PATIENCE = 3.0
"""Seconds of work without a bar, where it is left open whether to show one."""


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
