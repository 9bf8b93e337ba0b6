"""Contrastive loss: positives shall coincide, negatives shall keep a margin."""

from jaxtyping import Float
from torch import Tensor

from juzhen.core.examples import Kind
from juzhen.losses.arguments import checks_arguments
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.options import checked, number
from juzhen.losses.scores import full_precision, label_gap


@checks_arguments
def contrastive(
    scores: Float[Tensor, "batch"], labels: Float[Tensor, "batch"], *, margin: float = 0.5
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

    Default: the margin of sentence-transformers' ContrastiveLoss.

    Logs the mean score of positives, of negatives, and the gap.
    """

    input_kinds = (Kind.LABELLED_PAIR,)
    consumes = "cosines"
    couples = False
    contrast = Contrast.CLASSES
    paper = "Hadsell et al. 2006, https://doi.org/10.1109/CVPR.2006.100"
    choose_when = "0/1 pairs in small batches, each pair by itself"

    margin: float | int = checked(0.5, number, low=0.0, open_low=True)

    def with_logs(self, scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> LossOutput:
        loss = contrastive(scores, targets, margin=self.margin)
        return loss, label_gap(scores, targets)
