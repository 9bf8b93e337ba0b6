"""Pooling: one embedding out of a sentence's token states.

Every function takes `layers`, the token states of the transformer layers from first to last (the embedding
layer is not among them; callers may leave inner layers out), and `tokens`, which says which states belong to
which sentence. There is no padding to be wrong about. Sums are taken in float32 whatever the states are, and
the embedding is float32.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from juzhen.core.batch import Tokens

Layers = Sequence[Float[Tensor, "tokens dim"]]
Embeddings = Float[Tensor, "sentences dim"]


def _pooled(
    states: Float[Tensor, "tokens dim"], tokens: Tokens, *, rest: float
) -> Float[Tensor, "tokens dim"]:
    """The states in float32, with `rest` for those of a prompt that is not pooled."""
    states = states.float()
    if isinstance(tokens.unpooled, int) and not tokens.unpooled:
        return states
    left_out = tokens.positions < tokens.num_unpooled[tokens.sentence_of_token]
    return states.masked_fill(left_out.unsqueeze(-1), rest)


def _sums(states: Float[Tensor, "tokens dim"], tokens: Tokens) -> Embeddings:
    """Sum of the pooled states of each sentence."""
    empty = torch.zeros(len(tokens), states.shape[-1], device=states.device)
    return empty.index_add(0, tokens.sentence_of_token, _pooled(states, tokens, rest=0.0))


def mean(layers: Layers, tokens: Tokens) -> Embeddings:
    """Average of the last layer over the tokens (Reimers and Gurevych 2019, https://arxiv.org/abs/1908.10084)."""
    return _sums(layers[-1], tokens) / (tokens.lengths - tokens.num_unpooled).unsqueeze(-1)


def cls(layers: Layers, tokens: Tokens) -> Embeddings:
    """State of the first pooled token of the last layer."""
    return layers[-1][tokens.starts + tokens.num_unpooled].float()


def max_(layers: Layers, tokens: Tokens) -> Embeddings:
    """Largest value over the tokens of the last layer, per dimension."""
    states = _pooled(layers[-1], tokens, rest=float("-inf"))
    lowest = states.new_full((len(tokens), states.shape[-1]), float("-inf"))
    where = tokens.sentence_of_token.unsqueeze(-1).expand_as(states)
    return lowest.scatter_reduce(0, where, states, "amax")


def first_last(layers: Layers, tokens: Tokens) -> Embeddings:
    """Average of the mean pools of the first and the last transformer layer.

    "First" is the output of the first transformer block, not of the embedding layer; papers differ on this
    (Su et al. 2021, https://arxiv.org/abs/2103.15316, mean the same as we do).
    """
    return (mean(layers[:1], tokens) + mean(layers, tokens)) / 2


def weighted(layers: Layers, tokens: Tokens) -> Embeddings:
    """Average of the last layer in which the token at position i (from 1, a prompt counts) has weight i.

    Muennighoff 2022, https://arxiv.org/abs/2202.08904, equation 1: for models that only look to the left.
    """
    weights = (tokens.positions + 1).unsqueeze(-1)
    total = (tokens.lengths * (tokens.lengths + 1) - tokens.num_unpooled * (tokens.num_unpooled + 1)) / 2
    return _sums(layers[-1].float() * weights, tokens) / total.unsqueeze(-1)


POOLINGS: dict[str, Callable[[Layers, Tokens], Embeddings]] = {
    "mean": mean,
    "cls": cls,
    "max": max_,
    "first_last": first_last,
    "weighted": weighted,
}
"""Name in `backbone.pooling` → function."""

READS_FIRST_LAYER = frozenset({"first_last"})
"""Poolings that need more than the last layer."""
