"""Losses of order: of two rows, the one with the higher target shall get the higher score."""

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
    """A loss of the order of the model's scores. A job hands over NLI classes as the targets 1, 0.5 and 0.

    Logs the mean score of the rows whose target is above the batch's mean target, of the others, and the gap.
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
    """Penalty for every ordered pair of rows whose scores disagree with their targets.

    loss = log(1 + Σ_{y_i > y_j} exp((s_j − s_i) / τ)), the sum over all pairs of rows with strictly different targets;
    0 with zero gradient when there is no such pair. (Su 2022, https://kexue.fm/archives/8847; the λ = 20 there is τ =
    0.05 here.)

    The sum over pairs is never written out. With rows sorted by target it is Σ_i exp(−s_i/τ) · Σ_{j < start(i)}
    exp(s_j/τ), where start(i) is the first row that ties with i: O(N log N) time, O(N) memory, the same value.
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
    """`cosent` of the model's scores.

    Default: the scale of 20 of Su, and of sentence-transformers' CoSENTLoss. Customary for logits is 1.
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
    """Standard deviation of the scores of the batch (divided by N, not N − 1), at least SMALLEST_SPREAD."""
    # The bound is set on the variance: the root has no derivative at 0.
    return full_precision(scores).var(correction=0).clamp(min=SMALLEST_SPREAD**2).sqrt()


def temperature_of(scores: Float[Tensor, "batch"], *, temperature: float, unit: str) -> Float[Tensor, ""]:
    """What the scores are divided by: `temperature`, in the unit that the configuration says.

    score                 as it stands, in units of the score
    spread                times the spread of the batch: τ = temperature · σ. A scale λ = α/σ, α from 10 to 30, is
                          a temperature from 0.1 to 0.03 here. σ counts as a constant. Measured: all cosines
                          collapse into one within 40 steps, since drawing scores together lowers the cost of pairs in
                          the wrong order, and the temperature follows.
    spread_with_gradient  the same value, differentiated through σ. The loss is then a function of standardised
                          scores: stretching or shifting all of them changes nothing and gets no gradient.
    """
    if unit == "score":
        return full_precision(scores).new_full((), temperature)
    scale = spread(scores)
    return temperature * (scale if unit == "spread_with_gradient" else scale.detach())


class ScoreOrder(OrderLoss):
    """A loss of order whose temperature may follow the spread of the scores; what it adds up over pairs is `cost`.

    temperature, temperature_unit  see `temperature_of`

    Logs the temperature in units of the score, too.
    """

    temperature: Temperature = 0.05
    temperature_unit: Annotated[str, Among(UNITS)] = "score"

    @abstractmethod
    def cost(self, scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> Float[Tensor, ""]:
        """The scalar for scores that are divided by the temperature already."""

    def with_logs(self, scores: Tensor, targets: Tensor) -> LossOutput:
        temperature = temperature_of(scores, temperature=self.temperature, unit=self.temperature_unit)
        loss = self.cost(full_precision(scores) / temperature, targets)
        return loss, {"temperature": temperature.detach()} | order_gap(scores, targets)


class CoSENTAdaptive(ScoreOrder):
    """`cosent` of scores divided by temperature · σ, σ their standard deviation in the batch.

    A fixed temperature means one thing for an encoder whose cosines fill [0, 1] and another for a fresh one that packs
    them into [0.8, 0.9], or for logits; in units of the spread it means the same. `temperature_of` says what becomes
    of the gradient of σ: as a constant it lets all cosines collapse into one, since a smaller spread makes the
    temperature smaller and never the order better.

    Defaults: a scale of 20 per spread, differentiated.
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
    """Penalty for every ordered pair of rows, times the difference of their targets.

    loss = log(1 + Σ_{y_i > y_j} (y_i − y_j) exp((s_j − s_i) / τ)); 0 with zero gradient when all targets are equal.
    For 0/1 labels it is `cosent`.

    The sum over pairs is never written out: O(N log N) time, O(N) memory. Let t_1 < t_2 < … be the distinct targets. A
    difference of targets is the sum of the steps between them, y_i − y_j = Σ_k (t_{k+1} − t_k) over y_j ≤ t_k < y_i,
    so

        sum = Σ_i exp(−s_i/τ) · Σ_{k: t_k < y_i} (t_{k+1} − t_k) · Σ_{j: y_j ≤ t_k} exp(s_j/τ).

    Every term is positive, so both inner sums are running sums of logarithms. (y_i Σ_j − Σ_j y_j … says the same with
    a subtraction, in which close targets cancel out.)
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
    """`cosent_weighted` of the model's scores: a 5 below a 0 costs more than a 5 below a 4.

    Defaults: CoSENT's scale of 20.
    """

    choose_when = "graded pairs, when large mistakes in the order shall cost more than small ones"

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
    """CoSENT whose sum over pairs is estimated from k comparisons for each row.

    loss = log(1 + Σ_i (n_i/k) Σ_{c ≤ k} exp((s_{j(i,c)} − s_i) / τ)), where n_i rows have a lower target than row i
    and j(i, c) is one of them, drawn uniformly with replacement. The weight n_i/k makes the sum an unbiased estimate
    of CoSENT's; the loss, a concave function of it, is too small on average. Drawing from all pairs at once or leaving
    the weight out would favour rows of high target.

    draws  uniform numbers of [0, 1). They belong to the rows in order of target and score, not of the batch, so
           that the order of a batch means nothing.
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
    """`cosent_sampled` of the model's scores; torch's generator draws, so the seed of a run decides.

    num_comparisons  rows of lower target that each row is compared with

    There to compare with: the exact sum of `cosent` is sorted, not written out, and costs less than drawing.

    Defaults: CoSENT's scale of 20, ten comparisons.
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
    """CoSENT over comparisons of the k rows of highest target with the k rows of lowest target.

    loss = log(1 + Σ_{i in T, j in B, y_i > y_j} exp((s_j − s_i) / τ)), T the top and B the bottom k. Of rows with
    equal targets the hardest come first: in T those of lowest score, in B those of highest. k² comparisons; with k = N
    all of CoSENT's. 0 with zero gradient when all targets are equal.
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
    """`cosent_extremes` of the model's scores.

    num_extremes  rows at either end that are compared

    Defaults: CoSENT's scale of 20, eight rows at either end.
    """

    choose_when = "graded pairs whose grades in the middle are not to be trusted"

    num_extremes: Count = 8

    def cost(self, scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"]) -> Float[Tensor, ""]:
        return cosent_extremes(scores, targets, num_extremes=self.num_extremes, temperature=1.0)


@checks_arguments
def cosent_of_layers(
    layer_scores: Float[Tensor, "batch layers"], targets: Float[Tensor, "batch"], *, temperature: float = 0.05
) -> Float[Tensor, "layers"]:
    """`cosent` of the scores at each layer."""
    layers = layer_scores.unbind(dim=1)
    return torch.stack([cosent(scores, targets, temperature=temperature) for scores in layers])


class CoSENTLayers(OrderLoss):
    """Σ_l β_l CoSENT(s^(l)), s^(l) the cosines of states that are pooled at layer l, β_l its weight.

    The notes on CoSENT name words, sentences and paragraphs as levels. Each level needs pairs whose order is known at
    that level, and no set here has any: labels order whole texts, and a row holds no text around its sentence. The
    label of a sentence put on its words would say of every two words of like sentences that they are alike. So the
    levels are layers of the transformer, where the label is true of what is compared: all states of the two sentences,
    pooled. Evaluation reads the last layer, as always.

    depths   which layers, as shares of the backbone's, in (0, 1], the lowest first: 0.5 of 12 layers is layer 6
    weights  one for each of them

    Defaults: CoSENT's scale of 20, and half the weight for the layer in the middle.

    Logs the loss at each layer, and the gap of the last one.
    """

    input_type = "layers"
    choose_when = "as cosent, when lower layers shall give usable embeddings too"

    temperature: Temperature = 0.05
    depths: Shares = (0.5, 1.0)
    weights: Weights = (0.5, 1.0)

    def __post_init__(self) -> None:
        depths, weights = list(self.depths), list(self.weights)
        super().__post_init__()
        if not depths or list(self.depths) != sorted(set(self.depths)):
            raise UserError(f"depths={depths}: expected shares of the layers in rising order, as in [0.5, 1]")
        if len(weights) != len(depths) or not sum(self.weights):
            raise UserError(
                f"weights={weights}: expected {len(depths)} numbers, one for each of depths={depths}, and "
                "one of them above 0"
            )

    def with_logs(self, layer_scores: Tensor, targets: Tensor) -> LossOutput:
        if layer_scores.shape[1] != len(self.weights):
            raise UserError(
                f"layer_scores of {layer_scores.shape[1]} layers: expected {len(self.weights)}, as there are weights; "
                "give CoSENTLayers depths and weights for each"
            )
        parts = cosent_of_layers(layer_scores, targets, temperature=self.temperature)
        logs = {f"cosent_at_{depth:g}": part for depth, part in zip(self.depths, parts.detach(), strict=True)}
        logs |= order_gap(layer_scores[:, -1], targets)
        return (parts * constants(self.weights, like=parts)).sum(), logs


@checks_arguments
def margin_ranking(
    scores: Float[Tensor, "batch"], targets: Float[Tensor, "batch"], *, margin: float = 0.2
) -> Float[Tensor, ""]:
    """Violation of the margin, averaged over all pairs of rows whose targets differ; 0 when there is none.

    loss = mean of max(0, m − (s_i − s_j)) over y_i > y_j. (Herbrich et al. 2000, the hinge of ranking SVMs; Burges et
    al. 2005, https://doi.org/10.1145/1102351.1102363, take the logistic loss instead)

    Which pairs violate depends on two orders at once, so unlike CoSENT's sum this one is written out: N² numbers, 4 MB
    for a batch of 1,000 rows.
    """
    scores = full_precision(scores)
    is_pair = targets[:, None] > targets
    violations = (margin - scores[:, None] + scores).relu()
    return torch.where(is_pair, violations, 0).sum() / is_pair.sum().clamp(min=1)


class MarginRanking(OrderLoss):
    """`margin_ranking` of the model's scores.

    Default: a fifth of a unit of the cosine; torch.nn.MarginRankingLoss has 0, which equal scores satisfy.
    """

    is_ranking = False
    paper = "Herbrich et al. 2000"
    choose_when = "graded pairs, when pairs in the right order by a margin shall cost nothing"

    margin: Weight = 0.2

    def with_logs(self, scores: Tensor, targets: Tensor) -> LossOutput:
        return margin_ranking(scores, targets, margin=self.margin), order_gap(scores, targets)
