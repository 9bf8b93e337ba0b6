"""InfoNCE over everything in the batch: other anchors, too, and what a positive is like to the other texts."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from juzhen.core.examples import Kind
from juzhen.losses.info_nce import (
    false_negatives,
    left_out,
    likely_positives,
    numbers_of_texts,
    ranking_summary,
)
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.options import checked, cosine_margin, divisor, switch
from juzhen.losses.scores import all_cosines


class CandidatePool(Loss):
    """A loss that looks for the positive of a row among all that the batch holds; `InfoNCEPool` tells the sums."""

    input_kinds = (Kind.TRIPLET, Kind.POSITIVE_PAIR)
    consumes = "embeddings"
    couples = True
    contrast = Contrast.TEXTS

    temperature: float | int = checked(0.05, divisor)
    other_anchors: bool = checked(True, switch)
    positive_to_anchors: bool = checked(False, switch)
    other_positives: bool = checked(False, switch)
    positive_to_negatives: bool = checked(False, switch)
    false_negative_margin: float | int | None = checked(None, cosine_margin)

    def pool(self, texts: Sequence[Float[Tensor, "batch dim"]]) -> Float[Tensor, "batch candidates"]:
        """Cosines of each row with the texts of all rows, one sum after another; `texts` are the columns of a row."""
        anchors, positives, *extra = texts
        first = all_cosines(anchors, torch.cat([positives, *extra, *[anchors] * self.other_anchors]))
        sums = [first]
        if self.positive_to_anchors:
            sums.append(first[:, : len(first)].T)
        if self.other_positives:
            sums.append(all_cosines(positives, positives))
        if self.positive_to_negatives and extra:
            sums.append(all_cosines(positives, torch.cat(extra)))
        return torch.cat(sums, dim=1)

    def same_texts(self, ids: Sequence[Int[Tensor, "batch"]]) -> Bool[Tensor, "batch candidates"]:
        """Which candidates of `pool` are left out for their texts, whose numbers `ids` are."""
        anchors, positives, *extra = ids
        first = false_negatives(
            anchors, positives, torch.cat([positives, *extra, *[anchors] * self.other_anchors])
        )
        sums, of_positives = [first], first[:, : len(first)]
        if self.positive_to_anchors:
            sums.append(of_positives.T)
        if self.other_positives:
            sums.append(of_positives | torch.eye(len(first), dtype=torch.bool, device=first.device))
        if self.positive_to_negatives and extra:
            of_extra = torch.cat(extra)
            sums.append((of_extra == positives[:, None]) | (of_extra == anchors[:, None]))
        return torch.cat(sums, dim=1)

    def found(
        self,
        scores: Float[Tensor, "batch candidates"],
        texts: Sequence[Float[Tensor, "batch dim"]],
        text_ids: Int[Tensor, "batch texts"] | None,
        likely: Bool[Tensor, "batch candidates"] | None,
    ) -> LossOutput:
        """The loss over what `pool` gives for `texts`, without `likely` positives where they are told."""
        ids = numbers_of_texts(text_ids, like=texts[0], count=len(texts))
        excluded, logs = self.same_texts(ids.unbind(dim=1)), {}
        if likely is not None:
            logs, excluded = left_out(likely, excluded), excluded | likely
        own = torch.arange(len(scores), device=scores.device)
        loss = F.cross_entropy(scores.masked_fill(excluded, -torch.inf) / self.temperature, own)
        of_anchors = len(scores) * (len(texts) - 1 + self.other_anchors)
        return loss, logs | ranking_summary(scores[:, :of_anchors], excluded[:, :of_anchors], own)


class InfoNCEPool(CandidatePool):
    """Cross entropy of finding row i's positive p_i with anchor a_i.

    loss = (1/N) Σ_i −log [exp(s(a_i, p_i)/τ) / (Z_i + A_i + B_i + P_i + E_i)], s the cosine,
    Z_i = Σ_j exp(s(a_i, p_j)/τ) + Σ_j exp(s(a_i, n_j)/τ), positives and negatives of all rows, as in `info_nce`;
    A_i = Σ_{j≠i} exp(s(a_i, a_j)/τ), with `other_anchors`: every other text of the batch is a candidate;
    B_i = Σ_j exp(s(p_i, a_j)/τ), with `positive_to_anchors`: the way back, the pair itself once more;
    P_i = Σ_{j≠i} exp(s(p_i, p_j)/τ), with `other_positives`; A, B and P are those of GTE (`info_nce_gte`);
    E_i = Σ_j exp(s(p_i, n_j)/τ), with `positive_to_negatives`: the extended InfoNCE of CoT-BERT, which keeps
    positives apart from negatives (Zhang et al. 2024, section 3.3, https://arxiv.org/abs/2309.11143).

    Candidates with the text of the anchor or of one of its positives are left out, as in `info_nce`, and of B_i the
    anchors that p_i is a known positive of; of E_i those with the text of p_i or a_i. Without negatives E_i is empty.
    Logs what `InfoNCE` logs, of a_i's candidates.

    false_negative_margin  as of `InfoNCE`: texts of other rows, in each of the sums, whose s is above s(a_i, p_i) by
                           more are left out

    Defaults: the temperature of `InfoNCE`, with other anchors, without B_i, P_i and E_i, all negatives.
    """

    paper = "Zhang et al. 2024, https://arxiv.org/abs/2309.11143"
    choose_when = "as info_nce, when anchors are of the same sort as positives and shall keep apart too"

    def with_logs(
        self,
        anchors: Float[Tensor, "batch dim"],
        positives: Float[Tensor, "batch dim"],
        negatives: Float[Tensor, "batch negatives dim"] | None = None,
        *,
        text_ids: Int[Tensor, "batch texts"] | None = None,
    ) -> LossOutput:
        texts = texts_of_rows(anchors, positives, negatives)
        scores = self.pool(texts)
        margin = self.false_negative_margin
        likely = None if margin is None else likely_positives(scores, margin)
        return self.found(scores, texts, text_ids, likely)


def texts_of_rows(
    anchors: Float[Tensor, "batch dim"],
    positives: Float[Tensor, "batch dim"],
    negatives: Float[Tensor, "batch negatives dim"] | None,
) -> list[Float[Tensor, "batch dim"]]:
    """The columns of a row: anchor, positive, then each of its negatives."""
    return [anchors, positives, *(() if negatives is None else negatives.unbind(dim=1))]
