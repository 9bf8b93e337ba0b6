"""One key of a configuration: what it means, and which values it may have, beside the field that holds it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from juzhen.core.errors import UserError, nearest

MISSING: Any = "???"
"""The value of what must be given and is not, as OmegaConf spells it."""


class Described:
    """Of dataclasses that describe something: how `juzhen.core.typed` reads them."""

    __pydantic_config__: ClassVar = {"extra": "forbid", "coerce_numbers_to_str": True}


OPTION = "option"
"""Name of an Option in the metadata of a field."""


@dataclass(frozen=True)
class Option:
    """What a key means, and the values that it may have beyond its type. null passes where the type allows it.

    among     the possible values; of a list, each element
    at_least  and the others: where a number, or each number of a list, must lie
    interval  a list holds a lower and then a higher number; says of what, and gives an example
    """

    about: str = ""
    among: tuple[str, ...] = ()
    at_least: float | None = None
    above: float | None = None
    below: float | None = None
    interval: str = ""

    def check(self, key: str, value: Any) -> None:
        """Raises UserError, with the key in it, for a value that is none of them."""
        is_list = isinstance(value, Sequence) and not isinstance(value, str)
        for one in value if is_list else [value]:
            self.check_one(key, one)
        if self.interval and not (len(value) == 2 and value[0] < value[1]):
            raise UserError(f"{key}={list(value)}: expected the lowest and then the highest {self.interval}")

    def check_one(self, key: str, value: Any) -> None:
        if self.among and value not in self.among:
            raise UserError(self._not_among(key, value))
        if not self.among:
            if isinstance(value, Sequence) and not isinstance(value, str):
                raise UserError(f"{key}: {value} is in it, which is a list itself; expected single values")
            self.check_number(key, value, value)

    def check_number(self, key: str, value: Any, number: float, unit: str = "") -> None:
        """Raises UserError for a number outside the limits; `value` is how it was written."""
        # Written so that NaN is outside all limits.
        told = {"at least": self.at_least, "more than": self.above, "less than": self.below}
        holds = {"at least": float.__ge__, "more than": float.__gt__, "less than": float.__lt__}
        limits = {word: limit for word, limit in told.items() if limit is not None}
        if not all(holds[word](float(number), float(limit)) for word, limit in limits.items()):
            words = " and ".join(f"{word} {limit:.10g}" for word, limit in limits.items())
            about = f" ({self.about})" if self.about else ""
            raise UserError(f"{key}={value}: expected {words}{unit}{about}")

    def _not_among(self, key: str, value: Any) -> str:
        message = f"{key}={value}: expected {' or '.join(self.among)}"
        hint = nearest(str(value).lower(), self.among)
        if hint.startswith("did"):
            message += f"; {hint}"
        if value == "False" and "off" in self.among:
            message += '; in a file, write "off" in quotes'  # YAML reads a bare off as false
        return message


def option(about: str = "", default: Any = MISSING, *, kind: type[Option] = Option, **values: Any) -> Any:
    """The field of a typed configuration. Without a default it must be given; `values` are those of an Option."""
    metadata = {OPTION: kind(about, **values)}
    if isinstance(default, list | dict):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


def options(kind: type) -> dict[str, Option]:
    """Name of each field of a typed configuration → its Option, where it has one."""
    return {one.name: one.metadata[OPTION] for one in fields(kind) if OPTION in one.metadata}
