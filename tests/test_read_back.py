"""Each file of JSON or YAML that is read back and indexed: refused with its name, or as if it were not there."""

import json

import pytest

from juzhen.adapters import read_adapter_settings
from juzhen.calibration.run_scores import require_same_weights
from juzhen.core.atomic_write import write_json
from juzhen.core.calibration_files import Calibration, Fusion, is_fusion
from juzhen.core.errors import UserError
from juzhen.core.result import Result, RunProgress
from juzhen.data.spec import read_description
from juzhen.encoders import thresholds
from juzhen.encoders.folder_settings import read_settings
from juzhen.encoders.layout import (
    gives_answers,
    gives_routes,
    gives_tokens,
    read_model_settings,
    read_modules,
)
from juzhen.encoders.resolve_path import check_weights_index
from juzhen.export import loaders
from juzhen.mining.negatives import _claim
from juzhen.report.row_identity import identify
from juzhen.report.training import Audit, parts_of
from launch import run_folder
from launch.stage_store import StageEntry
from tools.archives import unpacked

CONTENTS = {
    "null": "null",
    "list": "[]",
    "number": "3",
    "text": '"x"',
    "object": "{}",
    "nested": "[[1], null]",
    "cut": '{"a": [1, ',
    "bytes": b'{"a": "\xff"}',
    "deep": "[" * 1500,
}
REFUSED = {
    "result.json": lambda path: Result.read(path.parent),
    "calibration.json": Calibration.read,
    "fusion.json": Fusion.read,
    "audit.json": Audit.read,
    "modules.json": lambda path: read_modules(path.parent),
    "adapter_config.json": lambda path: read_adapter_settings(path.parent),
    "model.safetensors.index.json": lambda path: check_weights_index(path.parent),
    "thresholds.json": lambda path: thresholds._read(path.parent),
    "export.json": lambda path: loaders.read_settings(path.parent),
    "stage.json": lambda path: StageEntry(path.parent, shared=True).record(),
    "own.yaml": read_description,
    "mined/mining.json": lambda path: _claim(path.parent, {"depth": 3}),
    "lcqmc.json": lambda path: require_same_weights([path], "a"),
}
EMPTY_IS_FINE = {
    "either.json": is_fusion,
    "config.json": read_settings,
    "config_sentence_transformers.json": lambda path: read_model_settings(path.parent),
}
FALLBACK = {
    "progress.json": (lambda path: RunProgress.read(path.parent), None),
    "data.json": (lambda path: run_folder._read(path.parent) or None, None),
    "job.json": (lambda path: list(run_folder._recorded(path.parent)), []),
    "answers/modules.json": (lambda path: gives_answers(path.parent), False),
    "routes/modules.json": (lambda path: gives_routes(path.parent), False),
    "tokens/modules.json": (lambda path: gives_tokens(path.parent), False),
}


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("name", [*REFUSED, *EMPTY_IS_FINE])
@pytest.mark.sampled(2)
def test_what_has_another_shape_is_refused_by_its_name(tmp_path, name, content):
    if (name, content) == ("own.yaml", "deep"):
        pytest.skip("the parser of YAML takes seconds for it")
    if name == "mined/mining.json":
        _claim(tmp_path / "mined", {"depth": 3})
    path = put(tmp_path / name, CONTENTS[content])
    if content == "object" and name in EMPTY_IS_FINE:
        assert not EMPTY_IS_FINE[name](path)
        return
    with pytest.raises(UserError, match=name.partition("/")[0]):
        (REFUSED | EMPTY_IS_FINE)[name](path)


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("name", FALLBACK)
def test_what_is_kept_for_speed_or_hints_is_as_if_it_were_not_there(tmp_path, name, content):
    read, expected = FALLBACK[name]
    assert read(put(tmp_path / name, CONTENTS[content])) == expected


def test_a_result_without_evaluation_sets_is_read():
    path = next(iter(sorted(unpacked().rglob("result.json"))))
    result = Result.read(path)
    for name, value in result.config.items():
        if name in ("evaluate", "augmentation", "logger", "sweep_row", "init_from"):
            result.config[name] = None if name != "logger" else value
    assert "evaluate" in result.config
    assert result.described("no_such_set") is None
    assert parts_of("no_such_set", result.config) == ["no_such_set"]
    assert identify(result, before_training=False)
    result.config["filter_leaks"] = True
    assert identify(result, before_training=False)
    json.dumps(result.config)


def test_a_calibration_of_the_same_weights_may_be_replaced(tmp_path):
    write_json(tmp_path / "lcqmc.json", {"weights": "a"})
    require_same_weights([tmp_path / "lcqmc.json"], "a")
