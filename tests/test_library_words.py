"""The library speaks of its own arguments; keys of a configuration and `train.py` are the suite's to name."""

import ast
import re

from juzhen.core.errors import UserError
from launch.overrides import with_keys

GROUPS = (
    "augmentation|backbone|callbacks|dataset|evaluation|hardware|logger|loss|model|optimizer|schedule|"
    "suite|training"
)
OF_THE_SUITE = re.compile(
    rf"train\.py|\b(init_from|experiment|sweep|{GROUPS})=|\b({GROUPS})\.(?!safetensors|encode)[a-z_]+"
)


PRINTS_COMMANDS = (
    "distillation/graded_sets.py",
    "advice/advise.py",
    "cli/dataset.py",
    "core/aliases.py",
    "identity.py",
    "families/answers/__init__.py",
    "families/late/__init__.py",
    "families/sparse/__init__.py",
    "models/",
)
"""Where a command is printed that trains on what was written, where words of other toolkits are answered with those of
train.py, and where the keys of a job are read."""

OWN_ARGUMENTS = {"training/fit.py": "loss="}
"""Words of the suite that are arguments of a function, too."""


def messages(source):
    """Line and text of every string with a blank in it that is no docstring; what is filled in stands as {}."""
    tree = ast.parse(source)
    inner = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            inner.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            inner |= set(node.values)
            text = "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield node.lineno, text
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inner:
            yield node.lineno, node.value


def found_in(source):
    """Messages with words of the suite, but for those that name the entry point of these words, a job of train.py."""
    found = ((line, text) for line, text in messages(source) if " " in text and OF_THE_SUITE.search(text))
    return [(line, text) for line, text in found if "job of train.py" not in text]


def _is_of_the_suite(message, path):
    return OF_THE_SUITE.search(message.replace(OWN_ARGUMENTS.get(path, "\0"), ""))


def test_messages_of_the_library_know_no_configuration(project_root):
    library = project_root / "juzhen"
    sources = {
        path.relative_to(library).as_posix(): path.read_text("utf-8") for path in library.rglob("*.py")
    }
    others = {
        path: [(line, message) for line, message in found_in(text) if _is_of_the_suite(message, path)]
        for path, text in sources.items()
        if not path.startswith(PRINTS_COMMANDS)
    }
    assert {path: lines for path, lines in others.items() if lines} == {}


def test_it_would_be_seen():
    assert found_in('raise UserError(f"backbone.max_length={n}: too short")')
    assert found_in('print("type hardware=cpu")')
    assert not found_in('"""As in loss=cosent."""\nKEYS = {"backbone.path": 1}')


def test_the_suite_puts_the_key():
    job = {
        "seed": 0,
        "backbone": {"max_length": 4},
        "loss": {"temperature": 1},
        "schedule": {"temperature": 1},
    }
    assert with_keys("max_length=4: set max_length=20", job) == (
        "backbone.max_length=4: set backbone.max_length=20"
    )
    unchanged = (
        "seed=0, temperature=2, other=3, backbone.max_length=4"  # the job's own, of two groups, of none
    )
    assert with_keys(unchanged, job) == unchanged
    assert str(UserError("x=1")) == "x=1"
