"""The page of the configuration's keys, from the typed classes that check them and the files that hold their values."""

import re
import types
import typing
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import AfterValidator
from pydantic.fields import FieldInfo

from conf.duration import Unit, is_length
from conf.job import JobConfig
from juzhen.core.paths import CONFIGURATION
from juzhen.core.schema import Among
from tools.docs.markup import as_yaml, code, plain
from tools.generated import users_files

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
FOR_SCORES = re.compile(r"\$\{for_scores:\{(.*)\}\}")
"""A value that depends on what scores are."""

COMMENTED = re.compile(r"^(\s*)([\w.@/]+):.*?\s#\s(.*)$")
CHOSEN = {"loss": "loss", "model": "model"}
"""Group → where the keys of its files stand in a job: each file has others."""

HEAD = """\
---
search: {boost: 1.5}
---
# Configuration keys

Every key of a job: what it means, the values that it may have, and its default. On the command line `key=value`
changes one (`training.batch_size=128`), `+key=value` sets one that has no value yet. Defaults are those of
`python train.py` alone; a file of a group may hold others: [groups of files](groups.md). `python train.py --cfg job
--resolve` shows the values of a job of yours.
"""


def page() -> str:
    values, comments = shown_values()
    parts = [HEAD]
    described = [
        (path, kind, list(key_rows(path, kind, values, comments))) for path, kind in sections(JobConfig)
    ]
    of_job = bare_keys(row[0] for path, _, rows in described if "<" not in path for row in rows)
    for path, kind, rows in described:
        # A dataclass without a docstring has its signature for one.
        is_told = path and kind.__doc__ and not kind.__doc__.startswith(f"{kind.__name__}(")
        about = " ".join(kind.__doc__.split()) + "\n\n" if is_told else ""
        entries = [
            entry(*row, is_of_a_set="<" in path and bool(of_job & bare_keys([row[0]]))) for row in rows
        ]
        parts.append(f"## {code(path) or 'Job'}\n\n{about}{''.join(entries)}")
        if not path:
            parts += [_chosen(group, place) for group, place in CHOSEN.items()]
    return "\n".join(parts)


def bare_keys(keys: Iterable[str]) -> set[str]:
    """Their last parts: `batch_size` of `training.batch_size`."""
    return {key.strip("`").rpartition(".")[2] for key in keys}


def entry(key: str, kind: str, default: str, meaning: str, *, is_of_a_set: bool = False) -> str:
    """A heading that the search finds, and below it what a phone can show without scrolling sideways.

    is_of_a_set  a set or a stage may have the key besides the job: the search leads to that of the job
    """
    anchor = re.sub(r"[`<>]", "", key)
    unsearched = " data-search-exclude" if is_of_a_set else ""
    values = " · ".join(filter(None, [kind, default and f"default {default}"]))
    return f"### {key} {{ #{anchor}{unsearched} }}\n\n{meaning}\n\n{values}\n{{: .values }}\n\n"


def _chosen(group: str, place: str) -> str:
    """The keys of the files of a group, each with the files that have it; those are no text of the search."""
    keys: dict[str, dict[tuple[str, str], list[str]]] = {}
    for file in sorted({*(CONFIGURATION / group).glob("*.yaml")} - users_files()):
        comments = comments_of(file)
        for key, value in (yaml.safe_load(file.read_text(encoding="utf-8")) or {}).items():
            if key not in ("_target_", "name", "defaults") and not isinstance(value, dict):
                text = FOR_SCORES.sub(
                    lambda match: match[1].replace(":", ": ").replace(",", ", "), as_yaml(value)
                )
                keys.setdefault(key, {}).setdefault((code(text), plain(comments.get(key, ""))), []).append(
                    file.stem
                )
    parts = [
        f"## `{place}`\n\nWhich of these keys a job has depends on `{group}=…`: [the files](groups.md#{group}).\n\n"
    ]
    for key, options in sorted(keys.items()):
        rows = [
            f"- {', '.join(map(code, names))}: {value}{meaning and f', {meaning}'}"
            for (value, meaning), names in options.items()
        ]
        typed = f"`{place}.{key}=…` sets it, in place of what the file of `{group}=…` holds:"
        listed = "<div data-search-exclude markdown>\n\n" + "\n".join(rows) + "\n\n</div>"
        parts.append(f"### `{place}.{key}` {{ #{place}.{key} }}\n\n{typed}\n\n{listed}\n\n")
    return "".join(parts)


def sections(kind: type, path: str = "") -> Iterator[tuple[str, type]]:
    """Every typed class of the configuration with the place of its keys, outermost first."""
    yield path, kind
    for name, field in described_fields(kind).items():
        inner = _typed(field.annotation)
        if inner and name not in REPEATED:
            yield from sections(inner, f"{path}.{NAMES.get(name, name)}".lstrip("."))


def key_rows(path: str, kind: type, values: Any, comments: dict[str, str]) -> Iterator[tuple[str, ...]]:
    """key, type and range, default, meaning."""
    for name, field in described_fields(kind).items():
        key = f"{path}.{name}".lstrip(".")
        if _typed(field.annotation) and name not in REPEATED and not field.description:
            continue  # a section of its own says it
        meaning = field.description or comments.get(key, "")
        yield code(key), type_words(field), code(_default(field, values, key)), plain(meaning)


def described_fields(kind: type) -> dict[str, FieldInfo]:
    """Name of each key of a described type → what pydantic knows of it."""
    return cast(dict[str, FieldInfo], kind.__pydantic_fields__)  # type: ignore[attr-defined]


def type_words(field: FieldInfo) -> str:
    """A type and its limits in words: `float | None` above 0 is "number or null, > 0"."""
    is_duration = any(
        isinstance(validator, AfterValidator) and validator.func is is_length for validator in field.metadata
    )
    units = " · ".join(Unit) if is_duration else ""
    type_name = "duration" if units else _words(field.annotation)
    return ", ".join(filter(None, [type_name, *_limits(field.metadata), units]))


def _words(hint: Any) -> str:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        parts = [_words(each) for each in inner if each is not types.NoneType]
        return " or ".join([*parts, "null"] if types.NoneType in inner else parts)
    if origin is typing.Annotated:
        names = [name for each in inner[1:] if isinstance(each, Among) for name in each.names]
        limits = [limit for each in inner[1:] for limit in _limits(getattr(each, "metadata", ()))]
        return " · ".join(map(code, names)) or ", ".join([_words(inner[0]), *limits])
    if origin is typing.Literal:
        return " · ".join(map(code, inner))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return " · ".join(code(each.value) for each in hint)
    if origin in (list, Sequence):
        return f"list: {_words(inner[0])}"
    return "group of keys" if is_dataclass(hint) else WORDS.get(origin or hint, "text")


def _limits(metadata: Iterable[Any]) -> Iterator[str]:
    for limit in metadata:
        for name, sign in (("ge", "≥"), ("gt", ">"), ("lt", "<")):
            if (value := getattr(limit, name, None)) is not None:
                yield f"{sign} {value:.10g}"


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
    comments: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"^(\s*)([\w.@/]+):", line):
            indent = len(match[1])
            above = [*(owner for owner in above if owner[0] < indent), (indent, match[2])]
            if match_comment := COMMENTED.match(line):
                comments[".".join(name for _, name in above)] = match_comment[3]
    return comments


def _typed(hint: Any) -> type | None:
    """The typed class that a key, or each value of a mapping, is made of; None where there is none."""
    inner = [
        hint,
        *typing.get_args(hint),
        *(nested for argument in typing.get_args(hint) for nested in typing.get_args(argument)),
    ]
    return next(
        (argument for argument in inner if isinstance(argument, type) and is_dataclass(argument)), None
    )


def _default(field: FieldInfo, values: Any, key: str) -> str:
    value = values
    for part in key.split("."):
        value = value.get(part, MISSING) if isinstance(value, dict) else MISSING
    if value is MISSING:
        value = MISSING if field.is_required() else field.get_default(call_default_factory=True)
    return "" if value is MISSING or value == "???" else as_yaml(value)
