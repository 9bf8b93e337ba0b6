"""Checks `_target_` nodes against the constructors they name, without importing these: that would load torch.

Modules are read with `ast`. Code outside the project is never named by a configuration (`conf.own_classes`).
"""

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conf.own_classes import is_own, refusal
from juzhen.core.errors import nearest
from juzhen.core.source_code import ROOT, definitions, original_name, source_file
from launch.annotations import check_value
from launch.explain import ConfigError, key_hint

HYDRA_KEYS = ("_target_", "_args_", "_partial_", "_recursive_", "_convert_")
NO_PARAMETERS = ("Module", "LightningModule", "ABC", "Protocol", "object")
"""Foreign base classes whose constructors take nothing from a configuration."""


@dataclass
class Parameters:
    """What a constructor takes: name → annotation (None without one); `open` when it takes anything."""

    annotations: dict[str, ast.expr | None] = field(default_factory=dict)
    required: set[str] = field(default_factory=set)
    open: bool = False


def check_target(
    node: Mapping[str, Any], key: str, *, injected: Iterable[str] | None = (), root: Path = ROOT
) -> None:
    """Raises ConfigError unless `node`'s keys fit the constructor that its `_target_` names.

    injected  parameters that the code gives at run time; None: whatever the configuration leaves out
    """
    target = node["_target_"]
    package = "lightning_modules" if key == "model" else "losses"
    if not is_own(target) or not target.startswith(f"{package}."):
        hint = nearest(str(target).split(".")[0], [package])
        raise ConfigError(f"{key}._target_={refusal(target)}; {hint}", f"{key}._target_")
    taken = find_parameters(target, key, root)
    given = {name: value for name, value in node.items() if name not in HYDRA_KEYS}
    from_code = set(injected or ())
    settable = [name for name in taken.annotations if name not in from_code]
    for name, value in given.items():
        if name in taken.annotations and name not in from_code:
            check_value(f"{key}.{name}", value, taken.annotations[name])
        elif not taken.open:
            raise ConfigError(
                f"{key}.{name}: {target} has no such parameter; {key_hint(name, settable)}", f"{key}.{name}"
            )
    if injected is not None and (missing := sorted(taken.required - set(given) - from_code)):
        raise ConfigError(f"{key}.{missing[0]} is not set, but {target} needs it", f"{key}.{missing[0]}")


def find_parameters(target: str, key: str, root: Path) -> Parameters:
    """Parameters of the class or function at a dotted path. Raises ConfigError when there is none."""
    module, _, name = target.rpartition(".")
    if source_file(root, module) is None:
        package, _, last = module.rpartition(".")
        folder = root.joinpath(*package.split(".")) if package else root
        known = [path.stem for path in folder.glob("*.py") if path.stem != "__init__"]
        raise ConfigError(
            f"{key}._target_={target}: there is no module {module}; {nearest(last, known)}", key
        )
    found = _in_module(root, module, name)
    if found is None:
        known = [one for one in definitions(root, module) if not one.startswith("_")]
        raise ConfigError(f"{key}._target_={target}: {module} has no {name}; {nearest(name, known)}", key)
    return found


def _in_module(root: Path, module: str, name: str) -> Parameters | None:
    node = definitions(root, module).get(name)
    if isinstance(node, ast.ImportFrom):
        has_file = source_file(root, node.module or "")
        return _in_module(root, node.module, original_name(node, name)) if has_file else None
    if isinstance(node, ast.FunctionDef):
        return _of_function(node, skip=0)
    return _of_class(root, module, node) if node else None


def _of_class(root: Path, module: str, node: ast.ClassDef) -> Parameters:
    """Parameters of `__init__`, and those of the base classes where it is inherited or passes `**rest` on."""
    own = next(
        (one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"), None
    )
    taken = _of_function(own, skip=1) if own else _of_dataclass(node)
    if own and not own.args.kwarg:
        return taken
    taken.open = False
    for base in node.bases:
        written = ast.unparse(base).partition("[")[0]
        inherited = _in_module(root, module, written)
        if inherited is None:
            taken.open |= written.rpartition(".")[2] not in NO_PARAMETERS
            continue
        taken.annotations = inherited.annotations | taken.annotations
        taken.required |= inherited.required
        taken.open |= inherited.open
    return taken


def _of_function(node: ast.FunctionDef, *, skip: int) -> Parameters:
    spec = node.args
    positional = (spec.posonlyargs + spec.args)[skip:]
    optional = positional[len(positional) - len(spec.defaults) :] if spec.defaults else []
    optional += [one for one, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if default]
    every = {one.arg: one.annotation for one in positional + spec.kwonlyargs}
    return Parameters(every, set(every) - {one.arg for one in optional}, open=spec.kwarg is not None)


def _of_dataclass(node: ast.ClassDef) -> Parameters:
    if not any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
        return Parameters()
    declared = [
        one for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    ]
    return Parameters(
        {one.target.id: one.annotation for one in declared},
        {one.target.id for one in declared if not one.value},
    )
