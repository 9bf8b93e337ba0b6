"""Docstrings are true and complete: their examples run, and exported names describe parameters and results."""

import doctest
import importlib
import inspect
import re
import time
from enum import EnumType
from pathlib import Path

import pytest

from juzhen.cli.options import described_args
from tools.docs.site import CALLED, PAGES, is_module, modules_of

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = (
    "benchmarks", "callbacks", "conf", "datamodules", "hydra_plugins", "juzhen", "launch", "lightning_modules",
    "sweeps", "tools",
)  # fmt: skip
EXPORTING = (
    "juzhen", "juzhen.backends", "juzhen.encoders", "juzhen.evaluation", "juzhen.export", "juzhen.index",
    "juzhen.losses",
)  # fmt: skip

SECONDS = 20
"""Processor time of one module's examples, at most."""


def with_examples():
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    found = [path for path in paths if ">>> " in path.read_text(encoding="utf-8")]
    return [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in found
    ]


@pytest.mark.parametrize("name", with_examples())
def test_the_examples_of_a_module_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    started = time.process_time()
    found = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert found.failed == 0
    assert time.process_time() - started < SECONDS


def exported():
    """Function or class → its name, of all that packages export, each once."""
    names = {}
    for package in map(importlib.import_module, EXPORTING):
        for name in package.__all__:
            value = getattr(package, name)
            if callable(value) and getattr(value, "__module__", "").startswith("juzhen."):
                names.setdefault(value, f"{package.__name__}.{name}")
    return names


def lacking(value):
    """What the docstring of a function, or of a class, does not describe."""
    described = (inspect.getdoc(value) or "").replace("**", "").replace("    *", "    ")
    if inspect.isclass(value) and issubclass(value, dict):  # has no signature of its own
        return []
    signature = inspect.signature(value)
    unnamed = ("self", "cls", "args", "kwargs")
    is_enum = isinstance(value, EnumType)
    parameters = [
        each for each in signature.parameters if not (is_enum or each in unnamed or each.startswith("_"))
    ]
    missing = [each for each in parameters if each not in described_args(described)]
    gives = not inspect.isclass(value) and signature.return_annotation not in (
        None,
        "None",
        inspect.Signature.empty,
    )
    return missing + (["Returns"] if gives and not re.search("\n(Returns|Yields):\n", described) else [])


def incomplete():
    found = {name: lacking(value) for value, name in exported().items()}
    for owner, name in exported().items():
        names = (*CALLED, "encode_chunks")
        called = {each: getattr(owner, each, None) for each in names} if inspect.isclass(owner) else {}
        found |= {
            f"{name}.{each}": lacking(method)
            for each, method in called.items()
            if callable(method) and (getattr(method, "__module__", None) or "").startswith("juzhen.")
        }
    return {name: missing for name, missing in found.items() if missing}


def test_exported_names_describe_their_parameters_and_results():
    assert incomplete() == {}


def shown_on_pages():
    """Classes and functions of the modules that the pages of the Python API show whole."""
    named = {each for _, members in PAGES.values() for each in members.split()}
    for path in sorted({each for name in named if is_module(name) for each in modules_of(name)}):
        module = importlib.import_module(path)
        for name, value in vars(module).items():
            is_own = getattr(value, "__module__", None) == path and not name.startswith("_")
            if is_own and (inspect.isclass(value) or inspect.isfunction(value)):
                yield f"{path}.{name}", value


def test_functions_and_classes_on_the_api_pages_describe_their_parameters_and_results():
    found = {name: lacking(value) for name, value in shown_on_pages()}
    assert len(found) > 200
    assert {name: missing for name, missing in found.items() if missing} == {}
