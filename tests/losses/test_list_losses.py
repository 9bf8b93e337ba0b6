"""Losses over the documents of a row, as plain numpy reads their formulas, and what they do by hand."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from juzhen.losses import (
    LambdaLoss,
    ListKL,
    ListMLE,
    MarginMSE,
    lambda_loss,
    list_kl,
    list_mle,
    margin_mse,
    position_list_mle,
    rank_net,
)
from juzhen.losses.listwise import WEIGHTINGS

sizes = st.tuples(st.integers(1, 4), st.integers(2, 5), st.integers(0, 10**6))
grades = st.integers(0, 3)


def drawn(size):
    rows, documents, seed = size
    random = np.random.default_rng(seed)
    return random.normal(size=(rows, documents)), random.normal(size=(rows, documents)) * 3


def check(function, scores, expected, *others, **options):
    leaf = torch.tensor(scores, requires_grad=True)
    value = function(leaf, *(torch.tensor(one) for one in others), **options)
    assert value.item() == pytest.approx(expected, rel=1e-9, abs=1e-9)
    value.backward()
    assert leaf.grad.isfinite().all()


def numpy_margin_mse(scores, teacher):
    return np.mean(
        [
            (s[0] - s[k] - t[0] + t[k]) ** 2
            for s, t in zip(scores, teacher, strict=True)
            for k in range(1, len(s))
        ]
    )


def softmax(row):
    return np.exp(row) / np.exp(row).sum()


def numpy_list_kl(scores, teacher, tau, teacher_tau):
    total = 0
    for s, t in zip(scores, teacher, strict=True):
        p, q = softmax(s / tau), softmax(t / teacher_tau)
        total += sum(b * math.log(b / a) for a, b in zip(p, q, strict=True))
    return total / len(scores)


def numpy_list_mle(scores, graded):
    total = 0
    for s, g in zip(scores, graded, strict=True):
        for k in range(len(s)):
            lower = sum(math.exp(s[m]) for m in range(len(s)) if g[m] < g[k])
            total -= math.log(math.exp(s[k]) / (math.exp(s[k]) + lower))
    return total / len(scores)


def numpy_position_list_mle(scores, graded):
    total = 0
    for s, g in zip(scores, graded, strict=True):
        weights = [2 ** (len(s) - rank) - 1 for rank in range(1, 1 + len(s))]
        for k in range(len(s)):
            lower = sum(math.exp(s[m]) for m in range(len(s)) if g[m] < g[k])
            above = sum(other > g[k] for other in g)
            share = weights[above] / sum(weights)
            total -= share * math.log(math.exp(s[k]) / (math.exp(s[k]) + lower))
    return total / len(scores)


def numpy_rank_net(scores, graded):
    total = 0
    for s, g in zip(scores, graded, strict=True):
        pairs = itertools.permutations(range(len(s)), 2)
        total += sum(math.log1p(math.exp(s[j] - s[i])) for i, j in pairs if g[i] > g[j])
    return total / len(scores)


def numpy_lambda_loss(scores, graded, mu, weighting="ndcg_loss2pp", k=None):
    total = 0
    for s, g in zip(scores, graded, strict=True):
        order = sorted(range(len(s)), key=lambda document: -s[document])
        rank = {document: place for place, document in enumerate(order, start=1)}
        ideal = list(enumerate(sorted(g)[::-1], start=1))[:k]
        best = sum((2**one - 1) / math.log2(1 + place) for place, one in ideal) or 1
        for i, j in itertools.permutations(range(len(s)), 2):
            if k is not None and min(rank[i], rank[j]) > k:
                continue
            rho = abs(1 / math.log2(1 + rank[i]) - 1 / math.log2(1 + rank[j]))
            apart = abs(rank[i] - rank[j])
            delta = 1 / math.log2(1 + apart) - 1 / math.log2(2 + apart)
            gap = (2.0 ** g[i] - 2.0 ** g[j]) / best
            weight = {
                "ndcg_loss2pp": (rho + mu * delta) * gap,
                "ndcg_loss2": delta * gap,
                "lambda_rank": rho * gap,
                "ndcg_loss1": (2.0 ** g[i] - 1) / best / math.log2(1 + rank[i]),
                "none": 1,
            }[weighting]
            if g[i] > g[j] or weighting == "ndcg_loss1":
                total += weight * math.log2(1 + math.exp(s[j] - s[i]))
    return total / len(scores)


@given(sizes, st.sampled_from([0.05, 1.0, 3.0]))
@settings(max_examples=25)
def test_losses_that_read_a_teacher(size, tau):
    scores, teacher = drawn(size)
    check(margin_mse, scores, numpy_margin_mse(scores, teacher), teacher)
    expected = numpy_list_kl(scores, teacher, tau, 2.0)
    check(list_kl, scores, expected, teacher, temperature=tau, teacher_temperature=2.0)


@given(sizes, st.data(), st.sampled_from([0.0, 1.0, 10.0]))
@settings(max_examples=40)
def test_losses_of_an_order_with_ties(size, data, mu):
    scores, _ = drawn(size)
    graded = np.array([[data.draw(grades) for _ in row] for row in scores], dtype=np.float64)
    check(list_mle, scores, numpy_list_mle(scores, graded), graded)
    check(position_list_mle, scores, numpy_position_list_mle(scores, graded), graded)
    check(rank_net, scores, numpy_rank_net(scores, graded), graded)
    check(lambda_loss, scores, numpy_lambda_loss(scores, graded, mu), graded, mu=mu)
    for weighting, k in itertools.product(WEIGHTINGS, (None, 1, 2)):
        expected = numpy_lambda_loss(scores, graded, mu, weighting, k)
        check(lambda_loss, scores, expected, graded, mu=mu, weighting_scheme=weighting, k=k)


def test_lambda_loss_reads_grades_of_the_set_where_it_is_told_to():
    scores, grades = torch.tensor([[0.2, 0.9, -0.3]]), torch.tensor([[1.0, 3.0, 0.0]])
    graded = LambdaLoss(graded=True, k=2)
    assert graded(scores, grades).item() == pytest.approx(lambda_loss(scores, grades, k=2).item())
    assert LambdaLoss()(scores, grades).item() == LambdaLoss()(scores).item()


def test_documents_that_a_row_lacks_cost_nothing():
    scores, grades = torch.tensor([[0.2, 0.9, -torch.inf]]), torch.tensor([[1.0, 0.0, 0.0]])
    for weighting in WEIGHTINGS:
        whole = lambda_loss(scores, grades, weighting_scheme=weighting)
        assert whole.item() == pytest.approx(
            lambda_loss(scores[:, :2], grades[:, :2], weighting_scheme=weighting).item()
        )


def test_list_mle_is_the_likelihood_of_an_order():
    """Over all orders of three documents the probabilities add up to 1."""
    scores = torch.tensor([[0.3, -1.0, 0.7]], dtype=torch.float64)
    every = [list_mle(scores, torch.tensor([one])) for one in itertools.permutations((0.0, 1.0, 2.0))]
    assert sum(math.exp(-one) for one in every) == pytest.approx(1)


def test_without_a_teacher_the_positive_comes_first():
    """Then ListMLE is the cross entropy of finding it, and a teacher who says no more changes nothing."""
    scores = torch.tensor([[0.2, 0.5, -0.1], [1.0, 0.0, 0.3]])
    expected = torch.nn.functional.cross_entropy(scores / 0.05, torch.zeros(2, dtype=torch.long))
    assert ListMLE(temperature=0.05)(scores).item() == pytest.approx(expected.item())
    said = torch.tensor([[9.0, -2.0, -2.0]]).expand(2, 3)
    assert ListMLE(temperature=0.05)(scores, said).item() == pytest.approx(expected.item())


def test_a_student_that_scores_as_its_teacher_has_nothing_to_learn():
    scores = torch.randn(5, 4, dtype=torch.float64)
    for loss in (MarginMSE(temperature=0.05), ListKL(temperature=0.05)):
        assert loss(scores * 0.05, scores + 7).item() == pytest.approx(0, abs=1e-12)  # a shift says nothing


def test_ndcg_weighs_a_mistake_at_the_top_most():
    """Positive at rank 2, of three: ρ = 1 − 1/log₂3 to the first, δ = 1 − 1/log₂3 to both neighbours."""
    scores = torch.tensor([[0.0, 1.0, -1.0]])
    step = 1 - 1 / math.log2(3)
    above = (step + 10 * step) * math.log2(1 + math.e)
    below = ((1 / math.log2(3) - 0.5) + 10 * step) * math.log2(1 + 1 / math.e)
    value, logs = LambdaLoss().with_logs(scores)
    assert value.item() == pytest.approx(above + below, rel=1e-6)
    assert logs["accuracy"].item() == 0
    assert logs["score_gap"].item() == 0
