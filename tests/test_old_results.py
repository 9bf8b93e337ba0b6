"""Results of format 1 are read in the words of today; where a class lies decides neither a key nor a row."""

import json

import pytest

from conf.own_classes import is_own
from juzhen.core.errors import UserError
from juzhen.core.named import path_of_today
from juzhen.core.result import Result
from juzhen.evaluation.late import LateColumns
from juzhen.report.identity import identify
from launch.naming import run_key

COSENT = ["losses", "cosent", "CoSENT"]
OLD = {
    "model": {"_target_": "lightning_modules.biencoder.BiEncoder", "score": None},
    "backbone": {"path": "builtin/encoder", "initialize": "random", "normalize": False},
    "loss": {"_target_": ".".join(COSENT), "temperature": 0.05},
    "optimizer": {"lr": 0.1},
    "dataset": {"a": {"name": "a", "kind": "scored_pair", "license": "MIT"}},
    "evaluate": {"b": {"name": "b", "license": "MIT"}},
    "schedule": {
        "name": "mix",
        "order": None,
        "stages": {"a": {"optimizer": {"lr": 1}, "loss": None}, "b": None},
        "sets": {"a": {"loss": {"_target_": ".".join(COSENT), "temperature": 1}}},
        "sample_by": "size",
        "temperature": 1.0,
    },
    "earlier": {"optimizer": {"lr": 2}},
}
FIELDS = {
    "name": "a", "key": "k", "trained_on": ["a"], "scores": {}, "config": OLD, "data": {}, "training": {},
    "environment": {}, "seed": 1, "filled": [{"sets": {"c": {"license": "MIT"}}}], "format_version": 1,
}  # fmt: skip


def read(folder, **changes) -> Result:
    (folder / "result.json").write_text(json.dumps(FIELDS | changes), encoding="utf-8")
    return Result.read(folder)


def test_keys_are_in_the_spelling_of_today_and_all_have_names(tmp_path):
    result = read(tmp_path)
    config = result.config
    assert result.format_version == 2
    assert not any(word in json.dumps([config, result.filled]) for word in ("ptimiser", "ormalise", "icence"))
    assert (config["optimizer"], config["earlier"]) == ({"lr": 0.1}, {"optimizer": {"lr": 2}})
    assert config["schedule"]["stages"] == {"a": {"optimizer": {"lr": 1}, "loss": None}, "b": None}
    names = [config[key]["name"] for key in ("model", "loss", "backbone")]
    assert names == ["biencoder", "cosent", "embedded"]
    assert config["schedule"]["sets"]["a"]["loss"]["name"] == "cosent"
    result.write(tmp_path)
    assert Result.read(tmp_path) == result, "what was read is written in the format of today"


def test_a_result_of_a_later_version_is_refused(tmp_path):
    with pytest.raises(UserError, match="format 3, this version reads 2"):
        read(tmp_path, format_version=3)


@pytest.mark.parametrize("above", ["", "juzhen."])
def test_a_class_is_found_wherever_its_package_lay(tmp_path, above):
    loss = {"_target_": above + ".".join(COSENT), "temperature": 0.05}
    config = read(tmp_path, config=OLD | {"loss": loss}).config
    assert is_own(config["loss"]["_target_"])
    assert path_of_today("foreign.losses.cosent.CoSENT") is None


def test_moving_a_class_changes_no_key_and_no_row(tmp_path):
    result = read(tmp_path)
    config = result.config
    key, row = run_key(config), identify(result, before_training=False)
    for node in (config["model"], config["loss"], config["schedule"]["sets"]["a"]["loss"]):
        node["_target_"] = "somewhere.else.Renamed"
    config["backbone"]["name"] = "by another name"
    assert (run_key(config), identify(result, before_training=False)) == (key, row)
    config["loss"]["name"] = "mse"  # which its only set does not read
    assert run_key(config) == key
    config["schedule"]["sets"]["a"]["loss"]["name"] = "mse"
    assert run_key(config) != key
    assert identify(result, before_training=False) != row


@pytest.mark.parametrize(
    ("numbers", "variant"),
    [
        ({}, "cot"),
        ({"read": "pooling"}, "simcse"),
        ({"denoise": "pads"}, "cot_published"),
        ({"denoise": "positions"}, "cot_single"),
        ({"templates": {"en": {"anchor": "[MASK] [MASK]", "stage_2": None}}}, "cot_long"),
        ({"templates": {"en": {"anchor": "[MASK]", "stage_2": None}}}, "cot_first_stage"),
        ({"match_norm": True}, "cot_matched"),
        ({"end_to_end": False}, "cot_detached"),
        ({"use_negative": False}, "cot_without_negative"),
        ({"variant": "mine", "read": "pooling"}, "mine"),
    ],
)
def test_settings_of_a_prompt_encoder_get_the_name_that_they_have_today(tmp_path, numbers, variant):
    templates = {"en": {"anchor": "[MASK]", "stage_2": "so [MASK]"}}
    model = {"_target_": "lightning_modules.cot.CotEncoder", "templates": templates} | numbers
    assert read(tmp_path, config=OLD | {"model": model}).config["model"]["variant"] == variant


@pytest.mark.parametrize("key", ["model", "dataset", "evaluate", "source", "data_dir"])
def test_what_a_strangers_configuration_lacks_is_named(tmp_path, key):
    result = read(tmp_path, config={name: one for name, one in OLD.items() if name != key})
    with pytest.raises(UserError, match=rf"result\.json: the configuration of the run has no {key}"):
        result.config[key]
    assert result.config.get(key) is None
    if key in ("dataset", "evaluate"):
        with pytest.raises(UserError, match=f"has no {key}"):
            LateColumns()._settings(result, {})
