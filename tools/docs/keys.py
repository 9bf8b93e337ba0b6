"""The pages of the configuration: its keys, from the typed classes that check them, and its groups of files.

The first part writes pieces of Markdown for all pages: tables, names, and docstrings of two columns, which become a
Google section or a list.
"""

import re
import types
import typing
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import MISSING, is_dataclass
from enum import Enum
from itertools import takewhile
from pathlib import Path
from textwrap import dedent
from typing import Any, cast

import yaml
from pydantic import AfterValidator
from pydantic.fields import FieldInfo

from conf.job import JobConfig, Unit, is_length
from conf.own_classes import keys_of
from juzhen.core.paths import CONFIGURATION
from juzhen.core.schema import Among
from tools.generated import users_files


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown; a bar in a cell does not end it."""
    parts = [headings, ["---"] * len(headings), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in parts) + "\n"


def code(text: object) -> str:
    """As it is written in a file or on a command line; nothing for nothing."""
    return f"`{text}`" if str(text) else ""


def plain(text: str) -> str:
    """Text that is no Markdown, as it reads; what stands in backquotes stays code."""
    parts = text.split("`")
    for number in range(0, len(parts), 2):
        for sign in "&<*$":
            parts[number] = parts[number].replace(sign, f"&#{ord(sign)};")
    return "`".join(parts)


def as_yaml(value: object) -> str:
    """A value as a configuration spells it, on one line."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {as_yaml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(as_yaml, value)) + "]"
    return f"{value:g}" if isinstance(value, float) else str(value)


LISTED = r"[\w`*/.<>]+(?:, [\w`*/.<>]+)*"
COLUMNS = re.compile(rf"({LISTED})\s\s+(\S.*)")
BLANK = re.compile(r"\n\s*\n")


def as_markdown(text: str, parameters: Collection[str] = (), *, section: str = "Args") -> str:
    """Rewrite blocks of `name  meaning`, and indented blocks without a heading as code.

    Args:
        text: A docstring.
        parameters: Names of the section. A block with other names becomes a list.
        section: Heading of the section.

    Returns:
        The docstring with sections in Google style.
    """
    return "\n\n".join(_paragraph(block, parameters, section) for block in BLANK.split(text.strip("\n")))


def _paragraph(block: str, parameters: Collection[str], section: str) -> str:
    if pairs := _columns(block):
        named = [(name, about) for names, about in pairs for name in names.replace("*", "").split(", ")]
        if all(name in parameters for name, _ in named):
            return "\n".join([f"{section}:", *(f"    {name}: {_escaped(about)}" for name, about in named)])
        return "\n".join(f"- {_code(names)}: {_escaped(about)}" for names, about in pairs)
    if block.startswith(("    ", ">>>")):
        return f"```python\n{dedent(block)}\n```"
    return _escaped(block)


def _columns(block: str) -> list[tuple[str, str]]:
    """The names of a block and their meanings, or [] if it has no columns."""
    pairs: list[tuple[str, str]] = []
    for line in dedent(block).splitlines():
        if match := COLUMNS.fullmatch(line):
            pairs.append((match[1], match[2]))
        elif pairs and line.startswith(" "):
            pairs[-1] = (pairs[-1][0], f"{pairs[-1][1]} {line.strip()}")
        else:
            return []
    return pairs


def _code(names: str) -> str:
    return ", ".join(f"`{name.strip('`')}`" for name in names.split(", "))


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("$", "&#36;")


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

KEYS_HEAD = """\
---
search: {boost: 1.5}
---
# Configuration keys

Every key of a job: what it means, the values that it may have, and its default. On the command line `key=value`
changes one (`training.batch_size=128`), `+key=value` sets one that has no value yet. Defaults are those of
`python train.py` alone; a file of a group may hold others: [groups of files](groups.md). `python train.py --cfg job
--resolve` shows the values of a job of yours.
"""


def keys_page() -> str:
    values, comments = shown_values()
    parts = [KEYS_HEAD]
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


GROUPS = {
    "model": "What is trained, and how it reads sentences.",
    "loss": "What is minimised. [Losses and models](../losses.md) compares them and says which model takes which.",
    "dataset": "What is trained on, and what a suite evaluates on. `dataset=[csts,afqmc]` takes several.",
    "benchmark": "Sets that a run is evaluated on besides those that it is trained on.",
    "backbone": "The pretrained transformer. Its keys: [backbone](keys.md#backbone).",
    "adapter": "A few matrices that learn beside frozen weights ([adapters](../guides/adapters.md)); `null`: none.",
    "schedule": "In which order, and in which shares, sets are learnt from. Keys: [schedule](keys.md#schedule).",
    "augmentation": "Sentences changed while they are learnt from. Keys: [augmentation](keys.md#augmentation).",
    "mining": "Negatives that a model finds itself, before or while it learns.",
    "weights": "Losses of several sets weighed anew while they are learnt from; `weights=null`: fixed.",
    "hardware": "What computes. Keys: [hardware](keys.md#hardware).",
    "callbacks": "What watches a run. `callbacks=[default,<name>]` adds, `callbacks.<name>=null` leaves out.",
    "logger": "Where the curve of a run goes. Keys: [logger](keys.md#logger).",
    "experiment": "Named recipes: they state what differs from a job that nobody has changed.",
    "sweep": "Named sets of runs, for `python train.py -m sweep=…`.",
    "debug": "For trying things out.",
    "hydra/launcher": "Where the runs of `-m` are computed.",
    "hydra/sweeper": "Which runs `-m` makes.",
}
"""Folder of conf → what its files are for, in the order of the page."""

IN_ONE_TABLE = ("dataset",)
GROUPS_HEAD = """\
---
search: {boost: 0.4}
---
# Configuration groups

`group=option` on the command line of `train.py` chooses a file of `conf/`; each is shown below with what it holds.
`key=value` after it changes one value. [Configuration keys](keys.md) has the types and ranges of the keys that every
job has.
"""


def groups_page() -> str:
    parts = [GROUPS_HEAD]
    for group, about in GROUPS.items():
        parts.append(f"## {group}\n\n{about}\n")
        files = sorted({*(CONFIGURATION / group).rglob("*.yaml")} - users_files())
        parts += [_sets(files)] if group in IN_ONE_TABLE else [_option(group, file) for file in files]
    return "\n".join(parts)


def _option(group: str, file: Path) -> str:
    """What the comment above a file says, and what the file holds."""
    name = file.relative_to(CONFIGURATION / group).with_suffix("").as_posix()
    title = f"### {group.removeprefix('hydra/')}={name}\n"
    text = file.read_text(encoding="utf-8")
    held, rows = yaml.safe_load(text) or {}, text.splitlines()
    above = list(takewhile(lambda line: line.startswith("#"), rows))
    if "_target_" in held and not any(isinstance(value, dict | list) for value in held.values()):
        body = _keys(file, held)
    else:
        body = "```yaml\n" + "\n".join(rows[len(above) :]) + "\n```\n"
    return "\n".join([title, *_paragraphs(above), body])


def _paragraphs(comment: list[str]) -> Iterator[str]:
    """Lines that begin at the margin are sentences, indented ones are commands or lists."""
    rows = [line[1:].removeprefix(" ") for line in comment if not line.startswith("# @package")]
    sentences = [line for line in rows if not line.startswith("  ")]
    commands = [line for line in rows if line.startswith("  ")]
    if sentences:
        yield plain(" ".join(sentences)) + "\n"
    if commands:
        yield "```text\n" + "\n".join(line[2:] for line in commands) + "\n```\n"


def _keys(file: Path, held: dict[str, object]) -> str:
    """The keys of a class: what it takes stands in the table that command lines are checked by."""
    target = str(held["_target_"])
    declaration = None if target.startswith("hydra_plugins.") else keys_of(target)
    comments = comments_of(file)
    rows = []
    for key, value in held.items():
        if key not in ("_target_", "name"):
            field = declaration.model_fields.get(key) if declaration else None
            rows.append(
                (
                    code(key),
                    type_words(field) if field else "",
                    code(as_yaml(value)),
                    plain(comments.get(key, "")),
                )
            )
    link = f"[{code(target)}][{target}]" if target.startswith("juzhen.") else code(target)
    return f"Class: {link}.\n" + ("\n" + table(("key", "type", "value", "meaning"), rows) if rows else "")


def _sets(files: list[Path]) -> str:
    held = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in files]
    rows = [
        (
            code(settings["name"]),
            settings["kind"],
            settings["language"],
            _promised(settings.get("rows") or {}),
            plain(settings.get("about", "")),
            settings.get("license", ""),
        )
        for settings in held
    ]
    return table(("set", "kind", "language", "rows train / dev / test", "what it is", "license"), rows)


def _promised(rows: dict[str, int | None]) -> str:
    numbers = [rows.get(split) for split in ("train", "dev", "test")]
    return " / ".join("–" if number is None else f"{number:,}" for number in numbers)
