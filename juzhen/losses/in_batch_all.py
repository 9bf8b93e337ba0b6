"""InfoNCE over everything in the batch, with other anchors, scores of positives with other texts, and queued texts."""

from collections.abc import Sequence
from dataclasses import field

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from juzhen.core.examples import Kind
from juzhen.core.schema import validated
from juzhen.losses.arguments import Classes, CosineMargin, Count, Share, Temperature
from juzhen.losses.in_batch_negatives import (
    batch_candidates,
    false_negatives,
    info_nce,
    known_pairs,
    left_out,
    likely_positives,
    numbers_of_texts,
    ranking_summary,
)
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.scores import all_cosines, full_precision


class CandidatePool(Loss):
    """Base of losses whose candidates are all texts of the batch. `InfoNCEPool` has the equation.

    Args:
        temperature: Divides the cosines.
        other_anchors: The anchors of other rows are candidates of an anchor.
        positive_to_anchors: Compare each positive with the anchors, too.
        other_positives: The positives of other rows are candidates of a positive.
        positive_to_negatives: The negatives are candidates of a positive.
        false_negative_margin: Leave out candidates nearer than the positive plus this cosine. None: none.

    Example:
        >>> InfoNCEPool(other_anchors=False).pool([torch.eye(2), torch.eye(2)])
        tensor([[1., 0.],
                [0., 1.]])
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

    Example:
        >>> len(texts_of_rows(torch.eye(2), torch.eye(2), torch.ones(2, 3, 2)))
        5
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
    fall below log 2. Explicit negatives are passages: candidates of q_i and of d_i. sentence-transformers'
    MultipleNegativesRankingLoss with its four directions keeps a row's own negatives out of those of d_i, so the two
    agree on pairs alone. Default temperature: 0.01, as GTE.

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

    dim: Count
    num_classes: Classes
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
