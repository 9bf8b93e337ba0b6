"""Settings of each model: its keys, its outputs and training examples, and the keys of a job that it reads.

A class X of `lightning_modules/` has its XSettings here, or in an outer room that rooms.toml names. Settings need no
torch, so a command line is checked, a run gets its key and a table its rows without loading the model.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from juzhen.core.lazy_names import offered, offers
from juzhen.models.settings import ModelSettings, class_of, name_of


@cache
def all_settings() -> dict[str, type[ModelSettings]]:
    """Class of a model → its settings.

    Returns:
        Name such as `BiEncoder` → class of its settings.
    """
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    kinds = [kind for module in modules for kind in vars(module).values() if isinstance(kind, type)]
    kinds += [offered("settings", name) for name in offers("settings")]
    # A class without a name of its own is what several models share.
    return {
        kind.class_name(): kind
        for kind in kinds
        if issubclass(kind, ModelSettings) and vars(kind).get("name")
    }


def settings_of(model: Mapping[str, Any]) -> type[ModelSettings]:
    """Return the settings of a job's model. Models without their own settings get the common ones.

    Args:
        model: Settings of the group `model`, with `_target_` or with a name.

    Returns:
        A subclass of `ModelSettings`, or the class itself.
    """
    own = all_settings().get(class_of(model))
    if own is None and model.get("name"):
        named = (kind for kind in all_settings().values() if kind.name == name_of(model))
        own = next(named, None)
    return own or ModelSettings


def targets() -> Iterator[str]:
    """Yield the allowed `_target_` names of models.

    Yields:
        Names such as `lightning_modules.biencoder.BiEncoder`, sorted.
    """
    yield from sorted(kind.target() for kind in all_settings().values())
