import warnings

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from juzhen.metrics import correlation
from juzhen.metrics.correlation import bootstrap_interval, partial_spearman, pearson, spearman

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


@pytest.mark.parametrize("function", [spearman, pearson])
def test_names_the_first_row_that_is_not_finite(function):
    with pytest.raises(ValueError, match=r"row 1: the score is nan \(2 such rows\)"):
        function(np.array([0.1, np.nan, np.nan]), np.array([0.0, 1.0, 1.0]))
    with pytest.raises(ValueError, match="row 2: the grade is inf"):
        function(np.array([0.1, 0.2, 0.3]), np.array([0.0, 1.0, np.inf]))


@pytest.mark.parametrize("levels", [None, 1])
def test_bootstrap_equals_the_same_resamples_one_by_one(levels):
    scores, grades = noisy_pairs(150, levels=levels)
    drawn = np.random.default_rng(7).integers(0, 150, (200, 150))
    expected = np.quantile([spearman(scores[rows], grades[rows]) for rows in drawn], [0.05, 0.95])
    interval = bootstrap_interval(scores, grades, samples=200, confidence=0.9, seed=7)
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
    ours = bootstrap_interval(scores, grades, samples=200, confidence=0.95, seed=3)
    assert ours == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_bootstrap_does_not_depend_on_the_chunks(monkeypatch):
    scores, grades = noisy_pairs(101)
    options = {"samples": 37, "confidence": 0.95, "seed": 1}
    intervals = []
    for cells in (1, 350, 10**6):
        monkeypatch.setattr(correlation, "CELLS_PER_CHUNK", cells)
        intervals.append(bootstrap_interval(scores, grades, **options))
    assert intervals[0] == intervals[1] == intervals[2]
    assert intervals[0] != bootstrap_interval(scores, grades, **(options | {"seed": 2}))


def test_bootstrap_leaves_constant_resamples_out():
    """Three rows, one of which carries all the variation: many resamples have no correlation."""
    scores, grades = np.array([0.1, 0.1, 0.9]), np.array([0.0, 0.0, 1.0])
    low, high = bootstrap_interval(scores, grades, samples=50, confidence=0.95, seed=0)
    assert (low, high) == pytest.approx((1, 1))


def test_bootstrap_of_nothing_is_none():
    options = {"confidence": 0.95, "seed": 0}
    assert bootstrap_interval(np.ones(5), np.arange(5), samples=10, **options) == (None, None)
    assert bootstrap_interval(np.arange(5), np.arange(5), samples=0, **options) == (None, None)
    assert bootstrap_interval(np.ones(1), np.ones(1), samples=10, **options) == (None, None)


def test_the_interval_of_larger_samples_is_narrower_and_holds_the_value():
    widths = []
    for rows in (100, 2000):
        scores, grades = noisy_pairs(rows)
        low, high = bootstrap_interval(scores, grades, samples=300, confidence=0.95, seed=0)
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
