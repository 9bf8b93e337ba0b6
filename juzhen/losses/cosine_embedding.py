"""Cosine embedding loss: positives shall point the same way, negatives keep below a cosine."""

import torch
from jaxtyping import Float
from torch import Tensor

from juzhen.core.examples import Kind
from juzhen.losses.arguments import checks_arguments
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.options import checked, number
from juzhen.losses.scores import full_precision, label_gap, row_cosine


@checks_arguments
def cosine_embedding(
    scores: Float[Tensor, "batch"], labels: Float[Tensor, "batch"], *, margin: float = 0.0
) -> Float[Tensor, ""]:
    """Mean of 1 − s over positives and of max(0, s − m) over negatives, s the cosine.

    Positives have the label 1; negatives −1, as for torch.nn.CosineEmbeddingLoss, or 0.
    """
    scores = full_precision(scores)
    return torch.where(labels > 0, 1 - scores, (scores - margin).relu()).mean()


class CosineEmbeddingLoss(Loss):
    """`cosine_embedding` of labelled pairs, called as torch.nn.CosineEmbeddingLoss: `loss(first, second, labels)`.

    Default: the margin of torch.

    Logs the mean score of positives, of negatives, and the gap.
    """

    input_kinds = (Kind.LABELLED_PAIR,)
    consumes = "embeddings"
    couples = False
    contrast = Contrast.CLASSES
    paper = "torch, https://docs.pytorch.org/docs/stable/generated/torch.nn.CosineEmbeddingLoss.html"
    choose_when = "0/1 pairs, as torch has it: a pull that does not fade as positives come close"

    margin: float | int = checked(0.0, number, low=-1.0, high=1.0)

    def with_logs(
        self,
        first: Float[Tensor, "batch dim"],
        second: Float[Tensor, "batch dim"],
        targets: Float[Tensor, "batch"],
    ) -> LossOutput:
        scores = row_cosine(first, second)
        return cosine_embedding(scores, targets, margin=self.margin), label_gap(scores, targets)
