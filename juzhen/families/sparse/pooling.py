"""From token states to one sparse vector per text: the largest logit of each token of the vocabulary, or their sum.

(Formal et al. 2021, SPLADE v2, https://arxiv.org/abs/2109.10086; the sum: SPLADE, https://arxiv.org/abs/2107.05720)
"""

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from juzhen.core.batch import Group, Tokens

POOLINGS = ("max", "sum")
ACTIVATIONS = ("relu", "log1p_relu")
"""As sentence-transformers calls them: log(1 + relu(x)), and log(1 + log(1 + relu(x)))."""

AT_ONCE = 2**25
"""Logits that are held at a time, 128 MiB."""

Head = Callable[[Float[Tensor, "some dim"]], Float[Tensor, "some vocabulary"]]


def weights_of(logits: Float[Tensor, "*any"], activation: str) -> Float[Tensor, "*any"]:
    """What a logit counts: 0 up to a logit of 0, and its logarithm above.

    >>> weights_of(torch.tensor([-1.0, 0.0, 1.0]), "relu")
    tensor([0.0000, 0.0000, 0.6931])
    """
    weights = logits.float().relu().log1p()
    return weights.log1p() if activation == "log1p_relu" else weights


def pooled_texts(
    head: Head,
    states: Float[Tensor, "tokens dim"],
    tokens: Tokens,
    *,
    vocabulary: int,
    pooling: str,
    activation: str,
    at_once: int = AT_ONCE,
) -> Iterator[Float[Tensor, "some vocabulary"]]:
    """The vectors of the texts in packed order, some at a time. All tokens of a text count, special ones, too.

    Logits are those of at most `at_once` numbers, or of one token. For the gradient of the maximum the number of its
    token is kept, 8 bytes for each text and token of the vocabulary; for that of the sum logits are computed again.
    """
    start = 0
    for group in tokens.groups:
        padded, real = _padded(states[start : start + group.num_tokens], group)
        start += group.num_tokens
        width = min(group.length, max(at_once // vocabulary, 1))
        rows = max(at_once // (vocabulary * width), 1)
        for first in range(0, group.num_sentences, rows):
            some, some_real = padded[first : first + rows], real[first : first + rows]
            pieces = zip(some.split(width, dim=1), some_real.split(width, dim=1), strict=True)
            if pooling == "max":
                logits = [_highest(head, piece, mask) for piece, mask in pieces]
                highest = logits[0] if len(logits) == 1 else torch.stack(logits).amax(dim=0)
                yield weights_of(highest, activation)
            else:
                parts = [_summed(head, piece, mask, activation) for piece, mask in pieces]
                yield parts[0] if len(parts) == 1 else torch.stack(parts).sum(dim=0)


def _padded(
    states: Float[Tensor, "tokens dim"], group: Group
) -> tuple[Float[Tensor, "sentences length dim"], Bool[Tensor, "sentences length"]]:
    """The states of a group with padding, and where there is a token."""
    shape = group.num_sentences, group.length
    if group.slots is None:
        return states.unflatten(0, shape), torch.ones(shape, dtype=torch.bool, device=states.device)
    empty = states.new_zeros(shape[0] * shape[1], states.shape[1])
    assert group.mask is not None  # as there are slots
    return empty.index_copy(0, group.slots, states).unflatten(0, shape), group.mask[:, 0, 0]


def _logits(head: Head, states: Float[Tensor, "some length dim"]) -> Float[Tensor, "some length vocabulary"]:
    return head(states.flatten(0, 1)).unflatten(0, states.shape[:2])


def _highest(
    head: Head, states: Float[Tensor, "some length dim"], mask: Bool[Tensor, "some length"]
) -> Float[Tensor, "some vocabulary"]:
    logits = _logits(head, states)
    return logits.masked_fill(~mask.unsqueeze(-1), -torch.inf).max(dim=1).values


def _summed(
    head: Head, states: Float[Tensor, "some length dim"], mask: Bool[Tensor, "some length"], activation: str
) -> Float[Tensor, "some vocabulary"]:
    def summed(states: Tensor) -> Tensor:
        weights = weights_of(_logits(head, states), activation)
        return weights.masked_fill(~mask.unsqueeze(-1), 0).sum(dim=1)

    return checkpoint(summed, states, use_reentrant=False) if torch.is_grad_enabled() else summed(states)
