"""The page of the configuration's keys, from the typed classes that check them and the files that hold their values."""

import re
import types
import typing
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import yaml
from juzhen.core.option import Option, options

from conf.duration import DurationOption, Unit
from conf.job import JobConfig
from juzhen.core.places import CONFIGURATION
from tools.docs.markup import as_yaml, code, plain, table

NAMES = {
    "dataset": "dataset.<set>",
    "layouts": "layouts.<layout>",
    "stages": "stages.<stage>",
    "sets": "sets.<set>",
}
"""Key of a mapping → how a key below it is spelt."""

REPEATED = ("evaluate",)
"""Keys whose values are like those of another one."""

WORDS = {
    float: "number",
    int: "whole number",
    bool: "true or false",
    str: "text",
    dict: "group of keys",
    Any: "anything",
}
COMMENTED = re.compile(r"^(\s*)([\w.@/]+):.*?\s#\s(.*)$")
COLUMNS = ("key", "type, range", "default", "meaning")
HEAD = """\
---
search: {boost: 0.4}
---
# Configuration keys

Every key of a job, with the values that it may have. On the command line `key=value` changes one
(`training.batch_size=128`), `+key=value` sets one that has no value yet. Defaults are those of `python train.py` alone;
a file of a group may hold others: [groups of files](groups.md). `python train.py --cfg job --resolve` shows
the values of a job of yours.
"""


def page() -> str:
    values, comments = shown_values()
    parts = [HEAD]
    for place, kind in sections(JobConfig):
        rows = list(key_rows(place, kind, values, comments))
        # A dataclass without a docstring has its signature for one.
        is_told = place and kind.__doc__ and not kind.__doc__.startswith(f"{kind.__name__}(")
        about = " ".join(kind.__doc__.split()) + "\n\n" if is_told else ""
        parts.append(f"## {code(place) or 'Job'}\n\n{about}{table(COLUMNS, rows)}")
    return "\n".join(parts)


def sections(kind: type, place: str = "") -> Iterator[tuple[str, type]]:
    """Every typed class of the configuration with the place of its keys, outermost first."""
    yield place, kind
    for one in fields(kind):
        inner = _typed(typing.get_type_hints(kind)[one.name])
        if inner and one.name not in REPEATED:
            yield from sections(inner, f"{place}.{NAMES.get(one.name, one.name)}".lstrip("."))


def key_rows(place: str, kind: type, values: Any, comments: dict[str, str]) -> Iterator[tuple[str, ...]]:
    """key, type and range, default, meaning."""
    hints, known = typing.get_type_hints(kind), options(kind)
    for one in fields(kind):
        key = f"{place}.{one.name}".lstrip(".")
        option = known.get(one.name, Option())
        if _typed(hints[one.name]) and one.name not in REPEATED and not option.about:
            continue  # a section of its own says it
        meaning = option.about or comments.get(key, "")
        spoken = "duration" if isinstance(option, DurationOption) else type_words(hints[one.name])
        allowed = ", ".join(filter(None, (spoken, limits(option))))
        yield code(key), allowed, code(_default(one, values, key)), plain(meaning)


def type_words(hint: Any) -> str:
    """A type in words: `float | None` is "number or null"."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        words = [type_words(one) for one in inner if one is not types.NoneType]
        return " or ".join([*words, "null"] if types.NoneType in inner else words)
    if origin is list:
        return f"list: {type_words(inner[0])}"
    return "group of keys" if is_dataclass(hint) else WORDS.get(origin or hint, "text")


def limits(option: Option) -> str:
    """The values that a key may have beyond its type."""
    if option.among:
        return " · ".join(code(one.value if isinstance(one, Enum) else one) for one in option.among)
    told = {"≥": option.at_least, ">": option.above, "<": option.below}
    words = [f"{sign} {limit:.10g}" for sign, limit in told.items() if limit is not None]
    if isinstance(option, DurationOption):
        words.append(" · ".join(Unit))
    return ", ".join(words)


def shown_values() -> tuple[dict[str, Any], dict[str, str]]:
    """Values of a job that nobody has changed, and the comment beside each key, both as the files have them."""
    main = CONFIGURATION / "train.yaml"
    values = yaml.safe_load(main.read_text(encoding="utf-8"))
    comments = comments_of(main)
    for chosen in values["defaults"]:
        ((group, name),) = chosen.items() if isinstance(chosen, dict) else [("_self_", None)]
        file = CONFIGURATION / group / f"{name}.yaml"
        if file.is_file() and group not in values:
            values[group] = yaml.safe_load(file.read_text(encoding="utf-8"))
            comments |= {f"{group}.{key}": about for key, about in comments_of(file).items()}
    return values, comments


def comments_of(file: Path) -> dict[str, str]:
    """Dotted key → the comment on its line."""
    found: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"^(\s*)([\w.@/]+):", line):
            indent = len(match[1])
            above = [*(one for one in above if one[0] < indent), (indent, match[2])]
            if told := COMMENTED.match(line):
                found[".".join(name for _, name in above)] = told[3]
    return found


def _typed(hint: Any) -> type | None:
    """The typed class that a key, or each value of a mapping, is made of; None where there is none."""
    if is_dataclass(hint):
        return typing.cast(type, hint)
    inner = [one for one in typing.get_args(hint) if is_dataclass(one)]
    return inner[0] if inner else None


def _default(one: Field[Any], values: Any, key: str) -> str:
    found = values
    for part in key.split("."):
        found = found.get(part, MISSING) if isinstance(found, dict) else MISSING
    if found is MISSING:
        found = one.default if one.default_factory is MISSING else one.default_factory()
    return "" if found is MISSING or found == "???" else as_yaml(found)
