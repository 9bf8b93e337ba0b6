"""Whether plain data, as JSON gives them, have the form that those expect who read them: a file may be anybody's."""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from juzhen.core.texts import short

SPOKEN = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "an object {…}",
    type(None): "null",
}

Shape = Any
"""A type · a tuple of shapes, one of which must fit · [shape] for a list of such · an Entries · an Object."""


@dataclass(frozen=True)
class Entries:
    """An object whose keys are any texts, or those that match `keys`, and whose values have one shape."""

    values: Shape
    keys: str = r"(?s).*"


@dataclass(frozen=True)
class Object:
    """An object whose keys are known; others may be there as well and are not looked at."""

    required: Mapping[str, Shape] = field(default_factory=dict)
    optional: Mapping[str, Shape] = field(default_factory=dict)


def require_shape(value: Any, shape: Shape, path: str) -> None:
    """Raises ValueError that names the first place where the value has another shape; `place` is where it stands.

    Numbers are finite, a whole number passes for a number, and true for none.

    >>> require_shape({"scores": [1, "x"]}, Object({"scores": [float]}), "file")
    Traceback (most recent call last):
    ValueError: file.scores[1] is 'x', expected a number
    """
    match shape:
        case tuple():
            fitting = [item for item in shape if _is_kind(value, item)]
            if not fitting:
                raise _unfit(value, shape, path)
            require_shape(value, fitting[0], path)
        case _ if not _is_kind(value, shape):
            raise _unfit(value, shape, path)
        case list():
            for number, entry in enumerate(value):
                require_shape(entry, shape[0], f"{path}[{number}]")
        case Entries():
            for key, entry in value.items():
                if not re.fullmatch(shape.keys, key):
                    raise ValueError(f"{path} has the key {short(repr(key))}, which is none there")
                require_shape(entry, shape.values, f"{path}.{short(key)}")
        case Object():
            for key, inner in shape.required.items():
                if key not in value:
                    raise ValueError(f"{path} lacks {key}")
                require_shape(value[key], inner, f"{path}.{key}")
            for key in shape.optional.keys() & value.keys():
                require_shape(value[key], shape.optional[key], f"{path}.{key}")


def _is_kind(value: Any, shape: Shape) -> bool:
    """Whether the value is of the outermost kind of a shape."""
    kind = _kind(shape)
    if kind is float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and abs(value) <= sys.float_info.max
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    # Half a surrogate pair, which JSON can spell, could be neither printed nor written.
    return isinstance(value, kind) and not (isinstance(value, str) and re.search("[\ud800-\udfff]", value))


def _kind(shape: Shape) -> type:
    if isinstance(shape, list):
        return list
    return dict if isinstance(shape, Entries | Object) else shape


def _unfit(value: Any, shape: Shape, path: str) -> ValueError:
    shapes = shape if isinstance(shape, tuple) else (shape,)
    expected = " or ".join(dict.fromkeys(SPOKEN[_kind(item)] for item in shapes))
    return ValueError(f"{path} is {short(repr(value))}, expected {expected}")
