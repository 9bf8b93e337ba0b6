"""Cross entropy over classes, on a cross-encoder that gives one logit per class."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from juzhen.core.batch import Encoded
from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.options import number
from juzhen.losses.scores import full_precision


def class_cross_entropy(
    logits: Float[Tensor, "batch classes"],
    classes: Float[Tensor, "batch"],
    *,
    smoothing: float,
    focal_gamma: float,
) -> Float[Tensor, ""]:
    """Mean cost of the class probabilities p = softmax(logits); `classes` holds class numbers, as floats.

    loss = −(1/N) Σ_i Σ_c ỹ_ic (1 − p_ic)^γ log p_ic, with ỹ = (1 − ε) · onehot(y) + ε/K, K classes.
    ε, γ as in `bce.binary_cross_entropy`, to which it comes down for two classes and the logits' difference.
    """
    logits = full_precision(logits)
    one_hot = F.one_hot(classes.long(), logits.shape[1]).to(logits.dtype)
    soft = smoothing / logits.shape[1] + (1 - smoothing) * one_hot
    log_probability = F.log_softmax(logits, dim=-1)
    if focal_gamma:
        # 1 − p is the sum of the other probabilities; a power below 1 has no derivative at 0.
        others = (1 - log_probability.exp()).clamp(min=torch.finfo(logits.dtype).eps)
        log_probability = others**focal_gamma * log_probability
    return -(soft * log_probability).sum(dim=-1).mean()


class CrossEntropy(Loss):
    """`class_cross_entropy` of the model's own class logits: a two-node cross-encoder, or three nodes for NLI.

    For a bi-encoder there are softmax and bilinear, whose classifiers are part of the loss.
    Raises UserError at the first batch of a model without class logits. Logs the accuracy on the batch.
    """

    takes = (Kind.LABELLED_PAIR, Kind.NLI_PAIR)
    reads = "logits"
    couples = False
    contrast = Contrast.CLASSES

    def __init__(self, *, smoothing: float | int, focal_gamma: float | int) -> None:
        super().__init__()
        self.smoothing = number("loss.smoothing", smoothing, low=0.0, high=1.0)
        self.focal_gamma = number("loss.focal_gamma", focal_gamma, low=0.0)

    def forward(self, encoded: Encoded) -> LossOutput:
        if encoded.logits is None:
            raise UserError(
                "loss=ce needs one logit per class, and this model gives none; use loss=bce for its scores, or "
                "loss=softmax, which brings a classifier over embeddings"
            )
        loss = class_cross_entropy(
            encoded.logits, encoded.targets, smoothing=self.smoothing, focal_gamma=self.focal_gamma
        )
        return loss, {"accuracy": (encoded.logits.argmax(dim=-1) == encoded.targets).float().mean()}
