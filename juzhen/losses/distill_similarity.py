"""Relational distillation: texts of a batch shall be as similar to each other to the student as to the teacher."""

from jaxtyping import Float
from torch import Tensor

from juzhen.losses.arguments import checks_arguments
from juzhen.losses.distill_cosine import Taught
from juzhen.losses.loss import Contrast, LossOutput
from juzhen.losses.scores import all_cosines


@checks_arguments
def distill_similarity(
    student: Float[Tensor, "batch dim"], teacher: Float[Tensor, "batch teacher"]
) -> Float[Tensor, ""]:
    """Mean of (cos(s_i, s_j) − cos(t_i, t_j))² over all i ≠ j of the batch, 0 where there is one row.

    The two may have different numbers of dimensions. (After Tung and Mori 2019, https://arxiv.org/abs/1907.09682,
    equation 4, who bring the rows of the matrices of inner products to length 1 where we bring the vectors. Park et al.
    2019, https://arxiv.org/abs/1904.05068, hold distances and angles to the teacher's in the same way.)
    """
    count = len(student)
    # Both diagonals are 1 and add nothing.
    difference = all_cosines(student, student) - all_cosines(teacher, teacher)
    return difference.square().sum() / max(count * (count - 1), 1)


class DistillSimilarity(Taught):
    """`distill_similarity` of the batch. Logs the mean absolute difference of the two similarities."""

    couples = True
    contrast = Contrast.TEXTS
    paper = "after Tung and Mori 2019, https://arxiv.org/abs/1907.09682; Park et al. 2019, https://arxiv.org/abs/1904.05068"
    choose_when = "a student of another size, of which only similarities count"

    def with_logs(
        self, student: Float[Tensor, "batch dim"], teacher: Float[Tensor, "batch teacher"]
    ) -> LossOutput:
        loss = distill_similarity(student, teacher)
        return loss, {"similarity_error": loss.detach().sqrt()}
