"""Margin ranking: of two rows, the one with the higher target shall score higher by a margin."""

import torch
from jaxtyping import Float
from torch import Tensor

from juzhen.core.examples import Kind
from juzhen.losses.arguments import checks_arguments
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.options import checked, number
from juzhen.losses.scores import full_precision, order_gap


@checks_arguments
def margin_ranking(
    scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"], *, margin: float = 0.2
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
    """`margin_ranking` of the model's scores. A job hands over NLI classes as the targets 1, 0.5 and 0.

    Default: a fifth of a unit of the cosine; torch.nn.MarginRankingLoss has 0, which equal scores satisfy.

    Logs the mean score of the rows whose target is above the batch's mean target, of the others, and the gap.
    """

    input_kinds = (Kind.SCORED_PAIR, Kind.LABELLED_PAIR, Kind.NLI_PAIR)
    consumes = "scores"
    couples = True
    contrast = Contrast.ORDER
    paper = "Herbrich et al. 2000"
    choose_when = "graded pairs, when pairs in the right order by a margin shall cost nothing"

    margin: float | int = checked(0.2, number, low=0.0)

    def with_logs(self, scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> LossOutput:
        loss = margin_ranking(scores, targets, margin=self.margin)
        return loss, order_gap(scores, targets)
