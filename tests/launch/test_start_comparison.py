"""The verdict at the end of a training, and weights between start and checkpoint."""

import json

import pytest
from jobs import run_job
from torch import nn

from juzhen.core.result import RESULT_FILE, Score
from juzhen.core.row_scores import RowScores
from juzhen.metrics.comparison import judge_training
from launch.start_comparison import Balancing

SETS = ("demo_sts", "demo_order")
WORDS = ("dataset=[demo_qmc]", *(f"+dataset@evaluate.{name}={name}" for name in SETS), "loss=cosent")


@pytest.fixture
def trained(encoder_folder):
    """Words of a job that starts from weights."""
    return (*WORDS, f"init_from={encoder_folder}")


def training_of(folder):
    return json.loads((folder / RESULT_FILE).read_text("utf-8"))["training"]


@pytest.mark.slow
def test_a_verdict_changes_no_number(tmp_path, tiny_backbone, trained, capfd):
    plain = run_job(tmp_path / "a", tiny_backbone, *trained, "evaluation.verdict=never")
    assert " on demo_qmc; others " not in capfd.readouterr().err
    judged = run_job(tmp_path / "b", tiny_backbone, *trained, "evaluation.verdict=always")
    (line,) = [line for line in capfd.readouterr().err.splitlines() if " on demo_qmc; others " in line]
    assert line.split(",")[0] in ("WIN", "TIE", "LOSS")
    assert training_of(judged)["verdict"] == line
    first, second = (json.loads((folder / RESULT_FILE).read_text("utf-8")) for folder in (plain, judged))
    assert first["scores"] == second["scores"]
    assert first["key"] == second["key"]
    assert first["weights"] == second["weights"]
    assert "verdict" not in first["training"]


@pytest.mark.slow
def test_the_verdict_compares_with_a_run_of_the_start(tmp_path, tiny_backbone, trained, encoder_folder):
    judged = run_job(tmp_path / "a", tiny_backbone, *trained, "evaluation.verdict=always")
    sets = [f"+dataset@evaluate.{name}={name}" for name in ("demo_qmc", *SETS)]
    start = run_job(tmp_path / "b", tiny_backbone, "dataset=[]", *sets, f"init_from={encoder_folder}")
    after, before = (RowScores.read(folder).sets for folder in (judged, start))
    assert training_of(judged)["verdict"] == judge_training(after, before, ["demo_qmc"]).line()


def test_a_costly_verdict_is_left_out_and_named(tmp_path, tiny_backbone, trained, capfd):
    folder = run_job(tmp_path, tiny_backbone, *trained)  # six steps of eight rows
    assert "evaluation.verdict=always" in capfd.readouterr().err
    assert "verdict" not in training_of(folder)


RANDOM = "backbone.initialize=random"
BALANCED = "training.keep=balanced"


UNCOMPARED = [
    ((*WORDS, "evaluation.verdict=always", RANDOM), "evaluation.verdict=always"),
    ((*WORDS, BALANCED, RANDOM), BALANCED),
    ((*WORDS, BALANCED, "dataset=[demo_qmc,demo_sts]", "schedule=serial"), BALANCED),
    ((*WORDS, BALANCED, "model=crossencoder", "loss=bce"), BALANCED),
    ((WORDS[0], "loss=cosent", BALANCED, "init_from={encoder}"), f"{BALANCED}: .*benchmark="),
]


def test_a_balanced_run_records_its_ratio(tmp_path, tiny_backbone, trained):
    folder = run_job(tmp_path, tiny_backbone, *trained, "training.keep=balanced", "evaluation.verdict=never")
    balance = training_of(folder)["balance"]
    assert 0 < balance["ratio"] <= 1
    assert balance["tried"]["1"] == [
        balance["own_gain_of_checkpoint"],
        balance["others_change_of_checkpoint"],
    ]


def balanced(own, others):
    """Choose for a model of one number w, whose scores are functions of it: 0 at the start, 1 at the checkpoint."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)

    def score():
        ratio = round(model.weight.item(), 4)
        return {
            "dev/own/spearman": Score(0.5 + own(ratio) / 100),
            "dev/other/spearman": Score(0.5 + others(ratio) / 100),
        }

    balancing = Balancing(model, score, ["own"])
    nn.init.ones_(model.weight)
    return balancing.choose(), round(model.weight.item(), 4)


def test_the_largest_ratio_that_loses_little_is_kept():
    found, weight = balanced(lambda ratio: 4 * (1 - (1 - ratio) ** 6), lambda ratio: -1.9 * ratio**2)
    assert found.ratio == weight == pytest.approx(0.5)
    assert found.own_gain == pytest.approx(3.9375)
    assert found.others_change == pytest.approx(-0.475)


@pytest.mark.parametrize(
    ("own", "others", "ratio"),
    [
        (lambda ratio: 4 * ratio, lambda ratio: -3 * ratio, 1.0),  # each step back costs 10 % of the gain
        (lambda ratio: 4 * min(ratio, 0.8) / 0.8, lambda ratio: -3 * ratio, 0.8),  # −2.4 points, the least
        (lambda ratio: 4 * ratio, lambda ratio: -0.3 * ratio, 1.0),  # loses little as it is
        (lambda ratio: -ratio, lambda ratio: -3 * ratio, 1.0),  # has gained nothing
    ],
)
def test_the_gain_comes_before_the_loss(own, others, ratio):
    found, weight = balanced(own, others)
    assert found.ratio == weight == pytest.approx(ratio)
