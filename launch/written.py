"""How a job was written, beside the types it should have: what OmegaConf takes silently, or refuses without a key."""

import types
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

from juzhen.core.texts import short
from launch.explain import ConfigError


def check_forms(value: Any, hint: Any, key: str) -> None:
    """Raises ConfigError where a list stands for a group of keys, or the other way round; `hint` is its type."""
    every = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    kinds = [one for one in every if one is not type(None)]
    takes_group = any(is_dataclass(one) or (get_origin(one) or one) is dict for one in kinds)
    takes_list = any((get_origin(one) or one) in (list, tuple) for one in kinds)
    given = f"{key}={short(str(value))}: expected"
    if isinstance(value, Mapping) and kinds and all(one in (str, int, float, bool) for one in kinds):
        raise ConfigError(f"{given} one value, and not a group of keys {{…}}")
    if isinstance(value, Mapping) and takes_list and not takes_group:
        raise ConfigError(f"{given} a list, '{key}=[…]', and not a group of keys {{…}}")
    if isinstance(value, list) and takes_group and not takes_list:
        raise ConfigError(f"{given} a group of keys, {key}.<key>=<value>, and not a list […]")
    if isinstance(value, Mapping):
        for name, inner in _below(value, kinds):
            check_forms(value[name], inner, f"{key}.{name}".lstrip("."))


def _below(value: Mapping[str, Any], kinds: list[Any]) -> Iterator[tuple[str, Any]]:
    """The keys of a group whose types are known, with these."""
    for kind in kinds:
        if is_dataclass(kind):
            hints = get_type_hints(kind)
            yield from ((name, hints[name]) for name in value if name in hints)
        elif (get_origin(kind) or kind) is dict and len(get_args(kind)) == 2:
            yield from ((name, get_args(kind)[1]) for name in value)


def check_digits(given: Any, typed: Any, key: str) -> None:
    """Raises ConfigError for a text in the digits of another script that was taken for a number, `typed`."""
    if isinstance(given, Mapping) and isinstance(typed, Mapping):
        for name in given:
            check_digits(given[name], typed.get(name), f"{key}.{name}".lstrip("."))
    elif isinstance(given, list) and isinstance(typed, list):
        for place, (one, number) in enumerate(zip(given, typed, strict=False)):
            check_digits(one, number, f"{key}[{place}]")
    elif isinstance(given, str) and isinstance(typed, int | float) and not given.isascii():
        raise ConfigError(f"{key}={given}: a number is written in ASCII digits; type {typed}")
