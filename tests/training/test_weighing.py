"""Weights of tasks against closed forms, in float64, on toys of two tasks."""

import math

import pytest
import torch

from callbacks.set_weights import (
    by_gradient_norm,
    by_loss_ratio,
    by_mean_loss,
    by_score,
    by_uncertainty,
    without_conflicts,
)


def pair(first: float, second: float) -> torch.Tensor:
    return torch.tensor([first, second], dtype=torch.float64)


def test_weights_follow_the_mean_loss():
    weights = pair(0.25, 0.75)
    assert by_mean_loss(weights, pair(3, 1), alpha=0.5).tolist() == pytest.approx([0.5, 0.5])
    assert by_mean_loss(8 * weights, pair(3, 1), alpha=0.5).tolist() == pytest.approx([4, 4])
    assert by_mean_loss(weights, pair(math.nan, 1), alpha=0.5).tolist() == pytest.approx([0.25, 0.75])
    assert by_mean_loss(weights, pair(0, 0), alpha=0.5).tolist() == weights.tolist()


def test_what_falls_more_slowly_weighs_more():
    shares = [math.exp(0.9 / 2), math.exp(0.5 / 2)]
    expected = [2 * share / sum(shares) for share in shares]
    assert by_loss_ratio(pair(1.8, 1), pair(2, 2), temperature=2).tolist() == pytest.approx(expected)
    assert by_loss_ratio(pair(1.8, 1), pair(math.nan, math.nan), temperature=2).tolist() == [1, 1]


def test_a_learnt_variance_ends_at_the_loss():
    variances = pair(0, 0).requires_grad_()
    optimizer = torch.optim.LBFGS(
        [variances], max_iter=100, tolerance_grad=1e-12, line_search_fn="strong_wolfe"
    )
    losses = pair(0.2, 5)

    def cost() -> torch.Tensor:
        optimizer.zero_grad()
        total = sum(by_uncertainty(loss, variance) for loss, variance in zip(losses, variances, strict=True))
        total.backward()
        return total

    assert cost().item() == pytest.approx(5.2)
    assert variances.grad.tolist() == pytest.approx([1 - 0.2, 1 - 5])
    optimizer.step(cost)
    assert variances.tolist() == pytest.approx([math.log(0.2), math.log(5)], abs=1e-6)


def test_a_step_of_gradnorm_is_the_gradient_of_its_loss():
    weights, norms, losses, first = pair(0.5, 1.5), pair(4, 1), pair(1, 3), pair(2, 4)
    learnt = weights.clone().requires_grad_()
    lengths = learnt * norms
    progress = losses / first
    targets = (lengths.mean() * (progress / progress.mean()) ** 1.5).detach()
    (lengths - targets).abs().sum().backward()
    moved = weights - 0.025 * learnt.grad
    expected = 2 * moved / moved.sum()
    step = by_gradient_norm(weights, norms, losses, first, alpha=1.5, rate=0.025)
    assert step.tolist() == pytest.approx(expected.tolist(), abs=1e-12)


def test_gradnorm_ends_with_gradients_of_like_length():
    """Two losses a_k x²: with alpha 0, w_k is in inverse proportion to a_k."""
    weights, norms = pair(1, 1), pair(6, 2)
    for _ in range(4000):
        weights = by_gradient_norm(weights, norms, pair(3, 1), pair(3, 1), alpha=0, rate=1e-3)
    assert weights.tolist() == pytest.approx([0.5, 1.5], abs=0.02)


def test_a_high_score_weighs_little():
    focal = [-(0.2**2) * math.log(0.8), -(0.7**2) * math.log(0.3)]
    expected = [2 * value / sum(focal) for value in focal]
    assert by_score(pair(0.8, 0.3), gamma=2).tolist() == pytest.approx(expected)
    assert by_score(pair(1.0, -0.2), gamma=1).isfinite().all()


def test_conflicts_are_projected_away():
    """g₁ = (1, 0) and g₂ = (−1, 1): g₁ becomes (½, ½) and g₂ (0, 1)."""
    first, second = [pair(1, 0)], [pair(-1, 1)]
    (total,) = without_conflicts([first, second])
    assert total.tolist() == pytest.approx([0.5, 1.5], abs=1e-15)
    assert (first[0].tolist(), second[0].tolist()) == ([1, 0], [-1, 1])
    (agreed,) = without_conflicts([[pair(1, 0)], [pair(1, 1)]])
    assert agreed.tolist() == [2, 1]


def test_three_gradients_as_the_algorithm_says_over_several_tensors():
    drawn = torch.Generator().manual_seed(0)
    gradients = [
        [
            torch.randn(3, generator=drawn, dtype=torch.float64),
            torch.randn(2, 2, generator=drawn, dtype=torch.float64),
        ]
        for _ in range(3)
    ]
    flat = [torch.cat([part.flatten() for part in gradient]) for gradient in gradients]
    order = torch.Generator().manual_seed(3)
    expected = torch.zeros(7, dtype=torch.float64)
    for number, gradient in enumerate(flat):
        kept = gradient.clone()
        for other in torch.randperm(3, generator=order).tolist():
            if other != number and (dot := kept @ flat[other]) < 0:
                kept = kept - dot / (flat[other] @ flat[other]) * flat[other]
        expected += kept
    total = without_conflicts(gradients, generator=torch.Generator().manual_seed(3))
    assert torch.allclose(torch.cat([part.flatten() for part in total]), expected, rtol=0, atol=1e-14)
