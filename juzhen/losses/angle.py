"""AnglE: ranking by an angle between complex vectors, whose gradient does not fade where the cosine is flat."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.losses.cosent import cosent
from juzhen.losses.info_nce import false_negatives, info_nce, numbers_of_texts
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.options import checked, divisor, number
from juzhen.losses.scores import all_cosines, full_precision, order_gap, row_cosine


def angle_scores(
    first: Float[Tensor, "batch dim"], second: Float[Tensor, "batch dim"]
) -> Float[Tensor, "batch"]:
    """|Re + Im| of the quotient of two embeddings read as complex vectors, in [0, √2]; higher = closer.

    The first half of an embedding holds real parts, the second half imaginary parts: z = a + bi, w = c + di.
    Then Σ_k z_k w̄_k / (|z||w|) has the real part Σ(ac + bd)/(|z||w|), which is the cosine of the two embeddings,
    and the imaginary part Σ(bc − ad)/(|z||w|). (Li and Li 2023, https://arxiv.org/abs/2309.12871)
    The sum and its absolute value are those of the authors' code. The value is no angle, and it depends on which
    sentence comes first. An odd dimension gets one more imaginary part, 0.
    """
    first, second = F.normalize(full_precision(first), dim=-1), F.normalize(full_precision(second), dim=-1)
    padding = (0, first.shape[1] % 2)
    (a, b), (c, d) = F.pad(first, padding).chunk(2, dim=-1), F.pad(second, padding).chunk(2, dim=-1)
    return (a * c + b * d + b * c - a * d).sum(dim=-1).abs()


class AnglE(Loss):
    """CoSENT on `angle_scores`, and with weights the two parts that the authors add: cosines and the batch.

    loss = w_angle · CoSENT(angle score, τ_angle) + w_cosine · CoSENT(cosine, τ) + w_batch · InfoNCE(τ),
    the mix of Li and Li 2023. Equation 3 of the published paper has the angles' difference the other way round;
    the authors' code, and so this loss, rewards a high score. Their scripts have all weights at 1, τ_angle = 1 and
    τ = 0.05. Their InfoNCE part is a mean over all sentences of the batch, those without a positive counting 0; ours
    is the mean over sentences that have one, and so does not shrink with the share of positives.

    positive_from  lowest target whose pair is a positive in the InfoNCE part, where each of its sentences looks for
                   the other among all sentences of the batch. Pairs below are candidates, that is negatives, only

    Defaults: the first part alone, at the scale of 20 of sentence-transformers' AnglELoss.

    Logs the mean angle score of the rows above the mean target, of the others, and the gap.
    """

    input_kinds = (Kind.SCORED_PAIR, Kind.LABELLED_PAIR, Kind.NLI_PAIR)
    consumes = "embeddings"
    couples = True
    compares = True
    paper = "Li and Li 2023, https://arxiv.org/abs/2309.12871"
    choose_when = "graded pairs whose cosines crowd near 1, where the gradient of the cosine fades"

    temperature: float | int = checked(0.05, divisor)
    angle_temperature: float | int = checked(0.05, divisor)
    angle_weight: float | int = checked(1.0, number, low=0.0)
    cosine_weight: float | int = checked(0.0, number, low=0.0)
    batch_weight: float | int = checked(0.0, number, low=0.0)
    positive_from: float | int = checked(1.0, number, low=0.0, high=1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.angle_weight + self.cosine_weight + self.batch_weight:
            raise UserError("loss.angle_weight=0, cosine_weight=0, batch_weight=0: expected one above 0")
        self.contrast = Contrast.VALUES if self.batch_weight else Contrast.ORDER

    def with_logs(
        self,
        first: Float[Tensor, "batch dim"],
        second: Float[Tensor, "batch dim"],
        targets: Float[Tensor, "batch"],
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
            ids = numbers_of_texts(text_ids, like=first, count=2)
            found = batch_search(first, second, ids, is_positive, temperature=self.temperature)
            loss = loss + self.batch_weight * found
        return loss, order_gap(scores, targets)


def batch_search(
    first: Float[Tensor, "batch dim"],
    second: Float[Tensor, "batch dim"],
    text_ids: Int[Tensor, "batch 2"],
    is_positive: Bool[Tensor, "batch"],
    *,
    temperature: float,
) -> Float[Tensor, ""]:
    """InfoNCE in which each sentence of a positive pair looks for the other among all sentences of the batch.

    Candidates with the text of the anchor, or of one of its positives, are left out (`false_negatives`).
    """
    first_ids, second_ids = text_ids.unbind(dim=1)
    if not is_positive.any():
        return full_precision(first).sum() * 0

    def joined(one: Tensor, other: Tensor, rows: Tensor) -> Tensor:
        return torch.cat([one[rows], other[rows]])

    anchors, anchor_ids = joined(first, second, is_positive), joined(first_ids, second_ids, is_positive)
    positives, positive_ids = joined(second, first, is_positive), joined(second_ids, first_ids, is_positive)
    others, other_ids = joined(first, second, ~is_positive), joined(first_ids, second_ids, ~is_positive)
    scores = all_cosines(anchors, torch.cat([positives, others]))
    excluded = false_negatives(anchor_ids, positive_ids, torch.cat([positive_ids, other_ids]))
    return info_nce(scores, excluded, temperature=temperature, symmetric=False)
