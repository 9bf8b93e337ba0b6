"""Checks of what a configuration gives a loss: a wrong value is named before anything is trained."""

from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from typing import Any

from juzhen.core.errors import UserError, require_choice, require_number


def checked(default: Any, check: Callable[..., Any], **limits: Any) -> Any:
    """A number of a loss: its default, the function of this file that refuses others, and the limits it goes by."""
    return field(default=default, metadata={"check": partial(check, **limits)})


def choice(key: str, value: object, choices: Sequence[str]) -> str:
    """`value` when it is one of the choices. Raises UserError with the nearest one otherwise."""
    require_choice(key, value, choices)
    return str(value)


def number(key: str, value: Any, **limits: Any) -> Any:
    """`value` as a float, or None; limits and errors as of `require_number`."""
    require_number(key, value, **limits)
    return None if value is None else float(value)


def numbers(key: str, values: Sequence[Any], **limits: Any) -> tuple[float, ...]:
    """`values`, each as a `number` within the limits."""
    return tuple(number(key, value, **limits) for value in values)


def whole_numbers(key: str, values: Sequence[Any], *, low: int) -> tuple[int, ...]:
    """`values`, each as a `whole_number`."""
    return tuple(whole_number(key, value, low=low) for value in values)


def or_none(check: Callable[..., Any]) -> Callable[..., Any]:
    """A check that lets None pass."""
    return lambda key, value, **limits: None if value is None else check(key, value, **limits)


divisor = partial(number, low=0.0, open_low=True)
"""A temperature, which divides scores."""

cosine_margin = partial(number, low=-2.0, high=2.0, optional=True)
"""A difference of two cosines, or None."""


def interval(key: str, value: object, *, low: float, high: float) -> tuple[float, float]:
    """`value` as two numbers of [low, high], the lower one first. Raises UserError otherwise."""
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) != 2:
        raise UserError(f"{key}={value}: expected two numbers, [0, 1] or [-1, 1]")
    first, last = numbers(key, value, low=low, high=high)
    if first >= last:
        raise UserError(f"{key}={list(value)}: expected the lower number first")
    return first, last


def switch(key: str, value: object) -> bool:
    """`value` when it is true or false. Raises UserError otherwise: the text "no" would count as true."""
    if not isinstance(value, bool):
        raise UserError(f"{key}={value}: expected true or false")
    return value


def whole_number(key: str, value: object, *, low: int) -> int:
    """`value` as a whole number, `low` or more. Raises UserError otherwise."""
    if not isinstance(value, int) or isinstance(value, bool) or value < low:
        raise UserError(f"{key}={value}: expected a whole number from {low}")
    return value
