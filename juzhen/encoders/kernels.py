"""Kernels of a GPU for sentences of any length: those behind torch's nested tensors, called without these.

What a nested tensor costs the processor, 150 times the call, is paid per layer (docs/log/training_speed.md);
torch.nn.attention.varlen cannot drop. Dao 2024, https://arxiv.org/abs/2307.08691; Rabe and Staats 2021, https://arxiv.org/abs/2112.05682
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.backends.cuda import SDPAParams, can_use_efficient_attention, can_use_flash_attention

from juzhen.core.batch import Tokens
from juzhen.encoders.attention_pattern import EVERYWHERE, Pattern

States = Float[Tensor, "tokens heads head_dim"]
Kernel = Callable[..., States]

ALIGNED = 8
"""Both kernels want rows of 16 bytes; a head's width that is no multiple of 8 would have to be filled up first."""


def ragged_kernel(
    query: Float[Tensor, "one heads tokens head_dim"],
    key: Tensor,
    value: Tensor,
    *,
    rate: float,
    pattern: Pattern = EVERYWHERE,
) -> Kernel | None:
    """The kernel that the device of these states has for them: flash in half precision, the other one in float32.

    None where there is none: on other devices than CUDA, for odd widths, on GPUs too old for both, and for a window in
    float32, which groups of like length then have.
    """
    if query.device.type != "cuda" or query.shape[-1] % ALIGNED:
        return None
    shares = query.shape[1] != key.shape[1]
    if can_use_flash_attention(SDPAParams(query, key, value, None, rate, pattern.causal, shares)):
        return flash
    if pattern.reach is not None:
        return None
    if shares:  # its heads are repeated before they come to this kernel
        key, value = query, query
    params = SDPAParams(query, key, value, None, rate, pattern.causal, False)
    return memory_efficient if can_use_efficient_attention(params) else None


def flash(
    query: States,
    key: States,
    value: States,
    tokens: Tokens,
    *,
    scale: float | None,
    rate: float,
    pattern: Pattern = EVERYWHERE,
) -> States:
    """float16 and bfloat16 only; keys may have fewer heads. The default of `scale` is 1/√head_dim."""
    ends, longest = tokens.boundaries, tokens.longest
    window = {}
    if pattern.reach is not None:
        right = 0 if pattern.causal else pattern.reach
        window = {"window_size_left": pattern.reach, "window_size_right": right}
    return torch.ops.aten._flash_attention_forward(
        query, key, value, ends, ends, longest, longest, rate, pattern.causal, False, scale=scale, **window
    )[0]


def memory_efficient(
    query: States,
    key: States,
    value: States,
    tokens: Tokens,
    *,
    scale: float | None,
    rate: float,
    pattern: Pattern = EVERYWHERE,
) -> States:
    """float32 too, and GPUs that are too old for flash; no window. The default of `scale` is 1/√head_dim."""
    ends, longest = tokens.boundaries, tokens.longest
    learns = torch.is_grad_enabled() and any(states.requires_grad for states in (query, key, value))
    key, value = (shared_heads(states, query.shape[1]) for states in (key, value))
    rows = (states.unsqueeze(0) for states in (query, key, value))
    # 1: a token attends to those before it in its sentence.
    return torch.ops.aten._efficient_attention_forward(
        *rows, None, ends, ends, longest, longest, rate, int(pattern.causal), learns, scale=scale
    )[0].squeeze(0)


def shared_heads(states: Tensor, heads: int) -> Tensor:
    """Keys or values (sentences, key heads, …), each head as often as there are heads of queries for it."""
    return states if states.shape[1] == heads else states.repeat_interleave(heads // states.shape[1], dim=1)
