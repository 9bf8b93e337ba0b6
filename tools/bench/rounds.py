"""Contestants that take turns, and what their turns say about one another."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

Found = TypeVar("Found")


class Ratio(NamedTuple):
    """Median over rounds, and the lowest and highest round."""

    median: float
    low: float
    high: float

    def columns(self) -> dict[str, float]:
        return {"ratio": self.median, "ratio_low": self.low, "ratio_high": self.high}


def alternate(
    contestants: Mapping[str, Callable[[int], Found]],
    *,
    rounds: int,
    before_turn: Callable[[str], None] = lambda name: None,
) -> dict[str, list[Found]]:
    """What each contestant returns in each round, seconds for instance, one list entry per round.

    Every second round runs in the opposite order, so that nobody profits from always coming first or last. A
    contestant is told the number of its round.
    """
    found: dict[str, list[Found]] = {name: [] for name in contestants}
    for number in range(rounds):
        order = list(contestants)
        for name in order if number % 2 == 0 else reversed(order):
            before_turn(name)
            found[name].append(contestants[name](number))
    return found


def compare(theirs: Sequence[float], ours: Sequence[float]) -> Ratio:
    """theirs / ours of each round: above 1, ours took less.

    >>> compare([2.0, 3.0, 9.0], [1.0, 1.0, 3.0])
    Ratio(median=3.0, low=2.0, high=3.0)
    """
    ratios = [one / other for one, other in zip(theirs, ours, strict=True)]
    return Ratio(statistics.median(ratios), min(ratios), max(ratios))


def seconds_of(call: Callable[[], object], number: int) -> float:
    """The turn of a contestant that does the same in each round."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def seconds_per_call(call: Callable[[], object], *, at_least: float) -> float:
    """Seconds of a quick call, from as many calls as fill `at_least` seconds."""
    count, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < at_least or not count:
        call()
        count += 1
    return (passed or time.perf_counter() - start) / count
