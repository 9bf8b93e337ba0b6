"""Softmax classifier: two embeddings and their difference shall tell the class of the pair."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from juzhen.core.batch import Encoded
from juzhen.core.examples import Kind
from juzhen.losses.loss import Contrast, Loss, LossOutput, first_two
from juzhen.losses.options import switch
from juzhen.losses.scores import full_precision


def pair_features(
    first: Float[Tensor, "batch dim"],
    second: Float[Tensor, "batch dim"],
    *,
    use_difference: bool,
    use_product: bool,
) -> Float[Tensor, "batch features"]:
    """[u, v], then |u − v| and u·v, element by element, where wanted.

    (Reimers and Gurevych 2019, section 3)
    """
    first, second = full_precision(first), full_precision(second)
    parts = [first, second]
    parts += [(first - second).abs()] * use_difference
    parts += [first * second] * use_product
    return torch.cat(parts, dim=-1)


def cross_entropy(
    logits: Float[Tensor, "batch classes"], classes: Float[Tensor, "batch"]
) -> Float[Tensor, ""]:
    """Mean of −log softmax(logits)[class]; `classes` holds class numbers, as floats."""
    return F.cross_entropy(full_precision(logits), classes.long())


class SoftmaxClassifier(Loss):
    """`cross_entropy` of a linear head over `pair_features`. The head is trained and stored with the model.

    dim, num_classes  size of an embedding and number of classes, given by model and data

    Logs the accuracy on the batch.
    """

    takes = (Kind.NLI_PAIR, Kind.LABELLED_PAIR)
    reads = "embeddings"
    couples = False
    has_head = True
    contrast = Contrast.CLASSES

    def __init__(self, *, use_difference: bool, use_product: bool, dim: int, num_classes: int) -> None:
        super().__init__()
        self.use_difference = switch("loss.use_difference", use_difference)
        self.use_product = switch("loss.use_product", use_product)
        self.head = nn.Linear((2 + use_difference + use_product) * dim, num_classes)

    def forward(self, encoded: Encoded) -> LossOutput:
        features = pair_features(
            *first_two(encoded), use_difference=self.use_difference, use_product=self.use_product
        )
        logits = self.head(features.to(self.head.weight.dtype))
        accuracy = (logits.argmax(dim=-1) == encoded.targets).float().mean()
        return cross_entropy(logits, encoded.targets), {"accuracy": accuracy}
