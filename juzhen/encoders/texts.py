"""Texts on their way to an encoder: put in batches of like length."""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from jaxtyping import Int

from juzhen.core.batch import num_fitting

BATCH_TOKENS = 16_384
"""Tokens that an encoder sees at a time where nothing is said."""


def batches_by_length(
    lengths: Sequence[int] | np.ndarray, *, batch_tokens: int
) -> Iterator[Int[np.ndarray, "batch"]]:
    """Row numbers in batches of at most `batch_tokens` tokens, padding included, fewer of long texts; longest first.

    Longest first, so that a batch too large for the memory fails at once and not after an hour.
    """
    order = np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable")
    start = 0
    while start < len(order):
        size = num_fitting(int(lengths[order[start]]), batch_tokens)
        yield order[start : start + size]
        start += size


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
