"""Methods of merging: closed forms on small tensors."""

import math

import pytest
import torch

from juzhen.merging.merge import MergeRecipe, merge_models
from juzhen.merging.methods import (
    METHODS,
    dare,
    largest,
    linear,
    model_stock,
    multislerp,
    slerp,
    task_arithmetic,
    ties,
)

A, B = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 2.0])


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


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
    assert model_stock([A, A * 1e38]).isnan().all()  # a merge refuses NaN
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


WEIGHTS = [0.2, 1.0, 0.4]


@pytest.mark.parametrize("seed", range(3))
def test_methods_equal_their_formulas_number_by_number(seed):
    vectors = [random(8, seed=10 * seed + n) * (n + 1) for n in range(3)]
    total = sum(WEIGHTS)
    means = [sum(w * float(v[n]) for w, v in zip(WEIGHTS, vectors, strict=True)) for n in range(8)]
    assert linear(vectors, WEIGHTS).tolist() == pytest.approx([one / total for one in means], abs=1e-5)
    assert task_arithmetic(vectors, WEIGHTS).tolist() == pytest.approx(means, abs=1e-5)
    assert ties(vectors, WEIGHTS, density=0.5).tolist() == pytest.approx(ties_by_hand(vectors, 4), abs=1e-5)

    first, second, _ = vectors
    share, angle = 0.4 / 0.6, math.acos(torch.cosine_similarity(first, second, dim=0))
    expected = math.sin((1 - share) * angle) * first + math.sin(share * angle) * second
    assert torch.allclose(slerp([first, second], [0.2, 0.4]), expected / math.sin(angle), atol=1e-5)

    cosines = [torch.cosine_similarity(vectors[a], vectors[b], dim=0) for a, b in ((0, 1), (0, 2), (1, 2))]
    cosine = float(sum(cosines)) / 3
    expected = 3 * cosine / (1 + 2 * cosine) * sum(vectors) / 3
    assert torch.allclose(model_stock(vectors), expected, atol=1e-4)

    merged = multislerp(vectors, WEIGHTS)
    lengths = [float(vector.norm()) for vector in vectors]
    length = sum(w * one for w, one in zip(WEIGHTS, lengths, strict=True)) / total
    assert float(merged.norm()) == pytest.approx(length, rel=1e-5)
    mean = sum(w * v / one for w, v, one in zip(WEIGHTS, vectors, lengths, strict=True))
    mean = mean / mean.norm()
    step = sum(  # each direction less its part along the mean
        w / total * (v / one - (v / one) @ mean * mean)
        for w, v, one in zip(WEIGHTS, vectors, lengths, strict=True)
    )
    size = float(step.norm()) + 1e-8
    point = math.cos(size) * mean + math.sin(size) / size * step
    assert torch.allclose(merged, length * point, atol=1e-4)


def ties_by_hand(vectors, kept):
    merged = []
    smallest = [sorted(vector.abs().tolist())[-kept] for vector in vectors]
    for n in range(len(vectors[0])):
        parts = [
            (w, w * float(v[n]))
            for w, v, least in zip(WEIGHTS, vectors, smallest, strict=True)
            if abs(v[n]) >= least
        ]
        sign = 1 if sum(part for _, part in parts) >= 0 else -1
        parts = [(w, part) for w, part in parts if part * sign > 0]
        merged.append(sum(part for _, part in parts) / sum(w for w, _ in parts) if parts else 0.0)
    return merged


def test_dare_weighs_each_and_draws_them_one_after_another():
    vectors = [random(50, seed=n) for n in range(2)]
    draw, alone = torch.Generator().manual_seed(2), []
    for vector in vectors:
        mask = torch.bernoulli(torch.full((50,), 0.4), generator=draw)
        alone.append(vector * mask * (vector.abs().sum() / (vector * mask).abs().sum()))
    found = dare(vectors, [0.3, 2.0], density=0.4, generator=torch.Generator().manual_seed(2))
    assert torch.allclose(found, 0.3 * alone[0] + 2.0 * alone[1], atol=1e-5)
    assert torch.equal(dare(vectors, [1, 0], density=1.0, generator=draw), vectors[0])


def test_directions_that_cancel_out_have_no_mean_on_a_sphere_but_two_have_one_on_the_line():
    assert multislerp([A, -3 * A], [1, 1]).tolist() == [-1, 0]
    one, two = torch.tensor(2.0), torch.tensor(4.0)
    assert multislerp([one, two], [1, 3]).item() == pytest.approx(3.5)


@pytest.mark.parametrize("name", METHODS)
def test_vectors_are_counted_from_the_base_and_scaled(name):
    method, base = METHODS[name], random(6, seed=9)
    tensors = [random(6, seed=n) for n in range(method.models[1] or 3)]
    weights = [1.0] * len(tensors)
    given = lambda: {"density": 0.5, "generator": torch.Generator().manual_seed(0)}  # noqa: E731
    found = method.merge(tensors, base if method.of_vectors else None, weights, scale=0.5, **given())
    chosen = {key: value for key, value in given().items() if key in method.takes}
    arguments = [weights] * method.is_weighted
    if method.of_vectors:
        whole = method.function([tensor - base for tensor in tensors], *arguments, **chosen)
        assert torch.allclose(found, base + 0.5 * whole, atol=1e-6)
    else:
        assert torch.allclose(found, method.function(tensors, *arguments, **chosen))
