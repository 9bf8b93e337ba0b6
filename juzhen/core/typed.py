"""Objects of typed descriptions, from what files hold."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from juzhen.core.errors import UserError
from juzhen.core.option import MISSING

T = TypeVar("T")


def typed(kind: type[T], values: Mapping[str, Any], *, shown: str) -> T:
    """A dataclass, with those below it, of plain values; `shown` is where they stand, for messages.

    Raises UserError for a key that it does not have, a value of another type, and one that must be given and is not.
    """
    try:
        made: T = TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise UserError(f"{shown}: {key}: {first['msg']}, not {first['input']!r:.100}") from error
    if missing := next(_missing(made, ""), None):
        raise UserError(f"{shown}: {missing} is not set")
    return made


def _missing(value: Any, key: str) -> Any:
    """Dotted keys of the fields that must be given and are not."""
    if value == MISSING:
        yield key
    items = (
        {field.name: getattr(value, field.name) for field in fields(value)} if is_dataclass(value) else value
    )
    for name, inner in items.items() if isinstance(items, Mapping) else ():
        yield from _missing(inner, f"{key}.{name}".lstrip("."))
