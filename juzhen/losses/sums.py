"""Losses of several parts, weighted and added up."""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.losses.arguments import Classes, Count, Share, Temperature, Weight
from juzhen.losses.classes import SoftmaxClassifier
from juzhen.losses.in_batch_negatives import false_negatives, info_nce, numbers_of_texts
from juzhen.losses.loss import Contrast, Loss, LossOutput, Sum
from juzhen.losses.pairs import BinaryCrossEntropy
from juzhen.losses.pairwise_ranking import CoSENT, OrderLoss, cosent
from juzhen.losses.regression import SquaredError
from juzhen.losses.scores import all_cosines, full_precision, label_gap, order_gap, row_cosine


class CoSENTAndBCE(Sum):
    """CoSENT plus binary cross entropy, for cross-encoders.

    loss = log(1 + Σ_{y_i > y_j} exp((s_j − s_i)/τ)) + α (1/N) Σ −[y log p + (1 − y) log(1 − p)], where p =
    sigmoid(s/τ_CE). CoSENT leaves the zero of the scores open. The cross entropy puts it between the classes.
    Defaults: the score is a logit, and both parts count alike.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | two texts | 0 or 1 | labelled_pair |
        | two texts | grade | scored_pair |

    Relations:
        `CoSENT` + α `BinaryCrossEntropy`. For a bi-encoder `CoSENTAndSoftmax` adds a classifier instead.

    Args:
        temperature: τ of CoSENT.
        entropy_temperature: τ_CE.
        entropy_weight: α.

    Example:
        >>> CoSENTAndBCE()(torch.tensor([2.0, -1.0]), torch.tensor([1.0, 0.0]))
        tensor(0.2687)
    """

    input_kinds = (Kind.LABELLED_PAIR, Kind.SCORED_PAIR)
    input_type = "scores"
    is_batchwise = True
    is_ranking = True
    choose_when = "a cross-encoder that should rank pairs and keep a threshold at 0"

    temperature: Temperature = 1.0
    entropy_temperature: Temperature = 1.0
    entropy_weight: Weight = 1.0

    def parts(self) -> Mapping[str, tuple[float, Loss]]:
        entropy = BinaryCrossEntropy(temperature=self.entropy_temperature)
        return {
            "order": (1.0, CoSENT(temperature=self.temperature)),
            "entropy": (self.entropy_weight, entropy),
        }

    def with_logs(self, scores: Tensor, targets: Tensor) -> LossOutput:
        return self.total(scores=scores, targets=targets)


def cosent_and_entropy(scores: Tensor, targets: Tensor, **numbers: float) -> Float[Tensor, ""]:
    """Compute `CoSENTAndBCE`.

    Args:
        scores: Score of each pair, (batch,).
        targets: Gold value of each pair, (batch,).
        numbers: Those of `CoSENTAndBCE`.

    Returns:
        The scalar loss.

    Example:
        >>> cosent_and_entropy(torch.tensor([0.9, 0.2]), torch.tensor([1.0, 0.0]))
        tensor(0.9728)
    """
    return CoSENTAndBCE(**numbers)(scores, targets)


class CoSENTAndSoftmax(Sum):
    """CoSENT of the cosines plus the cross entropy of a linear head over [u, v, |u − v|].

    loss = CoSENT + α CE, the two parts as in `CoSENT` and `SoftmaxClassifier`. Both shape the same embeddings. The
    head is trained and stored with the model, and scores at evaluation stay cosines. CoSENT reads `targets`, or the
    classes, which are then 0 and 1. Defaults: CoSENT's scale of 20, and both parts count alike.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | premise, hypothesis | class | nli_pair |
        | two texts | 0 or 1 | labelled_pair |

    Relations:
        `CoSENT` + α `SoftmaxClassifier`.

    Args:
        dim: Size of an embedding, given by the model.
        num_classes: Number of classes, given by the data.
        temperature: τ of CoSENT.
        entropy_weight: α.

    Example:
        >>> loss = CoSENTAndSoftmax(dim=4, num_classes=2)
        >>> loss(torch.eye(4), torch.eye(4) + 2, torch.tensor([0.0, 1.0, 1.0, 0.0])).shape
        torch.Size([])
    """

    input_kinds = (Kind.NLI_PAIR, Kind.LABELLED_PAIR)
    input_type = "embeddings"
    is_batchwise = True
    is_ranking = True
    has_parameters = True
    choose_when = "NLI or 0/1 pairs, when both the order of cosines and the class of a pair matter"

    dim: Count
    num_classes: Classes
    temperature: Temperature = 0.05
    entropy_weight: Weight = 1.0

    def parts(self) -> Mapping[str, tuple[float, Loss]]:
        classifier = SoftmaxClassifier(dim=self.dim, num_classes=self.num_classes)
        return {
            "order": (1.0, CoSENT(temperature=self.temperature)),
            "entropy": (self.entropy_weight, classifier),
        }

    def with_logs(
        self, first: Tensor, second: Tensor, classes: Tensor, targets: Tensor | None = None
    ) -> LossOutput:
        targets = classes if targets is None else targets
        scores = row_cosine(first, second)
        return self.total(scores=scores, targets=targets, first=first, second=second, classes=classes)


class CrossEntropyError(Sum):
    """Binary cross entropy plus the squared error of the probability.

    loss = (1/N) Σ −[y log p + (1 − y) log(1 − p)] + α (p − y)², p = sigmoid(score / temperature), y in [0, 1]. Both
    parts are smallest at p = y, for graded targets as well. α only weights the path there. A cross-encoder's score is
    a logit, and its temperature 1. A cosine becomes a logit by a temperature such as 0.05, with the border at 0.
    Default: the error counts half.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | two texts | grade | scored_pair |
        | two texts | 0 or 1 | labelled_pair |

    Relations:
        `BinaryCrossEntropy` + α `SquaredError` with activation="sigmoid".

    Args:
        temperature: Divides the scores.
        error_weight: α.

    Example:
        >>> CrossEntropyError()(torch.tensor([2.0, -1.0]), torch.tensor([1.0, 0.2]))
        tensor(0.3248)
    """

    input_kinds = (Kind.SCORED_PAIR, Kind.LABELLED_PAIR)
    input_type = "scores"
    is_batchwise = False
    choose_when = "graded pairs on a cross-encoder whose probability should come close to the grade"

    temperature: Temperature = 1.0
    error_weight: Weight = 0.5

    def parts(self) -> Mapping[str, tuple[float, Loss]]:
        error = SquaredError(activation="sigmoid")
        return {"entropy": (1.0, BinaryCrossEntropy()), "error": (self.error_weight, error)}

    def with_logs(self, scores: Tensor, targets: Tensor) -> LossOutput:
        loss, logs = self.total(scores=full_precision(scores) / self.temperature, targets=targets)
        return loss, logs | label_gap(scores, targets)


def cross_entropy_and_error(
    logits: Tensor, targets: Tensor, *, error_weight: float = 0.5
) -> Float[Tensor, ""]:
    """Compute `CrossEntropyError` of logits.

    Args:
        logits: Logit of each pair, (batch,).
        targets: Probability of each pair, (batch,).
        error_weight: α.

    Returns:
        The scalar loss.

    Example:
        >>> cross_entropy_and_error(torch.tensor([2.0, -2.0]), torch.tensor([1.0, 0.0]))
        tensor(0.1340)
    """
    return CrossEntropyError(error_weight=error_weight)(logits, targets)


def angle_scores(
    first: Float[Tensor, "batch dim"], second: Float[Tensor, "batch dim"]
) -> Float[Tensor, "batch"]:
    """Compute |Re + Im| of the quotient of two embeddings read as complex vectors, in [0, √2].

    The first half of an embedding has the real parts, the second half the imaginary parts: z = a + bi, w = c + di.
    Then Σ_k z_k w̄_k / (|z||w|) has the real part Σ(ac + bd)/(|z||w|), which is the cosine of the two embeddings, and
    the imaginary part Σ(bc − ad)/(|z||w|). (Li and Li 2023, https://arxiv.org/abs/2309.12871) The sum and its absolute
    value are those of the authors' code. The value is not an angle, and it depends on the order of the sentences. An
    odd dimension gets one more imaginary part, 0.

    Args:
        first: (batch, dim).
        second: (batch, dim).

    Returns:
        Scores, higher = closer, (batch,).

    Example:
        >>> angle_scores(torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0]]))
        tensor([0.])
    """
    first, second = F.normalize(full_precision(first), dim=-1), F.normalize(full_precision(second), dim=-1)
    padding = (0, first.shape[1] % 2)
    (a, b), (c, d) = F.pad(first, padding).chunk(2, dim=-1), F.pad(second, padding).chunk(2, dim=-1)
    return (a * c + b * d + b * c - a * d).sum(dim=-1).abs()


class AnglE(OrderLoss):
    """AnglE: CoSENT on `angle_scores`, with optional cosine and in-batch terms.

    loss = w_angle · CoSENT(angle score, τ_angle) + w_cosine · CoSENT(cosine, τ) + w_batch · InfoNCE(τ), the mix of Li
    and Li 2023. Equation 3 of the published paper has the angles' difference the other way round. The authors' code,
    and so this loss, rewards a high score. Their scripts have all weights at 1, τ_angle = 1 and τ = 0.05. Their
    InfoNCE part is a mean over all sentences of the batch, and those without a positive count 0. Ours is the mean over
    sentences that have one, so it does not shrink with the share of positives. Defaults: the first part alone, at the
    scale of 20 of sentence-transformers' AnglELoss. Logs the gap of the angle scores.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | two texts | grade | scored_pair |
        | two texts | 0 or 1 | labelled_pair |
        | premise, hypothesis | class | nli_pair |

    Relations:
        `CoSENT` on another score. The batch term is `NTXent` over positives, with negative pairs as candidates.

    Args:
        temperature: τ.
        angle_temperature: τ_angle.
        angle_weight: w_angle.
        cosine_weight: w_cosine.
        batch_weight: w_batch.
        positive_from: Lowest target whose pair is a positive in the InfoNCE term, where each of its sentences looks
            for the other among all sentences of the batch. Pairs below are negatives only.

    Raises:
        UserError: All weights 0.

    Example:
        >>> AnglE()(torch.eye(4), torch.eye(4) + 2, torch.tensor([1.0, 0.0, 0.5, 0.2]))
        tensor(18.1506)
    """

    input_type = "embeddings"
    paper = "Li and Li 2023, https://arxiv.org/abs/2309.12871"
    choose_when = "graded pairs whose cosines crowd near 1, where the gradient of the cosine fades"

    temperature: Temperature = 0.05
    angle_temperature: Temperature = 0.05
    angle_weight: Weight = 1.0
    cosine_weight: Weight = 0.0
    batch_weight: Weight = 0.0
    positive_from: Share = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.angle_weight + self.cosine_weight + self.batch_weight:
            raise UserError("angle_weight=0, cosine_weight=0, batch_weight=0: expected one above 0")
        self.contrast = Contrast.VALUES if self.batch_weight else Contrast.ORDER

    def with_logs(
        self,
        first: Tensor,
        second: Tensor,
        targets: Tensor,
        *,
        text_ids: Int[Tensor, "batch 2"] | None = None,
    ) -> LossOutput:
        scores = angle_scores(first, second)
        loss = self.angle_weight * cosent(scores, targets, temperature=self.angle_temperature)
        if self.cosine_weight:
            cosines = row_cosine(first, second)
            loss = loss + self.cosine_weight * cosent(cosines, targets, temperature=self.temperature)
        if self.batch_weight:
            is_positive = targets >= self.positive_from
            ids = numbers_of_texts(text_ids, anchors=first, count=2)
            search = batch_search(first, second, ids, is_positive, temperature=self.temperature)
            loss = loss + self.batch_weight * search
        return loss, order_gap(scores, targets)


def batch_search(
    first: Float[Tensor, "batch dim"],
    second: Float[Tensor, "batch dim"],
    text_ids: Int[Tensor, "batch 2"],
    is_positive: Bool[Tensor, "batch"],
    *,
    temperature: float,
) -> Float[Tensor, ""]:
    """Compute InfoNCE where each sentence of a positive pair looks for the other among all sentences.

    Candidates with the text of the anchor, or of one of its positives, are left out (`false_negatives`).

    Args:
        first: (batch, dim).
        second: (batch, dim).
        text_ids: Ids of both texts, (batch, 2).
        is_positive: (batch,).
        temperature: Divides the cosines.

    Returns:
        The scalar loss. 0 without positives.

    Example:
        >>> first, ids = torch.eye(2), torch.tensor([[0, 1], [2, 3]])
        >>> batch_search(first, first, ids, torch.tensor([True, False]), temperature=0.5)
        tensor(0.2395)
    """
    first_ids, second_ids = text_ids.unbind(dim=1)
    if not is_positive.any():
        return full_precision(first).sum() * 0

    def joined(upper: Tensor, lower: Tensor, rows: Tensor) -> Tensor:
        return torch.cat([upper[rows], lower[rows]])

    anchors, anchor_ids = joined(first, second, is_positive), joined(first_ids, second_ids, is_positive)
    positives, positive_ids = joined(second, first, is_positive), joined(second_ids, first_ids, is_positive)
    candidates, candidate_ids = (
        joined(first, second, ~is_positive),
        joined(first_ids, second_ids, ~is_positive),
    )
    scores = all_cosines(anchors, torch.cat([positives, candidates]))
    excluded = false_negatives(anchor_ids, positive_ids, torch.cat([positive_ids, candidate_ids]))
    return info_nce(scores, excluded, temperature=temperature, symmetric=False)
