"""Classification and regression at once: cross entropy of the logit, and squared error of its probability."""

import torch
from jaxtyping import Float
from torch import Tensor

from juzhen.core.batch import Encoded
from juzhen.core.examples import Kind
from juzhen.losses.bce import binary_cross_entropy
from juzhen.losses.loss import Loss, LossOutput
from juzhen.losses.mse import squared_error
from juzhen.losses.options import number
from juzhen.losses.scores import full_precision, score_gap


def cross_entropy_and_error(
    logits: Float[Tensor, "batch"], targets: Float[Tensor, "batch"], *, error_weight: float
) -> Float[Tensor, ""]:
    """Binary cross entropy plus a multiple of the squared error of the probability.

    loss = CE + α MSE = (1/N) Σ −[y log p + (1 − y) log(1 − p)] + α (p − y)², p = sigmoid(logit), y in [0, 1].
    Both parts are smallest at p = y, graded targets included: α only says how the way there is weighed.
    """
    entropy = binary_cross_entropy(logits, targets, smoothing=0.0, focal_gamma=0.0)
    return entropy + error_weight * squared_error(logits, targets, activation="sigmoid")


class CrossEntropyError(Loss):
    """`cross_entropy_and_error` of score / temperature, the logit.

    A cross-encoder's score is a logit, and its temperature 1. A cosine becomes one by a temperature such as 0.05, with
    the border at 0, as in `bce.py`.

    Logs the mean absolute error of the probability, mean score of positives, of negatives, and the gap.
    """

    takes = (Kind.SCORED_PAIR, Kind.LABELLED_PAIR)
    reads = "scores"
    couples = False

    def __init__(self, *, temperature: float | int, error_weight: float | int) -> None:
        super().__init__()
        self.temperature = number("loss.temperature", temperature, low=0.0, open_low=True)
        self.error_weight = number("loss.error_weight", error_weight, low=0.0)

    def forward(self, encoded: Encoded) -> LossOutput:
        logits, is_positive = full_precision(encoded.scores) / self.temperature, encoded.targets > 0.5
        loss = cross_entropy_and_error(logits, encoded.targets, error_weight=self.error_weight)
        with torch.no_grad():
            error = (logits.sigmoid() - encoded.targets).abs().mean()
        return loss, {"mean_absolute_error": error} | score_gap(encoded.scores, is_positive, ~is_positive)
