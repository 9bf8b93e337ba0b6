"""Each published cell of the cross-encoder has an experiment that composes to it."""

import csv
import os
from functools import cache
from pathlib import Path

import pytest
from jobs import compose_job

from launch.job import read_job, run_key
from train import CONFIGURATION

FOLDER = CONFIGURATION / "experiment" / "cross_encoder"
NAMES = sorted(path.stem for path in FOLDER.glob("*_*.yaml"))
PUBLISHED = CONFIGURATION.parent / "juzhen" / "report" / "published" / "cosent_cross_encoder.csv"
BACKBONES = {"bert": "google-bert/bert-base-chinese", "roberta": "hfl/chinese-roberta-wwm-ext"}


def cells():
    """(backbone, loss, set) → metric → percent, as published."""
    found: dict[tuple[str, str, str], dict[str, str]] = {}
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault((*row["model"].split(), row["dataset"]), {})[row["metric"]] = row["percent"]
    return found


def test_there_is_one_for_each_cell():
    wanted = cells()
    assert sum(len(metrics) for metrics in wanted.values()) == 32
    named = {"_".join((*cell[:2], cell[2].removesuffix("_zh"))) for cell in wanted}
    assert named == set(NAMES)


@cache
def composed(name):
    return compose_job(f"experiment=cross_encoder/{name}")


@pytest.mark.parametrize("cell", cells(), ids="-".join)
@pytest.mark.sampled(4)
def test_it_composes_to_its_cell_and_names_its_numbers(cell):
    backbone, loss, dataset = cell
    name = f"{backbone}_{loss}_{dataset.removesuffix('_zh')}"
    config = composed(name)
    assert config.model["_target_"].endswith("CrossEncoderModule")
    assert config.backbone.path == BACKBONES[backbone]
    assert config.loss["name"] == loss
    assert list(config.dataset) == [dataset]
    assert config.model.head_dropout == 0
    assert config.training.monitor == f"dev/{dataset}/accuracy"
    assert config.backbone.max_length == (256 if dataset == "pawsx_zh" else 128)
    if loss == "cosent":
        assert config.loss.temperature == 1
    told = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8").splitlines()[1]
    for metric, percent in cells()[cell].items():
        assert f"{metric} {percent}" in told.replace("Spearman", "spearman")


@pytest.mark.slow
def test_all_are_accepted_and_no_two_are_one_run():
    for name in NAMES:
        read_job(composed(name))
    assert len({run_key(composed(name)) for name in NAMES}) == 16


def test_the_table_is_that_of_the_reference():
    folder = os.environ.get("JUZHEN_REFERENCE")
    if not folder:
        pytest.skip("the published table: set JUZHEN_REFERENCE to the folder of published_cross_encoder.csv")
    with (Path(folder) / "published_cross_encoder.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            dataset = row["eval_set"].replace("pawsx", "pawsx_zh")
            assert cells()[row["backbone"], row["loss"], dataset][row["metric"]] == row["percent"]


@pytest.mark.parametrize("words", [(), ("backbone=mini_zh", "optimizer.lr=2e-5")], ids=" ".join)
@pytest.mark.slow
def test_the_bi_encoder_of_sts_b_is_the_one_that_was_designed(words):
    """On another backbone as well, where its numbers are given."""
    config = compose_job("experiment=stsb_en", *words)
    read_job(config)
    assert config.model["_target_"].endswith("BiEncoder")
    assert config.loss["_target_"] == "juzhen.losses.regression.SquaredErrorSigned"
    assert (config.logger.every_steps, config.hardware) == (50, compose_job("hardware=auto").hardware)
    assert (list(config.dataset), dict(config.evaluate)) == (["stsb_en"], {})
    backbone = config.backbone
    assert (backbone.pooling, backbone.max_length) == ("mean", 128)
    assert words or backbone.path == "google-bert/bert-base-uncased"
    training, optimizer = config.training, config.optimizer
    assert (training.duration, training.batch_size) == ("5 epochs", 32)
    assert (training.validate_every, training.patience) == ("1 epochs", 3)
    assert (optimizer.lr, optimizer.weight_decay, optimizer.clip_norm) == (2e-5, 0.01, 1.0)
    assert (optimizer.warmup, optimizer.decay) == ("10 percent", "linear")
