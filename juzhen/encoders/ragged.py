"""Attention of a GPU over sentences of any length in one call: flash attention, or the memory-efficient kernel.

They are the kernels behind torch's nested tensors, called without these: what a nested tensor costs the processor, 150
times the call itself, is paid per layer, and a small encoder's step would wait for Python instead of the GPU
(LOG.md). `torch.nn.attention.varlen` is no way for training, it cannot drop.

Dao 2024, https://arxiv.org/abs/2307.08691; Rabe and Staats 2021, https://arxiv.org/abs/2112.05682
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.backends.cuda import SDPAParams, can_use_efficient_attention, can_use_flash_attention

from juzhen.core.batch import Tokens

States = Float[Tensor, "tokens heads head_dim"]
Kernel = Callable[..., States]

ALIGNED = 8
"""Both kernels want rows of 16 bytes; a head's width that is no multiple of 8 would have to be filled up first."""


def ragged_kernel(
    query: Float[Tensor, "one heads tokens head_dim"], key: Tensor, value: Tensor, *, rate: float
) -> Kernel | None:
    """The kernel that the device of these states has for them: flash in half precision, the other one in float32.

    None where there is none: on other devices than CUDA, for odd widths, on GPUs too old for both.
    """
    if query.device.type != "cuda" or query.shape[-1] % ALIGNED:
        return None
    params = SDPAParams(query, key, value, None, rate, False, False)
    if can_use_flash_attention(params):
        return flash
    return memory_efficient if can_use_efficient_attention(params) else None


def flash(
    query: States, key: States, value: States, tokens: Tokens, *, scale: float | None, rate: float
) -> States:
    """float16 and bfloat16 only. The default of `scale` is 1/√head_dim."""
    ends, longest = tokens.boundaries, tokens.longest
    return torch.ops.aten._flash_attention_forward(
        query, key, value, ends, ends, longest, longest, rate, False, False, scale=scale
    )[0]


def memory_efficient(
    query: States, key: States, value: States, tokens: Tokens, *, scale: float | None, rate: float
) -> States:
    """float32 too, and GPUs that are too old for flash. The default of `scale` is 1/√head_dim."""
    ends, longest = tokens.boundaries, tokens.longest
    learns = torch.is_grad_enabled() and any(states.requires_grad for states in (query, key, value))
    rows = (states.unsqueeze(0) for states in (query, key, value))
    return torch.ops.aten._efficient_attention_forward(
        *rows, None, ends, ends, longest, longest, rate, 0, learns, scale=scale
    )[0].squeeze(0)
