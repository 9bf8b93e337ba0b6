"""Bilinear score: a learnt form uᵀWv tells whether, or how, two sentences belong together."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from juzhen.core.batch import Encoded
from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.losses.bce import binary_cross_entropy
from juzhen.losses.loss import Contrast, Loss, LossOutput, first_two
from juzhen.losses.options import choice
from juzhen.losses.scores import full_precision
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
    """

    takes = (Kind.LABELLED_PAIR, Kind.NLI_PAIR)
    reads = "embeddings"
    couples = False
    has_head = True
    contrast = Contrast.CLASSES

    def __init__(self, *, objective: str, dim: int, num_classes: int) -> None:
        super().__init__()
        self.objective = choice("loss.objective", objective, OBJECTIVES)
        if objective == "bce" and num_classes != 2:
            raise UserError(
                f"loss.objective=bce is for 0/1 pairs, and these have {num_classes} classes; use loss.objective=ce"
            )
        self.head = nn.Bilinear(dim, dim, 1 if objective == "bce" else num_classes)

    def forward(self, encoded: Encoded) -> LossOutput:
        logits = bilinear_logits(*first_two(encoded), self.head.weight, self.head.bias)
        if self.objective == "ce":
            loss, found = cross_entropy(logits, encoded.targets), logits.argmax(dim=-1)
        else:
            (logits,) = logits.unbind(dim=-1)
            loss = binary_cross_entropy(logits, encoded.targets, smoothing=0.0, focal_gamma=0.0)
            found = (logits > 0).to(torch.long)
        return loss, {"accuracy": (found == encoded.targets).float().mean()}
