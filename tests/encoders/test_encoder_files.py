"""A broken encoder is refused by a look at its files, without torch, and by who loads it as well."""

import json
import os
import shutil

import pytest
import torch
from forks import python
from safetensors.torch import load_file, save_file

from juzhen.core.errors import UserError
from juzhen.encoders import load_backbone
from juzhen.encoders.backbone_config import BackboneConfig
from juzhen.encoders.preflight import check_encoder_files


def changed(name, **values):
    def change(folder):
        content = json.loads((folder / name).read_text(encoding="utf-8"))
        (folder / name).write_text(json.dumps(content | values), encoding="utf-8")

    return change


def written(name, content):
    return lambda folder: (folder / name).write_text(content, encoding="utf-8")


def gone(name):
    return lambda folder: (folder / name).unlink()


def cut_short(name):
    return lambda folder: os.truncate(folder / name, (folder / name).stat().st_size // 2)


def pickled(folder):
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")


def lose_a_weight(folder):
    weights = load_file(folder / "model.safetensors")
    del weights["encoder.layer.1.output.dense.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


NO_LOAD = "the weights do not load"
BROKEN = {
    "no config": (gone("config.json"), "config.json is missing", "config.json is missing"),
    "config is no JSON": (written("config.json", "{"), "config.json", "config.json"),
    "no tokenizer": (gone("tokenizer.json"), "no tokenizer. Expected one of", "no tokenizer"),
    "tokenizer is cut": (cut_short("tokenizer.json"), None, "the tokenizer does not load"),
    "tokenizer of another": (
        changed("config.json", vocab_size=9),
        "the model embeds 9",
        "53 × 32 numbers in the weights|embeds 9",
    ),
    "no weights": (gone("model.safetensors"), "model.safetensors is missing", "missing.*initialize=random"),
    "weights are cut": (cut_short("model.safetensors"), None, NO_LOAD),
    "weights are pickled": (pickled, None, "only pytorch_model.bin .*save_pretrained"),
    "a weight is lost": (
        lose_a_weight,
        None,
        r"missing for encoder.layer.1.output.dense.weight \(1 in all\)",
    ),
    "weights of another": (
        changed("config.json", hidden_size=64),
        None,
        ".",
    ),
    "no such architecture": (
        changed("config.json", model_type="nope"),
        None,
        "config.json: transformers cannot read it.*nope",
    ),
    "encoder with decoder": (
        written("config.json", '{"model_type": "bart", "is_encoder_decoder": true}'),
        None,
        "encoder with decoder",
    ),
}
"""What is done to a folder, and the words of a look at its files (None: it need not see it) and of who loads it."""


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.sampled(2)
def test_a_broken_folder_is_refused_by_its_files_and_by_who_loads_it(folder, name):
    spoil, seen, told = BROKEN[name]
    config = BackboneConfig(path=str(folder), initialize="pretrained")
    assert load_backbone(config, seed=0).dim == 32
    spoil(folder)
    if seen is not None:
        with pytest.raises(UserError, match=seen) as caught:
            check_encoder_files(config)
        assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match=told) as caught:
        load_backbone(config, seed=0)
    assert str(folder) in str(caught.value)
    assert "trust_remote_code" not in str(caught.value)
    assert len(str(caught.value)) < 900


def test_an_encoder_that_loads_passes(any_folder):
    check_encoder_files(BackboneConfig(path=str(any_folder), initialize="pretrained"))
    check_encoder_files(BackboneConfig(path=str(any_folder), initialize="random"), start=str(any_folder))


def test_the_start_of_a_job_goes_before_its_backbone(folder, tmp_path):
    config = BackboneConfig(path=str(folder), initialize="pretrained")
    with pytest.raises(UserError, match="neither a run nor an encoder"):
        check_encoder_files(config, start=str(tmp_path))
    run = tmp_path / "run"
    shutil.copytree(folder, run / "encoder")
    check_encoder_files(BackboneConfig(path="no/such/folder", initialize="pretrained"), start=str(run))


def test_what_must_be_fetched_is_not_looked_at(monkeypatch):
    config = BackboneConfig(path="google-bert/not-there", initialize="pretrained")
    monkeypatch.setattr("juzhen.encoders.preflight.hub_problem", lambda: None)
    monkeypatch.setattr(
        "juzhen.encoders.preflight.download", lambda *given: pytest.fail("something is fetched")
    )
    check_encoder_files(config)


def test_a_hub_that_cannot_be_asked_is_told(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UserError, match="HF_HUB_OFFLINE is set and the model is not in the local cache"):
        check_encoder_files(BackboneConfig(path="google-bert/not-there", initialize="pretrained"))


def test_a_look_needs_no_torch(bert_folder):
    look = (
        "import sys; from juzhen.encoders.preflight import check_encoder_files; "
        "from juzhen.encoders.backbone_config import BackboneConfig; "
        f"check_encoder_files(BackboneConfig(path={str(bert_folder)!r}, initialize='pretrained')); "
        "print({'torch', 'transformers'} & set(sys.modules))"
    )
    ended = python("-c", look)
    assert ended.stdout == "set()\n", ended.stderr
