"""AdamW with linear warm-up and decay, and which parameters are decayed."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from transformers.optimization import (
    get_constant_schedule_with_warmup,
    get_inverse_sqrt_schedule,
    get_linear_schedule_with_warmup,
)

from juzhen.core.errors import UserError, nearest


def adamw(
    module: nn.Module,
    *,
    lr: float,
    weight_decay: float = 0.01,
    betas: Sequence[float] = (0.9, 0.999),
    eps: float = 1e-8,
    fused: bool = True,
    apart: Sequence[dict[str, Any]] = (),
) -> torch.optim.AdamW:
    """AdamW over the parameters of `module` (Loshchilov and Hutter 2019, https://arxiv.org/abs/1711.05101).

    Matrices are decayed; biases and normalization weights (one axis or none) are not.

    apart  groups of parameters of `module` with numbers of their own
    """
    others = {parameter for group in apart for parameter in group["params"]}
    parameters = [
        parameter for parameter in module.parameters() if parameter.requires_grad and parameter not in others
    ]
    groups: list[dict[str, Any]] = [
        {
            "params": [parameter for parameter in parameters if parameter.ndim > 1],
            "weight_decay": weight_decay,
        },
        {"params": [parameter for parameter in parameters if parameter.ndim <= 1], "weight_decay": 0.0},
    ]
    first, second = betas
    return torch.optim.AdamW(
        [group for group in [*groups, *apart] if group["params"]],
        lr=lr,
        betas=(first, second),
        eps=eps,
        fused=fused,
    )


def learning_rates(
    optimizer: torch.optim.Optimizer, decay: str, *, total_steps: int, warmup_steps: int
) -> LambdaLR:
    """The learning rate per optimizer step: from 0 to `lr` over the warm-up of T steps, then as `decay` says.

    linear        down to 0 at the last step
    constant      `lr`
    inverse_sqrt  lr · √(T/t) at step t (Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, equation 3). The
                  notes on CoSENT write lr · min(1, t/T) / √max(t, T). Read literally that is the same curve times
                  1/√T, and `lr` would never be reached. It needs a warm-up
    """
    if decay not in DECAYS:
        raise UserError(f"decay={decay}: {nearest(decay, DECAYS)}")
    return DECAYS[decay](optimizer, warmup_steps, total_steps)


DECAYS: dict[str, Callable[[torch.optim.Optimizer, int, int], LambdaLR]] = {
    "linear": get_linear_schedule_with_warmup,
    "constant": lambda optimizer, warmup_steps, _: get_constant_schedule_with_warmup(optimizer, warmup_steps),
    "inverse_sqrt": lambda optimizer, warmup_steps, _: get_inverse_sqrt_schedule(optimizer, warmup_steps),
}
"""Value of `optimizer.decay` (`conf/job.py`) → the schedule of warm-up steps and all steps."""
