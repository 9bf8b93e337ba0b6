"""Contrastive loss: positives shall coincide, negatives shall keep a margin."""

from jaxtyping import Float
from torch import Tensor

from juzhen.core.batch import Encoded
from juzhen.core.examples import Kind
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.options import number
from juzhen.losses.scores import full_precision, score_gap


def contrastive(
    scores: Float[Tensor, "batch"], labels: Float[Tensor, "batch"], *, margin: float
) -> Float[Tensor, ""]:
    """Squared distance of positives, squared violation of the margin by negatives, halved and averaged.

    loss = (1/N) Σ ½ [y d² + (1 − y) max(0, m − d)²] with d = 1 − score. (Hadsell et al. 2006, equation 4)
    The paper writes Y = 0 for similar pairs and measures d in Euclidean space; here 1 is similar and d is
    the cosine distance, in [0, 2].
    """
    distances = 1 - full_precision(scores)
    pull = labels * distances.square()
    push = (1 - labels) * (margin - distances).relu().square()
    return 0.5 * (pull + push).mean()


class Contrastive(Loss):
    """`contrastive` of the cosine scores of labelled pairs.

    Logs the mean score of positives, of negatives, and the gap.
    """

    takes = (Kind.LABELLED_PAIR,)
    reads = "cosines"
    couples = False
    contrast = Contrast.CLASSES

    def __init__(self, *, margin: float | int) -> None:
        super().__init__()
        self.margin = number("loss.margin", margin, low=0.0, open_low=True)

    def forward(self, encoded: Encoded) -> LossOutput:
        is_positive = encoded.targets > 0.5
        loss = contrastive(encoded.scores, encoded.targets, margin=self.margin)
        return loss, score_gap(encoded.scores, is_positive, ~is_positive)
