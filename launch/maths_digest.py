"""A digest of the maths: of the code that decides weights and scores, and of the libraries below it."""

import ast
import hashlib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import version
from pathlib import Path

from juzhen.core.source_code import ROOT

DECIDING = (
    "losses",
    "encoders",
    "lightning_modules",
    "metrics",  # they choose the checkpoint, too
    "datamodules/datamodule.py",
    "juzhen/data/leaks",
    "juzhen/data/length_windows.py",
    "juzhen/data/sampler.py",
    "datamodules/stages.py",
    "juzhen/data/union.py",
    "callbacks/resume.py",
    "callbacks/trainer.py",
    "launch/curriculum.py",
    "launch/stage_run.py",
    "juzhen/core/batch.py",
    "conf/job.py",
    "juzhen/core/constants.py",
    "juzhen/core/examples.py",
)
"""Files and folders. How rows are read and viewed is not among them: the rows themselves are in a stage's digest. A
file too many has a stage trained again for nothing; one too few gives the numbers of other code."""

LIBRARIES = ("torch", "transformers", "pytorch-lightning", "numpy")


@cache
def maths_digest() -> str:
    """Hex digits over DECIDING and the versions of LIBRARIES, builds for other devices apart. Takes half a second."""
    digest = hashlib.sha256()
    for library in LIBRARIES:
        digest.update(f"{library} {version(library).partition('+')[0]}\n".encode())
    for file in source_files(ROOT, DECIDING):
        digest.update(
            f"{file.relative_to(ROOT).as_posix()}\n{meaning(file.read_text(encoding='utf-8'))}\n".encode()
        )
    return digest.hexdigest()


def source_files(root: Path, places: Iterable[str]) -> list[Path]:
    """Every Python file at or below the places, in a fixed order. Raises FileNotFoundError for a place that is gone."""
    found = []
    for place in places:
        path = root / place
        if not path.exists():
            raise FileNotFoundError(path)
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return found


def meaning(source: str) -> str:
    """The code of a module without its comments, docstrings, line breaks and brackets that change nothing."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(getattr(node, "body", None), list):
            node.body = [line for line in node.body if not _is_text(line)]
    return ast.dump(tree)


def _is_text(line: ast.stmt) -> bool:
    """A statement that is a string alone: a docstring, of a function as well as of a constant above it."""
    return (
        isinstance(line, ast.Expr)
        and isinstance(line.value, ast.Constant)
        and isinstance(line.value.value, str)
    )
