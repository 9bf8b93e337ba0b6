"""Mean, variance and the test of positives against the others."""

import numpy as np
import pytest
from scipy.stats import ks_2samp

from juzhen.metrics.distribution import kolmogorov_smirnov, score_distribution


def test_by_hand():
    found = score_distribution(np.array([0.9, 0.1, 0.5, 0.5]), np.array([1.0, 0.0, 0.8, 0.5]))
    assert found["score_mean"] == pytest.approx(0.5)
    assert found["score_variance"] == pytest.approx(0.08)
    assert found["ks"] == 0.5  # at most 0.1: no positive, half of the others


@pytest.mark.parametrize("shift", [0.0, 0.3, 2.0])
def test_it_is_the_test_of_scipy(shift):
    generator = np.random.default_rng(1)
    first, second = generator.normal(shift, 1, 700).round(1), generator.normal(0, 1, 900).round(1)
    distance, probability = kolmogorov_smirnov(first, second)
    expected = ks_2samp(first, second, method="asymp")
    assert distance == pytest.approx(expected.statistic, abs=1e-12)
    assert probability == pytest.approx(expected.pvalue, rel=0.2, abs=1e-9)


def test_the_ends():
    apart, alike = np.array([0.0, 1.0, 5.0, 6.0]), np.full(4, 0.3)
    labels = np.array([0.0, 0.0, 1.0, 1.0])
    assert score_distribution(apart, labels)["ks"] == 1
    assert score_distribution(alike, labels) == {
        "score_mean": pytest.approx(0.3),
        "score_variance": pytest.approx(0),
        "ks": 0,
        "ks_p_value": 1,
    }
    only = score_distribution(apart, np.ones(4))
    assert (only["ks"], only["ks_p_value"], only["score_mean"]) == (None, None, 3)
    assert set(score_distribution(np.empty(0), np.empty(0)).values()) == {None}
