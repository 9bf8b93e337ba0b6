"""How many floating-point operations the real tokens of a training step need, padding left out.

A multiplication and an addition count as two operations. With P weights in linear layers, L tokens in a sentence,
N layers and width d:

    linear layers  2·P per token forward, twice that backward                        6·P·ΣL
    attention      QKᵀ and its product with V, 2·L²·d each per layer, backward twice   12·N·d·ΣL²

Embedding tables, normalisation, softmax, activation, loss and optimiser are left out: they are no matrix products.
"""

from collections.abc import Sequence

import numpy as np
from torch import nn


def linear_weights(backbone: nn.Module) -> int:
    """Weights of the linear layers; biases and embedding tables are not multiplied with anything."""
    return sum(inner.weight.numel() for inner in backbone.modules() if isinstance(inner, nn.Linear))


def training_flops(lengths: Sequence[int] | np.ndarray, *, weights: int, layers: int, width: int) -> float:
    """Operations of forward and backward pass for sentences of the given lengths.

    >>> training_flops([3], weights=10, layers=2, width=4)
    1044.0
    """
    tokens = np.asarray(lengths, dtype=np.float64)
    return float(6 * weights * tokens.sum() + 12 * layers * width * (tokens**2).sum())
