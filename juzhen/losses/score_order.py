"""What the variants of CoSENT share: a temperature that may follow the spread of the scores."""

from abc import abstractmethod

from jaxtyping import Float
from torch import Tensor

from juzhen.core.examples import Kind
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.options import checked, choice, divisor
from juzhen.losses.scores import full_precision, order_gap

UNITS = ("score", "spread", "spread_with_gradient")
SMALLEST_SPREAD = 1e-3
"""Scores that lie closer together are treated as if they had this spread: the temperature stays above 0."""


def spread(scores: Float[Tensor, "batch"]) -> Float[Tensor, ""]:
    """Standard deviation of the scores of the batch (divided by N, not N − 1), at least SMALLEST_SPREAD."""
    # The bound is set on the variance: the root has no derivative at 0.
    return full_precision(scores).var(correction=0).clamp(min=SMALLEST_SPREAD**2).sqrt()


def temperature_of(scores: Float[Tensor, "batch"], *, temperature: float, unit: str) -> Float[Tensor, ""]:
    """What the scores are divided by: `temperature`, in the unit that the configuration says.

    score                 as it stands, in units of the score
    spread                times the spread of the batch: τ = temperature · σ. A scale λ = α/σ, α from 10 to 30, is
                          a temperature from 0.1 to 0.03 here. σ counts as a constant. Measured: all cosines
                          collapse into one within 40 steps, since drawing scores together lowers the cost of pairs in
                          the wrong order, and the temperature follows.
    spread_with_gradient  the same value, differentiated through σ. The loss is then a function of standardised
                          scores: stretching or shifting all of them changes nothing and gets no gradient.
    """
    if unit == "score":
        return full_precision(scores).new_full((), temperature)
    scale = spread(scores)
    return temperature * (scale if unit == "spread_with_gradient" else scale.detach())


class ScoreOrder(Loss):
    """A loss of the order of the model's scores; what it adds up over pairs of rows is `cost`.

    temperature, temperature_unit  see `temperature_of`

    Logs the temperature in units of the score, and the mean score of the rows whose target is above the batch's
    mean target, of the others, and the gap.
    """

    input_kinds = (Kind.SCORED_PAIR, Kind.LABELLED_PAIR, Kind.NLI_PAIR)
    consumes = "scores"
    couples = True
    compares = True
    contrast = Contrast.ORDER

    temperature: float | int = checked(0.05, divisor)
    temperature_unit: str = checked("score", choice, known=UNITS)

    @abstractmethod
    def cost(self, scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> Float[Tensor, ""]:
        """The scalar for scores that are divided by the temperature already."""

    def with_logs(self, scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> LossOutput:
        temperature = temperature_of(scores, temperature=self.temperature, unit=self.temperature_unit)
        loss = self.cost(full_precision(scores) / temperature, targets)
        return loss, {"temperature": temperature.detach()} | order_gap(scores, targets)
