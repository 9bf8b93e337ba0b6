"""A difference with its error: its interval, and how probable it is by chance."""

from typing import NamedTuple

from scipy.special import ndtr, stdtr, stdtrit

CONFIDENCE = 0.95
Z = 1.959964
"""Half of such an interval in standard errors."""


class Gap(NamedTuple):
    """A difference, its standard error, and on how many degrees of freedom that rests (0: as many as one likes)."""

    value: float
    error: float
    freedom: float = 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """95 %; it has no 0 in it exactly where `p` is below 0.05."""
        tail = (1 + CONFIDENCE) / 2
        reach = self.error * (stdtrit(self.freedom, tail) if self.freedom else Z)
        return float(self.value - reach), float(self.value + reach)

    @property
    def p(self) -> float:
        """How probable so large a difference is where there is none, to both sides."""
        if self.error == 0:
            return float(self.value == 0)
        t = -abs(self.value / self.error)
        return float(2 * (stdtr(self.freedom, t) if self.freedom else ndtr(t)))
