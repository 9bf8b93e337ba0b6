"""Constructors refuse what they do not know, and conf/loss/ gives them all they need."""

import inspect
import sys
from dataclasses import MISSING, fields
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

import juzhen.losses
from conf.own_classes import own_class
from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.losses import Loss
from lightning_modules.loss_factory import build_loss
from tools.loss_table import losses_for, options

HEAD = {"dim": 2, "num_classes": 2}
CONF = Path(__file__).parents[2] / "conf"
FILES = sorted(path.stem for path in (CONF / "loss").glob("*.yaml"))


def composed(*overrides: str, config_name: str = "loss/by_kind"):
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose(config_name, overrides=list(overrides)).loss


def test_every_loss_has_a_file():
    targets = {one["_target_"] for one in options("loss").values() if "_target_" in one}
    exported = [getattr(juzhen.losses, name) for name in juzhen.losses.__all__]
    concrete = {one for one in exported if isinstance(one, type) and issubclass(one, Loss)}
    assert {own_class(target) for target in targets} == {
        one for one in concrete if not inspect.isabstract(one)
    }


def test_a_setting_that_is_no_value_is_refused_by_its_name():
    """Set behind the constructor, whose types are checked in tests alone."""
    seen = set()
    for config in losses_for(options("model")["biencoder"]).values():
        if "_target_" not in config or "of" in config:
            continue
        loss = type(build_loss(config, dim=4, num_classes=3))
        for field in (field for field in fields(loss) if field.init and field.name not in HEAD):
            for value in ("nonsense", object(), float("nan")):
                made = build_loss(config, dim=4, num_classes=3)
                object.__setattr__(made, field.name, value)
                with pytest.raises(UserError, match=rf"\b{field.name}\b"):
                    made.__post_init__()
                seen.add(field.name)
    assert {"depths", "reduction", "temperature"} <= seen


@pytest.mark.parametrize("name", [name for name in FILES if name != "by_kind"])
@pytest.mark.parametrize("model", ["biencoder", "crossencoder"])
@pytest.mark.sampled(6)
def test_a_file_gives_its_class_what_it_takes_and_no_more_is_needed(name, model):
    config = losses_for(options("model")[model])[name]
    assert isinstance(build_loss(config, dim=4, num_classes=3), Loss)
    bare = {key: config[key] for key in ("_target_", "of") if key in config}
    assert isinstance(build_loss(bare, dim=4, num_classes=3), Loss)


FILES_DIFFER = {
    ("InfoNCEGTE", "temperature"),
    ("InfoNCEGuided", "temperature"),
    ("InfoNCEGuided", "false_negative_margin"),
}
"""Class and number that its files set otherwise."""


def test_the_defaults_of_a_class_are_the_numbers_of_one_of_its_files():
    """A temperature is that of cosines or of logits."""

    def plain(value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    files = [losses_for(options("model")[model]) for model in ("biencoder", "crossencoder")]
    in_files: dict[tuple[type, str], list[object]] = {}
    for config in (config for of_model in files for config in of_model.values() if "_target_" in config):
        for key, value in config.items():
            in_files.setdefault((own_class(config["_target_"]), key), []).append(plain(value))
    asked = [
        (loss.__name__, field.name, field.default in values)
        for (loss, key), values in in_files.items()
        for field in fields(loss)
        if field.name == key and field.default is not MISSING
    ]
    assert len(asked) > 100
    assert {row[:2] for row in asked if not row[2]} == FILES_DIFFER


def test_by_kind_gives_every_kind_a_loss_that_takes_it():
    config = composed()
    assert set(config) <= set(Kind)
    for kind, choice in config.items():
        assert Kind(kind) in own_class(choice["_target_"]).input_kinds


def test_one_entry_of_by_kind_can_be_exchanged():
    config = composed("loss@loss.scored_pair=cosent", "loss.scored_pair.temperature=0.1")
    assert config.scored_pair == {
        "_target_": "juzhen.losses.pairwise_ranking.CoSENT",
        "name": "cosent",
        "temperature": 0.1,
    }
    assert config.labelled_pair == composed().labelled_pair


OWN_DEFAULTS = {
    ("Prototype", "prototype_entropy", "temperature"): (0.07, 0.05),
    ("InfoNCEOwn", "info_nce_own", "temperature"): (0.07, 0.05),
    ("SoftMarginTriplet", "soft_margin", "temperature"): (0.05, 1.0),
    ("Huber", "huber", "delta"): (0.5, 1.0),
    ("Circle", "circle", "positive_goal"): (None, 0.6),  # None: as scores have it
    ("Circle", "circle", "negative_goal"): (None, 0.4),
}
"""Class, function that it calls, and option → the default of each, where they differ."""


def test_a_function_has_the_defaults_of_its_class():
    found, compared = {}, 0
    for kind in [
        one
        for one in (getattr(juzhen.losses, name) for name in juzhen.losses.__all__)
        if isinstance(one, type)
    ]:
        methods = [inspect.unwrap(one) for one in vars(kind).values() if inspect.isfunction(one)]
        called = {name for one in methods for name in one.__code__.co_names}
        for name in called & vars(module := sys.modules[kind.__module__]).keys():
            if not inspect.isfunction(function := getattr(module, name)):
                continue
            for option, parameter in inspect.signature(function).parameters.items():
                own, default = getattr(kind, option, inspect.Parameter.empty), parameter.default
                if inspect.Parameter.empty not in (own, default):
                    compared += 1
                    if own != default:
                        found[kind.__name__, name, option] = (own, default)
    assert compared > 35
    assert found == OWN_DEFAULTS
