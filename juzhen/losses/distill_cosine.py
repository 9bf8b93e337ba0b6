"""Distillation of embeddings: a student's vector shall point where its teacher's does."""

import torch
from jaxtyping import Float
from torch import Tensor

from juzhen.core.examples import Kind
from juzhen.losses.arguments import checks_arguments
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.scores import row_cosine


@checks_arguments
def distill_cosine(
    projected: Float[Tensor, "batch teacher"], teacher: Float[Tensor, "batch teacher"]
) -> Float[Tensor, ""]:
    """Mean of 1 − cos(p_i, t_i), p_i the student's vector in the teacher's space and t_i the teacher's.

    For vectors of length 1 it is half the squared distance: the squared error of Reimers and Gurevych 2020
    (https://arxiv.org/abs/2004.09813, equation 1) with lengths left out.
    """
    return (1 - row_cosine(projected, teacher)).mean()


class Taught(Loss):
    """A loss that holds what a student gives for single texts to what its teacher gives for them."""

    input_kinds = (Kind.SENTENCE,)
    consumes = "teacher"
    couples = False
    contrast = Contrast.NONE

    @staticmethod
    @torch.no_grad()
    def nearness(
        projected: Float[Tensor, "batch teacher"], teacher: Float[Tensor, "batch teacher"]
    ) -> dict[str, Tensor]:
        """Mean cosine of the student's vectors and the teacher's, to be logged."""
        return {"teacher_cosine": row_cosine(projected, teacher).mean()}


class DistillCosine(Taught):
    """`distill_cosine` of each text; rows do not meet. Logs the mean cosine to the teacher."""

    paper = "after Reimers and Gurevych 2020, https://arxiv.org/abs/2004.09813"
    choose_when = "a student that shall stand in its teacher's space"

    def with_logs(
        self, projected: Float[Tensor, "batch teacher"], teacher: Float[Tensor, "batch teacher"]
    ) -> LossOutput:
        return distill_cosine(projected, teacher), self.nearness(projected, teacher)
