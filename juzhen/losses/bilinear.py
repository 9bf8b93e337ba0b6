"""Bilinear score: a learnt form uᵀWv tells whether, or how, two sentences belong together."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.losses.bce import binary_cross_entropy
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.options import choice
from juzhen.losses.scores import choice_accuracy, full_precision, sign_accuracy
from juzhen.losses.softmax import cross_entropy

OBJECTIVES = ("bce", "ce")


def bilinear_logits(
    first: Float[Tensor, "batch dim"],
    second: Float[Tensor, "batch dim"],
    forms: Float[Tensor, "classes dim dim"],
    shifts: Float[Tensor, "classes"],
) -> Float[Tensor, "batch classes"]:
    """One logit per form: û_iᵀ W_c v̂_i + b_c, with û, v̂ of length 1, so that long embeddings say no more."""
    first, second = F.normalize(full_precision(first), dim=-1), F.normalize(full_precision(second), dim=-1)
    return F.bilinear(first.to(forms.dtype), second.to(forms.dtype), forms, shifts)


class Bilinear(Loss):
    """Cross entropy of `bilinear_logits`. W is trained and stored in checkpoints; evaluation stays with cosines.

    objective  bce: one form, whose logit is that of label 1 (0/1 pairs) · ce: one form per class, softmax over them

    W starts small and random, so both sentences are told apart from the start: uᵀWv is not vᵀWu.
    A form that evaluation uses is a part of the model and not of a loss: model.score=bilinear.
    Raises UserError for bce on more than two classes. Logs the accuracy on the batch.

    Default: one form per class.
    """

    input_kinds = (Kind.LABELLED_PAIR, Kind.NLI_PAIR)
    consumes = "embeddings"
    couples = False
    has_head = True
    contrast = Contrast.CLASSES
    choose_when = "0/1 or NLI pairs, to compare with softmax: a form of two vectors instead of a linear head"

    def __init__(self, *, dim: int, num_classes: int, objective: str = "ce") -> None:
        super().__init__()
        self.objective = choice("loss.objective", objective, OBJECTIVES)
        if objective == "bce" and num_classes != 2:
            raise UserError(
                f"loss.objective=bce is for 0/1 pairs, and these have {num_classes} classes; use loss.objective=ce"
            )
        self.head = nn.Bilinear(dim, dim, 1 if objective == "bce" else num_classes)

    def with_logs(
        self,
        first: Float[Tensor, "batch dim"],
        second: Float[Tensor, "batch dim"],
        classes: Float[Tensor, "batch"],
    ) -> LossOutput:
        logits = bilinear_logits(first, second, self.head.weight, self.head.bias)
        if self.objective == "ce":
            return cross_entropy(logits, classes), {"accuracy": choice_accuracy(logits, classes)}
        (logits,) = logits.unbind(dim=-1)
        return binary_cross_entropy(logits, classes), {"accuracy": sign_accuracy(logits, classes)}
