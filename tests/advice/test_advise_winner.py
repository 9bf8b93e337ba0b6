"""The gain of the best recipe, over many simulated searches among recipes whose true gains are known."""

from types import SimpleNamespace

import numpy as np
import pytest

from juzhen.advice.search import USUAL_DEVIATION, Search, winner_interval
from juzhen.advice.target import Target
from juzhen.advice.trials import OWN, Trial, measured

DEV, SCORED = 120, 300
ROW_SPREAD = 25.0
"""Points: of the gain of single rows. Of the mean over DEV rows it is 2.3 points."""


class SimulatedTrials:
    """Scores of trainings that cost nothing: a mean over rows, which are drawn anew with each object."""

    panel, num_reused = (), 0
    seconds_per_row = scoring_seconds = 0.0

    def __init__(self, draw, gains, *, own=False):
        self.draw, self.gains = draw, gains
        rows = SimpleNamespace(rows=range(1000), total=1000)
        self.sources = dict.fromkeys(gains, rows)
        self.target = Target(
            "t", range(SCORED), rows if own else None, np.arange(SCORED) < DEV, "", None, None
        )
        self.base_rows = draw.normal(50, 30, SCORED)
        self.row_gains, self.made = {}, []

    def gain(self, stages):
        return max((self.gains[name] for name, _ in stages), default=0.0)

    def knows(self, recipe, *, with_panel=False):
        return False

    def make(self, recipe, *, with_panel=False):
        for trial in self.made:
            if trial.recipe == recipe:
                return trial
        stages = recipe.stages
        if stages not in self.row_gains:
            own = self.gain(stages) + self.draw.normal(0, ROW_SPREAD, SCORED)
            self.row_gains[stages] = own if stages else np.zeros(SCORED)
        values = self.base_rows + self.row_gains[stages]
        values = values + (self.draw.normal(0, USUAL_DEVIATION) if stages else 0.0)
        counts = {"dev": DEV} | ({} if OWN in recipe.sources else {"all": SCORED})
        scores = {name: measured(values[:count] / 100, None, SCORED) for name, count in counts.items()}
        self.made.append(Trial(recipe, {}, 0.0, None, scores))
        return self.made[-1]


def searched(draw, gains, **options):
    trials = SimulatedTrials(draw, gains, **options)
    search = Search(trials, [name for name in gains if name != OWN], minutes=1000, report=lambda _: None)
    search.run()
    return search


@pytest.mark.slow
def test_the_interval_of_the_winner_of_ten_equals_covers_the_truth():
    draw, times = np.random.default_rng(1), 1500
    covered = plain = above = 0
    for _ in range(times):
        scores = draw.normal(4.0, 1.5, 10)
        best = int(scores.argmax())
        leads = np.delete(scores[best] - scores, best)
        value, low, high = winner_interval(scores[best], 1.5, leads, np.full(9, 1.5**2))
        covered += low <= 4.0 <= high
        above += value > 4.0
        plain += abs(scores[best] - 4.0) <= 1.96 * 1.5
    assert 0.93 < covered / times < 0.97
    assert 0.45 < above / times < 0.55  # median-unbiased
    assert plain / times < 0.85  # what the correction is for


@pytest.mark.slow
@pytest.mark.parametrize(("sources", "own"), [(3, False), (3, True), (10, True)])
def test_equal_recipes_are_undecided_and_the_gain_of_the_best_is_not_flattered(sources, own):
    draw, times = np.random.default_rng(sources), 600
    covered = undecided = 0
    for _ in range(times):
        gains = {f"s{number}": 4.0 for number in range(sources)} | ({OWN: 4.0} if own else {})
        search = searched(draw, gains, own=own)
        best, found = search.recipes[0], search.gain_of_best()
        covered += found.low <= (4.0 if best else 0.0) <= found.high
        undecided += sum(1 for stages in search.contenders() if stages) > 1
    assert 0.93 < covered / times < 0.97
    assert undecided / times > 0.95


def test_a_clear_winner_keeps_its_gain_and_its_interval():
    search = searched(np.random.default_rng(7), {"good": 40.0, "poor": 0.0})
    best = search.recipes[0]
    found, plain = search.gain_of_best(), search.compare(best, ())
    assert best[0][0] == "good"
    assert found.value == pytest.approx(plain.value, abs=0.01)
    assert (found.low, found.high) == pytest.approx((plain.low, plain.high), rel=0.03)
