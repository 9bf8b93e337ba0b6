"""The outer rooms: which of them are there, and what they offer by name, as rooms.toml lists it."""

import tomllib
from functools import cache
from importlib import import_module
from typing import Any

from juzhen.core.errors import UserError
from juzhen.core.opened import read_text
from juzhen.core.places import PACKAGE, ROOT


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
