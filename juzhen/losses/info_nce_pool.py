"""InfoNCE over everything in the batch: other anchors, too, and what a positive is like to the negatives."""

import torch
import torch.nn.functional as F

from juzhen.core.batch import Encoded
from juzhen.core.examples import Kind
from juzhen.losses.info_nce import false_negatives, ranking_summary
from juzhen.losses.loss import Contrast, Loss, LossOutput, first_two, negatives
from juzhen.losses.options import divisor, switch
from juzhen.losses.scores import all_cosines


class InfoNCEPool(Loss):
    """Cross entropy of finding row i's positive p_i with anchor a_i.

    loss = (1/N) Σ_i −log [exp(s(a_i, p_i)/τ) / (Z_i + A_i + E_i)], s the cosine,
    Z_i = Σ_j exp(s(a_i, p_j)/τ) + Σ_j exp(s(a_i, n_j)/τ), positives and negatives of all rows, as in `info_nce`;
    A_i = Σ_{j≠i} exp(s(a_i, a_j)/τ), with `other_anchors`: every other text of the batch is a candidate;
    E_i = Σ_j exp(s(p_i, n_j)/τ), with `positive_to_negatives`: the extended InfoNCE of CoT-BERT, which keeps
    positives apart from negatives (Zhang et al. 2024, section 3.3, https://arxiv.org/abs/2309.11143).

    Candidates with the text of the anchor or of one of its positives are left out, as in `info_nce`; of E_i those
    with the text of p_i or a_i. Without negatives E_i is empty. Logs what `InfoNCE` logs, of a_i's candidates.
    """

    takes = (Kind.TRIPLET, Kind.POSITIVE_PAIR)
    reads = "embeddings"
    couples = True
    contrast = Contrast.TEXTS

    def __init__(self, *, temperature: float | int, other_anchors: bool, positive_to_negatives: bool) -> None:
        super().__init__()
        self.temperature = divisor("loss.temperature", temperature)
        self.other_anchors = switch("loss.other_anchors", other_anchors)
        self.positive_to_negatives = switch("loss.positive_to_negatives", positive_to_negatives)

    def forward(self, encoded: Encoded) -> LossOutput:
        anchors, positives = first_two(encoded)
        anchor_ids, positive_ids, *_ = encoded.text_ids.values()
        columns = negatives(encoded)
        extra = [encoded.embeddings[column] for column in columns]
        extra_ids = [encoded.text_ids[column] for column in columns]
        pool, pool_ids = [positives, *extra], [positive_ids, *extra_ids]
        if self.other_anchors:
            pool.append(anchors)
            pool_ids.append(anchor_ids)
        scores = all_cosines(anchors, torch.cat(pool))
        excluded = false_negatives(anchor_ids, positive_ids, torch.cat(pool_ids))
        logits = scores.masked_fill(excluded, -torch.inf)
        if self.positive_to_negatives and extra:
            ids = torch.cat(extra_ids)
            is_same = (ids == positive_ids[:, None]) | (ids == anchor_ids[:, None])
            extended = all_cosines(positives, torch.cat(extra)).masked_fill(is_same, -torch.inf)
            logits = torch.cat([logits, extended], dim=1)
        own = torch.arange(len(anchors), device=anchors.device)
        loss = F.cross_entropy(logits / self.temperature, own)
        return loss, ranking_summary(scores, excluded, own)
