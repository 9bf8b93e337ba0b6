"""Published figures and designs have experiments that compose to them."""

import csv
import os
from functools import cache
from pathlib import Path

import pytest
from jobs import compose_job
from omegaconf import OmegaConf

from juzhen.evaluation.scoring import STS_SETS
from juzhen.report.training import training_of
from launch.job import plan_job, read_job, run_key
from sweeps.published_page import stage_results
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


ENGLISH_STS = {
    "unsup. SimCSE": ("simcse", 3e-5, 64),
    "PromptBERT": ("prompt_bert", 1e-5, 256),
    "CoT-BERT": ("cot_bert", 1e-5, 256),
    "sup. SimCSE": ("supervised_simcse", 5e-5, 512),
}
"""Model of english_sts.csv → its experiment, and the learning rate and batch of its authors."""


@pytest.mark.parametrize("model", ENGLISH_STS)
def test_each_measured_figure_of_english_sts_has_an_experiment(model):
    name, rate, batch = ENGLISH_STS[model]
    with (PUBLISHED.parent / "english_sts.csv").open(encoding="utf-8", newline="") as file:
        (row,) = [line for line in csv.DictReader(file) if line["model"] == model]
    config = compose_job(f"experiment=english_sts/{name}")
    read_job(config)
    (result,) = stage_results(OmegaConf.to_container(config))
    training = training_of(result)
    assert (training.family, training.sets) == (row["family"], row["trained_on"])
    assert (training.loss, training.supervision) == (
        row["loss"] or training.loss,
        row["supervision"] or training.supervision,
    )
    assert set(STS_SETS) <= {*config.evaluate, *config.dataset}
    assert (config.optimizer.lr, config.training.batch_size) == (rate, batch)
    assert (config.training.monitor, config.training.patience) == ("dev/stsb_en/spearman", None)
    head = (
        (FOLDER.parent / "english_sts" / f"{name}.yaml").read_text(encoding="utf-8").partition("defaults")[0]
    )
    assert f"{float(row['percent']):.2f}" in head


def test_two_stages_have_the_sets_and_the_temperature_of_their_text():
    config = compose_job("experiment=two_stage_cot")
    read_job(config)
    assert (config.model.variant, config.loss.name, config.loss.temperature) == ("cot", "info_nce_pool", 0.05)
    assert list(config.dataset) == ["wiki1m"]
    assert {"stsb_en", "sick"} <= config.evaluate.keys()
    assert list(config.evaluation.transfer) == ["mrpc", "qqp", "snli"]
    head = (FOLDER.parent / "two_stage_cot.yaml").read_text(encoding="utf-8").partition("defaults")[0]
    with (PUBLISHED.parent / "two_stage_cot.csv").open(encoding="utf-8", newline="") as file:
        assert all(row["percent"] in head for row in csv.DictReader(file) if row["model"] == "two stages")


def test_the_contrastive_trainer_has_the_numbers_of_its_chapter():
    config = compose_job("experiment=contrastive")
    read_job(config)
    assert config.backbone.path == "google-bert/bert-base-uncased"
    assert (config.backbone.pooling, config.backbone.max_length) == ("mean", 128)
    assert (config.loss.name, config.loss.temperature, config.loss.symmetric) == ("info_nce", 0.07, True)
    assert (config.training.duration, config.training.batch_size) == ("3 epochs", 32)
    optimizer = config.optimizer
    assert (optimizer.lr, optimizer.warmup, optimizer.decay) == (2e-5, "10 percent", "linear")
    assert optimizer.clip_norm == 1.0
    read_job(compose_job("experiment=contrastive", "dataset=[demo_qmc]"))  # a set of one's own


def test_the_chinese_project_goes_from_search_pairs_to_graded_ones():
    first, second = plan_job(read_job(compose_job("experiment=dureader_csts")))
    assert [plan.datasets for plan in (first, second)] == [("dureader",), ("csts",)]
    assert second.job.backbone.path == BACKBONES["roberta"]
    assert {"du_retrieval", "csts"} <= second.job.evaluate.keys()
