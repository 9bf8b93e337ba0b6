"""Squared error on the whole scale of cosines: pairs of the lowest target shall point in opposite directions."""

import torch
from jaxtyping import Float
from torch import Tensor

from juzhen.core.examples import Kind
from juzhen.losses.cosine import cosine_regression, rescale
from juzhen.losses.loss import Loss, LossOutput


class SquaredErrorSigned(Loss):
    """`cosine_regression` of the cosine on 2y − 1, y the target of [0, 1]: of grades g from 0 to 5 that is 2g/5 − 1.

    loss = (1/N) Σ (s_i − (2 y_i − 1))². `SquaredError` asks for y itself.

    Logs the mean absolute error, in units of the target.
    """

    input_kinds = (Kind.SCORED_PAIR, Kind.LABELLED_PAIR)
    consumes = "cosines"
    couples = False
    choose_when = "as mse, where unrelated sentences shall be opposite and not at a right angle"

    def with_logs(self, scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> LossOutput:
        signed = rescale(targets, low=-1.0, high=1.0)
        with torch.no_grad():
            error = (scores - signed).abs().mean() / 2
        return cosine_regression(scores, signed), {"mean_absolute_error": error}
