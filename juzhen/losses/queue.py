"""Contrast with texts of earlier steps, which are kept in a queue."""

from dataclasses import field

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from juzhen.core.examples import Kind
from juzhen.losses.arguments import Count, Temperature
from juzhen.losses.in_batch_all import texts_of_rows
from juzhen.losses.in_batch_negatives import (
    batch_candidates,
    info_nce,
    known_pairs,
    numbers_of_texts,
    ranking_summary,
)
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.scores import all_cosines, full_precision

EMPTY = -1
"""Number of a text, or of its anchor, where there is none."""


class InfoNCEQueue(Loss):
    """InfoNCE with texts of earlier batches as additional negatives (cross-batch memory).

    loss = (1/N) Σ_i −log [exp(s_ii/τ) / (Σ_c exp(s_ic/τ) + Σ_q exp(s(a_i, m_q)/τ))], c the candidates of `InfoNCE`, m
    the positives and negatives of the last batches as they were encoded then, a constant in the gradient. (Wang et al.
    2020, https://arxiv.org/abs/1912.06798. The queue is that of MoCo, He et al. 2020,
    https://arxiv.org/abs/1911.05722, without its second encoder.)

    A queued text is left out where it is the anchor or a known positive of it, by a pair of this batch or of
    a queued one. The same holds if the batch contains it again, or if it was queued again later. The queue is
    part of the loss and of checkpoints, so a resumed run continues with it. Each set has its own, because
    texts are known by their number in the set. In evaluation mode nothing is queued. Defaults: the
    temperature of `InfoNCE`, and 4,096 texts.

    Logs what `InfoNCE` logs of the batch, and the share of the queue that counts.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | anchor, positive, negatives | – | triplet |
        | anchor, positive | – | positive_pair |

    Relations:
        `InfoNCE` with an empty queue.

    Args:
        dim: Size of an embedding, given by the model.
        num_classes: Not used.
        temperature: Divides the cosines.
        size: Texts in the queue. The oldest are dropped.

    Example:
        >>> loss = InfoNCEQueue(dim=3, num_classes=0, size=8)
        >>> ids = torch.arange(6).view(3, 2)
        >>> loss(torch.eye(3), torch.eye(3) + 2, text_ids=ids)
        tensor(0.0155)
        >>> loss(torch.eye(3), torch.eye(3) + 2, text_ids=ids + 6)  # against the queued texts as well
        tensor(0.7087)
    """

    input_kinds = (Kind.TRIPLET, Kind.POSITIVE_PAIR)
    input_type = "embeddings"
    is_batchwise = True
    has_parameters = True
    is_stateful = True
    contrast = Contrast.TEXTS
    paper = "Wang et al. 2020, https://arxiv.org/abs/1912.06798"
    choose_when = "as info_nce, when memory allows small batches only"

    dim: int
    num_classes: int
    temperature: Temperature = 0.05
    size: Count = 4096

    texts: Float[Tensor, "queue dim"] = field(init=False)
    text_numbers: Int[Tensor, "queue"] = field(init=False)
    anchor_numbers: Int[Tensor, "queue"] = field(init=False)
    is_newest: Bool[Tensor, "queue"] = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.register_buffer("texts", torch.zeros(self.size, self.dim))
        self.register_buffer("text_numbers", torch.full((self.size,), EMPTY))
        self.register_buffer("anchor_numbers", torch.full((self.size,), EMPTY))
        self.register_buffer("is_newest", torch.zeros(self.size, dtype=torch.bool))

    def with_logs(
        self,
        anchors: Tensor,
        positives: Tensor,
        negatives: Tensor | None = None,
        *,
        text_ids: Tensor | None = None,
    ) -> LossOutput:
        _, *columns = texts_of_rows(anchors, positives, negatives)
        ids = numbers_of_texts(text_ids, anchors=anchors, count=1 + len(columns))
        scores, excluded = batch_candidates(anchors, positives, negatives, ids)
        candidates, numbers = torch.cat(columns), ids[:, 1:].T.flatten()
        owners = torch.cat([ids[:, 0], torch.full_like(numbers[len(ids) :], EMPTY)])
        counts = self.is_newest & ~_is_among(self.text_numbers, numbers)
        known = known_pairs(ids[:, 0], self.text_numbers, self.anchor_numbers, self.text_numbers)
        is_own = (ids[:, :1] == self.text_numbers) | known
        everything = torch.cat([scores, all_cosines(anchors, self.texts)], dim=1)
        loss = info_nce(
            everything, torch.cat([excluded, is_own | ~counts], dim=1), temperature=self.temperature
        )
        if self.training:
            present = numbers >= 0  # a row may have fewer negatives than others
            self.keep(candidates.detach()[present], numbers[present], owners[present])
        positions = torch.arange(len(scores), device=scores.device)
        share = {"queue_share": counts.float().mean()}
        return loss, share | ranking_summary(scores, excluded, positions)

    def keep(
        self,
        texts: Float[Tensor, "candidates dim"],
        numbers: Int[Tensor, "candidates"],
        owners: Int[Tensor, "candidates"],
    ) -> None:
        """Put texts in front of the queue and drop its end. Of equal texts the first one counts.

        Args:
            texts: Embeddings of new texts.
            numbers: Text numbers.
            owners: Text number of the anchor of each text.
        """
        equal = numbers[:, None] == numbers
        is_first = ~equal.tril(-1).any(dim=1)
        still = self.is_newest & ~_is_among(self.text_numbers, numbers)
        unit = F.normalize(full_precision(texts), dim=-1).to(self.texts.dtype)
        front = {
            "texts": (unit, self.texts),
            "text_numbers": (numbers, self.text_numbers),
            "anchor_numbers": (owners, self.anchor_numbers),
            "is_newest": (is_first, still),
        }
        for name, (new, old) in front.items():
            setattr(self, name, torch.cat([new, old])[: self.size])


def _is_among(numbers: Int[Tensor, "queue"], others: Int[Tensor, "candidates"]) -> Bool[Tensor, "queue"]:
    return (numbers[:, None] == others).any(dim=1)
