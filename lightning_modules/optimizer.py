"""AdamW with linear warm-up and decay, and which parameters are decayed."""

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from transformers.optimization import (
    get_constant_schedule_with_warmup,
    get_inverse_sqrt_schedule,
    get_linear_schedule_with_warmup,
)

from conf.job import OptimizerConfig


def build_optimizer(module: nn.Module, config: OptimizerConfig, *, fused: bool) -> torch.optim.AdamW:
    """AdamW over the parameters of `module` (Loshchilov and Hutter 2019, https://arxiv.org/abs/1711.05101).

    Matrices are decayed; biases and normalization weights (one axis or none) are not.
    """
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    groups = [
        {"params": [one for one in parameters if one.ndim > 1], "weight_decay": config.weight_decay},
        {"params": [one for one in parameters if one.ndim <= 1], "weight_decay": 0.0},
    ]
    how = {"lr": config.lr, "betas": tuple(config.betas), "eps": config.eps, "fused": fused}
    return torch.optim.AdamW([group for group in groups if group["params"]], **how)


def build_schedule(
    optimizer: torch.optim.Optimizer,
    config: OptimizerConfig,
    *,
    total_steps: int,
    warmup_steps: int,
) -> LambdaLR:
    """The learning rate per optimizer step: from 0 to `lr` over the warm-up of T steps, then as `decay` says.

    linear        down to 0 at the last step
    constant      `lr`
    inverse_sqrt  lr · √(T/t) at step t (Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, equation 3). The
                  notes on CoSENT write lr · min(1, t/T) / √max(t, T). Read literally that is the same curve times
                  1/√T, and `lr` would never be reached. `conf.job` refuses it without a warm-up
    """
    match config.decay:
        case "linear":
            return get_linear_schedule_with_warmup(optimizer, warmup_steps, total_steps)
        case "constant":
            return get_constant_schedule_with_warmup(optimizer, warmup_steps)
    return get_inverse_sqrt_schedule(optimizer, warmup_steps)
