"""Regression: the score, or the probability it stands for, shall equal the target."""

from collections.abc import Callable
from typing import Annotated

import torch
import torch.nn.functional as F
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.core.schema import Among, Number
from juzhen.losses.arguments import Interval, Positive, checks_arguments
from juzhen.losses.loss import Loss, LossOutput
from juzhen.losses.scores import full_precision


class GradedLoss(Loss):
    """A loss that holds each score to its target; rows do not meet. Logs the mean absolute error.

    The error is in units of the target: 1 is the way from the lowest to the highest.
    """

    input_kinds = (Kind.SCORED_PAIR, Kind.LABELLED_PAIR)
    input_type = "cosines"
    is_batchwise = False


def rescale(targets: Float[Tensor, "batch"], *, low: float, high: float) -> Float[Tensor, "batch"]:
    """Targets of [0, 1] laid out over [low, high]."""
    return low + (high - low) * full_precision(targets)


@checks_arguments
def cosine_regression(scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> Float[Tensor, ""]:
    """Mean squared difference of scores and targets.

    loss = (1/N) Σ (s_i − y_i)². (Reimers and Gurevych 2019, section 3)
    """
    return F.mse_loss(full_precision(scores), targets)


class CosineSimilarity(GradedLoss):
    """`cosine_regression` of the cosine score on the target.

    target_range  [0, 1]: unrelated sentences shall be orthogonal · [-1, 1]: they shall be opposite

    Default: the target is the cosine, as in sentence-transformers' CosineSimilarityLoss.
    """

    paper = "Reimers and Gurevych 2019, https://arxiv.org/abs/1908.10084"
    choose_when = "graded pairs, when the cosine itself shall be the grade"

    target_range: Interval = (0.0, 1.0)

    def with_logs(self, scores: Tensor, targets: Tensor) -> LossOutput:
        low, high = self.target_range
        targets = rescale(targets, low=low, high=high)
        error = (scores.detach() - targets).abs().mean() / (high - low)
        return cosine_regression(scores, targets), {"mean_absolute_error": error}


class SquaredErrorSigned(GradedLoss):
    """`cosine_regression` of the cosine on 2y − 1, y the target of [0, 1]: of grades g from 0 to 5 that is 2g/5 − 1.

    loss = (1/N) Σ (s_i − (2 y_i − 1))². `SquaredError` asks for y itself.
    """

    choose_when = "as mse, where unrelated sentences shall be opposite and not at a right angle"

    def with_logs(self, scores: Tensor, targets: Tensor) -> LossOutput:
        signed = rescale(targets, low=-1.0, high=1.0)
        error = (scores.detach() - signed).abs().mean() / 2
        return cosine_regression(scores, signed), {"mean_absolute_error": error}


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "identity": lambda scores: scores,
    "sigmoid": torch.sigmoid,
}
"""From a score to a prediction of the target: as it is (a cosine), or by the sigmoid (a logit)."""


class Regression(GradedLoss):
    """A loss that compares a prediction, which the score stands for, with the target.

    activation    one of ACTIVATIONS: what the score predicts
    target_range  prediction that is asked for at the lowest and at the highest target; between them lies a line.
                  [-1, 1] asks for the cosine y · 2/5 − 1 where gold scores y are from 0 to 5

    Raises UserError for a range that the activation does not reach.
    """

    input_type = "scores"

    activation: Annotated[str, Among(ACTIVATIONS)] = "identity"
    target_range: Interval = (0.0, 1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.low, self.high = self.target_range
        if self.activation == "sigmoid" and self.low < 0:
            raise UserError(
                f"target_range=[{self.low:g}, {self.high:g}]: with activation=sigmoid predictions lie "
                "between 0 and 1; type target_range=[0,1] too, or activation=identity"
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


@checks_arguments
def squared_error(
    scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"], *, activation: str = "identity"
) -> Float[Tensor, ""]:
    """Mean squared difference of prediction and target.

    loss = (1/N) Σ (a(s_i) − y_i)², a one of ACTIVATIONS. (As MSELoss of sentence-transformers' cross-encoders.)
    """
    return F.mse_loss(ACTIVATIONS[activation](full_precision(scores)), full_precision(targets))


class SquaredError(Regression):
    """`squared_error` of the model's scores.

    Defaults: the score is the prediction, as torch.nn.MSELoss.
    """

    choose_when = "graded pairs on a cross-encoder, or distilling the scores of a teacher"

    def with_logs(self, scores: Tensor, targets: Tensor) -> LossOutput:
        loss = squared_error(scores, self.predicted_targets(targets), activation=self.activation)
        return loss, {"mean_absolute_error": self.absolute_error(scores, targets)}


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
    """`huber` of the model's scores.

    delta  in units of the target: 1 is the way from the lowest to the highest, whatever `target_range` says

    Defaults: the score is the prediction, and errors above half of the range of targets count linearly; a delta of 1
    is that of torch.nn.HuberLoss.
    """

    paper = "Huber 1964, https://doi.org/10.1214/aoms/1177703732"
    choose_when = "graded pairs with some wrong labels"

    delta: Positive = 0.5

    def with_logs(self, scores: Tensor, targets: Tensor) -> LossOutput:
        delta = self.delta * (self.high - self.low)
        loss = huber(scores, self.predicted_targets(targets), delta=delta, activation=self.activation)
        return loss, {"mean_absolute_error": self.absolute_error(scores, targets)}


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
    """`pinball` of the model's scores. Logs the share of targets that are not above the prediction, too.

    Defaults: the median, of a score that is the prediction.
    """

    paper = "Koenker and Bassett 1978, https://doi.org/10.2307/1913643"
    choose_when = "graded pairs, when too high and too low a score do not cost the same"

    quantile: Annotated[Number, Field(ge=0.01, le=0.99)] = 0.5

    def with_logs(self, scores: Tensor, targets: Tensor) -> LossOutput:
        goals = self.predicted_targets(targets)
        loss = pinball(scores, goals, quantile=self.quantile, activation=self.activation)
        reached = ACTIVATIONS[self.activation](full_precision(scores.detach())) >= goals
        error = self.absolute_error(scores, targets)
        return loss, {"mean_absolute_error": error, "share_below": reached.float().mean()}
