"""Cross entropy over classes, on a cross-encoder that gives one logit per class."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from juzhen.core.examples import Kind
from juzhen.losses.arguments import checks_arguments
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.options import checked, number
from juzhen.losses.scores import choice_accuracy, full_precision


@checks_arguments
def class_cross_entropy(
    logits: Float[Tensor, "batch classes"],
    classes: Float[Tensor, "batch"],
    *,
    smoothing: float = 0.0,
    focal_gamma: float = 0.0,
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
    """`class_cross_entropy` of the model's own class logits: a two-node cross-encoder, three nodes for NLI, or
    one for each grade of graded pairs that have few (`grades` of the set).

    For a bi-encoder there are softmax and bilinear, whose classifiers are part of the loss.
    Logs the accuracy on the batch.

    Defaults: the plain loss, as torch.nn.CrossEntropyLoss.
    """

    input_kinds = (Kind.LABELLED_PAIR, Kind.NLI_PAIR, Kind.SCORED_PAIR)
    consumes = "logits"
    couples = False
    contrast = Contrast.CLASSES
    choose_when = "a cross-encoder that shall tell classes, such as those of NLI or grades from 0 to 5"

    smoothing: float | int = checked(0.0, number, low=0.0, high=1.0)
    focal_gamma: float | int = checked(0.0, number, low=0.0)

    def with_logs(
        self, logits: Float[Tensor, "batch classes"], classes: Float[Tensor, "batch"]
    ) -> LossOutput:
        loss = class_cross_entropy(logits, classes, smoothing=self.smoothing, focal_gamma=self.focal_gamma)
        return loss, {"accuracy": choice_accuracy(logits, classes)}
