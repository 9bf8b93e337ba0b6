"""Cosine regression: the score itself shall equal the target."""

from collections.abc import Sequence

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from juzhen.core.batch import Encoded
from juzhen.core.examples import Kind
from juzhen.losses.loss import Loss, LossOutput
from juzhen.losses.options import interval
from juzhen.losses.scores import full_precision


def rescale(targets: Float[Tensor, "batch"], *, low: float, high: float) -> Float[Tensor, "batch"]:
    """Targets of [0, 1] laid out over [low, high]."""
    return low + (high - low) * full_precision(targets)


def cosine_regression(scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> Float[Tensor, ""]:
    """Mean squared difference of scores and targets.

    loss = (1/N) Σ (s_i − y_i)². (Reimers and Gurevych 2019, section 3)
    """
    return F.mse_loss(full_precision(scores), targets)


class CosineSimilarity(Loss):
    """`cosine_regression` of the cosine score on the target.

    target_range  [0, 1]: unrelated sentences shall be orthogonal · [-1, 1]: they shall be opposite

    Logs the mean absolute error, in units of the target: 1 is the way from the lowest to the highest.
    """

    takes = (Kind.SCORED_PAIR, Kind.LABELLED_PAIR)
    reads = "cosines"
    couples = False

    def __init__(self, *, target_range: Sequence[float | int]) -> None:
        super().__init__()
        self.low, self.high = interval("loss.target_range", target_range, low=-1.0, high=1.0)

    def forward(self, encoded: Encoded) -> LossOutput:
        targets = rescale(encoded.targets, low=self.low, high=self.high)
        error = (encoded.scores.detach() - targets).abs().mean() / (self.high - self.low)
        return cosine_regression(encoded.scores, targets), {"mean_absolute_error": error}
