"""InfoNCE over everything in the batch: other anchors, too, and what a positive is like to the other texts."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from juzhen.core.examples import Kind
from juzhen.core.schema import validated
from juzhen.losses.arguments import CosineMargin, Share, Temperature
from juzhen.losses.in_batch_negatives import (
    false_negatives,
    left_out,
    likely_positives,
    numbers_of_texts,
    ranking_summary,
)
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.scores import all_cosines


class CandidatePool(Loss):
    """A loss that looks for the positive of a row among all that the batch holds; `InfoNCEPool` tells the sums."""

    input_kinds = (Kind.TRIPLET, Kind.POSITIVE_PAIR)
    input_type = "embeddings"
    is_batchwise = True
    contrast = Contrast.TEXTS

    temperature: Temperature = 0.05
    other_anchors: bool = True
    positive_to_anchors: bool = False
    other_positives: bool = False
    positive_to_negatives: bool = False
    false_negative_margin: CosineMargin | None = None

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
        candidates = torch.cat([positives, *extra, *[anchors] * self.other_anchors])
        first = false_negatives(anchors, positives, candidates)
        sums, of_positives = [first], first[:, : len(first)]
        if self.positive_to_anchors:
            sums.append(of_positives.T)
        if self.other_positives:
            sums.append(of_positives | torch.eye(len(first), dtype=torch.bool, device=first.device))
        if self.positive_to_negatives and extra:
            of_extra = torch.cat(extra)
            is_missing = of_extra < 0
            sums.append((of_extra == positives[:, None]) | (of_extra == anchors[:, None]) | is_missing)
        return torch.cat(sums, dim=1)

    def outcome(
        self,
        scores: Float[Tensor, "batch candidates"],
        texts: Sequence[Float[Tensor, "batch dim"]],
        text_ids: Int[Tensor, "batch texts"] | None,
        likely: Bool[Tensor, "batch candidates"] | None,
    ) -> LossOutput:
        """The loss over what `pool` gives for `texts`, without `likely` positives where they are told."""
        ids = numbers_of_texts(text_ids, anchors=texts[0], count=len(texts))
        excluded, logs = self.same_texts(ids.unbind(dim=1)), {}
        if likely is not None:
            logs, excluded = left_out(likely, excluded), excluded | likely
        indices = torch.arange(len(scores), device=scores.device)
        loss = F.cross_entropy(scores.masked_fill(excluded, -torch.inf) / self.temperature, indices)
        of_anchors = len(scores) * (len(texts) - 1 + self.other_anchors)
        return loss, logs | ranking_summary(scores[:, :of_anchors], excluded[:, :of_anchors], indices)


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
        anchors: Tensor,
        positives: Tensor,
        negatives: Tensor | None = None,
        *,
        text_ids: Tensor | None = None,
    ) -> LossOutput:
        texts = texts_of_rows(anchors, positives, negatives)
        scores, margin = self.pool(texts), self.false_negative_margin
        likely = None if margin is None else likely_positives(scores, margin)
        return self.outcome(scores, texts, text_ids, likely)


def texts_of_rows(
    anchors: Float[Tensor, "batch dim"],
    positives: Float[Tensor, "batch dim"],
    negatives: Float[Tensor, "batch negatives dim"] | None,
) -> list[Float[Tensor, "batch dim"]]:
    """The columns of a row: anchor, positive, then each of its negatives."""
    return [anchors, positives, *(() if negatives is None else negatives.unbind(dim=1))]


class InfoNCEExtended(InfoNCEPool):
    """`InfoNCEPool` with the term E_i and without other anchors, which is what CoT-BERT minimises.

    loss = (1/N) Σ_i −log [exp(s(a_i, p_i)/τ) / Σ_j (exp(s(a_i, p_j)/τ) + exp(s(a_i, n_j)/τ) + exp(s(p_i, n_j)/τ))], s
    the cosine. (Zhang et al. 2024, section 3.3, https://arxiv.org/abs/2309.11143) Rows without negatives make it plain
    InfoNCE.

    Default: 0.05, as CoT-BERT and SimCSE.
    """

    choose_when = "triplets of prompt templates, as CoT-BERT does"

    def __init__(self, *, temperature: Temperature = 0.05) -> None:
        super().__init__(temperature=temperature, other_anchors=False, positive_to_negatives=True)


class InfoNCEGTE(InfoNCEPool):
    """`InfoNCEPool` with all four sums: query to passages, to queries; passage to queries, to passages.

    loss = (1/N) Σ_i −log [exp(s(q_i, d_i)/τ) / (Σ_j exp(s(q_i, d_j)/τ) + Σ_{j≠i} exp(s(q_i, q_j)/τ) + Σ_j exp(s(q_j,
    d_i)/τ) + Σ_{j≠i} exp(s(d_j, d_i)/τ))], s the cosine, q anchors and d positives. (Li et al. 2023,
    https://arxiv.org/abs/2308.03281, improved contrastive loss) The pair itself counts twice below the line, as there,
    so that the loss does not fall below log 2. Explicit negatives are passages: candidates of q_i and of d_i.

    Default: 0.01, as GTE.
    """

    paper = "Li et al. 2023, https://arxiv.org/abs/2308.03281"
    choose_when = "retrieval from pairs with large batches, where queries shall keep apart from queries, too"

    def __init__(
        self, *, temperature: Temperature = 0.01, false_negative_margin: CosineMargin | None = None
    ) -> None:
        sums = dict.fromkeys(("positive_to_anchors", "other_positives", "positive_to_negatives"), True)
        super().__init__(temperature=temperature, false_negative_margin=false_negative_margin, **sums)


class InfoNCEGuided(CandidatePool):
    """`InfoNCEPool` with other anchors and other positives, less what a guide holds for positives.

    A text of another row is left out where the guide's cosine of the two texts that are compared is above the guide's
    cosine of the row's own pair by more than a margin. (Solatorio 2024, https://arxiv.org/abs/2402.16829, with a
    margin of 0.) The row's own negatives always count, which the paper does not say of hard ones.

    guide  what the guide gives for each text of a row, in the order anchor, positive, negatives
    relative_margin  lowers the bar by this share of the size of the own pair's cosine: a text is left out above
        s + false_negative_margin − relative_margin · |s|, s the guide's cosine of the own pair. Its counterpart in
        sentence-transformers' GISTEmbedLoss is margin with margin_strategy="relative"; margin with
        margin_strategy="absolute" is −false_negative_margin

    Defaults: those of the paper.
    """

    input_type = "guide"
    paper = "Solatorio 2024, https://arxiv.org/abs/2402.16829"
    choose_when = "positive pairs whose batches hold unlabelled positives, and a good encoder to tell them by"

    def __init__(
        self,
        *,
        temperature: Temperature = 0.01,
        false_negative_margin: CosineMargin = 0.0,
        relative_margin: Share = 0.0,
    ) -> None:
        super().__init__(temperature=temperature, other_positives=True)
        self.margin: float = validated(CosineMargin, false_negative_margin, "false_negative_margin")
        self.relative_margin: float = validated(Share, relative_margin, "relative_margin")

    def with_logs(
        self,
        anchors: Tensor,
        positives: Tensor,
        negatives: Tensor | None = None,
        *,
        guide: Tensor,
        text_ids: Tensor | None = None,
    ) -> LossOutput:
        texts = texts_of_rows(anchors, positives, negatives)
        guided = self.pool(guide.unbind(dim=1))
        margin = self.margin - self.relative_margin * guided.diagonal()[:, None].abs()
        likely = likely_positives(guided, margin)
        return self.outcome(self.pool(texts), texts, text_ids, likely)
