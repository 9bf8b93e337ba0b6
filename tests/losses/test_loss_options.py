"""Constructors refuse what they do not know, and conf/loss/ gives them all they need."""

import inspect
import math
import sys
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

import juzhen.losses
from conf.own_classes import own_class
from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.core.schema import ConfigError
from juzhen.losses import Loss
from launch.job import check_target
from lightning_modules.loss_factory import build_loss
from tools.loss_numbers import losses_for, options

HEAD = {"dim": 2, "num_classes": 2}
CONF = Path(__file__).parents[2] / "conf"
FILES = sorted(path.stem for path in (CONF / "loss").glob("*.yaml"))


def composed(*overrides: str, config_name: str = "loss/by_kind"):
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose(config_name, overrides=list(overrides)).loss


@pytest.mark.parametrize(
    ("loss", "given", "message"),
    [
        ("TripletMargin", {"distance": "cosin"}, r"distance=cosin: .*Did you mean cosine\?"),
        ("TripletMargin", {"margin": -1}, "margin=-1: expected "),
        ("TripletMargin", {"adaptive_margin": -1}, "adaptive_margin=-1: expected "),
        ("TripletOnline", {"mining": "hard"}, "mining=hard: expected .*batch_hard"),
        ("Quantile", {"quantile": 1}, "quantile=1: expected "),
        ("OnlineContrastive", {"reduction": "average"}, "reduction=average: expected .*mean.*sum"),
        ("OnlineContrastive", {"margin": 0}, "margin=0: expected "),
        ("Contrastive", {"margin": -0.5}, "margin=-0.5: expected "),
        ("CoSENT", {"temperature": 0}, "temperature=0: expected "),
        ("CoSENTLayers", {"depths": [1, 0.5]}, r"depths=\[1, 0.5\]: expected shares .* in rising order"),
        ("CoSENTLayers", {"depths": [0.5, 6]}, r"depths\[1\]=6: expected "),
        (
            "CoSENTLayers",
            {"weights": [1]},
            r"weights=\[1\]: expected 2 numbers, one for each of depths",
        ),
        ("InfoNCEPool", {"temperature": 0.0}, "temperature=0.0: expected .*0"),
        (
            "InfoNCE",
            {"false_negative_margin": 3},
            "false_negative_margin=3: expected ",
        ),
        (
            "InfoNCEGuided",
            {"false_negative_margin": -3},
            "false_negative_margin=-3: expected ",
        ),
        ("LambdaLoss", {"mu": -1}, "mu=-1: expected "),
        ("ListKL", {"teacher_temperature": 0}, "teacher_temperature=0: expected "),
        ("InfoNCE", {"temperature": math.inf}, "temperature=inf: expected "),
        ("CosineSimilarity", {"target_range": [0, 5]}, r"target_range\[1\]=5: expected "),
        ("CosineSimilarity", {"target_range": [0]}, r"target_range=\[0\]: expected at least 2"),
        ("CosineSimilarity", {"target_range": [1, 0]}, r"\[1, 0\]: expected the lower number first"),
        (
            "CoSENTWeighted",
            {"temperature_unit": "spred"},
            r"temperature_unit=spred: .*Did you mean spread\?",
        ),
        ("CoSENTSampled", {"num_comparisons": 0}, "num_comparisons=0: expected "),
        ("BinaryCrossEntropy", {"label_smoothing": 1.5}, "label_smoothing=1.5: expected "),
        ("CrossEntropy", {"focal_gamma": -1}, "focal_gamma=-1: expected "),
        ("SquaredError", {"activation": "tanh"}, "activation=tanh: expected .*identity.*sigmoid"),
        (
            "SquaredError",
            {"activation": "sigmoid", "target_range": [-1, 1]},
            r"=\[-1, 1\]: .* between 0 and 1. Type target_range=\[0,1\] too",
        ),
        ("SquaredError", {"target_range": [1, 1]}, "expected the lower number first"),
        ("Huber", {"delta": 0}, "delta=0: expected "),
        ("CrossEntropyError", {"error_weight": -1}, "error_weight=-1: expected "),
        ("CrossEntropyError", {"temperature": 0}, "temperature=0: expected "),
        ("MarginRanking", {"margin": -1}, "margin=-1: expected "),
        ("Circle", {"margin": 2}, "margin=2: expected "),
        ("Circle", {"positive_goal": 5}, "positive_goal=5: expected "),
        ("Circle", {"positive_goal": 1, "negative_goal": 0}, "both goals. Type margin=null too"),
        ("Circle", {"margin": None, "negative_goal": 0}, "Type margin=0.25, or both goals"),
        ("ArcFace", {"margin": 4, **HEAD}, "margin=4: expected "),
        ("Clustering", {"separation_weight": -1}, "separation_weight=-1: expected "),
        ("Bilinear", {"objective": "cross", **HEAD}, "objective=cross: expected .*bce.*ce"),
        (
            "AnglE",
            {"angle_weight": 0},
            "angle_weight=0, cosine_weight=0, batch_weight=0: expected one above 0",
        ),
    ],
)
def test_wrong_values_are_named(loss, given, message):
    with pytest.raises(UserError, match=message):
        getattr(juzhen.losses, loss)(**given)


@pytest.mark.parametrize(
    ("target", "key", "value"),
    [
        *(("triplets.TripletMargin", "margin", value) for value in ("wide", None, True, math.nan, [1], -1)),
        *(("contrast.InfoNCE", "symmetric", value) for value in ("no", 1, None)),  # "no" would count as true
        *(("order.CoSENT", "temperature", value) for value in (0, -1, True)),
        *(("lists.InfoNCEDrawn", "num_drawn", value) for value in (0, 2.0, True, "4")),
    ],
)
def test_a_value_that_a_loss_cannot_take_is_refused_before_it_is_made(target, key, value):
    with pytest.raises(ConfigError, match=f"loss.{key}=.*: expected"):
        check_target({"_target_": f"juzhen.losses.{target}", "name": "x", key: value}, "loss")


def test_every_loss_has_a_file():
    targets = {one["_target_"] for one in options("loss").values() if "_target_" in one}
    exported = [getattr(juzhen.losses, name) for name in juzhen.losses.__all__]
    concrete = {one for one in exported if isinstance(one, type) and issubclass(one, Loss)}
    assert {own_class(target) for target in targets} == {
        one for one in concrete if not inspect.isabstract(one)
    }


@pytest.mark.parametrize("name", [name for name in FILES if name != "by_kind"])
@pytest.mark.parametrize("model", ["biencoder", "crossencoder"])
@pytest.mark.sampled(6)
def test_a_file_gives_its_class_what_it_takes_and_no_more_is_needed(name, model):
    config = losses_for(options("model")[model])[name]
    assert isinstance(build_loss(config, dim=4, num_classes=3), Loss)
    bare = {key: config[key] for key in ("_target_", "of") if key in config}
    assert isinstance(build_loss(bare, dim=4, num_classes=3), Loss)


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
