"""What models, losses and callbacks say of themselves: what they learn from, and what a configuration may set of them.

Their source is read and not run: to import a model takes ten seconds, and a mistake on a command line should not.
A test holds what is read to what the classes are.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, create_model

from conf.own_classes import BASES, is_own, refusal
from juzhen.core import measures
from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.core.places import ROOT

HEAD = ("dim", "num_classes")
"""What the code gives to a loss that owns a head."""

TYPES = {one.__name__: one for one in (float, int, bool, str, dict, list)} | {
    "Sequence": Sequence,
    "Mapping": Mapping,
}
STRICT = ConfigDict(extra="forbid", strict=True, protected_namespaces=())
"""A value is handed to the class as it is, so nothing is converted."""


@dataclass(frozen=True)
class Declared:
    """Of a model, a loss or a callback; `SentenceModule` and `juzhen.losses.loss.Loss` explain the attributes.

    settings   the keys that a configuration may set, with their types
    uses_loss  of a model: its objective is a loss of the configuration

    The attributes follow after these two; one that the class lacks is None.
    """

    name: str
    settings: type[BaseModel]
    input_kinds: tuple[Kind, ...] | None = None
    consumes: str | None = None
    provides: tuple[str, ...] | None = None
    input_kind: Kind | None = None
    loss_kind: Kind | None = None
    unscored: Mapping[Kind, str] | None = None
    trains: bool | None = None
    needs_teacher_scores: bool | None = None
    metric: str | None = None

    @property
    def uses_loss(self) -> bool:
        return self.trains is not False and (self.input_kind is None or self.loss_kind is not None)


ATTRIBUTES = tuple(one.name for one in fields(Declared)[2:])


@cache
def declared(target: str) -> Declared:
    """What the class at a dotted path says. Raises UserError for a path to no class of juzhen's."""
    if not is_own(target):
        raise UserError(refusal(target))
    module, _, name = target.rpartition(".")
    found, base = _outline(module, name), BASES[module.rpartition(".")[0]]
    if found is None or ((is_own(base) or base.startswith("juzhen.")) and not _is_below(found, base)):
        raise UserError(refusal(target))
    keys: dict[str, Any] = {}
    for one in reversed(found.__mro__):
        alone, own = vars(one).get("keys", (False, {}))
        keys = own if alone else keys | own
    given = HEAD if getattr(found, "has_head", False) else ()
    taken = {key: one for key, one in keys.items() if key not in given}
    settings = create_model(name, __config__=STRICT, **taken)
    return Declared(name, settings, **{one: getattr(found, one, None) for one in ATTRIBUTES})


def declared_targets(package: str) -> Iterator[str]:
    """Dotted paths of the classes of a package whose names a configuration may hold."""
    for path in sorted(ROOT.joinpath(*package.split(".")).glob("*.py")):
        module = f"{package}.{path.stem}"
        for node in _source(module).body:
            if isinstance(node, ast.ClassDef) and is_own(target := f"{module}.{node.name}"):
                yield target


@cache
def _source(module: str) -> ast.Module:
    file = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    return ast.parse(file.read_bytes()) if file.is_file() else ast.Module([], [])


@cache
def _outline(module: str, name: str) -> type | None:
    """A class of that name with the plain attributes of one in a source, and its keys; None where there is none."""
    source = _source(module)
    node = next((one for one in source.body if isinstance(one, ast.ClassDef) and one.name == name), None)
    if node is None:
        return None
    places = {
        alias.asname or alias.name: one.module
        for one in source.body
        if isinstance(one, ast.ImportFrom) and one.module
        for alias in one.names
    }
    named = [one.id for one in node.bases if isinstance(one, ast.Name)]
    bases = [_outline(places.get(one, module), one) for one in named]
    body: dict[str, Any] = {"keys": _keys(node), "target": f"{module}.{name}"}
    for one in node.body:
        target = one.targets[0] if isinstance(one, ast.Assign) else getattr(one, "target", None)
        value = getattr(one, "value", None)
        if isinstance(target, ast.Name) and target.id in (*ATTRIBUTES, "has_head") and value is not None:
            body[target.id] = _value(value)
    return type(name, tuple(one for one in bases if one is not None), body)


def _is_below(outline: type, base: str) -> bool:
    return any(vars(one).get("target") == base for one in outline.__mro__[1:])


def _keys(node: ast.ClassDef) -> tuple[bool, dict[str, tuple[Any, Any]]]:
    """Key → type and default of what a class takes: by its `Settings`, its constructor, or its annotations.

    True before them where a constructor hands nothing on: what its bases take is not to be set.
    """
    inner = {one.name: one for one in node.body if isinstance(one, ast.ClassDef | ast.FunctionDef)}
    found: dict[str, tuple[Any, Any]] = {}
    alone = False
    match inner.get("Settings", inner.get("__init__", node)):
        case ast.FunctionDef(args=taken):
            alone = taken.kwarg is None
            for one, default in zip(taken.kwonlyargs, taken.kw_defaults, strict=True):
                found[one.arg] = (_type(one.annotation), ... if default is None else None)
        case ast.ClassDef(name=name, body=body, bases=bases) if name != "Loss":
            above = [ast.unparse(one).removesuffix(".Settings") for one in bases]
            alone = name == "Settings" and not {*above} & {ast.unparse(one) for one in node.bases}
            for one in body:
                if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
                    text = ast.unparse(one)
                    if not text.partition(":")[2].strip().startswith("ClassVar") and "init=False" not in text:
                        found[one.target.id] = (_type(one.annotation), ... if one.value is None else None)
    return alone, found


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Attribute(value=ast.Name(id="Kind"), attr=name):
            return Kind[name]
        case ast.Tuple(elts=parts):
            return tuple(map(_value, parts))
        case ast.Name(id=name):
            return getattr(measures, name)
    return ast.literal_eval(node)


def _type(node: ast.expr | None) -> Any:
    """The type that an annotation names, as far as a configuration can spell it; else Any."""
    match node:
        case ast.Constant(value=None):
            return None
        case ast.Name(id=name):
            return TYPES.get(name, Any)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            kinds = (_type(left), _type(right))
            return Any if Any in kinds else float if kinds == (float, int) else kinds[0] | kinds[1]
        case ast.Subscript(value=ast.Name(id="Literal"), slice=choices):
            return Literal[ast.literal_eval(choices)]
        case ast.Subscript(value=ast.Name(id=name), slice=inner) if name in ("Sequence", "list"):
            return TYPES[name][_type(inner)]
        case ast.Subscript(value=ast.Name(id=name)):
            return TYPES.get(name, Any)
    return Any
