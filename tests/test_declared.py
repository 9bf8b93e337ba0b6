"""What models, losses and callbacks say that they take is what they take, and a model is what its settings say."""

import inspect

import pytest
from omegaconf import OmegaConf

from conf.own_classes import HEAD, keys_of, own_class, own_targets
from juzhen.models import all_settings, settings_of
from juzhen.models.settings import ATTRIBUTES, LATER_NUMBERS, OFF
from launch.job import check_target, run_name


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
        name: one
        for name, one in found.items()
        if name not in HEAD or not getattr(own, "has_parameters", False)
    }


def test_a_configuration_may_set_what_the_classes_take(project_root):
    groups = ("model", "loss", "callbacks", "mining", "weights")
    found = {target for group in groups for target in targets(project_root, group)}
    assert len(found) > 30
    for target in found:
        keys = keys_of(target).model_fields
        assert {name: one.is_required() for name, one in keys.items()} == taken(own_class(target)), target


def test_a_model_is_what_its_settings_say(project_root):
    files = [OmegaConf.load(path) for path in sorted((project_root / "conf" / "model").glob("*.yaml"))]
    named = {file["_target_"]: file["name"] for file in files if "_target_" in file}
    assert sorted(named) == list(own_targets("lightning_modules"))
    for target, name in named.items():
        own, settings = own_class(target), settings_of({"_target_": target})
        assert (own.Settings, settings.target(), settings.name) == (settings, target, name)
        assert [getattr(own, attribute) for attribute in ATTRIBUTES] == [
            getattr(settings, attribute) for attribute in ATTRIBUTES
        ]
        own_keys = keys_of(target).model_fields
        assert {*settings.for_learning, *settings.changes_nothing} <= {*own_keys}, target
    assert len(all_settings()) == len(named)


def test_a_model_whose_class_is_not_known_goes_by_its_name():
    assert settings_of({"_target_": "somewhere.Else", "name": "bm25"}) is all_settings()["BM25Module"]
    assert settings_of({"_target_": "somewhere.Else", "name": "another"}).trains


def test_numbers_that_are_left_out_of_keys_are_numbers_of_their_loss(project_root):
    for name, numbers in (LATER_NUMBERS | OFF).items():
        target = OmegaConf.load(project_root / "conf" / "loss" / f"{name}.yaml")["_target_"]
        assert {*numbers} <= {*keys_of(target).model_fields}, name


COSENT = {"_target_": "juzhen.losses.pairwise_ranking.CoSENT", "name": "cosent"}


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
        ("views.ViewEncoder", ["a"], "a-views-cosent-s1"),
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
