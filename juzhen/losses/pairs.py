"""Losses of labelled pairs: pairs with label 1 should score high, pairs with label 0 low."""

from typing import Annotated

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from juzhen.core.aliases import RENAMED_IN_LOSSES, accept_renamed
from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.core.schema import Among
from juzhen.losses.arguments import Cosine, Positive, Share, Temperature, Weight, checks_arguments
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.scores import full_precision, label_gap, row_cosine, sign_accuracy


class PairLoss(Loss):
    """Base of losses over cosines of labelled pairs. Logs the mean score of positives, of negatives, and the gap.

    Example:
        >>> class Hinge(PairLoss):
        ...     def with_logs(self, scores, targets):
        ...         return (1 - (2 * targets - 1) * scores).relu().mean(), {}
        >>> Hinge()(torch.tensor([0.75, 0.5]), torch.tensor([1.0, 0.0]))
        tensor(0.8750)
    """

    input_kinds = (Kind.LABELLED_PAIR,)
    input_type = "cosines"
    is_batchwise = False
    contrast = Contrast.CLASSES


@checks_arguments
def contrastive(
    scores: Float[Tensor, "batch"], labels: Float[Tensor, "batch"], *, margin: float = 0.5
) -> Float[Tensor, ""]:
    """Compute the contrastive loss: squared distance of positives, squared margin violation of negatives, halved.

    loss = (1/N) Σ ½ [y d² + (1 − y) max(0, m − d)²] with d = 1 − score. (Hadsell et al. 2006, equation 4) The paper
    writes Y = 0 for similar pairs and measures d in Euclidean space. Here 1 is similar and d is the cosine distance,
    in [0, 2].

    Args:
        scores: Cosine of each pair, (batch,).
        labels: 1 for positives, 0 for negatives, (batch,).
        margin: Distance beyond which a negative costs nothing.

    Returns:
        The scalar loss.

    Example:
        >>> contrastive(torch.tensor([0.9, 0.8]), torch.tensor([1.0, 0.0]))
        tensor(0.0250)
    """
    distances = 1 - full_precision(scores)
    pull = labels * distances.square()
    push = (1 - labels) * (margin - distances).relu().square()
    return 0.5 * (pull + push).mean()


class Contrastive(PairLoss):
    """Contrastive loss: pull positives together, push negatives beyond a margin.

    loss = (1/N) Σ ½ [y d² + (1 − y) max(0, m − d)²], d = 1 − cosine, see `contrastive`. Default margin: that of
    sentence-transformers' ContrastiveLoss.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | two texts | 0 or 1 | labelled_pair |

    Relations:
        `OnlineContrastive` keeps only the hard pairs of a batch. `CosineEmbeddingLoss` is linear in the cosine.

    Args:
        margin: Cosine distance beyond which a negative costs nothing.

    Example:
        >>> Contrastive(margin=0.5)(torch.tensor([0.9, 0.8]), torch.tensor([1.0, 0.0]))
        tensor(0.0250)
    """

    paper = "Hadsell et al. 2006, https://doi.org/10.1109/CVPR.2006.100"
    choose_when = "0/1 pairs in small batches, each pair by itself"

    margin: Positive = 0.5

    def with_logs(self, scores: Tensor, targets: Tensor) -> LossOutput:
        return contrastive(scores, targets, margin=self.margin), label_gap(scores, targets)


REDUCTIONS = ("mean", "sum")


def hard_rows(distances: Float[Tensor, "batch"], is_positive: Bool[Tensor, "batch"]) -> Bool[Tensor, "batch"]:
    """Find negatives closer than the farthest positive, and positives farther than the closest negative.

    A side without rows sets no threshold: all rows of the other side are then hard.

    Args:
        distances: (batch,).
        is_positive: (batch,).

    Returns:
        True for a hard row, (batch,).

    Example:
        >>> hard_rows(torch.tensor([0.1, 0.5, 0.3]), torch.tensor([True, True, False]))
        tensor([False,  True,  True])
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
    """Compute the contrastive cost of the hard rows of a batch.

    sum = Σ_hard y d² + (1 − y) max(0, m − d)², d = 1 − score. It equals OnlineContrastiveLoss of
    sentence-transformers, its source, wherever a batch has two positives and two negatives. There are two departures.

    - The mean does not grow with the batch. Divided by all rows, the gradient keeps the direction of the sum. Divided
      by the hard ones, the last hard row would weigh as much as a batch of them.
    - Where a side is empty (before version 6: where it has one row), theirs takes the mean of the other side as
      threshold, and a batch of one pair gives 0. Here one row is a threshold like any other, and an empty side sets
      none: a single positive costs d², a single negative max(0, m − d)².

    Args:
        scores: Cosine of each pair, (batch,).
        labels: 1 for positives, 0 for negatives, (batch,).
        margin: Cosine distance beyond which a negative costs nothing.
        reduction: "mean" divides the sum by the number of all rows, hard or not. "sum" does not.

    Returns:
        The scalar loss.

    Example:
        >>> online_contrastive(torch.tensor([0.9, 0.5, 0.7]), torch.tensor([1.0, 1.0, 0.0]))
        tensor(0.0967)
    """
    distances = 1 - full_precision(scores)
    is_positive = labels > 0.5
    costs = torch.where(is_positive, distances.square(), (margin - distances).relu().square())
    total = torch.where(hard_rows(distances.detach(), is_positive), costs, 0).sum()
    return total if reduction == "sum" else total / len(scores)


class OnlineContrastive(PairLoss):
    """Contrastive loss over the hard pairs of each batch.

    Hard are negatives closer than the farthest positive, and positives farther than the closest negative. See
    `online_contrastive`. Defaults: the margin of sentence-transformers' OnlineContrastiveLoss, but the mean. Logs the
    share of hard rows as well.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | two texts | 0 or 1 | labelled_pair |

    Relations:
        `Contrastive` uses all pairs.

    Args:
        margin: Cosine distance beyond which a negative costs nothing.
        reduction: "mean" over all rows, or "sum" as in sentence-transformers.

    Example:
        >>> OnlineContrastive()(torch.tensor([0.9, 0.3, 0.8]), torch.tensor([1.0, 1.0, 0.0]))
        tensor(0.1933)
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
    """Compute the mean of 1 − s over positives and of max(0, s − m) over negatives, s the cosine.

    Args:
        scores: Cosine of each pair, (batch,).
        labels: 1 for positives. −1, as for torch.nn.CosineEmbeddingLoss, or 0 for negatives.
        margin: Cosine below which a negative costs nothing.

    Returns:
        The scalar loss.

    Example:
        >>> cosine_embedding(torch.tensor([0.9, 0.8]), torch.tensor([1.0, 0.0]))
        tensor(0.4500)
    """
    scores = full_precision(scores)
    return torch.where(labels > 0, 1 - scores, (scores - margin).relu()).mean()


class CosineEmbeddingLoss(PairLoss):
    """Cosine embedding loss, called as torch.nn.CosineEmbeddingLoss: `loss(first, second, labels)`.

    loss = (1/N) Σ y (1 − s) + (1 − y) max(0, s − m), see `cosine_embedding`. Default: the margin of torch.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | two texts | 0 or 1 | labelled_pair |

    Relations:
        `Contrastive` squares the distances.

    Args:
        margin: Cosine below which a negative costs nothing.

    Example:
        >>> first, second = torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([[1.0, 1.0], [0.6, 0.8]])
        >>> CosineEmbeddingLoss()(first, second, torch.tensor([1.0, 0.0]))
        tensor(0.4464)
    """

    input_type = "embeddings"
    paper = "torch, https://docs.pytorch.org/docs/stable/generated/torch.nn.CosineEmbeddingLoss.html"
    choose_when = "0/1 pairs, as torch has it: a pull that does not fade as positives come close"

    margin: Cosine = 0.0

    def with_logs(self, first: Tensor, second: Tensor, targets: Tensor) -> LossOutput:
        scores = row_cosine(first, second)
        return cosine_embedding(scores, targets, margin=self.margin), label_gap(scores, targets)


NOTHING = -1e30
"""A finite logarithm whose exponential is 0. −∞ would make gradients NaN."""


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
    """Compute the circle loss over the labelled pairs of a batch.

    loss = log[1 + Σ_{n: y=0} exp(α_n (s_n − Δ_n)/τ) · Σ_{p: y=1} exp(−α_p (s_p − Δ_p)/τ)], α_p = max(0, 2 −
    Δ_p − s_p), α_n = max(0, s_n + Δ_n), both constants in the gradient, and both 1 without `weighted`. (Sun
    et al. 2020, section 3, https://arxiv.org/abs/2002.10857, where γ is 1/τ.) It is 0 when a batch has no
    positive or no negative.

    Δ_p and Δ_n are the goals: positives must pass the one, negatives must stay below the other. The paper ties them to
    one margin, Δ_p = 1 − m and Δ_n = m, where the weights are its 1 + m − s_p and s_n + m. With separate goals each
    weight mirrors its own: a positive's is 0 as far above a cosine of 1 as Δ_p is below, a negative's as far below 0
    as Δ_n is above.

    The paper compares, for one anchor, its similarities to all other samples. Here every labelled pair of the batch
    gives one score, positive or negative, as in Su (2020, https://kexue.fm/archives/7359). Without weights, and with
    Δ_p = Δ_n, that is CoSENT on 0/1 labels.

    Args:
        scores: Cosine of each pair, (batch,).
        labels: 1 for positives, 0 for negatives, (batch,).
        positive_goal: Δ_p.
        negative_goal: Δ_n.
        weighted: Weight scores by their distance from the goal.
        temperature: Divides the scores.

    Returns:
        The scalar loss.

    Example:
        >>> circle(torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0]))
        tensor(14.4000)
        >>> circle(torch.tensor([0.4, 0.6]), torch.tensor([1.0, 0.0]))
        tensor(32.0000)
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
    """Circle loss: pairs far from their goal pull harder.

    See `circle`. Defaults: the margin of 0.25 that the paper has for faces, at the scale of 80 that it has for
    retrieval.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | two texts | 0 or 1 | labelled_pair |

    Relations:
        `CoSENT` on 0/1 labels, when weighted=False and both goals are equal.

    Args:
        margin: Sets both goals, to 1 − margin and margin. None where both are given.
        positive_goal: Cosine that positives must pass. None: set by the margin.
        negative_goal: Cosine that negatives must stay below. None: set by the margin.
        weighted: Weight scores by their distance from the goal.
        temperature: Divides the scores.

    Raises:
        UserError: A margin and both goals, or neither.

    Example:
        >>> Circle()(torch.tensor([0.9, 0.8, 0.1]), torch.tensor([1.0, 0.0, 0.0]))
        tensor(42.0000)
    """

    is_batchwise = True
    is_ranking = True
    contrast = Contrast.ORDER
    paper = "Sun et al. 2020, https://arxiv.org/abs/2002.10857"
    choose_when = "0/1 pairs, where pairs far from their goal should pull harder than others"

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
            advice = "Type margin=0.25, or both goals" if is_open else "Type margin=null too"
            raise UserError(
                f"margin={margin}, positive_goal={high}, negative_goal={low}: expected a margin, which gives "
                f"the missing goals, or both goals. {advice}"
            )
        if margin is not None:
            self.positive_goal = 1 - margin if high is None else high
            self.negative_goal = margin if low is None else low

    def with_logs(self, scores: Tensor, targets: Tensor) -> LossOutput:
        goals = {"positive_goal": self.positive_goal, "negative_goal": self.negative_goal}
        loss = circle(scores, targets, **goals, weighted=self.weighted, temperature=self.temperature)
        return loss, label_gap(scores, targets)


@accept_renamed(RENAMED_IN_LOSSES)
@checks_arguments
def binary_cross_entropy(
    logits: Float[Tensor, "batch"],
    targets: Float[Tensor, "batch"],
    *,
    label_smoothing: float = 0.0,
    focal_gamma: float = 0.0,
) -> Float[Tensor, ""]:
    """Compute the binary cross entropy of the probability p = sigmoid(logit) for a target in [0, 1].

    loss = −(1/N) Σ ỹ (1 − p)^γ log p + (1 − ỹ) p^γ log(1 − p), with ỹ = (1 − ε) y + ε/2. All powers are taken of
    logarithms: large logits neither overflow nor lose their gradient to 0/0.

    Args:
        logits: One number per pair, (batch,).
        targets: Probability of each pair, (batch,).
        label_smoothing: ε, label smoothing (Szegedy et al. 2016, section 7, https://arxiv.org/abs/1512.00567, for two
            classes).
        focal_gamma: γ, focal loss (Lin et al. 2017, equation 4, https://arxiv.org/abs/1708.02002). 0 is the plain
            loss. The paper has 0/1 labels. For others each class counts by its share, as in the plain loss.

    Returns:
        The scalar loss.

    Example:
        >>> binary_cross_entropy(torch.tensor([2.0, -1.0]), torch.tensor([1.0, 0.0]))
        tensor(0.2201)
    """
    logits = full_precision(logits)
    soft = (1 - label_smoothing) * full_precision(targets) + label_smoothing / 2
    log_yes, log_no = F.logsigmoid(logits), F.logsigmoid(-logits)
    yes = (focal_gamma * log_no).exp() * log_yes
    no = (focal_gamma * log_yes).exp() * log_no
    return -(soft * yes + (1 - soft) * no).mean()


@accept_renamed(RENAMED_IN_LOSSES)
class BinaryCrossEntropy(Loss):
    """Binary cross entropy of score / temperature, the usual loss of a cross-encoder.

    A cross-encoder's score is a logit, and its temperature 1. With two nodes it is their difference: the softmax over
    two nodes is the sigmoid of it. A cosine becomes a logit by a temperature such as 0.05, with the border at 0. See
    `binary_cross_entropy`. Defaults: torch.nn.BCEWithLogitsLoss.

    Logs the accuracy on targets cut at 0.5, the mean score of positives, of negatives, and the gap.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | two texts | 0 or 1 | labelled_pair |
        | two texts | grade | scored_pair |

    Relations:
        `CoSENTAndBCE` adds a ranking term. `CrossEntropyError` adds the squared error of the probability.

    Args:
        temperature: Divides the scores.
        label_smoothing: Share of the target given to both classes alike.
        focal_gamma: Exponent of the focal loss. 0: the plain loss.

    Example:
        >>> BinaryCrossEntropy()(torch.tensor([2.0, -1.0]), torch.tensor([1.0, 0.0]))
        tensor(0.2201)
        >>> BinaryCrossEntropy(temperature=0.05)(torch.tensor([0.9, 0.1]), torch.tensor([1.0, 0.0]))  # cosines
        tensor(1.0635)
    """

    input_kinds = (Kind.LABELLED_PAIR, Kind.SCORED_PAIR)
    input_type = "scores"
    is_batchwise = False
    paper = "Lin et al. 2017 (focal), https://arxiv.org/abs/1708.02002"
    choose_when = "a cross-encoder on 0/1 pairs, where a probability is wanted"

    temperature: Temperature = 1.0
    label_smoothing: Share = 0.0
    focal_gamma: Weight = 0.0

    def with_logs(self, scores: Tensor, targets: Tensor) -> LossOutput:
        logits = full_precision(scores) / self.temperature
        loss = binary_cross_entropy(
            logits, targets, label_smoothing=self.label_smoothing, focal_gamma=self.focal_gamma
        )
        return loss, {"accuracy": sign_accuracy(logits, targets)} | label_gap(scores, targets)
