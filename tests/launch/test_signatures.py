"""What a configuration gives a model or a loss is what its class takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pytest

from conf.declared import Declared, declared_by, source_digest
from launch import signatures
from launch.explain import ConfigError
from launch.signatures import check_target, check_value


class Keywords:
    def __init__(self, first, *, second: int, third: float | int = 3) -> None: ...


class Inherits(Keywords): ...


class PassesOn(Keywords):
    def __init__(self, *, fourth: bool, **rest: object) -> None: ...


class Headed:
    has_head = True

    def __init__(self, *, margin: float, dim: int, num_classes: int) -> None: ...


class Described:
    @dataclass(kw_only=True)
    class Settings:
        left: int
        right: str = ""

    def __init__(self, *, encoder: object) -> None: ...


@pytest.mark.parametrize(
    ("own", "settings", "required"),
    [
        (Keywords, ["first", "second", "third"], {"first", "second"}),
        (Inherits, ["first", "second", "third"], {"first", "second"}),
        (PassesOn, ["first", "second", "third", "fourth"], {"first", "second", "fourth"}),
        (Headed, ["margin"], {"margin"}),
        (Described, ["left", "right"], {"left"}),
    ],
)
def test_a_class_names_its_keys(own: type, settings: list[str], required: set[str]) -> None:
    found = declared_by(own)
    assert (sorted(found.settings), set(found.required)) == (sorted(settings), required)


def test_what_lies_outside_the_project_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"loss\._target_=fractions\.Fraction: no class of juzhen's.*known: juzhen"
    ):
        check_target({"_target_": "fractions.Fraction", "numerator": 1}, "loss")
    with pytest.raises(ConfigError, match="known: lightning_modules"):
        check_target({"_target_": "juzhen.losses.order.CoSENT", "temperature": 1}, "model")
    with pytest.raises(ConfigError, match=r"juzhen\.losses\.contrast\.InfoNCE\b"):
        check_target({"_target_": "juzhen.losses.info_nce.InfoNCE", "temperature": 1}, "loss")


def test_the_class_has_the_last_word_where_the_table_is_of_another_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = source_digest("juzhen.losses.order.CoSENT")
    older = Declared("CoSENT", settings={"margin": ["a number"]}, required=["margin"], source=source)
    monkeypatch.setattr(signatures, "declared", lambda target: older)
    with pytest.raises(ConfigError, match="did you mean margin"):
        check_target({"_target_": "juzhen.losses.order.CoSENT", "margni": 0.05}, "loss")
    monkeypatch.setattr(signatures, "declared", lambda target: replace(older, source="another"))
    check_target({"_target_": "juzhen.losses.order.CoSENT", "temperature": 0.05}, "loss")
    with pytest.raises(ConfigError, match=r"loss.temprature: .* did you mean temperature"):
        check_target({"_target_": "juzhen.losses.order.CoSENT", "temprature": 0.05}, "loss")


def words(annotation: object) -> Sequence[str]:
    """How messages call the type of a parameter."""

    def init(self, value) -> None: ...

    init.__annotations__["value"] = annotation
    return declared_by(type("One", (), {"__init__": init})).settings["value"]


@pytest.mark.parametrize(
    ("value", "annotation", "expected"),
    [
        (1, float, True),
        (True, float, False),
        (True, int, False),
        (1.5, int, False),
        (None, int | None, True),
        ("x", int | None, False),
        ("mean", Literal["mean", "sum"], True),
        ("men", Literal["mean", "sum"], False),
        (None, Literal["mean", "sum"] | None, True),
        ([0, 1], Sequence[float], True),
        (3, list[int], False),
        ({"a": 1}, dict, True),
        ("anything", Mapping[str, Keywords], True),
        ("anything", Keywords, True),
    ],
)
def test_values_against_annotations(value: object, annotation: object, expected: bool) -> None:
    if expected:
        check_value("loss.margin", value, words(annotation))
    else:
        with pytest.raises(ConfigError, match=r"loss.margin=.*: expected"):
            check_value("loss.margin", value, words(annotation))


@pytest.mark.parametrize(
    ("annotation", "spoken"),
    [(float, "a number"), (float | int, "a number"), (int | None, "a whole number or null")],
)
def test_the_expected_type_is_named_in_words(annotation: object, spoken: str) -> None:
    with pytest.raises(ConfigError, match=f"loss.margin=low: expected {spoken}$"):
        check_value("loss.margin", "low", words(annotation))
