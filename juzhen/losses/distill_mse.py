"""Distillation of embeddings by the squared error, lengths included."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from juzhen.losses.arguments import checks_arguments
from juzhen.losses.distill_cosine import Taught
from juzhen.losses.loss import LossOutput
from juzhen.losses.scores import full_precision


@checks_arguments
def distill_mse(
    projected: Float[Tensor, "batch teacher"], teacher: Float[Tensor, "batch teacher"]
) -> Float[Tensor, ""]:
    """Mean of (p_ik − t_ik)² over texts i and dimensions k, p the student in the teacher's space and t the teacher.

    (Reimers and Gurevych 2020, https://arxiv.org/abs/2004.09813, equation 1. The mean over dimensions, too, is that
    of sentence-transformers' MSELoss.)
    """
    return F.mse_loss(full_precision(projected), full_precision(teacher))


class DistillMSE(Taught):
    """`distill_mse` of each text; rows do not meet. Logs the mean cosine to the teacher."""

    paper = "Reimers and Gurevych 2020, https://arxiv.org/abs/2004.09813"
    choose_when = "a student that shall also give vectors of its teacher's length"

    def with_logs(
        self, projected: Float[Tensor, "batch teacher"], teacher: Float[Tensor, "batch teacher"]
    ) -> LossOutput:
        return distill_mse(projected, teacher), self.nearness(projected, teacher)
