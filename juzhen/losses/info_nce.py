"""InfoNCE: an anchor shall find its positive among all other texts of the batch."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from juzhen.core.batch import Encoded
from juzhen.core.examples import Kind
from juzhen.losses.loss import Contrast, Loss, LossOutput, first_two, negatives
from juzhen.losses.options import divisor, switch
from juzhen.losses.scores import all_cosines, score_gap


def false_negatives(
    anchor_ids: Int[Tensor, "batch"],
    positive_ids: Int[Tensor, "batch"],
    candidate_ids: Int[Tensor, "candidates"],
) -> Bool[Tensor, "batch candidates"]:
    """Which candidates an anchor must not be pushed away from, by text; its own place (i, i) is never marked.

    A candidate is marked when its text is the anchor's own, or the positive of any row with the same anchor
    text: the row's positive repeated in the batch, or another known positive of its anchor. An explicit
    negative with such a text is marked too: the data contradict themselves there. Nothing is inferred beyond
    that: entailment is not symmetric, so the positives of a positive stay negatives. Ids are 0 or more.
    """
    # One number per (anchor text, other text), looked up in the sorted known pairs: torch.isin sorts all
    # batch × candidates numbers instead, which took ten times as long as the cosines.
    span = 1 + torch.maximum(positive_ids.max(), candidate_ids.max())
    first = anchor_ids.long() * span  # 64 bits: the product of two text numbers overflows 32
    known_pairs = (first + positive_ids).sort().values
    pairs = first[:, None] + candidate_ids
    place = torch.searchsorted(known_pairs, pairs).clamp(max=len(known_pairs) - 1)
    is_known = known_pairs[place] == pairs
    is_anchor = anchor_ids[:, None] == candidate_ids
    is_own = torch.eye(*is_known.shape, dtype=torch.bool, device=is_known.device)
    return (is_known | is_anchor) & ~is_own


def info_nce(
    scores: Float[Tensor, "batch candidates"],
    excluded: Bool[Tensor, "batch candidates"],
    *,
    temperature: float,
    symmetric: bool,
) -> Float[Tensor, ""]:
    """Cross entropy of finding row i's positive, which is candidate i, among the candidates.

    loss = (1/N) Σ_i −log [exp(s_ii/τ) / Σ_c exp(s_ic/τ)], c over the candidates not excluded for i.
    (van den Oord et al. 2018, equation 4; for sentence pairs Henderson et al. 2017)

    symmetric  average with the way back, where each positive looks for its anchor among the batch's anchors;
               explicit negatives, candidates N and later, take no part in it
    """
    logits = (scores / temperature).masked_fill(excluded, -torch.inf)
    own = torch.arange(len(logits), device=logits.device)
    forth = F.cross_entropy(logits, own)
    if not symmetric:
        return forth
    # Marked pairs are pairs of texts, so the mask of the way back is the same one, transposed.
    return (forth + F.cross_entropy(logits[:, : len(logits)].T, own)) / 2


class InfoNCE(Loss):
    """`info_nce` of cosines; the candidates are all positives of the batch, then all explicit negatives.

    Less than all: `info_nce_in_batch` leaves explicit negatives out, `info_nce_own` all that is of other rows. Logs
    accuracy (the positive is the best candidate), mean score of positives, of negatives, and the gap.
    """

    takes = (Kind.TRIPLET, Kind.POSITIVE_PAIR)
    reads = "embeddings"
    couples = True
    contrast = Contrast.TEXTS

    def __init__(self, *, temperature: float | int, symmetric: bool) -> None:
        super().__init__()
        self.temperature = divisor("loss.temperature", temperature)
        self.symmetric = switch("loss.symmetric", symmetric)

    def forward(self, encoded: Encoded) -> LossOutput:
        scores, excluded = batch_candidates(encoded)
        loss = info_nce(scores, excluded, temperature=self.temperature, symmetric=self.symmetric)
        return loss, ranking_summary(scores, excluded, torch.arange(len(scores), device=scores.device))


def batch_candidates(
    encoded: Encoded,
) -> tuple[Float[Tensor, "batch candidates"], Bool[Tensor, "batch candidates"]]:
    """Cosines of each anchor with all positives of the batch and then all explicit negatives; who is excluded.

    The own positive of row i is candidate i. Excluded are the `false_negatives`.
    """
    anchors, positives = first_two(encoded)
    anchor_ids, positive_ids, *_ = encoded.text_ids.values()
    extra = negatives(encoded)
    candidates = torch.cat([positives, *(encoded.embeddings[column] for column in extra)])
    candidate_ids = torch.cat([positive_ids, *(encoded.text_ids[column] for column in extra)])
    return all_cosines(anchors, candidates), false_negatives(anchor_ids, positive_ids, candidate_ids)


@torch.no_grad()
def ranking_summary(
    scores: Float[Tensor, "batch candidates"],
    excluded: Bool[Tensor, "batch candidates"],
    own: Int[Tensor, "batch"],
) -> dict[str, Tensor]:
    """Accuracy, mean positive score, mean negative score and their gap; excluded candidates do not count.

    own  place of each row's positive among the candidates
    """
    is_own = own[:, None] == torch.arange(scores.shape[1], device=scores.device)
    best = scores.masked_fill(excluded, -torch.inf).argmax(dim=-1)
    accuracy = (best == own).float().mean()
    return {"accuracy": accuracy} | score_gap(scores, is_own, ~is_own & ~excluded)
