"""What a model or a loss declares as attributes of its class, read from its source. Needs no torch."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from conf.own_classes import is_own, refusal
from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.core.measures import UNSCORED
from juzhen.core.source_code import ROOT, class_attribute, definitions, source_file

NAMED = {"UNSCORED": UNSCORED}
"""Constants that a declaration may name."""


@dataclass(frozen=True)
class Declared:
    """Of a model or a loss; `lightning_modules.base.SentenceModule` and `juzhen.losses.loss.Loss` explain each attribute.

    uses_loss  of a model: its objective is a loss of the configuration

    An attribute that the class lacks, or does not spell out, is None.
    """

    name: str
    takes: tuple[Kind, ...] | None = None
    reads: Kind | str | None = None
    offers: tuple[str, ...] | None = None
    gives: Kind | None = None
    unscored: Mapping[Kind, str] | None = None
    trains: bool | None = None

    @property
    def uses_loss(self) -> bool:
        return self.trains is not False and (self.reads is None or self.gives is not None)


@cache
def declared(target: str, *, root: Path = ROOT) -> Declared:
    """What the class at a dotted path declares. Raises UserError for a path that leads to no class of juzhen's."""
    module, _, name = target.rpartition(".")
    if not is_own(target) or source_file(root, module) is None or name not in definitions(root, module):
        raise UserError(refusal(target))
    asked = ("takes", "reads", "offers", "gives", "unscored", "trains")
    found = {one: class_attribute(root, module, name, one) for one in asked}
    return Declared(name, **{one: _value(node) for one, node in found.items()})


def _value(node: ast.expr | None) -> Any:
    """Of constants, kinds of examples, and tuples and mappings of these; None for what is written in another way."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return NAMED.get(name)
        case ast.Attribute(value=ast.Name(id="Kind"), attr=name):
            return Kind[name]
        case ast.Call(func=ast.Name(id="tuple"), args=[ast.Name(id="Kind")]):
            return tuple(Kind)
        case ast.Dict(keys=keys, values=values):
            return {_value(key): _value(value) for key, value in zip(keys, values, strict=True)}
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _value(left) | _value(right)
        case ast.Tuple(elts=parts):
            values = [_value(one.value) if isinstance(one, ast.Starred) else (_value(one),) for one in parts]
            return None if any(one is None or None in one for one in values) else sum(values, ())
    return None
