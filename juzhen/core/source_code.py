"""What the modules of the project define, read from their source: importing them would load torch."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""Where dotted names start."""


def source_file(root: Path, module: str) -> Path | None:
    """The file of a dotted module below `root`; None where there is none."""
    base = root.joinpath(*module.split(".")) if module else root
    return next((file for file in (base.with_suffix(".py"), base / "__init__.py") if file.is_file()), None)


@cache
def definitions(root: Path, module: str) -> dict[str, ast.AST]:
    """Name → class, function or import statement at the top level of a module that has a file."""
    found: dict[str, ast.AST] = {}
    for node in ast.parse(source_file(root, module).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name: node for alias in node.names}
    return found


@cache
def class_attribute(root: Path, module: str, name: str, attribute: str) -> ast.expr | None:
    """What a class sets `attribute` to, in its own body or that of the nearest base class; None where none does."""
    node = definitions(root, module).get(name) if source_file(root, module) else None
    if isinstance(node, ast.ImportFrom):
        return class_attribute(root, node.module or "", original_name(node, name), attribute)
    if not isinstance(node, ast.ClassDef):
        return None
    for line in node.body:
        named = getattr(line, "targets", [getattr(line, "target", None)])
        if any(isinstance(one, ast.Name) and one.id == attribute for one in named):
            return line.value
    inherited = (class_attribute(root, module, ast.unparse(base), attribute) for base in node.bases)
    return next((found for found in inherited if found is not None), None)


def original_name(node: ast.ImportFrom, name: str) -> str:
    """What is imported as `name` is called where it is defined."""
    return next(alias.name for alias in node.names if (alias.asname or alias.name) == name)
