"""InfoNCE over the negatives that a row brings along: nothing of the rest of the batch."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from juzhen.core.examples import Kind
from juzhen.losses.arguments import checks_arguments
from juzhen.losses.info_nce import numbers_of_texts, ranking_summary
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.options import checked, divisor
from juzhen.losses.scores import row_cosine


@checks_arguments
def info_nce_own(
    scores: Float[Tensor, "batch candidates"],
    excluded: Bool[Tensor, "batch candidates"],
    *,
    temperature: float = 0.05,
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

    Default: a temperature of 0.07.
    """

    input_kinds = (Kind.TRIPLET,)
    consumes = "embeddings"
    couples = False
    contrast = Contrast.NEGATIVES
    paper = "van den Oord et al. 2018, https://arxiv.org/abs/1807.03748"
    choose_when = "triplets with many mined negatives, when texts of other rows are no safe negatives"

    temperature: float | int = checked(0.07, divisor)

    def with_logs(
        self,
        anchors: Float[Tensor, "batch dim"],
        positives: Float[Tensor, "batch dim"],
        negatives: Float[Tensor, "batch negatives dim"],
        *,
        text_ids: Int[Tensor, "batch texts"] | None = None,
    ) -> LossOutput:
        candidates = [positives, *negatives.unbind(dim=1)]
        scores = torch.stack([row_cosine(anchors, one) for one in candidates], dim=1)
        ids = numbers_of_texts(text_ids, like=anchors, count=1 + len(candidates))
        is_same = (ids[:, 2:] == ids[:, :1]) | (ids[:, 2:] == ids[:, 1:2])
        excluded = F.pad(is_same, (1, 0))  # never the positive itself
        loss = info_nce_own(scores, excluded, temperature=self.temperature)
        return loss, ranking_summary(scores, excluded, torch.zeros_like(ids[:, 0]))
