"""When negatives are mined in a training, and how many of them are hard."""

import math
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from juzhen.core.errors import UserError
from juzhen.losses.options import number, whole_number


class Phases:
    """Training in phases, each with its own time between two minings and its own rise of the share of hard negatives.

    ends         shares of training at which phases end, rising to 1
    every_steps  optimizer steps between two minings, of each phase; None: there is one alone, before the first step
    hard_share   at the start and at the end of each phase, and in between along a line
    key          what the configuration calls them, for messages

    Raises UserError for a number out of its range, and where there are not as many as there are phases.
    """

    def __init__(
        self,
        ends: Sequence[float],
        every_steps: Sequence[int] | None,
        hard_share: Sequence[float],
        *,
        key: str,
    ) -> None:
        self.ends = [number(f"{key}.phases", one, low=0.0, high=1.0, open_low=True) for one in ends]
        if self.ends != sorted(set(self.ends)) or self.ends[-1:] != [1.0]:
            raise UserError(
                f"{key}.phases={list(ends)}: expected shares of training that rise to 1, such as [0.3, 0.7, 1]"
            )
        _require_count(f"{key}.hard_share", hard_share, len(ends) + 1)
        self.hard_shares = [number(f"{key}.hard_share", one, low=0.0, high=1.0) for one in hard_share]
        self.every_steps = None
        if every_steps is not None:
            _require_count(f"{key}.every_steps", every_steps, len(ends))
            self.every_steps = [whole_number(f"{key}.every_steps", one, low=1) for one in every_steps]

    def due(self, step: int, total_steps: int) -> bool:
        """Before the first step, at the start of each phase, and every so many steps from there."""
        if self.every_steps is None or step >= total_steps:
            return step == 0
        starts = [math.ceil(end * total_steps) for end in (0.0, *self.ends[:-1])]
        phase = bisect_right(starts, step) - 1
        return (step - starts[phase]) % self.every_steps[phase] == 0

    def hard_share(self, step: int, total_steps: int) -> float:
        """Of the negatives that are mined at a step."""
        return float(np.interp(step / total_steps, [0.0, *self.ends], self.hard_shares))


def _require_count(key: str, values: Sequence[float], count: int) -> None:
    if len(values) != count:
        raise UserError(f"{key}={list(values)}: expected {count} numbers, as there are phases")
