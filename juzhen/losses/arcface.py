"""ArcFace: prototypes with a margin, which is an angle that the own class has to make up for."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from juzhen.core.examples import Kind
from juzhen.losses.arguments import checks_arguments
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.options import divisor, number
from juzhen.losses.prototype import directions
from juzhen.losses.scores import all_cosines, choice_accuracy

SMALLEST_SINE_SQUARE = 1e-6
"""The root of sin² has no derivative at 0; below this angle of a thousandth it counts as constant."""


def with_margin(cosines: Float[Tensor, "batch"], *, margin: float) -> Float[Tensor, "batch"]:
    """cos(θ + m) where θ + m ≤ π; beyond, cos θ − m sin m, which goes on falling where cos(θ + m) would rise.

    The paper leaves the far side open; the straight line is that of its authors' code.
    """
    sines = (1 - cosines.square()).clamp(min=SMALLEST_SINE_SQUARE).sqrt()
    turned = cosines * math.cos(margin) - sines * math.sin(margin)
    return torch.where(cosines > -math.cos(margin), turned, cosines - margin * math.sin(margin))


@checks_arguments
def arcface(
    cosines: Float[Tensor, "batch classes"],
    classes: Float[Tensor, "batch"],
    *,
    margin: float = 0.5,
    temperature: float = 1 / 64,
) -> Float[Tensor, ""]:
    """Cross entropy of the class among the cosines, its own cosine moved away by the margin first.

    loss = −(1/N) Σ_i log [e^{cos(θ_i + m)/τ} / (e^{cos(θ_i + m)/τ} + Σ_{c ≠ y_i} e^{cos θ_ic/τ})], θ_i the angle
    between text i and the prototype of its class. (Deng et al. 2019, equation 3, https://arxiv.org/abs/1801.07698;
    their scale s = 64 is τ = 1/64.)
    """
    places = classes.long().unsqueeze(1)
    own = with_margin(cosines.gather(1, places).squeeze(1), margin=margin)
    logits = cosines.scatter(1, places, own.unsqueeze(1)) / temperature
    return F.cross_entropy(logits, classes.long())


class ArcFace(Loss):
    """`arcface` of texts and one prototype per class, which is trained and stored with the model.

    dim, num_classes  size of an embedding and number of classes, given by model and data

    Defaults: the margin and the scale of the paper.

    Logs the accuracy on the batch, without the margin.
    """

    input_kinds = (Kind.LABELLED_TEXT,)
    consumes = "embeddings"
    couples = False
    has_head = True
    contrast = Contrast.CLASSES
    paper = "Deng et al. 2019, https://arxiv.org/abs/1801.07698"
    choose_when = "texts with many classes that shall lie in well separated cones"

    def __init__(
        self, *, dim: int, num_classes: int, margin: float | int = 0.5, temperature: float | int = 1 / 64
    ) -> None:
        super().__init__()
        self.margin = number("loss.margin", margin, low=0.0, high=math.pi)
        self.temperature = divisor("loss.temperature", temperature)
        self.prototypes = directions(num_classes, dim)

    def with_logs(
        self, embeddings: Float[Tensor, "batch dim"], classes: Float[Tensor, "batch"]
    ) -> LossOutput:
        cosines = all_cosines(embeddings, self.prototypes)
        loss = arcface(cosines, classes, margin=self.margin, temperature=self.temperature)
        return loss, {"accuracy": choice_accuracy(cosines, classes)}
