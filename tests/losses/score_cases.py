"""Cases of the losses that read one number per row: variants of CoSENT, and what trains a cross-encoder."""

import loop_oracles as oracle
import torch
from loss_cases import Case, Rows, case
from torch import Tensor

from juzhen import losses
from juzhen.core.examples import NLI_GRADES, Kind
from juzhen.losses.pairwise_ranking import SMALLEST_SPREAD, UNITS
from juzhen.losses.regression import Regression

CIRCLES = [
    {"margin": 0.25},  # as published
    {"margin": 0.25, "positive_goal": 0.6, "temperature": 0.2},
    {"margin": None, "positive_goal": 0.6, "negative_goal": 0.1, "temperature": 0.2},
    {"margin": 0.25, "weighted": False, "temperature": 0.2},
    {"margin": None, "positive_goal": 0.2, "negative_goal": -0.1, "weighted": False, "temperature": 0.2},
]
PREDICTIONS = [("identity", [-1, 1]), ("identity", [0, 1]), ("sigmoid", [0, 1])]
GRADED = (Kind.SCORED_PAIR, Kind.LABELLED_PAIR, Kind.NLI_PAIR)


def grades(rows: Rows) -> Tensor | list[float]:
    if rows.kind is Kind.NLI_PAIR:
        return [NLI_GRADES[int(label)] for label in rows.targets]
    return rows.targets


def temperature(loss, rows: Rows) -> Tensor | float:
    if loss.temperature_unit == "score":
        return loss.temperature
    spread = oracle.deviation(rows.scores) if len(set(rows.scores.tolist())) > 1 else SMALLEST_SPREAD
    if loss.temperature_unit == "spread" and isinstance(spread, Tensor):
        spread = spread.detach()
    return loss.temperature * spread


def expected_sampled(loss: losses.CoSENTSampled, rows: Rows) -> Tensor:
    torch.manual_seed(5)
    draws = torch.rand(len(rows.scores), loss.num_comparisons).tolist()
    return oracle.cosent_sampled(rows.scores, grades(rows), draws, temperature(loss, rows))


def expected_extremes(loss: losses.CoSENTExtremes, rows: Rows) -> Tensor:
    return oracle.cosent_extremes(rows.scores, grades(rows), loss.num_extremes, temperature(loss, rows))


def expected_layers(loss: losses.CoSENTLayers, rows: Rows) -> Tensor:
    return sum(
        weight * oracle.cosent(scores, grades(rows), loss.temperature)
        for weight, scores in zip(loss.weights, rows.layer_scores.T, strict=True)
    )


def expected_cosent_bce(loss: losses.CoSENTAndBCE, rows: Rows) -> Tensor:
    entropy = oracle.binary_entropy(rows.scores / loss.entropy_temperature, rows.targets)
    return oracle.cosent(rows.scores, rows.targets, loss.temperature) + loss.entropy_weight * entropy


def expected_ce_mse(loss: losses.CrossEntropyError, rows: Rows) -> Tensor:
    logits = rows.scores / loss.temperature
    error = oracle.squared_error(logits, rows.targets, "sigmoid")
    return oracle.binary_entropy(logits, rows.targets) + loss.error_weight * error


def laid_out(loss: Regression, rows: Rows) -> list:
    """A target of 0 asks for the low end of the range, a target of 1 for the high end."""
    return [loss.low + (loss.high - loss.low) * target for target in rows.targets]


def expected_circle(loss: losses.Circle, rows: Rows) -> Tensor:
    goals = (loss.positive_goal, loss.negative_goal)
    return oracle.circle(rows.scores, rows.targets, goals, loss.weighted, loss.temperature)


def order_cases() -> list[Case]:
    def weighted(loss, rows):
        return oracle.cosent_weighted(rows.scores, grades(rows), temperature(loss, rows))

    def adaptive(loss, rows):
        return oracle.cosent(rows.scores, grades(rows), temperature(loss, rows))

    def ranking(loss, rows):
        return oracle.margin_ranking(rows.scores, grades(rows), loss.margin)

    cases = [
        case(losses.CoSENTWeighted, kind, weighted, temperature=0.05, temperature_unit=unit)
        for kind, unit in zip(GRADED, UNITS, strict=True)
    ]
    cases += [
        case(losses.CoSENTAdaptive, kind, adaptive, temperature=0.1, temperature_unit=unit)
        for kind, unit in zip(GRADED, ("spread", "spread_with_gradient", "spread"), strict=True)
    ]
    shared = {"temperature": 0.05, "temperature_unit": "score"}
    cases += [
        case(losses.CoSENTSampled, kind, expected_sampled, num_comparisons=count, **shared)
        for kind, count in zip(GRADED, (1, 3, 20), strict=True)
    ]
    cases += [
        case(losses.CoSENTExtremes, kind, expected_extremes, num_extremes=count, **shared)
        for kind, count in zip(GRADED, (2, 3, 20), strict=True)
    ]
    shared = {"temperature": 0.05, "depths": [0.25, 0.5, 1], "weights": [0.2, 0.7, 1.3]}
    cases += [case(losses.CoSENTLayers, kind, expected_layers, **shared) for kind in GRADED]
    cases += [case(losses.MarginRanking, kind, ranking, margin=0.2) for kind in GRADED]
    cases += [case(losses.Circle, Kind.LABELLED_PAIR, expected_circle, **goals) for goals in CIRCLES]
    shared = {"temperature": 0.05, "entropy_temperature": 0.5, "entropy_weight": 0.7}
    kinds = losses.CoSENTAndBCE.input_kinds
    return cases + [case(losses.CoSENTAndBCE, kind, expected_cosent_bce, **shared) for kind in kinds]


def regression_cases() -> list[Case]:
    graded = Kind.SCORED_PAIR

    def squared(loss, rows):
        return oracle.squared_error(rows.scores, laid_out(loss, rows), loss.activation)

    def huber(loss, rows):
        delta = loss.delta * (loss.high - loss.low)
        return oracle.huber(rows.scores, laid_out(loss, rows), delta, loss.activation)

    def quantile(loss, rows):
        return oracle.pinball(rows.scores, laid_out(loss, rows), loss.quantile, loss.activation)

    cases = []
    for share, (activation, span) in zip((0.5, 0.9, 0.25), PREDICTIONS, strict=True):
        shared = {"activation": activation, "target_range": span}
        cases += [
            case(losses.SquaredError, graded, squared, **shared),
            case(losses.Huber, graded, huber, delta=0.3, **shared),
            case(losses.Quantile, graded, quantile, quantile=share, **shared),
        ]
    return cases + [
        case(losses.CrossEntropyError, graded, expected_ce_mse, temperature=one, error_weight=0.5)
        for one in (1, 0.2)
    ]


def entropy_cases() -> list[Case]:
    graded, labelled, nli = GRADED

    def binary(loss, rows):
        logits = rows.scores / loss.temperature
        return oracle.binary_entropy(logits, rows.targets, loss.label_smoothing, loss.focal_gamma)

    def classes(loss, rows):
        logits = [list(row) for row in rows.logits]
        return oracle.class_entropy(logits, rows.targets, loss.label_smoothing, loss.focal_gamma)

    settings = [(labelled, 0.0, 0.0), (graded, 0.1, 0.0), (labelled, 0.1, 2.0)]
    cases = [
        case(
            losses.BinaryCrossEntropy,
            kind,
            binary,
            temperature=0.5,
            label_smoothing=smoothing,
            focal_gamma=gamma,
        )
        for kind, smoothing, gamma in settings
    ]
    settings = [(labelled, 0.0, 0.0), (nli, 0.1, 2.0), (nli, 0.0, 0.5)]
    return cases + [
        case(losses.CrossEntropy, kind, classes, label_smoothing=smoothing, focal_gamma=gamma)
        for kind, smoothing, gamma in settings
    ]


SCORE_CASES = order_cases() + regression_cases() + entropy_cases()
