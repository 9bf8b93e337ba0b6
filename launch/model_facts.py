"""What a model says of itself as attributes of its class, read from its source. Needs no torch."""

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from schema.examples import SPEARMAN_KINDS, Kind
from schema.source_code import ROOT, class_attribute


@dataclass(frozen=True)
class ModelFacts:
    """Facts of a model, each as the attribute of that name of `lightning_modules.base.SentenceModule`.

    trains     it learns from sets
    uses_loss  its objective is a loss of the configuration
    scored     kinds of sets that it is evaluated on, as far as the source says it plainly
    """

    trains: bool
    uses_loss: bool
    scored: tuple[Kind, ...]


@cache
def model_facts(target: str, *, root: Path = ROOT) -> ModelFacts:
    """The facts of the model at a dotted path; those of a bi-encoder where a class leaves them open."""
    module, _, name = target.rpartition(".")
    said = {
        attribute: class_attribute(root, module, name, attribute)
        for attribute in ("trains", "reads", "gives", "scored")
    }
    trains = _is_constant(said["trains"], True) or said["trains"] is None
    reads = not (said["reads"] is None or _is_constant(said["reads"], None))
    gives = not (said["gives"] is None or _is_constant(said["gives"], None))
    return ModelFacts(trains, trains and (gives or not reads), _kinds(said["scored"]))


def _is_constant(node: ast.expr | None, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _kinds(node: ast.expr | None) -> tuple[Kind, ...]:
    """`SPEARMAN_KINDS`, `tuple(Kind)`, or a tuple of these and of `Kind.SENTENCE` and its like."""
    match node:
        case None | ast.Name(id="SPEARMAN_KINDS"):
            return SPEARMAN_KINDS
        case ast.Call(args=[ast.Name(id="Kind")]):
            return tuple(Kind)
        case ast.Attribute(value=ast.Name(id="Kind"), attr=name):
            return (Kind[name],)
        case ast.Starred(value=inner):
            return _kinds(inner)
        case ast.Tuple(elts=parts):
            return tuple(kind for part in parts for kind in _kinds(part))
    return ()  # written in another way: nothing can be said of it here
