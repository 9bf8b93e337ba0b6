"""Huber loss: squared error for small errors, absolute error for large ones."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from losses.loss import Loss, LossOutput
from losses.mse import ACTIVATIONS, absolute_error
from losses.options import choice, number
from losses.scores import full_precision
from schema.batch import Encoded
from schema.examples import Kind


def huber(
    scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"], *, delta: float, activation: str
) -> Float[Tensor, ""]:
    """Mean of e²/2 for errors |e| ≤ δ, and of δ(|e| − δ/2) beyond: an outlier pulls no harder than δ.

    e_i = a(s_i) − y_i, a one of ACTIVATIONS. (Huber 1964, https://doi.org/10.1214/aoms/1177703732)
    """
    predictions = ACTIVATIONS[activation](full_precision(scores))
    return F.huber_loss(predictions, full_precision(targets), delta=delta)


class Huber(Loss):
    """`huber` of the model's scores. Logs the mean absolute error, in units of the target."""

    takes = (Kind.SCORED_PAIR, Kind.LABELLED_PAIR)
    reads = "scores"
    couples = False

    def __init__(self, *, delta: float | int, activation: str) -> None:
        super().__init__()
        self.delta = number("loss.delta", delta, low=0.0, open_low=True)
        self.activation = choice("loss.activation", activation, tuple(ACTIVATIONS))

    def forward(self, encoded: Encoded) -> LossOutput:
        loss = huber(encoded.scores, encoded.targets, delta=self.delta, activation=self.activation)
        return loss, {"mean_absolute_error": absolute_error(encoded, self.activation)}
