"""Losses of labelled pairs: those with label 1 shall score high, those with label 0 low."""

from typing import Annotated

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.core.schema import Among
from juzhen.losses.arguments import Cosine, Positive, Share, Temperature, Weight, checks_arguments
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.scores import full_precision, label_gap, row_cosine, sign_accuracy


class PairLoss(Loss):
    """A loss of the cosine scores of labelled pairs. Logs the mean score of positives, of negatives, and the gap."""

    input_kinds = (Kind.LABELLED_PAIR,)
    input_type = "cosines"
    is_batchwise = False
    contrast = Contrast.CLASSES


@checks_arguments
def contrastive(
    scores: Float[Tensor, "batch"], labels: Float[Tensor, "batch"], *, margin: float = 0.5
) -> Float[Tensor, ""]:
    """Squared distance of positives, squared violation of the margin by negatives, halved and averaged.

    loss = (1/N) Σ ½ [y d² + (1 − y) max(0, m − d)²] with d = 1 − score. (Hadsell et al. 2006, equation 4) The paper
    writes Y = 0 for similar pairs and measures d in Euclidean space; here 1 is similar and d is the cosine distance,
    in [0, 2].
    """
    distances = 1 - full_precision(scores)
    pull = labels * distances.square()
    push = (1 - labels) * (margin - distances).relu().square()
    return 0.5 * (pull + push).mean()


class Contrastive(PairLoss):
    """`contrastive` of the cosine scores of labelled pairs.

    Default: the margin of sentence-transformers' ContrastiveLoss.
    """

    paper = "Hadsell et al. 2006, https://doi.org/10.1109/CVPR.2006.100"
    choose_when = "0/1 pairs in small batches, each pair by itself"

    margin: Positive = 0.5

    def with_logs(self, scores: Tensor, targets: Tensor) -> LossOutput:
        return contrastive(scores, targets, margin=self.margin), label_gap(scores, targets)


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


class OnlineContrastive(PairLoss):
    """`online_contrastive` of the cosine scores of labelled pairs. Logs the share of hard rows, too.

    Defaults: the margin of sentence-transformers' OnlineContrastiveLoss, but the mean: see `online_contrastive`.
    """

    is_batchwise = True
    paper = "sentence-transformers, https://sbert.net/docs/package_reference/sentence_transformer/losses.html"
    choose_when = "0/1 pairs of which most are easy: only the hard ones of a batch count"

    margin: Positive = 0.5
    reduction: Annotated[str, Among(REDUCTIONS)] = "mean"

    def with_logs(self, scores: Tensor, targets: Tensor) -> LossOutput:
        loss = online_contrastive(scores, targets, margin=self.margin, reduction=self.reduction)
        is_hard = hard_rows(1 - full_precision(scores.detach()), targets > 0.5)
        return loss, {"hard_share": is_hard.float().mean()} | label_gap(scores, targets)


@checks_arguments
def cosine_embedding(
    scores: Float[Tensor, "batch"], labels: Float[Tensor, "batch"], *, margin: float = 0.0
) -> Float[Tensor, ""]:
    """Mean of 1 − s over positives and of max(0, s − m) over negatives, s the cosine.

    Positives have the label 1; negatives −1, as for torch.nn.CosineEmbeddingLoss, or 0.
    """
    scores = full_precision(scores)
    return torch.where(labels > 0, 1 - scores, (scores - margin).relu()).mean()


class CosineEmbeddingLoss(PairLoss):
    """`cosine_embedding` of labelled pairs, called as torch.nn.CosineEmbeddingLoss: `loss(first, second, labels)`.

    Default: the margin of torch.
    """

    input_type = "embeddings"
    paper = "torch, https://docs.pytorch.org/docs/stable/generated/torch.nn.CosineEmbeddingLoss.html"
    choose_when = "0/1 pairs, as torch has it: a pull that does not fade as positives come close"

    margin: Cosine = 0.0

    def with_logs(self, first: Tensor, second: Tensor, targets: Tensor) -> LossOutput:
        scores = row_cosine(first, second)
        return cosine_embedding(scores, targets, margin=self.margin), label_gap(scores, targets)


NOTHING = -1e30
"""A logarithm so low that its exponential is 0, and yet a number: −∞ would make gradients NaN."""


@checks_arguments
def circle(
    scores: Float[Tensor, "batch"],
    labels: Float[Tensor, "batch"],
    *,
    positive_goal: float = 0.6,
    negative_goal: float = 0.4,
    weighted: bool = True,
    temperature: float = 1 / 80,
) -> Float[Tensor, ""]:
    """Circle loss over the labelled pairs of a batch; 0 when it has no positive or no negative.

    loss = log[1 + Σ_{n: y=0} exp(α_n (s_n − Δ_n)/τ) · Σ_{p: y=1} exp(−α_p (s_p − Δ_p)/τ)], α_p = max(0, 2 − Δ_p −
    s_p), α_n = max(0, s_n + Δ_n), both taken as constants in the gradient; 1 and 1 where not `weighted`. (Sun et al.
    2020, section 3, https://arxiv.org/abs/2002.10857; their γ is 1/τ.)

    Δ_p, Δ_n are the goals: positives shall pass the one, negatives stay below the other. The paper ties them to one
    margin, Δ_p = 1 − m and Δ_n = m, where the weights are its 1 + m − s_p and s_n + m. With goals apart, each weight
    mirrors its own: a positive's is 0 as far above a cosine of 1 as Δ_p is below, a negative's as far below 0 as Δ_n
    is above.

    Which scores are compared: the paper takes, for one anchor, its similarities to all other samples. Here every
    labelled pair of the batch gives one score, positive or negative, as in Su's view of it (2020,
    https://kexue.fm/archives/7359). Without weights, and with Δ_p = Δ_n, that is CoSENT on 0/1 labels.
    """
    scores, is_positive = full_precision(scores), labels > 0.5
    pull, push = torch.ones_like(scores), torch.ones_like(scores)
    if weighted:
        values = scores.detach()
        pull, push = (2 - positive_goal - values).relu(), (values + negative_goal).relu()
    below = (-pull * (scores - positive_goal) / temperature).masked_fill(~is_positive, NOTHING)
    above = (push * (scores - negative_goal) / temperature).masked_fill(is_positive, NOTHING)
    return F.softplus(torch.logsumexp(below, dim=0) + torch.logsumexp(above, dim=0))


class Circle(PairLoss):
    """`circle` of the cosine scores of labelled pairs.

    margin         sets both goals, to 1 − margin and margin; None where both are given
    positive_goal  cosine that positives shall pass; None: as the margin says
    negative_goal  cosine that negatives shall stay below; None: as the margin says
    weighted       scores far from their goal are pulled harder

    Defaults: a margin of 0.25, which the paper has for faces, at the scale of 80 that it has for retrieval.
    """

    is_batchwise = True
    is_ranking = True
    contrast = Contrast.ORDER
    paper = "Sun et al. 2020, https://arxiv.org/abs/2002.10857"
    choose_when = "0/1 pairs, where pairs far from their goal shall pull harder than others"

    margin: Share | None = 0.25
    positive_goal: Cosine | None = None
    negative_goal: Cosine | None = None
    weighted: bool = True
    temperature: Temperature = 1 / 80

    def __post_init__(self) -> None:
        super().__post_init__()
        margin, high, low = self.margin, self.positive_goal, self.negative_goal
        is_open = high is None or low is None
        if is_open != (margin is not None):
            advice = "type margin=0.25, or both goals" if is_open else "type margin=null too"
            raise UserError(
                f"margin={margin}, positive_goal={high}, negative_goal={low}: expected a margin, which stands "
                f"for a goal that is null, or both goals; {advice}"
            )
        if margin is not None:
            self.positive_goal = 1 - margin if high is None else high
            self.negative_goal = margin if low is None else low

    def with_logs(self, scores: Tensor, targets: Tensor) -> LossOutput:
        goals = {"positive_goal": self.positive_goal, "negative_goal": self.negative_goal}
        loss = circle(scores, targets, **goals, weighted=self.weighted, temperature=self.temperature)
        return loss, label_gap(scores, targets)


@checks_arguments
def binary_cross_entropy(
    logits: Float[Tensor, "batch"],
    targets: Float[Tensor, "batch"],
    *,
    smoothing: float = 0.0,
    focal_gamma: float = 0.0,
) -> Float[Tensor, ""]:
    """Mean cost of the probability p = sigmoid(logit) for a target in [0, 1].

    loss = −(1/N) Σ ỹ (1 − p)^γ log p + (1 − ỹ) p^γ log(1 − p), with ỹ = (1 − ε) y + ε/2.
    ε  label smoothing (Szegedy et al. 2016, section 7, https://arxiv.org/abs/1512.00567, for two classes)
    γ  focal loss (Lin et al. 2017, equation 4, https://arxiv.org/abs/1708.02002); 0 is the plain loss. The
       paper has 0/1 labels; for others each class counts by its share, as in the plain loss

    All powers are taken of logarithms: large logits neither overflow nor lose their gradient to 0/0.
    """
    logits = full_precision(logits)
    soft = (1 - smoothing) * full_precision(targets) + smoothing / 2
    log_yes, log_no = F.logsigmoid(logits), F.logsigmoid(-logits)
    yes = (focal_gamma * log_no).exp() * log_yes
    no = (focal_gamma * log_yes).exp() * log_no
    return -(soft * yes + (1 - soft) * no).mean()


class BinaryCrossEntropy(Loss):
    """`binary_cross_entropy` of score / temperature: what a cross-encoder is usually trained with.

    A cross-encoder's score is a logit (with two nodes, their difference: the softmax over two nodes is the sigmoid of
    it), and its temperature 1. A cosine becomes one by a temperature such as 0.05, with the border at 0.

    Defaults: the plain loss of a logit, as torch.nn.BCEWithLogitsLoss.

    Logs the accuracy on targets cut at 0.5, mean score of positives, of negatives, and the gap.
    """

    input_kinds = (Kind.LABELLED_PAIR, Kind.SCORED_PAIR)
    input_type = "scores"
    is_batchwise = False
    paper = "Lin et al. 2017 (focal), https://arxiv.org/abs/1708.02002"
    choose_when = "a cross-encoder on 0/1 pairs, where a probability is wanted"

    temperature: Temperature = 1.0
    smoothing: Share = 0.0
    focal_gamma: Weight = 0.0

    def with_logs(self, scores: Tensor, targets: Tensor) -> LossOutput:
        logits = full_precision(scores) / self.temperature
        loss = binary_cross_entropy(logits, targets, smoothing=self.smoothing, focal_gamma=self.focal_gamma)
        return loss, {"accuracy": sign_accuracy(logits, targets)} | label_gap(scores, targets)
