"""Quantile regression: the score shall be a quantile of the target, not its mean."""

import torch
from jaxtyping import Float
from torch import Tensor

from juzhen.losses.arguments import checks_arguments
from juzhen.losses.loss import LossOutput
from juzhen.losses.mse import ACTIVATIONS, Regression
from juzhen.losses.options import checked, number
from juzhen.losses.scores import full_precision


@checks_arguments
def pinball(
    scores: Float[Tensor, "batch"],
    targets: Float[Tensor, "batch"],
    *,
    quantile: float = 0.5,
    activation: str = "identity",
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

    Defaults: the median, of a score that is the prediction.

    Logs the mean absolute error, in units of the target, and the share of targets that are not above the prediction.
    """

    paper = "Koenker and Bassett 1978, https://doi.org/10.2307/1913643"
    choose_when = "graded pairs, when too high and too low a score do not cost the same"

    quantile: float | int = checked(0.5, number, low=0.01, high=0.99)

    def with_logs(self, scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> LossOutput:
        asked = self.predicted_targets(targets)
        loss = pinball(scores, asked, quantile=self.quantile, activation=self.activation)
        with torch.no_grad():
            reached = ACTIVATIONS[self.activation](full_precision(scores)) >= asked
        return loss, {
            "mean_absolute_error": self.absolute_error(scores, targets),
            "share_below": reached.float().mean(),
        }
