"""Numbers of an embedding space against plain loops, and on spaces whose answer is known."""

import math

import numpy as np
import pytest

from juzhen.metrics import geometry
from juzhen.metrics.geometry import (
    alignment,
    effective_rank,
    explained_variance,
    first_component_isotropy,
    hubness,
    iso_score,
    mean_cosine,
    nearest_rows,
    neighbour_similarity,
    norms,
    score_histograms,
    silhouette,
    singular_values,
    uniformity,
)


def cloud(rows=23, dim=6, seed=0, shift=0.5):
    return np.random.default_rng(seed).normal(size=(rows, dim)) + shift


def cosine(first, second):
    dot = sum(a * b for a, b in zip(first, second, strict=True))
    return dot / math.sqrt(sum(a * a for a in first) * sum(b * b for b in second))


def ordered_pairs(rows):
    return [(i, j) for i in range(len(rows)) for j in range(len(rows)) if i != j]


@pytest.fixture(params=[4, 1024], ids=["many blocks", "one block"])
def block(request, monkeypatch):
    monkeypatch.setattr(geometry, "BLOCK", request.param)


def test_alignment_is_the_mean_squared_distance_of_pairs():
    first, second = cloud(seed=1), cloud(seed=2)
    expected = [2 - 2 * cosine(u, v) for u, v in zip(first, second, strict=True)]
    assert alignment(first, second) == pytest.approx(np.mean(expected))
    assert alignment(first, second, power=1) == pytest.approx(np.mean(np.sqrt(expected)))
    assert alignment(first, 3 * first) == pytest.approx(0)


def test_uniformity_equals_the_loop(block):
    rows = cloud()
    kernel = [math.exp(-2 * (2 - 2 * cosine(rows[i], rows[j]))) for i, j in ordered_pairs(rows)]
    assert uniformity(rows) == pytest.approx(math.log(np.mean(kernel)))
    assert uniformity(np.ones((5, 3))) == pytest.approx(0)


def test_mean_cosine_equals_the_loop():
    rows = cloud()
    expected = np.mean([cosine(rows[i], rows[j]) for i, j in ordered_pairs(rows)])
    assert mean_cosine(rows) == pytest.approx(expected)
    assert mean_cosine(np.eye(4)) == pytest.approx(0)


@pytest.mark.parametrize("count", [1, 3, 22])
def test_neighbours_equal_the_loop(block, count):
    rows = cloud()
    best = []
    for i in range(len(rows)):
        others = sorted((cosine(rows[i], rows[j]) for j in range(len(rows)) if j != i), reverse=True)
        best += others[:count]
    assert neighbour_similarity(rows, num_neighbours=count) == pytest.approx(np.mean(best))


def test_a_twin_is_a_neighbour_and_oneself_is_not():
    assert neighbour_similarity(np.array([[1.0, 0], [1, 0], [0, 1], [0, 1]]), num_neighbours=1) == 1
    assert neighbour_similarity(np.eye(3), num_neighbours=1) == 0


def test_variance_shares_are_those_of_the_covariance():
    rows = cloud(rows=50)
    values = np.sort(np.linalg.eigvalsh(np.cov(rows.T)))[::-1]
    assert explained_variance(rows) == pytest.approx(values / values.sum())


@pytest.mark.parametrize("axes", [1, 2, 5])
def test_a_space_of_equal_axes_has_their_number_as_rank(axes):
    """±1 along each of the first axes, nothing along the others: position and scale do not matter."""
    rows = np.concatenate([np.eye(5)[:axes], -np.eye(5)[:axes]]) * 7 + 100
    assert effective_rank(rows) == pytest.approx(axes, rel=1e-6)
    assert iso_score(rows) == pytest.approx((axes - 1) / 4, abs=1e-6)


def test_effective_rank_by_hand():
    """Singular values 3 and 1: the entropy of the shares 3/4 and 1/4."""
    rows = np.array([[3.0, 0], [-3, 0], [0, 1], [0, -1]])
    assert effective_rank(rows) == pytest.approx(math.exp(-0.75 * math.log(0.75) - 0.25 * math.log(0.25)))


def test_iso_score_grows_with_evenness():
    generator = np.random.default_rng(0)
    stretched = [iso_score(generator.normal(size=(4000, 8)) * [size, *[1] * 7]) for size in (20, 5, 2, 1)]
    assert stretched == sorted(stretched)
    assert stretched[0] < 0.05
    assert stretched[-1] > 0.97


def test_histograms_count_every_row_once():
    scores, grades = np.array([-1.2, -0.4, 0.1, 0.6, 1.0]), np.array([0, 0, 1, 0.4, 1])
    edges, positives, negatives = score_histograms(scores, grades, num_bins=4)
    assert edges.tolist() == [-1, -0.5, 0, 0.5, 1]
    assert positives.tolist() == [0, 0, 1, 1]
    assert negatives.tolist() == [1, 1, 0, 1]


@pytest.mark.parametrize("function", [uniformity, mean_cosine])
def test_pairs_need_two_rows(function):
    assert function(np.ones((1, 3))) is None


@pytest.mark.parametrize("function", [effective_rank, iso_score])
def test_equal_rows_have_no_directions(function):
    assert function(np.full((6, 3), 0.1)) is None


def test_too_few_rows_for_neighbours_or_pairs():
    assert neighbour_similarity(np.eye(3), num_neighbours=3) is None
    assert alignment(np.empty((0, 3)), np.empty((0, 3))) is None


def test_lengths_are_those_before_they_are_made_one():
    rows = cloud()
    lengths = [math.sqrt(sum(number * number for number in row)) for row in rows]
    mean, deviation = norms(rows)
    assert mean == pytest.approx(sum(lengths) / len(lengths))
    assert deviation == pytest.approx(
        math.sqrt(sum((one - mean) ** 2 for one in lengths) / (len(lengths) - 1))
    )
    assert norms(np.ones((1, 4))) == (2.0, None)
    assert norms(np.empty((0, 4))) == (None, None)


@pytest.mark.parametrize("axes", [1, 2, 5])
def test_the_first_component_leaves_the_rest_to_others(axes):
    rows = np.concatenate([np.eye(5)[:axes], -np.eye(5)[:axes]]) * 7 + 100
    assert first_component_isotropy(rows) == pytest.approx(1 - 1 / axes, abs=1e-6)


def test_only_the_strongest_directions_count_in_it():
    rows = np.concatenate([np.eye(80), -np.eye(80)])
    rows[0] *= 3
    rows[80] *= 3
    assert first_component_isotropy(rows) == pytest.approx(1 - 9 / (9 + 49), abs=1e-6)
    assert first_component_isotropy(rows, num_components=80) == pytest.approx(1 - 9 / (9 + 79), abs=1e-6)
    assert first_component_isotropy(np.ones((4, 3))) is None


def test_silhouette_equals_the_loop():
    rows, classes = cloud(), np.arange(23) % 3
    vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    values = []
    for i in range(23):
        means = [
            np.mean(
                [np.linalg.norm(vectors[i] - vectors[j]) for j in range(23) if j != i and classes[j] == one]
            )
            for one in range(3)
        ]
        own, other = means[classes[i]], min(mean for one, mean in enumerate(means) if one != classes[i])
        values.append((other - own) / max(own, other))
    assert silhouette(rows, classes) == pytest.approx(np.mean(values))
    assert silhouette(rows, np.zeros(23)) is None
    assert silhouette(rows, np.arange(23)) is None


def test_nearest_rows_and_hubness_equal_the_loop(block):
    rows = cloud()
    expected = [
        sorted((j for j in range(len(rows)) if j != i), key=lambda j, i=i: -cosine(rows[i], rows[j]))[:3]
        for i in range(len(rows))
    ]
    assert nearest_rows(rows, num_neighbours=3).tolist() == expected
    counts = np.bincount(np.ravel(expected), minlength=len(rows))
    skewness = np.mean((counts - counts.mean()) ** 3) / counts.std() ** 3
    assert hubness(rows, num_neighbours=3) == pytest.approx(skewness)
    assert hubness(rows[:3], num_neighbours=3) is None
    assert hubness(np.eye(4)[:2].repeat(2, axis=0), num_neighbours=1) is None  # every row once


def test_singular_values_are_those_of_the_centred_rows():
    rows = cloud()
    values = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False)
    assert singular_values(rows) == pytest.approx(values / values[0])
    assert not len(singular_values(np.ones((5, 3))))
