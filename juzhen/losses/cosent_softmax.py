"""CoSENT and a classifier: cosines in the right order, and embeddings that tell the class of a pair."""

from jaxtyping import Float
from torch import Tensor, nn

from juzhen.core.examples import Kind
from juzhen.losses.cosent import cosent
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.options import divisor, number
from juzhen.losses.scores import choice_accuracy, order_gap, row_cosine
from juzhen.losses.softmax import cross_entropy, pair_features


class CoSENTAndSoftmax(Loss):
    """`cosent` of the cosines plus a multiple of the cross entropy of a linear head over [u, v, |u − v|].

    loss = CoSENT + α CE, the two parts as in `cosent.py` and `softmax.py`; both shape the same embeddings. The
    head is trained and stored with the model, and scores at evaluation stay cosines. CoSENT reads `targets`, higher =
    closer; without them the classes, which are then 0 and 1.

    dim, num_classes  size of an embedding and number of classes, given by model and data

    Defaults: CoSENT's scale of 20, and both parts count alike.

    Logs the head's accuracy, mean cosine of the rows above the mean grade, of the others, and the gap.
    """

    input_kinds = (Kind.NLI_PAIR, Kind.LABELLED_PAIR)
    consumes = "embeddings"
    couples = True
    compares = True
    has_head = True
    choose_when = "NLI or 0/1 pairs, when both the order of cosines and the class of a pair matter"

    def __init__(
        self,
        *,
        dim: int,
        num_classes: int,
        temperature: float | int = 0.05,
        entropy_weight: float | int = 1.0,
    ) -> None:
        super().__init__()
        self.temperature = divisor("loss.temperature", temperature)
        self.entropy_weight = number("loss.entropy_weight", entropy_weight, low=0.0)
        self.contrast = Contrast.CLASSES if self.entropy_weight else Contrast.ORDER
        self.head = nn.Linear(3 * dim, num_classes)

    def with_logs(
        self,
        first: Float[Tensor, "batch dim"],
        second: Float[Tensor, "batch dim"],
        classes: Float[Tensor, "batch"],
        targets: Float[Tensor, "batch"] | None = None,
    ) -> LossOutput:
        targets = classes if targets is None else targets
        scores = row_cosine(first, second)
        features = pair_features(first, second, use_difference=True, use_product=False)
        logits = self.head(features.to(self.head.weight.dtype))
        loss = cosent(scores, targets, temperature=self.temperature)
        loss = loss + self.entropy_weight * cross_entropy(logits, classes)
        return loss, {"accuracy": choice_accuracy(logits, classes)} | order_gap(scores, targets)
