"""What models, losses and callbacks say of themselves: what they learn from, and what a configuration may set of them.

Their source is read and not run: to import a model takes ten seconds, and a mistake on a command line should not.
A test holds what is read to what the classes are.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, create_model

from conf.own_classes import base_of, declared_losses, is_own, refusal
from juzhen.core import measures
from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.core.named import name_of
from juzhen.core.places import ROOT

HEAD = ("dim", "num_classes")
"""What the code gives to a loss that owns a head."""

TYPES = {kind.__name__: kind for kind in (float, int, bool, str, dict, list)} | {
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
    reads_tokens: bool | None = None
    provides: tuple[str, ...] | None = None
    input_kind: Kind | None = None
    loss_kind: Kind | None = None
    unscored: Mapping[Kind, str] | None = None
    trains: bool | None = None
    needs_teacher_scores: bool | None = None
    takes: tuple[str, ...] | None = None
    takes_heads: bool | None = None
    has_head: bool | None = None
    metric: str | None = None

    def suits(self, provided: Sequence[str]) -> bool:
        """Of a loss: a model that provides these can give it what it consumes."""
        return self.consumes in provided or (bool(self.reads_tokens) and "tokens" in provided)

    @property
    def uses_loss(self) -> bool:
        return self.trains is not False and (self.input_kind is None or self.loss_kind is not None)


ATTRIBUTES = tuple(attribute.name for attribute in fields(Declared)[2:])

INNER = "of"
"""Key of the loss that another one is made around."""


@cache
def declared(target: str) -> Declared:
    """What the class at a dotted path says. Raises UserError for a path to no class of juzhen's."""
    module, _, name = target.rpartition(".")
    outline, base = _outline(module, name) if is_own(target) else None, base_of(module)
    bases = () if outline is None else [vars(above).get("target") for above in outline.__mro__[1:]]
    if outline is None or ((is_own(base) or base.startswith("juzhen.")) and base not in bases):
        raise UserError(refusal(target))
    keys: dict[str, Any] = {}
    for base_class in reversed(outline.__mro__):
        alone, added = vars(base_class).get("keys", (False, {}))
        keys = added if alone else keys | added
    excluded = HEAD if getattr(outline, "has_head", False) else ()
    taken = {key: annotation for key, annotation in keys.items() if key not in excluded}
    settings = create_model(name, __config__=STRICT, **taken)
    attributes = {attribute: getattr(outline, attribute, None) for attribute in ATTRIBUTES}
    return Declared(name, settings, **attributes)


def declared_loss(node: Mapping[str, Any]) -> Declared:
    """What a loss says, by its settings; of one around another loss, what that one learns from.

    Raises UserError where it cannot be made around that one, and for a path to no class of juzhen's.
    """
    outer = declared(node["_target_"])
    if outer.takes is None:
        return outer
    inner_node = node.get(INNER)
    if not isinstance(inner_node, Mapping) or "_target_" not in inner_node:
        raise UserError(f"loss={name_of(node)}: expected one loss inside; type loss@loss.{INNER}=cosent")
    inner = declared_loss(inner_node)
    is_fixed = inner.has_head and not outer.takes_heads
    if is_fixed or inner.consumes not in outer.takes:
        reason = "it owns a head of one size of embedding" if is_fixed else f"it reads {inner.consumes}"
        raise UserError(
            f"loss={name_of(node)}: loss={name_of(inner_node)} cannot be inside, as {reason}; "
            f"choose a loss of scores or of embeddings, as in loss@loss.{INNER}=cosent"
        )
    takes_over = not outer.consumes or inner.consumes in ("teacher", "guide")
    consumes = inner.consumes if takes_over else outer.consumes
    return replace(
        outer,
        input_kinds=inner.input_kinds,
        needs_teacher_scores=inner.needs_teacher_scores,
        consumes=consumes,
    )


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
    if not file.is_file() and module.split(".")[0] in {name.split(".")[0] for name in declared_losses()}:
        spec = find_spec(module)
        file = Path(spec.origin) if spec is not None and spec.origin else file
    return ast.parse(file.read_bytes()) if file.is_file() else ast.Module([], [])


@cache
def _outline(module: str, name: str) -> type | None:
    """A class of that name with the plain attributes of one in a source, and its keys; None where there is none."""
    source = _source(module)
    classes = [line for line in source.body if isinstance(line, ast.ClassDef)]
    node = next((line for line in classes if line.name == name), None)
    if node is None:
        return None
    modules = _imports(source)
    named = [base.id for base in node.bases if isinstance(base, ast.Name)]
    bases = [_outline(modules.get(base, module), base) for base in named]
    body: dict[str, Any] = {"keys": _keys(node, module), "target": f"{module}.{name}"}
    for line in node.body:
        target = line.targets[0] if isinstance(line, ast.Assign) else getattr(line, "target", None)
        value = getattr(line, "value", None)
        if isinstance(target, ast.Name) and target.id in ATTRIBUTES and value is not None:
            body[target.id] = _value(value)
    return type(name, tuple(base for base in bases if base is not None), body)


def _imports(source: ast.Module) -> dict[str, str]:
    """Name → module that it is imported from."""
    return {
        alias.asname or alias.name: line.module
        for line in source.body
        if isinstance(line, ast.ImportFrom) and line.module
        for alias in line.names
    }


def _settings(module: str, name: str) -> dict[str, tuple[Any, Any]]:
    """Key → type and default of a class of settings, with those of its bases."""
    source = _source(module)
    node = next((line for line in source.body if isinstance(line, ast.ClassDef) and line.name == name), None)
    if node is None:
        return {}
    modules = _imports(source)
    keys: dict[str, tuple[Any, Any]] = {}
    for base in node.bases:
        keys |= _settings(modules.get(ast.unparse(base), module), ast.unparse(base))
    return keys | _fields(node)


def _fields(node: ast.ClassDef) -> dict[str, tuple[Any, Any]]:
    """Key → type and default of the annotations of a class."""
    keys: dict[str, tuple[Any, Any]] = {}
    for field in node.body:
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            text = ast.unparse(field)
            if not text.partition(":")[2].strip().startswith("ClassVar") and "init=False" not in text:
                keys[field.target.id] = (_type(field.annotation), ... if field.value is None else None)
    return keys


def _keys(node: ast.ClassDef, module: str) -> tuple[bool, dict[str, tuple[Any, Any]]]:
    """Key → type and default of what a class takes: by its `Settings`, its constructor, or its annotations.

    True before them where they are all: what the bases take is among them, or is not to be set.
    """
    for line in node.body:
        if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "Settings":
            name = ast.unparse(line.value)
            return True, _settings(_imports(_source(module)).get(name, module), name)
    maker = next(
        (line for line in node.body if isinstance(line, ast.FunctionDef) and line.name == "__init__"), None
    )
    if maker is None:
        return False, _fields(node) if node.name != "Loss" else {}
    keys = {}
    for parameter, default in zip(maker.args.kwonlyargs, maker.args.kw_defaults, strict=True):
        keys[parameter.arg] = (_type(parameter.annotation), ... if default is None else None)
    return maker.args.kwarg is None, keys


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
