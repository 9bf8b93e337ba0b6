"""Names that are imported on first use: those of a package (PEP 562), and those of optional packages in rooms.toml."""

import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from juzhen.core.errors import UserError, nearest
from juzhen.core.paths import PACKAGE, ROOT
from juzhen.core.safe_open import read_text


def lazily(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package.

    Args:
        package: Its name.
        homes: Exported name → module that defines it, relative to the package.

    Returns:
        Function name → object. It imports the module at the first use, and raises AttributeError for other
        names.
    """

    def load(name: str) -> Any:
        if name not in homes:
            hint = "" if name.startswith("_") else f". {nearest(name, homes)}"
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return load


@cache
def offers(kind: str) -> dict[str, str]:
    """Return name → `module:attribute` of one kind that installed packages of rooms.toml offer, in its order.

    Args:
        kind: Key of a room in `rooms.toml`, such as `callbacks` or `verbs`.

    Returns:
        A dictionary that all callers share. Parts that were deleted from the copy are left out.
    """
    rooms = tomllib.loads(read_text(PACKAGE / "rooms.toml"))
    found = {name: place for room in rooms.values() for name, place in room.get(kind, {}).items()}
    return {name: place for name, place in found.items() if is_there(place)}


def is_there(place: str) -> bool:
    """True if a module, or `module:attribute`, of the project has a file.

    Args:
        place: Dotted module, or `module:attribute`. The attribute is not looked up.

    Returns:
        True without importing anything.
    """
    path = ROOT.joinpath(*place.partition(":")[0].split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


@cache
def offered(kind: str, name: str) -> Any:
    """Import the object of a name.

    Args:
        kind: Key of a room in `rooms.toml`, as in `offers`.
        name: Name under that key.

    Returns:
        The attribute of the module.

    Raises:
        UserError: Its package is not installed.
    """
    if name not in offers(kind):
        raise UserError(f"{name}: this copy of juzhen lacks the part that has it. Install juzhen as a whole")
    module, _, attribute = offers(kind)[name].partition(":")
    return getattr(import_module(module), attribute)
