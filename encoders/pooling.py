"""Pooling: one embedding out of a sentence's token states. Padding never changes the result.

Every function takes `layers`, the token states of the transformer layers from first to last (the embedding
layer is not among them; callers may leave inner layers out), and `mask`, 1 on tokens and 0 on padding. Sums
are taken in float32 whatever the states are, and the embedding is float32.
"""

from collections.abc import Callable, Sequence

from jaxtyping import Float, Int
from torch import Tensor

from schema.errors import UserError, nearest

Layers = Sequence[Float[Tensor, "sentences length dim"]]
Mask = Int[Tensor, "sentences length"]
Embeddings = Float[Tensor, "sentences dim"]


def _weighted_average(
    states: Float[Tensor, "sentences length dim"], weights: Float[Tensor, "sentences length"]
) -> Embeddings:
    """Average of the states with weights ≥ 0; states of weight 0 do not count, not even NaN."""
    weights = weights.unsqueeze(-1)
    # masked_fill rather than a product with 0: the states of padding may be anything, also inf or NaN.
    states = states.float().masked_fill(weights == 0, 0.0)
    return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1.0)


def mean(layers: Layers, mask: Mask) -> Embeddings:
    """Average of the last layer over the tokens (Reimers and Gurevych 2019, https://arxiv.org/abs/1908.10084)."""
    return _weighted_average(layers[-1], mask.float())


def cls(layers: Layers, mask: Mask) -> Embeddings:
    """State of the first token of the last layer. Padding is on the right, so this is position 0."""
    return layers[-1][:, 0].float()


def max_(layers: Layers, mask: Mask) -> Embeddings:
    """Largest value over the tokens of the last layer, per dimension."""
    return layers[-1].float().masked_fill(mask.unsqueeze(-1) == 0, float("-inf")).amax(dim=1)


def first_last(layers: Layers, mask: Mask) -> Embeddings:
    """Average of the mean pools of the first and the last transformer layer.

    "First" is the output of the first transformer block, not of the embedding layer; papers differ on this
    (Su et al. 2021, https://arxiv.org/abs/2103.15316, mean the same as we do).
    """
    return (mean(layers[:1], mask) + mean(layers, mask)) / 2


def weighted(layers: Layers, mask: Mask) -> Embeddings:
    """Average of the last layer in which the token at position i (from 1) has weight i.

    Muennighoff 2022, https://arxiv.org/abs/2202.08904, equation 1: for models that only look to the left.
    """
    return _weighted_average(layers[-1], (mask.cumsum(dim=1) * mask).float())


POOLINGS: dict[str, Callable[[Layers, Mask], Embeddings]] = {
    "mean": mean,
    "cls": cls,
    "max": max_,
    "first_last": first_last,
    "weighted": weighted,
}
"""Name in `backbone.pooling` → function."""

READS_FIRST_LAYER = frozenset({"first_last"})
"""Poolings that need more than the last layer."""


def check_pooling(name: str) -> str:
    """The name itself. Raises UserError with the nearest known name when there is no such pooling."""
    if name not in POOLINGS:
        raise UserError(f"backbone.pooling={name}: no such pooling; {nearest(name, POOLINGS)}")
    return name
