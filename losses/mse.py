"""Squared error: the score, or the probability it stands for, shall equal the target."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from losses.loss import Loss, LossOutput
from losses.options import choice
from losses.scores import full_precision
from schema.batch import Encoded
from schema.examples import Kind

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "identity": lambda scores: scores,
    "sigmoid": torch.sigmoid,
}
"""From a score to a prediction of the target: as it is (a cosine), or by the sigmoid (a logit)."""


def squared_error(
    scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"], *, activation: str
) -> Float[Tensor, ""]:
    """Mean squared difference of prediction and target.

    loss = (1/N) Σ (a(s_i) − y_i)², a one of ACTIVATIONS. (As MSELoss of sentence-transformers' cross-encoders.)
    """
    return F.mse_loss(ACTIVATIONS[activation](full_precision(scores)), full_precision(targets))


class SquaredError(Loss):
    """`squared_error` of the model's scores. Logs the mean absolute error, in units of the target."""

    takes = (Kind.SCORED_PAIR, Kind.LABELLED_PAIR)
    reads = "scores"
    couples = False

    def __init__(self, *, activation: str) -> None:
        super().__init__()
        self.activation = choice("loss.activation", activation, tuple(ACTIVATIONS))

    def forward(self, encoded: Encoded) -> LossOutput:
        loss = squared_error(encoded.scores, encoded.targets, activation=self.activation)
        return loss, {"mean_absolute_error": absolute_error(encoded, self.activation)}


@torch.no_grad()
def absolute_error(encoded: Encoded, activation: str) -> Float[Tensor, ""]:
    """Mean absolute difference of prediction and target."""
    return (ACTIVATIONS[activation](full_precision(encoded.scores)) - encoded.targets).abs().mean()
