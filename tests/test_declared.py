"""What is read of the source of models, losses and callbacks is what the classes are, and what they take."""

import inspect

import pytest
from omegaconf import OmegaConf

from conf.declared import ATTRIBUTES, HEAD, declared
from conf.own_classes import own_class
from juzhen.core.errors import UserError
from juzhen.core.schema import ConfigError
from launch.job import check_target
from launch.naming import run_name


def targets(project_root, group):
    for path in sorted((project_root / "conf" / group).glob("*.yaml")):
        if target := OmegaConf.load(path).get("_target_"):
            yield target


def taken(own):
    """Parameter → whether it must be given, of an imported class, and of the bases that it hands them on to."""
    found = {}
    for base in getattr(own, "Settings", own).__mro__:
        if "__init__" in vars(base):
            _, *given = inspect.signature(base.__init__).parameters.values()
            named = [one for one in given if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
            found = {one.name: one.default is one.empty for one in named} | found
            if named == given:
                break
    return {
        name: one for name, one in found.items() if name not in HEAD or not getattr(own, "has_head", False)
    }


def test_what_is_read_is_what_the_classes_are(project_root):
    groups = ("model", "loss", "callbacks", "mining", "weights")
    found = {target for group in groups for target in targets(project_root, group)}
    assert len(found) > 30
    for target in found:
        own, told = own_class(target), declared(target)
        assert {name: one.is_required() for name, one in told.settings.model_fields.items()} == taken(own), (
            target
        )
        for name in ATTRIBUTES:
            assert getattr(told, name) == getattr(own, name, None), (target, name)


@pytest.mark.parametrize(
    "target",
    [
        "os.system",
        "juzhen.losses.order.Nothing",
        "juzhen.losses.nothing.CoSENT",
        "lightning_modules.base.Match",
    ],
)
def test_nothing_but_classes_of_the_project_is_read(target):
    with pytest.raises(UserError, match="no class of juzhen's"):
        declared(target)


COSENT = {"_target_": "juzhen.losses.order.CoSENT", "name": "cosent"}


@pytest.mark.parametrize(
    ("node", "key", "message"),
    [
        ({"_target_": "fractions.Fraction"}, "loss", r"loss\._target_=fractions\.Fraction: .*known: juzhen"),
        (COSENT, "model", "known: lightning_modules"),
        ({"_target_": "juzhen.losses.info_nce.InfoNCE"}, "loss", r"juzhen\.losses\.contrast\.InfoNCE\b"),
        (COSENT | {"temprature": 1}, "loss", "loss.temprature: .* did you mean temperature"),
        (COSENT | {"temperature": "0.05"}, "loss", "loss.temperature=0.05: expected a valid number"),
        (COSENT | {"temperature": True}, "loss", "loss.temperature=true: expected a valid number"),
        (COSENT | {"temperature": None}, "loss", "loss.temperature=null: expected a valid number"),
        (COSENT | {"_partial_": True}, "loss", "loss._partial_: there is no such key"),
        ({"_target_": "juzhen.losses.lists.LambdaLoss", "mu": [1]}, "loss", r"loss.mu=\[1\]: expected"),
        (
            {"_target_": "lightning_modules.lexical.BM25Module", "tokens": "words"},
            "model",
            "'characters' or 'jieba'",
        ),
        (
            {"_target_": "lightning_modules.lexical.BM25Module", "tokens": "jieba", "b": 1},
            "model",
            "model.k1 is not set",
        ),
        ({"_target_": "juzhen.losses.classes.SoftmaxClassifier", "dim": 3}, "loss", "loss.dim: there is no"),
    ],
)
def test_a_class_is_given_what_it_takes(node, key, message):
    with pytest.raises(ConfigError, match=message):
        check_target(node, key)


def test_values_that_fit_pass():
    check_target(COSENT | {"temperature": 1}, "loss")
    check_target({"_target_": "juzhen.losses.regression.Huber", "target_range": [0, 1]}, "loss")
    check_target({"_target_": "lightning_modules.biencoder.BiEncoder", "score": None}, "model")


LOSS = COSENT


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
