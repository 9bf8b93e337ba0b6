from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ks_2samp
from sklearn.metrics import accuracy_score, average_precision_score, f1_score, matthews_corrcoef

from juzhen.metrics.correlation import kolmogorov_smirnov, score_distribution
from juzhen.metrics.threshold import (
    area_under_curve,
    average_precision,
    decision_quality,
    fit_threshold,
)

accuracy, f1, mcc = (partial(decision_quality, objective=name) for name in ("accuracy", "f1", "mcc"))
QUALITY = {"accuracy": accuracy, "f1": f1, "mcc": mcc}

labelled = st.lists(
    st.tuples(st.sampled_from([-0.5, 0.0, 0.1, 0.25, 0.3, 0.7, 1.0]), st.booleans()), min_size=1
)


def unzipped(rows: list[tuple[float, bool]]) -> tuple[np.ndarray, np.ndarray]:
    scores, labels = zip(*rows, strict=True)
    return np.array(scores, dtype=np.float32), np.array(labels, dtype=np.float32)


@given(labelled, st.sampled_from(["accuracy", "f1", "mcc"]))
def test_no_threshold_is_better_than_the_fitted_one(rows, objective):
    scores, labels = unzipped(rows)
    fitted = QUALITY[objective](scores, labels, threshold=fit_threshold(scores, labels, objective=objective))
    grid = [-1.0, *np.unique(scores).tolist(), 2.0]
    others = [QUALITY[objective](scores, labels, threshold=threshold) for threshold in grid]
    if objective == "accuracy" or (labels.any() and (objective == "f1" or not labels.all())):
        assert fitted == (pytest.approx(max(others), abs=1e-12) if objective == "mcc" else max(others))
    else:
        assert fitted is None


@given(labelled, st.sampled_from([-0.2, 0.1, 0.5]))
def test_equals_sklearn(rows, threshold):
    scores, labels = unzipped(rows)
    accepted = scores.astype(np.float64) >= threshold
    assert accuracy(scores, labels, threshold=threshold) == pytest.approx(accuracy_score(labels, accepted))
    if labels.any():
        assert f1(scores, labels, threshold=threshold) == pytest.approx(f1_score(labels, accepted))
    if len({*labels.tolist()}) == 2:
        expected = matthews_corrcoef(labels, accepted)
        assert mcc(scores, labels, threshold=threshold) == pytest.approx(expected)
        assert average_precision(scores, labels) == pytest.approx(average_precision_score(labels, scores))


def test_lies_half_way_between_the_neighbours():
    scores, labels = np.array([0.0, 0.25, 0.75, 1.0]), np.array([0, 0, 1, 1])
    assert fit_threshold(scores, labels, objective="accuracy") == 0.5
    assert fit_threshold(scores, labels, objective="f1") == 0.5


def test_separates_neighbouring_float32_numbers():
    """In float32 the middle would round to one of the two and accept both."""
    low = np.float32(0.5)
    for _ in range(3):
        high = np.nextafter(low, np.float32(1))
        scores, labels = np.array([low, high]), np.array([0, 1])
        threshold = fit_threshold(scores, labels, objective="accuracy")
        assert accuracy(scores, labels, threshold=threshold) == 1
        low = high


def test_one_class_accepts_all_or_none():
    scores = np.array([0.1, 0.9])
    assert fit_threshold(scores, np.array([1, 1]), objective="accuracy") == -np.inf
    assert fit_threshold(scores, np.array([0, 0]), objective="accuracy") == np.inf
    assert f1(scores, np.array([0, 0]), threshold=0.5) is None
    assert average_precision(scores, np.array([0, 0])) is average_precision(scores, np.array([1, 1])) is None


def test_objectives_differ_when_positives_are_rare():
    scores = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7])
    labels = np.array([0, 0, 0, 1, 0, 0, 1])
    assert fit_threshold(scores, labels, objective="accuracy") == pytest.approx(0.65)
    scores, labels = np.arange(9) / 10, np.array([0, 0, 0, 1, 0, 1, 0, 0, 0])
    assert fit_threshold(scores, labels, objective="accuracy") == np.inf
    assert fit_threshold(scores, labels, objective="f1") == pytest.approx(0.25)


def test_cross_fitting_does_not_flatter():
    """Scores without any meaning: the fitted threshold finds luck on its own rows, cross-fitting none."""
    fitted, crossed = [], []
    for seed in range(30):
        generator = np.random.default_rng(seed)
        scores, labels = generator.normal(size=60), generator.integers(0, 2, 60)
        threshold = fit_threshold(scores, labels, objective="accuracy")
        fitted.append(accuracy(scores, labels, threshold=threshold))
        crossed.append(accuracy(scores, labels, threshold=None))
    assert np.mean(fitted) > 0.57
    assert np.mean(crossed) == pytest.approx(0.5, abs=0.04)


def test_the_area_is_the_share_of_pairs_in_order():
    generator = np.random.default_rng(4)
    labels = generator.integers(0, 2, 60)
    scores = np.round(labels + generator.normal(size=60), 1)  # with ties
    differences = scores[labels == 1][:, None] - scores[labels == 0]
    expected = np.mean((differences > 0) + (differences == 0) / 2)
    assert area_under_curve(scores, labels) == pytest.approx(expected)
    assert area_under_curve(scores, np.ones(60)) is None


def test_cross_fitting_finds_what_is_there_and_repeats_itself():
    generator = np.random.default_rng(0)
    labels = np.tile([1, 0], 200)
    scores = labels + generator.normal(size=400) * 0.2
    assert accuracy(scores, labels, threshold=None) > 0.97
    assert f1(scores, labels, threshold=None) > 0.97
    assert accuracy(scores, labels, threshold=None) == accuracy(scores, labels, threshold=None)


def test_cross_fitting_needs_rows_on_both_sides():
    assert accuracy(np.array([0.1, 0.2, 0.3]), np.array([0, 1, 1]), threshold=None) is None
    assert f1(np.array([0.1, 0.2, 0.3, 0.4]), np.zeros(4), threshold=None) is None
    assert accuracy(np.zeros(0), np.zeros(0), threshold=0.0) is None


def test_the_spread_by_hand():
    found = score_distribution(np.array([0.9, 0.1, 0.5, 0.5]), np.array([1.0, 0.0, 0.8, 0.5]))
    assert found["score_mean"] == pytest.approx(0.5)
    assert found["score_variance"] == pytest.approx(0.08)
    assert found["ks"] == 0.5  # at most 0.1: no positive, half of the others


@pytest.mark.parametrize("shift", [0.0, 0.3, 2.0])
def test_the_distance_of_both_labels_is_that_of_scipy(shift):
    generator = np.random.default_rng(1)
    first, second = generator.normal(shift, 1, 700).round(1), generator.normal(0, 1, 900).round(1)
    distance, probability = kolmogorov_smirnov(first, second)
    expected = ks_2samp(first, second, method="asymp")
    assert distance == pytest.approx(expected.statistic, abs=1e-12)
    assert probability == pytest.approx(expected.pvalue, rel=0.2, abs=1e-9)


def test_the_ends_of_the_spread():
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
