"""The verdict on a training: its words, its error rate, and the status of `juzhen gate`."""

import dataclasses
import shutil

import numpy as np
import pytest
from jobs import run_job

from juzhen.cli.main import main
from juzhen.core.row_scores import ROWS_FILE, RowScores, SetRows
from juzhen.metrics.comparison import Scored, judge, mean_gap
from juzhen.metrics.correlation import Gap

ROWS = 200


def scored(gold, scores, kind="scored_pair"):
    places = {name: np.arange(len(gold), dtype=np.int32) for name in ("row", "line")}
    floats = {"gold": np.asarray(gold, np.float32), "score": np.asarray(scores, np.float32)}
    return Scored(SetRows(kind, "f", places | floats))


def worthless_training(draw, *, sets=4):
    """Scores of two models of equal quality, whose errors are drawn apart."""
    before, after = {}, {}
    for name in map(str, range(sets)):
        gold = draw.random(ROWS)
        shared = gold + draw.normal(0, 0.4, ROWS)
        for side in (before, after):
            side[name] = scored(gold, shared + draw.normal(0, 0.2, ROWS))
    return judge(after, before, ["0"])


@pytest.mark.slow
def test_a_training_of_no_worth_rarely_wins_and_its_intervals_hold_the_truth():
    draw = np.random.default_rng(5)
    verdicts = [worthless_training(draw) for _ in range(200)]
    wins = sum(verdict.word == "WIN" for verdict in verdicts)
    losses = sum(verdict.word == "LOSS" for verdict in verdicts)
    assert wins <= 10  # 5 %
    assert losses <= 10
    covered = sum(low <= 0 <= high for low, high in (verdict.others.interval for verdict in verdicts))
    assert 182 <= covered <= 198  # 95 % ± two standard errors, rounded


def test_equal_weights_tie_and_a_better_model_wins():
    draw = np.random.default_rng(1)
    gold = draw.random(ROWS)
    noisy, better = gold + draw.normal(0, 0.5, ROWS), gold + draw.normal(0, 0.05, ROWS)
    same = judge({"a": scored(gold, noisy)}, {"a": scored(gold, noisy)}, ["a"])
    assert (same.word, same.target.value, same.others) == ("TIE", 0, None)
    won = judge({"a": scored(gold, better)}, {"a": scored(gold, noisy)}, ["a"])
    lost = judge({"a": scored(gold, noisy)}, {"a": scored(gold, better)}, ["a"])
    assert (won.word, lost.word) == ("WIN", "LOSS")
    assert won.target.value == pytest.approx(-lost.target.value)
    assert judge({"a": scored(gold, noisy)}, {"b": scored(gold, noisy)}) is None
    assert judge({"a": scored(gold, noisy)}, {"a": scored(gold[::-1], noisy)}, ["a"]) is None  # other rows


def test_the_mean_of_independent_changes_has_the_error_of_a_mean():
    mean = mean_gap([Gap(0.1, 0.03, 10.0), Gap(0.3, 0.04, 10.0)])
    assert mean.value == pytest.approx(0.2)
    assert mean.error == pytest.approx(0.025)
    assert mean.freedom == pytest.approx((0.015**2 + 0.02**2) ** 2 / ((0.015**4 + 0.02**4) / 10))
    assert mean_gap([Gap(0.1, 0.03)]) == Gap(pytest.approx(0.1), pytest.approx(0.03), 0.0)


@pytest.mark.parametrize(
    ("words", "status", "seen"),
    [
        ([], 0, "gate: passed"),  # the run against its copy: TIE
        (["--must-win"], 1, "TIE, +0.0 [0.0, 0.0] on demo_qmc"),
        (["--target", "demo_order", "demo_qmc"], 0, "on demo_qmc + demo_order"),
    ],
)
def test_the_status_of_the_gate(two_runs, words, status, seen, tmp_path, capsys):
    copy = shutil.copytree(two_runs[0], tmp_path / "copy")
    assert main(["gate", str(two_runs[0]), "--against", str(copy), *words]) == status
    captured = capsys.readouterr()
    assert seen in captured.out + captured.err


def test_the_gate_fails_where_other_sets_lose_more_than_they_may(two_runs, capsys):
    forth, back = (["gate", str(a), "--against", str(b)] for a, b in (two_runs, two_runs[::-1]))
    statuses = {main([*words, "--target", "demo_qmc", "--may-lose", "0"]) for words in (forth, back)}
    assert 1 in statuses  # the others' mean is below 0 in one direction
    assert "other sets lose more than 0 points" in capsys.readouterr().out
    assert main([*forth, "--may-lose", "100"]) in (0, 1)


def test_a_target_that_cannot_be_compared_is_refused(two_runs, tmp_path, capsys):
    other = tmp_path / "other"
    shutil.copytree(two_runs[1], other)
    kept = RowScores.read(other)
    sets = dict(kept.sets)
    column = "test/demo_qmc"
    changed = {name: values[:-1] for name, values in sets[column].columns.items()}
    sets[column] = SetRows(sets[column].kind, "other rows", changed)
    (other / ROWS_FILE).unlink()
    dataclasses.replace(kept, sets=sets).write(other / ROWS_FILE)
    assert main(["gate", str(other), "--against", str(two_runs[0])]) == 2
    assert "demo_qmc: the target cannot be compared" in capsys.readouterr().err
    words = ["--sets", "demo_sts", "demo_qmc", "--target", "demo_sts"]  # no verdict on half of the named sets
    assert main(["gate", str(other), "--against", str(two_runs[0]), *words]) == 2
    assert "demo_qmc: cannot be compared" in capsys.readouterr().err


@pytest.mark.slow
def test_a_training_ends_with_its_verdict_where_the_start_was_scored(tmp_path, tiny_backbone, capfd):
    words = ("dataset=[demo_qmc]", "benchmark=demo", "loss=cosent")
    run_job(tmp_path, tiny_backbone, *words, "evaluation.untrained=true")
    printed = capfd.readouterr().err
    (line,) = [line for line in printed.splitlines() if " on demo_qmc; others " in line]
    assert line.split(",")[0] in ("WIN", "TIE", "LOSS")
    assert "worst demo_" in line
    run_job(tmp_path / "other", tiny_backbone, *words)
    assert " on demo_qmc; others " not in capfd.readouterr().err
