"""Decision accuracy, regret and intervals against plain loops and simulated matrices."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from juzhen.advice.search import difference
from juzhen.advice.trials import measured
from juzhen.metrics.matrix_statistics import leave_one_out, low_rank
from tools.decisions import (
    column_noise,
    decision_accuracy,
    fixed_regret,
    random_regret,
    regret,
    seed_deviation,
)


@pytest.fixture
def matrices():
    draw = np.random.default_rng(0)
    names = {"index": list("abcdefg"), "columns": list("UVWXY")}
    truth = draw.normal(50, 5, (7, 5))
    cheap = truth + draw.normal(0, 3, (7, 5))
    cheap[2, 3] = np.nan
    cheap[4, 1] = cheap[5, 1]
    return pd.DataFrame(cheap, **names), pd.DataFrame(truth, **names)


@pytest.mark.parametrize("least", [0.0, 2.0])
def test_decision_accuracy_is_that_of_a_plain_loop(matrices, least):
    cheap, truth = matrices
    alike = []
    for target in truth:
        for first, second in combinations(truth.index, 2):
            ours = cheap.at[first, target] - cheap.at[second, target]
            theirs = truth.at[first, target] - truth.at[second, target]
            if not np.isnan(ours) and abs(theirs) >= least:
                alike.append(0.5 if ours == 0 else float(ours * theirs > 0))
    found = decision_accuracy(cheap, truth, least=least)
    assert found.value == pytest.approx(100 * np.mean(alike))
    assert found.count == len(alike)
    assert found.low < found.value < found.high


@pytest.mark.parametrize("picks", [1, 3])
def test_regret_is_that_of_a_plain_loop(matrices, picks):
    cheap, truth = matrices
    lost = []
    for target in truth:
        known = cheap[target].dropna().index
        first = cheap.loc[known, target].sort_values(ascending=False, kind="stable").index[:picks]
        lost.append(truth.loc[known, target].max() - truth.loc[first, target].max())
    assert regret(cheap, truth, picks=picks).value == pytest.approx(np.mean(lost))
    assert regret(truth, truth).value == 0
    assert random_regret(truth) > fixed_regret(truth)[1] > 0


def test_no_decision_is_no_number(matrices):
    cheap, truth = matrices
    found = decision_accuracy(cheap, truth, least=1000.0)
    assert np.isnan(found.value)
    assert found.count == 0


def test_noise_between_seeds_is_found():
    draw = np.random.default_rng(1)
    lines = [
        (source, target, seed, level + draw.normal(0, 1.5))
        for source, level in zip("abcdefgh", draw.normal(50, 6, 8), strict=True)
        for target in "UVWXYZ"
        for seed in range(5)
    ]
    scores = pd.DataFrame(lines, columns=["source", "target", "seed", "score"])
    assert seed_deviation(scores) == pytest.approx(1.5, rel=0.15)
    assert column_noise(scores)["signal"].mean() == pytest.approx(6, rel=0.4)


def test_missing_cells_of_a_matrix_of_rank_one_are_found():
    truth = pd.DataFrame(np.outer([1.0, 2, 3, 4, 5, 6], [1.0, -1, 2, 3, 0.5]) + 40)
    gaps = truth.mask(np.eye(6, 5, dtype=bool))
    filled = low_rank(gaps, rank=1, rounds=2000, shrink=0.0)
    assert np.abs(filled - truth).to_numpy().max() < 0.5
    assert leave_one_out(truth, lambda table: low_rank(table, rank=1, shrink=0.0)) < leave_one_out(
        truth, lambda table: table.fillna(table.mean())
    )


@pytest.mark.slow
def test_intervals_of_differences_cover_the_truth_in_93_to_97_percent():
    """Scores are means of rows; both rows and seeds are drawn anew in each of 1,500 simulated comparisons."""
    draw, covered, trials = np.random.default_rng(2), 0, 1500
    rows, seeds, deviation, truth = 300, 2, 1.05, 2.0
    for _ in range(trials):
        shared = draw.normal(0, 40, rows)  # what makes a row hard for both
        of_seeds = draw.normal(0, deviation, (2, seeds))
        values = [60 + shared + draw.normal(0, 15, rows) + level for level in (truth, 0.0)]
        sides = [
            [measured((value + offset) / 100, None, rows) for offset in offsets]
            for value, offsets in zip(values, of_seeds, strict=True)
        ]
        found = difference(*sides, deviation)
        covered += found.low <= truth <= found.high
    assert 0.93 < covered / trials < 0.97
