"""A batch in micro-batches: its gradients are those of the whole, its activations in memory those of one of them.

This is gradient caching (Gao et al. 2021, https://arxiv.org/abs/2101.06983) for any loss: each micro-batch keeps
its tokens and its outputs only, and is computed again, with the same dropout, when its gradients are needed.
"""

import ctypes
import resource
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from juzhen.core.batch import Tokens

SLACK_BYTES = 64 << 20
"""Memory that may pile up before it is given back. What it saves is in docs/log/memory.md."""

STATUS = Path("/proc/self/statm")


def in_micro_batches(
    function: Callable[[Tokens], Tensor], micro_batches: Sequence[Tokens], *, least: int = 0
) -> Tensor:
    """`function` of each micro-batch, one below the other, without keeping the activations that learning needs.

    least  calls, on the way there and back: the smallest micro-batch is taken again, and what it gives is left out
    """
    freed = FreedMemory()
    parts: list[Tensor] = []
    again = [micro_batches[0]] * (least - len(micro_batches))
    for micro_batch in [*micro_batches, *again]:
        # The numbers are handed over for their device alone: `checkpoint` keeps the generator of the devices of the
        # tensors that it sees, and does not look into a micro-batch.
        part = checkpoint(_alike(function), micro_batch.input_ids, micro_batch, use_reentrant=False)
        freed.give_back()
        # On the way back this is called when the gradient of the part is there, before it is computed again.
        if part.requires_grad:  # of frozen weights it does not
            part.register_hook(lambda gradient: freed.give_back())
        parts.append(part if len(parts) < len(micro_batches) else part[:0])
    return torch.cat(parts)


def _alike(function: Callable[[Tokens], Tensor]) -> Callable[[Tensor, Tokens], Tensor]:
    """`function`, drawing the same numbers each time on MPS, too: `checkpoint` keeps CPU's and CUDA's."""
    drawn_from: Tensor | None = None

    def call(numbers: Tensor, micro_batch: Tokens) -> Tensor:
        nonlocal drawn_from
        if numbers.device.type != "mps":
            return function(micro_batch)
        now = torch.mps.get_rng_state()
        if drawn_from is None:
            drawn_from = now
            return function(micro_batch)
        torch.mps.set_rng_state(drawn_from)
        try:
            return function(micro_batch)
        finally:
            torch.mps.set_rng_state(now)

    return call


class FreedMemory:
    """Gives memory that was freed back to the system, each time that SLACK_BYTES have piled up.

    Micro-batches differ in shape, and glibc's allocator keeps what they leave behind: it cannot reuse all of it, so
    that a process grows with their number although none of them is kept. Elsewhere than on Linux with glibc this
    does nothing.
    """

    def __init__(self) -> None:
        self._trim = _malloc_trim()
        self._least = _resident_bytes() if self._trim else 0

    def give_back(self) -> None:
        if self._trim is None:
            return
        now = _resident_bytes()
        if now > self._least + SLACK_BYTES:
            self._trim(0)
            now = _resident_bytes()
        self._least = now if now > self._least + SLACK_BYTES else min(self._least, now)


def _resident_bytes() -> int:
    return int(STATUS.read_text().split()[1]) * resource.getpagesize()


def _malloc_trim() -> Callable[[int], int] | None:
    if not sys.platform.startswith("linux") or not STATUS.exists():
        return None
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
