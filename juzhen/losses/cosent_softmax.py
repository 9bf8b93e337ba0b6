"""CoSENT and a classifier: cosines in the right order, and embeddings that tell the class of a pair."""

from torch import nn

from juzhen.core.batch import Encoded
from juzhen.core.examples import Kind
from juzhen.losses.cosent import cosent
from juzhen.losses.loss import Contrast, Loss, LossOutput, first_two
from juzhen.losses.options import divisor, number
from juzhen.losses.scores import graded_targets, row_cosine, score_gap
from juzhen.losses.softmax import cross_entropy, pair_features


class CoSENTAndSoftmax(Loss):
    """`cosent` of the cosines plus a multiple of the cross entropy of a linear head over [u, v, |u − v|].

    loss = CoSENT + α CE, the two parts as in `cosent.py` and `softmax.py`; both shape the same embeddings. The
    head is trained and stored with the model, and scores at evaluation stay cosines.

    dim, num_classes  size of an embedding and number of classes, given by model and data

    Logs the head's accuracy, mean cosine of the rows above the mean grade, of the others, and the gap.
    """

    takes = (Kind.NLI_PAIR, Kind.LABELLED_PAIR)
    reads = "embeddings"
    couples = True
    compares = True
    has_head = True

    def __init__(
        self, *, temperature: float | int, entropy_weight: float | int, dim: int, num_classes: int
    ) -> None:
        super().__init__()
        self.temperature = divisor("loss.temperature", temperature)
        self.entropy_weight = number("loss.entropy_weight", entropy_weight, low=0.0)
        self.contrast = Contrast.CLASSES if self.entropy_weight else Contrast.ORDER
        self.head = nn.Linear(3 * dim, num_classes)

    def forward(self, encoded: Encoded) -> LossOutput:
        first, second = first_two(encoded)
        scores, grades = row_cosine(first, second), graded_targets(encoded)
        features = pair_features(first, second, use_difference=True, use_product=False)
        logits = self.head(features.to(self.head.weight.dtype))
        loss = cosent(scores, grades, temperature=self.temperature)
        loss = loss + self.entropy_weight * cross_entropy(logits, encoded.targets)
        is_upper = grades > grades.mean()
        accuracy = (logits.argmax(dim=-1) == encoded.targets).float().mean()
        return loss, {"accuracy": accuracy} | score_gap(scores, is_upper, ~is_upper)
