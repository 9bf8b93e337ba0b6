"""Checks what a configuration gives a model, a loss or a callback against what the class takes.

Keys, results and tables know a model or a loss by its name: one name stands for one class.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf

from conf.declared import Declared, declared, declared_by, source_digest, table
from conf.own_classes import is_own, own_class, refusal
from juzhen.core.errors import UserError, nearest
from juzhen.core.opened import read_text
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
        classes = [path for path in table() if path.startswith(f"{package}.")]
        namesakes = [path for path in classes if path.rpartition(".")[2] == str(target).rpartition(".")[2]]
        raise ConfigError(f"{key}._target_={error}; {nearest(str(target), namesakes or classes)}") from error
    try:
        _check(node, key, taken)
    except ConfigError:
        if taken.source == source_digest(target):
            raise
        _check(node, key, declared_by(own_class(target)))


def _check(node: Mapping[str, Any], key: str, taken: Declared) -> None:
    given = {name: value for name, value in node.items() if name not in HYDRA_KEYS}
    for name, value in given.items():
        where = f"{key}.{name}"
        if name not in taken.settings:
            hint = key_hint(name, taken.settings)
            raise ConfigError(f"{where}: {node['_target_']} has no such parameter; {hint}")
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
    raise ConfigError(f"{key}={shown}: expected {' or '.join(expected)}{hint}")


def check_own_names(job: DictConfig, trees: Sequence[Path]) -> None:
    """Raises ConfigError for a model or a loss without a name, or with that of another class in one of `trees`."""
    for key, node in _nodes(OmegaConf.to_container(job)):
        name, target = node.get("name"), node["_target_"]
        where = f"{key}.name"
        if not re.fullmatch(r"\w[\w-]*", str(name or "")):
            hint = f"for example {where}={target.rpartition('.')[2].lower()}"
            given = f"{where}={name}: expected" if name else f"{where} is not set; expected"
            raise ConfigError(f"{given} letters, digits, _ and -, {hint}: keys and tables go by it", where)
        for tree in trees:
            file = tree / ("model" if key == "model" else "loss") / f"{name}.yaml"
            known = _class_in(file)
            if known and known != target.rpartition(".")[2]:
                raise ConfigError(
                    f"{where}={name}: {file.relative_to(tree.parent)} calls {known} so, and this is {target}; give it "
                    f"a name of its own: {where}=<name>"
                )


def _nodes(job: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The model and every loss of a job, each with its key."""
    yield "model", job["model"]
    owners = {"loss": job["loss"]}
    for group in ("stages", "sets"):
        for name, own in job["schedule"][group].items():
            owners[f"schedule.{group}.{name}.loss"] = (own or {}).get("loss") or {}
    for key, node in owners.items():
        if "_target_" in node:
            yield key, node
        else:
            yield from ((f"{key}.{kind}", one) for kind, one in node.items())


@cache
def _class_in(file: Path) -> str | None:
    """The class that a file of a model or a loss names; None where there is no such file, or it names none."""
    content = yaml.safe_load(read_text(file)) if file.is_file() else None
    target = content.get("_target_") if isinstance(content, dict) else None
    return target.rpartition(".")[2] if isinstance(target, str) else None
