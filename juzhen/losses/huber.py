"""Huber loss: squared error for small errors, absolute error for large ones."""

from collections.abc import Sequence

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from juzhen.core.batch import Encoded
from juzhen.losses.loss import LossOutput
from juzhen.losses.mse import ACTIVATIONS, Regression
from juzhen.losses.options import number
from juzhen.losses.scores import full_precision


def huber(
    scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"], *, delta: float, activation: str
) -> Float[Tensor, ""]:
    """Mean of e²/2 for errors |e| ≤ δ, and of δ(|e| − δ/2) beyond: an outlier pulls no harder than δ.

    e_i = a(s_i) − y_i, a one of ACTIVATIONS. (Huber 1964, https://doi.org/10.1214/aoms/1177703732)
    """
    predictions = ACTIVATIONS[activation](full_precision(scores))
    return F.huber_loss(predictions, full_precision(targets), delta=delta)


class Huber(Regression):
    """`huber` of the model's scores. Logs the mean absolute error, in units of the target.

    delta  in units of the target: 1 is the way from the lowest to the highest, whatever `target_range` says
    """

    def __init__(self, *, delta: float | int, activation: str, target_range: Sequence[float | int]) -> None:
        super().__init__(activation=activation, target_range=target_range)
        self.delta = number("loss.delta", delta, low=0.0, open_low=True)

    def forward(self, encoded: Encoded) -> LossOutput:
        delta = self.delta * (self.high - self.low)
        targets = self.predicted_targets(encoded)
        loss = huber(encoded.scores, targets, delta=delta, activation=self.activation)
        return loss, {"mean_absolute_error": self.absolute_error(encoded)}
