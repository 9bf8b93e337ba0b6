"""Keys, results and tables know a model or a loss by its name: one name stands for one class."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf

from launch.explain import ConfigError


def check_own_names(job: DictConfig, trees: Sequence[Path]) -> None:
    """Raises ConfigError for a model or a loss without a name, or with the name of another class.

    trees  folders of configurations; `loss/mse.yaml` of one of them says what `mse` is
    """
    for key, node in _nodes(OmegaConf.to_container(job)):
        name, target = node.get("name"), node["_target_"]
        where = f"{key}.name"
        if not re.fullmatch(r"\w[\w-]*", str(name or "")):
            hint = f"for example {where}={target.split('.')[-2]}"
            given = f"{where}={name}: expected" if name else f"{where} is not set; expected"
            raise ConfigError(f"{given} letters, digits, _ and -, {hint}: keys and tables go by it", where)
        for tree in trees:
            file = tree / ("model" if key == "model" else "loss") / f"{name}.yaml"
            known = _class_in(file)
            if known and known != target.rpartition(".")[2]:
                raise ConfigError(
                    f"{where}={name}: {file.relative_to(tree.parent)} calls {known} so, and this is {target}; give it "
                    f"a name of its own: {where}=<name>",
                    where,
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
    content = yaml.safe_load(file.read_text(encoding="utf-8")) if file.is_file() else None
    target = content.get("_target_") if isinstance(content, dict) else None
    return target.rpartition(".")[2] if isinstance(target, str) else None
