"""Similarity scores of embeddings, in full precision, and what to log about them."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from juzhen.core.lazy_names import offered

ROUNDING = 1e-6
"""Largest difference between the products of equal texts, which round by their place in a batch; of scores up to 1."""


def full_precision(values: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
    """Convert to float32, or keep float64. In half precision near scores tie.

    Args:
        values: Any shape.

    Returns:
        The same values, of the same shape.

    Example:
        >>> full_precision(torch.ones(2, dtype=torch.bfloat16)).dtype
        torch.float32
    """
    return values.to(torch.promote_types(values.dtype, torch.float32))


def row_cosine(
    first: Float[Tensor, "batch ... dim"], second: Float[Tensor, "batch ... dim"]
) -> Float[Tensor, "batch"]:
    """Compute the cosine of each row of `first` with the same row of `second`, in [-1, 1].

    For texts with a vector per token, (batch, length, dim), it is their MaxSim: the first is the query.

    Args:
        first: (batch, dim).
        second: (batch, dim).

    Returns:
        Cosines, (batch,).

    Example:
        >>> row_cosine(torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0]]))
        tensor([0.7071])
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
    """Compute the cosine of every anchor with every candidate: one matrix product, which autocast may not round.

    For texts with a vector per token, (batch, length, dim), it is their MaxSim.

    Args:
        anchors: (batch, dim).
        candidates: (candidates, dim).

    Returns:
        Cosines, (batch, candidates).

    Example:
        >>> all_cosines(torch.eye(2), torch.tensor([[1.0, 1.0]]))
        tensor([[0.7071],
                [0.7071]])
    """
    with torch.autocast(anchors.device.type, enabled=False):
        if anchors.ndim == 3:
            return offered("scores", "all_maxsims")(full_precision(anchors), full_precision(candidates))
        kind = torch.promote_types(anchors.dtype, candidates.dtype)
        first, second = (full_precision(each.to(kind)) for each in (anchors, candidates))
        return F.normalize(first, dim=-1) @ F.normalize(second, dim=-1).T


@torch.no_grad()
def mean_where(values: Float[Tensor, "*axes"], chosen: Bool[Tensor, "*axes"]) -> Float[Tensor, ""]:
    """Compute the mean of the chosen values. NaN if none is chosen, because a missing number is not 0.

    Args:
        values: The values.
        chosen: The values that count.

    Returns:
        The mean, to log, without a gradient.

    Example:
        >>> mean_where(torch.tensor([1.0, 3.0]), torch.tensor([True, False]))
        tensor(1.)
    """
    return torch.where(chosen, full_precision(values), 0).sum() / chosen.sum()


def mean_of_rows(
    values: Float[Tensor, "batch columns"], chosen: Bool[Tensor, "batch columns"]
) -> Float[Tensor, ""]:
    """Compute the mean over rows of the mean of each row's chosen values, at least one.

    Where all are chosen it is `values.mean()`, bit for bit: each value then counts 1.

    Args:
        values: The values.
        chosen: The values that count.

    Returns:
        The mean.

    Example:
        >>> mean_of_rows(torch.tensor([[1.0, 3.0], [5.0, 9.0]]), torch.tensor([[True, True], [True, False]]))
        tensor(3.5000)
    """
    weights = values.shape[1] / chosen.sum(dim=1, keepdim=True).to(values.dtype)
    return (values.masked_fill(~chosen, 0) * weights).mean()


@torch.no_grad()
def choice_accuracy(
    scores: Float[Tensor, "batch candidates"], right: Shaped[Tensor, "batch"]
) -> Float[Tensor, ""]:
    """Compute the share of rows whose right candidate scores highest.

    Of k equally high ones each is chosen with probability 1/k: constant scores of four candidates are right by 0.25.
    Scores that differ by rounding alone are equal.

    Args:
        scores: (batch, candidates).
        right: Index of the right candidate, (batch,).

    Returns:
        The scalar share.

    Example:
        >>> choice_accuracy(torch.tensor([[0.9, 0.1], [0.5, 0.5]]), torch.tensor([0, 0]))
        tensor(0.7500)
    """
    scores = full_precision(scores)
    highest = scores.amax(dim=1, keepdim=True)
    is_highest = scores >= highest - ROUNDING * highest.abs().clamp(min=1)
    return (is_highest.gather(1, right.long()[:, None]).squeeze(1) / is_highest.sum(dim=1)).mean()


@torch.no_grad()
def sign_accuracy(logits: Float[Tensor, "batch"], labels: Float[Tensor, "batch"]) -> Float[Tensor, ""]:
    """Compute the share of rows whose logit is above 0 exactly where the label is above 0.5. A logit of 0 is half.

    Args:
        logits: Logit of each row.
        labels: Label of each row, 0 or 1.

    Returns:
        The share, to log, without a gradient.

    Example:
        >>> sign_accuracy(torch.tensor([2.0, -1.0, 0.0]), torch.tensor([1.0, 1.0, 0.0]))
        tensor(0.5000)
    """
    return (1 - ((full_precision(logits).sign() + 1) / 2 - (labels > 0.5).float()).abs()).mean()


@torch.no_grad()
def score_gap(
    scores: Float[Tensor, "*axes"], high: Bool[Tensor, "*axes"], low: Bool[Tensor, "*axes"]
) -> dict[str, Tensor]:
    """Compute the mean score of positives and of negatives, and the gap. NaN without any.

    Args:
        scores: Any shape.
        high: True for positives.
        low: True for negatives.

    Returns:
        "positive_score", "negative_score" and "score_gap".

    Example:
        >>> high = torch.tensor([True, False])
        >>> score_gap(torch.tensor([0.75, 0.25]), high, ~high)
        {'positive_score': tensor(0.7500), 'negative_score': tensor(0.2500), 'score_gap': tensor(0.5000)}
    """
    positive_score, negative_score = mean_where(scores, high), mean_where(scores, low)
    return {
        "positive_score": positive_score,
        "negative_score": negative_score,
        "score_gap": positive_score - negative_score,
    }


def order_gap(scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> dict[str, Tensor]:
    """Compute `score_gap` of the rows with a target above the mean target, and of the others.

    Args:
        scores: Score of each pair.
        targets: Gold value of each pair.

    Returns:
        Name → value, to log.

    Example:
        >>> order_gap(torch.tensor([0.75, 0.25]), torch.tensor([5.0, 1.0]))
        {'positive_score': tensor(0.7500), 'negative_score': tensor(0.2500), 'score_gap': tensor(0.5000)}
    """
    is_upper = targets > full_precision(targets).mean()
    return score_gap(scores, is_upper, ~is_upper)


def label_gap(scores: Float[Tensor, "batch"], labels: Float[Tensor, "batch"]) -> dict[str, Tensor]:
    """Compute `score_gap` of the positive rows and of the negative ones.

    Args:
        scores: Score of each pair.
        labels: Label of each pair, 0 or 1.

    Returns:
        Name → value, to log.

    Example:
        >>> label_gap(torch.tensor([0.75, 0.25]), torch.tensor([1.0, 0.0]))
        {'positive_score': tensor(0.7500), 'negative_score': tensor(0.2500), 'score_gap': tensor(0.5000)}
    """
    is_positive = labels > 0.5
    return score_gap(scores, is_positive, ~is_positive)
