"""CoSENT with weights, with draws, at a temperature of the batch, and on an example small enough to check by hand."""

import math

import pytest
import torch
from loss_cases import encoded_rows, loss_of
from torch.nn import functional as F

from juzhen.core.examples import Kind
from juzhen.losses import CoSENTAdaptive, CoSENTSampled, CoSENTWeighted
from juzhen.losses.pairwise_ranking import cosent, cosent_sampled, cosent_weighted
from juzhen.losses.scores import row_cosine


def worked_example():
    """Four unit vectors and the pairs (1,2), (1,4), (1,3), (2,3), whose targets fall from 0.9 to 0.1."""
    half = math.sqrt(0.5)
    vectors = torch.tensor(
        [[1 / math.sqrt(3)] * 3, [half, half, 0], [0, 0, 1], [0.5, 0.5, half]], dtype=torch.float64
    ).requires_grad_()
    pairs, targets = [(0, 1), (0, 3), (0, 2), (1, 2)], torch.tensor([0.9, 0.5, 0.2, 0.1])
    first, second = (vectors[list(places)] for places in zip(*pairs, strict=True))
    return vectors, row_cosine(first, second), targets


def test_the_worked_example_by_hand():
    """cos(1,2) = 2/√6, cos(1,4) = (1 + √½)/√3, cos(1,3) = 1/√3, cos(2,3) = 0; one pair of six is in disorder."""
    vectors, scores, targets = worked_example()
    by_hand = [2 / math.sqrt(6), (1 + math.sqrt(0.5)) / math.sqrt(3), 1 / math.sqrt(3), 0.0]
    assert scores.tolist() == pytest.approx(by_hand)
    assert scores.tolist() == pytest.approx([0.8165, 0.9856, 0.5774, 0.0], abs=5e-5)
    exponents = [3.382, -4.783, -16.330, -8.165, -19.712, -11.547]
    value = cosent(scores, targets, temperature=0.05)
    assert value.item() == pytest.approx(math.log(1 + sum(map(math.exp, exponents))), abs=1e-3)
    assert value.item() == pytest.approx(3.4155, abs=5e-4)
    (gradient,) = torch.autograd.grad(value, vectors)
    # Nearly all of it comes from the pair in disorder: share · 20 · (∂cos(1,4) − ∂cos(1,2)) by the first vector.
    share = 1 - math.exp(-value.item())
    one, two, four = (vectors[row].detach() for row in (0, 1, 3))
    expected = 20 * share * ((four - by_hand[1] * one) - (two - by_hand[0] * one))
    assert gradient[0].tolist() == pytest.approx(expected.tolist(), abs=0.01)
    assert gradient[0].tolist() == pytest.approx([-5.894, -5.894, 11.788], abs=0.01)


def test_the_worked_example_weighted():
    _, scores, targets = worked_example()
    value = cosent_weighted(scores, targets, temperature=0.05)
    assert value.item() == pytest.approx(
        math.log(1 + 0.4 * math.exp(3.382) + 0.7 * math.exp(-4.783)), abs=1e-3
    )


def test_weights_of_0_and_1_are_plain_cosent():
    rows = encoded_rows(Kind.LABELLED_PAIR, count=30)
    one, other = (
        loss(rows.scores, rows.targets, temperature=0.05).item() for loss in (cosent, cosent_weighted)
    )
    assert one == pytest.approx(other, rel=1e-12)


@pytest.mark.slow
def test_the_sampled_sum_is_unbiased():
    """The mean of many estimates of the sum in the logarithm, within 4 standard errors of the exact sum."""
    rows = encoded_rows(Kind.SCORED_PAIR, count=12)
    scores, targets = rows.scores.detach(), rows.targets
    exact = cosent(scores, targets, temperature=0.3).exp().item() - 1
    generator = torch.Generator().manual_seed(0)
    sums = torch.stack(
        [
            cosent_sampled(scores, targets, torch.rand(12, 2, generator=generator), temperature=0.3).exp() - 1
            for _ in range(2000)
        ]
    )
    error = (sums.std() / len(sums) ** 0.5).item()
    assert error < 0.02 * exact
    assert abs(sums.mean().item() - exact) < 4 * error


def test_draws_follow_the_seed():
    rows = encoded_rows(Kind.SCORED_PAIR, count=12)
    loss = CoSENTSampled(num_comparisons=2, temperature=0.05, temperature_unit="score")
    values = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        values.append(loss_of(loss, rows)[0].item())
    assert values[0] == values[1] != values[2]


def test_a_draw_next_to_1_stays_among_the_lower_rows():
    scores, targets = torch.rand(9), torch.arange(9.0)
    value = cosent_sampled(scores, targets, torch.full((9, 1), 1 - 2**-24), temperature=0.5)
    highest_of_lower = sum(
        place * math.exp((scores[place - 1] - scores[place]) / 0.5) for place in range(1, 9)
    )
    assert value.item() == pytest.approx(math.log(1 + highest_of_lower), rel=1e-5)


@pytest.mark.parametrize("build", [CoSENTAdaptive, CoSENTWeighted])
def test_in_units_of_the_spread_scale_and_position_mean_nothing(build):
    rows = encoded_rows(Kind.SCORED_PAIR, count=20)
    loss = build(temperature=0.05, temperature_unit="spread")
    value, logs = loss_of(loss, rows)
    rows.scores = 0.1 * rows.scores + 0.8
    narrow, narrow_logs = loss_of(loss, rows)
    assert narrow.item() == pytest.approx(value.item(), rel=1e-9)
    assert narrow_logs["temperature"].item() == pytest.approx(0.1 * logs["temperature"].item())


def test_only_the_gradient_of_the_spread_makes_stretching_worthless():
    """Along the scores themselves the loss falls, unless σ is differentiated: then stretching gains nothing."""
    slopes = {}
    for unit in ("spread", "spread_with_gradient"):
        rows = encoded_rows(Kind.SCORED_PAIR, count=20)
        rows.scores = (rows.targets + 0.3 * rows.scores.detach()).requires_grad_()
        value = loss_of(CoSENTAdaptive(temperature=0.05, temperature_unit=unit), rows)[0]
        (gradient,) = torch.autograd.grad(value, rows.scores)
        slopes[unit] = F.cosine_similarity(gradient, rows.scores - rows.scores.mean(), dim=0).item()
    assert abs(slopes["spread_with_gradient"]) < 1e-9
    assert abs(slopes["spread"]) > 0.05
