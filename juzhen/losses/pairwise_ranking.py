"""Losses of order: of two rows, the higher target should get the higher score."""

import math
from abc import abstractmethod
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from juzhen.core.batch import constants
from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.core.schema import Among
from juzhen.losses.arguments import Count, Shares, Temperature, Weight, Weights, checks_arguments
from juzhen.losses.loss import Contrast, Loss, LossOutput
from juzhen.losses.scores import full_precision, order_gap


class OrderLoss(Loss):
    """Base of losses that rank pairs by their scores.

    A job passes NLI classes as the targets 1, 0.5 and 0. Logs the mean score of rows whose target is above the batch's
    mean target, of the other rows, and the gap.

    Example:
        >>> class Regret(OrderLoss):
        ...     def with_logs(self, scores, targets):
        ...         return margin_ranking(scores, targets, margin=0.0), {}
        >>> Regret()(torch.tensor([0.5, 0.75]), torch.tensor([1.0, 0.0]))
        tensor(0.2500)
    """

    input_kinds = (Kind.SCORED_PAIR, Kind.LABELLED_PAIR, Kind.NLI_PAIR)
    input_type = "scores"
    is_batchwise = True
    is_ranking = True
    contrast = Contrast.ORDER


@checks_arguments
def cosent(
    scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"], *, temperature: float = 0.05
) -> Float[Tensor, ""]:
    """Compute the CoSENT loss: a penalty for every ordered pair of rows whose scores disagree with their targets.

    loss = log(1 + Σ_{y_i > y_j} exp((s_j − s_i) / τ)), the sum over all pairs of rows with strictly different targets.
    Without such a pair it is 0 with zero gradient. (Su 2022, https://kexue.fm/archives/8847, whose λ = 20 is τ = 0.05
    here.)

    The sum over pairs is never written out. With rows sorted by target it is Σ_i exp(−s_i/τ) · Σ_{j < start(i)}
    exp(s_j/τ), where start(i) is the first row that ties with i: O(N log N) time, O(N) memory, the same value.

    Args:
        scores: Similarity of each pair, (batch,). Higher = closer.
        targets: Gold value of each pair, (batch,). Only their order counts.
        temperature: Divides the scores: 0.05 for cosines, 1 for logits.

    Returns:
        The scalar loss, float32 or wider.

    Example:
        >>> cosent(torch.tensor([0.9, 0.2, 0.5]), torch.tensor([5.0, 0.0, 2.0]))
        tensor(0.0028)
        >>> cosent(torch.tensor([0.2, 0.9, 0.5]), torch.tensor([5.0, 0.0, 2.0]))  # the wrong order
        tensor(14.0028)
    """
    scores = full_precision(scores) / temperature
    targets, order = targets.sort()
    scores = scores[order]
    lower = torch.logcumsumexp(scores, dim=0)
    # Ties are no pairs: look up the running sum before the first row of the same target, not before row i.
    start = torch.searchsorted(targets, targets)
    terms = lower[(start - 1).clamp(min=0)] - scores
    # exp(−inf) = 0 drops the rows of the lowest target. The leading 0 is the 1 inside the logarithm; it also
    # keeps value and gradient finite when nothing else is left.
    terms = terms.masked_fill(start == 0, -torch.inf)
    return torch.cat([terms.new_zeros(1), terms]).logsumexp(dim=0)


class CoSENT(OrderLoss):
    """CoSENT: pairs with higher targets must score higher.

    loss = log(1 + Σ_{y_i > y_j} exp((s_j − s_i) / τ)), see `cosent`. Default temperature: the scale of 20 of Su and of
    sentence-transformers' CoSENTLoss. 1 is customary for logits.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | two texts | grade | scored_pair |
        | two texts | 0 or 1 | labelled_pair |
        | premise, hypothesis | class | nli_pair |

    Relations:
        `CoSENTWeighted` weights pairs by the difference of their targets. `CoSENTAdaptive` sets the temperature from
        the spread of the scores. `AnglE` applies CoSENT to another score. `MarginRanking` stops at a margin.

    Args:
        temperature: Divides the scores.

    Example:
        >>> scores, grades = torch.tensor([0.9, 0.2, 0.5]), torch.tensor([1.0, 0.0, 0.4])
        >>> CoSENT()(scores, grades)
        tensor(0.0028)
        >>> loss, logs = CoSENT().with_logs(scores, grades)
        >>> sorted(logs)
        ['negative_score', 'positive_score', 'score_gap']
    """

    paper = "Su 2022, https://kexue.fm/archives/8847"
    choose_when = "the first to try on graded, 0/1 and NLI pairs when they are judged by rank correlation"

    temperature: Temperature = 0.05

    def with_logs(self, scores: Tensor, targets: Tensor) -> LossOutput:
        return cosent(scores, targets, temperature=self.temperature), order_gap(scores, targets)


UNITS = ("score", "spread", "spread_with_gradient")
SMALLEST_SPREAD = 1e-3
"""Scores that lie closer together are treated as if they had this spread: the temperature stays above 0."""


def spread(scores: Float[Tensor, "batch"]) -> Float[Tensor, ""]:
    """Compute the standard deviation of the scores of a batch (divided by N, not N − 1).

    It is at least SMALLEST_SPREAD.

    Args:
        scores: Scores, (batch,).

    Returns:
        The scalar spread.

    Example:
        >>> spread(torch.tensor([0.2, 0.8]))
        tensor(0.3000)
    """
    # The bound is set on the variance: the root has no derivative at 0.
    return full_precision(scores).var(correction=0).clamp(min=SMALLEST_SPREAD**2).sqrt()


def temperature_of(scores: Float[Tensor, "batch"], *, temperature: float, unit: str) -> Float[Tensor, ""]:
    """Return the divisor of the scores: `temperature` in the configured unit.

    Args:
        scores: Scores, (batch,).
        temperature: The configured number.
        unit: "score": the number itself, in units of the score. "spread": times the spread of the batch, τ =
            temperature · σ, with σ as a constant. A scale λ = α/σ with α from 10 to 30 is a temperature from 0.1 to
            0.03. Measured: all cosines collapse into one within 40 steps, because drawing scores together lowers the
            cost of wrongly ordered pairs, and the temperature follows. "spread_with_gradient": the same value,
            differentiated through σ. The loss is then a function of standardised scores. Stretching or shifting all of
            them changes nothing and gets no gradient.

    Returns:
        The scalar divisor.

    Example:
        >>> temperature_of(torch.tensor([0.2, 0.8]), temperature=0.1, unit="spread")
        tensor(0.0300)
    """
    if unit == "score":
        return full_precision(scores).new_full((), temperature)
    scale = spread(scores)
    return temperature * (scale if unit == "spread_with_gradient" else scale.detach())


class ScoreOrder(OrderLoss):
    """Base of ranking losses whose temperature may follow the spread of the scores.

    A subclass implements `cost`. Logs the temperature in units of the score as well.

    Args:
        temperature: Divides the scores.
        temperature_unit: "score", "spread" or "spread_with_gradient", see `temperature_of`.

    Example:
        >>> class Regret(ScoreOrder):
        ...     def cost(self, scores, targets):
        ...         return margin_ranking(scores, targets, margin=0.0)
        >>> Regret(temperature=0.5)(torch.tensor([0.5, 0.75]), torch.tensor([1.0, 0.0]))
        tensor(0.5000)
    """

    temperature: Temperature = 0.05
    temperature_unit: Annotated[str, Among(UNITS)] = "score"

    @abstractmethod
    def cost(self, scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> Float[Tensor, ""]:
        """The scalar for scores that are divided by the temperature already.

        Args:
            scores: Scores divided by the temperature.
            targets: Gold value of each row, higher = closer.

        Returns:
            The loss.
        """

    def with_logs(self, scores: Tensor, targets: Tensor) -> LossOutput:
        temperature = temperature_of(scores, temperature=self.temperature, unit=self.temperature_unit)
        loss = self.cost(full_precision(scores) / temperature, targets)
        return loss, {"temperature": temperature.detach()} | order_gap(scores, targets)


class CoSENTAdaptive(ScoreOrder):
    """CoSENT with a temperature in units of the spread of the scores.

    `cosent` of scores divided by temperature · σ, where σ is their standard deviation in the batch. A fixed
    temperature means one thing for an encoder whose cosines fill [0, 1], and another for a fresh one that packs them
    into [0.8, 0.9], or for logits. In units of the spread it means the same. As a constant, σ would let all cosines
    collapse into one (`temperature_of`). Defaults: a scale of 20 per spread, differentiated.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | two texts | grade | scored_pair |
        | two texts | 0 or 1 | labelled_pair |
        | premise, hypothesis | class | nli_pair |

    Relations:
        `CoSENT` with temperature_unit="score".

    Args:
        temperature: Divides the scores, in the unit of `temperature_unit`.
        temperature_unit: "score", "spread" or "spread_with_gradient".

    Example:
        >>> scores, grades = torch.tensor([0.88, 0.84, 0.91]), torch.tensor([1.0, 0.0, 0.4])
        >>> CoSENTAdaptive()(scores, grades)
        tensor(20.9246)
        >>> CoSENTAdaptive()(10 * scores, grades)  # the scale of the scores does not matter
        tensor(20.9246)
    """

    choose_when = "as cosent, when cosines begin in a narrow range or scores are logits"

    temperature_unit: Annotated[str, Among(UNITS)] = "spread_with_gradient"

    def cost(self, scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> Float[Tensor, ""]:
        return cosent(scores, targets, temperature=1.0)


NO_STEP = -1e30
"""Logarithm that counts as that of 0. With −inf, the gradient of a running sum that begins with it is NaN."""


@checks_arguments
def cosent_weighted(
    scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"], *, temperature: float = 0.05
) -> Float[Tensor, ""]:
    """Compute CoSENT with each ordered pair of rows weighted by the difference of its targets.

    loss = log(1 + Σ_{y_i > y_j} (y_i − y_j) exp((s_j − s_i) / τ)). It is 0 with zero gradient when all targets are
    equal. For 0/1 labels it is `cosent`.

    The sum over pairs is never written out: O(N log N) time, O(N) memory. Let t_1 < t_2 < … be the distinct targets. A
    difference of targets is the sum of the steps between them, y_i − y_j = Σ_k (t_{k+1} − t_k) over y_j ≤ t_k < y_i,
    so

        sum = Σ_i exp(−s_i/τ) · Σ_{k: t_k < y_i} (t_{k+1} − t_k) · Σ_{j: y_j ≤ t_k} exp(s_j/τ).

    Every term is positive, so both inner sums are running sums of logarithms. (y_i Σ_j − Σ_j y_j … is equal, but its
    subtraction cancels close targets out.)

    Args:
        scores: Similarity of each pair, (batch,).
        targets: Gold value of each pair, (batch,). Their differences are the weights.
        temperature: Divides the scores.

    Returns:
        The scalar loss.

    Example:
        >>> cosent_weighted(torch.tensor([0.9, 0.2, 0.5]), torch.tensor([5.0, 0.0, 2.0]))
        tensor(0.0060)
    """
    scores = full_precision(scores) / temperature
    targets, order = full_precision(targets).sort()
    scores = scores[order]
    # Everything has the size of the batch: the number of distinct targets would have to be fetched from a GPU.
    steps = targets.diff(append=targets[-1:])
    log_steps = torch.where(steps > 0, steps.log(), NO_STEP)
    below = torch.logcumsumexp(log_steps + torch.logcumsumexp(scores, dim=0), dim=0)
    start = torch.searchsorted(targets, targets)
    terms = below[(start - 1).clamp(min=0)] - scores
    terms = terms.masked_fill(start == 0, -torch.inf)
    return torch.cat([terms.new_zeros(1), terms]).logsumexp(dim=0)


class CoSENTWeighted(ScoreOrder):
    """CoSENT that penalises large mistakes more: a 5 scored below a 0 costs more than a 5 below a 4.

    loss = log(1 + Σ_{y_i > y_j} (y_i − y_j) exp((s_j − s_i) / τ)), see `cosent_weighted`. Default: CoSENT's scale of
    20.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | two texts | grade | scored_pair |
        | two texts | 0 or 1 | labelled_pair |
        | premise, hypothesis | class | nli_pair |

    Relations:
        Equal to `CoSENT` for 0/1 labels.

    Args:
        temperature: Divides the scores, in the unit of `temperature_unit`.
        temperature_unit: "score", "spread" or "spread_with_gradient".

    Example:
        >>> scores, grades = torch.tensor([0.9, 0.2, 0.5]), torch.tensor([1.0, 0.0, 0.4])
        >>> CoSENTWeighted()(scores, grades)
        tensor(0.0012)
    """

    choose_when = "graded pairs, when large mistakes in the order should cost more than small ones"

    def cost(self, scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> Float[Tensor, ""]:
        return cosent_weighted(scores, targets, temperature=1.0)


@checks_arguments
def cosent_sampled(
    scores: Float[Tensor, "batch"],
    targets: Float[Tensor, "batch"],
    draws: Float[Tensor, "batch comparisons"],
    *,
    temperature: float = 0.05,
) -> Float[Tensor, ""]:
    """Compute CoSENT with its sum over pairs estimated from k comparisons per row.

    loss = log(1 + Σ_i (n_i/k) Σ_{c ≤ k} exp((s_{j(i,c)} − s_i) / τ)), where n_i rows have a lower target than row i
    and j(i, c) is one of them, drawn uniformly with replacement. The weight n_i/k makes the sum an unbiased estimate
    of CoSENT's. The loss, a concave function of it, is too small on average. Drawing from all pairs at once, or
    leaving the weight out, would favour rows of high target.

    Args:
        scores: Similarity of each pair, (batch,).
        targets: Gold value of each pair, (batch,).
        draws: Uniform numbers of [0, 1), (batch, comparisons). They belong to the rows sorted by target and score, so
            the order of the batch does not matter.
        temperature: Divides the scores.

    Returns:
        The scalar loss.

    Example:
        >>> cosent_sampled(torch.tensor([0.9, 0.9]), torch.tensor([1.0, 0.0]), torch.rand(2, 8))
        tensor(0.6931)
    """
    scores = full_precision(scores) / temperature
    by_score = scores.detach().argsort()
    order = by_score[targets[by_score].argsort(stable=True)]
    scores, targets = scores[order], targets[order]
    num_lower = torch.searchsorted(targets, targets)
    # A draw just below 1 may be rounded up by the product.
    partners = (draws * num_lower[:, None]).long().clamp(max=(num_lower - 1).clamp(min=0)[:, None])
    weights = num_lower.to(scores.dtype).log() - math.log(draws.shape[1])
    terms = scores[partners] - scores[:, None] + weights[:, None]
    terms = terms.masked_fill(num_lower[:, None] == 0, -torch.inf)
    return torch.cat([terms.new_zeros(1), terms.flatten()]).logsumexp(dim=0)


class CoSENTSampled(ScoreOrder):
    """CoSENT with a sampled sum over pairs, for comparisons with other implementations.

    The exact sum of `cosent` is sorted and not written out, and costs less than sampling. torch's generator draws, so
    the seed of a run decides. Defaults: CoSENT's scale of 20, ten comparisons.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | two texts | grade | scored_pair |
        | two texts | 0 or 1 | labelled_pair |
        | premise, hypothesis | class | nli_pair |

    Relations:
        An estimate of `CoSENT`.

    Args:
        num_comparisons: Rows of lower target that each row is compared with.
        temperature: Divides the scores, in the unit of `temperature_unit`.
        temperature_unit: "score", "spread" or "spread_with_gradient".

    Example:
        >>> CoSENTSampled(num_comparisons=100)(torch.tensor([0.9, 0.9]), torch.tensor([1.0, 0.0]))
        tensor(0.6931)
    """

    choose_when = "comparisons with implementations that sample pairs; otherwise cosent is exact and faster"

    num_comparisons: Count = 10

    def cost(self, scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> Float[Tensor, ""]:
        draws = torch.rand(len(scores), self.num_comparisons, device=scores.device)
        return cosent_sampled(scores, targets, draws, temperature=1.0)


@checks_arguments
def cosent_extremes(
    scores: Float[Tensor, "batch"],
    targets: Float[Tensor, "batch"],
    *,
    num_extremes: int = 8,
    temperature: float = 0.05,
) -> Float[Tensor, ""]:
    """Compute CoSENT over the k rows of highest target and the k rows of lowest target.

    loss = log(1 + Σ_{i in T, j in B, y_i > y_j} exp((s_j − s_i) / τ)), T the top and B the bottom k. Among rows with
    equal targets the hardest come first: in T those of lowest score, in B those of highest. There are k² comparisons.
    With k = N they are all of CoSENT's. The loss is 0 with zero gradient when all targets are equal.

    Args:
        scores: Similarity of each pair, (batch,).
        targets: Gold value of each pair, (batch,).
        num_extremes: Rows at either end, k.
        temperature: Divides the scores.

    Returns:
        The scalar loss.

    Example:
        >>> cosent_extremes(torch.tensor([0.9, 0.8, 0.5]), torch.tensor([1.0, 0.0, 0.4]), num_extremes=1)
        tensor(0.1269)
    """
    scores = full_precision(scores) / temperature
    detached = scores.detach()
    hard_first = detached.argsort(), detached.argsort(descending=True)
    top = hard_first[0][targets[hard_first[0]].argsort(descending=True, stable=True)][:num_extremes]
    bottom = hard_first[1][targets[hard_first[1]].argsort(stable=True)][:num_extremes]
    terms = scores[bottom] - scores[top][:, None]
    terms = terms.masked_fill(targets[top][:, None] <= targets[bottom], -torch.inf)
    return torch.cat([terms.new_zeros(1), terms.flatten()]).logsumexp(dim=0)


class CoSENTExtremes(ScoreOrder):
    """CoSENT over the pairs of highest and lowest target.

    See `cosent_extremes`. Defaults: CoSENT's scale of 20, eight rows at either end.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | two texts | grade | scored_pair |
        | two texts | 0 or 1 | labelled_pair |
        | premise, hypothesis | class | nli_pair |

    Relations:
        Equal to `CoSENT` when num_extremes is the batch size.

    Args:
        num_extremes: Rows at either end that are compared.
        temperature: Divides the scores, in the unit of `temperature_unit`.
        temperature_unit: "score", "spread" or "spread_with_gradient".

    Example:
        >>> scores, grades = torch.tensor([0.9, 0.8, 0.5]), torch.tensor([1.0, 0.0, 0.4])
        >>> CoSENTExtremes(num_extremes=1)(scores, grades)
        tensor(0.1269)
    """

    choose_when = "graded pairs whose grades in the middle are not to be trusted"

    num_extremes: Count = 8

    def cost(self, scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> Float[Tensor, ""]:
        return cosent_extremes(scores, targets, num_extremes=self.num_extremes, temperature=1.0)


@checks_arguments
def cosent_of_layers(
    layer_scores: Float[Tensor, "batch layers"], targets: Float[Tensor, "batch"], *, temperature: float = 0.05
) -> Float[Tensor, "layers"]:
    """Compute `cosent` of the scores at each layer, (layers,).

    Args:
        layer_scores: Score of each pair at each layer.
        targets: Gold value of each pair.
        temperature: As in `cosent`.

    Returns:
        The loss at each layer.

    Example:
        >>> cosent_of_layers(torch.tensor([[0.5, 0.6], [0.6, 0.5]]), torch.tensor([1.0, 0.0]))
        tensor([2.1269, 0.1269])
    """
    layers = layer_scores.unbind(dim=1)
    return torch.stack([cosent(scores, targets, temperature=temperature) for scores in layers])


class CoSENTLayers(OrderLoss):
    """CoSENT at several layers of the backbone: Σ_l β_l CoSENT(s^(l)).

    s^(l) are the cosines of states pooled at layer l, and β_l is the weight of the layer. The notes on CoSENT name
    words, sentences and paragraphs as levels. Each level needs pairs with a known order at that level, and labels
    order whole texts only. So the levels here are layers, where the label is true of the compared states. Evaluation
    uses the last layer. Defaults: CoSENT's scale of 20, and half the weight for the middle layer.

    Logs the loss at each layer, and the gap of the last one.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | two texts | grade | scored_pair |
        | two texts | 0 or 1 | labelled_pair |
        | premise, hypothesis | class | nli_pair |

    Relations:
        `CoSENT` with depths=[1.0]. `NestedLayers` also aligns lower layers with the last one.

    Args:
        temperature: Divides the cosines.
        depths: Layers as shares of the backbone's, in (0, 1], lowest first. 0.5 of 12 layers is layer 6.
        weights: One weight per depth.

    Raises:
        UserError: Depths that do not rise, or weights that do not match them.

    Example:
        >>> cosines = torch.tensor([[0.5, 0.9], [0.6, 0.2]])  # (batch, layers)
        >>> CoSENTLayers()(cosines, torch.tensor([1.0, 0.0]))
        tensor(1.0635)
    """

    input_type = "layers"
    choose_when = "as cosent, when lower layers should give usable embeddings too"

    temperature: Temperature = 0.05
    depths: Shares = (0.5, 1.0)
    weights: Weights = (0.5, 1.0)

    def __post_init__(self) -> None:
        given = self.depths, self.weights
        super().__post_init__()
        depths, weights = map(list, given)
        if not depths or list(self.depths) != sorted(set(self.depths)):
            raise UserError(f"depths={depths}: expected shares of the layers in rising order, as in [0.5, 1]")
        if len(weights) != len(depths) or not sum(self.weights):
            raise UserError(
                f"weights={weights}: expected {len(depths)} numbers, one for each of depths={depths}, and "
                "one of them above 0"
            )

    def with_logs(self, layer_scores: Tensor, targets: Tensor) -> LossOutput:
        parts = cosent_of_layers(layer_scores, targets, temperature=self.temperature)
        logs = {f"cosent_at_{depth:g}": part for depth, part in zip(self.depths, parts.detach(), strict=True)}
        logs |= order_gap(layer_scores[:, -1], targets)
        return (parts * constants(self.weights, like=parts)).sum(), logs


@checks_arguments
def margin_ranking(
    scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"], *, margin: float = 0.2
) -> Float[Tensor, ""]:
    """Compute the mean violation of a margin over all pairs of rows with different targets.

    loss = mean of max(0, m − (s_i − s_j)) over y_i > y_j, and 0 without such a pair. (Herbrich et al. 2000, the
    hinge of ranking SVMs. Burges et al. 2005, https://doi.org/10.1145/1102351.1102363, take the logistic loss instead)

    The violating pairs depend on two orders at once. Unlike CoSENT's sum this one is therefore written out: N²
    numbers, 4 MB for a batch of 1,000 rows.

    Args:
        scores: Similarity of each pair, (batch,).
        targets: Gold value of each pair, (batch,).
        margin: Required difference of the scores.

    Returns:
        The scalar loss.

    Example:
        >>> margin_ranking(torch.tensor([0.9, 0.8, 0.2]), torch.tensor([1.0, 0.5, 0.0]))
        tensor(0.0333)
    """
    scores = full_precision(scores)
    is_pair = targets[:, None] > targets
    violations = (margin - scores[:, None] + scores).relu()
    return torch.where(is_pair, violations, 0).sum() / is_pair.sum().clamp(min=1)


class MarginRanking(OrderLoss):
    """Margin ranking: pairs in the right order by a margin cost nothing.

    loss = mean of max(0, m − (s_i − s_j)) over y_i > y_j, see `margin_ranking`. Default margin: 0.2 in units of the
    cosine. torch.nn.MarginRankingLoss has 0, which equal scores satisfy.

    Inputs:
        | texts | label | row kind |
        |---|---|---|
        | two texts | grade | scored_pair |
        | two texts | 0 or 1 | labelled_pair |
        | premise, hypothesis | class | nli_pair |

    Relations:
        `CoSENT` never stops at a margin, and costs O(N log N).

    Args:
        margin: Required difference of the scores.

    Example:
        >>> MarginRanking(margin=0.2)(torch.tensor([0.9, 0.8, 0.2]), torch.tensor([1.0, 0.5, 0.0]))
        tensor(0.0333)
    """

    is_ranking = False
    paper = "Herbrich et al. 2000"
    choose_when = "graded pairs, when pairs in the right order by a margin should cost nothing"

    margin: Weight = 0.2

    def with_logs(self, scores: Tensor, targets: Tensor) -> LossOutput:
        return margin_ranking(scores, targets, margin=self.margin), order_gap(scores, targets)
