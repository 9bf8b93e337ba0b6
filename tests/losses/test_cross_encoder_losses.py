"""Losses of logits: against torch where it has them, against each other where they meet, and at the extremes."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from loss_cases import encoded_rows, loss_of

from juzhen import losses
from juzhen.core.examples import Kind
from juzhen.losses.classes import class_cross_entropy
from juzhen.losses.pairs import binary_cross_entropy
from juzhen.losses.pairwise_ranking import margin_ranking
from juzhen.losses.regression import huber, squared_error
from juzhen.losses.sums import cross_entropy_and_error

PLAIN = {"label_smoothing": 0.0, "focal_gamma": 0.0}


def test_bce_is_torchs_also_for_graded_targets():
    logits, targets = torch.randn(50), torch.rand(50)
    expected = F.binary_cross_entropy_with_logits(logits, targets)
    assert binary_cross_entropy(logits, targets, **PLAIN).item() == pytest.approx(expected.item(), rel=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_ce_is_torchs_with_its_smoothing(smoothing):
    logits, classes = torch.randn(50, 3), torch.randint(3, (50,)).float()
    expected = F.cross_entropy(logits, classes.long(), label_smoothing=smoothing)
    value = class_cross_entropy(logits, classes, label_smoothing=smoothing, focal_gamma=0.0)
    assert value.item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize(("smoothing", "gamma"), [(0.0, 0.0), (0.1, 0.0), (0.0, 2.0), (0.1, 1.5)])
def test_two_nodes_are_one_node_with_their_difference(smoothing, gamma):
    logits, labels = torch.randn(50, 2).double(), torch.randint(2, (50,)).double()
    two = class_cross_entropy(logits, labels, label_smoothing=smoothing, focal_gamma=gamma)
    one = binary_cross_entropy(
        logits[:, 1] - logits[:, 0], labels, label_smoothing=smoothing, focal_gamma=gamma
    )
    assert two.item() == pytest.approx(one.item(), rel=1e-9)


def test_focal_loss_by_hand():
    """p = 0.9 for a positive: (0.1)² · 0.105 instead of 0.105; a wrong row keeps most of its cost."""
    logits, ones = torch.tensor([0.9, 0.1]).logit(), torch.ones(1)
    right, wrong = (
        binary_cross_entropy(logits[row : row + 1], ones, label_smoothing=0.0, focal_gamma=2.0).item()
        for row in (0, 1)
    )
    assert right == pytest.approx(0.01 * 0.10536, rel=1e-3)
    assert wrong == pytest.approx(0.81 * 2.30259, rel=1e-3)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_certain_and_wrong_logits_have_finite_gradients(gamma):
    for function, logits, targets in (
        (binary_cross_entropy, torch.tensor([1e4, -1e4, 1e4, -1e4]), torch.tensor([1.0, 0, 0, 1])),
        (class_cross_entropy, 1e4 * torch.eye(3), torch.tensor([0.0, 2, 1])),
    ):
        logits.requires_grad_()
        value = function(logits, targets, label_smoothing=0.0, focal_gamma=gamma)
        value.backward()
        assert value.isfinite()
        assert value > 100
        assert logits.grad.isfinite().all()
        assert logits.grad.abs().max() > 0


def test_smoothing_asks_for_less_than_certainty():
    """With ε = 0.2 the best probability of a positive is 0.9."""
    logits = torch.cat([torch.linspace(-5, 5, 41), torch.linspace(2, 2.4, 21)])
    costs = [
        binary_cross_entropy(logit[None], torch.ones(1), label_smoothing=0.2, focal_gamma=0.0)
        for logit in logits
    ]
    assert logits[torch.stack(costs).argmin()].sigmoid().item() == pytest.approx(0.9, abs=0.01)


def test_both_parts_of_ce_and_error_are_smallest_at_the_target():
    logits = torch.cat([torch.linspace(-5, 5, 41), torch.linspace(0.7, 1, 16)])
    costs = [cross_entropy_and_error(logit[None], torch.tensor([0.7]), error_weight=5.0) for logit in logits]
    assert logits[torch.stack(costs).argmin()].sigmoid().item() == pytest.approx(0.7, abs=0.01)


def test_an_outlier_pulls_as_hard_as_delta_in_huber_only():
    scores = torch.tensor([0.1, 5.0], requires_grad=True)
    huber(scores, torch.zeros(2), delta=0.5, activation="identity").backward()
    assert scores.grad.tolist() == pytest.approx([0.1 / 2, 0.5 / 2])
    scores.grad = None
    squared_error(scores, torch.zeros(2), activation="identity").backward()
    assert scores.grad.tolist() == pytest.approx([0.1, 5.0])


def test_with_cosines_squared_error_is_that_of_scores_laid_out_from_minus_one_to_one():
    """Gold scores from 0 to 5 become 2/5 · score − 1, and the cosine is compared with that."""
    gold, cosines = torch.tensor([0.0, 1, 2.5, 4, 5]), torch.tensor([-1.0, -0.2, 0.1, 0.9, 0.4])
    rows = replace(encoded_rows(Kind.SCORED_PAIR, count=5), scores=cosines, targets=gold / 5)
    loss, logs = loss_of(losses.SquaredError(activation="identity", target_range=[-1, 1]), rows)
    assert loss.item() == pytest.approx(F.mse_loss(cosines, gold * 2 / 5 - 1).item(), rel=1e-6)
    regression, _ = loss_of(losses.CosineSimilarity(target_range=[-1, 1]), rows)
    assert loss.item() == pytest.approx(regression.item(), rel=1e-6)
    # Half a target too high is an error of 0.5 in what users know, whatever the cosines are asked to be.
    expected = ((cosines + 1) / 2 - gold / 5).abs().mean().item()
    assert logs["mean_absolute_error"].item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    "build",
    [
        lambda span: losses.SquaredError(activation="identity", target_range=span),
        lambda span: losses.Huber(delta=0.5, activation="identity", target_range=span),
        lambda span: losses.CosineSimilarity(target_range=span),
    ],
    ids=["mse", "huber", "cosine"],
)
def test_an_error_is_logged_in_units_of_the_target_whatever_the_range(build):
    targets = torch.tensor([0.0, 0.5, 1.0])
    rows = replace(encoded_rows(Kind.SCORED_PAIR, count=3), targets=targets, scores=targets + 0.1)
    assert loss_of(build([0, 1]), rows)[1]["mean_absolute_error"].item() == pytest.approx(0.1, rel=1e-5)
    rows = replace(rows, scores=2 * targets - 1 + 0.2)
    assert loss_of(build([-1, 1]), rows)[1]["mean_absolute_error"].item() == pytest.approx(0.1, rel=1e-5)


def test_huber_counts_its_delta_in_units_of_the_target():
    """An error of 0.6 of the way is beyond δ = 0.5 in either range; twice as long a way costs four times as much."""
    rows = replace(
        encoded_rows(Kind.SCORED_PAIR, count=1), targets=torch.zeros(1), scores=torch.tensor([0.6])
    )
    (narrow, _) = loss_of(losses.Huber(delta=0.5, activation="identity", target_range=[0, 1]), rows)
    (wide, _) = loss_of(
        losses.Huber(delta=0.5, activation="identity", target_range=[-1, 1]),
        replace(rows, scores=2 * rows.scores - 1),
    )
    assert narrow.item() == pytest.approx(0.5 * (0.6 - 0.25), rel=1e-6)
    assert wide.item() == pytest.approx(4 * narrow.item(), rel=1e-6)


def test_the_error_of_ce_mse_is_that_of_the_logit():
    rows = replace(encoded_rows(Kind.SCORED_PAIR, count=9))
    probabilities = (rows.scores.detach() / 0.05).sigmoid()
    _, logs = loss_of(losses.CrossEntropyError(temperature=0.05, error_weight=0.5), rows)
    expected = (probabilities - rows.targets).abs().mean().item()
    assert logs["mean_absolute_error"].item() == pytest.approx(expected, rel=1e-9)


def test_margin_ranking_is_torchs_over_all_ordered_pairs():
    rows = encoded_rows(Kind.SCORED_PAIR, count=15)
    first, second = torch.nonzero(rows.targets[:, None] > rows.targets).unbind(dim=1)
    ahead = torch.ones(len(first))
    expected = F.margin_ranking_loss(rows.scores[first], rows.scores[second], ahead, margin=0.3)
    value = margin_ranking(rows.scores, rows.targets, margin=0.3)
    assert value.item() == pytest.approx(expected.item(), rel=1e-9)


def test_without_an_order_margin_ranking_costs_nothing():
    rows = replace(encoded_rows(Kind.SCORED_PAIR, count=4), targets=torch.ones(4))
    value = loss_of(losses.MarginRanking(margin=0.3), rows)[0]
    value.backward()
    assert value.item() == 0
    assert rows.scores.grad.abs().max() == 0


def test_temperature_divides_the_score():
    rows = encoded_rows(Kind.LABELLED_PAIR)
    value = loss_of(losses.BinaryCrossEntropy(temperature=0.05, **PLAIN), rows)[0]
    expected = F.binary_cross_entropy_with_logits(20 * rows.scores, rows.targets)
    assert value.item() == pytest.approx(expected.item(), rel=1e-9)
