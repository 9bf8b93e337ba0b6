"""InfoNCE over everything in the batch: other anchors, and the scores of positives with other texts."""

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
    """Base of losses whose candidates are all texts of the batch. `InfoNCEPool` has the equation.

    Args:
        temperature: Divides the cosines.
        other_anchors: The anchors of other rows are candidates of an anchor.
        positive_to_anchors: Compare each positive with the anchors, too.
        other_positives: The positives of other rows are candidates of a positive.
        positive_to_negatives: The negatives are candidates of a positive.
        false_negative_margin: Leave out candidates nearer than the positive plus this cosine. None: none.
    """

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
        """Cosines of each row with the texts of all rows, one sum after another. `texts` has the columns.

        Args:
            texts: Embeddings of each column.

        Returns:
            Cosines, (batch, candidates).
        """
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
        """Mask of the candidates of `pool` to leave out because of equal texts. `ids` are their numbers.

        Args:
            ids: Text numbers of each column.

        Returns:
            Mask, (batch, candidates).
        """
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
        """The loss over the scores of `pool`, without the `likely` positives if given.

        Args:
            scores: Output of `pool`.
            texts: Embeddings of each column.
            text_ids: Text numbers, equal for equal texts.
            likely: Mask of likely positives, or None.

        Returns:
            The loss and the scalars to log.
        """
        ids = numbers_of_texts(text_ids, anchors=texts[0], count=len(texts))
        excluded, logs = self.same_texts(ids.unbind(dim=1)), {}
        if likely is not None:
            logs, excluded = left_out(likely, excluded), excluded | likely
        indices = torch.arange(len(scores), device=scores.device)
        loss = F.cross_entropy(scores.masked_fill(excluded, -torch.inf) / self.temperature, indices)
        of_anchors = len(scores) * (len(texts) - 1 + self.other_anchors)
        return loss, logs | ranking_summary(scores[:, :of_anchors], excluded[:, :of_anchors], indices)


class InfoNCEPool(CandidatePool):
    """InfoNCE with anchors, positives and negatives of the whole batch as candidates.

    loss = (1/N) Σ_i −log [exp(s(a_i, p_i)/τ) / (Z_i + A_i + B_i + P_i + E_i)], s the cosine, with these sums:

    - Z_i = Σ_j exp(s(a_i, p_j)/τ) + Σ_j exp(s(a_i, n_j)/τ), positives and negatives of all rows, as in `info_nce`
    - A_i = Σ_{j≠i} exp(s(a_i, a_j)/τ), with `other_anchors`: every other anchor is a candidate
    - B_i = Σ_j exp(s(p_i, a_j)/τ), with `positive_to_anchors`: the other direction, with the pair itself once more
    - P_i = Σ_{j≠i} exp(s(p_i, p_j)/τ), with `other_positives`. A, B and P are those of GTE
    - E_i = Σ_j exp(s(p_i, n_j)/τ), with `positive_to_negatives`: the extended InfoNCE of CoT-BERT, which keeps
      positives apart from negatives (Zhang et al. 2024, section 3.3, https://arxiv.org/abs/2309.11143)

    Candidates with the text of the anchor or of one of its positives are left out, as in `info_nce`. So are anchors in
    B_i that p_i is a known positive of, and negatives in E_i with the text of p_i or a_i. Without negatives E_i is
    empty. Defaults: the temperature of `InfoNCE`, all negatives, other anchors, no B_i, P_i and E_i. Logs what
    `InfoNCE` logs for the candidates of a_i.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | anchor, positive, negatives | – | triplet |
        | anchor, positive | – | positive_pair |

    Relations:
        `InfoNCE` without other anchors. `InfoNCEGTE` and `InfoNCEExtended` are fixed choices of the sums.

    Args:
        temperature: Divides the cosines.
        other_anchors: Add A_i.
        positive_to_anchors: Add B_i.
        other_positives: Add P_i.
        positive_to_negatives: Add E_i.
        false_negative_margin: As in `InfoNCE`: texts of other rows, in each sum, whose s is above s(a_i, p_i) by more
            than this are left out.

    Example:
        >>> InfoNCEPool()(torch.eye(3), torch.eye(3) + 2)
        tensor(0.0155)
    """

    paper = "Zhang et al. 2024, https://arxiv.org/abs/2309.11143"
    choose_when = "as info_nce, when anchors are of the same sort as positives and should keep apart too"

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
    """List the columns of a row: anchor, positive, then each of its negatives.

    Args:
        anchors: (batch, dim).
        positives: (batch, dim).
        negatives: (batch, negatives, dim), or None.

    Returns:
        One (batch, dim) tensor per column.
    """
    return [anchors, positives, *(() if negatives is None else negatives.unbind(dim=1))]


class InfoNCEExtended(InfoNCEPool):
    """Extended InfoNCE of CoT-BERT: positives are also kept apart from negatives.

    loss = (1/N) Σ_i −log [exp(s(a_i, p_i)/τ) / Σ_j (exp(s(a_i, p_j)/τ) + exp(s(a_i, n_j)/τ) + exp(s(p_i, n_j)/τ))], s
    the cosine. (Zhang et al. 2024, section 3.3, https://arxiv.org/abs/2309.11143) Default temperature: 0.05, as
    CoT-BERT and SimCSE.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | anchor, positive, negatives | – | triplet |
        | anchor, positive | – | positive_pair |

    Relations:
        `InfoNCEPool` with E_i and without other anchors. `InfoNCE` for rows without negatives.

    Args:
        temperature: Divides the cosines.

    Example:
        >>> InfoNCEExtended()(torch.eye(3), torch.eye(3) + 2, torch.ones(3, 1, 3))
        tensor(6.1529)
    """

    choose_when = "triplets of prompt templates, as CoT-BERT does"

    def __init__(self, *, temperature: Temperature = 0.05) -> None:
        super().__init__(temperature=temperature, other_anchors=False, positive_to_negatives=True)


class InfoNCEGTE(InfoNCEPool):
    """Improved contrastive loss of GTE: query to passages and queries, passage to queries and passages.

    loss = (1/N) Σ_i −log [exp(s(q_i, d_i)/τ) / (Σ_j exp(s(q_i, d_j)/τ) + Σ_{j≠i} exp(s(q_i, q_j)/τ) + Σ_j exp(s(q_j,
    d_i)/τ) + Σ_{j≠i} exp(s(d_j, d_i)/τ))], s the cosine, q anchors and d positives. (Li et al. 2023,
    https://arxiv.org/abs/2308.03281) The pair itself counts twice in the denominator, as there, so the loss does not
    fall below log 2. Explicit negatives are passages: candidates of q_i and of d_i. Default temperature: 0.01, as GTE.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | anchor, positive, negatives | – | triplet |
        | anchor, positive | – | positive_pair |

    Relations:
        `InfoNCEPool` with all four sums.

    Args:
        temperature: Divides the cosines.
        false_negative_margin: As in `InfoNCEPool`.

    Example:
        >>> InfoNCEGTE()(torch.eye(3), torch.eye(3) + 2)
        tensor(22.0501)
    """

    paper = "Li et al. 2023, https://arxiv.org/abs/2308.03281"
    choose_when = "retrieval from pairs with large batches, where queries should keep apart from queries, too"

    def __init__(
        self, *, temperature: Temperature = 0.01, false_negative_margin: CosineMargin | None = None
    ) -> None:
        sums = dict.fromkeys(("positive_to_anchors", "other_positives", "positive_to_negatives"), True)
        super().__init__(temperature=temperature, false_negative_margin=false_negative_margin, **sums)


class InfoNCEGuided(CandidatePool):
    """InfoNCE without the false negatives that a guide finds (GISTEmbed).

    A text of another row is left out when the guide's cosine of the two compared texts is above the guide's
    cosine of the row's own pair by more than a margin. (Solatorio 2024, https://arxiv.org/abs/2402.16829,
    with a margin of 0.) The row's own negatives always count. The paper does not mention hard negatives.
    Candidates are those of `InfoNCEPool` with other anchors and other positives. Defaults: those of the
    paper.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | anchor, positive, negatives | guide's embeddings | triplet |
        | anchor, positive | guide's embeddings | positive_pair |

    Relations:
        `InfoNCEPool` without a guide. `false_negative_margin` of `InfoNCE` uses the trained model itself as guide.

    Args:
        temperature: Divides the cosines.
        false_negative_margin: In the guide's cosine units.
        relative_margin: A text is left out above s + false_negative_margin − relative_margin · |s|, s the guide's
            cosine of the own pair. In sentence-transformers' GISTEmbedLoss it is margin with
            margin_strategy="relative". Its margin_strategy="absolute" is −false_negative_margin.

    Example:
        >>> guide = torch.eye(3)[:, None].repeat(1, 2, 1)  # (batch, texts of a row, dim of the guide)
        >>> InfoNCEGuided()(torch.eye(3), torch.eye(3) + 2, guide=guide)
        tensor(22.0501)
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
