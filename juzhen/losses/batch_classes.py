"""Texts with classes, compared within a batch: those of one class are positives of each other, all others negatives.

A text whose class is in the batch once has no positive. It is a negative of others, and costs nothing itself, but for
`MultiSimilarity`, whose two parts do not need each other.
"""

from abc import abstractmethod
from typing import Annotated

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from juzhen.core.examples import Kind
from juzhen.core.schema import Among
from juzhen.losses.arguments import Cosine, Temperature, Weight, checks_arguments
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.scores import all_cosines, full_precision, score_gap


def _same_and_other(
    classes: Float[Tensor, "batch"],
) -> tuple[Bool[Tensor, "batch batch"], Bool[Tensor, "batch batch"]]:
    """Find texts of the same class, without the text itself, and texts of other classes."""
    same = classes[:, None] == classes
    return same & ~torch.eye(len(classes), dtype=torch.bool, device=classes.device), ~same


def _mean_of_counted(costs: Float[Tensor, "batch"], counts: Bool[Tensor, "batch"]) -> Float[Tensor, ""]:
    """Mean of the rows that count. Without such rows 0, with zero gradient."""
    return torch.where(counts, costs, 0).sum() / counts.sum().clamp(min=1)


def _negative_distances(
    first: Float[Tensor, "batch dim"], second: Float[Tensor, "candidates dim"]
) -> Float[Tensor, "batch candidates"]:
    """Negative Euclidean distance of every text to every other: higher = closer."""
    with torch.autocast(first.device.type, enabled=False):
        exact = "donot_use_mm_for_euclid_dist"
        return -torch.cdist(full_precision(first), full_precision(second), compute_mode=exact)


SCORES = {"cosine": all_cosines, "euclidean": _negative_distances}


class BatchClassLoss(Loss):
    """Base of losses over all texts of a batch and their classes.

    Logs the mean score within classes, between classes, and the gap.

    Example:
        >>> class Centred(BatchClassLoss):
        ...     def cost(self, scores, classes):
        ...         return (classes[:, None] != classes).float().mul(scores).mean()
        >>> Centred()(torch.eye(2), torch.tensor([0.0, 1.0]))
        tensor(0.)
    """

    input_kinds = (Kind.LABELLED_TEXT,)
    input_type = "embeddings"
    is_batchwise = True

    def with_logs(self, embeddings: Tensor, classes: Tensor) -> LossOutput:
        scores = self.scores(embeddings)
        return self.cost(scores, classes), score_gap(scores, *_same_and_other(classes))

    def scores(self, embeddings: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch batch"]:
        """Score of each text with each.

        Args:
            embeddings: Embeddings, (rows, dim).

        Returns:
            Scores, (batch, batch).
        """
        return all_cosines(embeddings, embeddings)

    @abstractmethod
    def cost(self, scores: Float[Tensor, "batch batch"], classes: Float[Tensor, "batch"]) -> Tensor:
        """The scalar.

        Args:
            scores: Output of `scores`.
            classes: Class index of each text.

        Returns:
            The loss.
        """


@checks_arguments
def sup_con(
    scores: Float[Tensor, "batch batch"], classes: Float[Tensor, "batch"], *, temperature: float = 0.1
) -> Float[Tensor, ""]:
    """Compute the cross entropy of finding each text of one's class among all other texts of the batch.

    loss = mean over i of −(1/|P_i|) Σ_{p in P_i} log [exp(s_ip/τ) / Σ_{k≠i} exp(s_ik/τ)], P_i the other texts of the
    class of i. (Khosla et al. 2020, equation 2, L_out, https://arxiv.org/abs/2004.11362)

    Args:
        scores: Score of each text with each, (batch, batch).
        classes: Class numbers as floats, (batch,).
        temperature: τ, divides the scores.

    Returns:
        The scalar loss.

    Example:
        >>> scores = torch.tensor([[1.0, 0.3, 0.6], [0.3, 1.0, 0.2], [0.6, 0.2, 1.0]])
        >>> sup_con(scores, torch.tensor([0.0, 0.0, 1.0]))
        tensor(1.6809)
    """
    same, _ = _same_and_other(classes)
    is_own = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    log_shares = (scores / temperature).masked_fill(is_own, -torch.inf).log_softmax(dim=1)
    costs = -torch.where(same, log_shares, 0).sum(dim=1) / same.sum(dim=1).clamp(min=1)
    return _mean_of_counted(costs, same.any(dim=1))


class SupCon(BatchClassLoss):
    """Supervised contrastive loss of texts with classes.

    See `sup_con`. Default: the temperature of the paper.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | one text | class | labelled_text |

    Relations:
        `NTXent` when each class has two texts. `Prototype` learns one vector per class instead.

    Args:
        temperature: Divides the cosines.

    Example:
        >>> SupCon()(torch.eye(4) + 2, torch.tensor([0.0, 0.0, 1.0, 1.0]))
        tensor(1.0986)
    """

    contrast = Contrast.CLASSES
    paper = "Khosla et al. 2020, https://arxiv.org/abs/2004.11362"
    choose_when = "texts with classes without a classifier, in large batches with several texts of each class"

    temperature: Temperature = 0.1

    def cost(self, scores: Float[Tensor, "batch batch"], classes: Float[Tensor, "batch"]) -> Tensor:
        return sup_con(scores, classes, temperature=self.temperature)


@checks_arguments
def multi_similarity(
    scores: Float[Tensor, "batch batch"],
    classes: Float[Tensor, "batch"],
    *,
    positive_temperature: float = 1 / 2,
    negative_temperature: float = 1 / 50,
    border: float = 0.5,
) -> Float[Tensor, ""]:
    """Compute the multi-similarity loss: texts of the own class above a border, all others below it.

    loss = (1/N) Σ_i τ_p log(1 + Σ_{p in P_i} exp((λ − s_ip)/τ_p)) + τ_n log(1 + Σ_{n in N_i} exp((s_in − λ)/τ_n)). The
    farthest off weigh most. (Wang et al. 2019, equation 15, https://arxiv.org/abs/1904.06627, whose α and β are 1/τ_p
    and 1/τ_n. The choice of pairs of equations 10 and 11 is left out.)

    Args:
        scores: Score of each text with each, (batch, batch).
        classes: Class numbers as floats, (batch,).
        positive_temperature: τ_p.
        negative_temperature: τ_n.
        border: λ.

    Returns:
        The scalar loss.

    Example:
        >>> scores = torch.tensor([[1.0, 0.3, 0.6], [0.3, 1.0, 0.2], [0.6, 0.2, 1.0]])
        >>> multi_similarity(scores, torch.tensor([0.0, 0.0, 1.0]))
        tensor(0.3711)
    """

    def part(logits: Tensor, counts: Tensor) -> Tensor:
        logits = logits.masked_fill(~counts, -torch.inf)
        return torch.cat([torch.zeros_like(logits[:, :1]), logits], dim=1).logsumexp(dim=1)

    same, other = _same_and_other(classes)
    near = part((border - scores) / positive_temperature, same) * positive_temperature
    far = part((scores - border) / negative_temperature, other) * negative_temperature
    return (near + far).mean()


class MultiSimilarity(BatchClassLoss):
    """Multi-similarity loss: the hardest pairs of a batch count most.

    See `multi_similarity`. Defaults: α = 2, β = 50 as in the paper, and the border of 0.5 of pytorch-metric-learning.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | one text | class | labelled_text |

    Relations:
        `SupCon` has one softmax over both sides.

    Args:
        positive_temperature: 1/α of the paper.
        negative_temperature: 1/β of the paper.
        border: Cosine that positives must exceed and negatives must stay below.

    Example:
        >>> MultiSimilarity()(torch.eye(4) + 2, torch.tensor([0.0, 0.0, 1.0, 1.0]))
        tensor(0.6361)
    """

    contrast = Contrast.CLASSES
    paper = "Wang et al. 2019, https://arxiv.org/abs/1904.06627"
    choose_when = "texts with many classes, when the hardest pairs of a batch should count most"

    positive_temperature: Temperature = 1 / 2
    negative_temperature: Temperature = 1 / 50
    border: Cosine = 0.5

    def cost(self, scores: Float[Tensor, "batch batch"], classes: Float[Tensor, "batch"]) -> Tensor:
        return multi_similarity(
            scores,
            classes,
            positive_temperature=self.positive_temperature,
            negative_temperature=self.negative_temperature,
            border=self.border,
        )


@checks_arguments
def batch_all(
    scores: Float[Tensor, "batch batch"], classes: Float[Tensor, "batch"], *, margin: float = 0.2
) -> Float[Tensor, ""]:
    """Compute the mean margin violation over the violating triplets of the batch.

    loss = mean of m + s_an − s_ap over all a, p of the class of a and n of another where it is above 0, and 0 if none
    is. (Hermans et al. 2017, L_BA≠0 of section 2, https://arxiv.org/abs/1703.07737)

    Args:
        scores: Score of each text with each, (batch, batch).
        classes: Class numbers as floats, (batch,).
        margin: m.

    Returns:
        The scalar loss.

    Example:
        >>> scores = torch.tensor([[1.0, 0.3, 0.6], [0.3, 1.0, 0.2], [0.6, 0.2, 1.0]])
        >>> batch_all(scores, torch.tensor([0.0, 0.0, 1.0]))  # text 0 is nearer to text 2, of another class
        tensor(0.3000)
    """
    same, other = _same_and_other(classes)
    anchors, positives = same.nonzero(as_tuple=True)
    costs = (margin + scores[anchors] - scores[anchors, positives, None]).relu() * other[anchors]
    return costs.sum() / (costs > 0).sum().clamp(min=1)


class BatchAllTriplet(BatchClassLoss):
    """Triplet loss over all triplets in a batch of texts with classes.

    See `batch_all`. Defaults: as `TripletMargin`. (sentence-transformers: Euclidean, 5.)

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | one text | class | labelled_text |

    Relations:
        `SoftMarginTriplet` takes the hardest triplet of each text.

    Args:
        margin: Required gap of the scores.
        distance: "cosine", or "euclidean" for encoders that do not normalize (choose a margin of its scale).

    Example:
        >>> BatchAllTriplet()(torch.eye(4) + 2, torch.tensor([0.0, 0.0, 1.0, 1.0]))
        tensor(0.2000)
    """

    contrast = Contrast.ORDER
    paper = "Hermans et al. 2017, https://arxiv.org/abs/1703.07737"
    choose_when = "texts with classes in small batches, when labels may be wrong: no single text decides"

    margin: Weight = 0.2
    distance: Annotated[str, Among(SCORES)] = "cosine"

    def scores(self, embeddings: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch batch"]:
        return SCORES[self.distance](embeddings, embeddings)

    def cost(self, scores: Float[Tensor, "batch batch"], classes: Float[Tensor, "batch"]) -> Tensor:
        return batch_all(scores, classes, margin=self.margin)


@checks_arguments
def soft_margin(
    scores: Float[Tensor, "batch batch"], classes: Float[Tensor, "batch"], *, temperature: float = 1.0
) -> Float[Tensor, ""]:
    """Compute the soft-margin loss of the nearest text of another class against the farthest of the own.

    loss = mean over a of log(1 + exp((max_n s_an − min_p s_ap)/τ)), p of the class of a and n of another, over texts
    that have both. (Hermans et al. 2017, equation 5 with the soft margin of section 3.2,
    https://arxiv.org/abs/1703.07737)

    Args:
        scores: Score of each text with each, (batch, batch).
        classes: Class numbers as floats, (batch,).
        temperature: τ, divides differences of scores.

    Returns:
        The scalar loss.

    Example:
        >>> scores = torch.tensor([[1.0, 0.3, 0.6], [0.3, 1.0, 0.2], [0.6, 0.2, 1.0]])
        >>> soft_margin(scores, torch.tensor([0.0, 0.0, 1.0]))
        tensor(0.7494)
    """
    same, other = _same_and_other(classes)
    has_both = same.any(dim=1) & other.any(dim=1)
    farthest = scores.masked_fill(~same, torch.inf).amin(dim=1)
    nearest = scores.masked_fill(~other, -torch.inf).amax(dim=1)
    gaps = torch.where(has_both, nearest, 0) - torch.where(has_both, farthest, 0)
    return _mean_of_counted(F.softplus(gaps / temperature), has_both)


class SoftMarginTriplet(BatchClassLoss):
    """Soft-margin triplet loss of the hardest triplet of each text (batch hard).

    See `soft_margin`. Default: differences of cosines at the scale of 20 of `CoSENT`. BatchHardSoftMarginTripletLoss
    of sentence-transformers is distance="euclidean" with temperature=1, where each text has others of its class and of
    another. A temperature τ makes gradients up to 1/τ times as long as theirs, so a learning rate for one does not
    suit the other.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | one text | class | labelled_text |

    Relations:
        `BatchAllTriplet` averages over all violating triplets.

    Args:
        temperature: Divides differences of scores.
        distance: "cosine" or "euclidean".

    Example:
        >>> SoftMarginTriplet()(torch.eye(4) + 2, torch.tensor([0.0, 0.0, 1.0, 1.0]))
        tensor(0.6931)
    """

    contrast = Contrast.ORDER
    paper = "Hermans et al. 2017, https://arxiv.org/abs/1703.07737"
    choose_when = "texts with clean classes, against the hardest of the batch, without a margin to choose"

    temperature: Temperature = 0.05
    distance: Annotated[str, Among(SCORES)] = "cosine"

    def scores(self, embeddings: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch batch"]:
        return SCORES[self.distance](embeddings, embeddings)

    def cost(self, scores: Float[Tensor, "batch batch"], classes: Float[Tensor, "batch"]) -> Tensor:
        return soft_margin(scores, classes, temperature=self.temperature)
