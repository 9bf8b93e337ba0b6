"""What the files of the project import; each is read once, however many tests ask."""

import ast
from functools import cache
from pathlib import Path

FRAMEWORKS = (
    "hydra",
    "omegaconf",
    "pytorch_lightning",
    "lightning_fabric",
    "lightning_utilities",
    "torchmetrics",
    "wandb",
)
"""What the suite needs and the library does not."""


@cache
def import_statements(path: Path) -> tuple[tuple[str, ...], ...]:
    """The module of each import, wherever in the file, and behind it what is taken from it, by dotted names."""
    statements: list[tuple[str, ...]] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            statements.append((node.module, *(f"{node.module}.{alias.name}" for alias in node.names)))
        elif isinstance(node, ast.Import):
            statements += [(alias.name,) for alias in node.names]
    return tuple(statements)


def imports(path: Path) -> set[str]:
    """Dotted names of what a file imports; of `from a import b` both a and a.b."""
    return {name for statement in import_statements(path) for name in statement}
