"""Distillation of a ranking: the documents of a row share their probability as a teacher shares it."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from juzhen.losses.lists import ListLoss
from juzhen.losses.loss import Contrast, LossOutput
from juzhen.losses.options import checked, divisor
from juzhen.losses.scores import full_precision


def list_kl(
    document_scores: Float[Tensor, "batch documents"],
    teacher_scores: Float[Tensor, "batch documents"],
    *,
    temperature: float = 1.0,
    teacher_temperature: float = 1.0,
) -> Float[Tensor, ""]:
    """Mean over rows of KL(q ‖ p) = Σ_k q_k log(q_k / p_k), p = softmax(s/τ) of our scores, q = softmax(t/τ_t).

    (Hinton et al. 2015, https://arxiv.org/abs/1503.02531, section 2, less the entropy of q, with documents for classes)
    """
    ours = (full_precision(document_scores) / temperature).log_softmax(dim=1)
    theirs = (full_precision(teacher_scores) / teacher_temperature).log_softmax(dim=1)
    return F.kl_div(ours, theirs, reduction="batchmean", log_target=True)


class ListKL(ListLoss):
    """`list_kl` over the positive of a row and its negatives. Logs how the positive ranks.

    Defaults: scores of both as they are, which suits logits.
    """

    contrast = Contrast.NONE
    needs_teacher_scores = True
    paper = "Hinton et al. 2015, https://arxiv.org/abs/1503.02531"
    choose_when = (
        "triplets with many negatives and a teacher's scores, of which only the shares within a row count"
    )

    teacher_temperature: float | int = checked(1.0, divisor)

    def with_logs(
        self,
        document_scores: Float[Tensor, "batch documents"],
        teacher_scores: Float[Tensor, "batch documents"],
    ) -> LossOutput:
        loss = list_kl(
            document_scores,
            teacher_scores,
            temperature=self.temperature,
            teacher_temperature=self.teacher_temperature,
        )
        return loss, self.list_summary(document_scores)
