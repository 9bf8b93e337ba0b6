"""Lengths of training: an amount and one unit, as configuration writes them. Needs no torch."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator

from juzhen.core.errors import UserError


class Unit(StrEnum):
    STEPS = "steps"
    EPOCHS = "epochs"
    EXAMPLES = "examples"
    PERCENT = "percent"


@dataclass(frozen=True)
class Duration:
    """A length of training in exactly one unit.

    >>> Duration.parse("3 epochs").in_steps(steps_per_epoch=10, batch_size=32, total_steps=None)
    30
    >>> Duration.parse("10 percent").in_steps(steps_per_epoch=10, batch_size=32, total_steps=200)
    20
    """

    amount: float
    unit: Unit

    @classmethod
    def parse(cls, text: str, *, key: str = "duration") -> "Duration":
        """Reads "<number> <unit>". `key` names the configuration key in the error."""
        match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s+(\w+)\s*", str(text))
        units = {unit.value: unit for unit in Unit} | {unit.value.rstrip("s"): unit for unit in Unit}
        if not match or match[2] not in units:
            raise UserError(
                f"{key}={text!r}: expected a number and one unit of {', '.join(Unit)}, as in '{key}=3 epochs'. In "
                "quotes on the command line"
            )
        return cls(float(match[1]), units[match[2]])

    def in_steps(self, *, steps_per_epoch: int, batch_size: float, total_steps: int | None) -> int:
        """Optimizer steps, at least 1 unless the amount is 0. Percent: of `total_steps`, else of one epoch."""
        steps = self.exact_steps(
            steps_per_epoch=steps_per_epoch, batch_size=batch_size, total_steps=total_steps
        )
        return max(round(steps), 1) if self.amount else 0

    def exact_steps(self, *, steps_per_epoch: int, batch_size: float, total_steps: int | None) -> float:
        """Compute `in_steps` before it is rounded to whole steps."""
        match self.unit:
            case Unit.STEPS:
                return self.amount
            case Unit.EPOCHS:
                return self.amount * steps_per_epoch
            case Unit.EXAMPLES:
                return self.amount / batch_size
            case Unit.PERCENT:
                return self.amount / 100 * (total_steps or steps_per_epoch)


def is_length(text: str) -> str:
    """The text, where it is a duration, as pydantic asks for it."""
    try:
        Duration.parse(text)
    except UserError as error:
        units = ", ".join(Unit)
        raise ValueError(f"expected a number and one unit of {units}, as in '3 epochs'") from error
    return text


def _no_null(text: str) -> str:
    if Duration.parse(text).amount == 0:
        raise ValueError("expected more than 0")
    return text


Length = Annotated[str, AfterValidator(is_length)]
"""A key whose value is a duration."""
SomeLength = Annotated[Length, AfterValidator(_no_null)]
"""The same, of more than 0."""
