"""Distillation of embeddings: the student learns the teacher's embeddings of single texts."""

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
    """Base of losses that compare a student's embeddings of single texts with a teacher's.

    Example:
        >>> class Distance(TeacherLoss):
        ...     def with_logs(self, projected, teacher):
        ...         return (projected - teacher).norm(dim=1).mean(), self.nearness(projected, teacher)
        >>> Distance()(torch.eye(2), torch.eye(2))
        tensor(0.)
    """

    input_kinds = (Kind.SENTENCE,)
    input_type = "teacher"
    is_batchwise = False
    contrast = Contrast.NONE

    @staticmethod
    @torch.no_grad()
    def nearness(
        projected: Float[Tensor, "batch teacher"], teacher: Float[Tensor, "batch teacher"]
    ) -> dict[str, Tensor]:
        """Mean cosine of the student's vectors and the teacher's, to be logged.

        Args:
            projected: Vectors of the student in the teacher's space.
            teacher: Vectors of the teacher.

        Returns:
            Name → value.
        """
        return {"teacher_cosine": row_cosine(projected, teacher).mean()}


@checks_arguments
def distill_cosine(
    projected: Float[Tensor, "batch teacher"], teacher: Float[Tensor, "batch teacher"]
) -> Float[Tensor, ""]:
    """Compute the mean of 1 − cos(p_i, t_i), p_i the student in the teacher's space and t_i the teacher.

    For vectors of length 1 it is half the squared distance: the squared error of Reimers and Gurevych 2020
    (https://arxiv.org/abs/2004.09813, equation 1) without lengths.

    Args:
        projected: Student's embeddings in the teacher's space, (batch, teacher).
        teacher: Teacher's embeddings, (batch, teacher).

    Returns:
        The scalar loss.

    Example:
        >>> distill_cosine(torch.eye(2), torch.eye(2))
        tensor(0.)
        >>> distill_cosine(torch.eye(2), torch.ones(2, 2))
        tensor(0.2929)
    """
    return (1 - row_cosine(projected, teacher)).mean()


class DistillCosine(TeacherLoss):
    """Cosine distance of each student embedding to the teacher's.

    loss = (1/N) Σ 1 − cos(p_i, t_i), see `distill_cosine`. Logs the mean cosine to the teacher.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | one text | teacher's embedding | sentence |

    Relations:
        `DistillMSE` also compares lengths. `Distill` adds `DistillSimilarity`.

    Example:
        >>> DistillCosine()(torch.eye(3) + 2, torch.eye(3))
        tensor(0.2724)
    """

    paper = "after Reimers and Gurevych 2020, https://arxiv.org/abs/2004.09813"
    choose_when = "a student that must share its teacher's space"

    def with_logs(self, projected: Tensor, teacher: Tensor) -> LossOutput:
        return distill_cosine(projected, teacher), self.nearness(projected, teacher)


@checks_arguments
def distill_mse(
    projected: Float[Tensor, "batch teacher"], teacher: Float[Tensor, "batch teacher"]
) -> Float[Tensor, ""]:
    """Compute the mean of (p_ik − t_ik)² over texts i and dimensions k.

    p is the student in the teacher's space, t the teacher. (Reimers and Gurevych 2020,
    https://arxiv.org/abs/2004.09813, equation 1. The mean over dimensions is that of sentence-transformers' MSELoss.)

    Args:
        projected: Student's embeddings in the teacher's space, (batch, teacher).
        teacher: Teacher's embeddings, (batch, teacher).

    Returns:
        The scalar loss.

    Example:
        >>> distill_mse(torch.eye(2), torch.ones(2, 2))
        tensor(0.5000)
    """
    return F.mse_loss(full_precision(projected), full_precision(teacher))


class DistillMSE(TeacherLoss):
    """Squared error of each student embedding to the teacher's, including lengths.

    loss = mean of (p_ik − t_ik)², see `distill_mse`. Logs the mean cosine to the teacher.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | one text | teacher's embedding | sentence |

    Relations:
        `DistillCosine` ignores lengths.

    Example:
        >>> DistillMSE()(torch.eye(3) + 2, torch.eye(3))
        tensor(4.)
    """

    paper = "Reimers and Gurevych 2020, https://arxiv.org/abs/2004.09813"
    choose_when = "a student that must also have vectors of its teacher's length"

    def with_logs(self, projected: Tensor, teacher: Tensor) -> LossOutput:
        return distill_mse(projected, teacher), self.nearness(projected, teacher)


@checks_arguments
def distill_similarity(
    student: Float[Tensor, "batch dim"], teacher: Float[Tensor, "batch teacher"]
) -> Float[Tensor, ""]:
    """Compute the mean of (cos(s_i, s_j) − cos(t_i, t_j))² over all i ≠ j of the batch, 0 for one row.

    The two may have different dimensions. (After Tung and Mori 2019, https://arxiv.org/abs/1907.09682, equation 4, who
    normalize the rows of the matrices of inner products where we normalize the vectors. Park et al. 2019,
    https://arxiv.org/abs/1904.05068, compare distances and angles in the same way.)

    Args:
        student: Student's embeddings, (batch, dim).
        teacher: Teacher's embeddings, (batch, teacher).

    Returns:
        The scalar loss.

    Example:
        >>> distill_similarity(torch.eye(2), torch.eye(3)[:2])
        tensor(0.)
        >>> distill_similarity(torch.eye(2), torch.ones(2, 3))
        tensor(1.0000)
    """
    count = len(student)
    # Both diagonals are 1 and add nothing.
    difference = all_cosines(student, student) - all_cosines(teacher, teacher)
    return difference.square().sum() / max(count * (count - 1), 1)


class DistillSimilarity(TeacherLoss):
    """Squared error of the similarities within the batch.

    See `distill_similarity`. Logs the root of the mean squared difference of the two similarities.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | one text | teacher's embedding | sentence |

    Relations:
        `Distill` adds `DistillCosine`.

    Example:
        >>> DistillSimilarity()(torch.eye(3) + 2, torch.eye(3))
        tensor(0.8858)
    """

    is_batchwise = True
    contrast = Contrast.TEXTS
    paper = "after Tung and Mori 2019, https://arxiv.org/abs/1907.09682; Park et al. 2019, https://arxiv.org/abs/1904.05068"
    choose_when = "a student of another size, of which only similarities count"

    def with_logs(self, student: Tensor, teacher: Tensor) -> LossOutput:
        loss = distill_similarity(student, teacher)
        return loss, {"similarity_error": loss.detach().sqrt()}


class Distill(Sum, TeacherLoss):
    """`DistillCosine` plus a multiple of `DistillSimilarity`.

    loss = mean of 1 − cos(p_i, t_i) + w · mean of (cos(s_i, s_j) − cos(t_i, t_j))². Embeddings are compared in the
    teacher's space. Similarities are those of the student's own embeddings, which are used later. Default weight: 10,
    so that both parts have one size: an error of 0.1 in a similarity is 0.01 squared.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | one text | teacher's embedding | sentence |

    Relations:
        The sum of `DistillCosine` and `DistillSimilarity`.

    Args:
        similarity_weight: w.

    Example:
        >>> Distill()(student=torch.eye(3)[:, :2] + 0.1, projected=torch.eye(3) + 2, teacher=torch.eye(3))
        tensor(4.3152)
    """

    is_batchwise = True
    paper = "the sum of distill_cosine and distill_similarity"
    choose_when = "first to try for a smaller student"

    similarity_weight: Weight = 10.0

    def parts(self) -> Mapping[str, tuple[float, Loss]]:
        return {"cosine": (1.0, DistillCosine()), "similarity": (self.similarity_weight, DistillSimilarity())}

    def with_logs(self, student: Tensor, projected: Tensor, teacher: Tensor) -> LossOutput:
        return self.total(student=student, projected=projected, teacher=teacher)
