"""Dropout whose random numbers are cheap on a CPU.

torch draws one number per element there, one after another, which was a sixth of a training step of a small
encoder. Here one 64-bit draw of the same generator decides for four elements; seeding, checkpoints and gradient
checkpointing see no difference in kind, only other draws.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LEVELS = 2**16
"""Rates are rounded to multiples of 1/LEVELS, 0.1 to 0.1000061; the scale belongs to the rounded rate."""


class CheapDropout(nn.Dropout):
    """Zero at rate `p`, the rest divided by 1 − p.

    Srivastava et al. 2014, https://jmlr.org/papers/v15/srivastava14a.html
    """

    def forward(self, states: Tensor) -> Tensor:
        return drop(states, self.p) if self.training else states


class _Drop(torch.autograd.Function):
    """Keeps one byte per element for the backward pass, where torch keeps a number of the size of the state."""

    @staticmethod
    def forward(context: object, states: Tensor, threshold: int) -> Tensor:
        draws = torch.empty((states.numel() + 3) // 4, dtype=torch.int64)
        # From the lowest number up to the highest: all 64 bits are random, so each 16 of them are.
        draws.random_(-(2**63), None)
        kept = draws.view(torch.int16)[: states.numel()].view(states.shape) >= threshold - LEVELS // 2
        context.save_for_backward(kept)
        context.scale = LEVELS / (LEVELS - threshold)
        return torch.ops.aten.native_dropout_backward(states, kept, context.scale)

    @staticmethod
    def backward(context: object, gradient: Tensor) -> tuple[Tensor, None]:
        (kept,) = context.saved_tensors
        return torch.ops.aten.native_dropout_backward(gradient, kept, context.scale), None


def drop(states: Tensor, rate: float) -> Tensor:
    """`states` with each element zero at `rate`, the rest scaled to keep the expectation. Always drops: for training.

    Elsewhere than on a CPU, and under torch.compile, which fuses it, this is torch's own.
    """
    threshold = round(rate * LEVELS)
    if states.device.type != "cpu" or torch.compiler.is_compiling() or threshold == LEVELS:
        return F.dropout(states, rate, training=True)
    return _Drop.apply(states, threshold) if threshold else states


def use_cheap_dropout(module: nn.Module) -> None:
    """Every nn.Dropout inside `module` draws its numbers the cheap way from now on. There are no weights in it."""
    for inner in module.modules():
        if type(inner) is nn.Dropout:
            inner.__class__ = CheapDropout
