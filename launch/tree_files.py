"""What the files of a configuration tree say of each other: whose keys a set is, and which class a name stands for."""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import yaml
from omegaconf import DictConfig

from conf.job import JobConfig
from juzhen.core.safe_open import read_text
from juzhen.core.schema import ConfigError
from launch.job import targets_of

HEADER = re.compile(r"\A(?:\s*#.*\n)*?\s*#\s*@package\s+(\S+)")
"""A comment before the first key, as Hydra reads it."""


def check_set_files(config: DictConfig, folders: Sequence[Path]) -> None:
    """Raises ConfigError where a set's file says not whose keys it holds, or two say the same: they would be merged.

    folders  of configuration trees; of files with one name Hydra takes that of the first
    """
    sets = config.get("dataset")
    if not isinstance(sets, DictConfig) or not sets:
        return
    options: dict[Path, Path] = {}
    for folder in folders:
        for path in sorted((folder / "dataset").rglob("*.yaml")):
            options.setdefault(path.relative_to(folder), path)
    owners: dict[str | None, list[Path]] = {}
    for path in options.values():
        owners.setdefault(_package(path), []).append(path)
    if {"name", "kind"} <= {*sets} and None in owners:
        first = owners[None][0]
        raise ConfigError(
            f"{_shown(first)}: says not whose keys these are; its first line must be '# @package dataset.{first.stem}'"
        )
    for key in sets:
        files = owners.get(f"dataset.{key}", [])
        if len(files) > 1:
            other = next((path for path in files if path.stem != key), files[-1])
            raise ConfigError(
                f"{' and '.join(map(_shown, files))} both say '# @package dataset.{key}', so they would be merged into "
                f"one set; {_shown(other)} must say '# @package dataset.{other.stem}' and name: {other.stem}"
            )


def check_own_names(job: JobConfig, trees: Sequence[Path]) -> None:
    """Raises ConfigError for a model or a loss without a name, or with that of another class in one of `trees`.

    Keys, results and tables know it by its name.
    """
    for key, node in targets_of(job):
        if key.startswith("callbacks."):
            continue
        name, target, where = node.get("name"), node["_target_"], f"{key}.name"
        if not re.fullmatch(r"\w[\w-]*", str(name or "")):
            prefix = f"{where}={name}:" if name else f"{where} is not set;"
            example = f"for example {where}={target.rpartition('.')[2].lower()}"
            raise ConfigError(
                f"{prefix} expected letters, digits, _ and -, {example}: keys and tables go by it", where
            )
        for tree in trees:
            file = tree / ("model" if key == "model" else "loss") / f"{name}.yaml"
            class_name = _class_in(file)
            if class_name and class_name != target.rpartition(".")[2]:
                raise ConfigError(
                    f"{where}={name}: {file.relative_to(tree.parent)} calls {class_name} so, and this is {target}; "
                    f"give it a name of its own: {where}=<name>"
                )


def _package(path: Path) -> str | None:
    try:
        match = HEADER.match(read_text(path)[:2000])
    except (OSError, UnicodeDecodeError):
        return ""  # Hydra names what is wrong with the file, if it is chosen
    return match[1] if match else None


def _shown(path: Path) -> str:
    return "/".join(path.parts[-3:])


@cache
def _class_in(file: Path) -> str | None:
    """The class that a file of a model or a loss names; None where there is no such file, or it names none."""
    content = yaml.safe_load(read_text(file)) if file.is_file() else None
    target = content.get("_target_") if isinstance(content, dict) else None
    return target.rpartition(".")[2] if isinstance(target, str) else None
