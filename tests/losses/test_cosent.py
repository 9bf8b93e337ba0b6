import math

import loop_oracles as oracle
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_cases import assert_same, encoded_rows, loss_of

from juzhen.core.examples import Kind
from juzhen.losses import CoSENT, cosent, cosent_weighted

# Few different targets, so that ties are the rule; scores repeat as well.
TARGETS = st.sampled_from([0.0, 0.2, 0.2000001, 0.5, 1.0])
tied_rows = st.lists(
    st.tuples(TARGETS, st.sampled_from([-1.0, -0.3, 0.0, 0.3, 0.31, 1.0])), min_size=1, max_size=14
)


@pytest.mark.parametrize(("function", "within"), [(cosent, 1e-9), (cosent_weighted, 1e-8)])
@given(rows=tied_rows, temperature=st.sampled_from([0.02, 0.05, 1.0]))
@settings(max_examples=60)
def test_equals_the_pair_loop_whatever_the_ties(function, within, rows, temperature):
    targets, scores = torch.tensor(rows, dtype=torch.float64).unbind(dim=1)
    scores = scores.clone().requires_grad_()
    value = function(scores, targets, temperature=temperature)
    expected = getattr(oracle, function.__name__)(scores, targets, temperature)
    assert_same(value, expected, [scores], within=within)


@given(count=st.integers(1, 6), target=st.floats(0, 1), size=st.sampled_from([0.0, 1.0, 1e4]))
@settings(max_examples=30)
def test_equal_targets_cost_nothing_and_teach_nothing(count, target, size):
    scores = torch.linspace(-size, size, count).requires_grad_()
    value = cosent(scores, torch.full((count,), target), temperature=0.05)
    value.backward()
    assert value.item() == 0
    assert torch.equal(scores.grad, torch.zeros(count))


def test_gradcheck_with_ties():
    scores = torch.tensor([0.3, -0.2, 0.9, 0.1, 0.1], dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([0.0, 1.0, 0.5, 0.5, 0.0], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda s: cosent(s, targets, temperature=0.1), (scores,))


def test_two_rows_by_hand():
    """One ordered pair, the wrong way round by 0.2: log(1 + exp(0.2 / 0.1))."""
    value = cosent(torch.tensor([0.4, 0.6]), torch.tensor([1.0, 0.0]), temperature=0.1)
    assert value.item() == pytest.approx(math.log(1 + math.exp(2)), rel=1e-6)


def test_targets_matter_only_by_their_order():
    rows = encoded_rows(Kind.SCORED_PAIR, count=20)
    one, other = (
        cosent(rows.scores, targets, temperature=0.05) for targets in (rows.targets, rows.targets**3 + 7)
    )
    assert one.item() == other.item()


@pytest.mark.parametrize("function", [cosent, cosent_weighted])
def test_a_large_batch_keeps_float32_exact(function):
    """A running sum of 20,000 exponentials, against the same sum in float64."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand(20_000, generator=generator) * 2 - 1
    targets = torch.rand(20_000, generator=generator)  # all different: 20,000 steps, many of them tiny
    if function is cosent:
        targets = (51 * targets).floor() / 50
    single, double = scores.clone().requires_grad_(), scores.double().requires_grad_()
    values = [function(leaf, targets, temperature=0.05) for leaf in (single, double)]
    for value in values:
        value.backward()
    assert values[0].item() == pytest.approx(values[1].item(), rel=1e-6)
    assert (single.grad - double.grad).norm() < 1e-4 * double.grad.norm()


def test_nli_classes_are_graded():
    """Entailment above neutral above contradiction: the right order of scores costs almost nothing."""
    rows = encoded_rows(Kind.NLI_PAIR, count=3)
    rows.targets = torch.tensor([0.0, 1.0, 2.0])
    loss = CoSENT(temperature=0.05)
    rows.scores = torch.tensor([0.9, 0.0, -0.9])
    assert loss_of(loss, rows)[0] < 1e-6
    rows.scores = torch.tensor([-0.9, 0.0, 0.9])
    assert loss_of(loss, rows)[0] > 30


def test_logs_by_hand():
    rows = encoded_rows(Kind.SCORED_PAIR, count=4)
    rows.scores, rows.targets = torch.tensor([0.1, 0.2, 0.6, 0.8]), torch.tensor([0.0, 0.2, 0.8, 1.0])
    logs = loss_of(CoSENT(temperature=0.05), rows)[1]
    assert logs["positive_score"].item() == pytest.approx(0.7)
    assert logs["negative_score"].item() == pytest.approx(0.15)
    assert logs["score_gap"].item() == pytest.approx(0.55)
