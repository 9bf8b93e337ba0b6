"""The files of data sets, each of which must say whose keys it holds: else they are merged into others, unseen."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from juzhen.core.errors import UserError, nearest
from juzhen.core.opened import read_text
from juzhen.data.configured import spelt_labels
from juzhen.data.spec import DatasetConfig
from launch.explain import ConfigError

HEADER = re.compile(r"\A(?:\s*#.*\n)*?\s*#\s*@package\s+(\S+)")
"""A comment before the first key, as Hydra reads it."""

NAME = re.compile(r"\w[\w-]*")
"""What a set may be called: its name is part of keys, folders, tables and columns `split/name/metric`."""


def check_set_files(config: DictConfig, folders: Sequence[Path]) -> None:
    """Raises ConfigError where a chosen file of a data set has no header, or shares its key with another file.

    folders  of configuration trees; of files with one name Hydra takes that of the first
    """
    sets = config.get("dataset")
    if not isinstance(sets, DictConfig) or not sets:
        return
    options: dict[Path, Path] = {}
    for folder in folders:
        for path in sorted((folder / "dataset").rglob("*.yaml")):
            options.setdefault(path.relative_to(folder), path)
    said: dict[str | None, list[Path]] = {}
    for path in options.values():
        said.setdefault(_package(path), []).append(path)
    lost = [field.name for field in fields(DatasetConfig) if field.name in sets]
    if len(lost) > 1 and None in said:
        files = ", ".join(_shown(path) for path in said[None])
        raise ConfigError(
            f"{files}: says not whose keys these are; its first line must be '# @package dataset.{said[None][0].stem}'"
        )
    for key in sets:
        files = said.get(f"dataset.{key}", [])
        if len(files) > 1:
            other = next((path for path in files if path.stem != key), files[-1])
            raise ConfigError(
                f"{' and '.join(map(_shown, files))} both say '# @package dataset.{key}', so they would be merged into "
                f"one set; {_shown(other)} must say '# @package dataset.{other.stem}' and name: {other.stem}"
            )


def spelt_sets(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a job with the labels of its sets as texts. Raises ConfigError for those that are none."""
    spelt = dict(settings)
    for group in ("dataset", "evaluate"):
        if not isinstance(settings.get(group), Mapping):
            continue
        spelt[group] = dict(settings[group])
        for name, described in settings[group].items():
            if isinstance(described, Mapping):
                try:
                    spelt[group][name] = spelt_labels(described, key=f"{group}.{name}")
                except UserError as error:
                    raise ConfigError(str(error), f"{group}.{name}.labels") from error
    return spelt


def check_name(group: str, key: str, dataset: DictConfig) -> None:
    """Raises ConfigError for a set that is not called as its key says, or by what breaks tables and folders."""
    where = f"{group}.{key}.name"
    for place, name in ((group, key), (where, dataset.name)):
        if not NAME.fullmatch(str(name)):
            raise ConfigError(f"{place}: {name}: expected a name of a set: letters, digits, _ and -", where)
    if dataset.name != key:
        raise ConfigError(
            f"{where}={dataset.name}: expected {key}, as in its '# @package dataset.{key}': results go by the name"
        )


def check_dataset(key: str, dataset: DictConfig) -> None:
    """Raises ConfigError where what a set says of itself does not go together; `key` is where it stands."""
    if dataset.layout not in dataset.layouts:
        hint = nearest(dataset.layout, dataset.layouts)
        raise ConfigError(f"{key}.layout={dataset.layout}: there is no such layout; {hint}")
    if dataset.kind == "scored_pair" and dataset.labels:
        raise ConfigError(
            f"{key}.labels: a scored_pair has scores, which need no labels; leave them out, or say "
            f"{key}.kind=labelled_pair"
        )


def _package(path: Path) -> str | None:
    try:
        found = HEADER.match(read_text(path)[:2000])
    except (OSError, UnicodeDecodeError):
        return ""  # Hydra names what is wrong with the file, if it is chosen
    return found[1] if found else None


def _shown(path: Path) -> str:
    return "/".join(path.parts[-3:])
