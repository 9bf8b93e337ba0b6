"""What a search varies: words of the command line in Hydra's own grammar, read as distributions."""

import math
from collections.abc import Iterable, Mapping
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
class SearchSpace:
    """The words that every trial has, and key → distribution of those in which trials differ."""

    fixed: tuple[str, ...]
    varied: Mapping[str, BaseDistribution]

    def words(self, values: Mapping[str, Any]) -> list[str]:
        """Numbers in full, so that the same words are the same run."""
        texts = {key: value if isinstance(value, str) else repr(value) for key, value in values.items()}
        return [*self.fixed, *(f"{key}={texts[key]}" for key in self.varied)]


def read_space(overrides: Iterable[Override]) -> SearchSpace:
    """The space that overrides span; of one key the last counts. Raises UserError for one that spans nothing."""
    last = {override.get_key_element().lstrip("+"): override for override in overrides}.values()
    fixed = tuple(str(override.input_line) for override in last if not override.is_sweep_override())
    swept = [override for override in last if override.is_sweep_override()]
    varied = {override.get_key_element(): distribution(override) for override in swept}
    if not varied:
        raise UserError(
            f"there is nothing to search: give a key several values, for example {EXAMPLE} or sweep=search"
        )
    return SearchSpace(fixed, varied)


def distribution(override: Override) -> BaseDistribution:
    """What values an override may take. Raises UserError for a tag that would be overlooked."""
    line, value = str(override.input_line), override.value()
    tags = getattr(value, "tags", set())
    log = LOG in tags
    if tags - {LOG} or (log and override.is_choice_sweep()):
        raise UserError(f"{line}: expected the tag log, and that for numbers, as in {EXAMPLE}")
    if override.is_choice_sweep():
        choices = list(override.sweep_string_iterator())
        return CategoricalDistribution(choices)
    if isinstance(value, IntervalSweep):
        if not (math.isfinite(value.start) and math.isfinite(value.end) and value.start < value.end):
            raise UserError(f"{line}: expected two finite numbers, the lower first, as in {EXAMPLE}")
        both_int = isinstance(value.start, int) and isinstance(value.end, int)
        return (IntDistribution if both_int else FloatDistribution)(value.start, value.end, log=log)
    values = sorted(value.range())
    is_int = all(isinstance(number, int) for number in values)
    kind = IntDistribution if is_int else FloatDistribution
    return kind(values[0], values[-1], step=abs(value.step), log=log)
