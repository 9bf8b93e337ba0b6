"""Projections in two dimensions, against scikit-learn and algebra."""

import numpy as np
import pytest

from juzhen.evaluation.space import project, shown_share, turned
from juzhen.metrics.geometry import unit


def cloud(rows=40, dim=8, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, dim)) * np.arange(dim, 0, -1)


def test_pca_is_that_of_the_unit_vectors_and_says_how_much_it_shows():
    vectors = unit(cloud())
    left, values, _ = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
    expected = left[:, :2] * values[:2]
    points = project(7 * cloud(), "pca", seed=0)
    signs = np.sign((points * expected).sum(axis=0))
    np.testing.assert_allclose(points, expected * signs, atol=1e-10)
    assert shown_share(cloud()) == pytest.approx((values[:2] ** 2).sum() / (values**2).sum())
    assert not project(np.ones((5, 3)), "pca", seed=0).any()
    assert shown_share(np.ones((5, 3))) is None


def test_tsne_keeps_clusters_and_is_the_same_with_the_same_seed():
    rows = np.repeat(np.eye(2, 8), 15, axis=0) + cloud(30) / 100
    points = project(rows, "tsne", seed=3)
    distances = np.linalg.norm(points[:, None] - points[None], axis=2) + 1e9 * np.eye(30)
    assert ((distances.argmin(axis=1) < 15) == (np.arange(30) < 15)).all()
    np.testing.assert_array_equal(points, project(rows, "tsne", seed=3))


def test_a_map_is_turned_and_mirrored_onto_another():
    like = cloud(dim=2)
    angle = np.array([[np.cos(2), -np.sin(2)], [np.sin(2), np.cos(2)]])
    moved = (like * [1, -1]) @ angle + 5
    np.testing.assert_allclose(turned(moved, like), like - like.mean(axis=0), atol=1e-9)
