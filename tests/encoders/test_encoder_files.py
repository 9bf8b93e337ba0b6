"""A broken encoder is refused by a look at its files, without torch, and by who loads it as well."""

import shutil

import pytest
from forks import printed

from juzhen.encoders.backbone_config import BackboneConfig
from juzhen.encoders.preflight import check_encoder_files


def test_an_encoder_that_loads_passes(any_folder):
    check_encoder_files(BackboneConfig(path=str(any_folder), initialize="pretrained"))
    check_encoder_files(BackboneConfig(path=str(any_folder), initialize="random"), start=str(any_folder))


def test_the_start_of_a_job_goes_before_its_backbone(folder, tmp_path):
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


def test_a_look_needs_no_torch(bert_folder):
    look = (
        "import sys; from juzhen.encoders.preflight import check_encoder_files; "
        "from juzhen.encoders.backbone_config import BackboneConfig; "
        f"check_encoder_files(BackboneConfig(path={str(bert_folder)!r}, initialize='pretrained')); "
        "print({'torch', 'transformers'} & set(sys.modules))"
    )
    assert printed("-c", look) == "set()\n"
