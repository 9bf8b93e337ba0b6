"""The file of a result: its format, and that where a class lies decides neither a key nor a row."""

import json

import pytest
from typing_extensions import TypedDict

from conf.own_classes import is_own
from juzhen.core.result import FORMAT_VERSION, RESULT_FILE, Result
from juzhen.core.schema import require_form
from juzhen.report.row_identity import identify
from launch.job import run_key
from tools.archives import unpacked

COSENT = {"_target_": "juzhen.losses.cosent.CoSENT", "name": "cosent"}
CONFIG = {
    "model": {"_target_": "lightning_modules.biencoder.BiEncoder", "name": "biencoder", "score": None},
    "backbone": {
        "name": "random_small",
        "path": "builtin/encoder",
        "initialize": "random",
        "normalize": False,
    },
    "loss": COSENT | {"temperature": 0.05},
    "optimizer": {"lr": 0.1},
    "dataset": {"a": {"name": "a", "kind": "scored_pair", "license": "MIT"}},
    "evaluate": {"b": {"name": "b", "license": "MIT"}},
    "schedule": {
        "name": "mix",
        "order": None,
        "stages": {"a": {"optimizer": {"lr": 1}, "loss": None}, "b": None},
        "sets": {"a": {"loss": COSENT | {"temperature": 1}}},
        "sample_by": "size",
        "temperature": 1.0,
    },
}
FIELDS = {
    "name": "a", "key": "k", "trained_on": ["a"], "scores": {}, "config": CONFIG, "data": {}, "training": {},
    "environment": {}, "seed": 1, "format_version": FORMAT_VERSION,
}  # fmt: skip


def read(folder, **changes) -> Result:
    (folder / RESULT_FILE).write_text(json.dumps(FIELDS | changes), encoding="utf-8")
    return Result.read(folder)


def targets(node):
    """Every `_target_` of a configuration."""
    if isinstance(node, dict):
        yield from [node["_target_"]] if "_target_" in node else []
        for inner in node.values():
            yield from targets(inner)


def test_committed_results_are_of_the_format_of_today():
    paths = sorted(unpacked().rglob(RESULT_FILE))
    assert len(paths) > 100
    found = {target for path in paths for target in targets(Result.read(path).config)}
    assert [target for target in found if not is_own(target)] == []


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


@pytest.mark.parametrize("key", ["model", "dataset", "evaluate", "source", "data_dir"])
def test_what_a_strangers_configuration_lacks_is_none(tmp_path, key):
    result = read(tmp_path, config={name: value for name, value in CONFIG.items() if name != key})
    assert result.config.get(key) is None


class Inner(TypedDict):
    size: int


class Outer(TypedDict):
    inner: Inner | None


def test_an_object_that_may_be_null_and_lacks_a_key_names_the_key():
    with pytest.raises(ValueError, match=r"it\.inner lacks size"):
        require_form({"inner": {}}, Outer, "it")
    with pytest.raises(ValueError, match=r"it\.inner is 5, expected"):
        require_form({"inner": 5}, Outer, "it")
