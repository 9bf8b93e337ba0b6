"""Cosine regression: the score itself shall equal the target."""

from collections.abc import Sequence

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from juzhen.core.examples import Kind
from juzhen.losses.arguments import checks_arguments
from juzhen.losses.loss import Loss, LossOutput
from juzhen.losses.options import checked, interval
from juzhen.losses.scores import full_precision


def rescale(targets: Float[Tensor, "batch"], *, low: float, high: float) -> Float[Tensor, "batch"]:
    """Targets of [0, 1] laid out over [low, high]."""
    return low + (high - low) * full_precision(targets)


@checks_arguments
def cosine_regression(scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> Float[Tensor, ""]:
    """Mean squared difference of scores and targets.

    loss = (1/N) Σ (s_i − y_i)². (Reimers and Gurevych 2019, section 3)
    """
    return F.mse_loss(full_precision(scores), targets)


class CosineSimilarity(Loss):
    """`cosine_regression` of the cosine score on the target.

    target_range  [0, 1]: unrelated sentences shall be orthogonal · [-1, 1]: they shall be opposite

    Default: the target is the cosine, as in sentence-transformers' CosineSimilarityLoss.

    Logs the mean absolute error, in units of the target: 1 is the way from the lowest to the highest.
    """

    input_kinds = (Kind.SCORED_PAIR, Kind.LABELLED_PAIR)
    consumes = "cosines"
    couples = False
    paper = "Reimers and Gurevych 2019, https://arxiv.org/abs/1908.10084"
    choose_when = "graded pairs, when the cosine itself shall be the grade"

    target_range: Sequence[float | int] = checked((0.0, 1.0), interval, low=-1.0, high=1.0)

    def with_logs(self, scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> LossOutput:
        low, high = self.target_range
        targets = rescale(targets, low=low, high=high)
        error = (scores.detach() - targets).abs().mean() / (high - low)
        return cosine_regression(scores, targets), {"mean_absolute_error": error}
