"""Constructors refuse what they do not know, and conf/loss/ gives them all they need."""

import inspect
import math
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import get_class, instantiate
from omegaconf import OmegaConf

from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.losses import (
    AnglE,
    ArcFace,
    Bilinear,
    BinaryCrossEntropy,
    Circle,
    Clustering,
    Contrastive,
    CoSENT,
    CoSENTLayers,
    CoSENTSampled,
    CoSENTWeighted,
    CosineSimilarity,
    CrossEntropy,
    CrossEntropyError,
    Huber,
    InfoNCE,
    Loss,
    MarginRanking,
    OnlineContrastive,
    Quantile,
    SquaredError,
    TripletMargin,
    TripletOnline,
)
from juzhen.losses.options import number, switch
from lightning_modules.loss_numbers import losses_for, options

CONF = Path(__file__).parents[2] / "conf"
FILES = sorted(path.stem for path in (CONF / "loss").glob("*.yaml"))


def circle(**changed):
    return Circle(
        **{"margin": 0.25, "positive_goal": None, "negative_goal": None, "weighted": True, "temperature": 1}
        | changed
    )


def composed(*overrides: str, config_name: str = "loss/by_kind"):
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose(config_name, overrides=list(overrides)).loss


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: TripletMargin(margin=0.2, distance="cosin"),
            r"loss.distance=cosin .* did you mean cosine\?",
        ),
        (lambda: TripletMargin(margin=-1, distance="cosine"), "loss.margin=-1: expected a number from 0"),
        (
            lambda: TripletMargin(margin=0.2, distance="cosine", adaptive_margin=-1),
            "loss.adaptive_margin=-1: expected a number from 0",
        ),
        (
            lambda: TripletOnline(mining="hard", margin=0.2, adaptive_margin=0),
            r"loss.mining=hard .* did you mean \w+_hard\?",
        ),
        (
            lambda: Quantile(quantile=1, activation="identity", target_range=[0, 1]),
            "loss.quantile=1: expected a number from 0.01 to 0.99",
        ),
        (lambda: OnlineContrastive(margin=0.5, reduction="average"), "reduction=average .* known: mean, sum"),
        (lambda: OnlineContrastive(margin=0, reduction="mean"), "loss.margin=0: expected a number above 0"),
        (lambda: Contrastive(margin=-0.5), "loss.margin=-0.5: expected a number above 0"),
        (lambda: CoSENT(temperature=0), "loss.temperature=0: expected a number above 0"),
        (
            lambda: CoSENTLayers(temperature=0.05, depths=[1, 0.5], weights=[1, 1]),
            r"loss.depths=\[1, 0.5\]: expected shares of the layers in rising order",
        ),
        (
            lambda: CoSENTLayers(temperature=0.05, depths=[0.5, 6], weights=[1, 1]),
            "loss.depths=6: expected a number above 0 to 1",
        ),
        (
            lambda: CoSENTLayers(temperature=0.05, depths=[0.5, 1], weights=[1]),
            r"loss.weights=\[1\]: expected 2 numbers, one for each of loss.depths",
        ),
        (lambda: InfoNCE(temperature=math.inf, symmetric=False), "loss.temperature=inf: expected a number"),
        (lambda: CosineSimilarity(target_range=[0, 5]), "target_range=5: expected a number from -1 to 1"),
        (lambda: CosineSimilarity(target_range=[0]), r"loss.target_range=\[0\]: expected two numbers"),
        (lambda: CosineSimilarity(target_range=[1, 0]), r"\[1, 0\]: expected the lower number first"),
        (
            lambda: CoSENTWeighted(temperature=0.05, temperature_unit="spred"),
            r"loss.temperature_unit=spred .* did you mean spread\?",
        ),
        (
            lambda: CoSENTSampled(num_comparisons=0, temperature=0.05, temperature_unit="score"),
            "loss.num_comparisons=0: expected a whole number from 1",
        ),
        (
            lambda: BinaryCrossEntropy(temperature=1, smoothing=1.5, focal_gamma=0),
            "loss.smoothing=1.5: expected a number from 0 to 1",
        ),
        (lambda: CrossEntropy(smoothing=0, focal_gamma=-1), "loss.focal_gamma=-1: expected a number from 0"),
        (
            lambda: SquaredError(activation="tanh", target_range=[0, 1]),
            "loss.activation=tanh .* known: identity, sigmoid",
        ),
        (
            lambda: SquaredError(activation="sigmoid", target_range=[-1, 1]),
            r"target_range=\[-1, 1\]: .* between 0 and 1; type loss.target_range=\[0,1\] too",
        ),
        (lambda: SquaredError(activation="identity", target_range=[1, 1]), "expected the lower number first"),
        (
            lambda: Huber(delta=0, activation="identity", target_range=[0, 1]),
            "loss.delta=0: expected a number above 0",
        ),
        (
            lambda: CrossEntropyError(temperature=1, error_weight=-1),
            "loss.error_weight=-1: expected a number from 0",
        ),
        (
            lambda: CrossEntropyError(temperature=0, error_weight=1),
            "loss.temperature=0: expected a number above 0",
        ),
        (lambda: MarginRanking(margin=-1), "loss.margin=-1: expected a number from 0"),
        (lambda: circle(margin=2), "loss.margin=2: expected a number from 0 to 1"),
        (lambda: circle(positive_goal=5), "loss.positive_goal=5: expected a number from -1 to 1"),
        (lambda: circle(positive_goal=1, negative_goal=0), "both goals; type loss.margin=null too"),
        (lambda: circle(margin=None, negative_goal=0), "type loss.margin=0.25, or both goals"),
        (
            lambda: ArcFace(margin=4, temperature=1, dim=2, num_classes=2),
            "loss.margin=4: expected a number from 0 to 3.14",
        ),
        (
            lambda: Clustering(separation_weight=-1, separation_margin=0),
            "loss.separation_weight=-1: expected a number from 0",
        ),
        (
            lambda: Bilinear(objective="cross", dim=2, num_classes=2),
            "loss.objective=cross .* known: bce, ce",
        ),
        (
            lambda: AnglE(
                temperature=1,
                angle_temperature=1,
                angle_weight=0,
                cosine_weight=0,
                batch_weight=0,
                positive_from=1,
            ),
            "loss.angle_weight=0, cosine_weight=0, batch_weight=0: expected one above 0",
        ),
    ],
)
def test_wrong_values_are_named(build, message):
    with pytest.raises(UserError, match=message):
        build()


@pytest.mark.parametrize("value", ["wide", None, True, math.nan, [1]])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(UserError, match=r"margin=.*: expected a number from 0 to 2"):
        number("margin", value, low=0.0, high=2.0)


@pytest.mark.parametrize("value", ["no", 1, None])
def test_what_is_no_switch_is_refused(value):
    """The text "no" would count as true."""
    with pytest.raises(UserError, match=r"symmetric=.*: expected true or false"):
        switch("symmetric", value)


def concrete_subclasses(base: type) -> list[type]:
    """Everything below `base` in the package that can be built; not what a test derives."""
    found = []
    for one in base.__subclasses__():
        if one.__module__.startswith("losses."):
            found += [one] * (not inspect.isabstract(one)) + concrete_subclasses(one)
    return found


def test_every_loss_has_a_file():
    targets = [
        OmegaConf.load(CONF / "loss" / f"{name}.yaml").get("_target_") for name in FILES if name != "by_kind"
    ]
    assert {get_class(target) for target in targets} == set(concrete_subclasses(Loss))


@pytest.mark.parametrize("name", [name for name in FILES if name != "by_kind"])
@pytest.mark.parametrize("model", ["biencoder", "crossencoder"])
def test_a_file_gives_its_class_all_it_needs(name, model):
    config = losses_for(options("model")[model])[name]
    head = {"dim": 4, "num_classes": 3} if get_class(config["_target_"]).has_head else {}
    assert isinstance(instantiate(config, **head), Loss)


def test_by_kind_gives_every_kind_a_loss_that_takes_it():
    config = composed()
    assert set(config) <= set(Kind)
    for kind, choice in config.items():
        assert Kind(kind) in get_class(choice["_target_"]).takes


def test_one_entry_of_by_kind_can_be_exchanged():
    config = composed("loss@loss.scored_pair=cosent", "loss.scored_pair.temperature=0.1")
    assert config.scored_pair == {"_target_": "juzhen.losses.cosent.CoSENT", "temperature": 0.1}
    assert config.labelled_pair == composed().labelled_pair
