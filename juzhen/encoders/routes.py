"""The Router of sentence-transformers: which modules read queries, documents, and texts of which nothing is said.

Needs no torch.
"""

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from juzhen.core.errors import UserError
from juzhen.encoders.their_settings import ROUTER, require_decided

Side = Literal["query", "document"]
"""What a text is read as; None: nothing is said of it."""

ROUTERS = ("Router", "Asym")
"""How the types of such modules end; the second one is the name of older versions."""

FILES = ("router_config.json", "config.json")
"""Where their settings are; the second one is of older versions."""

TEXT = "text"


def modules_of(
    settings: Mapping[str, Any], place: str, path: Path
) -> dict[Side | None, list[dict[str, Any]]]:
    """The modules of each side, in the form of modules.json.

    Args:
        settings: What the file of the Router says.
        place: Its path in the folder of the encoder.
        path: Its file, for messages.

    Raises:
        UserError: A key that is not read, or a side that no route reads.
    """
    require_decided(settings, path, ROUTER)
    parameters = settings.get("parameters") or {}
    require_decided(parameters, path, f"{ROUTER} parameters")
    routes, types = settings["structure"], settings["types"]
    found: dict[Side | None, list[dict[str, Any]]] = {}
    for side in ("query", "document", None):
        names = routes[_route(side, routes, parameters, path)]
        found[side] = [{"path": f"{place}/{name}".lstrip("/"), "type": str(types[name])} for name in names]
    return found


def _route(side: Side | None, routes: Mapping[str, Any], parameters: Mapping[str, Any], path: Path) -> str:
    """The route of a text in the order in which sentence-transformers looks for one."""
    rules = {_rule(key): str(route) for key, route in (parameters.get("route_mappings") or {}).items()}
    for rule in ((side, TEXT), (side, None), (None, TEXT), (None, None)):
        if rule in rules:
            return rules[rule]
    for name in (side, TEXT):
        if name is not None and name in routes:
            return name
    if side is not None:
        raise UserError(
            f"{path}: no route for a {side}; there are {', '.join(routes)}. Name one so in structure or route_mappings"
        )
    default = parameters.get("default_route")
    if default is None and parameters.get("allow_empty_key") is False:  # they read no such text at all
        return _route("document", routes, parameters, path)
    return str(default or next(iter(routes)))


def _rule(key: str) -> tuple[Any, Any]:
    """('query', None) of the text "('query', None)"."""
    task, modality = ast.literal_eval(key[:200])
    return task, modality
