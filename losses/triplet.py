"""Triplet margin: the positive shall be closer to the anchor than each negative, by a margin."""

import torch
from jaxtyping import Float
from torch import Tensor

from losses.loss import Contrast, Loss, LossOutput, first_two, negatives
from losses.options import choice, number
from losses.scores import full_precision, row_cosine
from schema.batch import Encoded
from schema.examples import Kind


def row_nearness(
    first: Float[Tensor, "batch dim"], second: Float[Tensor, "batch dim"]
) -> Float[Tensor, "batch"]:
    """Negative Euclidean distance of each row of `first` to the same row of `second`: higher = closer."""
    return -torch.linalg.vector_norm(full_precision(first) - full_precision(second), dim=-1)


DISTANCES = {"cosine": row_cosine, "euclidean": row_nearness}


def triplet_margin(
    positive_scores: Float[Tensor, "batch"],
    negative_scores: Float[Tensor, "batch negatives"],
    *,
    margin: float,
) -> Float[Tensor, ""]:
    """Violation of the margin, averaged over rows and their negatives.

    loss = mean of max(0, m + d(a, p) − d(a, n)). (Schroff et al. 2015, section 3.1, who square the distances;
    Reimers and Gurevych 2019, section 3, do not, nor does this.) Written in scores, higher = closer:
    d = 1 − cosine, or d = −score for the Euclidean distance; the 1 cancels.
    """
    return (margin + negative_scores - positive_scores[:, None]).relu().mean()


class TripletMargin(Loss):
    """`triplet_margin` of each row's own negatives; rows do not meet.

    distance  cosine, or euclidean for encoders that do not normalise (choose a margin of its scale)

    Logs the share of triplets that violate the margin, and the mean score of positives and of negatives (for
    euclidean the negative distance).
    """

    takes = (Kind.TRIPLET,)
    reads = "embeddings"
    couples = False
    contrast = Contrast.NEGATIVES

    def __init__(self, *, margin: float | int, distance: str) -> None:
        super().__init__()
        self.margin = number("loss.margin", margin, low=0.0)
        self.distance = choice("loss.distance", distance, tuple(DISTANCES))

    def forward(self, encoded: Encoded) -> LossOutput:
        score = DISTANCES[self.distance]
        anchors, positives = first_two(encoded)
        positive_scores = score(anchors, positives)
        negative_scores = torch.stack(
            [score(anchors, encoded.embeddings[column]) for column in negatives(encoded)], dim=-1
        )
        loss = triplet_margin(positive_scores, negative_scores, margin=self.margin)
        with torch.no_grad():
            violates = self.margin + negative_scores > positive_scores[:, None]
        return loss, {
            "violating_share": violates.float().mean(),
            "positive_score": positive_scores.detach().mean(),
            "negative_score": negative_scores.detach().mean(),
        }
