"""Margin-MSE: the positive scores as far above each negative as a teacher says."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from juzhen.losses.arguments import checks_arguments
from juzhen.losses.lists import ListLoss
from juzhen.losses.loss import Contrast, LossOutput
from juzhen.losses.scores import full_precision


@checks_arguments
def margin_mse(
    document_scores: Float[Tensor, "batch documents"], teacher_scores: Float[Tensor, "batch documents"]
) -> Float[Tensor, ""]:
    """Mean of ((s_0 − s_k) − (t_0 − t_k))² over rows and their negatives k, s our scores and t the teacher's.

    (Hofstätter et al. 2020, https://arxiv.org/abs/2010.02666, who have one negative in a row)
    """
    ours, theirs = full_precision(document_scores), full_precision(teacher_scores)
    return F.mse_loss(ours[:, :1] - ours[:, 1:], theirs[:, :1] - theirs[:, 1:])


class MarginMSE(ListLoss):
    """`margin_mse` of scores that a temperature divides, which brings cosines to the size of a teacher's logits.

    Logs the root of the mean squared error of a margin, in units of the teacher, and how the positive ranks.

    Default: scores as they are, as in the paper.
    """

    contrast = Contrast.NONE
    needs_teacher_scores = True
    paper = "Hofstätter et al. 2020, https://arxiv.org/abs/2010.02666"
    choose_when = "triplets with the scores of a cross-encoder, which a faster model shall learn"

    def with_logs(
        self,
        document_scores: Float[Tensor, "batch documents"],
        teacher_scores: Float[Tensor, "batch documents"],
    ) -> LossOutput:
        loss = margin_mse(self.tempered(document_scores), teacher_scores)
        return loss, {"margin_error": loss.detach().sqrt()} | self.list_summary(document_scores)
