"""Turns what Hydra, OmegaConf and YAML say into what the person at the keyboard typed and should type."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from hydra.errors import MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException
from yaml import MarkedYAMLError

from juzhen.core.errors import UserError, nearest
from juzhen.core.opened import read_text
from juzhen.data.spec import DatasetConfig
from launch.hydra_internals import root_of

SPOKEN_TYPES = {
    "Integer": "a whole number",
    "Float": "a number",
    "bool": "true or false",
    "ListConfig": "a list, in quotes: '{key}=[{value}]'",
    "subclass": "a group of keys ({key}.<key>=<value>), not a single value",
    "'int'": "a whole number",
    "'float'": "a number",
    "'bool'": "true or false",
    "'str'": "text",
}
"""Word in OmegaConf's message → what was expected."""

MIXED = "a list […] stands for a group of keys {<key>: <value>}, or a group for a list"

MOST_OPTIONS = 12
"""More options than these are not listed where one is mistyped."""


class ConfigError(UserError):
    """A mistake at one key of the composed configuration; `key` lets the caller find where it was set.

    key  None: what the message begins with, as in "seed=x: …", if that is like a key
    """

    def __init__(self, message: str, key: str | None = None) -> None:
        super().__init__(message)
        found = re.match(r"(\w[\w.-]*(?:\[\d+\])?)[=:]", message)
        self.key = (found[1] if found else "") if key is None else key


def option_hint(group: str, option: str, options: Iterable[str]) -> str:
    """One line for an option that does not exist: the nearest, then all, or where all are shown."""
    options = sorted(options)
    if not options:
        return f"{group}={option}: the group {group} has no options yet"
    if len(options) > MOST_OPTIONS:
        close = difflib.get_close_matches(option.lower(), options, n=3, cutoff=0.0)
        close.sort(
            key=lambda one: sorted(one) != sorted(option.lower())
        )  # letters in another order: the likeliest slip
        hint = (
            f"did you mean {close[0]}, {close[1]} or {close[2]}? All {len(options)}: python train.py --help"
        )
    else:
        hint = nearest(option.lower(), options)
        hint += "" if hint.startswith("known") else f" Options of {group}: {', '.join(options)}"
    return f"{group}={option}: there is no such option; {hint}"


def key_hint(word: str, siblings: Iterable[str], root: DictConfig | None = None) -> str:
    """Where a wrong key belongs: the same word elsewhere in the configuration, else the nearest sibling."""
    plain = {} if root is None else OmegaConf.to_container(root, resolve=False)
    of_all_jobs = {key: one for key, one in plain.items() if key not in ("hydra", "dataset", "evaluate")}
    elsewhere = [path for path, _ in leaves(of_all_jobs) if path.rpartition(".")[2] == word.lower()]
    if elsewhere:
        return f"did you mean {' or '.join(elsewhere)}?"
    return nearest(word.lower(), (str(name) for name in siblings if name != "hydra"))


def leaves(node: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted path and value of all that is no group of keys."""
    for key, value in node.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def explain_composition(error: Exception, groups: Iterable[str] = ()) -> ConfigError:
    """The mistake behind an exception of Hydra's composition; `groups` are the names of groups, for hints."""
    if isinstance(error, MissingConfigException):
        group, _, option = (error.missing_cfg_file or "").rpartition("/")
        if not group:
            return ConfigError(f"there is no configuration file {option}.yaml; the job's is called train")
        return ConfigError(option_hint(group, option, error.options or ()), option)
    if isinstance(error, MarkedYAMLError):
        mark = error.problem_mark
        place = f"{mark.name}, line {mark.line + 1}" if mark else "a configuration file"
        return ConfigError(f"{place}: this is not valid YAML: {error.problem}")
    cause = error.__cause__
    if isinstance(cause, ConfigKeyError | ConfigAttributeError):
        return unknown_key(cause, groups)
    text = str(error).strip()
    if match := re.search(r"In '(.+?)': .*\s+full_key: hydra\.launcher\.(\w+)", text, re.DOTALL):
        return ConfigError(
            f"conf/{match[1]}.yaml: hydra.launcher.{match[2]} is no key of the launcher that is chosen; write it below "
            "hydra.sweeper.launcher there, of which each launcher takes what it has"
        )
    if match := re.search(r"already at '(.+?)'", text):
        return ConfigError(
            f"+{match[1]}: this key exists already; write {match[1]}=… without the +", match[1]
        )
    if match := re.search(r"Multiple values for (\S+?)\.", text):
        return ConfigError(f"{match[1]} is chosen twice; write {match[1]}=… once and without a +", match[1])
    if match := re.search(r"delete from config\. '(.+?)' does not exist", text):
        return ConfigError(f"~{match[1]}: there is no such key to take out", match[1])
    if isinstance(cause, OmegaConfBaseException) and "Cannot merge DictConfig with ListConfig" in str(cause):
        return ConfigError(f"{cause.full_key}: {MIXED}")
    if isinstance(cause, OmegaConfBaseException) and cause.full_key:
        return ConfigError(f"{cause.full_key}: {_first_line(cause)}")
    return ConfigError(" ".join(line.strip() for line in text.splitlines() if line.strip()))


def unknown_key(error: OmegaConfBaseException, groups: Iterable[str] = ()) -> ConfigError:
    """A key that the configuration does not have, with the nearest one that it has."""
    path, word = str(error.full_key), str(error.key)
    kind, parent = error.object_type, error.parent_node
    root = root_of(parent)
    if isinstance(error.key, int):  # labels={0:0}: Hydra reads a number, and files spell labels as texts
        return ConfigError(
            f"{path.removesuffix(f'.{word}')}: {{{word}: …}} has a number for its key, and a command line takes such "
            f"keys one by one: {path}=<value>",
            path,
        )
    if hint := _dataset_hint(path):
        return ConfigError(f"{path}: {hint}")
    if not is_dataclass(kind) and not parent:
        hint = f"{path.rpartition('.')[0]} is a single value, without keys below it"
    else:
        siblings = [field.name for field in fields(kind)] if is_dataclass(kind) else list(parent)
        siblings += [] if "." in path else groups
        hint = key_hint(word, [key for key in siblings if key != "_target_"], root)
    return ConfigError(f"{path}: there is no such key; {hint}")


def _dataset_hint(path: str) -> str:
    """For keys of a dataset: one that may be set but is not spelt out, or a set that is not in the job."""
    group, *rest = path.split(".")
    if group not in ("dataset", "evaluate") or not rest:
        return ""
    if len(rest) == 1:
        choose = f"'dataset=[{rest[0]}]'" if group == "dataset" else "a suite with it, suite=…"
        return f"this job has no such set; choose {choose}"
    if rest[1] in (field.name for field in fields(DatasetConfig)):
        return f"this key is not set yet; with a + it is: '+{path}=…'"
    return ""


def wrong_type(error: OmegaConfBaseException) -> ConfigError:
    """A value of the wrong type: the key, what was given and what was expected."""
    text, key = _first_line(error), str(error.full_key)
    expected = next(
        (spoken for word, spoken in SPOKEN_TYPES.items() if word in text.split("converted to")[-1]), None
    )
    given = getattr(error, "value", None)
    value = "null" if given is None else given
    if expected is None:
        return ConfigError(f"{key}={value}: {text}")
    return ConfigError(f"{key}={value}: expected {expected.format(key=key, value=value)}")


def broken_reference(error: OmegaConfBaseException) -> ConfigError:
    """An interpolation `${…}` that leads nowhere."""
    key = str(error.full_key)
    reason = re.sub(r"^\w+ raised while resolving interpolation: ", "", _first_line(error))
    return ConfigError(f"{key}: cannot fill in ${{…}}: {reason}")


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def chosen_files(folder: Path, lines: Sequence[str]) -> list[Path]:
    """Files of the configuration tree that the overrides choose, in order."""
    files: list[Path] = []
    for line in lines:
        group, equals, value = line.lstrip("+").partition("=")
        if equals:
            group = group.partition("@")[0]
            options = [option.strip() for option in value.strip("[]").split(",")]
            files += [file for option in options if (file := folder / group / f"{option}.yaml").is_file()]
    return files


def place_of(key: str, message: str, lines: Sequence[str], folder: Path) -> str:
    """` (given as +trainer.epoch=3)` or ` (conf/experiment/x.yaml, line 3)`; empty if the message says it."""
    if not key:
        return ""
    for line in lines:
        name = line.lstrip("+~").partition("=")[0]
        if name == key or name.startswith((f"{key}.", f"{key}@")):
            return "" if line in message else f" (given as {line})"
    word = key.rpartition(".")[2].partition("[")[0]
    for file in chosen_files(folder, lines):
        for number, text in enumerate(read_text(file).splitlines(), start=1):
            if re.search(rf"(?<![\w/]){re.escape(word)}(?!\w)", text.partition("#")[0]):
                return f" ({file.relative_to(folder.parent)}, line {number})"
    return ""
