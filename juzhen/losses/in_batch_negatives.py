"""Contrast within a batch: each text should find its partner among others."""

from typing import Annotated, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from juzhen.core.aliases import RENAMED_IN_LOSSES, accept_renamed
from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.core.schema import Among
from juzhen.losses.arguments import CosineMargin, Temperature, Weight, checks_arguments
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.scores import all_cosines, choice_accuracy, mean_where, row_cosine, score_gap


def known_pairs(
    anchor_ids: Int[Tensor, "batch"],
    candidate_ids: Int[Tensor, "candidates"],
    of_anchors: Int[Tensor, "pairs"],
    of_positives: Int[Tensor, "pairs"],
) -> Bool[Tensor, "batch candidates"]:
    """Find the (anchor, candidate) pairs whose texts are a known positive pair.

    Args:
        anchor_ids: Text id of each anchor, (batch,).
        candidate_ids: Text id of each candidate, (candidates,).
        of_anchors: Text ids of the anchors of known pairs, (pairs,).
        of_positives: Text ids of their positives, (pairs,).

    Returns:
        True for a known pair, (batch, candidates).

    Example:
        >>> known_pairs(torch.tensor([0, 5]), torch.tensor([1, 6]), torch.tensor([0]), torch.tensor([6]))
        tensor([[False,  True],
                [False, False]])
    """
    # One number per (anchor text, other text), looked up in the sorted known pairs: torch.isin sorts all
    # batch × candidates numbers instead, which took ten times as long as the cosines.
    span = 1 + torch.maximum(of_positives.max(), candidate_ids.max())
    # 64 bits: the product of two text numbers overflows 32
    codes = (of_anchors.long() * span + of_positives).sort().values
    pairs = (anchor_ids.long() * span)[:, None] + candidate_ids
    position = torch.searchsorted(codes, pairs).clamp(max=len(codes) - 1)
    return codes[position] == pairs


def false_negatives(
    anchor_ids: Int[Tensor, "batch"],
    positive_ids: Int[Tensor, "batch"],
    candidate_ids: Int[Tensor, "candidates"],
) -> Bool[Tensor, "batch candidates"]:
    """Find candidates that an anchor must not be pushed away from, by their text.

    A candidate is marked when its text is the anchor's own, or the positive of any row with the same anchor text: the
    row's positive repeated in the batch, or another known positive of its anchor. An explicit negative with such a
    text is marked too, because the data contradict themselves. Nothing is inferred beyond that: entailment is not
    symmetric, so the positives of a positive stay negatives. A row's own positive (i, i) is never marked.

    Args:
        anchor_ids: Text id of each anchor, (batch,), 0 or more.
        positive_ids: Text id of each positive, (batch,).
        candidate_ids: Text id of each candidate, (candidates,). Below 0: a negative that its row lacks, marked for
            all.

    Returns:
        True for a marked candidate, (batch, candidates).

    Example:
        >>> false_negatives(torch.tensor([0, 0]), torch.tensor([1, 2]), torch.tensor([1, 2]))
        tensor([[False,  True],
                [ True, False]])
    """
    is_known = known_pairs(anchor_ids, candidate_ids, anchor_ids, positive_ids)
    is_anchor = anchor_ids[:, None] == candidate_ids
    is_own = torch.eye(*is_known.shape, dtype=torch.bool, device=is_known.device)
    return (is_known | is_anchor | (candidate_ids < 0)) & ~is_own


def _own_candidates(scores: Shaped[Tensor, "batch candidates"]) -> Bool[Tensor, "batch candidates"]:
    """Find row i's own candidates: its positive, i, and its own negatives, i + N, i + 2N, …"""
    rows, candidates = scores.shape
    return torch.eye(rows, dtype=torch.bool, device=scores.device).repeat(1, candidates // rows)


def likely_positives(
    scores: Float[Tensor, "batch candidates"], margin: float | Float[Tensor, "batch 1"]
) -> Bool[Tensor, "batch candidates"]:
    """Find candidates of other rows that score more than `margin` above row i's positive, which is candidate i.

    A row's own candidates are never marked: a hard negative is meant to score high.

    Args:
        scores: Score of each anchor with each candidate, (batch, candidates).
        margin: In units of the score. One number, or one per row, (batch, 1).

    Returns:
        True for a likely positive, (batch, candidates).

    Example:
        >>> likely_positives(torch.tensor([[0.7, 0.9], [0.2, 0.8]]), 0.1)
        tensor([[False,  True],
                [False, False]])
    """
    return (scores > scores.diagonal()[:, None] + margin) & ~_own_candidates(scores)


@checks_arguments
def info_nce(
    scores: Float[Tensor, "batch candidates"],
    excluded: Bool[Tensor, "batch candidates"] | None = None,
    *,
    temperature: float = 0.05,
    symmetric: bool = False,
    false_negative_margin: float | None = None,
) -> Float[Tensor, ""]:
    """Compute the cross entropy of finding row i's positive, which is candidate i, among the candidates.

    loss = (1/N) Σ_i −log [exp(s_ii/τ) / Σ_c exp(s_ic/τ)], c over the candidates not excluded for i. (van den Oord et
    al. 2018, equation 4, and for sentence pairs Henderson et al. 2017)

    Args:
        scores: Score of each anchor with each candidate, (batch, candidates).
        excluded: True for candidates to leave out, (batch, candidates).
        temperature: τ, divides the scores.
        symmetric: Average with the other direction, where each positive looks for its anchor among the batch's
            anchors. Explicit negatives, candidates N and later, take no part in it.
        false_negative_margin: Also leave out `likely_positives` of this margin, in both directions. None: keep them.

    Returns:
        The scalar loss.

    Example:
        >>> info_nce(torch.tensor([[0.9, 0.7], [0.6, 0.8]]))
        tensor(0.0181)
    """
    logits = scores / temperature
    if excluded is not None:
        logits = logits.masked_fill(excluded, -torch.inf)
    # Marked pairs are pairs of texts, so the mask of the way back is the same one, transposed.
    count = len(logits)
    back = logits[:, :count].T
    if false_negative_margin is not None:
        logits = logits.masked_fill(likely_positives(scores, false_negative_margin), -torch.inf)
        back = back.masked_fill(likely_positives(scores[:, :count].T, false_negative_margin), -torch.inf)
    indices = torch.arange(len(logits), device=logits.device)
    forth = F.cross_entropy(logits, indices)
    return (forth + F.cross_entropy(back, indices)) / 2 if symmetric else forth


class InfoNCE(Loss):
    """InfoNCE with in-batch and explicit negatives (MultipleNegativesRankingLoss).

    loss = (1/N) Σ_i −log [exp(s_ii/τ) / Σ_c exp(s_ic/τ)], s the cosine, see `info_nce`. The candidates c are all
    positives of the batch, then all explicit negatives. Known positives of an anchor are left out (`false_negatives`).
    Defaults: one direction, all negatives, and the 0.05 of SimCSE, which is the scale of 20 of
    MultipleNegativesRankingLoss.

    Logs accuracy (the positive is the best candidate), mean score of positives, of negatives, and the gap.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | anchor, positive, negatives | – | triplet |
        | anchor, positive | – | positive_pair |

    Relations:
        `InfoNCEInBatch` ignores explicit negatives. `InfoNCEOwn` ignores texts of other rows. `InfoNCEWeighted`
        weights negatives by their hardness. `InfoNCEPool` adds anchors as candidates. `InfoNCEQueue` adds texts of
        earlier batches. `NTXent` treats both texts of a pair alike.

    Args:
        temperature: Divides the cosines.
        symmetric: Average both directions.
        false_negative_margin: In cosine units. A text of another row that is closer to the anchor than its positive by
            more than this is treated as an unlabelled positive and left out. None: keep all.

    Raises:
        UserError: Negatives for a subclass that takes pairs only.

    Example:
        >>> anchors, positives = torch.eye(3), torch.eye(3) + 2
        >>> InfoNCE()(anchors, positives)
        tensor(0.0155)
        >>> InfoNCE()(anchors, positives, negatives=torch.ones(3, 1, 3))
        tensor(0.1521)
    """

    input_kinds: ClassVar[tuple[Kind, ...]] = (Kind.TRIPLET, Kind.POSITIVE_PAIR)
    input_type = "embeddings"
    reads_tokens = True
    is_batchwise = True
    contrast = Contrast.TEXTS
    paper = "van den Oord et al. 2018, https://arxiv.org/abs/1807.03748"
    choose_when = "the first to try on positive pairs and triplets for retrieval, with large batches"

    temperature: Temperature = 0.05
    symmetric: bool = False
    false_negative_margin: CosineMargin | None = None

    def with_logs(
        self,
        anchors: Tensor,
        positives: Tensor,
        negatives: Tensor | None = None,
        *,
        text_ids: Tensor | None = None,
    ) -> LossOutput:
        if negatives is not None and Kind.TRIPLET not in self.input_kinds:
            raise UserError(f"negatives: {type(self).__name__} reads none. Leave them out, or use InfoNCE")
        scores, excluded = batch_candidates(anchors, positives, negatives, text_ids)
        temperature, margin = self.temperature, self.false_negative_margin
        loss = info_nce(
            scores, excluded, temperature=temperature, symmetric=self.symmetric, false_negative_margin=margin
        )
        logs = {}
        if margin is not None:
            likely = likely_positives(scores, margin)
            logs, excluded = left_out(likely, excluded), excluded | likely
        return loss, logs | ranking_summary(scores, excluded, torch.arange(len(scores), device=scores.device))


def numbers_of_texts(
    text_ids: Int[Tensor, "batch texts"] | None, *, anchors: Float[Tensor, "batch ... dim"], count: int
) -> Int[Tensor, "batch texts"]:
    """Return `text_ids`, or ids that are all different when it is None.

    Args:
        text_ids: Id of each text of a row, equal for equal texts, (batch, texts).
        anchors: Embeddings of the anchors, for the batch size and the device.
        count: Texts of a row.

    Returns:
        Ids, (batch, texts).

    Example:
        >>> numbers_of_texts(None, anchors=torch.eye(2), count=2)
        tensor([[0, 1],
                [2, 3]])
    """
    if text_ids is None:
        return torch.arange(len(anchors) * count, device=anchors.device).view(len(anchors), count)
    return text_ids


def batch_candidates(
    anchors: Float[Tensor, "batch ... dim"],
    positives: Float[Tensor, "batch ... dim"],
    negatives: Float[Tensor, "batch negatives ... dim"] | None,
    text_ids: Int[Tensor, "batch texts"] | None,
) -> tuple[Float[Tensor, "batch candidates"], Bool[Tensor, "batch candidates"]]:
    """Compute cosines of each anchor with all positives of the batch, then with all explicit negatives.

    Args:
        anchors: Embeddings of the anchors, (batch, dim).
        positives: Embeddings of the positives, (batch, dim). The positive of row i is candidate i.
        negatives: Embeddings of the explicit negatives, (batch, negatives, dim).
        text_ids: Id of each text of a row, (batch, texts).

    Returns:
        Cosines and the excluded `false_negatives`, both (batch, candidates).

    Example:
        >>> scores, excluded = batch_candidates(torch.eye(2), torch.eye(2), torch.ones(2, 1, 2), None)
        >>> scores
        tensor([[1.0000, 0.0000, 0.7071, 0.7071],
                [0.0000, 1.0000, 0.7071, 0.7071]])
        >>> excluded.any().item()
        False
    """
    extra = () if negatives is None else negatives.unbind(dim=1)
    ids = numbers_of_texts(text_ids, anchors=anchors, count=2 + len(extra))
    anchor_ids, *candidate_ids = ids.unbind(dim=1)
    excluded = false_negatives(anchor_ids, candidate_ids[0], torch.cat(candidate_ids))
    return all_cosines(anchors, torch.cat([positives, *extra])), excluded


@torch.no_grad()
def left_out(
    likely: Bool[Tensor, "batch candidates"], excluded: Bool[Tensor, "batch candidates"]
) -> dict[str, Tensor]:
    """Compute the share of `likely` positives among the negatives of other rows. NaN without such negatives.

    Args:
        likely: Output of `likely_positives`, (batch, candidates).
        excluded: Candidates that are left out already, (batch, candidates).

    Returns:
        The log "likely_positive_share".

    Example:
        >>> likely = torch.tensor([[False, True], [False, False]])
        >>> left_out(likely, torch.zeros(2, 2, dtype=torch.bool))
        {'likely_positive_share': tensor(0.5000)}
    """
    negatives = ~excluded & ~_own_candidates(likely)
    return {"likely_positive_share": (likely & negatives).sum() / negatives.sum()}


@torch.no_grad()
def ranking_summary(
    scores: Float[Tensor, "batch candidates"],
    excluded: Bool[Tensor, "batch candidates"],
    positives: Int[Tensor, "batch"],
) -> dict[str, Tensor]:
    """Compute accuracy, mean positive score, mean negative score and their gap, without excluded candidates.

    Args:
        scores: Score of each anchor with each candidate, (batch, candidates).
        excluded: Candidates that do not count, (batch, candidates).
        positives: Index of each row's positive among the candidates, (batch,).

    Returns:
        Name → scalar to log.

    Example:
        >>> scores, excluded = torch.tensor([[0.9, 0.7], [0.8, 0.6]]), torch.zeros(2, 2, dtype=torch.bool)
        >>> summary = ranking_summary(scores, excluded, torch.tensor([0, 1]))
        >>> summary["accuracy"]
        tensor(0.5000)
    """
    is_positive = positives[:, None] == torch.arange(scores.shape[1], device=scores.device)
    accuracy = choice_accuracy(scores.masked_fill(excluded, -torch.inf), positives)
    return {"accuracy": accuracy} | score_gap(scores, is_positive, ~is_positive & ~excluded)


WEIGHED = ("own", "others", "all")


@checks_arguments
def hardness(
    scores: Float[Tensor, "batch candidates"], *, strength: float = 5.0, of: str = "all"
) -> Float[Tensor, "batch candidates"]:
    """Compute the logarithm of each candidate's weight: strength · score for negatives, 0 for the own positive.

    It is a constant in the gradient.

    Args:
        scores: Score of each anchor with each candidate, (batch, candidates).
        strength: α.
        of: Negatives to weight: "own" of the row, "others" of other rows, or "all".

    Returns:
        Logarithms, (batch, candidates).

    Example:
        >>> hardness(torch.tensor([[0.9, 0.5], [0.2, 0.8]]))
        tensor([[0.0000, 2.5000],
                [1.0000, 0.0000]])
    """
    is_own = _own_candidates(scores)
    is_positive = torch.eye(*scores.shape, dtype=torch.bool, device=scores.device)
    weighed = {"own": is_own & ~is_positive, "others": ~is_own, "all": ~is_positive}[of]
    return strength * torch.where(weighed, scores.detach(), 0)


@accept_renamed(RENAMED_IN_LOSSES)
class InfoNCEWeighted(Loss):
    """InfoNCE with harder negatives weighted more.

    loss = (1/N) Σ_i −log [exp(s_ii/τ) / (exp(s_ii/τ) + Σ_{c≠i} w_ic exp(s_ic/τ))], w_ic = exp(α s_ic), a constant in
    the gradient. (Lan et al. 2025, equation 5, https://arxiv.org/abs/2503.04812. EmbeddingGemma weights the own hard
    negatives, at α = 5: Vera et al. 2025, https://arxiv.org/abs/2509.20354) Candidates and exclusions are those of
    `InfoNCE`. Defaults: the temperature of `InfoNCE`, the strength of EmbeddingGemma, all negatives.

    Logs what `InfoNCE` logs, and the mean weight of a negative.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | anchor, positive, negatives | – | triplet |
        | anchor, positive | – | positive_pair |

    Relations:
        `InfoNCE` at hardness_strength=0.

    Args:
        temperature: Divides the cosines.
        hardness_strength: α. 0: no weights.
        hardness_mode: Negatives to weight: "own" (the explicit negatives of the row), "others" or "all".

    Raises:
        UserError: hardness_mode="own" for rows without negatives.

    Example:
        >>> InfoNCEWeighted()(torch.eye(3), torch.eye(3) + 2)
        tensor(0.1629)
    """

    input_kinds: ClassVar[tuple[Kind, ...]] = (Kind.TRIPLET, Kind.POSITIVE_PAIR)
    input_type = "embeddings"
    reads_tokens = True
    is_batchwise = True
    contrast = Contrast.TEXTS
    paper = "Lan et al. 2025, https://arxiv.org/abs/2503.04812"
    choose_when = "as info_nce, when most negatives are easy already"

    temperature: Temperature = 0.05
    hardness_strength: Weight = 5.0
    hardness_mode: Annotated[str, Among(WEIGHED)] = "all"

    def with_logs(
        self,
        anchors: Tensor,
        positives: Tensor,
        negatives: Tensor | None = None,
        *,
        text_ids: Tensor | None = None,
    ) -> LossOutput:
        if negatives is None and self.hardness_mode == "own":
            raise UserError(
                "hardness_mode=own: these rows have no hard negatives. Choose hardness_mode=all or others"
            )
        scores, excluded = batch_candidates(anchors, positives, negatives, text_ids)
        weights = hardness(scores, strength=self.hardness_strength, of=self.hardness_mode)
        loss = info_nce(scores + self.temperature * weights, excluded, temperature=self.temperature)
        positions = torch.arange(len(scores), device=scores.device)
        is_negative = ~excluded & (positions[:, None] != torch.arange(scores.shape[1], device=scores.device))
        logs = {"negative_weight": mean_where(weights.exp(), is_negative)}
        return loss, logs | ranking_summary(scores, excluded, positions)


class InfoNCEInBatch(InfoNCE):
    """InfoNCE over the positives of the batch only (Henderson et al. 2017, section 4).

    loss: see `info_nce`. Triplets and NLI pairs are converted to pairs of anchor and positive first. Defaults: both
    directions, at a temperature of 0.07. Logs what `InfoNCE` logs.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | anchor, positive | – | positive_pair |

    Relations:
        `InfoNCE` also uses explicit negatives.

    Args:
        temperature: Divides the cosines.
        symmetric: Average both directions.
        false_negative_margin: As in `InfoNCE`.

    Example:
        >>> InfoNCEInBatch()(torch.eye(3), torch.eye(3) + 2)
        tensor(0.0607)
    """

    input_kinds = (Kind.POSITIVE_PAIR,)
    paper = "Henderson et al. 2017, https://arxiv.org/abs/1705.00652"
    choose_when = "positive pairs without hard negatives"

    temperature: Temperature = 0.07
    symmetric: bool = True


@checks_arguments
def info_nce_own(
    scores: Float[Tensor, "batch candidates"],
    excluded: Bool[Tensor, "batch candidates"],
    *,
    temperature: float = 0.05,
) -> Float[Tensor, ""]:
    """Compute the cross entropy of finding the positive, candidate 0 of each row, among the row's own candidates.

    loss = (1/N) Σ_i −log [exp(s_i0/τ) / Σ_k exp(s_ik/τ)], k over the row's candidates that are not excluded. (van den
    Oord et al. 2018, equation 4, with K negatives drawn for each row)

    Args:
        scores: Score of each anchor with its candidates, (batch, candidates), the positive first.
        excluded: True for candidates to leave out, (batch, candidates).
        temperature: τ, divides the scores.

    Returns:
        The scalar loss.

    Example:
        >>> info_nce_own(torch.tensor([[0.9, 0.7]]), torch.zeros(1, 2, dtype=torch.bool))
        tensor(0.0181)
    """
    logits = (scores / temperature).masked_fill(excluded, -torch.inf)
    return F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long, device=logits.device))


class InfoNCEOwn(Loss):
    """InfoNCE over each row's own negatives. Rows are independent.

    loss = (1/N) Σ_i −log [exp(s_i0/τ) / Σ_k exp(s_ik/τ)], see `info_nce_own`. A negative with the text of the row's
    anchor or positive is left out. Default temperature: 0.07. Logs what `InfoNCE` logs.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | anchor, positive, negatives | – | triplet |

    Relations:
        `InfoNCE` also uses texts of other rows. `ListMLE` and other list losses take scores of documents.

    Args:
        temperature: Divides the cosines.

    Example:
        >>> InfoNCEOwn()(torch.eye(3), torch.eye(3) + 2, torch.ones(3, 2, 3))
        tensor(0.2101)
    """

    input_kinds = (Kind.TRIPLET,)
    input_type = "embeddings"
    reads_tokens = True
    is_batchwise = False
    contrast = Contrast.NEGATIVES
    paper = "van den Oord et al. 2018, https://arxiv.org/abs/1807.03748"
    choose_when = "triplets with many mined negatives, when texts of other rows are no safe negatives"

    temperature: Temperature = 0.07

    def with_logs(
        self, anchors: Tensor, positives: Tensor, negatives: Tensor, *, text_ids: Tensor | None = None
    ) -> LossOutput:
        candidates = [positives, *negatives.unbind(dim=1)]
        scores = torch.stack([row_cosine(anchors, text) for text in candidates], dim=1)
        ids = numbers_of_texts(text_ids, anchors=anchors, count=1 + len(candidates))
        is_same = (ids[:, 2:] == ids[:, :1]) | (ids[:, 2:] == ids[:, 1:2]) | (ids[:, 2:] < 0)
        excluded = F.pad(is_same, (1, 0))  # never the positive itself
        loss = info_nce_own(scores, excluded, temperature=self.temperature)
        return loss, ranking_summary(scores, excluded, torch.zeros_like(ids[:, 0]))


class NTXent(Loss):
    """NT-Xent (SimCLR): each of the 2N texts of N pairs looks for its partner among the other 2N − 1 texts.

    loss = (1/2N) Σ_i −log [exp(cos(u_i, u_p(i))/τ) / Σ_{k≠i} exp(cos(u_i, u_k)/τ)], u all first texts and then all
    second ones, p(i) the place of the other text of i's pair. (Chen et al. 2020, equation 1,
    https://arxiv.org/abs/2002.05709) Texts equal to u_i or to a partner of it are left out. Default: the temperature
    of `InfoNCE`. SimCLR has 0.1 to 0.5 for pictures. Logs what `InfoNCE` logs.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | anchor, positive | – | positive_pair |

    Relations:
        In `InfoNCE` N anchors look for their positives among N texts. Here texts of one side are kept apart as well,
        and each pair is learnt in both directions.

    Args:
        temperature: Divides the cosines.

    Example:
        >>> NTXent()(torch.eye(3), torch.eye(3) + 2)
        tensor(2.4936)
    """

    input_kinds = (Kind.POSITIVE_PAIR,)
    input_type = "embeddings"
    is_batchwise = True
    contrast = Contrast.SOME_TEXTS
    paper = "Chen et al. 2020, https://arxiv.org/abs/2002.05709"
    choose_when = "two views of one text, neither of which is the query"

    temperature: Temperature = 0.05

    def with_logs(
        self, first: Tensor, second: Tensor, *, text_ids: Int[Tensor, "batch 2"] | None = None
    ) -> LossOutput:
        first_ids, second_ids = numbers_of_texts(text_ids, anchors=first, count=2).unbind(dim=1)
        # Partners come in the order of their texts, so that the own place of row i is candidate i.
        scores = all_cosines(torch.cat([first, second]), torch.cat([second, first]))
        ids, partner_ids = torch.cat([first_ids, second_ids]), torch.cat([second_ids, first_ids])
        # A text has its own number, and so is left out.
        excluded = false_negatives(ids, partner_ids, partner_ids)
        loss = info_nce(scores, excluded, temperature=self.temperature, symmetric=False)
        return loss, ranking_summary(scores, excluded, torch.arange(len(scores), device=scores.device))


class SimCSE(InfoNCE):
    """Unsupervised SimCSE: InfoNCE of two encodings of each sentence that differ by dropout.

    loss = (1/N) Σ_i −log [exp(cos(u_i, u'_i)/τ) / Σ_j exp(cos(u_i, u'_j)/τ)], u and u' the two encodings. (Gao et al.
    2021, equation 4, https://arxiv.org/abs/2104.08821) Without dropout in the backbone the two are equal, and the loss
    only pushes sentences apart. Other row kinds are converted to sentences first, and labels are not read. Logs what
    `InfoNCE` logs.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | one text | – | sentence |

    Relations:
        The supervised SimCSE of the paper is `InfoNCE` on the triplets of an NLI set. `SimCSENTXent` has more
        candidates.

    Args:
        temperature: Divides the cosines.
        symmetric: Average both directions.
        false_negative_margin: As in `InfoNCE`.

    Example:
        >>> once, again = torch.eye(3) + 2, torch.eye(3) + 1.5  # two passes with dropout
        >>> SimCSE()(once, again)
        tensor(0.3754)
    """

    input_kinds = (Kind.SENTENCE,)
    reads_tokens = False
    needs_two_views = True
    paper = "Gao et al. 2021, https://arxiv.org/abs/2104.08821"
    choose_when = "sentences without labels"


class SimCSENTXent(NTXent):
    """NT-Xent of two encodings of each sentence that differ by dropout.

    The paper's own loss is `SimCSE`: N encodings look among the N of the other pass (Gao et al. 2021, equation 4,
    https://arxiv.org/abs/2104.08821). Here each looks among 2N − 1, including those of its own pass. Other row kinds
    are converted to sentences first, and labels are not read.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | one text | – | sentence |

    Relations:
        `NTXent` on pairs. `SimCSE` with fewer candidates.

    Args:
        temperature: Divides the cosines.

    Example:
        >>> once, again = torch.eye(3) + 2, torch.eye(3) + 1.5  # two passes with dropout
        >>> SimCSENTXent()(once, again)
        tensor(0.6554)
    """

    input_kinds = (Kind.SENTENCE,)
    needs_two_views = True
    paper = "Gao et al. 2021, https://arxiv.org/abs/2104.08821"
    choose_when = "sentences without labels in small batches: more candidates than simcse"
