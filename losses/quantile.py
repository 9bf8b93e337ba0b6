"""Quantile regression: the score shall be a quantile of the target, not its mean."""

import torch
from jaxtyping import Float
from torch import Tensor

from losses.loss import Loss, LossOutput
from losses.mse import ACTIVATIONS, absolute_error
from losses.options import choice, number
from losses.scores import full_precision
from schema.batch import Encoded
from schema.examples import Kind


def pinball(
    scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"], *, quantile: float, activation: str
) -> Float[Tensor, ""]:
    """Mean of q·e where the prediction is too low, and of (1 − q)·|e| where it is too high.

    e_i = y_i − a(s_i), a one of ACTIVATIONS. At its least a share q of the targets lies below the prediction; q = 0.5
    is half of the absolute error, whose best prediction is the median. (Koenker and Bassett 1978,
    https://doi.org/10.2307/1913643)
    """
    errors = full_precision(targets) - ACTIVATIONS[activation](full_precision(scores))
    return torch.maximum(quantile * errors, (quantile - 1) * errors).mean()


class Quantile(Loss):
    """`pinball` of the model's scores.

    Logs the mean absolute error, in units of the target, and the share of targets that are not above the prediction.
    """

    takes = (Kind.SCORED_PAIR, Kind.LABELLED_PAIR)
    reads = "scores"
    couples = False

    def __init__(self, *, quantile: float | int, activation: str) -> None:
        super().__init__()
        self.quantile = number("loss.quantile", quantile, low=0.01, high=0.99)
        self.activation = choice("loss.activation", activation, tuple(ACTIVATIONS))

    def forward(self, encoded: Encoded) -> LossOutput:
        loss = pinball(encoded.scores, encoded.targets, quantile=self.quantile, activation=self.activation)
        with torch.no_grad():
            reached = ACTIVATIONS[self.activation](full_precision(encoded.scores)) >= encoded.targets
        return loss, {
            "mean_absolute_error": absolute_error(encoded, self.activation),
            "share_below": reached.float().mean(),
        }
