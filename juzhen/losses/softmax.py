"""Softmax classifier: two embeddings and their difference shall tell the class of the pair."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from juzhen.core.examples import Kind
from juzhen.losses.arguments import checks_arguments
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.options import switch
from juzhen.losses.scores import choice_accuracy, full_precision


def pair_features(
    first: Float[Tensor, "batch dim"],
    second: Float[Tensor, "batch dim"],
    *,
    use_difference: bool = True,
    use_product: bool = False,
) -> Float[Tensor, "batch features"]:
    """[u, v], then |u − v| and u·v, element by element, where wanted.

    (Reimers and Gurevych 2019, section 3)
    """
    first, second = full_precision(first), full_precision(second)
    parts = [first, second]
    parts += [(first - second).abs()] * use_difference
    parts += [first * second] * use_product
    return torch.cat(parts, dim=-1)


@checks_arguments
def cross_entropy(
    logits: Float[Tensor, "batch classes"], classes: Float[Tensor, "batch"]
) -> Float[Tensor, ""]:
    """Mean of −log softmax(logits)[class]; `classes` holds class numbers, as floats."""
    return F.cross_entropy(full_precision(logits), classes.long())


class SoftmaxClassifier(Loss):
    """`cross_entropy` of a linear head over `pair_features`. The head is trained and stored with the model.

    dim, num_classes  size of an embedding and number of classes, given by model and data

    Defaults: [u, v, |u − v|], the form that the paper found best.

    Logs the accuracy on the batch.
    """

    input_kinds = (Kind.NLI_PAIR, Kind.LABELLED_PAIR)
    consumes = "embeddings"
    couples = False
    has_head = True
    contrast = Contrast.CLASSES
    paper = "Reimers and Gurevych 2019, https://arxiv.org/abs/1908.10084"
    choose_when = "NLI pairs, when their classes are all there is"

    def __init__(
        self, *, dim: int, num_classes: int, use_difference: bool = True, use_product: bool = False
    ) -> None:
        super().__init__()
        self.use_difference = switch("loss.use_difference", use_difference)
        self.use_product = switch("loss.use_product", use_product)
        self.head = nn.Linear((2 + use_difference + use_product) * dim, num_classes)

    def with_logs(
        self,
        first: Float[Tensor, "batch dim"],
        second: Float[Tensor, "batch dim"],
        classes: Float[Tensor, "batch"],
    ) -> LossOutput:
        features = pair_features(
            first, second, use_difference=self.use_difference, use_product=self.use_product
        )
        logits = self.head(features.to(self.head.weight.dtype))
        return cross_entropy(logits, classes), {"accuracy": choice_accuracy(logits, classes)}
