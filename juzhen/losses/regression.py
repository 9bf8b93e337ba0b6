"""Regression: the score, or its probability, should equal the target."""

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
    """Base of losses that compare each score with its target.

    Logs the mean absolute error in units of the target: 1 is the distance from the lowest to the highest.

    Example:
        >>> class AbsoluteError(GradedLoss):
        ...     def with_logs(self, scores, targets):
        ...         return (scores - targets).abs().mean(), {}
        >>> AbsoluteError()(torch.tensor([0.75, 0.25]), torch.tensor([1.0, 0.0]))
        tensor(0.2500)
    """

    input_kinds = (Kind.SCORED_PAIR, Kind.LABELLED_PAIR)
    input_type = "cosines"
    is_batchwise = False


def _rescale(targets: Float[Tensor, "batch"], *, low: float, high: float) -> Float[Tensor, "batch"]:
    """Map targets in [0, 1] to [low, high]."""
    return low + (high - low) * full_precision(targets)


@checks_arguments
def cosine_regression(scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> Float[Tensor, ""]:
    """Compute the mean squared difference of scores and targets.

    loss = (1/N) Σ (s_i − y_i)². (Reimers and Gurevych 2019, section 3)

    Args:
        scores: Cosine of each pair, (batch,).
        targets: Wanted cosine of each pair, (batch,).

    Returns:
        The scalar loss.

    Example:
        >>> cosine_regression(torch.tensor([0.9, 0.5]), torch.tensor([1.0, 0.0]))
        tensor(0.1300)
    """
    return F.mse_loss(full_precision(scores), targets)


class CosineSimilarity(GradedLoss):
    """Squared error of the cosine: the cosine must equal the grade.

    loss = (1/N) Σ (s_i − y_i)², see `cosine_regression`. Default: the target is the cosine, as in
    sentence-transformers' CosineSimilarityLoss.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | two texts | grade | scored_pair |
        | two texts | 0 or 1 | labelled_pair |

    Relations:
        `SquaredErrorSigned` has target_range=(-1, 1). `CoSENT` reads only the order of the grades.

    Args:
        target_range: (0, 1): unrelated sentences are orthogonal. (-1, 1): they are opposite.

    Example:
        >>> CosineSimilarity()(torch.tensor([0.9, 0.2]), torch.tensor([1.0, 0.0]))
        tensor(0.0250)
    """

    paper = "Reimers and Gurevych 2019, https://arxiv.org/abs/1908.10084"
    choose_when = "graded pairs, when the cosine itself should be the grade"

    target_range: Interval = (0.0, 1.0)

    def with_logs(self, scores: Tensor, targets: Tensor) -> LossOutput:
        low, high = self.target_range
        targets = _rescale(targets, low=low, high=high)
        error = (scores.detach() - targets).abs().mean() / (high - low)
        return cosine_regression(scores, targets), {"mean_absolute_error": error}


class SquaredErrorSigned(GradedLoss):
    """Squared error of the cosine with targets in [−1, 1].

    loss = (1/N) Σ (s_i − (2 y_i − 1))², y the target in [0, 1]. For grades g from 0 to 5 the wanted cosine is 2g/5 −
    1.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | two texts | grade | scored_pair |
        | two texts | 0 or 1 | labelled_pair |

    Relations:
        `SquaredError` has the target y itself.

    Example:
        >>> SquaredErrorSigned()(torch.tensor([0.9, -0.8]), torch.tensor([1.0, 0.0]))
        tensor(0.0250)
    """

    choose_when = "as mse, where unrelated sentences should be opposite and not at a right angle"

    def with_logs(self, scores: Tensor, targets: Tensor) -> LossOutput:
        signed = _rescale(targets, low=-1.0, high=1.0)
        error = (scores.detach() - signed).abs().mean() / 2
        return cosine_regression(scores, signed), {"mean_absolute_error": error}


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "identity": lambda scores: scores,
    "sigmoid": torch.sigmoid,
}
"""From a score to a prediction of the target: as it is (a cosine), or by the sigmoid (a logit)."""


class Regression(GradedLoss):
    """Base of losses that compare a prediction, computed from the score, with the target.

    Args:
        activation: "identity" for a cosine, "sigmoid" for a logit.
        target_range: Predictions wanted at the lowest and at the highest target, linear between them. (-1, 1) asks for
            the cosine 2g/5 − 1 where gold scores g are from 0 to 5.

    Raises:
        UserError: A range that the activation does not reach.

    Example:
        >>> SquaredError(activation="sigmoid")(torch.tensor([0.0]), torch.tensor([1.0]))
        tensor(0.2500)
    """

    input_type = "scores"

    activation: Annotated[str, Among(ACTIVATIONS)] = "identity"
    target_range: Interval = (0.0, 1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.low, self.high = self.target_range
        if self.activation == "sigmoid" and self.low < 0:
            raise UserError(
                f"target_range=[{self.low:g}, {self.high:g}]: with activation=sigmoid predictions are "
                "between 0 and 1. Type target_range=[0,1] too, or activation=identity"
            )

    def predicted_targets(self, targets: Float[Tensor, "batch"]) -> Float[Tensor, "batch"]:
        """The predictions that are asked for.

        Args:
            targets: Gold values from 0 to 1.

        Returns:
            The value that a prediction should have.
        """
        return _rescale(targets, low=self.low, high=self.high)

    @torch.no_grad()
    def absolute_error(
        self, scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]
    ) -> Float[Tensor, ""]:
        """Mean absolute difference of prediction and target, in units of the target, which is from 0 to 1.

        Args:
            scores: Score of each row.
            targets: Gold values from 0 to 1.

        Returns:
            The mean, from 0 to 1.
        """
        predictions = ACTIVATIONS[self.activation](full_precision(scores))
        return (predictions - self.predicted_targets(targets)).abs().mean() / (self.high - self.low)


@checks_arguments
def squared_error(
    scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"], *, activation: str = "identity"
) -> Float[Tensor, ""]:
    """Compute the mean squared difference of prediction and target.

    loss = (1/N) Σ (a(s_i) − y_i)². (As MSELoss of sentence-transformers' cross-encoders.)

    Args:
        scores: Score of each pair, (batch,).
        targets: Wanted prediction of each pair, (batch,).
        activation: a, "identity" or "sigmoid".

    Returns:
        The scalar loss.

    Example:
        >>> squared_error(torch.tensor([0.9, 0.5]), torch.tensor([1.0, 0.0]))
        tensor(0.1300)
    """
    return F.mse_loss(ACTIVATIONS[activation](full_precision(scores)), full_precision(targets))


class SquaredError(Regression):
    """Mean squared error of the prediction, as torch.nn.MSELoss.

    loss = (1/N) Σ (a(s_i) − y_i)², see `squared_error`.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | two texts | grade | scored_pair |
        | two texts | 0 or 1 | labelled_pair |

    Relations:
        `Huber` limits the pull of outliers. `CosineSimilarity` takes cosines only.

    Args:
        activation: "identity" for a cosine, "sigmoid" for a logit.
        target_range: Predictions wanted at the lowest and at the highest target.

    Example:
        >>> SquaredError(activation="sigmoid")(torch.tensor([2.0, -1.0]), torch.tensor([1.0, 0.0]))
        tensor(0.0433)
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
    """Compute the mean of e²/2 for errors |e| ≤ δ, and of δ(|e| − δ/2) beyond: an outlier pulls no harder than δ.

    e_i = a(s_i) − y_i. (Huber 1964, https://doi.org/10.1214/aoms/1177703732)

    Args:
        scores: Score of each pair, (batch,).
        targets: Wanted prediction of each pair, (batch,).
        delta: δ, in units of the prediction.
        activation: a, "identity" or "sigmoid".

    Returns:
        The scalar loss.

    Example:
        >>> huber(torch.tensor([0.5, 3.0]), torch.tensor([0.0, 0.0]))
        tensor(1.3125)
    """
    predictions = ACTIVATIONS[activation](full_precision(scores))
    return F.huber_loss(predictions, full_precision(targets), delta=delta)


class Huber(Regression):
    """Huber loss of the prediction: wrong labels pull no harder than δ.

    See `huber`. Defaults: the score is the prediction, and errors above half of the range of targets count linearly. A
    delta of 1 is that of torch.nn.HuberLoss.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | two texts | grade | scored_pair |
        | two texts | 0 or 1 | labelled_pair |

    Relations:
        `SquaredError` for large δ, up to a factor of ½.

    Args:
        delta: δ in units of the target: 1 is the distance from the lowest to the highest, for any `target_range`.
        activation: "identity" for a cosine, "sigmoid" for a logit.
        target_range: Predictions wanted at the lowest and at the highest target.

    Example:
        >>> Huber()(torch.tensor([0.9, 0.9]), torch.tensor([1.0, 0.0]))
        tensor(0.1650)
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
    """Compute the mean of q·e where the prediction is too low, and of (1 − q)·|e| where it is too high.

    e_i = y_i − a(s_i). At the minimum a share q of the targets is below the prediction. q = 0.5 is half of the
    absolute error, whose best prediction is the median. (Koenker and Bassett 1978, https://doi.org/10.2307/1913643)

    Args:
        scores: Score of each pair, (batch,).
        targets: Wanted prediction of each pair, (batch,).
        quantile: q.
        activation: a, "identity" or "sigmoid".

    Returns:
        The scalar loss.

    Example:
        >>> pinball(torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0]), quantile=0.9)
        tensor(0.2500)
    """
    errors = full_precision(targets) - ACTIVATIONS[activation](full_precision(scores))
    return torch.maximum(quantile * errors, (quantile - 1) * errors).mean()


class Quantile(Regression):
    """Quantile (pinball) loss: too high and too low scores cost differently.

    See `pinball`. Default: the median. Logs the share of targets that are not above the prediction as well.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | two texts | grade | scored_pair |
        | two texts | 0 or 1 | labelled_pair |

    Relations:
        Half of the absolute error at quantile=0.5.

    Args:
        quantile: q, the share of targets below the best prediction.
        activation: "identity" for a cosine, "sigmoid" for a logit.
        target_range: Predictions wanted at the lowest and at the highest target.

    Example:
        >>> Quantile(quantile=0.9)(torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0]))
        tensor(0.2500)
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
