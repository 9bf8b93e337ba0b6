"""Triplets: the positive shall be closer to the anchor than a negative, by a margin."""

from typing import Annotated

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from juzhen.core.examples import Kind
from juzhen.core.schema import Among
from juzhen.losses.arguments import Weight, checks_arguments
from juzhen.losses.in_batch_negatives import batch_candidates, ranking_summary
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.scores import full_precision, mean_of_rows, mean_where, row_cosine


def row_nearness(
    first: Float[Tensor, "batch dim"], second: Float[Tensor, "batch dim"]
) -> Float[Tensor, "batch"]:
    """Negative Euclidean distance of each row of `first` to the same row of `second`: higher = closer."""
    distances: Tensor = torch.linalg.vector_norm(full_precision(first) - full_precision(second), dim=-1)
    return -distances


DISTANCES = {"cosine": row_cosine, "euclidean": row_nearness}


@checks_arguments
def triplet_margin(
    positive_scores: Float[Tensor, "batch"],
    negative_scores: Float[Tensor, "batch negatives"],
    *,
    margin: float | Float[Tensor, ""] = 0.2,
    missing: Bool[Tensor, "batch negatives"] | None = None,
) -> Float[Tensor, ""]:
    """Violation of the margin, averaged over the negatives of a row that are not `missing`, and then over rows.

    loss = mean of max(0, m + d(a, p) − d(a, n)). (Schroff et al. 2015, section 3.1, who square the distances; Reimers
    and Gurevych 2019, section 3, do not, nor does this.) Written in scores, higher = closer: d = 1 − cosine, or d =
    −score for the Euclidean distance; the 1 cancels.
    """
    costs = (margin + negative_scores - positive_scores[:, None]).relu()
    return costs.mean() if missing is None else mean_of_rows(costs, ~missing)


@torch.no_grad()
def adapted_margin(gap: Float[Tensor, ""], *, margin: float, share: float) -> Float[Tensor, ""]:
    """max(m, w · gap): the better positives and negatives are apart already, the farther apart they shall be.

    gap    mean score of the batch's positives less that of its negatives; NaN, where there are none, counts as 0
    share  w; 0 leaves the margin as it is

    (Chen et al. 2017, https://arxiv.org/abs/1704.01719, margin-based online hard negative mining, of squared distances
    and without m, so that the margin of a fresh model is about 0.)
    """
    return (share * gap.nan_to_num()).clamp(min=margin)


class TripletMargin(Loss):
    """`triplet_margin` of each row's own negatives; rows do not meet, unless the margin follows the batch.

    distance         cosine, or euclidean for encoders that do not normalize (choose a margin of its scale)
    adaptive_margin  see `adapted_margin`

    Defaults: the margin of Schroff et al. in units of the cosine. (sentence-transformers: Euclidean, 5.)

    Logs the share of triplets that violate the margin, and the mean score of positives and of negatives (for euclidean
    the negative distance), and a margin that follows the batch.
    """

    input_kinds = (Kind.TRIPLET,)
    input_type = "embeddings"
    is_batchwise = False
    contrast = Contrast.NEGATIVES
    paper = "Schroff et al. 2015, https://arxiv.org/abs/1503.03832"
    choose_when = "triplets in small batches, each row by itself"

    margin: Weight = 0.2
    distance: Annotated[str, Among(DISTANCES)] = "cosine"
    adaptive_margin: Weight = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.is_batchwise = self.adaptive_margin > 0

    def with_logs(
        self, anchors: Tensor, positives: Tensor, negatives: Tensor, *, text_ids: Tensor | None = None
    ) -> LossOutput:
        missing = None if text_ids is None else text_ids[:, 2:] < 0
        score = DISTANCES[self.distance]
        positive_scores = score(anchors, positives)
        negative_scores = torch.stack([score(anchors, text) for text in negatives.unbind(dim=1)], dim=-1)
        logs = {
            "positive_score": positive_scores.detach().mean(),
            "negative_score": negative_scores.detach().mean()
            if missing is None
            else mean_where(negative_scores, ~missing),
        }
        margin: float | Tensor = self.margin
        if self.adaptive_margin:
            gap = logs["positive_score"] - logs["negative_score"]
            margin = logs["margin"] = adapted_margin(gap, margin=self.margin, share=self.adaptive_margin)
        loss = triplet_margin(positive_scores, negative_scores, margin=margin, missing=missing)
        with torch.no_grad():
            violates = (margin + negative_scores > positive_scores[:, None]).float()
            share = violates.mean() if missing is None else mean_where(violates, ~missing)
        return loss, {"violating_share": share} | logs


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
    farther = of_negatives.masked_fill(scores >= scores.diagonal()[:, None], -torch.inf).amax(dim=1)
    farthest = scores.masked_fill(~is_negative, torch.inf).amin(dim=1)
    return torch.where(farther.isinf() & farthest.isfinite(), farthest, farther)


class TripletOnline(Loss):
    """`triplet_margin` of each pair and the one negative that `mined` chooses among the texts of the batch.

    Candidates are the positives of the other rows and all explicit negatives, but for known positives of the anchor
    (`juzhen.losses.in_batch_negatives.false_negatives`). A row that has no negative counts as one that costs nothing.

    mining           one of MINING
    margin           in units of the cosine
    adaptive_margin  see `adapted_margin`; its negatives are all candidates

    Defaults: the closest negative, and the margin of `TripletMargin`.

    Logs what `InfoNCE` logs of all candidates, the share of rows that violate the margin, and the margin.
    """

    input_kinds = (Kind.TRIPLET, Kind.POSITIVE_PAIR)
    input_type = "embeddings"
    is_batchwise = True
    contrast = Contrast.TEXTS
    paper = "Hermans et al. 2017, https://arxiv.org/abs/1703.07737"
    choose_when = "pairs or triplets in large batches, against the hardest text of the batch"

    mining: Annotated[str, Among(MINING)] = "batch_hard"
    margin: Weight = 0.2
    adaptive_margin: Weight = 0.0

    def with_logs(
        self,
        anchors: Tensor,
        positives: Tensor,
        negatives: Tensor | None = None,
        *,
        text_ids: Tensor | None = None,
    ) -> LossOutput:
        scores, excluded = batch_candidates(anchors, positives, negatives, text_ids)
        is_own = torch.eye(*scores.shape, dtype=torch.bool, device=scores.device)
        negative = mined(scores, ~excluded & ~is_own, mining=self.mining)[:, None]
        positive = scores.diagonal()
        logs = ranking_summary(scores, excluded, torch.arange(len(scores), device=scores.device))
        margin = adapted_margin(logs["score_gap"], margin=self.margin, share=self.adaptive_margin)
        violates = (margin + negative.detach() > positive.detach()[:, None]).float().mean()
        loss = triplet_margin(positive, negative, margin=margin)
        return loss, logs | {"violating_share": violates, "margin": margin}
