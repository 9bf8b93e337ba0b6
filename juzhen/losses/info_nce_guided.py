"""GISTEmbed: a second encoder says which texts of the batch are no negatives."""

from jaxtyping import Float, Int
from torch import Tensor

from juzhen.losses.info_nce import likely_positives
from juzhen.losses.info_nce_pool import CandidatePool, texts_of_rows
from juzhen.losses.loss import LossOutput
from juzhen.losses.options import number


class InfoNCEGuided(CandidatePool):
    """`InfoNCEPool` with other anchors and other positives, less what a guide holds for positives.

    A text of another row is left out where the guide's cosine of the two texts that are compared is above the guide's
    cosine of the row's own pair by more than a margin. (Solatorio 2024, https://arxiv.org/abs/2402.16829,
    with a margin of 0.) The row's own negatives always count, which the paper does not say of hard ones.

    guide  what the guide gives for each text of a row, in the order anchor, positive, negatives

    Defaults: those of the paper.
    """

    consumes = "guide"
    paper = "Solatorio 2024, https://arxiv.org/abs/2402.16829"
    choose_when = "positive pairs whose batches hold unlabelled positives, and a good encoder to tell them by"

    def __init__(self, *, temperature: float | int = 0.01, false_negative_margin: float | int = 0.0) -> None:
        super().__init__(temperature=temperature, other_positives=True)
        self.margin = number("loss.false_negative_margin", false_negative_margin, low=-2.0, high=2.0)

    def with_logs(
        self,
        anchors: Float[Tensor, "batch dim"],
        positives: Float[Tensor, "batch dim"],
        negatives: Float[Tensor, "batch negatives dim"] | None = None,
        *,
        guide: Float[Tensor, "batch texts guide"],
        text_ids: Int[Tensor, "batch texts"] | None = None,
    ) -> LossOutput:
        texts = texts_of_rows(anchors, positives, negatives)
        likely = likely_positives(self.pool(guide.unbind(dim=1)), self.margin)
        return self.found(self.pool(texts), texts, text_ids, likely)
