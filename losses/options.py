"""Checks of what a configuration gives a loss: a wrong value is named before anything is trained."""

import math
from collections.abc import Sequence

from schema.errors import UserError, nearest


def choice(key: str, value: object, known: Sequence[str]) -> str:
    """`value` when it is one of the known words. Raises UserError with the nearest one otherwise."""
    if value not in known:
        raise UserError(f"{key}={value}: expected {' or '.join(known)}; {nearest(str(value), known)}")
    return str(value)


def number(key: str, value: object, *, above: float = -math.inf, at_least: float = -math.inf) -> float:
    """`value` as a finite number within the limits. Raises UserError otherwise."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or value <= above or value < at_least:
        limits = [f"greater than {above:g}"] * math.isfinite(above) + [
            f"{at_least:g} or more"
        ] * math.isfinite(at_least)
        raise UserError(f"{key}={value}: expected a finite number {' and '.join(limits)}".rstrip())
    return float(value)


def switch(key: str, value: object) -> bool:
    """`value` when it is true or false. Raises UserError otherwise: the text "no" would count as true."""
    if not isinstance(value, bool):
        raise UserError(f"{key}={value}: expected true or false")
    return value
