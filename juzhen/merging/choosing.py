"""Weights of a merge that do best on dev: a search over shares or factors, and the greedy soup."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize

from juzhen.core.errors import UserError
from juzhen.core.kinds import main_metric_keys
from juzhen.data.loading import load_job_data
from juzhen.evaluation.run import Pass
from juzhen.evaluation.settings import EvaluationSettings
from juzhen.merging.methods import METHODS

Weights = Sequence[float] | np.ndarray
Score = Callable[[Sequence[float]], float]
"""Weights → what the merged model reaches on dev, higher is better."""

GRID = 11
"""Shares that are tried of two models: 0, 0.1, … 1."""


class DevScore:
    """The mean over dev sets of the measure that speaks for each, such as Spearman's correlation.

    encoder   is scored with the weights that it has at the time
    settings  name the sets under `evaluate`, and where they lie

    Raises UserError where no set has a dev split.
    """

    def __init__(self, encoder: Any, settings: EvaluationSettings) -> None:
        self._pass = Pass(encoder, settings)
        data = load_job_data(settings, {}, unscored=self._pass.evaluator.unscored)
        self._sets = data.evaluation
        self.names = [dataset.name for dataset in data.evaluation]
        missing = [name for name in settings.evaluate if name not in self.names]
        if missing:
            raise UserError(
                f"weights are chosen on dev splits, and there is none of {', '.join(missing)} below "
                f"{settings.data_dir}; name sets that have one"
            )

    def __call__(self) -> float:
        evaluation, _ = self._pass(self._sets, seen={})
        values = [evaluation.scores[key].value for key in main_metric_keys(evaluation.scores)]
        return float(np.mean([-1.0 if value is None else value for value in values]))


class Tried:
    """A score that remembers: each mixture is measured once, at most `trials` of them."""

    def __init__(self, score: Score, trials: int) -> None:
        self._score, self._trials = score, trials
        self.values: dict[tuple[float, ...], float] = {}

    def __call__(self, weights: Weights) -> float:
        key = tuple(round(float(weight), 4) for weight in weights)
        if key not in self.values:
            if len(self.values) >= self._trials:
                return -np.inf
            self.values[key] = self._score(key)
        return self.values[key]

    @property
    def best(self) -> tuple[float, ...]:
        return max(self.values, key=self.values.__getitem__)  # the first of equals


def chosen_weights(score: Score, count: int, *, method: str, trials: int) -> Tried:
    """What was tried, in order: equal weights first, then each model alone, then a search.

    Shares of two models are tried on a grid. Shares of more, and factors, are searched by Nelder and Mead (1965), which
    begins with each model alone.
    """
    if method == "greedy_soup":
        return greedy_soup(score, count)
    tried, alone = Tried(score, trials), np.eye(count)
    is_sum = METHODS[method].is_sum
    tried(np.full(count, 1.0 if is_sum else 1 / count))
    for weights in alone:
        tried(weights)
    if count == 2 and not is_sum:
        for share in np.linspace(0, 1, GRID):
            tried([1 - share, share])
        return tried
    free = count if is_sum else count - 1  # the last share is what is left of 1

    def weights_of(point: np.ndarray) -> np.ndarray:
        point = np.clip(point, 0, None)
        if is_sum:
            return point
        whole = np.append(point, max(0.0, 1 - point.sum()))
        return whole / whole.sum()

    start = np.vstack([alone[:free, :free], np.full(free, 1.0 if is_sum else 1 / count)])
    minimize(
        lambda point: -tried(weights_of(point)) if weights_of(point).any() else np.inf,
        start[-1],
        method="Nelder-Mead",
        options={"initial_simplex": start, "maxfev": trials, "xatol": 0.01, "fatol": 1e-4},
    )
    return tried


def greedy_soup(score: Score, count: int) -> Tried:
    """The models from the best on dev down; one stays in the mean if that does no worse with it.

    (Wortsman et al. 2022, https://arxiv.org/abs/2203.05482, recipe 1.)
    """
    tried = Tried(score, 2 * count)
    alone = [tried(weights) for weights in np.eye(count)]
    order = sorted(range(count), key=lambda number: -alone[number])
    soup, reached = [order[0]], alone[order[0]]
    for number in order[1:]:
        value = tried(_mean_of([*soup, number], count))
        if value >= reached:
            soup, reached = [*soup, number], value
    best = tuple(round(float(weight), 4) for weight in _mean_of(soup, count))
    tried.values = {best: tried.values.pop(best)} | tried.values  # of equals the larger soup
    return tried


def _mean_of(chosen: Sequence[int], count: int) -> list[float]:
    return [1 / len(chosen) if number in chosen else 0.0 for number in range(count)]
