"""A broken encoder is refused by a look at its files, without torch, and by who loads it as well."""

import json
import shutil
import subprocess
import sys

import pytest

from conf.job import BackboneConfig
from juzhen.core.errors import UserError
from juzhen.encoders import layout, load_backbone, pooling
from juzhen.encoders.first_look import look_at_encoder


@pytest.fixture
def folder(bert_folder, tmp_path):
    return shutil.copytree(bert_folder, tmp_path / "model")


def changed(name, **values):
    def change(folder):
        content = json.loads((folder / name).read_text(encoding="utf-8"))
        (folder / name).write_text(json.dumps(content | values), encoding="utf-8")

    return change


def written(name, content):
    return lambda folder: (folder / name).write_text(content, encoding="utf-8")


def cut_short(folder):
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])


BROKEN = {
    "no config": (lambda folder: (folder / "config.json").unlink(), "config.json is missing"),
    "config is no JSON": (written("config.json", "{"), "config.json"),
    "config is empty": (written("config.json", "{}"), "no model_type in it"),
    "config is a list": (written("config.json", "[]"), "holds [], expected an object"),
    "no tokenizer": (lambda folder: (folder / "tokenizer.json").unlink(), "no tokenizer; expected one of"),
    "tokenizer is empty": (written("tokenizer.json", "{}"), "the tokenizer does not load"),
    "tokenizer is no JSON": (written("tokenizer.json", "nonsense"), "the tokenizer does not load"),
    "tokenizer of another": (changed("config.json", vocab_size=10), "the model embeds 10"),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), "model.safetensors is missing"),
    "weights are none": (written("model.safetensors", "nonsense"), "the weights do not load"),
    "weights are cut": (cut_short, "the weights do not load"),
    "weights of another": (changed("config.json", hidden_size=64), "and config.json beside it says 53 × 64"),
    "modules are no JSON": (written("modules.json", "["), "modules.json: not valid JSON"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_folder_is_refused_by_its_files(folder, name):
    spoil, expected = BROKEN[name]
    spoil(folder)
    config = BackboneConfig(path=str(folder), initialise="pretrained")
    with pytest.raises(UserError) as told:
        look_at_encoder(config)
    assert expected in str(told.value)
    assert "\n" not in str(told.value)
    with pytest.raises(UserError):
        load_backbone(config, seed=0)


def test_an_encoder_that_loads_passes(any_folder):
    look_at_encoder(BackboneConfig(path=str(any_folder), initialise="pretrained"))
    look_at_encoder(BackboneConfig(path=str(any_folder), initialise="random"), start=str(any_folder))


def test_the_start_of_a_job_goes_before_its_backbone(folder, tmp_path):
    config = BackboneConfig(path=str(folder), initialise="pretrained")
    with pytest.raises(UserError, match="neither a run with an encoder nor an encoder"):
        look_at_encoder(config, start=str(tmp_path))
    run = tmp_path / "run"
    shutil.copytree(folder, run / "encoder")
    look_at_encoder(BackboneConfig(path="no/such/folder", initialise="pretrained"), start=str(run))


def test_what_must_be_fetched_is_not_looked_at(monkeypatch):
    config = BackboneConfig(path="google-bert/not-there", initialise="pretrained")
    monkeypatch.setattr("juzhen.encoders.first_look.hub_problem", lambda: None)
    monkeypatch.setattr(
        "juzhen.encoders.first_look.download", lambda *given: pytest.fail("something is fetched")
    )
    look_at_encoder(config)


def test_a_hub_that_cannot_be_asked_is_told(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UserError, match="HF_HUB_OFFLINE is set and the model is not in the local cache"):
        look_at_encoder(BackboneConfig(path="google-bert/not-there", initialise="pretrained"))


def test_a_look_needs_no_torch(bert_folder, project_root):
    look = (
        "import sys; from juzhen.encoders.first_look import look_at_encoder; from conf.job import BackboneConfig; "
        f"look_at_encoder(BackboneConfig(path={str(bert_folder)!r}, initialise='pretrained')); "
        "print({'torch', 'transformers'} & set(sys.modules))"
    )
    ended = subprocess.run([sys.executable, "-c", look], cwd=project_root, capture_output=True, text=True)
    assert ended.stdout == "set()\n", ended.stderr


def test_poolings_that_may_be_named_are_those_that_there_are():
    assert set(layout.POOLINGS) == set(pooling.POOLINGS)
