"""Two models on the same rows: the error of their difference, against resamples and against many draws."""

import numpy as np
import pytest
import scipy.stats

from juzhen.core.row_scores import SetRows
from juzhen.metrics.comparison import Scored, paired_gap, spearman_influence
from juzhen.metrics.correlation import Gap, resampled_correlations, spearman


def rows(kind="scored_pair", **columns):
    floats = {name: np.asarray(values, dtype=np.float32) for name, values in columns.items()}
    places = {name: np.arange(len(next(iter(floats.values()))), dtype=np.int32) for name in ("row", "line")}
    return Scored(SetRows(kind, "f", places | floats), threshold=0.5)


def drawn(count, seed=0, *, strength=(1.0, 1.0), levels=None):
    """Gold values and two models, whose mistakes are in part the same."""
    draw = np.random.default_rng(seed)
    gold = draw.normal(size=count)
    gold = gold if levels is None else np.clip(np.round(gold * 2), -levels, levels)
    shared = draw.normal(size=count)
    return gold, [each * gold + 0.8 * shared + 0.6 * draw.normal(size=count) for each in strength]


@pytest.mark.parametrize("levels", [None, 1, 3])
def test_the_influence_of_a_row_is_what_leaving_it_out_changes(levels):
    gold, (scores, _) = drawn(150, levels=levels)
    influence = spearman_influence(scores, gold)
    value = spearman(scores, gold)
    left_out = [spearman(np.delete(scores, row), np.delete(gold, row)) for row in range(150)]
    assert influence == pytest.approx(149 * (value - np.array(left_out)), abs=0.03)
    assert influence.mean() == pytest.approx(0, abs=1e-12)
    error = resampled_correlations(scores, gold, samples=2000, seed=1).std()
    assert influence.std(ddof=1) / 150**0.5 == pytest.approx(error, rel=0.06)


def test_a_difference_of_two_correlations_is_known_better_than_both():
    gold, (first, other) = drawn(400, strength=(1.0, 1.3))
    gap = paired_gap([rows(gold=gold, score=other)], [rows(gold=gold, score=first)], "spearman")
    resampled = [resampled_correlations(scores, gold, samples=1000, seed=1) for scores in (other, first)]
    assert gap.value == pytest.approx(spearman(other, gold) - spearman(first, gold))
    assert gap.error == pytest.approx((resampled[0] - resampled[1]).std(), rel=0.1)
    assert gap.error < 0.6 * np.hypot(*(samples.std() for samples in resampled))
    back = paired_gap([rows(gold=gold, score=first)], [rows(gold=gold, score=other)], "spearman")
    assert (back.value, back.error) == (pytest.approx(-gap.value), pytest.approx(gap.error))


def test_what_seeds_change_is_added_to_what_rows_change():
    draw = np.random.default_rng(0)

    def seeds(mean, spread, count):
        return [
            rows("retrieval", ndcg_at_10=draw.random(500) * 0.2 + mean + step)
            for step in np.linspace(-spread, spread, count)
        ]

    first, other = seeds(0.5, 0.03, 3), seeds(0.4, 0.0, 1)
    gap, of_rows = paired_gap(first, other, "ndcg_at_10"), paired_gap(first[1:2], other, "ndcg_at_10")
    of_seeds = np.var([run.value("ndcg_at_10") for run in first], ddof=1) / 3
    of_means = np.mean([run.rows["ndcg_at_10"] for run in first], axis=0) - other[0].rows["ndcg_at_10"]
    assert gap.error == pytest.approx((of_seeds + of_means.var(ddof=1) / 500) ** 0.5)
    assert of_rows.error < gap.error
    assert 2 < gap.freedom < 3 < of_rows.freedom == pytest.approx(499)
    assert gap.p > of_rows.p


def test_p_is_below_5_percent_where_0_is_outside_of_the_interval():
    for value in np.linspace(-3, 3, 41):
        for freedom in (0.0, 2.5, 30.0):
            low, high = Gap(value, 1.0, freedom).interval
            assert (low > 0 or high < 0) == (Gap(value, 1.0, freedom).p < 0.05)
    assert Gap(2.0, 1.0, 4.0).p == pytest.approx(2 * scipy.stats.t.sf(2, 4))
    assert (Gap(0.0, 0.0).p, Gap(0.1, 0.0).p) == (1, 0)


def test_a_few_rows_that_moved_decide_nothing():
    labels = np.tile([0.0, 1.0], 200)
    scores = np.where(labels == 1, 0.9, 0.1)
    worse = scores.copy()
    worse[:3] = 1 - worse[:3]
    first, other = (rows("labelled_pair", gold=labels, score=one) for one in (scores, worse))
    gap = paired_gap([first], [other], "accuracy")
    assert gap.value == pytest.approx(3 / 400)
    assert gap.p > 0.05
    assert scipy.stats.binomtest(0, 3).pvalue > 0.05
    assert paired_gap([first], [first], "accuracy").interval == (0, 0)
    undefined = rows(gold=labels, score=np.ones(400))
    assert paired_gap([undefined], [rows(gold=labels, score=scores)], "spearman") is None


@pytest.mark.slow
@pytest.mark.parametrize("count", [20, 50, 200])
@pytest.mark.parametrize(("strength", "levels"), [((1, 1), None), ((1, 2), None), ((1, 1.5), 2)])
def test_differences_of_correlations_are_covered(count, strength, levels):
    gold, sides = drawn(200_000, 10**6, strength=strength, levels=levels)
    true = spearman(sides[0], gold) - spearman(sides[1], gold)
    covered = tried = 0
    for seed in range(1000):
        gold, sides = drawn(count, seed, strength=strength, levels=levels)
        gap = paired_gap(*([rows(gold=gold, score=side)] for side in sides), "spearman")
        if gap is not None:
            low, high = gap.interval
            covered, tried = covered + (low <= true <= high), tried + 1
    assert covered >= 0.92 * tried
