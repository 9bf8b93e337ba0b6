"""Constructors are read, not imported: what they take is what Python would accept."""

import ast
import inspect
from pathlib import Path

import pytest
from scratch_conf import write_tree

from launch.annotations import check_value, fits
from launch.explain import ConfigError
from launch.signatures import check_target, find_parameters

SHAPES = """
from dataclasses import dataclass
from shapes.base import Plain as Renamed


class Keywords:
    def __init__(self, first, *, second, third=3): ...


class Inherits(Keywords): ...


class PassesOn(Keywords):
    def __init__(self, *, fourth, **rest): super().__init__(**rest)


class Foreign(Renamed): ...


@dataclass
class Record:
    left: int
    right: int = 2


def build(one, two=2): ...
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_tree(tmp_path, {"shapes/many.py": SHAPES, "shapes/base.py": "class Plain:\n    pass\n"})


@pytest.mark.parametrize("name", ["Keywords", "Inherits", "Record", "build", "Foreign"])
def test_the_reading_agrees_with_inspect(root: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(root))
    from importlib import import_module

    module = import_module("shapes.many")
    expected = inspect.signature(getattr(module, name)).parameters.values()
    found = find_parameters(f"shapes.many.{name}", "loss", root)
    assert set(found.annotations) == {one.name for one in expected}
    assert found.required == {one.name for one in expected if one.default is one.empty}


def test_keywords_passed_on_belong_to_the_base_class(root: Path) -> None:
    found = find_parameters("shapes.many.PassesOn", "loss", root)
    assert set(found.annotations) == {"first", "second", "third", "fourth"}
    assert not found.open


def test_a_name_imported_from_another_module_is_followed(root: Path) -> None:
    assert find_parameters("shapes.many.Renamed", "loss", root).annotations == {}


def test_what_lies_outside_the_project_is_refused(root: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"loss\._target_=fractions\.Fraction: no class of juzhen's.*known: losses"
    ):
        check_target({"_target_": "fractions.Fraction", "numerator": 1}, "loss", root=root)
    with pytest.raises(ConfigError, match="known: lightning_modules"):
        check_target({"_target_": "juzhen.losses.cosent.CoSENT", "temperature": 1}, "model")


@pytest.mark.parametrize(
    ("value", "annotation", "expected"),
    [
        (1, "float", True),
        (True, "float", False),
        (True, "int", False),
        (1.5, "int", False),
        (None, "int | None", True),
        ("x", "int | None", False),
        ("mean", 'Literal["mean", "sum"]', True),
        ("men", 'Literal["mean", "sum"]', False),
        ([0, 1], "Sequence[float]", True),
        (3, "list[int]", False),
        ("anything", "SomeClass", True),
    ],
)
def test_values_against_annotations(value: object, annotation: str, expected: bool) -> None:
    assert fits(value, ast.parse(annotation, mode="eval").body) is expected


@pytest.mark.parametrize(
    ("annotation", "spoken"),
    [("float", "a number"), ("float | int", "a number"), ("int | None", "a whole number or null")],
)
def test_the_expected_type_is_named_in_words(annotation: str, spoken: str) -> None:
    with pytest.raises(ConfigError, match=f"loss.margin=low: expected {spoken}$"):
        check_value("loss.margin", "low", ast.parse(annotation, mode="eval").body)
