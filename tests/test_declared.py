"""What is read from the source of models and losses is what their classes have."""

import pytest
from omegaconf import OmegaConf

from conf.declared import declared
from conf.own_classes import own_class
from juzhen.core.errors import UserError
from launch.naming import run_name


def targets(project_root, group):
    for path in sorted((project_root / "conf" / group).glob("*.yaml")):
        if target := OmegaConf.load(path).get("_target_"):
            yield target


def test_what_models_declare_is_what_their_classes_have(project_root):
    found = set(targets(project_root, "model"))
    assert "lightning_modules.lexical.Lexical" in found
    for target in found:
        model, read = own_class(target), declared(target)
        assert read.name == model.__name__
        for attribute in ("trains", "unscored", "offers", "reads", "gives"):
            assert getattr(read, attribute) == getattr(model, attribute), (target, attribute)


def test_what_losses_declare_is_what_their_classes_have(project_root):
    found = set(targets(project_root, "loss"))
    assert len(found) > 20
    for target in found:
        loss, read = own_class(target), declared(target)
        assert (read.takes, read.reads) == (loss.takes, loss.reads), target


@pytest.mark.parametrize("target", ["os.system", "juzhen.losses.cosent.Nothing", "losses.nothing.CoSENT"])
def test_nothing_but_classes_of_the_project_is_read(target):
    with pytest.raises(UserError, match="no class of juzhen's"):
        declared(target)


LOSS = {"_target_": "juzhen.losses.cosent.CoSENT"}


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
