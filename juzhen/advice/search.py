"""Successive halving over sources, what own rows add, and an unbiased estimate of the best source.

Halving as in Jamieson and Talwalkar (2016), section 3: all sources with few rows, then the better ones with four times
as many. A source is dropped where its paired difference to the best one is clearly below zero, or where it is in the
lower half. Differences are paired: all trainings are scored on the same rows.

The best of several measured scores is too high on average: luck helped to choose it (the winner's curse). The
estimate of Andrews, Kitagawa and McCloskey (2024, "Inference on Winners", The Quarterly Journal of Economics 139 (1),
305-358) conditions on the choice: given that it won, the estimate is a truncated normal variable. Their hybrid interval
(section 4) also keeps the truth within the simultaneous interval of level BETA, so that it stays short near a tie. All
data both choose and estimate, so no row is set aside.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.optimize import brentq
from scipy.special import ndtr as norm_cdf
from scipy.stats import norm, rankdata
from sklearn.feature_extraction.text import TfidfVectorizer

from juzhen.advice.target import Target, TrainingSet
from juzhen.advice.trials import OWN, Recipe, TimeIsUpError, Trial, Trials, passes
from juzhen.core.examples import Examples
from juzhen.core.text import time_in_words
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.metrics.comparison import error_of_rows
from juzhen.metrics.matrix_statistics import rows_needed, seeds_needed

BETA = 0.1
"""Share of the allowed misses that the simultaneous interval uses, as the authors recommend."""


def winner_interval(
    value: float,
    error: float,
    leads: Float[np.ndarray, " rival"],
    covariances: Float[np.ndarray, " rival"],
    *,
    level: float = 0.05,
) -> tuple[float, float, float]:
    """Compute a median-unbiased estimate of the winner, and its hybrid interval.

    Args:
        value: Measured value of the winner.
        error: Its standard error.
        leads: How far it is ahead of each rival, in the scores that chose it. Not negative.
        covariances: Of each lead with `value`.
        level: Share of intervals that miss the truth.

    Returns:
        The estimate, the lower and the upper end.

    Example:
        >>> close = winner_interval(3.0, 1.0, np.array([0.1]), np.array([1.0]))
        >>> [round(number, 1) for number in close]
        [0.1, -0.0, 4.1]
        >>> clear = winner_interval(3.0, 1.0, np.array([5.0]), np.array([1.0]))
        >>> [round(number, 1) for number in clear]
        [3.0, 1.0, 5.0]
    """
    if error == 0:
        return value, value, value
    slopes = covariances / error**2
    with np.errstate(divide="ignore", invalid="ignore"):
        # The lead of a rival stays positive as long as the value is on this side of the bound.
        bounds = value - leads / slopes
    lowest = float(np.max(bounds[slopes > 1e-9], initial=-np.inf))
    highest = float(np.min(bounds[slopes < -1e-9], initial=np.inf))
    missed = BETA * level
    width = error * float(norm.ppf(1 - missed / (2 * (len(leads) + 1))))
    tail = (level - missed) / (1 - missed) / 2

    def below(mean: float) -> float:
        ends = np.array([max(lowest, mean - width), value, min(highest, mean + width)])
        low, here, high = (
            norm_cdf((ends - mean) / error) if ends[0] < mean else -norm_cdf((mean - ends) / error)
        )
        return float((here - low) / (high - low))

    def mean_at(share: float) -> float:
        # `below` falls from 1 to 0 in the mean. The ends are left out, where nothing is between the bounds.
        inner = width * (1 - 1e-9)
        return float(brentq(lambda mean: below(mean) - share, value - inner, value + inner))

    return mean_at(0.5), mean_at(1 - tail), mean_at(tail)


FIRST_ROWS, LEAST_FIRST, ROWS_STEP, GROWTH = 1000, 500, 100, 4
"""Fewer rows than LEAST_FIRST choose hardly better than chance (results/decide)."""
RESERVE = 1.5
"""Times the expected time must be left for a training: a busy machine is not evenly busy."""

SHARE_FOR_SOURCES, SHARE_FOR_PANEL = 0.55, 0.12
"""Of the time: for choosing sources, and kept for the panel."""

USUAL_DEVIATION, USUAL_FREEDOM = 1.05, 4
"""Deviation between seeds in points (pooled over results/transfer), and how many observations it is worth."""

Stages = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Difference:
    """How much better one recipe is than another, in points.

    Args:
        value: Mean difference on the same rows.
        low: Lower end of the interval.
        high: Upper end.
        row_error: Standard error because other rows could have been scored.
        seed_error: Standard error because other seeds could have been drawn.
    """

    value: float
    low: float
    high: float
    row_error: float
    seed_error: float

    @property
    def is_clear(self) -> bool:
        """True if the interval excludes 0."""
        return self.low > 0 or self.high < 0

    def __str__(self) -> str:
        return f"{self.value:+.1f} [{self.low:+.1f}, {self.high:+.1f}]"


def difference(
    first: Sequence[Float[np.ndarray, " number"]],
    second: Sequence[Float[np.ndarray, " number"]],
    deviation: float,
    *,
    level: float = 0.05,
) -> Difference:
    """Compute a paired difference of scores with an interval.

    The variance is that over rows plus that between seeds. The interval is normal.

    Args:
        first: For each seed the score, then the influence of each row on it (`measured`).
        second: The same of the other recipe.
        deviation: Standard deviation between seeds, in points. 0 if nothing was trained.
        level: Share of intervals that miss the truth.

    Returns:
        The difference, first minus second.
    """
    gaps = np.mean(first, axis=0) - np.mean(second, axis=0)
    rows, _ = error_of_rows(gaps[1:], are_values=False)
    seeds = deviation * float(np.sqrt(1 / len(first) + 1 / len(second)))
    half = float(norm.ppf(1 - level / 2)) * float(np.hypot(rows, seeds))
    value = float(gaps[0])
    return Difference(value, value - half, value + half, rows, seeds)


@dataclass(frozen=True)
class Curve:
    """What more own rows bring.

    Args:
        rows: Own rows of each training.
        scores: Score of each, in points.
        per_doubling: Predicted gain of twice the rows, with its interval.
    """

    rows: tuple[int, ...]
    scores: tuple[float, ...]
    per_doubling: Difference


class Search:
    """Chooses trainings until the answer is clear or the time is over.

    Args:
        trials: Makes them.
        order: Sources, the most promising first.
        minutes: Time for all of it.
        seeds: Seeds that are drawn, in order.
        report: Called with a line after each training.
        begun: Start of the search, by time.monotonic. None: now.
    """

    def __init__(
        self,
        trials: Trials,
        order: Sequence[str],
        *,
        minutes: float,
        seeds: Sequence[int] = (42, 1, 2),
        report: Callable[[str], None] = print,
        begun: float | None = None,
    ) -> None:
        self.trials, self.order, self.seeds, self.report = trials, list(order), tuple(seeds), report
        self.begun, self.minutes = time.monotonic() if begun is None else begun, minutes
        trials.deadline = self.begun + 60 * minutes
        self.stopped_by = "the answer is clear"
        self.curve: Curve | None = None
        self.not_tried: list[str] = []

    @property
    def left(self) -> float:
        """Seconds left."""
        return 60 * self.minutes - (time.monotonic() - self.begun)

    def run(self) -> None:
        """Make trainings. Ctrl-C ends the search and keeps the finished trainings."""
        self._make((), self.seeds[0], with_panel=True)
        try:
            kept = self._choose_sources()
            self._add_own_rows(kept)
            self._repeat_finalists()
            for stages in filter(None, self.contenders()[:2]):
                self._make(stages, self.seeds[0], with_panel=True)
            if len(self.contenders()) > 1:
                self.stopped_by = "all planned trainings are made"
        except KeyboardInterrupt:
            self.stopped_by = "Ctrl-C"
        except TimeIsUpError:
            self.stopped_by = "the time is up"

    # Statistics of what was made.

    def seeds_of(self, stages: Stages) -> list[Trial]:
        """Return the finished trainings of a recipe, one a seed.

        Args:
            stages: (source, rows) of each stage. () is the untrained encoder.

        Returns:
            Trials in the order in which they were made.
        """
        return [trial for trial in self.trials.made if trial.recipe.stages == stages]

    @property
    def recipes(self) -> list[Stages]:
        """Finished recipes, the best first, by their gain over the untrained encoder."""
        made = list(dict.fromkeys(trial.recipe.stages for trial in self.trials.made))
        return sorted(made, key=lambda stages: -self.gain(stages))

    @property
    def untrained(self) -> float:
        """Score of the untrained encoder on all rows, in points."""
        return float(self.seeds_of(())[0].scores["all"][0])

    def gain(self, stages: Stages) -> float:
        """Return the mean gain over the untrained encoder, on the rows that the recipe has not learnt from.

        The untrained encoder is scored on the same rows. So a recipe of all rows and one of dev rows can be compared.

        Args:
            stages: A finished recipe.

        Returns:
            Points, as the mean over its seeds.
        """
        return float(np.mean(self._gains(stages), axis=0)[0])

    def _gains(self, stages: Stages) -> list[Float[np.ndarray, " number"]]:
        """For each seed the gain, then the influence of each row on it."""
        rows = "dev" if OWN in dict(stages) else "all"
        (untrained,) = self.seeds_of(())
        return [trial.scores[rows] - untrained.scores[rows] for trial in self.seeds_of(stages)]

    @property
    def deviation(self) -> float:
        """Standard deviation between seeds: of recipes with several, together with the usual one."""
        squares, freedom = USUAL_FREEDOM * USUAL_DEVIATION**2, float(USUAL_FREEDOM)
        for stages in self.recipes:
            values = [trial.scores["dev"][0] for trial in self.seeds_of(stages)]
            if stages and len(values) > 1:
                squares += float(np.var(values) * len(values))
                freedom += len(values) - 1
        return float(np.sqrt(squares / freedom))

    def compare(self, first: Stages, second: Stages, *, level: float = 0.05) -> Difference:
        """Compare the gains of two recipes.

        Args:
            first: A finished recipe.
            second: Another one. () is the untrained encoder.
            level: Share of intervals that miss the truth.

        Returns:
            First minus second, in points.
        """
        sides = [self._gains(stages) for stages in (first, second)]
        found = difference(sides[0], sides[1], self.deviation, level=level)
        if first and second:
            return found
        # The untrained encoder has no seeds.
        one = (
            self.deviation * float(np.sqrt(1 / max(len(sides[0 if first else 1]), 1)))
            if first or second
            else 0.0
        )
        half = float(norm.ppf(1 - level / 2)) * float(np.hypot(found.row_error, one))
        return Difference(found.value, found.value - half, found.value + half, found.row_error, one)

    def gain_of_best(self, *, level: float = 0.05) -> Difference:
        """Estimate the gain of the best recipe over the untrained encoder, corrected for having been chosen.

        The same rows and seeds have chosen it. See `winner_interval`.

        Args:
            level: Share of intervals that miss the truth.

        Returns:
            The gain in points. 0 if the untrained encoder is the best.
        """
        best, *others = self.recipes
        plain = self.compare(best, (), level=level)
        if not best:
            return plain
        of_gain, *of_others = (np.mean(self._gains(stages), axis=0) for stages in (best, *others))
        leads = np.array([of_gain - each for each in of_others])
        rows = leads.shape[1] - 1
        of_rows = leads[:, 1:] @ (of_gain[1:] - of_gain[1:].mean()) / (rows * (rows - 1))
        error = float(np.hypot(plain.row_error, plain.seed_error))
        value, low, high = winner_interval(
            plain.value, error, leads[:, 0], of_rows + plain.seed_error**2, level=level
        )
        return Difference(value, low, high, plain.row_error, plain.seed_error)

    def behind_best(self, *, level: float = 0.05) -> dict[Stages, Difference]:
        """Compute the distance of each other recipe to the best one.

        All intervals hold together, by Bonferroni's correction: the best was chosen among all.

        Args:
            level: Share of calls in which an interval misses the truth.

        Returns:
            Recipe → the best minus this one, in points.
        """
        best, *others = self.recipes
        return {each: self.compare(best, each, level=level / len(others)) for each in others}

    def contenders(self, *, level: float = 0.05) -> list[Stages]:
        """Return the recipes not clearly worse than the best one.

        Args:
            level: As in `behind_best`.

        Returns:
            Recipes, the best first.
        """
        behind = self.behind_best(level=level)
        return [self.recipes[0], *(each for each, found in behind.items() if not found.low > 0)]

    def needed(self, found: Difference) -> tuple[int, int]:
        """Return the scored rows, and the seeds for each side, that would decide the measured difference.

        Args:
            found: Difference of two recipes. Below 0.1 points it counts as 0.1.

        Returns:
            Number of scored rows, and number of seeds.
        """
        size = max(abs(found.value), 0.1)
        return (
            rows_needed(self.trials.target.num_scored, found.row_error, size),
            seeds_needed(self.deviation, size),
        )

    # What is made.

    def _make(self, stages: Stages, seed: int, *, with_panel: bool = False) -> Trial:
        rows = sum(passes(name, count) * count for name, count in stages)
        per_row = self.trials.seconds_per_row or self._usual_seconds_per_row
        expected = per_row * rows + self.trials.scoring_seconds * (2 if with_panel else 1)
        recipe = Recipe(stages, seed)
        if (
            self.trials.made
            and RESERVE * expected > self.left
            and not self.trials.knows(recipe, with_panel=with_panel)
        ):
            raise TimeIsUpError
        known, reused = len(self.trials.made), self.trials.num_reused
        trial = self.trials.make(recipe, with_panel=with_panel)
        if len(self.trials.made) > known or with_panel:
            counts = " + ".join(f"{count:,}" for _, count in stages)
            reached = f"{self.gain(stages):+.1f} points" if stages else f"{trial.scores['all'][0]:.1f}"
            named = f"{trial.recipe} ({counts} rows)" if stages else str(trial.recipe)
            reached += " (of an earlier call)" if self.trials.num_reused > reused else ""
            self.report(f"{named}: {reached}; {time_in_words(max(self.left, 0))} left")
        return trial

    @property
    def _usual_seconds_per_row(self) -> float:
        """Four forward passes, of two texts a row, as the target was just scored."""
        return 4 * self.trials.scoring_seconds / max(len(self.trials.target.scored), 1)

    def _has_time(self, stages: Stages, *, until: float, seed: int | None = None) -> bool:
        if self.trials.knows(Recipe(stages, self.seeds[0] if seed is None else seed)):
            return True
        rows = sum(count for _, count in stages)
        needed = self.trials.seconds_per_row * rows + self.trials.scoring_seconds
        return self.left - needed > until

    def _first_rows(self, names: Sequence[str], seconds: float) -> int:
        """Rows of the first round, so that all sources are tried in half of the time for sources, where that is enough.

        Those of an earlier call are taken again.
        """
        for known in range(LEAST_FIRST, FIRST_ROWS + 1, ROWS_STEP):
            long = [name for name in names if len(self.trials.sources[name].rows) > known]
            if any(self.trials.knows(Recipe(((name, known),), self.seeds[0])) for name in long):
                return known
        per_row = max(self._usual_seconds_per_row, 1e-6)
        rows = (seconds / 2 / max(len(names), 1) - self.trials.scoring_seconds) / per_row
        return int(np.clip(rows // ROWS_STEP * ROWS_STEP, LEAST_FIRST, FIRST_ROWS))

    def _choose_sources(self) -> list[Stages]:
        """The sources that stay, the best first, each with the most rows that it was tried with."""
        until, seed = (1 - SHARE_FOR_SOURCES) * 60 * self.minutes, self.seeds[0]
        names = [name for name in self.order if name != OWN]
        rows = self._first_rows(names, self.left - until)
        kept: list[Stages] = []
        while names:
            tried: list[Stages] = []
            for name in names:
                stages = ((name, min(rows, len(self.trials.sources[name].rows))),)
                if tried and not self._has_time(stages, until=until):
                    if not kept:
                        self.not_tried.append(name)
                    continue
                self._make(stages, seed)
                tried.append(stages)
            ranked = sorted(tried, key=lambda stages: -self.gain(stages))
            kept = ranked or kept
            best = ranked[0]
            level = 0.05 / max(len(ranked) - 1, 1)
            close = [each for each in ranked[1:] if not self.compare(best, each, level=level).low > 0]
            # Small trainings alone choose badly: the measured rank and the one before any training count alike.
            close.sort(key=lambda stages: ranked.index(stages) + self.order.index(stages[0][0]))
            survivors = [best, *close[: max(len(ranked) // 2 - 1, 1)]]
            grows = any(len(self.trials.sources[stages[0][0]].rows) > rows for stages in survivors)
            most = min(rows * GROWTH, len(self.trials.sources[survivors[0][0][0]].rows))
            if not grows or not self._has_time(((survivors[0][0][0], most),), until=until):
                return ranked
            names, rows = [stages[0][0] for stages in survivors], rows * GROWTH
        return kept

    def _add_own_rows(self, kept: Sequence[Stages]) -> None:
        """Train on own rows alone, a quarter, half and all of them, and after the best sources."""
        own = self.trials.target.own
        if own is None or len(own.rows) < 20:
            return
        count, seed = len(own.rows), self.seeds[0]
        whole: Stages = ((OWN, count),)
        self._make(whole, seed)
        for stages in kept[:2]:
            self._make((*stages, *whole), seed)
        if len(kept) > 1:
            self._make((*kept[1], *kept[0], *whole), seed)
        parts = [count // 4, count // 2, count]
        of_parts = [self._make(((OWN, part),), seed) for part in parts]
        scores = np.stack([trial.scores["dev"] for trial in of_parts])
        steps = np.log2(parts) - np.mean(np.log2(parts))
        slopes = (steps[:, None] * scores).sum(axis=0) / (steps**2).sum()
        rows, _ = error_of_rows(slopes[1:], are_values=False)
        seeds = self.deviation / float(np.sqrt((steps**2).sum()))
        half, slope = 1.96 * float(np.hypot(rows, seeds)), float(slopes[0])
        found = Difference(slope, slope - half, slope + half, rows, seeds)
        self.curve = Curve(tuple(parts), tuple(map(float, scores[:, 0])), found)

    def _repeat_finalists(self) -> None:
        """Repeat the recipes that may be the best with further seeds, until one is clear."""
        for seed in self.seeds[1:]:
            contenders = self.contenders()
            if len(contenders) == 1:
                return
            for stages in contenders[:3]:
                if stages and self._has_time(stages, until=SHARE_FOR_PANEL * 60 * self.minutes, seed=seed):
                    self._make(stages, seed)

    def lost_elsewhere(self, stages: Stages) -> Mapping[str, float]:
        """Return the change of each set of the panel against the untrained encoder.

        Args:
            stages: A finished recipe.

        Returns:
            Set → mean change over the seeds, in points. Empty if the panel was not scored.
        """
        before, after = (
            [trial.panel for trial in self.seeds_of(each) if trial.panel] for each in ((), stages)
        )
        if not before or not after:
            return {}
        return {
            name: float(np.mean([each[name] for each in after])) - value for name, value in before[0].items()
        }


GAINS = Path(__file__).parent / "prior.csv"
MOST_TEXTS, MOST_ENCODED = 2000, 300


@cache
def stored_gains() -> pd.DataFrame:
    """Return measured gains of sources (rows) on targets (columns). Empty if none are shipped.

    Returns:
        Table of gains, read once.
    """
    return pd.read_csv(GAINS, index_col=0) if GAINS.is_file() else pd.DataFrame()


def expected_gain(source: str, target: str) -> float:
    """Return the measured gain of a source on a target.

    Args:
        source: Name of a training set.
        target: Name of the scored set. The mean over all targets is taken for an unknown one.

    Returns:
        Points. NaN for an unknown source.
    """
    gains = stored_gains()
    if source not in gains.index:
        return np.nan
    of_source = gains.loc[source]
    found = of_source.get(target, np.nan)
    return float(of_source.mean() if pd.isna(found) else found)


def mean_tfidf(sets: Sequence[Examples]) -> np.ndarray:
    """Compute mean TF-IDF vectors over characters and pairs of them.

    Args:
        sets: The target and the sources, at least one.

    Returns:
        float32 (sets, terms), each row of length 1.
    """
    texts = [_texts(each) for each in sets]
    vectorizer = TfidfVectorizer(analyzer="char", ngram_range=(1, 2), sublinear_tf=True, dtype=np.float32)
    vectorizer.fit([text for part in texts for text in part])
    means = np.stack([np.asarray(vectorizer.transform(part).mean(axis=0)).ravel() for part in texts])
    return np.asarray(means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-9))


def _mean_embeddings(encoder: SentenceEncoder, sets: Sequence[Examples]) -> np.ndarray:
    """Compute the mean embedding of at most MOST_ENCODED texts of each set, of length 1, (sets, dim)."""
    means = [np.asarray(encoder.encode(_texts(each)[:MOST_ENCODED])).mean(axis=0) for each in sets]
    return np.stack([mean / max(float(np.linalg.norm(mean)), 1e-9) for mean in means])


def trial_order(sources: Sequence[TrainingSet], target: Target, encoder: SentenceEncoder) -> list[str]:
    """Order the sources by the sum of ranks.

    Ranks are by TF-IDF, by mean embeddings, and by earlier gains. In results/decide the first two choose better than
    trainings of some hundred rows do.

    Args:
        sources: Training sets. Without any the list is empty.
        target: Set to be scored on.
        encoder: Encoder that computes the mean embeddings.

    Returns:
        Names of the sources, the most promising first.
    """
    if not sources:
        return []
    sets = [target.scored, *(source.rows for source in sources)]
    ranks = np.zeros(len(sources))
    for of_target, *of_sources in (mean_tfidf(sets), _mean_embeddings(encoder, sets)):
        ranks += rankdata([-float(mean @ of_target) for mean in of_sources])
    gains = np.array([expected_gain(source.name, target.name) for source in sources])
    gains = np.where(np.isnan(gains), np.nanmean(gains) if np.isfinite(gains).any() else 0.0, gains)
    ranks += rankdata(-gains)
    return [sources[place].name for place in np.argsort(ranks, kind="stable")]


def _texts(examples: Examples) -> list[str]:
    used = np.unique(np.concatenate([values[:MOST_TEXTS] for values in examples.columns.values()]))[
        :MOST_TEXTS
    ]
    return [examples.sentences[place] for place in used.tolist()]
