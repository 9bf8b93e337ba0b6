"""Numbers that are known beforehand, beside tensors that are not."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor


def constants(values: Sequence[float], *, like: Tensor) -> Float[Tensor, "values"]:
    """`values` in the precision and on the device of `like`.

    The device writes them itself. `like.new_tensor(values)` would copy them there, and the processor would wait until
    all that a GPU has been given to do is done.
    """
    return torch.stack([like.new_full((), value) for value in values])
