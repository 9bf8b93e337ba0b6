"""Online triplets: the batch itself gives each pair the negative that it is held against."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from juzhen.core.examples import Kind
from juzhen.losses.info_nce import batch_candidates, ranking_summary
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.options import checked, choice, number
from juzhen.losses.triplet import adapted_margin, triplet_margin

MINING = ("batch_hard", "semi_hard")


def mined(
    scores: Float[Tensor, "batch candidates"],
    is_negative: Bool[Tensor, "batch candidates"],
    *,
    mining: str,
) -> Float[Tensor, "batch"]:
    """Score of the negative that row i, whose positive is candidate i, is held against; −inf where it has none.

    batch_hard  the closest one (Hermans et al. 2017, equation 5, https://arxiv.org/abs/1703.07737)
    semi_hard   the closest one of those that are farther away than the positive (Schroff et al. 2015, section 3.2,
                https://arxiv.org/abs/1503.03832). Where all are closer, a case that they leave open, the farthest
    """
    of_negatives = scores.masked_fill(~is_negative, -torch.inf)
    if mining == "batch_hard":
        return of_negatives.amax(dim=1)
    own = scores.diagonal()[:, None]
    farther = of_negatives.masked_fill(scores >= own, -torch.inf).amax(dim=1)
    farthest = scores.masked_fill(~is_negative, torch.inf).amin(dim=1)
    return torch.where(farther.isinf() & farthest.isfinite(), farthest, farther)


class TripletOnline(Loss):
    """`triplet_margin` of each pair and the one negative that `mined` chooses among the texts of the batch.

    Candidates are the positives of the other rows and all explicit negatives, but for known positives of the anchor
    (`juzhen.losses.info_nce.false_negatives`). A row that has no negative counts as one that costs nothing.

    mining           one of MINING
    margin           in units of the cosine
    adaptive_margin  see `juzhen.losses.triplet.adapted_margin`; its negatives are all candidates

    Defaults: the closest negative, and the margin of `TripletMargin`.

    Logs what `InfoNCE` logs of all candidates, the share of rows that violate the margin, and the margin.
    """

    input_kinds = (Kind.TRIPLET, Kind.POSITIVE_PAIR)
    consumes = "embeddings"
    couples = True
    contrast = Contrast.TEXTS
    paper = "Hermans et al. 2017, https://arxiv.org/abs/1703.07737"
    choose_when = "pairs or triplets in large batches, against the hardest text of the batch"

    mining: str = checked("batch_hard", choice, known=MINING)
    margin: float | int = checked(0.2, number, low=0.0)
    adaptive_margin: float | int = checked(0.0, number, low=0.0)

    def with_logs(
        self,
        anchors: Float[Tensor, "batch dim"],
        positives: Float[Tensor, "batch dim"],
        negatives: Float[Tensor, "batch negatives dim"] | None = None,
        *,
        text_ids: Int[Tensor, "batch texts"] | None = None,
    ) -> LossOutput:
        scores, excluded = batch_candidates(anchors, positives, negatives, text_ids)
        is_own = torch.eye(*scores.shape, dtype=torch.bool, device=scores.device)
        negative = mined(scores, ~excluded & ~is_own, mining=self.mining)[:, None]
        own = scores.diagonal()
        logs = ranking_summary(scores, excluded, torch.arange(len(scores), device=scores.device))
        margin = adapted_margin(logs["score_gap"], margin=self.margin, share=self.adaptive_margin)
        violates = (margin + negative.detach() > own.detach()[:, None]).float().mean()
        loss = triplet_margin(own, negative, margin=margin)
        return loss, logs | {"violating_share": violates, "margin": margin}
