"""What two spaces have in common, against closed forms and loops."""

import numpy as np
import pytest

from juzhen.metrics.geometry import linear_cka, neighbours_kept


def cloud(rows=30, dim=6, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, dim)) + 0.5


def test_cka_is_the_cosine_of_centred_gram_matrices():
    first, second = cloud(), cloud(dim=4, seed=1)
    centre = np.eye(30) - 1 / 30
    left, right = (centre @ side @ side.T @ centre for side in (first, second))
    expected = np.sum(left * right) / np.sqrt(np.sum(left**2) * np.sum(right**2))
    assert linear_cka(first, second) == pytest.approx(expected, abs=1e-12)
    assert linear_cka(second, first) == pytest.approx(expected, abs=1e-12)


def test_cka_is_one_for_a_turned_moved_and_larger_space_and_none_without_variance():
    first = cloud()
    turn = np.linalg.qr(cloud(6, seed=2))[0]
    assert linear_cka(first, 3 * first @ turn + 7) == pytest.approx(1, abs=1e-12)
    halves = np.repeat([[1.0, -1.0]], 5, axis=0).ravel()
    across = np.tile([1.0, 1.0, -1.0, -1.0], 3)[:10]
    across -= halves * (across @ halves) / (halves @ halves) + across.mean()
    assert linear_cka(halves[:, None], across[:, None]) == pytest.approx(0, abs=1e-12)
    assert linear_cka(first, np.ones((30, 3))) is None


def test_neighbours_kept_equals_the_loop():
    first, second = cloud(), cloud(dim=4, seed=1)

    def nearest(rows, row):
        lengths = np.linalg.norm(rows, axis=1)
        cosines = rows @ rows[row] / (lengths * lengths[row])
        return {*[other for other in np.argsort(-cosines) if other != row][:5]}

    expected = np.mean([len(nearest(first, row) & nearest(second, row)) / 5 for row in range(30)])
    assert neighbours_kept(first, second, num_neighbours=5) == pytest.approx(expected)
    assert neighbours_kept(first, 2 * first, num_neighbours=5) == 1
    assert neighbours_kept(first[:5], second[:5], num_neighbours=5) is None
