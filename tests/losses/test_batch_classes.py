"""Losses over the classes of a batch, as plain loops read their formulas."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from juzhen import losses

CLASSES = st.lists(st.integers(0, 2), min_size=2, max_size=8)


def drawn(classes, seed):
    vectors = np.random.default_rng(seed).normal(size=(len(classes), 5))
    return vectors, np.array(classes)


def cosines(vectors):
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit @ unit.T


def nearness(vectors):
    return -np.linalg.norm(vectors[:, None] - vectors, axis=2)


def groups(classes):
    """Of each text: the others of its class, and those of other classes."""
    rows = range(len(classes))
    for i in rows:
        same = [k for k in rows if k != i and classes[k] == classes[i]]
        yield i, same, [k for k in rows if classes[k] != classes[i]]


def loop_sup_con(scores, classes, tau):
    costs = []
    for i, same, other in groups(classes):
        below = sum(math.exp(scores[i, k] / tau) for k in same + other)
        if same:
            costs.append(-np.mean([math.log(math.exp(scores[i, k] / tau) / below) for k in same]))
    return np.mean(costs) if costs else 0


def loop_multi_similarity(scores, classes, alpha, beta, border):
    total = 0
    for i, same, other in groups(classes):
        total += math.log(1 + sum(math.exp(alpha * (border - scores[i, k])) for k in same)) / alpha
        total += math.log(1 + sum(math.exp(beta * (scores[i, k] - border)) for k in other)) / beta
    return total / len(classes)


def loop_batch_all(scores, classes, margin):
    costs = [
        margin + scores[i, n] - scores[i, p]
        for i, same, other in groups(classes)
        for p in same
        for n in other
    ]
    above = [cost for cost in costs if cost > 0]
    return np.mean(above) if above else 0


def loop_soft_margin(scores, classes, tau):
    costs = [
        math.log1p(math.exp((max(scores[i, other]) - min(scores[i, same])) / tau))
        for i, same, other in groups(classes)
        if same and other
    ]
    return np.mean(costs) if costs else 0


CASES = [
    (losses.SupCon(temperature=0.2), cosines, lambda s, c: loop_sup_con(s, c, 0.2)),
    (losses.MultiSimilarity(), cosines, lambda s, c: loop_multi_similarity(s, c, 2, 50, 0.5)),
    (losses.BatchAllTriplet(margin=0.3), cosines, lambda s, c: loop_batch_all(s, c, 0.3)),
    (
        losses.BatchAllTriplet(margin=2.0, distance="euclidean"),
        nearness,
        lambda s, c: loop_batch_all(s, c, 2),
    ),
    (losses.SoftMarginTriplet(temperature=0.5), cosines, lambda s, c: loop_soft_margin(s, c, 0.5)),
    (
        losses.SoftMarginTriplet(temperature=1.0, distance="euclidean"),
        nearness,
        lambda s, c: loop_soft_margin(s, c, 1),
    ),
]


@pytest.mark.parametrize(("loss", "score", "loop"), CASES, ids=lambda value: type(value).__name__)
@given(CLASSES, st.integers(0, 10**6))
@settings(max_examples=25)
@pytest.mark.sampled(2)
def test_losses_are_what_loops_say_and_gradients_are_finite(loss, score, loop, classes, seed):
    vectors, classes = drawn(classes, seed)
    leaf = torch.tensor(vectors, requires_grad=True)
    value = loss(leaf, torch.tensor(classes, dtype=torch.float64))
    assert value.item() == pytest.approx(loop(score(vectors), classes), rel=1e-9, abs=1e-12)
    value.backward()
    assert leaf.grad.isfinite().all()


def test_sup_con_of_two_views_is_nt_xent():
    """A class of two texts is a pair: then each looks for the other, as SimCLR has it."""
    first, second = torch.randn(2, 6, 5, dtype=torch.float64)
    both, classes = torch.cat([first, second]), torch.arange(6).repeat(2).double()
    expected = losses.NTXent(temperature=0.1)(first, second)
    assert losses.SupCon()(both, classes).item() == pytest.approx(expected.item(), rel=1e-9)
