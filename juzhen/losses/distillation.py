"""Distillation of embeddings: what a student gives for single texts is held to what its teacher gives."""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from juzhen.core.examples import Kind
from juzhen.losses.arguments import Weight, checks_arguments
from juzhen.losses.loss import Contrast, Loss, LossOutput, Sum
from juzhen.losses.scores import all_cosines, full_precision, row_cosine


class TeacherLoss(Loss):
    """A loss that holds what a student gives for single texts to what its teacher gives for them."""

    input_kinds = (Kind.SENTENCE,)
    input_type = "teacher"
    is_batchwise = False
    contrast = Contrast.NONE

    @staticmethod
    @torch.no_grad()
    def nearness(
        projected: Float[Tensor, "batch teacher"], teacher: Float[Tensor, "batch teacher"]
    ) -> dict[str, Tensor]:
        """Mean cosine of the student's vectors and the teacher's, to be logged."""
        return {"teacher_cosine": row_cosine(projected, teacher).mean()}


@checks_arguments
def distill_cosine(
    projected: Float[Tensor, "batch teacher"], teacher: Float[Tensor, "batch teacher"]
) -> Float[Tensor, ""]:
    """Mean of 1 − cos(p_i, t_i), p_i the student's vector in the teacher's space and t_i the teacher's.

    For vectors of length 1 it is half the squared distance: the squared error of Reimers and Gurevych 2020
    (https://arxiv.org/abs/2004.09813, equation 1) with lengths left out.
    """
    return (1 - row_cosine(projected, teacher)).mean()


class DistillCosine(TeacherLoss):
    """`distill_cosine` of each text; rows do not meet. Logs the mean cosine to the teacher."""

    paper = "after Reimers and Gurevych 2020, https://arxiv.org/abs/2004.09813"
    choose_when = "a student that shall stand in its teacher's space"

    def with_logs(self, projected: Tensor, teacher: Tensor) -> LossOutput:
        return distill_cosine(projected, teacher), self.nearness(projected, teacher)


@checks_arguments
def distill_mse(
    projected: Float[Tensor, "batch teacher"], teacher: Float[Tensor, "batch teacher"]
) -> Float[Tensor, ""]:
    """Mean of (p_ik − t_ik)² over texts i and dimensions k, p the student in the teacher's space and t the teacher.

    (Reimers and Gurevych 2020, https://arxiv.org/abs/2004.09813, equation 1. The mean over dimensions, too, is that of
    sentence-transformers' MSELoss.)
    """
    return F.mse_loss(full_precision(projected), full_precision(teacher))


class DistillMSE(TeacherLoss):
    """`distill_mse` of each text, lengths included; rows do not meet. Logs the mean cosine to the teacher."""

    paper = "Reimers and Gurevych 2020, https://arxiv.org/abs/2004.09813"
    choose_when = "a student that shall also give vectors of its teacher's length"

    def with_logs(self, projected: Tensor, teacher: Tensor) -> LossOutput:
        return distill_mse(projected, teacher), self.nearness(projected, teacher)


@checks_arguments
def distill_similarity(
    student: Float[Tensor, "batch dim"], teacher: Float[Tensor, "batch teacher"]
) -> Float[Tensor, ""]:
    """Mean of (cos(s_i, s_j) − cos(t_i, t_j))² over all i ≠ j of the batch, 0 where there is one row.

    The two may have different numbers of dimensions. (After Tung and Mori 2019, https://arxiv.org/abs/1907.09682,
    equation 4, who bring the rows of the matrices of inner products to length 1 where we bring the vectors. Park et
    al. 2019, https://arxiv.org/abs/1904.05068, hold distances and angles to the teacher's in the same way.)
    """
    count = len(student)
    # Both diagonals are 1 and add nothing.
    difference = all_cosines(student, student) - all_cosines(teacher, teacher)
    return difference.square().sum() / max(count * (count - 1), 1)


class DistillSimilarity(TeacherLoss):
    """`distill_similarity` of the batch. Logs the root of the mean squared difference of the two similarities."""

    is_batchwise = True
    contrast = Contrast.TEXTS
    paper = "after Tung and Mori 2019, https://arxiv.org/abs/1907.09682; Park et al. 2019, https://arxiv.org/abs/1904.05068"
    choose_when = "a student of another size, of which only similarities count"

    def with_logs(self, student: Tensor, teacher: Tensor) -> LossOutput:
        loss = distill_similarity(student, teacher)
        return loss, {"similarity_error": loss.detach().sqrt()}


class Distill(Sum, TeacherLoss):
    """`distill_cosine` plus a multiple of `distill_similarity`.

    The vectors are compared in the teacher's space, the similarities are those of the student's own embeddings, which
    are what it will be used by.

    Default: a weight of 10, by which both parts are of one size: an error of 0.1 in a similarity is 0.01 squared.
    """

    is_batchwise = True
    paper = "the sum of distill_cosine and distill_similarity"
    choose_when = "first to try for a smaller student"

    similarity_weight: Weight = 10.0

    def parts(self) -> Mapping[str, tuple[float, Loss]]:
        return {"cosine": (1.0, DistillCosine()), "similarity": (self.similarity_weight, DistillSimilarity())}

    def with_logs(self, student: Tensor, projected: Tensor, teacher: Tensor) -> LossOutput:
        return self.total(student=student, projected=projected, teacher=teacher)
