"""Similarity scores of embeddings, in full precision, the grades they are held to, and what to log about them."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from juzhen.core.batch import Encoded
from juzhen.core.constants import constants
from juzhen.core.examples import NLI_GRADES, Kind


def full_precision(values: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
    """The same values in float32, or float64 where they came so: in half precision near scores tie."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def row_cosine(
    first: Float[Tensor, "batch dim"], second: Float[Tensor, "batch dim"]
) -> Float[Tensor, "batch"]:
    """Cosine of each row of `first` with the same row of `second`, in [-1, 1]."""
    return (F.normalize(full_precision(first), dim=-1) * F.normalize(full_precision(second), dim=-1)).sum(
        dim=-1
    )


def all_cosines(
    anchors: Float[Tensor, "batch dim"], candidates: Float[Tensor, "candidates dim"]
) -> Float[Tensor, "batch candidates"]:
    """Cosine of every anchor with every candidate: one matrix product, which autocast may not round."""
    with torch.autocast(anchors.device.type, enabled=False):
        return (
            F.normalize(full_precision(anchors), dim=-1) @ F.normalize(full_precision(candidates), dim=-1).T
        )


def graded_targets(encoded: Encoded) -> Float[Tensor, "batch"]:
    """Targets in which higher means closer: NLI classes become 1, 0.5 and 0, others stay."""
    if encoded.kind is Kind.NLI_PAIR:
        return constants(NLI_GRADES, like=encoded.targets)[encoded.targets.long()]
    return encoded.targets


@torch.no_grad()
def mean_where(values: Float[Tensor, "*axes"], chosen: Bool[Tensor, "*axes"]) -> Float[Tensor, ""]:
    """Mean of the chosen values; NaN when none is chosen, because a missing number is not 0."""
    return torch.where(chosen, full_precision(values), 0).sum() / chosen.sum()


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
