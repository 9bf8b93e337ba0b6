"""Similarity scores of embeddings, in full precision, and what to log about them."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from juzhen.core.lazy_names import offered

ROUNDING = 1e-6
"""Largest difference between the products of equal texts, which round by their place in a batch; of scores up to 1."""


def full_precision(values: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
    """The same values in float32, or float64 where they came so: in half precision near scores tie."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def row_cosine(
    first: Float[Tensor, "batch ... dim"], second: Float[Tensor, "batch ... dim"]
) -> Float[Tensor, "batch"]:
    """Cosine of each row of `first` with the same row of `second`, in [-1, 1].

    Of texts with a vector per token, (batch, length, dim), it is their MaxSim: the first asks, the second answers.
    """
    if first.ndim == 3:
        with torch.autocast(first.device.type, enabled=False):
            return offered("scores", "row_maxsims")(full_precision(first), full_precision(second))
    return (F.normalize(full_precision(first), dim=-1) * F.normalize(full_precision(second), dim=-1)).sum(
        dim=-1
    )


def all_cosines(
    anchors: Float[Tensor, "batch ... dim"], candidates: Float[Tensor, "candidates ... dim"]
) -> Float[Tensor, "batch candidates"]:
    """Cosine of every anchor with every candidate: one matrix product, which autocast may not round.

    Of texts with a vector per token, (batch, length, dim), it is their MaxSim.
    """
    with torch.autocast(anchors.device.type, enabled=False):
        if anchors.ndim == 3:
            return offered("scores", "all_maxsims")(full_precision(anchors), full_precision(candidates))
        return (
            F.normalize(full_precision(anchors), dim=-1) @ F.normalize(full_precision(candidates), dim=-1).T
        )


@torch.no_grad()
def mean_where(values: Float[Tensor, "*axes"], chosen: Bool[Tensor, "*axes"]) -> Float[Tensor, ""]:
    """Mean of the chosen values; NaN when none is chosen, because a missing number is not 0."""
    return torch.where(chosen, full_precision(values), 0).sum() / chosen.sum()


def mean_of_rows(
    values: Float[Tensor, "batch columns"], chosen: Bool[Tensor, "batch columns"]
) -> Float[Tensor, ""]:
    """Mean over rows of the mean of the chosen values of a row, which has one at least.

    Where all are chosen it is `values.mean()`, bit for bit: each value then counts 1.
    """
    weights = values.shape[1] / chosen.sum(dim=1, keepdim=True).to(values.dtype)
    return (values.masked_fill(~chosen, 0) * weights).mean()


@torch.no_grad()
def choice_accuracy(
    scores: Float[Tensor, "batch candidates"], right: Shaped[Tensor, "batch"]
) -> Float[Tensor, ""]:
    """Share of rows whose right candidate, told by its number, scores highest.

    Of k highest equal ones each is chosen with probability 1/k: constant scores of four candidates are right by 0.25.
    Scores that differ by rounding alone are equal.
    """
    scores = full_precision(scores)
    highest = scores.amax(dim=1, keepdim=True)
    is_highest = scores >= highest - ROUNDING * highest.abs().clamp(min=1)
    return (is_highest.gather(1, right.long()[:, None]).squeeze(1) / is_highest.sum(dim=1)).mean()


@torch.no_grad()
def sign_accuracy(logits: Float[Tensor, "batch"], labels: Float[Tensor, "batch"]) -> Float[Tensor, ""]:
    """Share of rows whose logit is above 0 where the label is above 0.5, and below elsewhere; one of 0 is half."""
    return (1 - ((full_precision(logits).sign() + 1) / 2 - (labels > 0.5).float()).abs()).mean()


@torch.no_grad()
def score_gap(
    scores: Float[Tensor, "*axes"], high: Bool[Tensor, "*axes"], low: Bool[Tensor, "*axes"]
) -> dict[str, Tensor]:
    """Mean score of what should be close, of what should be apart, and the gap; NaN where there is none."""
    positive_score, negative_score = mean_where(scores, high), mean_where(scores, low)
    return {
        "positive_score": positive_score,
        "negative_score": negative_score,
        "score_gap": positive_score - negative_score,
    }


def order_gap(scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> dict[str, Tensor]:
    """`score_gap` of the rows whose target is above the mean target, and the others."""
    is_upper = targets > full_precision(targets).mean()
    return score_gap(scores, is_upper, ~is_upper)


def label_gap(scores: Float[Tensor, "batch"], labels: Float[Tensor, "batch"]) -> dict[str, Tensor]:
    """`score_gap` of the positive rows and the negative ones."""
    is_positive = labels > 0.5
    return score_gap(scores, is_positive, ~is_positive)
