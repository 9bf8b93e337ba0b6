"""Methods of merging: closed forms on small tensors."""

import math

import pytest
import torch

from juzhen.merging.merge import MergeRecipe, merge_models
from juzhen.merging.methods import METHODS, dare, largest, linear, model_stock, multislerp, slerp, ties

A, B = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 2.0])


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_linear_is_the_weighted_mean():
    assert linear([A, B], [1, 3]).tolist() == [0.25, 1.5]


def test_slerp_goes_along_the_arc():
    half = slerp([A, B / 2], [1, 1])
    assert torch.allclose(half, torch.tensor([math.sqrt(0.5)] * 2))
    assert torch.allclose(
        slerp([A, B / 2], [2, 1]), torch.tensor([math.cos(math.pi / 6), math.sin(math.pi / 6)])
    )


@pytest.mark.parametrize("share", [0.3, 0.5, 0.9])
def test_slerp_of_equal_models_is_that_model(share):
    weights = random(7, 5)
    assert torch.equal(slerp([weights, weights.clone()], [1 - share, share]), weights)


def test_multislerp_of_two_of_length_1_is_slerp():
    units = [torch.nn.functional.normalize(random(9, seed=seed), dim=0) for seed in (1, 2)]
    assert torch.allclose(multislerp(units, [1, 1]), slerp(units, [1, 1]), atol=1e-6)
    assert torch.allclose(multislerp([A, A, A], [1, 2, 3]), A, atol=1e-6)


def test_a_tensor_of_zeros_stays_zero():
    zeros = torch.zeros(3)
    for name, method in METHODS.items():
        many = [zeros] * (2 if name == "slerp" else 3)
        numbers = {"density": 0.5, "generator": torch.Generator()}
        merged = method.merge(many, zeros if method.of_vectors else None, [1.0] * len(many), **numbers)
        assert torch.equal(merged, zeros), name


def test_ties_trims_elects_a_sign_and_averages_those_that_have_it():
    vectors = [torch.tensor([4.0, -1.0, 0.1]), torch.tensor([2.0, 3.0, 0.2]), torch.tensor([-1.0, 5.0, 9.0])]
    assert largest(vectors[2], 2 / 3).tolist() == [0, 5, 9]
    # trimmed: [4, −1, 0] [2, 3, 0] [0, 5, 9]
    assert ties(vectors, [1, 1, 1], density=2 / 3).tolist() == [3.0, 4.0, 9.0]


def test_dare_keeps_a_share_and_the_sum_of_sizes():
    vector = random(10_000)
    kept = dare([vector], [1.0], density=0.3, generator=torch.Generator().manual_seed(1))
    assert (kept != 0).float().mean() == pytest.approx(0.3, abs=0.02)
    assert kept.abs().sum() == pytest.approx(float(vector.abs().sum()), rel=1e-5)
    again = dare([vector], [1.0], density=0.3, generator=torch.Generator().manual_seed(1))
    assert torch.equal(kept, again)


def test_model_stock_believes_models_as_far_as_they_agree():
    assert torch.allclose(model_stock([A, A]), A)
    assert model_stock([A, B]).tolist() == [0, 0]
    third = torch.tensor([0.5, math.sqrt(0.75)])  # 60°: t = 2 · ½ / (1 + ½)
    assert torch.allclose(model_stock([A, third]), 2 / 3 * (A + third) / 2)


class Three(list):
    """Models of which nothing is asked but how many they are, and what was merged."""

    licences = (None,) * 3

    def merge(self, method, weights, **numbers):
        return method, weights, numbers


@pytest.mark.parametrize(
    ("method", "weights"), [("linear", 1 / 3), ("ties", 1 / 3), ("task_arithmetic", 1.0), ("dare", 1.0)]
)
def test_without_weights_shares_are_equal_and_factors_one(method, weights):
    merged = merge_models(Three("abc"), MergeRecipe(method, density=0.3, scale=0.7, seed=4))
    assert merged.weights == pytest.approx([weights] * 3)
    assert merged.encoder == (method, merged.weights, {"density": 0.3, "scale": 0.7, "seed": 4})


def test_all_but_the_largest_numbers_are_dropped_up_to_the_whole():
    vector = torch.tensor([3.0, -5.0, 1.0, 2.0])
    kept = {density: largest(vector, density).tolist() for density in (0.1, 0.5, 0.99, 1.0)}
    assert kept == {0.1: [0, -5, 0, 0], 0.5: [3, -5, 0, 0], 0.99: [3, -5, 0, 2], 1.0: [3, -5, 1, 2]}
