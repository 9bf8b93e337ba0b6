"""Margin ranking: of two rows, the one with the higher target shall score higher by a margin."""

import torch
from jaxtyping import Float
from torch import Tensor

from juzhen.core.batch import Encoded
from juzhen.core.examples import Kind
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.options import number
from juzhen.losses.scores import full_precision, graded_targets, score_gap


def margin_ranking(
    scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"], *, margin: float
) -> Float[Tensor, ""]:
    """Violation of the margin, averaged over all pairs of rows whose targets differ; 0 when there is none.

    loss = mean of max(0, m − (s_i − s_j)) over y_i > y_j. (Herbrich et al. 2000, the hinge of ranking SVMs;
    Burges et al. 2005, https://doi.org/10.1145/1102351.1102363, take the logistic loss instead)

    Which pairs violate depends on two orders at once, so unlike CoSENT's sum this one is written out: N² numbers,
    4 MB for a batch of 1,000 rows.
    """
    scores = full_precision(scores)
    is_pair = targets[:, None] > targets
    violations = (margin - scores[:, None] + scores).relu()
    return torch.where(is_pair, violations, 0).sum() / is_pair.sum().clamp(min=1)


class MarginRanking(Loss):
    """`margin_ranking` of the model's scores. NLI classes count as the grades 1, 0.5 and 0.

    Logs the mean score of the rows whose target is above the batch's mean target, of the others, and the gap.
    """

    takes = (Kind.SCORED_PAIR, Kind.LABELLED_PAIR, Kind.NLI_PAIR)
    reads = "scores"
    couples = True
    contrast = Contrast.ORDER

    def __init__(self, *, margin: float | int) -> None:
        super().__init__()
        self.margin = number("loss.margin", margin, low=0.0)

    def forward(self, encoded: Encoded) -> LossOutput:
        targets = graded_targets(encoded)
        is_upper = targets > targets.mean()
        loss = margin_ranking(encoded.scores, targets, margin=self.margin)
        return loss, score_gap(encoded.scores, is_upper, ~is_upper)
