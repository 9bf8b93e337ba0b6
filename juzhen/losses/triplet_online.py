"""Online triplets: the batch itself gives each pair the negative that it is held against."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from juzhen.core.batch import Encoded
from juzhen.core.examples import Kind
from juzhen.losses.info_nce import batch_candidates, ranking_summary
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.options import choice, number
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

    Logs what `InfoNCE` logs of all candidates, the share of rows that violate the margin, and the margin.
    """

    takes = (Kind.TRIPLET, Kind.POSITIVE_PAIR)
    reads = "embeddings"
    couples = True
    contrast = Contrast.TEXTS

    def __init__(self, *, mining: str, margin: float | int, adaptive_margin: float | int) -> None:
        super().__init__()
        self.mining = choice("loss.mining", mining, MINING)
        self.margin = number("loss.margin", margin, low=0.0)
        self.adaptive_margin = number("loss.adaptive_margin", adaptive_margin, low=0.0)

    def forward(self, encoded: Encoded) -> LossOutput:
        scores, excluded = batch_candidates(encoded)
        is_own = torch.eye(*scores.shape, dtype=torch.bool, device=scores.device)
        negative = mined(scores, ~excluded & ~is_own, mining=self.mining)[:, None]
        own = scores.diagonal()
        logs = ranking_summary(scores, excluded, torch.arange(len(scores), device=scores.device))
        margin = adapted_margin(logs["score_gap"], margin=self.margin, share=self.adaptive_margin)
        violates = (margin + negative.detach() > own.detach()[:, None]).float().mean()
        loss = triplet_margin(own, negative, margin=margin)
        return loss, logs | {"violating_share": violates, "margin": margin}
