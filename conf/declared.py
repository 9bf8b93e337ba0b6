"""What models, losses and callbacks say of themselves: what they learn from, and what a configuration may set of them.

`declared.json` beside this file holds it, so that nobody has to load torch to ask; it is written by
`python -m tools.loss_table docs/losses.md`, and a test keeps it as the classes are. A class that is not in
it is imported and asked.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from inspect import Parameter, signature
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from conf.own_classes import is_own, own_class, refusal
from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.core.places import ROOT

TABLE = Path(__file__).with_suffix(".json")
HEAD = ("dim", "num_classes")
"""What the code gives to a loss that owns a head."""

REST = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
"""`*args` and `**rest`, which name no key."""

WORDS = {
    float: "a number",
    int: "a whole number",
    bool: "true or false",
    str: "text",
    NoneType: "null",
    Sequence: "a list",
    list: "a list",
    dict: "a group of keys",
}
"""What a configuration can spell, as messages call it. `int | float` is a number."""


@dataclass(frozen=True)
class Declared:
    """Of a model, a loss or a callback; `SentenceModule` and `juzhen.losses.loss.Loss` explain the attributes.

    settings   name of each key that a configuration may set → its types in WORDS, and possible values in quotes; empty:
               anything
    required   those that have no default
    uses_loss  of a model: its objective is a loss of the configuration

    source     digest of the module that was asked

    The attributes follow after these four; one that the class lacks is None.
    """

    name: str
    settings: Mapping[str, Sequence[str]]
    required: Sequence[str]
    source: str = field(default="", compare=False)
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


@cache
def declared(target: str) -> Declared:
    """What the class at a dotted path says, by the table. Raises UserError for a path to no class of juzhen's."""
    if not is_own(target):
        raise UserError(refusal(target))
    return declared_by(own_class(target)) if target not in table() else Declared(**table()[target])


def declared_by(own: type) -> Declared:
    """What a class itself says; its constructor, or its `Settings`, names the keys."""
    found = _parameters(getattr(own, "Settings", own))
    given = HEAD if getattr(own, "has_head", False) else ()
    taken = {name: one for name, one in found.items() if name not in given}
    return Declared(
        own.__name__,
        {name: _words(one.annotation) for name, one in taken.items()},
        tuple(name for name, one in taken.items() if one.default is one.empty),
        **{one.name: getattr(own, one.name, None) for one in fields(Declared)[4:]},
    )


@cache
def table() -> dict[str, dict[str, Any]]:
    """Dotted path of each model, loss and callback of conf → the values of its Declared."""
    return _read(json.loads(TABLE.read_text(encoding="utf-8"))) if TABLE.is_file() else {}


def source_digest(target: str) -> str:
    """Hex digits over the module of a class: where the table has others, it may be older than the class."""
    file = ROOT.joinpath(*target.split(".")[:-1]).with_suffix(".py")
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16] if file.is_file() else "gone"


def written(targets: Sequence[str]) -> str:
    """The text of the table, a line each."""
    lines = []
    for target in sorted(targets):
        found = vars(declared_by(own_class(target))) | {"source": source_digest(target)}
        told = {name: one for name, one in found.items() if one is not None}
        lines.append(f"{json.dumps(target)}: {json.dumps(told, ensure_ascii=False)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _read(value: Any) -> Any:
    """Plain values as the classes have them: JSON knows neither tuples nor kinds of examples."""
    if isinstance(value, Mapping):
        return {_read(key): _read(one) for key, one in value.items()}
    if isinstance(value, list):
        return tuple(map(_read, value))
    return Kind(value) if value in tuple(Kind) else value


def _parameters(own: type) -> dict[str, Parameter]:
    """Those of the constructor, and of the inherited ones that it passes `**rest` on to."""
    found: dict[str, Parameter] = {}
    for base in own.__mro__:
        if "__init__" in vars(base):
            _, *taken = signature(base.__init__, eval_str=True).parameters.values()
            found = {one.name: one for one in taken if one.kind not in REST} | found
            if all(one.kind not in REST for one in taken):
                break
    return found


def _words(annotation: Any) -> tuple[str, ...]:
    """A type in WORDS, or in its literal values; () for one that no configuration can spell."""
    origin = get_origin(annotation)
    if origin is Literal:
        return tuple(map(repr, get_args(annotation)))
    if origin in (Union, UnionType):
        parts = [_words(one) for one in get_args(annotation)]
        words = [word for part in parts for word in part] if all(parts) else []
        return tuple(word for word in words if word != WORDS[int] or WORDS[float] not in words)
    kind = origin or annotation
    return (WORDS[kind],) if kind in WORDS else ()
