"""The only way from a name in a file to code that runs: classes of juzhen, and losses of packages that declare them.

Results, run folders, data sets and recipes may come from anybody. Each `_target_` in them is looked up here.
Only losses of `juzhen/losses/`, models of `lightning_modules/`, callbacks of `callbacks/`, and entry points
of installed packages in the group `juzhen.losses` are imported.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from inspect import Parameter, signature
from pkgutil import iter_modules
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints
from unittest.mock import patch

from pydantic import BaseModel, create_model

from juzhen import models
from juzhen.core.aliases import current_target
from juzhen.core.errors import UserError
from juzhen.core.schema import STRICT

BASES = {
    "juzhen.losses": "juzhen.losses.loss.Loss",
    "lightning_modules": "lightning_modules.base.SentenceModule",
    "callbacks": "pytorch_lightning.Callback",
}
"""Package whose classes may be named → what these are subclasses of."""


LOSSES = "juzhen.losses"
"""Package of losses, and the group of entry points by which other packages declare theirs."""


def is_own(target: object) -> bool:
    """True for a path like those of these packages, or declared by an installed one. Imports nothing.

    Args:
        target: Value of a `_target_`. Only a text can be such a path.

    Returns:
        False for any other value.
    """
    pattern = rf"({'|'.join(map(re.escape, BASES))})\.[a-z]\w*\.[A-Z]\w*"
    return isinstance(target, str) and (
        re.fullmatch(pattern, target, re.ASCII) is not None or target in declared_losses()
    )


@cache
def declared_losses() -> set[str]:
    """Dotted names of the losses that installed packages declare.

    Returns:
        Names such as `package.module.Class`. The packages are read once.
    """
    return {entry.value.replace(":", ".") for entry in entry_points(group=LOSSES)}


def _base_of(module: str) -> str:
    """Return the base class of a module's classes. For a package that declares losses: Loss."""
    return BASES.get(module.rpartition(".")[0], BASES[LOSSES])


def refusal(target: object) -> str:
    """Describe why a target is refused.

    Args:
        target: Value of a `_target_`.

    Returns:
        Text of the error.
    """
    return (
        f"{target}: no class of juzhen's. A file may name the models of lightning_modules/, the losses of "
        "juzhen/losses/, those that an installed package declares (entry points, group juzhen.losses) and the "
        "callbacks of callbacks/, and no other code is run for it"
    )


def own_class(target: object) -> type:
    """Import the model, loss or callback of a name.

    Args:
        target: Dotted path. An earlier path of a moved class is accepted.

    Returns:
        The class.

    Raises:
        UserError: Any other name. Nothing is imported for it unless its path is like those of these packages.
    """
    if not is_own(target):
        raise UserError(refusal(target))
    module, _, name = current_target(target).rpartition(".")
    if _base_of(module) != BASES[LOSSES]:
        load_lightning()
    base = _named(*_base_of(module).rsplit(".", 1))
    try:
        candidate = _named(module, name)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise UserError(refusal(target)) from None
    is_its_own = isinstance(candidate, type) and candidate.__module__ == module  # not one that it imports
    if not is_its_own or not issubclass(candidate, base) or candidate is base:
        raise UserError(refusal(target))
    return candidate


UNUSED = {"matplotlib", "scipy", "transformers"}
"""Packages that torchmetrics imports for its plots and its metrics of sound and text."""


def load_lightning() -> None:
    """Import torchmetrics without `UNUSED`, and transformers without torchao and scipy.

    Lightning imports the first and every encoder the second, before the first step. transformers needs torchao to
    save weights that it has quantized, and scipy for losses of object detection. After this, both see all packages
    again, as everybody else does all the time. docs/log/training_speed.md has the time that it saves. A release of
    these packages that asks in another way imports all that it wants.
    """
    from lightning_utilities.core import imports

    find, check = imports.package_available, getattr(imports.RequirementCache, "_check_requirement", None)
    if check is None:
        return

    def check_used(cache: imports.RequirementCache) -> None:
        check(cache)
        if re.split("[<>=]", cache.requirement or "")[0] in UNUSED:
            cache.available, cache.message = False, f"{cache.requirement} is left out of training"

    with (
        patch.object(imports, "package_available", lambda name: name not in UNUSED and find(name)),
        patch.object(imports.RequirementCache, "_check_requirement", check_used),
    ):
        import torchmetrics  # noqa: F401

    from transformers import utils

    leave_out = patch.multiple(
        utils, is_torchao_available=lambda *_: False, is_scipy_available=lambda *_: False
    )
    with suppress(AttributeError, ImportError), leave_out:
        import transformers.loss.loss_utils
        import transformers.quantizers.quantizer_torchao  # noqa: F401


def _named(module: str, name: str) -> object:
    return getattr(import_module(module), name, None)


HEAD = ("dim", "num_classes")
"""What the code gives to a loss that owns a head."""


@cache
def keys_of(target: str) -> type[BaseModel]:
    """Return the configurable keys of a model, a loss or a callback, with their types.

    Losses and callbacks are loaded for it, models are not.

    Args:
        target: Dotted path of the class.

    Returns:
        A pydantic model with a field for each key. Sizes that the code passes to a loss with a head are left out.

    Raises:
        UserError: A path to no class of juzhen's.
    """
    if target.startswith("lightning_modules."):
        owner: type | None = next((k for k in models.all_settings().values() if k.target() == target), None)
        if owner is None:
            raise UserError(refusal(target))
    else:
        owner = own_class(target)
    keys: dict[str, Any] = {}
    for base in (each for each in owner.__mro__ if "__init__" in vars(each)):
        _, *parameters = signature(base.__init__).parameters.values()  # type: ignore[misc]
        named = [each for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
        hints = get_type_hints(base.__init__, include_extras=True)  # type: ignore[misc]
        keys = {each.name: (_spelt(hints.get(each.name)), _default(each)) for each in named} | keys
        if len(named) == len(parameters):  # nothing is handed on to a base
            break
    taken = {
        key: kind
        for key, kind in keys.items()
        if key not in HEAD or not getattr(owner, "has_parameters", False)
    }
    return create_model(owner.__name__, __config__=STRICT, **taken)


def _default(parameter: Parameter) -> Any:
    return ... if parameter.default is Parameter.empty else None


PLAIN = (float, int, bool, str, NoneType, dict, list, Sequence, Mapping)


def _spelt(kind: Any) -> Any:
    """A type as far as a configuration can spell it. Else Any."""
    kind = NoneType if kind is None else kind
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        kinds = [_spelt(part) for part in parts]
        kinds = [each for each in kinds if each is not int] if float in kinds else kinds
        return Any if Any in kinds else Union[tuple(kinds)]  # noqa: UP007  the kinds are not known here
    if origin in (Literal, Annotated) or kind in PLAIN:
        return kind
    if origin in (Sequence, list):
        return origin[_spelt(parts[0])]
    return origin if origin in PLAIN else Any


def own_targets(package: str) -> Iterator[str]:
    """Find the classes of a package that a configuration may name.

    Args:
        package: A key of `BASES`.

    Yields:
        Dotted paths.
    """
    if package == "lightning_modules":
        yield from models.targets()
        return
    for module in iter_modules(import_module(package).__path__, f"{package}."):
        for name, kind in sorted(vars(import_module(module.name)).items()):
            target = f"{module.name}.{name}"
            if isinstance(kind, type) and kind.__module__ == module.name and is_own(target):
                yield target
