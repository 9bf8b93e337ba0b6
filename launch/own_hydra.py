"""What a configuration file may ask of Hydra itself, which would import and call whatever its node names.

The command line may set these keys: whoever types it may run what they like. A data set or a recipe from somewhere else
may not, since Hydra would run their code before the job begins.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from juzhen.core.schema import ConfigError
from juzhen.core.text import name_fault

TARGETS = re.compile(
    r"hydra\._internal\.core_plugins\.\w+\.Basic(Launcher|Sweeper)"
    r"|hydra_plugins\.\w+\.\w+\.[A-Z]\w*(Launcher|Sweeper)"
)
"""Launchers and sweepers of Hydra, of its plugins and of juzhen; nothing else is made from a name."""

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
    """Raises ConfigError for code or a place that a file names, and that neither juzhen nor the command line has named.

    node  the plain `hydra` node of a composed configuration, its references not filled in
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
            raise ConfigError(f"hydra.{key}: a file sets this to {chosen}; only the command line may")
    if _select(node, "output_subdir") not in (".hydra", None):
        raise ConfigError(
            "hydra.output_subdir: expected .hydra, by which the folder of a run is known, or null for none"
        )
    if fault := name_fault(str(_select(node, "job.name"))):
        raise ConfigError(f"hydra.job.name: expected a name of a file: {fault}")


def _leaves(node: Any, key: str) -> Iterator[tuple[str, Any]]:
    """Dotted key and value of everything that is no container."""
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
