"""Losses over the documents of a row: its positive and its own negatives, scored one by one."""

import math
from typing import Annotated, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from juzhen.core.aliases import RENAMED_IN_LOSSES, accept_renamed
from juzhen.core.errors import UserError, require_choice
from juzhen.core.examples import Examples, Kind
from juzhen.core.schema import Among
from juzhen.losses.arguments import Count, Temperature, Weight, checks_arguments
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.regression import ACTIVATIONS
from juzhen.losses.scores import choice_accuracy, full_precision, mean_of_rows, score_gap


class ListLoss(Loss):
    """Base of losses over the scores of a row's documents: the positive first, then its negatives.

    Rows are independent. A bi-encoder scores a document as it scores a pair. A cross-encoder reads it with its anchor.
    Rows may differ in their number of documents: a missing one has the score −∞ and does not count. Logs the rank of
    the positive.

    Args:
        temperature: Divides the scores. 1 suits logits.

    Example:
        >>> class PositiveFirst(ListLoss):
        ...     def with_logs(self, document_scores):
        ...         return -self.tempered(document_scores)[:, 0].mean(), self.list_summary(document_scores)
        >>> PositiveFirst()(torch.tensor([[2.0, 1.0, 0.0]]))
        tensor(-2.)
    """

    input_kinds: ClassVar[tuple[Kind, ...]] = (Kind.TRIPLET,)
    input_type = "lists"
    is_batchwise = False
    contrast = Contrast.NEGATIVES

    temperature: Temperature = 1.0

    def tempered(self, scores: Float[Tensor, "batch documents"]) -> Float[Tensor, "batch documents"]:
        """The scores divided by the temperature, float32 at least.

        Args:
            scores: Score of each document.

        Returns:
            Tensor of the same shape.
        """
        return full_precision(scores) / self.temperature

    @staticmethod
    @torch.no_grad()
    def list_summary(scores: Float[Tensor, "batch documents"]) -> dict[str, Tensor]:
        """Share of rows whose positive scores highest, mean score of positives, of negatives, and the gap.

        Args:
            scores: Score of each document, the positive first.

        Returns:
            Name → value, to be logged.
        """
        is_positive = _first_document(scores)
        accuracy = choice_accuracy(scores, torch.zeros_like(scores[:, 0]))
        return {"accuracy": accuracy} | score_gap(scores, is_positive, ~is_positive & (scores != -torch.inf))


def _first_document(scores: Float[Tensor, "batch documents"]) -> Bool[Tensor, "batch documents"]:
    """True for the positives, which come first."""
    return (torch.arange(scores.shape[1], device=scores.device) == 0).expand(scores.shape)


@checks_arguments
def list_mle(
    document_scores: Float[Tensor, "batch documents"], grades: Float[Tensor, "batch documents"]
) -> Float[Tensor, ""]:
    """Compute ListMLE: the likelihood of drawing the documents in the order of their grades.

    loss = mean over rows of −Σ_k log [exp(s_k) / (exp(s_k) + Σ_{m: g_m < g_k} exp(s_m))], s the scores and g the
    grades. Where all grades of a row differ this is −log P(order | s), the order drawn from the top without
    replacement (Xia et al. 2008, https://doi.org/10.1145/1390156.1390306). Documents of one grade do not compete,
    whereas the paper assumes one order of them.

    Args:
        document_scores: Scores of each row's documents, (batch, documents). −∞: missing.
        grades: Relevance, higher = better, (batch, documents).

    Returns:
        The scalar loss.

    Example:
        >>> list_mle(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([[2.0, 1.0, 0.0]]))
        tensor(0.7209)
    """
    return _order_costs(full_precision(document_scores), grades).sum(dim=1).mean()


def _present_scores(
    document_scores: Float[Tensor, "batch documents"],
) -> tuple[Float[Tensor, "batch documents"], Bool[Tensor, "batch documents"]]:
    """Scores in full precision, 0 for missing documents, and which documents are present."""
    scores = full_precision(document_scores)
    has = scores != -torch.inf
    return scores.masked_fill(~has, 0), has


def _order_costs(
    scores: Float[Tensor, "batch documents"], grades: Float[Tensor, "batch documents"]
) -> Float[Tensor, "batch documents"]:
    """−log [exp(s_k) / (exp(s_k) + Σ_{m: g_m < g_k} exp(s_m))] of each document k. 0 for missing ones."""
    scores, has = _present_scores(scores)
    is_lower = (grades[:, None, :] < grades[:, :, None]) & has[:, None, :]
    is_rival = is_lower | torch.eye(scores.shape[1], dtype=torch.bool, device=scores.device)
    rivals = scores[:, None, :].expand(is_rival.shape).masked_fill(~is_rival, -torch.inf)
    return (rivals.logsumexp(dim=2) - scores).masked_fill(~has, 0)


class ListMLE(ListLoss):
    """ListMLE: the documents of a query in the order of their grades.

    See `list_mle`. The grades are a teacher's scores where the set has them, else the positive is before all
    negatives. Default: no scaling, which suits logits. Logs the rank of the positive.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | anchor, positive, negatives | – | triplet |

    Relations:
        `PositionListMLE` weights the top of the order. `RankNet` compares documents in pairs.

    Args:
        temperature: Divides the scores.

    Example:
        >>> ListMLE()(torch.tensor([[2.0, 1.0, -1.0]]))
        tensor(0.3490)
    """

    paper = "Xia et al. 2008, https://doi.org/10.1145/1390156.1390306"
    choose_when = "a cross-encoder that should put the documents of a query in order"

    def with_logs(self, document_scores: Tensor, teacher_scores: Tensor | None = None) -> LossOutput:
        grades = _first_document(document_scores).float() if teacher_scores is None else teacher_scores
        loss = list_mle(self.tempered(document_scores), grades)
        return loss, self.list_summary(document_scores)

    def has_contrast(self, examples: Examples, rows: np.ndarray) -> bool:
        """As `Loss.has_contrast`, by the scores of a teacher where the set has them.

        Args:
            examples: The set.
            rows: Row numbers of a batch, int (batch,).

        Returns:
            False if the loss is constant on these rows.
        """
        if examples.teacher_scores is None:
            return super().has_contrast(examples, rows)
        return bool(np.ptp(examples.teacher_scores[rows], axis=1).any())


@checks_arguments
def position_list_mle(
    document_scores: Float[Tensor, "batch documents"], grades: Float[Tensor, "batch documents"]
) -> Float[Tensor, ""]:
    """Compute ListMLE with position weights: Σ_k α(r_k) (…), r_k = 1 + documents graded higher.

    α(r) = (2^(n−r) − 1) / Σ_r (2^(n−r) − 1) for n documents, largest for the first. (Lan et al. 2014, section 4, which
    leaves the sum open, https://auai.org/uai2014/proceedings/individuals/164.pdf)

    Args:
        document_scores: Scores of each row's documents, (batch, documents). −∞: missing.
        grades: Relevance, higher = better, (batch, documents).

    Returns:
        The scalar loss.

    Example:
        >>> position_list_mle(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([[2.0, 1.0, 0.0]]))
        tensor(0.3840)
    """
    scores, has = _present_scores(document_scores)
    ranks = 1 + ((grades[:, None, :] > grades[:, :, None]) & has[:, None, :]).sum(dim=2)
    powers = 2.0 ** -torch.arange(1, 1 + scores.shape[1], device=scores.device, dtype=scores.dtype)
    shares = (powers - powers[has.sum(dim=1) - 1][:, None]).clamp(min=0)
    whole = shares.sum(dim=1, keepdim=True).clamp(min=torch.finfo(scores.dtype).tiny)
    weights = (shares / whole).gather(1, ranks - 1)
    return (weights * _order_costs(document_scores, grades)).sum(dim=1).mean()


class PositionListMLE(ListLoss):
    """Position-aware ListMLE: mistakes at the top of the order cost most.

    See `position_list_mle`. The order is that of a teacher's scores. Default: no scaling, which suits logits. Logs the
    rank of the positive.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | anchor, positive, negatives | teacher scores | triplet |

    Relations:
        `ListMLE` without position weights.

    Args:
        temperature: Divides the scores.

    Example:
        >>> PositionListMLE()(torch.tensor([[2.0, 1.0, -1.0]]), torch.tensor([[3.0, 1.0, 2.0]]))
        tensor(0.7935)
    """

    contrast = Contrast.NONE
    needs_teacher_scores = True
    paper = "Lan et al. 2014, https://auai.org/uai2014/proceedings/individuals/164.pdf"
    choose_when = "as list_mle with a teacher's scores, when the first documents matter most"

    def with_logs(self, document_scores: Tensor, teacher_scores: Tensor) -> LossOutput:
        loss = position_list_mle(self.tempered(document_scores), teacher_scores)
        return loss, self.list_summary(document_scores)


@checks_arguments
def rank_net(
    document_scores: Float[Tensor, "batch documents"], grades: Float[Tensor, "batch documents"]
) -> Float[Tensor, ""]:
    """Compute RankNet: the mean over rows of Σ_{i, j: g_i > g_j} log(1 + exp(s_j − s_i)).

    s are the scores and g the grades. (Burges et al. 2005, equation 3 for certain pairs,
    https://doi.org/10.1145/1102351.1102363) sentence-transformers' RankNetLoss is the mean over the P pairs of a batch
    of N rows with g_i > g_j. Theirs is N/P times ours, so divide a learning rate that suits theirs by the pairs of a
    row.

    Args:
        document_scores: Scores of each row's documents, (batch, documents). −∞: missing.
        grades: Relevance, higher = better, (batch, documents).

    Returns:
        The scalar loss.

    Example:
        >>> rank_net(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([[2.0, 1.0, 0.0]]))
        tensor(0.7535)
    """
    scores, has = _present_scores(document_scores)
    is_above = (grades[:, :, None] > grades[:, None, :]) & has[:, :, None] & has[:, None, :]
    costs = F.softplus(scores[:, None, :] - scores[:, :, None])
    return torch.where(is_above, costs, 0).sum(dim=(1, 2)).mean()


class RankNet(ListLoss):
    """RankNet: each pair of a row's documents in the order of their grades.

    See `rank_net`. The grades are a teacher's scores where the set has them, else the positive is before all
    negatives. Default: no scaling, which suits logits. Logs the rank of the positive.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | anchor, positive, negatives | – | triplet |

    Relations:
        `LambdaLoss` weights the pairs by their effect on NDCG.

    Args:
        temperature: Divides the scores.

    Example:
        >>> RankNet()(torch.tensor([[2.0, 1.0, -1.0]]))
        tensor(0.3618)
    """

    paper = "Burges et al. 2005, https://doi.org/10.1145/1102351.1102363"
    choose_when = "a cross-encoder on rows of few documents, each pair of which should be in order"

    def with_logs(self, document_scores: Tensor, teacher_scores: Tensor | None = None) -> LossOutput:
        grades = _first_document(document_scores).float() if teacher_scores is None else teacher_scores
        return rank_net(self.tempered(document_scores), grades), self.list_summary(document_scores)


@checks_arguments
def list_kl(
    document_scores: Float[Tensor, "batch documents"],
    teacher_scores: Float[Tensor, "batch documents"],
    *,
    temperature: float = 1.0,
    teacher_temperature: float = 1.0,
) -> Float[Tensor, ""]:
    """Compute the mean over rows of KL(q ‖ p) = Σ_k q_k log(q_k / p_k).

    p = softmax(s/τ) of our scores, q = softmax(t/τ_t) of the teacher's. (Hinton et al. 2015,
    https://arxiv.org/abs/1503.02531, section 2, less the entropy of q, with documents for classes) It is not
    multiplied by τ², by which Hinton and sentence-transformers' DistillKLDivLoss keep gradients long at high
    temperatures: theirs is τ² times ours.

    A document that we score −∞ is missing from its row, and the teacher's share goes to the others. One that the
    teacher scores −∞ has the share q = 0, and costs through its p only.

    Args:
        document_scores: Scores of each row's documents, (batch, documents).
        teacher_scores: Scores of the teacher, (batch, documents).
        temperature: τ.
        teacher_temperature: τ_t.

    Returns:
        The scalar loss.

    Example:
        >>> list_kl(torch.tensor([[2.0, 0.0]]), torch.tensor([[2.0, 0.0]]))
        tensor(0.)
        >>> list_kl(torch.tensor([[0.0, 2.0]]), torch.tensor([[2.0, 0.0]]))
        tensor(1.5232)
    """
    is_out = document_scores == -torch.inf
    ours = (full_precision(document_scores) / temperature).log_softmax(dim=1)
    theirs = full_precision(teacher_scores).masked_fill(is_out, -torch.inf) / teacher_temperature
    theirs = theirs.log_softmax(dim=1)
    differences = (theirs - ours).masked_fill(theirs == -torch.inf, 0)  # 0 log 0 is 0
    return (theirs.exp() * differences).sum() / len(ours)


class ListKL(ListLoss):
    """KL divergence to a teacher's distribution over a row's documents (ListNet, DistillKLDiv).

    See `list_kl`. Defaults: both scores without scaling, which suits logits. Logs the rank of the positive.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | anchor, positive, negatives | teacher scores | triplet |

    Relations:
        `MarginMSE` compares differences of scores. `ListMLE` uses only the order.

    Args:
        temperature: Divides the scores.
        teacher_temperature: Divides the teacher's scores.

    Example:
        >>> ListKL()(torch.tensor([[2.0, 1.0, -1.0]]), torch.tensor([[3.0, 1.0, 2.0]]))
        tensor(0.3408)
    """

    contrast = Contrast.NONE
    needs_teacher_scores = True
    paper = "Hinton et al. 2015, https://arxiv.org/abs/1503.02531"
    choose_when = (
        "triplets with many negatives and a teacher's scores, of which only the shares within a row count"
    )

    teacher_temperature: Temperature = 1.0

    def with_logs(self, document_scores: Tensor, teacher_scores: Tensor) -> LossOutput:
        divisors = {"temperature": self.temperature, "teacher_temperature": self.teacher_temperature}
        loss = list_kl(document_scores, teacher_scores, **divisors)
        return loss, self.list_summary(document_scores)


WEIGHTINGS = ("ndcg_loss2pp", "ndcg_loss2", "lambda_rank", "ndcg_loss1", "none")


@accept_renamed(RENAMED_IN_LOSSES)
@checks_arguments
def lambda_loss(
    document_scores: Float[Tensor, "batch documents"],
    grades: Float[Tensor, "batch documents"],
    *,
    weighting_scheme: str = "ndcg_loss2pp",
    mu: float = 10.0,
    k: int | None = None,
) -> Float[Tensor, ""]:
    """Compute LambdaLoss: the mean over rows of Σ_{i, j: g_i > g_j} w_ij log₂(1 + exp(s_j − s_i)).

    G_i = (2^g_i − 1) / the best DCG of the row, with ranks r by the current scores s, and D_r = log₂(1 + r). The
    weights w_ij (Wang et al. 2018, https://doi.org/10.1145/3269206.3271784. The names are those of
    sentence-transformers):

        lambda_rank   ρ_ij |G_i − G_j|, ρ_ij = |1/D_{r_i} − 1/D_{r_j}|
        ndcg_loss2    δ_ij |G_i − G_j|, δ_ij = |1/D_{|r_i − r_j|} − 1/D_{|r_i − r_j| + 1}|
        ndcg_loss2pp  (ρ_ij + μ δ_ij) |G_i − G_j|
        ndcg_loss1    G_i / D_{r_i}, over all pairs i ≠ j whatever their grades
        none          1

    sentence-transformers takes the mean over the pairs of all rows. With ndcg_loss1 it also counts each document
    against itself, which adds a number without a gradient.

    Args:
        document_scores: Scores of each row's documents, (batch, documents). −∞: missing.
        grades: Higher = more relevant. Below 0 counts as 0. A row whose grades are all 0 costs nothing.
        weighting_scheme: One of `WEIGHTINGS`.
        mu: μ of ndcg_loss2pp.
        k: Use only pairs with a document among the first k by the current scores, and the best DCG of k documents.
            None: all.

    Returns:
        The scalar loss.

    Raises:
        UserError: An unknown weighting scheme.

    Example:
        >>> lambda_loss(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([[2.0, 1.0, 0.0]]))
        tensor(1.7601)
    """
    require_choice("weighting_scheme", weighting_scheme, WEIGHTINGS)
    scores, has = _present_scores(document_scores)
    is_missing = ~has
    positions = torch.arange(1, 1 + scores.shape[1], device=scores.device, dtype=scores.dtype)
    placed = scores.detach().masked_fill(is_missing, -torch.inf)
    ranks = positions[placed.argsort(dim=1, descending=True, stable=True).argsort(dim=1)]
    grades = grades.to(scores.dtype).clamp(min=0)
    gains = (2.0**grades - 1).masked_fill(is_missing, 0)
    best = (gains.sort(dim=1, descending=True).values / torch.log2(1 + positions))[:, :k].sum(
        dim=1, keepdim=True
    )
    gains = gains / best.clamp(min=torch.finfo(scores.dtype).tiny)
    discounts = 1 / torch.log2(1 + ranks)
    counts = ~(is_missing[:, :, None] | is_missing[:, None, :])
    if weighting_scheme == "ndcg_loss1":
        counts = counts & ~torch.eye(scores.shape[1], dtype=torch.bool, device=scores.device)
        weights = (gains * discounts)[:, :, None].expand(counts.shape)
    else:
        counts = counts & (grades[:, :, None] > grades[:, None, :])
        weights = _weights_of_pairs(weighting_scheme, gains, ranks, discounts, mu=mu)
    if k is not None:
        counts = counts & ((ranks <= k)[:, :, None] | (ranks <= k)[:, None, :])
    costs = F.softplus(scores[:, None, :] - scores[:, :, None]) / math.log(2)
    return torch.where(counts, weights * costs, 0).sum(dim=(1, 2)).mean()


def _weights_of_pairs(
    weighting_scheme: str,
    gains: Float[Tensor, "batch documents"],
    ranks: Float[Tensor, "batch documents"],
    discounts: Float[Tensor, "batch documents"],
    *,
    mu: float,
) -> Float[Tensor, "batch documents documents"]:
    gain_gaps = (gains[:, :, None] - gains[:, None, :]).abs()
    if weighting_scheme == "none":
        return torch.ones_like(gain_gaps)
    apart = (ranks[:, :, None] - ranks[:, None, :]).abs().clamp(min=1)
    steps = 1 / torch.log2(1 + apart) - 1 / torch.log2(2 + apart)
    moves = (discounts[:, :, None] - discounts[:, None, :]).abs()
    weights = {"lambda_rank": moves, "ndcg_loss2": steps, "ndcg_loss2pp": moves + mu * steps}
    return weights[weighting_scheme] * gain_gaps


@accept_renamed(RENAMED_IN_LOSSES)
class LambdaLoss(ListLoss):
    """LambdaLoss: pairs of documents weighted by their effect on NDCG.

    See `lambda_loss`. Grade 1 for the positive and 0 for the negatives of a row, or with graded=True the grades that it
    is called with. Without graded=True they are not read. Defaults: those of the paper. Logs the rank of the positive.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | anchor, positive, negatives | – | triplet |

    Relations:
        `RankNet` at weighting_scheme="none", up to a factor of log 2.

    Args:
        temperature: Divides the scores, 1/σ of the paper.
        weighting_scheme: One of `WEIGHTINGS`.
        mu: μ of ndcg_loss2pp.
        k: Only pairs with a document among the first k count. None: all.
        graded: The set's scores of each document (its teacher scores) are grades, from 0.

    Raises:
        UserError: graded=True for a set without grades.

    Example:
        >>> LambdaLoss()(torch.tensor([[2.0, 1.0, -1.0]]))
        tensor(1.9616)
    """

    paper = "Wang et al. 2018, https://doi.org/10.1145/3269206.3271784"
    choose_when = "a cross-encoder that is judged by NDCG, on rows with many negatives"

    weighting_scheme: Annotated[str, Among(WEIGHTINGS)] = "ndcg_loss2pp"
    mu: Weight = 10.0
    k: Count | None = None
    graded: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.graded:
            self.contrast = Contrast.NONE

    def with_logs(self, document_scores: Tensor, teacher_scores: Tensor | None = None) -> LossOutput:
        grades = _first_document(document_scores).float()
        if self.graded:
            if teacher_scores is None:
                raise UserError(
                    "graded=true: the set has no grades of documents. Name their columns (positive_score, "
                    "negative_score, …), or type graded=false"
                )
            grades = teacher_scores
        numbers = {"weighting_scheme": self.weighting_scheme, "mu": self.mu, "k": self.k}
        return lambda_loss(self.tempered(document_scores), grades, **numbers), self.list_summary(
            document_scores
        )


class InfoNCEDrawn(ListLoss):
    """InfoNCE of a cross-encoder: the positive among the row's negatives and documents of other rows.

    loss = (1/N) Σ_i −log [exp(a(s_i0)/τ) / Σ_k exp(a(s_ik)/τ)], s_ik the cross-encoder's score of anchor i with
    document k, and a the activation. (Henderson et al. 2017, section 4.4, with a cross-encoder for the dot product)

    Documents are drawn again in each step, from all rows of the set, and never a known positive of the anchor.
    sentence-transformers' MultipleNegativesRankingLoss for cross-encoders draws them from the batch. Here a row draws
    the same documents for any batch, micro-batches and number of devices, so micro-batches replace its
    CachedMultipleNegativesRankingLoss. Defaults: those of sentence-transformers, four documents and a scale of 10 on
    sigmoids. Logs the rank of the positive.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | anchor, positive | – | positive_pair |
        | anchor, positive, negatives | – | triplet |

    Relations:
        `InfoNCE` for bi-encoders.

    Args:
        num_drawn: Documents drawn for each row.
        activation: "identity" or "sigmoid".
        temperature: Divides the activated scores.

    Example:
        >>> InfoNCEDrawn()(torch.tensor([[2.0, 1.0, -1.0]]))
        tensor(0.2037)
    """

    input_kinds = (Kind.POSITIVE_PAIR, Kind.TRIPLET)
    input_type = "drawn_lists"
    contrast = Contrast.NONE
    paper = "Henderson et al. 2017, https://arxiv.org/abs/1705.00652"
    choose_when = "a cross-encoder on positive pairs, which have no negatives of their own"

    num_drawn: Count = 4
    activation: Annotated[str, Among(ACTIVATIONS)] = "sigmoid"
    temperature: Temperature = 0.1

    def with_logs(self, document_scores: Tensor) -> LossOutput:
        scores = self.tempered(ACTIVATIONS[self.activation](full_precision(document_scores)))
        scores = scores.masked_fill(document_scores == -torch.inf, -torch.inf)
        loss = F.cross_entropy(scores, torch.zeros(len(scores), dtype=torch.long, device=scores.device))
        return loss, self.list_summary(document_scores)


@checks_arguments
def margin_mse(
    document_scores: Float[Tensor, "batch documents"], teacher_scores: Float[Tensor, "batch documents"]
) -> Float[Tensor, ""]:
    """Compute the mean of ((s_0 − s_k) − (t_0 − t_k))² over the negatives k of a row, and over rows.

    t are the teacher's scores. (Hofstätter et al. 2020, https://arxiv.org/abs/2010.02666, who have one negative in a
    row)

    Args:
        document_scores: Scores of each row's documents, (batch, documents), the positive first.
        teacher_scores: Scores of the teacher, (batch, documents).

    Returns:
        The scalar loss.

    Example:
        >>> margin_mse(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([[9.0, 8.0, 8.0]]))
        tensor(0.5000)
    """
    (ours, has), theirs = _present_scores(document_scores), full_precision(teacher_scores)
    errors = F.mse_loss(ours[:, :1] - ours[:, 1:], theirs[:, :1] - theirs[:, 1:], reduction="none")
    return mean_of_rows(errors, has[:, 1:])


class MarginMSE(ListLoss):
    """MarginMSE: differences of scores equal to a teacher's.

    See `margin_mse`. The temperature brings cosines to the size of a teacher's logits. Default: no scaling, as in the
    paper. Logs the root of the mean squared error of a margin, in units of the teacher, and the rank of the positive.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | anchor, positive, negatives | teacher scores | triplet |

    Relations:
        `ListKL` compares distributions.

    Args:
        temperature: Divides the scores.

    Example:
        >>> MarginMSE()(torch.tensor([[2.0, 1.0, -1.0]]), torch.tensor([[3.0, 1.0, 2.0]]))
        tensor(2.5000)
    """

    contrast = Contrast.NONE
    needs_teacher_scores = True
    paper = "Hofstätter et al. 2020, https://arxiv.org/abs/2010.02666"
    choose_when = "triplets with the scores of a cross-encoder, which a faster model should learn"

    def with_logs(self, document_scores: Tensor, teacher_scores: Tensor) -> LossOutput:
        loss = margin_mse(self.tempered(document_scores), teacher_scores)
        return loss, {"margin_error": loss.detach().sqrt()} | self.list_summary(document_scores)


@checks_arguments
def adr_mse(
    document_scores: Float[Tensor, "batch documents"], grades: Float[Tensor, "batch documents"]
) -> Float[Tensor, ""]:
    """Compute the mean of (r_k − r̂_k)² / log₂(1 + r_k): the squared error of a smooth rank, first ranks most.

    r_k is the rank by the grades g, the mean rank of equal ones: Σ_m [g_m > g_k] + (1 + Σ_m [g_m = g_k])/2.
    r̂_k = 1 + Σ_{m≠k} σ(s_m − s_k) by the scores s. (Schlatt et al. 2025, https://arxiv.org/abs/2405.07920.
    Mean ranks are those of sentence-transformers' ADRMSELoss, so that equal scores can reach them. Theirs is
    the mean over the documents of all rows, where a row of more documents counts for more.)

    Args:
        document_scores: Scores of each row's documents, (batch, documents). −∞: missing.
        grades: Relevance, higher = better, (batch, documents).

    Returns:
        The scalar loss.

    Example:
        >>> adr_mse(torch.tensor([[4.0, 0.0, -4.0]]), torch.tensor([[2.0, 1.0, 0.0]]))  # the right order
        tensor(0.0002)
    """
    scores, has = _present_scores(document_scores)
    others = has[:, None, :]
    other_grades, document = grades[:, None, :], grades[:, :, None]
    ranks = ((other_grades > document) & others).sum(dim=2) + (
        1 + ((other_grades == document) & others).sum(dim=2).to(scores.dtype)
    ) / 2
    above = (scores[:, None, :] - scores[:, :, None]).sigmoid().masked_fill(~others, 0)
    smooth = 0.5 + above.sum(dim=2)  # σ(0) of itself is 0.5
    return mean_of_rows((ranks - smooth).square() / torch.log2(1 + ranks), has)


class ADRMSE(ListLoss):
    """Approximate discounted rank MSE: smooth ranks equal to the ranks of the grades.

    See `adr_mse`. The grades are a teacher's scores where the set has them, else the positive is before all negatives.
    The temperature is 1/α of sentence-transformers. Default: no scaling, which suits logits. Logs the root of the mean
    squared error of a rank, less for later ranks, and the rank of the positive.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | anchor, positive, negatives | – | triplet |

    Relations:
        `RankNet` compares documents in pairs. `PositionListMLE` has position weights as well.

    Args:
        temperature: Divides the scores.

    Example:
        >>> ADRMSE()(torch.tensor([[2.0, 1.0, -1.0]]), torch.tensor([[3.0, 1.0, 2.0]]))
        tensor(0.3997)
    """

    paper = "Schlatt et al. 2025, https://arxiv.org/abs/2405.07920"
    choose_when = "a cross-encoder that should learn the order that a teacher gives long lists"

    def with_logs(self, document_scores: Tensor, teacher_scores: Tensor | None = None) -> LossOutput:
        grades = _first_document(document_scores).float() if teacher_scores is None else teacher_scores
        loss = adr_mse(self.tempered(document_scores), grades)
        return loss, {"rank_error": loss.detach().sqrt()} | self.list_summary(document_scores)
