"""AdamW with linear warm-up and decay, and which parameters are decayed."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from juzhen.core.errors import UserError, require_choice, require_packages


def adamw(
    module: nn.Module,
    *,
    lr: float,
    weight_decay: float = 0.01,
    betas: Sequence[float] = (0.9, 0.999),
    eps: float = 1e-8,
    layer_decay: float | None = None,
    fused: bool = True,
    apart: Sequence[dict[str, Any]] = (),
    state_bits: int = 32,
) -> torch.optim.Optimizer:
    """Make AdamW over the parameters of `module` (Loshchilov and Hutter 2019, https://arxiv.org/abs/1711.05101).

    Matrices are decayed. Biases and normalization weights (one axis or none) are not.

    Args:
        module: Model. Parameters without gradients are left out.
        lr: Peak learning rate.
        weight_decay: Decay of matrices in a step, times the learning rate.
        betas: Decay rates of both moments.
        eps: Added to the denominator.
        layer_decay: γ. Of L layers, layer l from 1 has learning rate lr · γ^(L − l). Parameters below the first layer
            have lr · γ^L. Parameters outside layers, such as a head, have lr. None: all have lr. (Sun et al. 2019,
            section 5.3.4, who write ξ, https://arxiv.org/abs/1905.05583)
        fused: One kernel for all tensors. Ignored with 8 bits.
        apart: Parameter groups of `module` with hyperparameters of their group.
        state_bits: 8 keeps both moments in 8 bits, with a scale for each 256 numbers (Dettmers et al. 2022,
            https://arxiv.org/abs/2110.02861). Tensors of fewer than 4,096 numbers stay in 32. Needs torchao.

    Returns:
        The optimizer.

    Raises:
        UserError: `layer_decay` for an architecture without a list of layers.
    """
    apart_parameters = {parameter for group in apart for parameter in group["params"]}
    parameters = {
        name: values
        for name, values in module.named_parameters()
        if values.requires_grad and values not in apart_parameters
    }
    depths, rates = dict.fromkeys(parameters, 0), [lr]
    if layer_decay is not None:
        depths = depths_below_top(parameters)
        rates = [lr * layer_decay**depth for depth in range(max(depths.values(), default=0) + 1)]
    groups: list[dict[str, Any]] = []
    for depth, rate in enumerate(rates):
        of_depth = [values for name, values in parameters.items() if depths[name] == depth]
        own_rate = {} if layer_decay is None else {"lr": rate}
        groups += [
            {
                "params": [values for values in of_depth if values.ndim > 1],
                "weight_decay": weight_decay,
                **own_rate,
            },
            {"params": [values for values in of_depth if values.ndim <= 1], "weight_decay": 0.0, **own_rate},
        ]
    first, second = betas
    groups = [group for group in [*groups, *apart] if group["params"]]
    if state_bits == 8:
        return eight_bit_adamw()(groups, lr=lr, betas=(first, second), eps=eps)
    return torch.optim.AdamW(groups, lr=lr, betas=(first, second), eps=eps, fused=fused)


def eight_bit_adamw() -> Callable[..., torch.optim.Optimizer]:
    """Return torchao's AdamW with 8-bit moments, and allow torch.load to read its states.

    Returns:
        Class of the optimizer.

    Raises:
        UserError: torchao is not installed.
    """
    require_packages("state_bits=8", "torchao", extra="large")
    from torchao.optim import AdamW8bit

    return cast(Callable[..., torch.optim.Optimizer], AdamW8bit)


LAYER = re.compile(r"(?:^|\.)backbone\.(?:\w+\.)*?(?:layer|layers|block|h)\.(\d+)\.")
"""Name of a parameter of a layer of the transformer; the architectures call the list of layers so."""


def layer_of(name: str) -> int | None:
    """Return the layer of a parameter, from 1. 0: below the first layer. None: outside the layers.

    Args:
        name: Dotted name, as in `named_parameters`.

    Returns:
        The number of the layer, 0 for embeddings, None for heads, losses and the last norm.

    >>> [layer_of(f"encoder.backbone.{name}") for name in ("embeddings.norm.weight", "encoder.layer.2.output.bias")]
    [0, 3]
    >>> layer_of("losses.demo.head.weight") is None, layer_of("encoder.backbone.final_norm.weight") is None
    (True, True)
    """
    if match := LAYER.search(name):
        return int(match[1]) + 1
    return 0 if ".backbone." in f".{name}" and re.search(r"emb|\.wte\.|\.wpe\.|\.shared\.", name) else None


def depths_below_top(names: Iterable[str]) -> dict[str, int]:
    """Return the distance of each parameter's layer from the last layer.

    Args:
        names: Dotted names, as in `named_parameters`.

    Returns:
        Name → number of layers above it. 0 for the last layer and for parameters outside the layers.

    Raises:
        UserError: None of the names is in a layer.
    """
    layers = {name: layer_of(name) for name in names}
    last = max((layer for layer in layers.values() if layer), default=0)
    if not last:
        raise UserError("layer_decay: this architecture has no list of layers. Leave it at null")
    return {name: 0 if layer is None else last - layer for name, layer in layers.items()}


def learning_rates(
    optimizer: torch.optim.Optimizer, decay: str, *, total_steps: int, warmup_steps: int
) -> LambdaLR:
    """Return the learning rate per optimizer step: a warm-up from 0 to `lr` over T steps, then `decay`.

    `decay=linear` goes down to 0 at the last step. `decay=constant` stays at `lr`. `decay=inverse_sqrt` is lr
    · √(T/t) at step t (Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, equation 3). The notes on
    CoSENT write lr · min(1, t/T) / √max(t, T). Read literally that is the same curve times 1/√T, and `lr`
    would never be reached. It needs a warm-up.

    Args:
        optimizer: Its groups have the peak rates.
        decay: `linear`, `constant` or `inverse_sqrt`.
        total_steps: Number of optimizer steps, with the warm-up.
        warmup_steps: Number of steps from 0 to the peak.

    Returns:
        A scheduler. Call its `step()` after each optimizer step.

    Raises:
        UserError: An unknown `decay`.
    """
    require_choice("decay", decay, DECAYS)
    steps = {"warmup_steps": warmup_steps, "total_steps": total_steps}
    return LambdaLR(optimizer, partial(_share_of_rate, decay=decay, **steps))


# Written here, because transformers.optimization imports its Trainer, and with it peft: a first step waits for it.
def _share_of_rate(step: int, *, decay: str, warmup_steps: int, total_steps: int) -> float:
    return step / warmup_steps if step < warmup_steps else DECAYS[decay](step, warmup_steps, total_steps)


def _inverse_sqrt(step: int, warmup_steps: int, _: int) -> float:
    timescale = warmup_steps or 10_000
    return 1.0 / math.sqrt((step + timescale - warmup_steps) / timescale)


DECAYS: dict[str, Callable[[int, int, int], float]] = {
    "linear": lambda step, warmup, total: max(0.0, (total - step) / max(1, total - warmup)),
    "constant": lambda *_: 1.0,
    "inverse_sqrt": _inverse_sqrt,
}
"""Value of `optimizer.decay` (`conf/job.py`) → share of `lr` at a step after the warm-up, of warm-up and all steps."""
