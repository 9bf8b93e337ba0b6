"""Numbers of a loss suit the scores of the job's model, wherever the loss is chosen; docs/losses.md tells them."""

import json

import pytest
from forks import ROOT
from jobs import compose_job
from omegaconf import OmegaConf

from conf import unit_of_scores
from conf.own_classes import own_class
from juzhen.core.examples import Kind
from juzhen.models.settings import numbers_of
from launch.check import check_command_line
from lightning_modules.loss_factory import declared_loss
from tools import loss_table
from tools.loss_table import written

LOSSES = sorted(path.stem for path in (ROOT / "conf" / "loss").glob("*.yaml") if path.stem != "by_kind")
MODELS = ("biencoder", "crossencoder", "cot")
PLACES = {"a stage": "schedule.stages.{}.loss", "a set": "schedule.sets.{}.loss"}
SAID = {
    "info_nce": {"one direction": {"symmetric": False}},
    "info_nce_in_batch": {"in both directions": {"symmetric": True}, "oth directions": {"symmetric": True}},
    "info_nce_own": {"temperature: 0.07": {"temperature": 0.07}},
    "prototype": {"temperature: 0.07": {"temperature": 0.07}},
    "circle": {"margin of 0.25": {"margin": 0.25}, "scale of 80": {"temperature": 1 / 80}},
    "huber": {"half of the range": {"delta": 0.5}},
    "arcface": {"scale of 64": {"temperature": 1 / 64}},
    "cosent": {"scale of 20": {"temperature": 0.05}},
    "mse": {"scaled to [0, 1]": {"target_range": (0.0, 1.0)}},
}
WEIGHED = [
    *("bce", "ce_mse", "cosent", "cosent_adaptive", "huber", "margin_ranking", "mse"),
    *("cosent_bce", "cosent_sampled", "cosent_weighted"),
]
"""Losses with numbers that follow the model, tried by default, the first ones also for a kind; the others are slow."""


@pytest.fixture(scope="module")
def documented():
    """Loss → number → (value with cosines, value with logits), as the page prints them."""
    page = (ROOT / "docs" / "losses.md").read_text(encoding="utf-8")
    table = page.partition("## Numbers")[2].partition("##")[0]
    rows = [
        [cell.strip(" `") for cell in line.split("|")[1:5]]
        for line in table.splitlines()
        if line.startswith("| `")
    ]
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for loss, number, *values in rows:
        found.setdefault(loss, {})[number] = tuple(values)
    return found


def composed(*words):
    """The job as it is composed, with the numbers that follow the model."""
    return OmegaConf.create(OmegaConf.to_container(compose_job("benchmark=none", *words), resolve=True))


def require_documented(documented, model, loss, node):
    """The numbers that a composed job has are those of the page; a refused pair of model and loss has none there."""
    column = 1 if model == "crossencoder" else 0
    found = {key: value for key, value in numbers_of(OmegaConf.to_container(node)).items() if key != "of"}
    told = {key: values[column] for key, values in documented.get(loss, {}).items() if "(" not in key}
    assert set(told) == set(found), (model, loss)
    for key, value in found.items():
        assert told[key] in (written(value), "refused"), (model, loss, key)


def in_batches(names, size):
    return [names[start : start + size] for start in range(0, len(names), size)]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "losses",
    [WEIGHED, *(pytest.param(batch, marks=pytest.mark.slow) for batch in in_batches(LOSSES, len(Kind)))],
    ids=lambda losses: losses[0],
)
def test_numbers_are_the_documented_ones_in_stages_sets_and_kinds(model, losses, documented):
    words = [f"+loss@{place.format(loss)}={loss}" for place in PLACES.values() for loss in losses]
    words += ["+loss@schedule.stages.kinds.loss=by_kind", "loss@schedule.stages.kinds.loss.triplet=cosent"]
    by_kind = dict(zip(Kind, losses, strict=False))
    kinds = OmegaConf.load(ROOT / "conf" / "loss" / "by_kind.yaml").defaults
    known = {str(key).rpartition("@")[2] for one in kinds for key in one}
    words += [f"{'' if kind in known else '+'}loss@loss.{kind}={loss}" for kind, loss in by_kind.items()]
    job = composed(f"model={model}", "schedule=serial", "loss=by_kind", *words)
    for loss in losses:
        for owner in (job.schedule.stages, job.schedule.sets):
            require_documented(documented, model, loss, owner[loss].loss)
    for kind, loss in by_kind.items():
        require_documented(documented, model, loss, job.loss[kind])
    require_documented(documented, model, "cosent", job.schedule.stages.kinds.loss.triplet)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "loss", [pytest.param(one, marks=[] if one == "mse" else [pytest.mark.slow]) for one in LOSSES]
)
def test_numbers_are_the_documented_ones_at_the_top(model, loss, documented):
    require_documented(documented, model, loss, composed(f"model={model}", f"loss={loss}").loss)


def test_the_page_names_every_number_of_every_loss(documented):
    assert set(documented) == {one for one in LOSSES if numbers_of(loss_table.options("loss")[one])}
    for loss, numbers in documented.items():
        (refused,) = {tuple(value == "refused" for value in values) for values in numbers.values()}
        chosen = declared_loss(loss_table.options("loss")[loss])
        fits = [
            any(
                chosen.suits(own_class(loss_table.options("model")[name]["_target_"]).provides)
                for name in names
            )
            for names in loss_table.FAMILIES.values()
        ]
        assert [not one for one in refused] == fits, loss


@pytest.fixture(scope="module")
def written_numbers():
    return loss_table.documented()


@pytest.mark.parametrize("loss", LOSSES)
def test_a_class_its_file_and_its_page_have_the_same_numbers(loss, written_numbers):
    """By itself a loss has the number for cosines or that for logits, and its docstring and the page say which."""
    config = loss_table.options("loss")[loss]
    defaults, told = loss_table.class_defaults(loss), written_numbers.get(loss, {})
    assert set(numbers_of(config)) - {"of"} <= set(defaults)
    assert all(defaults.pop(key) is None for key in {*defaults} - ({*numbers_of(config)} - {"of"})), (
        "what no file sets is off"
    )
    for key, value in defaults.items():
        plain = list(value) if isinstance(value, tuple) else value
        values = [json_value(one) for one in told[key].values()]
        assert plain in values, f"{loss}.{key}: {plain} by itself, {values} in conf/loss"
    page = (ROOT / "docs" / "losses.md").read_text(encoding="utf-8").splitlines()
    for key, value in defaults.items():
        (line,) = [one for one in page if one.startswith(f"| `{loss}` | {key} |")]
        assert line.split(" | ")[-1] == f"`{written(value)}` |"


@pytest.mark.parametrize(("loss", "words"), SAID.items())
def test_what_pages_say_of_a_loss_is_what_its_class_does(loss, words):
    """Sentences of the file and of the class that a number could belie."""
    target = own_class(loss_table.options("loss")[loss]["_target_"])
    defaults = loss_table.class_defaults(loss)
    text = (ROOT / "conf" / "loss" / f"{loss}.yaml").read_text(encoding="utf-8") + str(target.__doc__)
    for sentence, numbers in words.items():
        assert sentence in text
        assert numbers.items() <= defaults.items()


def json_value(text):
    try:
        return json.loads(text)
    except ValueError:
        return text


def test_a_model_says_in_its_source_what_its_class_says():
    for name, config in loss_table.options("model").items():
        is_cosine = "cosines" in own_class(config["_target_"]).provides
        assert unit_of_scores(config["_target_"]) == ("cosine" if is_cosine else "logit"), name
    assert unit_of_scores(loss_table.options("model")["crossencoder"]["_target_"]) == "logit"


@pytest.mark.parametrize(
    ("words", "temperature"),
    [
        (("loss=cosent_weighted",), 1),
        (("loss=cosent_weighted", "loss.temperature_unit=spread"), 0.05),
        (("loss=cosent_adaptive", "loss.temperature_unit=score"), 1),
        (("loss=cosent_weighted", "loss.temperature=0.3"), 0.3),
        (("experiment=csts_cosent",), 1),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, tuple) else str(words),
)
def test_the_unit_counts_and_what_is_typed_wins(words, temperature):
    assert composed("model=crossencoder", *words).loss.temperature == temperature


def test_what_is_typed_wins_for_a_stage_a_set_and_a_kind():
    job = composed(
        "model=crossencoder",
        "schedule=serial",
        "loss=by_kind",
        "loss@loss.scored_pair=cosent",
        "loss.scored_pair.temperature=0.5",
        "+loss@schedule.stages.demo_sts.loss=cosent",
        "schedule.stages.demo_sts.loss.temperature=0.25",
        "+loss@schedule.sets.demo_sts.loss=margin_ranking",
        "schedule.sets.demo_sts.loss.margin=3",
    )
    assert job.loss.scored_pair.temperature == 0.5
    assert job.schedule.stages.demo_sts.loss.temperature == 0.25
    assert job.schedule.sets.demo_sts.loss.margin == 3


def test_a_sweep_may_choose_the_model_and_the_temperature():
    words = ["-m", "model=biencoder,crossencoder", "loss.temperature=0.05,0.1", "benchmark=none"]
    check_command_line(words, conf_dir=ROOT / "conf")
