"""Losses over the documents of a row: its positive and its own negatives, scored one by one."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from juzhen.core.examples import Kind
from juzhen.losses.loss import Contrast, Loss
from juzhen.losses.options import checked, divisor
from juzhen.losses.scores import choice_accuracy, full_precision, score_gap


class ListLoss(Loss):
    """A loss of one score per document; rows do not meet. Document 0 is the positive, the others are negatives.

    A bi-encoder scores a document as it scores a pair, a cross-encoder reads it with its anchor.

    temperature  divides scores; 1 leaves them as they are, which suits logits
    """

    input_kinds = (Kind.TRIPLET,)
    consumes = "lists"
    couples = False
    contrast = Contrast.NEGATIVES

    temperature: float | int = checked(1.0, divisor)

    def tempered(self, scores: Float[Tensor, "batch documents"]) -> Float[Tensor, "batch documents"]:
        """The scores divided by the temperature, float32 at least."""
        return full_precision(scores) / self.temperature

    @staticmethod
    @torch.no_grad()
    def list_summary(scores: Float[Tensor, "batch documents"]) -> dict[str, Tensor]:
        """Share of rows whose positive scores highest, mean score of positives, of negatives, and the gap."""
        is_positive = first_document(scores)
        accuracy = choice_accuracy(scores, torch.zeros_like(scores[:, 0]))
        return {"accuracy": accuracy} | score_gap(scores, is_positive, ~is_positive)


def first_document(scores: Float[Tensor, "batch documents"]) -> Bool[Tensor, "batch documents"]:
    """Where the positives stand."""
    return (torch.arange(scores.shape[1], device=scores.device) == 0).expand(scores.shape)
