"""Triplets: the positive should be closer to the anchor than a negative, by a margin."""

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


def _row_nearness(
    first: Float[Tensor, "batch dim"], second: Float[Tensor, "batch dim"]
) -> Float[Tensor, "batch"]:
    """Negative Euclidean distance of each row of `first` to the same row of `second`: higher = closer."""
    distances: Tensor = torch.linalg.vector_norm(full_precision(first) - full_precision(second), dim=-1)
    return -distances


DISTANCES = {"cosine": row_cosine, "euclidean": _row_nearness}


@checks_arguments
def triplet_margin(
    positive_scores: Float[Tensor, "batch"],
    negative_scores: Float[Tensor, "batch negatives"],
    *,
    margin: float | Float[Tensor, ""] = 0.2,
    missing: Bool[Tensor, "batch negatives"] | None = None,
) -> Float[Tensor, ""]:
    """Compute the mean margin violation over the negatives of each row, and then over rows.

    loss = mean of max(0, m + d(a, p) − d(a, n)). (Schroff et al. 2015, section 3.1, who square the distances.
    Reimers and Gurevych 2019, section 3, do not, nor does this.) Written in scores, higher = closer: d = 1 −
    cosine, or d = −score for the Euclidean distance. The 1 cancels.

    Args:
        positive_scores: Score of each anchor with its positive, (batch,).
        negative_scores: Scores of each anchor with its negatives, (batch, negatives).
        margin: m.
        missing: True for a negative that its row lacks, (batch, negatives).

    Returns:
        The scalar loss.

    Example:
        >>> triplet_margin(torch.tensor([0.9, 0.5]), torch.tensor([[0.8], [0.1]]), margin=0.2)
        tensor(0.0500)
    """
    costs = (margin + negative_scores - positive_scores[:, None]).relu()
    return costs.mean() if missing is None else mean_of_rows(costs, ~missing)


@torch.no_grad()
def adapted_margin(gap: Float[Tensor, ""], *, margin: float, share: float) -> Float[Tensor, ""]:
    """Return the margin max(m, w · gap): it grows as positives and negatives move apart.

    (Chen et al. 2017, https://arxiv.org/abs/1704.01719, margin-based online hard negative mining, of squared distances
    and without m, so that the margin of a fresh model is about 0.)

    Args:
        gap: Mean positive score minus mean negative score of the batch. NaN counts as 0.
        margin: m.
        share: w. 0 keeps the margin.

    Returns:
        The scalar margin.

    Example:
        >>> adapted_margin(torch.tensor(0.6), margin=0.1, share=0.5)
        tensor(0.3000)
        >>> adapted_margin(torch.tensor(0.0), margin=0.1, share=0.5)
        tensor(0.1000)
    """
    return (share * gap.nan_to_num()).clamp(min=margin)


class TripletMargin(Loss):
    """Triplet margin loss of each row's own negatives.

    loss = mean of max(0, m + s(a, n) − s(a, p)), see `triplet_margin`. Rows are independent unless the margin follows
    the batch. Default: the margin of Schroff et al. in units of the cosine. (sentence-transformers: Euclidean, 5.)

    Logs the share of violating triplets, the mean score of positives and of negatives (for euclidean the negative
    distance), and an adaptive margin.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | anchor, positive, negatives | – | triplet |

    Relations:
        `TripletOnline` takes the hardest text of the batch. `InfoNCEOwn` compares all negatives of a row at once.

    Args:
        margin: Required gap of the scores.
        distance: "cosine", or "euclidean" for encoders that do not normalize (choose a margin of its scale).
        adaptive_margin: Share of the batch's gap, see `adapted_margin`.

    Example:
        >>> anchors, positives = torch.eye(3), torch.eye(3) + 2
        >>> negatives = torch.ones(3, 1, 3)  # (batch, negatives, dim)
        >>> TripletMargin()(anchors, positives, negatives)
        tensor(0.0497)
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
    """Return the score of the negative mined for row i, whose positive is candidate i. −inf if it has none.

    Args:
        scores: Score of each anchor with each candidate, (batch, candidates).
        is_negative: True for a negative, (batch, candidates).
        mining: "batch_hard": the closest one (Hermans et al. 2017, equation 5, https://arxiv.org/abs/1703.07737).
            "semi_hard": the closest one that is farther away than the positive (Schroff et al. 2015, section 3.2,
            https://arxiv.org/abs/1503.03832), or the farthest if all are closer, which they leave open.

    Returns:
        Scores, (batch,).

    Example:
        >>> scores = torch.tensor([[0.7, 0.9, 0.4], [0.1, 0.8, 0.5], [0.2, 0.3, 0.6]])  # positives on the diagonal
        >>> mined(scores, ~torch.eye(3, dtype=torch.bool), mining="batch_hard")
        tensor([0.9000, 0.5000, 0.3000])
        >>> mined(scores, ~torch.eye(3, dtype=torch.bool), mining="semi_hard")
        tensor([0.4000, 0.5000, 0.3000])
    """
    of_negatives = scores.masked_fill(~is_negative, -torch.inf)
    if mining == "batch_hard":
        return of_negatives.amax(dim=1)
    farther = of_negatives.masked_fill(scores >= scores.diagonal()[:, None], -torch.inf).amax(dim=1)
    farthest = scores.masked_fill(~is_negative, torch.inf).amin(dim=1)
    return torch.where(farther.isinf() & farthest.isfinite(), farthest, farther)


class TripletOnline(Loss):
    """Triplet margin loss against one mined negative of the batch.

    Candidates are the positives of the other rows and all explicit negatives, except known positives of the anchor
    (`false_negatives`). A row without a negative counts as one that costs nothing. Defaults: the closest negative, and
    the margin of `TripletMargin`.

    batch_hard takes the closest negative (Hermans et al. 2017, equation 5). semi_hard takes the closest one that is
    farther away than the positive (Schroff et al. 2015, section 3.2). If all are closer, which they leave open, it
    takes the farthest.

    Logs what `InfoNCE` logs of all candidates, the share of violating rows, and the margin.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | anchor, positive, negatives | – | triplet |
        | anchor, positive | – | positive_pair |

    Relations:
        `TripletMargin` keeps to the row's own negatives. `InfoNCE` uses all candidates.

    Args:
        mining: "batch_hard" or "semi_hard".
        margin: Required gap of the cosines.
        adaptive_margin: Share of the batch's gap, see `adapted_margin`. Its negatives are all candidates.

    Example:
        >>> TripletOnline(margin=0.3)(torch.eye(3), torch.eye(3) + 2)
        tensor(0.0575)
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
