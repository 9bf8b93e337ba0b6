"""A dev score that is undefined chooses nothing, ends nothing, and is shown as what it is."""

import math
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from jobs import run_job
from test_broken_inputs import OWN, Desk

from callbacks.trainer import Patience
from juzhen.core.result import Result
from launch.console import best_on_dev
from launch.curriculum import early_stop_line

EQUAL = (
    "sentence1\tsentence2\tlabel\n今天天气好\t天气不错\t3\n我想退货\t怎么改密码\t3\n他在跑步\t他正在跑\t3\n"
)
LONG = ("training.duration=8 steps", "training.validate_every=1 steps", "training.patience=2")


@pytest.mark.slow
def test_a_dev_split_of_equal_gold_values_chooses_nothing_and_says_so(tmp_path, tiny_backbone, capsys):
    desk = Desk(tmp_path, tiny_backbone, capsys)
    desk.write("dev.tsv", EQUAL.encode())
    folder = Path(desk.run(*OWN, *LONG))
    result = Result.read(folder)
    assert result.scores["dev/demo_sts/spearman"].value is None
    assert (result.training["best_dev_spearman"], result.training["kept"]) == (None, "last step")
    assert result.training["chosen_by"].startswith(
        "the last step (the best dev spearman of demo_sts: undefined"
    )
    assert result.training["steps"] == 8  # patience has nothing to go by
    assert not (folder / "checkpoints" / "best.ckpt").exists()
    told = " ".join(capsys.readouterr().out.split())
    assert (
        "best dev Spearman – (undefined on demo_sts: gold values or scores are all equal; the weights of"
        in told
    )
    assert "-100" not in told
    assert "-1.0" not in (folder / "metrics" / "0" / "metrics.csv").read_text(encoding="utf-8").split(",")


@pytest.mark.parametrize(
    ("training", "told"),
    [
        ({"best_dev_spearman": 0.5, "selected_on": ["a"]}, "best dev Spearman 50.0"),
        (
            {"best_dev_accuracy": None, "selected_on": []},
            "best dev accuracy – (no dev split was scored; the weights",
        ),
        (
            {"best_dev_spearman": None, "selected_on": ["a", "b"]},
            "– (undefined on a, b: gold values or scores",
        ),
    ],
)
def test_what_is_said_of_the_best_dev_score(training, told):
    assert told in best_on_dev(training)


MIXED = "dataset=[demo_retrieval,demo_qmc]"
OF = {
    "demo_retrieval": "the best dev ndcg_at_10 of demo_retrieval",
    "demo_qmc": "the best dev spearman of demo_qmc",
    "both": "the best mean dev ndcg_at_10 of demo_retrieval and spearman of demo_qmc",
}
MEASURED = {"demo_retrieval": "ndcg_at_10", "demo_reranking": "ndcg_at_10", "demo_qmc": "spearman"}


@pytest.mark.parametrize(
    ("words", "stages"),
    [
        (["dataset=[demo_retrieval]", "loss=info_nce"], ["demo_retrieval"]),
        (["dataset=[demo_reranking]", "loss=info_nce"], ["demo_reranking"]),
        ([MIXED, "loss=info_nce"], ["both"]),
        ([MIXED, "loss=info_nce", "schedule=serial"], ["demo_retrieval", "demo_qmc"]),
    ],
)
@pytest.mark.sampled(6)
def test_weights_are_chosen_by_what_is_trained(tmp_path, tiny_backbone, words, stages, caplog):
    words = [*words, "+dataset@evaluate.demo_sts=demo_sts", "training.duration=3 steps", "debug_rows=24"]
    words += ["training.validate_every=1 steps", "optimizer.lr=1e-2"]
    with caplog.at_level("INFO"):
        folder = run_job(tmp_path, tiny_backbone, *words)
    folders = [folder] if len(stages) == 1 else [next(folder.glob("stages/0-*")), folder]
    for place, stage in zip(folders, stages, strict=True):
        result = Result.read(place)
        training, chosen_by = result.training, OF.get(stage, f"the best dev ndcg_at_10 of {stage}")
        assert training["chosen_by"] == chosen_by
        assert f"are kept: {chosen_by}" in caplog.text
        values = [result.scores[f"dev/{one}/{MEASURED[one]}"].value for one in training["selected_on"]]
        best = next(value for key, value in training.items() if key.startswith("best_dev_"))
        assert best == pytest.approx(sum(values) / len(values), abs=1e-6)
        if stage == "both":
            assert best_on_dev(training).endswith("(ndcg_at_10 of demo_retrieval and spearman of demo_qmc)")


def test_a_training_that_stops_early_says_so():
    training = {"steps": 8, "planned_steps": 12}
    words = "stopped after 8 of 12 steps: no better dev score in 3 validations (training.patience)"
    assert early_stop_line(training, 3) == words
    assert early_stop_line(training, None) is None
    assert early_stop_line(training | {"steps": 12}, 3) is None


def test_patience_counts_validations_that_have_a_score():
    patience = Patience("dev", mode="max", patience=2, check_on_train_epoch_end=False)
    trainer = Mock(state=Mock(fn="fit"), sanity_checking=False, fast_dev_run=False, should_stop=False)
    trainer.strategy.reduce_boolean_decision = lambda decision, **how: decision
    told = []
    for value in (math.nan, 0.3, math.nan, 0.2, 0.1):
        trainer.callback_metrics = {"dev": torch.tensor(value)}
        patience.on_validation_end(trainer, None)
        told.append(trainer.should_stop)
    assert told == [False] * 4 + [True]
