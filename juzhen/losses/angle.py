"""AnglE: ranking by an angle between complex vectors, whose gradient does not fade where the cosine is flat."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from juzhen.core.batch import Encoded
from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.losses.cosent import cosent
from juzhen.losses.info_nce import false_negatives, info_nce
from juzhen.losses.loss import Contrast, Loss, LossOutput, first_two
from juzhen.losses.options import divisor, number
from juzhen.losses.scores import all_cosines, full_precision, graded_targets, row_cosine, score_gap


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

    Logs the mean angle score of the rows above the mean target, of the others, and the gap.
    """

    takes = (Kind.SCORED_PAIR, Kind.LABELLED_PAIR, Kind.NLI_PAIR)
    reads = "embeddings"
    couples = True
    compares = True

    def __init__(
        self,
        *,
        temperature: float | int,
        angle_temperature: float | int,
        angle_weight: float | int,
        cosine_weight: float | int,
        batch_weight: float | int,
        positive_from: float | int,
    ) -> None:
        super().__init__()
        self.temperature = divisor("loss.temperature", temperature)
        self.angle_temperature = divisor("loss.angle_temperature", angle_temperature)
        self.angle_weight = number("loss.angle_weight", angle_weight, low=0.0)
        self.cosine_weight = number("loss.cosine_weight", cosine_weight, low=0.0)
        self.batch_weight = number("loss.batch_weight", batch_weight, low=0.0)
        self.positive_from = number("loss.positive_from", positive_from, low=0.0, high=1.0)
        if not self.angle_weight + self.cosine_weight + self.batch_weight:
            raise UserError("loss.angle_weight=0, cosine_weight=0, batch_weight=0: expected one above 0")
        self.contrast = Contrast.VALUES if self.batch_weight else Contrast.ORDER

    def forward(self, encoded: Encoded) -> LossOutput:
        targets = graded_targets(encoded)
        first, second = first_two(encoded)
        scores = angle_scores(first, second)
        loss = self.angle_weight * cosent(scores, targets, temperature=self.angle_temperature)
        if self.cosine_weight:
            cosines = row_cosine(first, second)
            loss = loss + self.cosine_weight * cosent(cosines, targets, temperature=self.temperature)
        if self.batch_weight:
            is_positive = targets >= self.positive_from
            loss = loss + self.batch_weight * batch_search(encoded, is_positive, temperature=self.temperature)
        is_upper = targets > targets.mean()
        return loss, score_gap(scores, is_upper, ~is_upper)


def batch_search(
    encoded: Encoded, is_positive: Bool[Tensor, "batch"], *, temperature: float
) -> Float[Tensor, ""]:
    """InfoNCE in which each sentence of a positive pair looks for the other among all sentences of the batch.

    Candidates with the text of the anchor, or of one of its positives, are left out (`false_negatives`).
    """
    (first, second), (first_ids, second_ids) = first_two(encoded), tuple(encoded.text_ids.values())[:2]
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
