"""Quantile regression: the score shall be a quantile of the target, not its mean."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from juzhen.core.batch import Encoded
from juzhen.losses.loss import LossOutput
from juzhen.losses.mse import ACTIVATIONS, Regression
from juzhen.losses.options import number
from juzhen.losses.scores import full_precision


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


class Quantile(Regression):
    """`pinball` of the model's scores.

    Logs the mean absolute error, in units of the target, and the share of targets that are not above the prediction.
    """

    def __init__(
        self, *, quantile: float | int, activation: str, target_range: Sequence[float | int]
    ) -> None:
        super().__init__(activation=activation, target_range=target_range)
        self.quantile = number("loss.quantile", quantile, low=0.01, high=0.99)

    def forward(self, encoded: Encoded) -> LossOutput:
        targets = self.predicted_targets(encoded)
        loss = pinball(encoded.scores, targets, quantile=self.quantile, activation=self.activation)
        with torch.no_grad():
            reached = ACTIVATIONS[self.activation](full_precision(encoded.scores)) >= targets
        return loss, {
            "mean_absolute_error": self.absolute_error(encoded),
            "share_below": reached.float().mean(),
        }
