"""What a search varies: words of the command line in Hydra's own grammar, read as distributions."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hydra.core.override_parser.types import IntervalSweep, Override
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from juzhen.core.errors import UserError

LOG = "log"
EXAMPLE = "'optimizer.lr=tag(log, interval(1e-5, 1e-3))'"


@dataclass(frozen=True)
class Space:
    """The words that every trial has, and key → distribution of those in which trials differ."""

    fixed: tuple[str, ...]
    varied: Mapping[str, BaseDistribution]

    def words(self, values: Mapping[str, Any]) -> list[str]:
        return [*self.fixed, *(f"{key}={spelt(values[key])}" for key in self.varied)]


def read_space(overrides: Iterable[Override]) -> Space:
    """The space that overrides span; of one key the last counts. Raises UserError for one that spans nothing."""
    last = {override.get_key_element().lstrip("+"): override for override in overrides}
    fixed = tuple(str(one.input_line) for one in last.values() if not one.is_sweep_override())
    varied = {one.get_key_element(): distribution(one) for one in last.values() if one.is_sweep_override()}
    if not varied:
        raise UserError(
            f"there is nothing to search: give a key several values, for example {EXAMPLE} or sweep=search"
        )
    return Space(fixed, varied)


def spelt(value: Any) -> str:
    """A value as in an override: numbers in full, so that the same words are the same run."""
    return value if isinstance(value, str) else repr(value)


def distribution(override: Override) -> BaseDistribution:
    """What values an override may take. Raises UserError when these are none, or cannot be spread as it is tagged."""
    line, value = str(override.input_line), override.value()
    is_log = _is_log(getattr(value, "tags", set()), line)
    if override.is_choice_sweep():
        if is_log:
            raise UserError(f"{line}: the tag log is for numbers, as in {EXAMPLE}")
        return _choice(list(override.sweep_string_iterator()), line)
    if isinstance(value, IntervalSweep):
        return _interval(value.start, value.end, line, log=is_log)
    return _range(value, line, log=is_log)


def _is_log(tags: set[str], line: str) -> bool:
    unknown = sorted(tags - {LOG})
    if unknown:
        raise UserError(f"{line}: there is no tag {', '.join(unknown)}; expected log, as in {EXAMPLE}")
    return LOG in tags


def _choice(values: Sequence[str], line: str) -> CategoricalDistribution:
    if not values:
        raise UserError(f"{line}: nothing to choose from; write for example choice(16,32)")
    repeated = sorted({one for one in values if values.count(one) > 1})
    if repeated:
        raise UserError(f"{line}: {', '.join(repeated)} is there twice; keep one")
    return CategoricalDistribution(values)


def _interval(start: float, end: float, line: str, *, log: bool) -> BaseDistribution:
    if not (math.isfinite(start) and math.isfinite(end) and start < end):
        raise UserError(
            f"{line}: an empty interval; expected the lower end first, as in interval({end}, {start})"
            if end < start
            else f"{line}: expected two finite numbers, the lower first, as in {EXAMPLE}"
        )
    if log and start <= 0:
        raise UserError(f"{line}: with the tag log the lower end must be more than 0")
    both_int = isinstance(start, int) and isinstance(end, int)
    return (IntDistribution if both_int else FloatDistribution)(start, end, log=log)


def _range(value: Any, line: str, *, log: bool) -> BaseDistribution:
    if log:
        raise UserError(f"{line}: the tag log goes with interval(…), for whole numbers int(interval(…))")
    if not value.step:
        raise UserError(f"{line}: a range with step 0; write for example range(8, 65, 8)")
    values = sorted(value.range())
    if not values:
        raise UserError(f"{line}: an empty range; its end does not count: range(1, 4) is 1, 2, 3")
    if all(isinstance(one, int) for one in values):
        return IntDistribution(values[0], values[-1], step=abs(value.step))
    return FloatDistribution(values[0], values[-1], step=abs(value.step))
