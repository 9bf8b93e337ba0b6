"""Cases of the losses that read one number per row: variants of CoSENT, and what trains a cross-encoder."""

from functools import partial

import loop_oracles as oracle
import torch
from loss_cases import Case
from torch import Tensor

from juzhen.core.batch import Encoded
from juzhen.core.examples import NLI_GRADES, Kind
from juzhen.losses import (
    BinaryCrossEntropy,
    Circle,
    CoSENTAdaptive,
    CoSENTAndBCE,
    CoSENTLayers,
    CoSENTSampled,
    CoSENTWeighted,
    CrossEntropy,
    CrossEntropyError,
    Huber,
    MarginRanking,
    Quantile,
    SquaredError,
)
from juzhen.losses.mse import Regression
from juzhen.losses.score_order import SMALLEST_SPREAD, UNITS

CIRCLES = {
    "published": {
        "margin": 0.25,
        "positive_goal": None,
        "negative_goal": None,
        "weighted": True,
        "temperature": 0.0125,
    },
    "one goal": {
        "margin": 0.25,
        "positive_goal": 0.6,
        "negative_goal": None,
        "weighted": True,
        "temperature": 0.2,
    },
    "two goals": {
        "margin": None,
        "positive_goal": 0.6,
        "negative_goal": 0.1,
        "weighted": True,
        "temperature": 0.2,
    },
    "plain": {
        "margin": 0.25,
        "positive_goal": None,
        "negative_goal": None,
        "weighted": False,
        "temperature": 0.2,
    },
    "plain, goals": {
        "margin": None,
        "positive_goal": 0.2,
        "negative_goal": -0.1,
        "weighted": False,
        "temperature": 0.2,
    },
}
PREDICTIONS = [("identity", [-1, 1]), ("identity", [0, 1]), ("sigmoid", [0, 1])]
GRADED = (Kind.SCORED_PAIR, Kind.LABELLED_PAIR, Kind.NLI_PAIR)


class Reseeded(CoSENTSampled):
    """Draws the same numbers at every call, so that two calls can be compared."""

    def forward(self, encoded: Encoded):
        torch.manual_seed(5)
        return super().forward(encoded)


def grades(rows: Encoded) -> Tensor | list[float]:
    if rows.kind is Kind.NLI_PAIR:
        return [NLI_GRADES[int(label)] for label in rows.targets]
    return rows.targets


def temperature(loss, rows: Encoded) -> Tensor | float:
    if loss.temperature_unit == "score":
        return loss.temperature
    spread = oracle.deviation(rows.scores) if len(set(rows.scores.tolist())) > 1 else SMALLEST_SPREAD
    if loss.temperature_unit == "spread" and isinstance(spread, Tensor):
        spread = spread.detach()
    return loss.temperature * spread


def expected_sampled(loss: CoSENTSampled, rows: Encoded) -> Tensor:
    torch.manual_seed(5)
    draws = torch.rand(len(rows.scores), loss.num_comparisons).tolist()
    return oracle.cosent_sampled(rows.scores, grades(rows), draws, temperature(loss, rows))


def expected_layers(loss: CoSENTLayers, rows: Encoded) -> Tensor:
    return sum(
        weight * oracle.cosent(scores, grades(rows), loss.temperature)
        for weight, scores in zip(loss.weights, rows.layer_scores.T, strict=True)
    )


def expected_cosent_bce(loss: CoSENTAndBCE, rows: Encoded) -> Tensor:
    entropy = oracle.binary_entropy(rows.scores / loss.entropy_temperature, rows.targets)
    return oracle.cosent(rows.scores, rows.targets, loss.temperature) + loss.entropy_weight * entropy


def expected_ce_mse(loss: CrossEntropyError, rows: Encoded) -> Tensor:
    logits = rows.scores / loss.temperature
    error = oracle.squared_error(logits, rows.targets, "sigmoid")
    return oracle.binary_entropy(logits, rows.targets) + loss.error_weight * error


def laid_out(loss: Regression, rows: Encoded) -> list:
    """A target of 0 asks for the low end of the range, a target of 1 for the high end."""
    return [loss.low + (loss.high - loss.low) * target for target in rows.targets]


def order_cases() -> list[Case]:
    cases = [
        Case(
            f"cosent_weighted-{kind}-{unit}",
            partial(CoSENTWeighted, temperature=0.05, temperature_unit=unit),
            kind,
            lambda loss, rows: oracle.cosent_weighted(rows.scores, grades(rows), temperature(loss, rows)),
        )
        for kind, unit in zip(GRADED, UNITS, strict=True)
    ]
    cases += [
        Case(
            f"cosent_adaptive-{kind}-{unit}",
            partial(CoSENTAdaptive, temperature=0.1, temperature_unit=unit),
            kind,
            lambda loss, rows: oracle.cosent(rows.scores, grades(rows), temperature(loss, rows)),
        )
        for kind, unit in zip(GRADED, ("spread", "spread_with_gradient", "spread"), strict=True)
    ]
    cases += [
        Case(
            f"cosent_sampled-{kind}-{count}",
            partial(Reseeded, num_comparisons=count, temperature=0.05, temperature_unit="score"),
            kind,
            expected_sampled,
        )
        for kind, count in zip(GRADED, (1, 3, 20), strict=True)
    ]
    cases += [
        Case(
            f"cosent_layers-{kind}",
            partial(CoSENTLayers, temperature=0.05, depths=[0.25, 0.5, 1], weights=[0.2, 0.7, 1.3]),
            kind,
            expected_layers,
        )
        for kind in GRADED
    ]
    cases += [
        Case(
            f"margin_ranking-{kind}",
            partial(MarginRanking, margin=0.2),
            kind,
            lambda loss, rows: oracle.margin_ranking(rows.scores, grades(rows), loss.margin),
        )
        for kind in GRADED
    ]
    cases += [
        Case(
            f"circle-{name}",
            partial(Circle, **goals),
            Kind.LABELLED_PAIR,
            lambda loss, rows: oracle.circle(
                rows.scores,
                rows.targets,
                (loss.positive_goal, loss.negative_goal),
                loss.weighted,
                loss.temperature,
            ),
        )
        for name, goals in CIRCLES.items()
    ]
    cases += [
        Case(
            f"cosent_bce-{kind}",
            partial(CoSENTAndBCE, temperature=0.05, entropy_temperature=0.5, entropy_weight=0.7),
            kind,
            expected_cosent_bce,
        )
        for kind in CoSENTAndBCE.takes
    ]
    return cases


def regression_cases() -> list[Case]:
    cases = [
        Case(
            f"mse-{activation}-{span}",
            partial(SquaredError, activation=activation, target_range=span),
            Kind.SCORED_PAIR,
            lambda loss, rows: oracle.squared_error(rows.scores, laid_out(loss, rows), loss.activation),
        )
        for activation, span in PREDICTIONS
    ]
    cases += [
        Case(
            f"huber-{activation}-{span}",
            partial(Huber, delta=0.3, activation=activation, target_range=span),
            Kind.SCORED_PAIR,
            lambda loss, rows: oracle.huber(
                rows.scores, laid_out(loss, rows), loss.delta * (loss.high - loss.low), loss.activation
            ),
        )
        for activation, span in PREDICTIONS
    ]
    cases += [
        Case(
            f"ce_mse-{temperature}",
            partial(CrossEntropyError, temperature=temperature, error_weight=0.5),
            Kind.SCORED_PAIR,
            expected_ce_mse,
        )
        for temperature in (1, 0.2)
    ]
    cases += [
        Case(
            f"quantile-{quantile}-{activation}-{span}",
            partial(Quantile, quantile=quantile, activation=activation, target_range=span),
            Kind.SCORED_PAIR,
            lambda loss, rows: oracle.pinball(
                rows.scores, laid_out(loss, rows), loss.quantile, loss.activation
            ),
        )
        for quantile, (activation, span) in zip((0.5, 0.9, 0.25), PREDICTIONS, strict=False)
    ]
    return cases


def entropy_cases() -> list[Case]:
    settings = [(Kind.LABELLED_PAIR, 0.0, 0.0), (Kind.SCORED_PAIR, 0.1, 0.0), (Kind.LABELLED_PAIR, 0.1, 2.0)]
    cases = [
        Case(
            f"bce-{kind}-{smoothing}-{gamma}",
            partial(BinaryCrossEntropy, temperature=0.5, smoothing=smoothing, focal_gamma=gamma),
            kind,
            lambda loss, rows: oracle.binary_entropy(
                rows.scores / loss.temperature, rows.targets, loss.smoothing, loss.focal_gamma
            ),
        )
        for kind, smoothing, gamma in settings
    ]
    settings = [(Kind.LABELLED_PAIR, 0.0, 0.0), (Kind.NLI_PAIR, 0.1, 2.0), (Kind.NLI_PAIR, 0.0, 0.5)]
    cases += [
        Case(
            f"ce-{kind}-{smoothing}-{gamma}",
            partial(CrossEntropy, smoothing=smoothing, focal_gamma=gamma),
            kind,
            lambda loss, rows: oracle.class_entropy(
                [list(row) for row in rows.logits], rows.targets, loss.smoothing, loss.focal_gamma
            ),
        )
        for kind, smoothing, gamma in settings
    ]
    return cases


SCORE_CASES = order_cases() + regression_cases() + entropy_cases()
