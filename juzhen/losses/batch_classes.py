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


def same_and_other(
    classes: Float[Tensor, "batch"],
) -> tuple[Bool[Tensor, "batch batch"], Bool[Tensor, "batch batch"]]:
    """Which texts are of the class of each text, itself left out; and which are of another."""
    same = classes[:, None] == classes
    return same & ~torch.eye(len(classes), dtype=torch.bool, device=classes.device), ~same


def mean_of_rows(costs: Float[Tensor, "batch"], counts: Bool[Tensor, "batch"]) -> Float[Tensor, ""]:
    """Mean of the rows that count; 0 with zero gradient where none does."""
    return torch.where(counts, costs, 0).sum() / counts.sum().clamp(min=1)


def all_nearness(
    first: Float[Tensor, "batch dim"], second: Float[Tensor, "candidates dim"]
) -> Float[Tensor, "batch candidates"]:
    """Negative Euclidean distance of every text to every other: higher = closer."""
    with torch.autocast(first.device.type, enabled=False):
        exact = "donot_use_mm_for_euclid_dist"
        return -torch.cdist(full_precision(first), full_precision(second), compute_mode=exact)


SCORES = {"cosine": all_cosines, "euclidean": all_nearness}


class BatchClassLoss(Loss):
    """A loss over the texts of a batch and their classes. Logs the mean score within classes, between, and the gap."""

    input_kinds = (Kind.LABELLED_TEXT,)
    input_type = "embeddings"
    is_batchwise = True

    def with_logs(self, embeddings: Tensor, classes: Tensor) -> LossOutput:
        scores = self.scores(embeddings)
        return self.cost(scores, classes), score_gap(scores, *same_and_other(classes))

    def scores(self, embeddings: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch batch"]:
        """Score of each text with each."""
        return all_cosines(embeddings, embeddings)

    @abstractmethod
    def cost(self, scores: Float[Tensor, "batch batch"], classes: Float[Tensor, "batch"]) -> Tensor:
        """The scalar."""


@checks_arguments
def sup_con(
    scores: Float[Tensor, "batch batch"], classes: Float[Tensor, "batch"], *, temperature: float = 0.1
) -> Float[Tensor, ""]:
    """Cross entropy of finding each text of one's class among all other texts of the batch.

    loss = mean over i of −(1/|P_i|) Σ_{p in P_i} log [exp(s_ip/τ) / Σ_{k≠i} exp(s_ik/τ)], P_i the other texts of the
    class of i. (Khosla et al. 2020, equation 2, L_out, https://arxiv.org/abs/2004.11362)
    """
    same, _ = same_and_other(classes)
    is_own = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    log_shares = (scores / temperature).masked_fill(is_own, -torch.inf).log_softmax(dim=1)
    costs = -torch.where(same, log_shares, 0).sum(dim=1) / same.sum(dim=1).clamp(min=1)
    return mean_of_rows(costs, same.any(dim=1))


class SupCon(BatchClassLoss):
    """`sup_con` of cosines.

    Default: the temperature of the paper.
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
    """Texts of the own class above a border and all others below it, the farthest off weighed most.

    loss = (1/N) Σ_i τ_p log(1 + Σ_{p in P_i} exp((λ − s_ip)/τ_p)) + τ_n log(1 + Σ_{n in N_i} exp((s_in − λ)/τ_n)).
    (Wang et al. 2019, equation 15, https://arxiv.org/abs/1904.06627, whose α and β are 1/τ_p and 1/τ_n; without the
    choice of pairs of equations 10 and 11.)
    """

    def part(logits: Tensor, counts: Tensor) -> Tensor:
        logits = logits.masked_fill(~counts, -torch.inf)
        return torch.cat([torch.zeros_like(logits[:, :1]), logits], dim=1).logsumexp(dim=1)

    same, other = same_and_other(classes)
    near = part((border - scores) / positive_temperature, same) * positive_temperature
    far = part((scores - border) / negative_temperature, other) * negative_temperature
    return (near + far).mean()


class MultiSimilarity(BatchClassLoss):
    """`multi_similarity` of cosines.

    Defaults: α = 2, β = 50 as in the paper, and the border of 0.5 that pytorch-metric-learning has.
    """

    contrast = Contrast.CLASSES
    paper = "Wang et al. 2019, https://arxiv.org/abs/1904.06627"
    choose_when = "texts with many classes, when the hardest pairs of a batch shall count most"

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
    """Mean violation of the margin over the triplets of the batch that violate it.

    loss = mean of m + s_an − s_ap over all a, p of the class of a and n of another where it is above 0; 0 where none
    is. (Hermans et al. 2017, L_BA≠0 of section 2, https://arxiv.org/abs/1703.07737)
    """
    same, other = same_and_other(classes)
    anchors, positives = same.nonzero(as_tuple=True)
    costs = (margin + scores[anchors] - scores[anchors, positives, None]).relu() * other[anchors]
    return costs.sum() / (costs > 0).sum().clamp(min=1)


class BatchAllTriplet(BatchClassLoss):
    """`batch_all` of all triplets that a batch of texts with classes holds.

    distance  cosine, or euclidean for encoders that do not normalize (choose a margin of its scale)

    Defaults: as `TripletMargin`. (sentence-transformers: Euclidean, 5.)
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
    """The nearest text of another class against the farthest of the own, without a margin.

    loss = mean over a of log(1 + exp((max_n s_an − min_p s_ap)/τ)), p of the class of a and n of another, over texts
    that have both. (Hermans et al. 2017, equation 5 with the soft margin of section 3.2,
    https://arxiv.org/abs/1703.07737)
    """
    same, other = same_and_other(classes)
    has_both = same.any(dim=1) & other.any(dim=1)
    farthest = scores.masked_fill(~same, torch.inf).amin(dim=1)
    nearest = scores.masked_fill(~other, -torch.inf).amax(dim=1)
    gaps = torch.where(has_both, nearest, 0) - torch.where(has_both, farthest, 0)
    return mean_of_rows(F.softplus(gaps / temperature), has_both)


class SoftMarginTriplet(BatchClassLoss):
    """`soft_margin` of the hardest triplet of each text of a batch of texts with classes.

    temperature  divides differences of scores
    distance     as of `BatchAllTriplet`

    Defaults: differences of cosines at the scale of 20 of `CoSENT`. BatchHardSoftMarginTripletLoss of
    sentence-transformers is distance=euclidean with temperature=1, where each text has others of its class and of
    another. A temperature τ makes gradients up to 1/τ times as long as theirs, so that a learning rate for one does not
    suit the other.
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
