"""InfoNCE over the negatives that a row brings along: nothing of the rest of the batch."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from juzhen.core.batch import Encoded
from juzhen.core.examples import Kind
from juzhen.losses.info_nce import ranking_summary
from juzhen.losses.loss import Contrast, Loss, LossOutput, first_two, negatives
from juzhen.losses.options import number
from juzhen.losses.scores import row_cosine


def info_nce_own(
    scores: Float[Tensor, "batch candidates"],
    excluded: Bool[Tensor, "batch candidates"],
    *,
    temperature: float,
) -> Float[Tensor, ""]:
    """Cross entropy of finding the positive, candidate 0 of each row, among the candidates of the same row.

    loss = (1/N) Σ_i −log [exp(s_i0/τ) / Σ_k exp(s_ik/τ)], k over the row's candidates that are not excluded.
    (van den Oord et al. 2018, equation 4, with K negatives drawn for each row)
    """
    logits = (scores / temperature).masked_fill(excluded, -torch.inf)
    return F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long, device=logits.device))


class InfoNCEOwn(Loss):
    """`info_nce_own` of cosines: a row's positive against the row's own negatives, so that rows do not meet.

    A negative with the text of the row's anchor or positive is left out. Logs what `InfoNCE` logs.
    """

    takes = (Kind.TRIPLET,)
    reads = "embeddings"
    couples = False
    contrast = Contrast.NEGATIVES

    def __init__(self, *, temperature: float | int) -> None:
        super().__init__()
        self.temperature = number("loss.temperature", temperature, low=0.0, open_low=True)

    def forward(self, encoded: Encoded) -> LossOutput:
        anchors, positives = first_two(encoded)
        anchor_ids, positive_ids, *_ = encoded.text_ids.values()
        columns = negatives(encoded)
        candidates = [positives, *(encoded.embeddings[column] for column in columns)]
        scores = torch.stack([row_cosine(anchors, one) for one in candidates], dim=1)
        ids = torch.stack([encoded.text_ids[column] for column in columns], dim=1)
        is_same = (ids == anchor_ids[:, None]) | (ids == positive_ids[:, None])
        excluded = F.pad(is_same, (1, 0))  # never the positive itself
        loss = info_nce_own(scores, excluded, temperature=self.temperature)
        return loss, ranking_summary(scores, excluded, torch.zeros_like(anchor_ids))
