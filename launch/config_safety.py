"""Checks of the keys that configuration files set in Hydra and in each other.

Hydra imports and calls every class that its node names. The command line may set these keys, because its user
may run anything. A file of a data set or a recipe may not, because Hydra would run its code before the job
begins.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig

from conf.job import JobConfig
from juzhen.core.safe_open import read_text
from juzhen.core.schema import ConfigError
from juzhen.core.text import name_fault
from launch.job import targets_of

TARGETS = re.compile(
    r"hydra\._internal\.core_plugins\.\w+\.Basic(Launcher|Sweeper)"
    r"|hydra_plugins\.\w+\.\w+\.[A-Z]\w*(Launcher|Sweeper)"
)
"""Launchers and sweepers of Hydra, of its plugins and of juzhen. Nothing else is made from a name."""

HANDLERS = re.compile(
    r"logging\.(handlers\.)?\w+(Handler|Formatter)|colorlog\.ColoredFormatter|ext://sys\.std(out|err)"
)
"""What a description of loggers may name."""

LOG_FILE = "${hydra.runtime.output_dir}/${hydra.job.name}.log"

TYPED_ONLY = {
    "callbacks": ({},),
    "job.env_set": ({},),
    "run.dir": ("${run_dir}",),
    "sweep.dir": ("${output_dir}", "multirun/${now:%Y-%m-%d}/${now:%H-%M-%S}"),
    "sweep.subdir": ("${name}-${run_key:}", "${hydra.job.num}"),
}
"""Key → the values that files may give it: ours, and those of Hydra."""


def check_hydra(node: Mapping[str, Any], overrides: Sequence[str]) -> None:
    """Check that no file sets code or paths of Hydra. juzhen and the command line may set them.

    Args:
        node: The plain `hydra` node of a composed configuration, without resolved references.
        overrides: Overrides of the command line.

    Raises:
        ConfigError: Code or a path from a file.
    """
    typed = [re.split("[=@]", line.lstrip("+~"))[0].replace("/", ".") for line in overrides]
    for key, value in _leaves(node, "hydra"):
        name = key.rpartition(".")[2]
        if name == "_target_" and not TARGETS.fullmatch(str(value)):
            raise ConfigError(f"{key}={value}: expected a launcher or a sweeper of Hydra, and no other code")
        if re.match(r"hydra\.(job|hydra)_logging\.", key):
            is_code = name in ("()", "class", "factory") or str(value).startswith(("ext://", "cfg://"))
            is_foreign = is_code and not HANDLERS.fullmatch(str(value))
            if is_foreign or (name == "filename" and str(value) != LOG_FILE):
                expected = "a handler of Python's logging, and a file in the run's folder"
                raise ConfigError(f"{key}={value}: expected {expected}")
    for key, ours in TYPED_ONLY.items():
        chosen = _select(node, key)
        if chosen not in (*ours, None) and not any(word.startswith(f"hydra.{key}") for word in typed):
            raise ConfigError(f"hydra.{key}: a file sets this to {chosen}. Only the command line may")
    if _select(node, "output_subdir") not in (".hydra", None):
        raise ConfigError(
            "hydra.output_subdir: expected .hydra, by which the folder of a run is known, or null for none"
        )
    if fault := name_fault(str(_select(node, "job.name"))):
        raise ConfigError(f"hydra.job.name: expected a name of a file: {fault}")


def _leaves(node: Any, key: str) -> Iterator[tuple[str, Any]]:
    """Dotted key and value of every leaf."""
    if isinstance(node, Mapping):
        for name, value in node.items():
            yield from _leaves(value, f"{key}.{name}")
    elif isinstance(node, list | tuple):
        for value in node:
            yield from _leaves(value, key)
    else:
        yield key, node


def _select(node: Mapping[str, Any], key: str) -> Any:
    for name in key.split("."):
        node = node.get(name) if isinstance(node, Mapping) else None
    return node


HEADER = re.compile(r"\A(?:\s*#.*\n)*?\s*#\s*@package\s+(\S+)")
"""A comment before the first key, as Hydra reads it."""


def check_set_files(config: DictConfig, folders: Sequence[Path]) -> None:
    """Check that each set's file has a package of its set, and that no two files share one.

    Hydra would merge files with the same package.

    Args:
        config: The composed configuration.
        folders: Configuration trees. If several have a file of one name, Hydra takes that of the first.

    Raises:
        ConfigError: A file without a package, or two files with the same one.
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
            f"{_shown(first)}: the data set of these keys is missing. Its first line must be '# @package "
            f"dataset.{first.stem}'"
        )
    for key in sets:
        files = owners.get(f"dataset.{key}", [])
        if len(files) > 1:
            other = next((path for path in files if path.stem != key), files[-1])
            raise ConfigError(
                f"{' and '.join(map(_shown, files))} both have '# @package dataset.{key}', so they would be merged. "
                f"Write '# @package dataset.{other.stem}' and name: {other.stem} into {_shown(other)}"
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
            prefix = f"{where}={name}: not a name" if name else f"{where} is not set"
            example = f"{where}={target.rpartition('.')[2].lower()}"
            raise ConfigError(f"{prefix}. Give letters, digits, _ and -, for example {example}", where)
        for tree in trees:
            file = tree / ("model" if key == "model" else "loss") / f"{name}.yaml"
            class_name = _class_in(file)
            if class_name and class_name != target.rpartition(".")[2]:
                raise ConfigError(
                    f"{where}={name}: {file.relative_to(tree.parent)} is {class_name}, and this is {target}. "
                    f"Give it another name: {where}=<name>"
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
    """The class that a file of a model or a loss names. None without a file or a class."""
    content = yaml.safe_load(read_text(file)) if file.is_file() else None
    target = content.get("_target_") if isinstance(content, dict) else None
    return target.rpartition(".")[2] if isinstance(target, str) else None
