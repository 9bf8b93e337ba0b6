"""FLOPS: what a search by sparse vectors costs, as a regulariser of them."""

import torch
from jaxtyping import Float
from torch import Tensor

from juzhen.losses.scores import full_precision


def flops(vectors: Float[Tensor, "batch dim"]) -> Float[Tensor, ""]:
    """Σ_j (1/N Σ_i |w_ij|)², over the tokens j of the vocabulary and N texts i.

    A token that is rare costs less than one that every text has: the products of an inverted index grow with the square
    of how often it is above 0. (Paria et al. 2020, equation 4, https://arxiv.org/abs/2004.05665)

    >>> flops(torch.tensor([[1.0, 0.0], [3.0, 0.0]]))
    tensor(4.)
    """
    return full_precision(vectors).abs().mean(dim=0).square().sum()


def warmed_up(step: int, steps: int) -> float:
    """The share of a weight that counts at a step, from 0: it grows with the square up to `steps`, and is 1 from there.

    >>> [warmed_up(step, 4) for step in (0, 2, 4, 9)], warmed_up(0, 0)
    ([0.0, 0.25, 1.0, 1.0], 1.0)
    """
    return min(step / steps, 1.0) ** 2 if steps else 1.0


@torch.no_grad()
def mean_nonzero(vectors: Float[Tensor, "batch dim"]) -> Float[Tensor, ""]:
    """Numbers above 0 of a text, in the mean."""
    return (vectors != 0).sum(dim=1).float().mean()
