"""Distillation by both: the teacher's vectors, and its similarities within the batch."""

from jaxtyping import Float
from torch import Tensor

from juzhen.losses.distill_cosine import Taught, distill_cosine
from juzhen.losses.distill_similarity import distill_similarity
from juzhen.losses.loss import LossOutput
from juzhen.losses.options import checked, number


class Distill(Taught):
    """`distill_cosine` plus a multiple of `distill_similarity`.

    The vectors are compared in the teacher's space, the similarities are those of the student's own embeddings, which
    are what it will be used by. Logs the mean cosine to the teacher, and the root of the second part.

    Default: a weight of 10, by which both parts are of one size: an error of 0.1 in a similarity is 0.01 squared.
    """

    couples = True
    paper = "the sum of distill_cosine and distill_similarity"
    choose_when = "first to try for a smaller student"

    similarity_weight: float | int = checked(10.0, number, low=0.0)

    def with_logs(
        self,
        student: Float[Tensor, "batch dim"],
        projected: Float[Tensor, "batch teacher"],
        teacher: Float[Tensor, "batch teacher"],
    ) -> LossOutput:
        similarity = distill_similarity(student, teacher)
        loss = distill_cosine(projected, teacher) + self.similarity_weight * similarity
        return loss, self.nearness(projected, teacher) | {"similarity_error": similarity.detach().sqrt()}
