"""Squared error: the score, or the probability it stands for, shall equal the target."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.losses.arguments import checks_arguments
from juzhen.losses.cosine import rescale
from juzhen.losses.loss import Loss, LossOutput
from juzhen.losses.options import checked, choice, interval
from juzhen.losses.scores import full_precision

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "identity": lambda scores: scores,
    "sigmoid": torch.sigmoid,
}
"""From a score to a prediction of the target: as it is (a cosine), or by the sigmoid (a logit)."""


@checks_arguments
def squared_error(
    scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"], *, activation: str = "identity"
) -> Float[Tensor, ""]:
    """Mean squared difference of prediction and target.

    loss = (1/N) Σ (a(s_i) − y_i)², a one of ACTIVATIONS. (As MSELoss of sentence-transformers' cross-encoders.)
    """
    return F.mse_loss(ACTIVATIONS[activation](full_precision(scores)), full_precision(targets))


class Regression(Loss):
    """A loss that compares a prediction, which the score stands for, with the target.

    activation    one of ACTIVATIONS: what the score predicts
    target_range  prediction that is asked for at the lowest and at the highest target; between them lies a line.
                  [-1, 1] asks for the cosine y · 2/5 − 1 where gold scores y are from 0 to 5

    Raises UserError for a range that the activation does not reach.
    """

    input_kinds = (Kind.SCORED_PAIR, Kind.LABELLED_PAIR)
    consumes = "scores"
    couples = False

    activation: str = checked("identity", choice, known=tuple(ACTIVATIONS))
    target_range: Sequence[float | int] = checked((0.0, 1.0), interval, low=-1.0, high=1.0)

    def __post_init__(self) -> None:
        given = self.target_range
        super().__post_init__()
        self.low, self.high = self.target_range
        if self.activation == "sigmoid" and self.low < 0:
            raise UserError(
                f"loss.target_range={list(given)}: with loss.activation=sigmoid predictions lie between 0 and "
                "1; type loss.target_range=[0,1] too, or loss.activation=identity"
            )

    def predicted_targets(self, targets: Float[Tensor, "batch"]) -> Float[Tensor, "batch"]:
        """The predictions that are asked for."""
        return rescale(targets, low=self.low, high=self.high)

    @torch.no_grad()
    def absolute_error(
        self, scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]
    ) -> Float[Tensor, ""]:
        """Mean absolute difference of prediction and target, in units of the target, which is from 0 to 1."""
        predictions = ACTIVATIONS[self.activation](full_precision(scores))
        return (predictions - self.predicted_targets(targets)).abs().mean() / (self.high - self.low)


class SquaredError(Regression):
    """`squared_error` of the model's scores. Logs the mean absolute error, in units of the target.

    Defaults: the score is the prediction, as torch.nn.MSELoss.
    """

    choose_when = "graded pairs on a cross-encoder, or distilling the scores of a teacher"

    def with_logs(self, scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> LossOutput:
        loss = squared_error(scores, self.predicted_targets(targets), activation=self.activation)
        return loss, {"mean_absolute_error": self.absolute_error(scores, targets)}
