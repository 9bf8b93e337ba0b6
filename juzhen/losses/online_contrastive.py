"""Contrastive loss on the hard rows of a batch: those that positives and negatives dispute."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from juzhen.core.examples import Kind
from juzhen.losses.arguments import checks_arguments
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.options import checked, choice, number
from juzhen.losses.scores import full_precision, label_gap

REDUCTIONS = ("mean", "sum")


def hard_rows(distances: Float[Tensor, "batch"], is_positive: Bool[Tensor, "batch"]) -> Bool[Tensor, "batch"]:
    """Negatives closer than the farthest positive, and positives farther than the closest negative.

    A side without rows sets no threshold: all rows of the other side are then hard.
    """
    farthest_positive = distances.masked_fill(~is_positive, -torch.inf).max()
    closest_negative = distances.masked_fill(is_positive, torch.inf).min()
    farthest_positive = torch.where(is_positive.any(), farthest_positive, torch.inf)
    closest_negative = torch.where(is_positive.all(), -torch.inf, closest_negative)
    return torch.where(is_positive, distances > closest_negative, distances < farthest_positive)


@checks_arguments
def online_contrastive(
    scores: Float[Tensor, "batch"],
    labels: Float[Tensor, "batch"],
    *,
    margin: float = 0.5,
    reduction: str = "mean",
) -> Float[Tensor, ""]:
    """Contrastive cost of the hard rows; `mean` divides it by the number of all rows, hard or not.

    sum = Σ_hard y d² + (1 − y) max(0, m − d)², d = 1 − score. It equals OnlineContrastiveLoss of
    sentence-transformers, its source, wherever a batch has two positives and two negatives. Two departures:
    - `mean` does not grow with the batch. Divided by all rows, the gradient keeps the direction of `sum`;
      divided by the hard ones, the last hard row would weigh as much as a batch of them.
    - Where a side is empty (before version 6: where it has one row), theirs takes the mean of the other side
      as threshold, and a batch of one pair gives 0. Here one row is a threshold like any other, and an empty
      side sets none (`hard_rows`): a single positive costs d², a single negative max(0, m − d)².
    """
    distances = 1 - full_precision(scores)
    is_positive = labels > 0.5
    costs = torch.where(is_positive, distances.square(), (margin - distances).relu().square())
    total = torch.where(hard_rows(distances.detach(), is_positive), costs, 0).sum()
    return total if reduction == "sum" else total / len(scores)


class OnlineContrastive(Loss):
    """`online_contrastive` of the cosine scores of labelled pairs.

    Defaults: the margin of sentence-transformers' OnlineContrastiveLoss, but the mean: see `online_contrastive`.

    Logs the share of hard rows, mean score of positives, of negatives, and the gap.
    """

    input_kinds = (Kind.LABELLED_PAIR,)
    consumes = "cosines"
    couples = True
    contrast = Contrast.CLASSES
    paper = "sentence-transformers, https://sbert.net/docs/package_reference/sentence_transformer/losses.html"
    choose_when = "0/1 pairs of which most are easy: only the hard ones of a batch count"

    margin: float | int = checked(0.5, number, low=0.0, open_low=True)
    reduction: str = checked("mean", choice, known=REDUCTIONS)

    def with_logs(self, scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> LossOutput:
        loss = online_contrastive(scores, targets, margin=self.margin, reduction=self.reduction)
        is_hard = hard_rows(1 - full_precision(scores.detach()), targets > 0.5)
        return loss, {"hard_share": is_hard.float().mean()} | label_gap(scores, targets)
