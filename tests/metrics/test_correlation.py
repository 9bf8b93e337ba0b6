import warnings

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from juzhen.metrics import correlation
from juzhen.metrics.correlation import (
    mean_interval,
    partial_spearman,
    pearson,
    spearman,
    spearman_interval,
)

FUNCTIONS = [(spearman, scipy.stats.spearmanr), (pearson, scipy.stats.pearsonr)]


def noisy_pairs(rows: int, *, levels: int | None = None, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Scores and grades that agree in part; `levels` makes both coarse, so that many rows tie."""
    generator = np.random.default_rng(seed)
    grades = generator.normal(size=rows)
    scores = grades + generator.normal(size=rows)
    if levels is not None:
        scores, grades = np.round(scores * levels), np.round(grades * levels)
    return scores.astype(np.float32), grades.astype(np.float32)


@pytest.mark.parametrize(("ours", "theirs"), FUNCTIONS)
@pytest.mark.parametrize("levels", [None, 1, 2])
def test_equals_scipy_on_float32(ours, theirs, levels):
    scores, grades = noisy_pairs(500, levels=levels)
    expected = theirs(scores.astype(np.float64), grades.astype(np.float64)).statistic
    assert ours(scores, grades) == pytest.approx(expected, abs=1e-12)


def test_known_values():
    assert spearman(np.array([1.0, 2.0, 3.0]), np.array([1.0, 4.0, 9.0])) == pytest.approx(1)
    assert spearman(np.array([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 1.0])) == pytest.approx(-1)
    # Ranks 1.5 1.5 3 against 1 2 3: 1.5 / sqrt(1.5 · 2)
    assert spearman(np.array([0.5, 0.5, 0.9]), np.array([0.0, 1.0, 2.0])) == pytest.approx(1.5 / 3**0.5)


def test_pearson_keeps_its_digits_on_values_far_from_zero():
    scores, grades = noisy_pairs(2000)
    assert pearson(scores + 1000, grades) == pytest.approx(pearson(scores, grades), abs=1e-6)


def test_differences_below_float32_are_ties():
    """Float64 noise around equal cosines must not order rows that a float32 model cannot tell apart."""
    scores = np.array([0.5, 0.5 + 1e-12, 0.5 - 1e-12, 0.9])
    grades = np.array([0.0, 1.0, 2.0, 3.0])
    assert spearman(scores, grades) == spearman(scores.astype(np.float32), grades)
    assert spearman(scores, grades) != pytest.approx(scipy.stats.spearmanr(scores, grades).statistic)


@pytest.mark.parametrize("function", [spearman, pearson])
@pytest.mark.parametrize(
    ("scores", "grades"), [([], []), ([1], [1]), ([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [0, 0, 0])]
)
def test_undefined_is_none_without_a_warning(function, scores, grades):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert function(np.array(scores), np.array(grades)) is None


@pytest.mark.parametrize("levels", [None, 1])
def test_bootstrap_equals_the_same_resamples_one_by_one(levels):
    scores, grades = noisy_pairs(150, levels=levels)
    drawn = np.random.default_rng(7).integers(0, 150, (200, 150))
    expected = np.quantile([spearman(scores[rows], grades[rows]) for rows in drawn], [0.05, 0.95])
    interval = spearman_interval(scores, grades, samples=200, confidence=0.9, seed=7)
    assert interval == pytest.approx(tuple(expected), abs=1e-12)


def test_bootstrap_equals_scipy_bootstrap():
    scores, grades = noisy_pairs(120, levels=2)
    theirs = scipy.stats.bootstrap(
        (scores.astype(np.float64), grades.astype(np.float64)),
        lambda x, y: scipy.stats.spearmanr(x, y).statistic,
        paired=True,
        vectorized=False,
        n_resamples=200,
        method="percentile",
        rng=np.random.default_rng(3),
    ).confidence_interval
    ours = spearman_interval(scores, grades, samples=200, confidence=0.95, seed=3)
    assert ours == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_bootstrap_does_not_depend_on_the_chunks(monkeypatch):
    scores, grades = noisy_pairs(101)
    options = {"samples": 37, "confidence": 0.95, "seed": 1}
    intervals = []
    for cells in (1, 350, 10**6):
        monkeypatch.setattr(correlation, "CELLS_PER_CHUNK", cells)
        intervals.append(spearman_interval(scores, grades, **options))
    assert intervals[0] == intervals[1] == intervals[2]
    assert intervals[0] != spearman_interval(scores, grades, **(options | {"seed": 2}))


def test_bootstrap_leaves_constant_resamples_out():
    """One row carries all the variation: many resamples have no correlation."""
    scores, grades = np.zeros(120), np.zeros(120)
    scores[7] = grades[7] = 1
    low, high = spearman_interval(scores, grades, samples=50, confidence=0.95, seed=0)
    assert (low, high) == pytest.approx((1, 1))


HOW = {"samples": 1000, "confidence": 0.95, "seed": 0}


@pytest.mark.parametrize(("rows", "right"), [(10, 9), (10, 10), (10, 0), (60, 57), (2000, 1997)])
def test_of_few_rows_a_share_has_the_exact_interval(rows, right):
    """In all ten rows right says little about the eleventh; the percentiles of a bootstrap said 1 to 1."""
    values = np.repeat([1.0, 0.0], [right, rows - right])
    low, high = mean_interval(values, **(HOW | {"samples": 20_000}))
    exact = scipy.stats.binomtest(right, rows).proportion_ci(method="exact")
    assert (low, high) == pytest.approx((exact.low, exact.high), abs=0.01 if rows < 100 else 0.0005)


def test_of_many_rows_a_mean_has_the_percentiles_of_its_resamples():
    values = np.random.default_rng(0).random(150)
    drawn = correlation.resampled_means(values, samples=1000, seed=0)
    assert mean_interval(values, **HOW) == tuple(np.quantile(drawn, [0.025, 0.975]))
    assert mean_interval(values, **HOW) != mean_interval(values[:99], **HOW)


def test_of_few_rows_a_mean_without_bounds_may_be_far_above():
    losses = np.random.default_rng(1).exponential(size=20)
    low, high = mean_interval(losses, **HOW, bounds=None)
    assert low < losses.mean() < high
    assert high - losses.mean() > 1.3 * (losses.mean() - low)
    for nothing_known in (np.ones(20), losses[:2]):
        assert mean_interval(nothing_known, **HOW, bounds=None) == (None, None)
    low, high = mean_interval(losses[:3], **HOW, bounds=None)
    assert low < losses[:3].mean() < high


def test_of_few_rows_a_correlation_has_the_interval_of_fishers_z():
    scores, grades = noisy_pairs(40, levels=1)
    value = spearman(scores, grades)
    reach = 1.959964 * np.sqrt((1 + value**2 / 2) / 37)
    ends = np.tanh([np.arctanh(value) - reach, np.arctanh(value) + reach])
    assert spearman_interval(scores, grades, **HOW) == pytest.approx(tuple(ends))
    perfect = [spearman_interval(np.arange(rows), np.arange(rows), **HOW) for rows in (3, 4, 10, 50)]
    assert perfect[0] == (-1, 1)
    assert [high for _, high in perfect] == pytest.approx([1] * 4)
    assert -1 < perfect[1][0] < 0.5 < perfect[2][0] < perfect[3][0] < 1
    labels = np.repeat([0, 1], 25)
    assert 0.8 < spearman_interval(labels, labels, **HOW)[0] < 0.9  # one wrong row of 50 changes more
    opposite = spearman_interval(np.arange(10), -np.arange(10), **HOW)
    assert opposite == pytest.approx((-1, -perfect[2][0]))


def of_shares(share):
    return lambda draw, rows: (draw.random(rows) < share).astype(float), share


def of_ranks(draw, rows):
    """Reciprocal ranks of right answers, most of them first."""
    return 1 / draw.geometric(0.82, rows)


def of_labels(share, distance):
    def pairs(draw, rows):
        labels = (draw.random(rows) < share).astype(float)
        return draw.normal(size=rows) + distance * labels, labels

    return pairs


def of_grades(agreement, levels=None):
    def pairs(draw, rows):
        grades = draw.normal(size=rows)
        scores = agreement * grades + np.sqrt(1 - agreement**2) * draw.normal(size=rows)
        return scores, grades if levels is None else np.clip(np.round(grades * 2), -levels, levels)

    return pairs


@pytest.mark.slow
@pytest.mark.parametrize("rows", [10, 20, 50, 200])
@pytest.mark.parametrize("share", [0.5, 0.9, 0.95, "ranks"])
def test_means_are_covered(share, rows):
    """95 % is said: of 1,000 sets drawn from one distribution 93 % must have its mean in their interval."""
    draw_rows, mean = (of_ranks, np.log(0.82) * -0.82 / 0.18) if share == "ranks" else of_shares(share)
    covered = 0
    for seed in range(1000):
        low, high = mean_interval(draw_rows(np.random.default_rng(seed), rows), **(HOW | {"samples": 400}))
        covered += low <= mean <= high
    assert covered >= 930


CORRELATED = {
    "labels": of_labels(0.5, 1), "well told labels": of_labels(0.5, 2), "rare labels": of_labels(0.2, 1.5),
    "noise": of_labels(0.5, 0), "grades": of_grades(0.6), "near grades": of_grades(0.9), "coarse": of_grades(0.8, 3),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("rows", [10, 20, 50, 200])
@pytest.mark.parametrize("kind", CORRELATED)
def test_correlations_are_covered(kind, rows):
    draw_pairs = CORRELATED[kind]
    value = spearman(*draw_pairs(np.random.default_rng(10**6), 200_000))
    covered, count = 0, 1000
    for seed in range(count):
        pairs = draw_pairs(np.random.default_rng(seed), rows)
        low, high = spearman_interval(*pairs, **(HOW | {"samples": 300}))
        count -= low is None  # all of one label
        covered += low is not None and low <= value <= high
    assert covered >= 0.93 * count


def test_bootstrap_of_nothing_is_none():
    options = {"confidence": 0.95, "seed": 0}
    assert spearman_interval(np.ones(5), np.arange(5), samples=10, **options) == (None, None)
    assert spearman_interval(np.arange(5), np.arange(5), samples=0, **options) == (None, None)
    assert spearman_interval(np.ones(1), np.ones(1), samples=10, **options) == (None, None)


def test_the_interval_of_larger_samples_is_narrower_and_holds_the_value():
    widths = []
    for rows in (100, 2000):
        scores, grades = noisy_pairs(rows)
        low, high = spearman_interval(scores, grades, samples=300, confidence=0.95, seed=0)
        assert low < spearman(scores, grades) < high
        widths.append(high - low)
    assert widths[1] < widths[0] / 3


columns = st.integers(2, 30).flatmap(
    lambda rows: st.tuples(
        *[st.lists(st.floats(-1, 1, width=32), min_size=rows, max_size=rows) for _ in "ab"], st.randoms()
    )
)


@given(columns)
def test_spearman_ignores_row_order_and_monotone_scales(drawn):
    scores, grades, random = np.array(drawn[0]), np.array(drawn[1]), drawn[2]
    value = spearman(scores, grades)
    order = random.sample(range(len(scores)), len(scores))
    for changed in (spearman(scores[order], grades[order]), spearman(scores * 8, grades)):
        assert changed == value or changed == pytest.approx(value, abs=1e-12)
    assert value is None or -1 - 1e-12 <= value <= 1 + 1e-12


def test_partial_spearman_correlates_what_a_line_through_the_third_leaves_of_the_ranks():
    scores, grades = noisy_pairs(60, levels=3)
    given = (grades + noisy_pairs(60, seed=1)[0]).astype(np.float32)
    ranks = [scipy.stats.rankdata(values) for values in (scores, grades, given)]
    residuals = [side - np.polyval(np.polyfit(ranks[2], side, 1), ranks[2]) for side in ranks[:2]]
    assert partial_spearman(scores, grades, given) == pytest.approx(np.corrcoef(residuals)[0, 1])
    assert partial_spearman(scores, grades, np.ones(60)) is None
    assert partial_spearman(scores, grades, 2 * grades) is None


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_an_interval_stays_within_its_bounds(value):
    low, high = mean_interval(np.full(24, value), samples=40, confidence=0.95, seed=0)
    assert 0 <= low <= value <= high <= 1
