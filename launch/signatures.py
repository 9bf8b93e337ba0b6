"""Checks what a configuration gives a model, a loss or a callback against what the class takes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from conf.declared import Declared, declared, declared_by, is_out_of_date, table
from conf.own_classes import is_own, own_class, refusal
from juzhen.core.errors import UserError, nearest
from launch.explain import ConfigError, key_hint

HYDRA_KEYS = ("_target_", "name", "_args_", "_partial_", "_recursive_", "_convert_")

FITS: dict[str, Callable[[object], bool]] = {
    "a number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "a whole number": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "true or false": lambda value: isinstance(value, bool),
    "text": lambda value: isinstance(value, str),
    "null": lambda value: value is None,
    "a list": lambda value: isinstance(value, list),
    "a group of keys": lambda value: isinstance(value, Mapping),
}
"""Each of WORDS → whether a plain value is one."""


def check_target(node: Mapping[str, Any], key: str) -> None:
    """Raises ConfigError unless `node`'s keys and values are those that the class of its `_target_` takes."""
    target = node["_target_"]
    package = {"model": "lightning_modules", "callbacks": "callbacks"}.get(key.split(".")[0], "juzhen.losses")
    try:
        if not is_own(target) or not target.startswith(f"{package}."):
            raise UserError(refusal(target))
        taken = declared(target)
    except UserError as error:
        known = [one for one in table() if one.startswith(f"{package}.")]
        raise ConfigError(
            f"{key}._target_={error}; {nearest(str(target), known)}", f"{key}._target_"
        ) from error
    try:
        _check(node, key, taken)
    except ConfigError:
        if not is_out_of_date(target):
            raise
        _check(node, key, declared_by(own_class(target)))


def _check(node: Mapping[str, Any], key: str, taken: Declared) -> None:
    given = {name: value for name, value in node.items() if name not in HYDRA_KEYS}
    for name, value in given.items():
        where = f"{key}.{name}"
        if name not in taken.settings:
            hint = key_hint(name, taken.settings)
            raise ConfigError(f"{where}: {node['_target_']} has no such parameter; {hint}", where)
        check_value(where, value, taken.settings[name])
    if missing := sorted(set(taken.required) - set(given)):
        where = f"{key}.{missing[0]}"
        raise ConfigError(f"{where} is not set, but {node['_target_']} needs it", where)


def check_value(key: str, value: object, words: Sequence[str]) -> None:
    """Raises ConfigError for a value of another type, or none of the possible ones; without words all fit."""
    choices = [word.strip("'") for word in words if word not in FITS]
    if not words or value in choices or any(FITS[word](value) for word in words if word in FITS):
        return
    shown = "null" if value is None else str(value).lower() if isinstance(value, bool) else value
    hint = f"; {nearest(str(value).lower(), choices)}" if choices else ""
    expected = [*choices, *(word for word in words if word in FITS)]
    raise ConfigError(f"{key}={shown}: expected {' or '.join(expected)}{hint}", key)
