"""Prototypes: each class has a learnt direction, and a text shall point along that of its class."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from juzhen.core.examples import Kind
from juzhen.losses.arguments import checks_arguments
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.options import divisor
from juzhen.losses.scores import all_cosines, choice_accuracy


@checks_arguments
def prototype_entropy(
    cosines: Float[Tensor, "batch classes"], classes: Float[Tensor, "batch"], *, temperature: float = 0.05
) -> Float[Tensor, ""]:
    """Cross entropy of the class among the cosines with all prototypes.

    loss = −(1/N) Σ_i log [exp(cos(u_i, w_{y_i})/τ) / Σ_c exp(cos(u_i, w_c)/τ)]. (The normalized softmax of Zhai
    and Wu 2019, https://arxiv.org/abs/1811.12649; prototypes that are class means are those of Snell et al. 2017)
    """
    return F.cross_entropy(cosines / temperature, classes.long())


def directions(num_classes: int, dim: int) -> nn.Parameter:
    """One random vector per class; only its direction counts."""
    return nn.Parameter(torch.randn(num_classes, dim) / dim**0.5)


class Prototype(Loss):
    """`prototype_entropy` of texts and one prototype per class, which is trained and stored with the model.

    dim, num_classes  size of an embedding and number of classes, given by model and data

    Default: a temperature of 0.07; Zhai and Wu have 0.05.

    Logs the accuracy on the batch.
    """

    input_kinds = (Kind.LABELLED_TEXT,)
    consumes = "embeddings"
    couples = False
    has_head = True
    contrast = Contrast.CLASSES
    paper = "Zhai and Wu 2019, https://arxiv.org/abs/1811.12649"
    choose_when = "texts with classes: the first to try"

    def __init__(self, *, dim: int, num_classes: int, temperature: float | int = 0.07) -> None:
        super().__init__()
        self.temperature = divisor("loss.temperature", temperature)
        self.prototypes = directions(num_classes, dim)

    def with_logs(
        self, embeddings: Float[Tensor, "batch dim"], classes: Float[Tensor, "batch"]
    ) -> LossOutput:
        cosines = all_cosines(embeddings, self.prototypes)
        loss = prototype_entropy(cosines, classes, temperature=self.temperature)
        return loss, {"accuracy": choice_accuracy(cosines, classes)}
