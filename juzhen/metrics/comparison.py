"""Two models on the same rows: their difference, the slices where it is large, and the verdict on a training.

Rows that are hard for one model are hard for the other, so the difference is measured row by row: it is known far
better than the two values.
"""

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import scipy
from jaxtyping import Float

from juzhen.core.errors import UserError
from juzhen.core.examples import NLI_GRADES, Kind
from juzhen.core.kinds import main_metric
from juzhen.core.result import Result
from juzhen.core.row_scores import PLACES, ROWS_FILE, ROWS_OF_PAIRS, SetRows
from juzhen.metrics.correlation import (
    CONFIDENCE,
    FEW_OTHERS,
    FEW_ROWS,
    Gap,
    Z,
    finite,
    mean_interval,
    spearman,
)

if TYPE_CHECKING:
    import pandas as pd

SAMPLES = 1000
"""Of the interval of few rows."""
ROUNDING = 0.02
"""Largest difference of a score from that of its rows, which may be computed again in another precision."""

PerRow = Float[np.ndarray, "rows"]


@dataclass(frozen=True)
class Scored:
    """The rows of a set as one run has scored them.

    Args:
        rows: Of the set.
        threshold: Pairs from this score on are accepted. None: each half of the rows judges the other, as on
            dev, the split that thresholds are fitted on.
    """

    rows: SetRows
    threshold: float | None = None

    @classmethod
    def by(cls, result: Result, column: str, rows: SetRows) -> "Scored":
        """Rows that a run has kept, decided by its threshold.

        Args:
            result: Result of the run.
            column: `split/dataset`.
            rows: Kept rows of the column.

        Returns:
            The rows as the run scored them.

        Raises:
            UserError: They do not give the score of the result, so they are of another run, or in another order.
        """
        split, name = column.split("/")
        threshold = result.thresholds.get(name) if split != "dev" else None
        scored = cls(rows, None if threshold is None else threshold.value)
        for measure in scored.measures[:1]:
            value, known = scored.value(measure), result.scores.get(f"{column}/{measure}")
            if known and known.value is not None and abs((value or 0.0) - known.value) > ROUNDING:
                raise UserError(
                    f"{Path(result.folder) / ROWS_FILE}: {column}: its rows give {measure} {value or 0.0:.3f}, the "
                    f"result has {known.value:.3f}. Take the file away, and they are computed again where needed"
                )
        return scored

    @property
    def kind(self) -> Kind:
        return Kind(self.rows.kind)

    @cached_property
    def gold(self) -> np.ndarray:
        """Gold values for the correlation."""
        gold = self.rows["gold"]
        return np.asarray(NLI_GRADES)[gold.astype(int)] if self.kind is Kind.NLI_PAIR else gold

    @cached_property
    def right(self) -> np.ndarray | None:
        """Mask of the right decisions. None if the set has no decisions."""
        if self.kind is not Kind.LABELLED_PAIR:
            return None
        from juzhen.metrics.threshold import accepted_rows  # loads scikit-learn

        accepted = accepted_rows(self.rows["score"], self.rows["gold"], threshold=self.threshold)
        return None if accepted is None else accepted == (self.rows["gold"] == 1)

    @property
    def measures(self) -> list[str]:
        """Comparable metrics, the main one of the set first."""
        if self.kind in ROWS_OF_PAIRS:
            return ["spearman", *(["accuracy"] if self.right is not None else [])]
        names = [name for name in self.rows.columns if name not in (*PLACES, "score", "other")]
        return sorted(names, key=main_metric(self.kind).__ne__)  # a file orders columns by its first set

    @cached_property
    def error(self) -> np.ndarray:
        """Error of each row within the set from −1 to 1, the worst highest. Right decisions are below 0.

        0/1 pairs: the share of rows between the score and the threshold, positive for wrong decisions · other
        pairs: the distance of the ranks of score and gold value · others: 1 less the metric
        """
        if self.right is not None:
            ranks = scipy.stats.rankdata(self.rows["score"]) / len(self.rows)
            accepted = self.right == (self.rows["gold"] == 1)
            border = ((~accepted).sum() + 0.5) / len(ranks)
            return np.abs(ranks - border) * np.where(self.right, -1, 1)
        if self.kind in ROWS_OF_PAIRS:
            return np.abs(scipy.stats.rankdata(self.rows["score"]) - scipy.stats.rankdata(self.gold)) / len(
                self.rows
            )
        return 1 - np.nan_to_num(self.rows[self.measures[0]], nan=1.0)

    def value(self, measure: str) -> float | None:
        """Return a metric of these rows. None if it is undefined.

        Args:
            measure: Name of the metric.

        Returns:
            Its value, or None.
        """
        if measure == "spearman":
            return self._spearman
        per_row = self.per_row(measure)
        return float(per_row.mean()) if len(per_row) else None

    def per_row(self, measure: str) -> PerRow:
        """Finite values of each row, whose mean is the metric. For Spearman's correlation its influence.

        Args:
            measure: Name of the metric.

        Returns:
            One value for each row.
        """
        if measure == "spearman":
            return self._influence
        values = self.right if measure == "accuracy" else self.rows[measure]
        assert values is not None  # it is one of its measures
        values = values.astype(np.float64)
        return values[np.isfinite(values)]

    @cached_property
    def _spearman(self) -> float | None:
        return spearman(self.rows["score"], self.gold)

    @cached_property
    def _influence(self) -> PerRow:
        return spearman_influence(self.rows["score"], self.gold)


def are_same_rows(first: SetRows, other: SetRows) -> bool:
    """True if two runs have scored the same rows of a set in the same order.

    Args:
        first: Rows of one run.
        other: Rows of another run.

    Returns:
        True or False.
    """
    names = [name for name in (*PLACES, "gold") if name in first.columns]
    return (first.fingerprint, len(first)) == (other.fingerprint, len(other)) and all(
        name in other.columns and np.array_equal(first[name], other[name]) for name in names
    )


def paired_gap(
    first: Sequence[Scored],
    other: Sequence[Scored],
    measure: str,
    *,
    noise: Sequence[tuple[float, float] | None] = (None, None),
) -> Gap | None:
    """Compute `first` less `other` in a metric, each the mean over its runs (seeds), on the same rows.

    The error has two parts. One is the differences of the rows. The other is the spread over the runs of a
    side, which another seed would change. For few rows (see `mean_interval`) the first part is as wide as the
    wider side of the interval of the mean difference.

    Args:
        first: Runs of the first side.
        other: Runs of the other side.
        measure: The metric.
        noise: For each side the variance of one training over seeds and its degrees of freedom, for a side of one run.

    Returns:
        None if the metric of a run is undefined, or if some of its rows do not count.
    """
    values = [[run.value(measure) for run in runs] for runs in (first, other)]
    known = [[value for value in side if value is not None] for side in values]
    if known != values:
        return None
    per_row = [[run.per_row(measure) for run in runs] for runs in (first, other)]
    if len({len(row) for side in per_row for row in side}) > 1:
        return None
    sides = [np.mean(side, axis=0) for side in per_row]
    error, freedom = error_of_rows(sides[0] - sides[1], are_values=measure != "spearman")
    variance, doubt = error**2, error**4 / freedom
    for side, of_one in zip(known, noise, strict=True):
        if len(side) > 1:
            of_one = statistics.variance(side), len(side) - 1
        if of_one is not None:
            of_mean = of_one[0] / len(side)
            variance, doubt = variance + of_mean, doubt + of_mean**2 / of_one[1]
    gap = statistics.fmean(known[0]) - statistics.fmean(known[1])
    return Gap(gap, math.sqrt(variance), variance**2 / doubt if doubt else 0.0)


def mean_difference(gaps: PerRow) -> Gap:
    """Mean of paired differences of rows, with its error.

    Args:
        gaps: Difference of each row.

    Returns:
        Mean and standard error.
    """
    return Gap(float(gaps.mean()), *error_of_rows(gaps, are_values=True))


def error_of_rows(gaps: PerRow, *, are_values: bool) -> tuple[float, float]:
    """Compute the standard error of a paired difference, because other rows could have been scored.

    Args:
        gaps: Difference of each row: of values whose mean is the metric, or of influences on it.
        are_values: They are values, whose interval is wider for few rows (see `mean_interval`).

    Returns:
        The error, and its degrees of freedom.
    """
    rows = len(gaps)
    moved = np.count_nonzero(gaps)
    if are_values and moved and (rows < FEW_ROWS or moved < FEW_OTHERS):
        ends = mean_interval(gaps, samples=SAMPLES, confidence=CONFIDENCE, seed=0, bounds=(-1.0, 1.0))
        return max(abs(float(end or 0) - float(gaps.mean())) for end in ends) / Z, math.inf
    if rows < 2:
        return 0.0, math.inf
    return float(gaps.std(ddof=1) / math.sqrt(rows)), rows - 1.0


def spearman_influence(scores: np.ndarray, grades: np.ndarray) -> PerRow:
    """Influence of each row on `spearman`: the derivative by its share (infinitesimal jackknife).

    Its mean is 0, and its variance over the number of rows that of the correlation (Efron 1982, chapter 6).

    Args:
        scores: Score of each row, higher = closer.
        grades: Gold value of each row, higher = closer.

    Returns:
        One value for each row.
    """
    sides = [finite(scores, "score"), finite(grades, "grade")]
    ranks = [(scipy.stats.rankdata(side) - (len(side) + 1) / 2) / len(side) for side in sides]
    (x, y), groups = ranks, [np.unique(side, return_inverse=True)[1] for side in sides]
    shared, spread_x, spread_y = (x * y).mean(), (x * x).mean(), (y * y).mean()
    value = shared / math.sqrt(spread_x * spread_y)
    of_shared = x * y + _mean_above(groups[0], y) + _mean_above(groups[1], x) - 3 * shared
    of_x = x * x + 2 * _mean_above(groups[0], x) - 3 * spread_x
    of_y = y * y + 2 * _mean_above(groups[1], y) - 3 * spread_y
    return of_shared / math.sqrt(spread_x * spread_y) - value / 2 * (of_x / spread_x + of_y / spread_y)


def _mean_above(groups: np.ndarray, values: np.ndarray) -> PerRow:
    """For each row the sum of `values` over the rows above it and half of its equals, over all rows."""
    sums = np.bincount(groups, weights=values)
    return ((sums.sum() - np.cumsum(sums) + sums / 2) / len(values))[groups]


LEAST_ROWS = 20
"""Rows that a slice needs."""

NEGATION = re.compile(
    r"[不没无非未别勿莫]|\b(?:no|not|never|none|nothing|without|cannot)\b|n['’]t\b", re.IGNORECASE
)
NUMBER = re.compile(r"\d+(?:[.,]\d+)*|[一二两三四五六七八九十百千万亿]+")
ORDER = re.compile(
    r"先|然后|之后|之前|以前|以后|最后|首先|\b(?:before|after|first|then|later|finally|until)\b",
    re.IGNORECASE,
)


class SliceChange(NamedTuple):
    """Change on a slice.

    Attributes:
        name: Name of the slice.
        rows: Number of rows.
        flipped: Rows that the first run alone decides correctly, and those of the other. None without decisions.
        gap: The other run minus the first: of accuracy, or of the main metric without decisions.
    """

    name: str
    rows: int
    flipped: tuple[int, int] | None
    gap: Gap


def slices(first: Sequence[str], second: Sequence[str]) -> dict[str, np.ndarray]:
    """Find the slices of sentence pairs.

    Args:
        first: First text of each pair.
        second: Second text of each pair.

    Returns:
        Name → mask of its rows. Halves are split at the median.

    Example:
        >>> found = slices(["今天下雨", "他没来"], ["今天天晴", "他来了"])
        >>> found["negation in one text"].tolist()
        [False, True]
    """
    pairs = [(a.lower(), b.lower()) for a, b in zip(first, second, strict=True)]
    length = np.array([len(a) + len(b) for a, b in pairs])
    overlap = np.array([len({*a} & {*b}) / max(len({*a} | {*b}), 1) for a, b in pairs])
    one_negation = [bool(NEGATION.search(a)) != bool(NEGATION.search(b)) for a, b in pairs]
    return {
        "shorter half": length <= np.median(length),
        "longer half": length > np.median(length),
        "less overlap": overlap <= np.median(overlap),
        "more overlap": overlap > np.median(overlap),
        "negation in one text": np.array(one_negation, dtype=bool),
        "other numbers": np.array(
            [sorted(NUMBER.findall(a)) != sorted(NUMBER.findall(b)) for a, b in pairs], bool
        ),
        "words of order": np.array([bool(ORDER.search(a) or ORDER.search(b)) for a, b in pairs], bool),
        "same characters, other order": np.array([a != b and sorted(a) == sorted(b) for a, b in pairs], bool),
    }


def slice_changes(first: Scored, other: Scored, masks: Mapping[str, np.ndarray]) -> list[SliceChange]:
    """Compare two runs on each slice with at least LEAST_ROWS rows.

    Decisions keep the threshold of the whole set. The interval is paired over rows. It does not include seeds.

    Args:
        first: Rows as the first run scored them.
        other: The same rows as the other run scored them.
        masks: From `slices`.

    Returns:
        The changes. Slices with an undefined metric are absent.
    """
    found = []
    for name, mask in masks.items():
        if (rows := int(mask.sum())) < LEAST_ROWS:
            continue
        if first.right is not None and other.right is not None:
            sides = first.right[mask].astype(float), other.right[mask].astype(float)
            moved = sides[1] - sides[0]
            flipped = int((moved < 0).sum()), int((moved > 0).sum())
            found.append(SliceChange(name, rows, flipped, mean_difference(moved)))
        else:
            part = [
                replace(run.rows, columns={name: values[mask] for name, values in run.rows.columns.items()})
                for run in (other, first)
            ]
            gap = paired_gap([Scored(part[0])], [Scored(part[1])], first.measures[0])
            if gap is not None:
                found.append(SliceChange(name, rows, None, gap))
    return found


@dataclass(frozen=True)
class Verdict:
    """The change between two models on the same rows.

    Attributes:
        target: Mean change over the target sets. None without one.
        others: Mean change over all other sets. None without one.
        changes: Set → its change in the set's main metric, in fractions.
        targets: Names of the target sets among `changes`.
    """

    target: Gap | None
    others: Gap | None
    changes: Mapping[str, Gap]
    targets: Sequence[str]

    @property
    def word(self) -> Literal["WIN", "TIE", "LOSS", "–"]:
        """WIN or LOSS if the 95 % interval of the target's change excludes 0. "–" without a target."""
        if self.target is None:
            return "–"
        low, high = self.target.interval
        return "WIN" if low > 0 else "LOSS" if high < 0 else "TIE"

    @property
    def worst(self) -> str | None:
        """The other set with the lowest change."""
        return min(
            (name for name in self.changes if name not in self.targets),
            key=lambda name: self.changes[name].value,
            default=None,
        )

    def line(self) -> str:
        """One line, in points (metric × 100) with 95 % intervals.

        Returns:
            The line.

        >>> gap = Gap(0.021, 0.006)
        >>> Verdict(gap, None, {"csts": gap}, ["csts"]).line()
        'WIN, +2.1 [0.9, 3.3] on csts'
        """
        parts = []
        if self.target is not None:
            parts.append(f"{self.word}, {points(self.target)} on {' + '.join(self.targets)}")
        if self.others is not None and self.worst is not None:
            worst = 100 * self.changes[self.worst].value
            parts.append(f"others {points(self.others)}, worst {self.worst} {worst:+.1f}".replace("-", "−"))
        return "; ".join(parts)


def points(gap: Gap, *, behind: float = 0.0) -> str:
    """A difference in points with its 95 % interval, whose lower end is lowered by `behind`.

    Args:
        gap: The difference.
        behind: Taken off the lower end.

    Returns:
        Text.

    >>> points(Gap(-0.004, 0.0025))
    '−0.4 [−0.9, 0.1]'
    """
    low, high = gap.interval
    return f"{100 * gap.value:+.1f} [{100 * (low - behind):.1f}, {100 * high:.1f}]".replace("-", "−")


def mean_gap(gaps: Sequence[Gap]) -> Gap:
    """Mean of independent differences. Degrees of freedom by Welch and Satterthwaite.

    Args:
        gaps: One or more.

    Returns:
        The mean with its error.
    """
    count = len(gaps)
    variance = sum(gap.error**2 for gap in gaps) / count**2
    doubt = sum((gap.error / count) ** 4 / gap.freedom for gap in gaps if gap.freedom)
    value = sum(gap.value for gap in gaps) / count
    return Gap(value, math.sqrt(variance), variance**2 / doubt if doubt else 0.0)


def judge(
    after: Mapping[str, Scored], before: Mapping[str, Scored], targets: Sequence[str] = ()
) -> Verdict | None:
    """Compare two models on the rows that both have scored.

    The interval of a set is paired over its rows. It does not include the spread between seeds.

    Args:
        after: Set → its rows, scored by the new model.
        before: The same for the old model.
        targets: Sets that the training is for. The rest are others.

    Returns:
        The verdict. None if no set has the same rows in both.
    """
    changes: dict[str, Gap] = {}
    for name, scored in after.items():
        if name in before and are_same_rows(scored.rows, before[name].rows) and scored.measures:
            gap = paired_gap([scored], [before[name]], scored.measures[0])
            if gap is not None:
                changes[name] = gap
    if not changes:
        return None
    own = [name for name in targets if name in changes]
    others = [gap for name, gap in changes.items() if name not in own]
    return Verdict(
        mean_gap([changes[name] for name in own]) if own else None,
        mean_gap(others) if others else None,
        changes,
        own,
    )


def judge_training(
    after: Mapping[str, SetRows], before: Mapping[str, SetRows], trained_on: Sequence[str]
) -> Verdict | None:
    """Compare the weights after and before a training, on test where a set has it, else on dev.

    Args:
        after: `split/set` → rows scored by the trained weights.
        before: The same for the weights that training started from.
        trained_on: Names of the training sets, the targets.

    Returns:
        The verdict. None if no set has the same rows in both.
    """
    columns = {
        column.split("/")[1]: column for column in sorted(after) if column.startswith(("dev/", "test/"))
    }
    new, old = (
        {name: Scored(rows[column]) for name, column in columns.items() if column in rows}
        for rows in (after, before)
    )
    return judge(new, old, trained_on)


def row_frame(scored: Mapping[str, Scored], texts: Mapping[str, Sequence[str]]) -> "pd.DataFrame":
    """Make a table with a line per row: place, gold value, texts, and each run's score, error and `right`.

    `moved` is the error of the last run minus that of the first. It is below 0 if the last run is better.

    Args:
        scored: Label of a run → its rows, the first run first.
        texts: Name of a text column → texts.

    Returns:
        The table.
    """
    runs = list(scored.values())
    frame = runs[0].rows.frame[[name for name in (*PLACES, "gold") if name in runs[0].rows.columns]].copy()
    for label, run in scored.items():
        name = "score" if "score" in run.rows.columns else run.measures[0]
        frame[f"{name}: {label}"] = run.rows[name]
        if run.right is not None:
            frame[f"right: {label}"] = run.right.astype(int)
    frame["moved"] = runs[-1].error - runs[0].error
    frame["error"] = runs[-1].error
    for name, column in texts.items():
        frame[name] = column
    return frame


def flipped_rows(frame: "pd.DataFrame", first: Scored, last: Scored) -> "pd.DataFrame":
    """Select the rows that only one run decides correctly, the largest change first.

    Args:
        frame: Output of `row_frame`.
        first: Rows of the first run.
        last: Rows of the last run. Without decisions all rows with another error are selected.

    Returns:
        Rows of `frame`.
    """
    if first.right is not None and last.right is not None:
        frame = frame[first.right != last.right]
    return frame[frame["moved"] != 0].sort_values("moved", key=np.abs, ascending=False, kind="stable")


def worst_rows(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Select the rows with errors of the last run, the worst first.

    Args:
        frame: Output of `row_frame`.

    Returns:
        Rows of `frame`.
    """
    return frame[frame["error"] > 0].sort_values("error", ascending=False, kind="stable")
