"""Names that are loaded when they are first used: those of a package (PEP 562), and those that rooms.toml lists."""

import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from juzhen.core.errors import UserError
from juzhen.core.paths import PACKAGE, ROOT
from juzhen.core.safe_open import read_text


def lazily(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package.

    homes  name that the package offers → the module that defines it, by its path below the package
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return load


@cache
def offers(kind: str) -> dict[str, str]:
    """Name → `module:attribute` of what the rooms that are there offer of a kind, in the order of the table."""
    rooms = tomllib.loads(read_text(PACKAGE / "rooms.toml"))
    found = {name: place for room in rooms.values() for name, place in room.get(kind, {}).items()}
    return {name: place for name, place in found.items() if is_there(place)}


def is_there(place: str) -> bool:
    """Whether a module, or `module:attribute`, of the project has a file."""
    path = ROOT.joinpath(*place.partition(":")[0].split("."))
    return path.with_suffix(".py").is_file() or path.is_dir()


@cache
def offered(kind: str, name: str) -> Any:
    """What is offered under that name, loaded. Raises UserError where its room is not there."""
    if name not in offers(kind):
        raise UserError(f"{name}: this copy of juzhen lacks the part that has it. Install juzhen as a whole")
    module, _, attribute = offers(kind)[name].partition(":")
    return getattr(import_module(module), attribute)
