"""ArcFace: prototypes with a margin, which is an angle that the own class has to make up for."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from juzhen.core.batch import Encoded
from juzhen.core.examples import Kind
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.options import divisor, number
from juzhen.losses.prototype import directions
from juzhen.losses.scores import all_cosines

SMALLEST_SINE_SQUARE = 1e-6
"""The root of sin² has no derivative at 0; below this angle of a thousandth it counts as constant."""


def with_margin(cosines: Float[Tensor, "batch"], *, margin: float) -> Float[Tensor, "batch"]:
    """cos(θ + m) where θ + m ≤ π; beyond, cos θ − m sin m, which goes on falling where cos(θ + m) would rise.

    The paper leaves the far side open; the straight line is that of its authors' code.
    """
    sines = (1 - cosines.square()).clamp(min=SMALLEST_SINE_SQUARE).sqrt()
    turned = cosines * math.cos(margin) - sines * math.sin(margin)
    return torch.where(cosines > -math.cos(margin), turned, cosines - margin * math.sin(margin))


def arcface(
    cosines: Float[Tensor, "batch classes"],
    classes: Float[Tensor, "batch"],
    *,
    margin: float,
    temperature: float,
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

    Logs the accuracy on the batch, without the margin.
    """

    takes = (Kind.LABELLED_TEXT,)
    reads = "embeddings"
    couples = False
    has_head = True
    contrast = Contrast.CLASSES

    def __init__(self, *, margin: float | int, temperature: float | int, dim: int, num_classes: int) -> None:
        super().__init__()
        self.margin = number("loss.margin", margin, low=0.0, high=math.pi)
        self.temperature = divisor("loss.temperature", temperature)
        self.prototypes = directions(num_classes, dim)

    def forward(self, encoded: Encoded) -> LossOutput:
        cosines = all_cosines(encoded.embeddings["text"], self.prototypes)
        loss = arcface(cosines, encoded.targets, margin=self.margin, temperature=self.temperature)
        return loss, {"accuracy": (cosines.argmax(dim=-1) == encoded.targets).float().mean()}
