"""What is known of models and losses before torch is loaded is what their classes say."""

import re

import pytest
from omegaconf import OmegaConf

from conf.declared import TABLE, declared, declared_by, written
from conf.own_classes import own_class
from juzhen.core.errors import UserError
from launch.naming import run_name


def targets(project_root, group):
    for path in sorted((project_root / "conf" / group).glob("*.yaml")):
        if target := OmegaConf.load(path).get("_target_"):
            yield target


def test_the_table_holds_what_the_classes_say(project_root):
    found = {
        one for group in ("model", "loss", "callbacks", "mining") for one in targets(project_root, group)
    }
    assert len(found) > 30
    kept, told = (
        re.sub(r', "source": "\w+"', "", text) for text in (TABLE.read_text(encoding="utf-8"), written(found))
    )
    assert kept == told, "write it again: python -m tools.loss_table docs/losses.md"
    for target in found:
        assert declared(target) == declared_by(own_class(target)), target


def test_a_class_that_is_not_in_the_table_is_asked_itself(monkeypatch):
    monkeypatch.setattr("conf.declared.table", dict)
    declared.cache_clear()
    try:
        assert declared("juzhen.losses.order.CoSENT").settings == {"temperature": ("a number",)}
    finally:
        declared.cache_clear()


@pytest.mark.parametrize(
    "target", ["os.system", "juzhen.losses.order.Nothing", "juzhen.losses.nothing.CoSENT"]
)
def test_nothing_but_classes_of_the_project_is_read(target):
    with pytest.raises(UserError, match="no class of juzhen's"):
        declared(target)


LOSS = {"_target_": "juzhen.losses.order.CoSENT", "name": "cosent"}


@pytest.mark.parametrize(
    ("model", "datasets", "expected"),
    [
        ("biencoder.BiEncoder", ["a", "b"], "a+b-biencoder-cosent-s1"),
        ("biencoder.BiEncoder", [], "untrained-biencoder-s1"),
        ("lexical.Lexical", ["a"], "lexical-s1"),
        ("lexical.Lexical", [], "lexical-s1"),
        ("mlm.MaskedLanguageModel", ["a"], "a-mlm-s1"),
        ("crops.CropEncoder", ["a"], "a-crops-cosent-s1"),
    ],
)
def test_a_run_is_not_called_after_what_it_has_no_use_for(model, datasets, expected):
    config = {
        "dataset": {name: {} for name in datasets},
        "model": {"_target_": f"lightning_modules.{model}"},
        "loss": LOSS,
        "seed": 1,
    }
    assert run_name(config) == expected
