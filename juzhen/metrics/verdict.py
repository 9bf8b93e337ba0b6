"""Verdict on a training: what it gains on its target, and what other sets lose."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from juzhen.core.row_scores import SetRows
from juzhen.metrics.comparison import Scored, are_same_rows, paired_gap
from juzhen.metrics.correlation import Gap


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
