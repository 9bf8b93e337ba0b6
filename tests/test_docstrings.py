"""Docstrings are true and complete: their examples run, and exported names describe parameters and results."""

import ast
import doctest
import importlib
import inspect
import re
import time
from dataclasses import dataclass
from enum import EnumType
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from juzhen.cli.options import described_args
from juzhen.core.errors import UserError
from juzhen.models.settings import ModelSettings
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


LONG = (
    "juzhen.encoders.backbone", "juzhen.encoders.save", "juzhen.export.folder", "juzhen.families.late.encoder",
    "juzhen.families.sparse.encoder", "juzhen.index.writing",
)  # fmt: skip
"""Modules whose examples train or write an encoder: a second and more of processor time each."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in with_examples()],
)
def test_the_examples_of_a_module_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(
        "WANDB_MODE", raising=False
    )  # transformers prints a line about it where it is first needed
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


PUBLIC = ("callbacks", "datamodules", "hydra_plugins", "juzhen", "launch", "lightning_modules", "sweeps")
"""Packages whose public functions, classes and methods describe arguments, results and errors. By rule these need not:

- a command: `--help` shows its docstring, and its parameters are options with a help text of their own
- fields of a request, of a reply and of a model's settings: their descriptions, and the files of conf/, are shown
- the arguments and the result of a method that Lightning, Hydra, torch or another library calls: those of its class
- an argument that the same method of a base class describes; all of them if the docstring is inherited
- the result of a property, of a block that yields nothing, and of what begins with "Return", as Google's guide has it
- an error of a function that it catches
"""

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass
class Described:
    """A public function or class: its code and its docstring, with the functions beside it by name."""

    name: str
    node: Any
    value: Any
    doc: str
    helpers: dict[str, Any]
    owner: type | None = None

    def has(self, *sections):
        return re.search(rf"^({'|'.join(sections)}):\n", self.doc, re.M) is not None

    @property
    def bases(self):
        """Classes that have the method, too."""
        mro = self.owner.__mro__[1:-1] if self.owner else ()
        return [each for each in mro if self.node.name in vars(each)]

    @property
    def is_foreign(self):
        return any(not is_ours(each) for each in self.bases)

    @property
    def decorators(self):
        return [ast.unparse(each) for each in self.node.decorator_list]

    @property
    def is_property(self):
        return any(re.search(r"property|\.setter$|^overload", each) for each in self.decorators)


def is_ours(value):
    return value.__module__.split(".")[0] in PUBLIC


def named_in(doc):
    """Names under Args or Attributes, also several before one colon, and in a table of names."""
    blocks = re.findall(r"^(?:Args|Attributes):\n((?:(?:    .*)?\n?)+)", doc or "", re.M)
    listed = re.findall(r"^ {4}([*\w, ]+): ", "\n".join(blocks), re.M)
    rows = re.findall(r"^(\w+)  +\S", doc or "", re.M)
    return {name.strip().strip("*") for names in listed for name in names.split(",")} | {*rows}


def metadata(kind):
    return [*getattr(kind, "__metadata__", ()), *(each for part in get_args(kind) for each in metadata(part))]


def is_command(value):
    try:
        parameters = inspect.signature(value, eval_str=True).parameters.values()
    except (NameError, TypeError, ValueError):
        return False
    return any(
        type(each).__module__ == "typer.models" for one in parameters for each in metadata(one.annotation)
    )


@cache
def statements(node):
    """Nodes that run when a function is called: those of an inner function only if it calls that itself."""
    inner = {each.name: each for each in ast.walk(node) if isinstance(each, FUNCTIONS) and each is not node}
    left, found = list(node.body), []
    while left:
        each = left.pop()
        if isinstance(each, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
            continue
        found.append(each)
        if isinstance(each, ast.Call) and getattr(each.func, "id", None) in inner:
            left += inner.pop(each.func.id).body
        left += ast.iter_child_nodes(each)
    return found


@cache
def raises(node):
    raised = [each.exc for each in statements(node) if isinstance(each, ast.Raise) and each.exc]
    names = [getattr(each, "func", each) for each in raised]
    return any(getattr(each, "id", None) in user_errors() for each in names)


@cache
def user_errors():
    found, left = set(), [UserError]
    while left:
        found.add(left[-1].__name__)
        left += left.pop().__subclasses__()
    return found


def may_raise(node, helpers):
    """True if a function raises a UserError, or calls a function beside it that does, and catches none."""
    caught = [each.type for each in statements(node) if isinstance(each, ast.ExceptHandler)]
    caught += [
        each.args[0]
        for each in statements(node)
        if isinstance(each, ast.Call) and getattr(each.func, "id", None) == "suppress" and each.args
    ]
    catches = any(
        each is None or re.search(r"\b(UserError|Exception|ConfigError)\b", ast.unparse(each))
        for each in caught
    )
    called = [each.func for each in statements(node) if isinstance(each, ast.Call) and not catches]
    owners = ("self", "cls")
    names = [f"{'self.' * (getattr(each.value, 'id', None) in owners)}{each.attr}" for each in called
             if isinstance(each, ast.Attribute)]  # fmt: skip
    names += [each.id for each in called if isinstance(each, ast.Name)]
    return raises(node) or any(raises(helpers[name]) for name in names if name in helpers)


@cache
def public():
    """All public functions, classes and methods of PUBLIC."""
    found = []
    for path in sorted(each for package in PUBLIC for each in (ROOT / package).rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if not any(part.startswith("_") for part in name.split(".")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            try:
                module = importlib.import_module(name)
            except ModuleNotFoundError as error:
                if (error.name or "").split(".")[0] in PUBLIC:
                    raise
                continue  # of an extra that is not installed
            found += public_in(tree, module, name, {})
    return found


def public_in(tree, holder, name, helpers):
    in_class = isinstance(holder, type)
    functions = {each.name: each for each in tree.body if isinstance(each, FUNCTIONS)}
    helpers = helpers | {f"{'self.' * in_class}{each}": node for each, node in functions.items()}
    for node in tree.body:
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)) or node.name.startswith("_"):
            continue
        value = inspect.getattr_static(holder, node.name, None)
        if value is None:  # of type checkers, or of a name that is loaded later
            continue
        value = getattr(value, "__func__", value)
        owner = holder if in_class else None
        doc = (inspect.getdoc(value) if isinstance(node, ast.ClassDef) else ast.get_docstring(node)) or ""
        if not doc and owner:
            doc = inspect.getdoc(getattr(owner, node.name)) or ""
        full = f"{name}.{node.name}"
        yield Described(full, node, value, doc, helpers, owner)
        if isinstance(node, ast.ClassDef):
            yield from public_in(node, value, full, helpers)


def missing_args(each):
    if isinstance(each.node, ast.ClassDef):
        kind = each.value
        own = [
            part
            for part in each.node.body
            if isinstance(part, ast.AnnAssign) or getattr(part, "name", "") == "__init__"
        ]
        if not own or issubclass(kind, BaseModel | ModelSettings | dict) or isinstance(kind, EnumType):
            return []
        try:
            parameters = inspect.signature(kind).parameters.values()
        except ValueError:  # of a class of C
            return []
        known = named_in(each.doc) | named_in(inspect.getdoc(kind.__init__))
        known = known.union(
            *(
                named_in(base.__doc__ and inspect.cleandoc(base.__doc__))
                for base in kind.__mro__[1:]
                if is_ours(base)
            )
        )
        return [one.name for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
                and not one.name.startswith("_") and one.name not in known]  # fmt: skip
    if (
        each.is_property
        or each.is_foreign
        or (each.bases and not ast.get_docstring(each.node) and each.has("Args"))
    ):
        return []
    known = named_in(each.doc).union(
        *(named_in(inspect.getdoc(getattr(base, each.node.name))) for base in each.bases)
    )
    arguments = each.node.args
    taken = [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    ]
    names = [one.arg for one in taken if one]
    names = names[1:] if each.owner and "staticmethod" not in each.decorators else names
    return [name for name in names if not name.startswith("_") and name not in known]


def lacks_returns(each):
    if isinstance(each.node, ast.ClassDef) or each.is_property or each.is_foreign:
        return False
    kind = ast.unparse(each.node.returns) if each.node.returns else "None"
    is_block = kind == "Iterator[None]" and any("contextmanager" in one for one in each.decorators)
    gives = kind not in ("None", "NoReturn") and not is_block
    return gives and not re.match("(Return|Yield)s? ", each.doc) and not each.has("Returns", "Yields")


def lacks_raises(each):
    """True if the errors are not under Raises, but raised, or described elsewhere."""
    if isinstance(each.node, ast.ClassDef):
        makers = [one for one in each.node.body if getattr(one, "name", "") in ("__init__", "__post_init__")]
        own = {f"self.{one.name}": one for one in each.node.body if isinstance(one, FUNCTIONS)}
        does = any(may_raise(maker, each.helpers | own) for maker in makers)
    else:
        does = not each.is_property and may_raise(each.node, each.helpers)
    told = re.search(r"\bRaises? (a |the )?\w*Error\b", re.split(r"\n\w+:\n", each.doc)[0])
    return bool(does or told) and not each.has("Raises")


def test_public_names_describe_arguments_results_and_errors():
    names = [each for each in public() if not is_command(each.value)]  # read once: it takes 20 seconds
    assert len(names) > 3000
    found = {
        f"{each.name}: {lacking.__name__}": missing
        for each in names
        for lacking in (missing_args, lacks_returns, lacks_raises)
        if (missing := lacking(each))
    }
    assert found == {}


def test_exported_names_and_the_methods_that_people_call_have_an_example():
    missing = set()
    for value, name in exported().items():
        about = inspect.getdoc(value) or ""
        if ">>> " not in about:
            missing.add(name)
        for called in (*CALLED, "encode_chunks") if inspect.isclass(value) else ():
            method = getattr(value, called, None)
            is_own = callable(method) and (getattr(method, "__module__", None) or "").startswith("juzhen.")
            if is_own and f".{called}(" not in about and ">>> " not in (inspect.getdoc(method) or ""):
                missing.add(f"{name}.{called}")
    assert missing == set()
