"""CoSENT at a temperature that follows the spread of the scores in the batch."""

from jaxtyping import Float
from torch import Tensor

from juzhen.losses.cosent import cosent
from juzhen.losses.options import checked, choice
from juzhen.losses.score_order import UNITS, ScoreOrder


class CoSENTAdaptive(ScoreOrder):
    """`cosent` of scores divided by temperature · σ, σ their standard deviation in the batch.

    A fixed temperature means one thing for an encoder whose cosines fill [0, 1] and another for a fresh one
    that packs them into [0.8, 0.9], or for logits; in units of the spread it means the same. `score_order.py`
    says what becomes of the gradient of σ: as a constant it lets all cosines collapse into one, since a smaller spread
    makes the temperature smaller and never the order better.

    Defaults: a scale of 20 per spread, differentiated.
    """

    choose_when = "as cosent, when cosines begin in a narrow range or scores are logits"

    temperature_unit: str = checked("spread_with_gradient", choice, known=UNITS)

    def cost(self, scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> Float[Tensor, ""]:
        return cosent(scores, targets, temperature=1.0)
