"""The code that a command reaches: what a page is made by follows from names and imports, and is listed nowhere.

Only definitions count that are reached by a name, so that a change beside them makes no page stale.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from juzhen.cli.verbs import RUNS, SUITE
from juzhen.core.paths import ROOT

BEYOND = ("juzhen.backends", "juzhen.data", "juzhen.encoders", "juzhen.families")
"""Rooms that compute what pages are made from; golden numbers of their own hold them."""
PLUMBING = (
    *(f"juzhen.core.{name}" for name in ("errors", "opened", "owned", "places", "secrets", "shape", "whole")),
    *("juzhen.cli.options", "juzhen.cli.program"),
)
"""Modules that read and write files, and words of the command line; no page has a byte of them."""

Definition = tuple[str, str]
"""Module and name; of the statements that a module always runs, the name is empty."""


class Module(NamedTuple):
    """A file of the project.

    texts    name → the code that defines it, without comments and docstrings
    uses     name → the names in that code
    imports  name → what it was imported from, in the project
    """

    texts: dict[str, str]
    uses: dict[str, set[str]]
    imports: dict[str, Definition]


def reached(command: str) -> dict[str, str]:
    """`module.name` → code of each definition that a command may come to; {} where it is no program of ours."""
    words = command.split()
    if words[:2] == ["python", "-m"]:
        todo = [(words[2], name) for name in _module(words[2]).texts]
    elif words[0] == "juzhen":
        home = "juzhen.cli.runs" if words[1] in RUNS else f"juzhen.cli.{words[1]}"
        todo = [(SUITE.get(words[1], home), words[1])]
    else:
        return {}
    found: dict[Definition, str] = {}
    while todo:
        here = name, word = todo.pop()
        if here in found or name.startswith((*BEYOND, *PLUMBING)) or _file(name) is None:
            continue
        module = _module(name)
        if word in module.imports and word not in module.texts:
            todo.append(module.imports[word])
            continue
        found[here] = module.texts.get(word, "")
        for used in module.uses.get(word, ()):
            if used in module.texts:
                todo.append((name, used))
            elif used in module.imports:
                target, part = module.imports[used]
                todo += [(target, part)] if part else [(target, each) for each in _module(target).texts]
        todo.append((name, ""))
    return {f"{name}.{word}": text for (name, word), text in found.items() if text}


@cache
def _file(name: str) -> Path | None:
    stem = ROOT.joinpath(*name.split("."))
    return next((path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.is_file()), None)


@cache
def _module(name: str) -> Module:
    path = _file(name)
    assert path is not None  # a test runs the command of each page
    text = path.read_text(encoding="utf-8")
    tree, lines = ast.parse(text), text.splitlines()
    hidden = {number for node in ast.walk(tree) for number in _docstring(node)}
    hidden |= {number for number, line in enumerate(lines, start=1) if line.lstrip().startswith("#")}
    module = Module({}, {}, dict(_imports(tree)))
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
        code = [
            lines[number - 1]
            for number in range(first, (node.end_lineno or first) + 1)
            if number not in hidden
        ]
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        names |= {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
        for defined in _defined(node):
            module.texts[defined] = "\n".join([*filter(None, [module.texts.get(defined)]), *code])
            module.uses.setdefault(defined, set()).update(names)
    return module


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
    names = [
        each.id for target in targets if target for each in ast.walk(target) if isinstance(each, ast.Name)
    ]
    return names or [""]


def _docstring(node: ast.AST) -> range:
    """The lines of a text that stands alone."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return range(0)


def _imports(tree: ast.Module) -> Iterator[tuple[str, Definition]]:
    """Names that stand for modules and parts of the project, wherever they are imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (
                (each.asname or each.name, (each.name, "")) for each in node.names if _file(each.name)
            )
        elif isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                whole = f"{node.module}.{each.name}"
                if _file(whole) or _file(node.module):
                    yield each.asname or each.name, (whole, "") if _file(whole) else (node.module, each.name)
