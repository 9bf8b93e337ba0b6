"""From the class logits of a cross-encoder to one score of a pair, by how close a pair is in each class."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from juzhen.core.batch import constants
from juzhen.core.errors import UserError
from juzhen.core.examples import NLI_GRADES

GRADES = {2: (0.0, 1.0), len(NLI_GRADES): NLI_GRADES}
"""Number of classes → how close the sentences are in each: 0/1 labels, NLI classes."""


def similarity(
    logits: Float[Tensor, "pairs outputs"], grades: Sequence[float] = ()
) -> Float[Tensor, "pairs"]:
    """One number per pair, higher = closer: the logit itself, or the logit of the expected grade.

    With class probabilities p and grades g (1, 0.5, 0 for NLI), s = log Σ p_c g_c − log Σ p_c (1 − g_c), so that the
    sigmoid of s is the expected grade, from 0 to 1. For two classes that is z_1 − z_0, whose sigmoid is the
    probability of label 1.

    grades  of each class, from 0 to 1; without any those of GRADES
    """
    if logits.shape[1] == 1:
        return logits[:, 0]
    of_classes = constants(tuple(grades) or GRADES[logits.shape[1]], like=logits)
    closer, apart = (logits + part.log() for part in (of_classes, 1 - of_classes))
    return closer.logsumexp(dim=1) - apart.logsumexp(dim=1)


def checked_grades(outputs: int, grades: Sequence[float] | None) -> tuple[float, ...]:
    """Grades of a head's classes. Raises UserError where there are not as many, or none of some closeness."""
    checked = tuple(grades or GRADES.get(outputs, ()))
    if outputs == 1 and not checked:
        return ()
    are_shares = all(isinstance(grade, int | float) and 0 <= grade <= 1 for grade in checked)
    if len(checked) != outputs or not are_shares or len(set(checked)) < 2:
        raise UserError(
            f"grades={list(checked)}: a head of {outputs} classes needs a grade for each, from 0 to 1, not all the same"
        )
    return tuple(map(float, checked))
