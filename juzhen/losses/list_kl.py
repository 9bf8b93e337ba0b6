"""Distillation of a ranking: the documents of a row share their probability as a teacher shares it."""

import torch
from jaxtyping import Float
from torch import Tensor

from juzhen.losses.arguments import checks_arguments
from juzhen.losses.lists import ListLoss
from juzhen.losses.loss import Contrast, LossOutput
from juzhen.losses.options import checked, divisor
from juzhen.losses.scores import full_precision


@checks_arguments
def list_kl(
    document_scores: Float[Tensor, "batch documents"],
    teacher_scores: Float[Tensor, "batch documents"],
    *,
    temperature: float = 1.0,
    teacher_temperature: float = 1.0,
) -> Float[Tensor, ""]:
    """Mean over rows of KL(q ‖ p) = Σ_k q_k log(q_k / p_k), p = softmax(s/τ) of our scores, q = softmax(t/τ_t).

    (Hinton et al. 2015, https://arxiv.org/abs/1503.02531, section 2, less the entropy of q, with documents for classes)
    Nor is it multiplied by τ², by which Hinton, and sentence-transformers' DistillKLDivLoss, keep gradients long at
    high temperatures: theirs is τ² times ours.

    A document that we score −∞ is out of its row: the teacher's share goes to the others. One that the teacher scores
    −∞ has the share q = 0, and costs by its p alone.
    """
    is_out = document_scores == -torch.inf
    ours = (full_precision(document_scores) / temperature).log_softmax(dim=1)
    theirs = full_precision(teacher_scores).masked_fill(is_out, -torch.inf) / teacher_temperature
    theirs = theirs.log_softmax(dim=1)
    differences = (theirs - ours).masked_fill(theirs == -torch.inf, 0)  # 0 log 0 is 0
    return (theirs.exp() * differences).sum() / len(ours)


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
