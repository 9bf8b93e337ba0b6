"""Classification and regression at once: cross entropy of the logit, and squared error of its probability."""

import torch
from jaxtyping import Float
from torch import Tensor

from juzhen.core.examples import Kind
from juzhen.losses.arguments import checks_arguments
from juzhen.losses.bce import binary_cross_entropy
from juzhen.losses.loss import Loss, LossOutput
from juzhen.losses.mse import squared_error
from juzhen.losses.options import checked, divisor, number
from juzhen.losses.scores import full_precision, label_gap


@checks_arguments
def cross_entropy_and_error(
    logits: Float[Tensor, "batch"], targets: Float[Tensor, "batch"], *, error_weight: float = 0.5
) -> Float[Tensor, ""]:
    """Binary cross entropy plus a multiple of the squared error of the probability.

    loss = CE + α MSE = (1/N) Σ −[y log p + (1 − y) log(1 − p)] + α (p − y)², p = sigmoid(logit), y in [0, 1].
    Both parts are smallest at p = y, graded targets included: α only says how the way there is weighed.
    """
    entropy = binary_cross_entropy(logits, targets)
    return entropy + error_weight * squared_error(logits, targets, activation="sigmoid")


class CrossEntropyError(Loss):
    """`cross_entropy_and_error` of score / temperature, the logit.

    A cross-encoder's score is a logit, and its temperature 1. A cosine becomes one by a temperature such as 0.05, with
    the border at 0, as in `bce.py`.

    Defaults: the score is a logit already, and its error counts half.

    Logs the mean absolute error of the probability, mean score of positives, of negatives, and the gap.
    """

    input_kinds = (Kind.SCORED_PAIR, Kind.LABELLED_PAIR)
    consumes = "scores"
    couples = False
    choose_when = "graded pairs on a cross-encoder whose probability shall come close to the grade"

    temperature: float | int = checked(1.0, divisor)
    error_weight: float | int = checked(0.5, number, low=0.0)

    def with_logs(self, scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> LossOutput:
        logits = full_precision(scores) / self.temperature
        loss = cross_entropy_and_error(logits, targets, error_weight=self.error_weight)
        with torch.no_grad():
            error = (logits.sigmoid() - targets).abs().mean()
        return loss, {"mean_absolute_error": error} | label_gap(scores, targets)
