"""Huber loss: squared error for small errors, absolute error for large ones."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from juzhen.losses.arguments import checks_arguments
from juzhen.losses.loss import LossOutput
from juzhen.losses.mse import ACTIVATIONS, Regression
from juzhen.losses.options import checked, number
from juzhen.losses.scores import full_precision


@checks_arguments
def huber(
    scores: Float[Tensor, "batch"],
    targets: Float[Tensor, "batch"],
    *,
    delta: float = 1.0,
    activation: str = "identity",
) -> Float[Tensor, ""]:
    """Mean of e²/2 for errors |e| ≤ δ, and of δ(|e| − δ/2) beyond: an outlier pulls no harder than δ.

    e_i = a(s_i) − y_i, a one of ACTIVATIONS. (Huber 1964, https://doi.org/10.1214/aoms/1177703732)
    """
    predictions = ACTIVATIONS[activation](full_precision(scores))
    return F.huber_loss(predictions, full_precision(targets), delta=delta)


class Huber(Regression):
    """`huber` of the model's scores. Logs the mean absolute error, in units of the target.

    delta  in units of the target: 1 is the way from the lowest to the highest, whatever `target_range` says

    Defaults: the score is the prediction, and errors above half of the range of targets count linearly; a delta of 1 is
    that of torch.nn.HuberLoss.
    """

    paper = "Huber 1964, https://doi.org/10.1214/aoms/1177703732"
    choose_when = "graded pairs with some wrong labels"

    delta: float | int = checked(0.5, number, low=0.0, open_low=True)

    def with_logs(self, scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> LossOutput:
        delta = self.delta * (self.high - self.low)
        asked = self.predicted_targets(targets)
        loss = huber(scores, asked, delta=delta, activation=self.activation)
        return loss, {"mean_absolute_error": self.absolute_error(scores, targets)}
