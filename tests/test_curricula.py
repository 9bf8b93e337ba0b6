"""Curricula: stages that runs share are trained once, changed ones anew, and interrupted ones go on."""

import io
import signal
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import pytorch_lightning as pl
from jobs import compose_job, interrupt, logged, run_job, weights
from rich.console import Console

from juzhen.core.result import Result
from launch import stage_store
from launch.console import set_lines, stage_table
from launch.job import read_job, stored_job
from launch.run_folder import RunFolder

WORDS = ("schedule=serial", "debug_rows=24", "training.duration=2 epochs", "loss=by_kind")
STEPS = 6  # 24 rows in batches of 8, twice
COLUMN = "+dataset@evaluate.demo_order=demo_order"
"""A set that is scored and not learnt from."""


@pytest.fixture
def tests(monkeypatch):
    """One entry per test that a trainer really makes."""
    made = []
    test = pl.Trainer.test

    def counted(self, module, **more):
        made.append(type(module).__name__)
        return test(self, module, **more)

    monkeypatch.setattr(pl.Trainer, "test", counted)
    return made


def values(run: Path) -> dict[str, float]:
    return {key: score.value for key, score in Result.read(run).scores.items()}


@pytest.mark.slow
def test_what_two_runs_begin_with_is_trained_and_measured_once(tmp_path, tiny_backbone, steps, tests):
    words = (*WORDS, "benchmark=demo")
    first = run_job(tmp_path, tiny_backbone, *words, "dataset=[demo_nli,demo_sts]")
    assert len(steps) == 2 * STEPS
    assert len(tests) == 2
    other = run_job(tmp_path, tiny_backbone, *words, "dataset=[demo_nli,demo_qmc]")
    assert [task for task, *_ in steps[2 * STEPS :]] == STEPS * ["demo_qmc"]
    shared = [run / "stages" / "0-demo_nli" for run in (first, other)]
    assert len(tests) == 3
    assert weights(shared[0]) == weights(shared[1])
    assert values(shared[0]) == values(shared[1])
    assert Result.read(shared[1]).training == Result.read(shared[0]).training
    assert (
        shared[0] / "encoder" / "model.safetensors"
    ).stat().st_nlink == 3  # the store and both runs: one file

    del steps[:]
    alone = run_job(
        tmp_path / "alone", tiny_backbone, *words, "dataset=[demo_nli,demo_qmc]", "schedule.store=null"
    )
    assert len(steps) == 2 * STEPS
    assert weights(alone) == weights(other)
    assert values(alone) == values(other)


@pytest.mark.parametrize("changed", [COLUMN, "evaluation.bootstrap_samples=47"])
@pytest.mark.slow
def test_a_shared_stage_is_measured_again_where_other_scores_are_asked_for(
    tmp_path, tiny_backbone, steps, tests, changed
):
    words = (*WORDS, "dataset=[demo_sts]")
    run_job(tmp_path, tiny_backbone, *words)
    again = run_job(tmp_path, tiny_backbone, *words, changed)
    assert (len(steps), len(tests)) == (STEPS, 2)
    alone = run_job(tmp_path / "alone", tiny_backbone, *words, changed, "schedule.store=null")
    assert Result.read(again).scores == Result.read(alone).scores


@pytest.mark.slow
def test_a_shared_stage_is_trained_again_after_a_change_of_the_maths_and_in_another_precision(
    tmp_path, tiny_backbone, steps, monkeypatch
):
    words = (*WORDS, "dataset=[demo_sts]")
    run_job(tmp_path, tiny_backbone, *words)
    run_job(tmp_path, tiny_backbone, *words, "evaluation.bootstrap_samples=47")
    assert len(steps) == STEPS, "the stage was there"
    monkeypatch.setattr(stage_store, "MATHS", -1)
    run_job(tmp_path, tiny_backbone, *words, "evaluation.bootstrap_samples=48")
    assert len(steps) == 2 * STEPS
    run_job(tmp_path, tiny_backbone, *words, "hardware.precision=bf16-mixed")
    assert len(steps) == 3 * STEPS


@pytest.mark.slow
def test_only_a_changed_stage_is_trained_again(tmp_path, tiny_backbone, steps):
    words = (*WORDS, "dataset=[demo_nli,demo_sts]")
    run_job(tmp_path, tiny_backbone, *words)
    for changed, trained in (
        ("+schedule.stages.demo_sts.optimizer.lr=1e-4", ["demo_sts"]),
        ("+schedule.stages.demo_nli.optimizer.lr=1e-4", ["demo_nli", "demo_sts"]),
        ("dataset.demo_sts.limit=20", ["demo_sts"]),
        ("evaluation.bootstrap_samples=50", []),
        (COLUMN, []),
    ):
        del steps[:]
        run = run_job(tmp_path, tiny_backbone, *words, changed)
        assert sorted({task for task, *_ in steps}) == trained, changed
        assert Result.read(run).trained_on == ["demo_nli", "demo_sts"]
    assert any("/demo_order/" in key for key in values(run)), "a column that was added is filled in"


@pytest.mark.slow
def test_an_interrupted_stage_goes_on_in_another_run(tmp_path, tiny_backbone, steps):
    words = (*WORDS, "training.checkpoint_every=1 steps")
    cut = interrupt(tmp_path, tiny_backbone, 4, "SIGKILL", *words, "dataset=[demo_nli,demo_sts]")
    assert cut == -signal.SIGKILL
    run = run_job(tmp_path, tiny_backbone, *words, "dataset=[demo_nli,demo_qmc]")
    assert [task for task, *_ in steps].count("demo_nli") == STEPS - 3
    whole = run_job(tmp_path / "whole", tiny_backbone, *words, "dataset=[demo_nli,demo_qmc]")
    assert weights(run) == weights(whole)


@pytest.mark.slow
def test_one_set_first_with_one_loss_and_then_with_another(tmp_path, tiny_backbone, steps):
    run = run_job(
        tmp_path,
        tiny_backbone,
        *WORDS,
        "training.duration=10 steps",
        "dataset=[demo_qmc]",
        "schedule.order=[coarse,fine]",
        "+schedule.stages.coarse.dataset=[demo_qmc]",
        "+schedule.stages.coarse.share_percent=80",
        "+loss@schedule.stages.coarse.loss=cosent",
        "+schedule.stages.fine.dataset=[demo_qmc]",
        "+schedule.stages.fine.share_percent=20",
        "+loss@schedule.stages.fine.loss=info_nce",
    )
    assert [loss for _, loss, _ in steps] == 8 * ["CoSENT"] + 2 * ["InfoNCE"]
    result = Result.read(run)
    assert result.trained_on == ["demo_qmc", "demo_qmc"]
    assert result.config["training"]["duration"] == "2 steps"
    assert result.config["earlier"]["training"]["duration"] == "10 steps"
    assert set(result.config["earlier"]) == {"training"}, "each stage had a loss of its own"
    again = stored_job(result.config, read_job(compose_job("benchmark=none")), own_hardware=True)
    assert again.training.duration == "2 steps", "the stage can be scored again later"
    assert result.data["train/demo_qmc"]["kind"] == "positive_pair"
    assert Result.read(run / "stages" / "0-coarse").data["train/demo_qmc"]["kind"] == "labelled_pair"


@pytest.mark.slow
def test_sets_of_a_mixture_have_losses_and_batch_sizes_of_their_own(tmp_path, tiny_backbone, steps):
    """And what each set costs, and how often it came, is told apart."""
    run = run_job(
        tmp_path,
        tiny_backbone,
        "debug_rows=24",
        "dataset=[demo_sts,demo_qmc]",
        "training.duration=1 epochs",
        "schedule.sample_by=weight",
        "+schedule.sets.demo_sts.weight=3",
        "+schedule.sets.demo_qmc.batch_size=12",
        "+loss@schedule.sets.demo_qmc.loss=online_contrastive",
        "logger.every_steps=1",
    )
    assert sorted(steps) == [("demo_qmc", "OnlineContrastive", 12)] + 4 * [("demo_sts", "CoSENT", 8)]
    of_sets = {name: logged(run, f"train/{name}/loss") for name in ("demo_sts", "demo_qmc")}
    assert [len(of_sets[name]) for name in of_sets] == [4, 1]
    assert sorted(logged(run)) == sorted([*of_sets["demo_sts"], *of_sets["demo_qmc"]])
    counts = Result.read(run).training["sets"]
    for name, count in counts.items():
        assert count.pop("loss") == pytest.approx(sum(of_sets[name]) / len(of_sets[name]), rel=1e-4)
        gradients = logged(run, f"train/{name}/gradient_norm")
        assert count.pop("gradient_norm") == pytest.approx(sum(gradients) / len(gradients), rel=1e-4)
    assert counts == {
        "demo_sts": {"batches": 4, "rows": 32, "share_of_batches": 0.8, "share_of_rows": 0.7273},
        "demo_qmc": {"batches": 1, "rows": 12, "share_of_batches": 0.2, "share_of_rows": 0.2727},
    }
    assert set_lines(counts) == [
        "demo_sts: 4 of 5 batches (80.0 %), 32 of 44 rows (72.7 %)",
        "demo_qmc: 1 of 5 batches (20.0 %), 12 of 44 rows (27.3 %)",
    ]
    assert set_lines({"demo_sts": counts["demo_sts"]}) == []


BLEND = (
    "debug_rows=24",
    "dataset=[demo_sts,demo_qmc]",
    "schedule.sample_by=blend",
    "+schedule.sets.demo_sts.weight=3",
    "schedule.weigh_loss=true",
    "+schedule.sets.demo_qmc.batch_size=4",
    "logger.every_steps=1",
    "backbone.dropout=0.0",
)


@pytest.mark.slow
def test_a_step_of_a_blend_has_a_batch_of_every_set(tmp_path, tiny_backbone, steps, capsys):
    run = run_job(tmp_path, tiny_backbone, *BLEND, "training.duration=5 steps")
    assert steps == 5 * [("demo_sts", "CoSENT", 8), ("demo_qmc", "CoSENT", 4)]
    assert "every step has a batch of each set" in capsys.readouterr().err
    sts, qmc = (logged(run, f"train/{name}/loss") for name in ("demo_sts", "demo_qmc"))
    of_steps = [(3 * first + second) / 2 for first, second in zip(sts, qmc, strict=True)]
    assert logged(run) == pytest.approx(of_steps, rel=1e-5)
    result = Result.read(run)
    assert result.training["steps"] == 5
    assert {name: counts["batches"] for name, counts in result.training["sets"].items()} == {
        "demo_sts": 5,
        "demo_qmc": 5,
    }
    lengths = [logged(run, f"train/{name}/gradient_norm") for name in ("demo_sts", "demo_qmc")]
    assert [len(each) for each in lengths] == [5, 5]
    assert logged(run, "train/demo_qmc/share_of_rows")[-1] == pytest.approx(1 / 3, abs=1e-4)


@pytest.mark.parametrize("sample_by", ["blend", "drawn"])
@pytest.mark.slow
def test_a_mixture_that_was_killed_goes_on(tmp_path, tiny_backbone, sample_by):
    words = (*BLEND, f"schedule.sample_by={sample_by}", "training.duration=6 steps", "backbone.dropout=0.1")
    whole = run_job(tmp_path / "whole", tiny_backbone, *words)
    cut = (*words, "training.checkpoint_every=1 steps", "resume=auto")
    assert interrupt(tmp_path / "cut", tiny_backbone, 3, "SIGKILL", *cut) == -signal.SIGKILL
    again = run_job(tmp_path / "cut", tiny_backbone, *cut)
    assert weights(again) == weights(whole)
    of_sets = [Result.read(run).training["sets"] for run in (whole, again)]
    assert [counts.pop("gradient_norm") for sets in of_sets for counts in sets.values()]
    assert of_sets[0] == of_sets[1]


@pytest.mark.slow
def test_the_three_stages_learn_what_the_recipe_says_and_the_end_says_what_each_changed(
    tmp_path, tiny_backbone, steps
):
    run = run_job(
        tmp_path,
        tiny_backbone,
        "experiment=three_stage_demo",
        "dataset=[demo_qmc,demo_sts,demo_nli]",
        "debug_rows=24",
        "schedule.stages.negatives.limit=16",
        "schedule.stages.tasks.training.duration=4 steps",
        "callbacks.mining.num_negatives=2",
    )
    sets = [task for task, *_ in steps]
    assert sets[:3] == 3 * ["demo_qmc"]
    assert set(sets[3:7]) <= {"demo_qmc", "demo_sts", "demo_nli"}
    assert sets[7:] == ["demo_qmc"]  # 16 rows, a batch of 32
    results = [*RunFolder(run, resume="auto").earlier_results(), Result.read(run)]
    assert [result.training["rows_seen"] for result in (results[0], results[2])] == [24, 16]
    console = Console(width=150, record=True, file=io.StringIO())
    console.print(stage_table(results))
    lines = console.export_text().splitlines()
    for stage in ("1. pairs", "2. tasks", "3. negatives"):
        assert stage in "".join(lines)
    before, *after = (
        100 * scores["test/demo_sts/spearman"].value
        for scores in (results[0].untrained, *(result.scores for result in results))
    )
    cells = " ".join(next(line for line in lines if "demo_sts" in line).split("│")[2:]).split()
    expected = [f"{before:.1f}"]
    for old, new in pairwise([before, *after]):
        expected += [f"{new:.1f}", f"{new - old:+.1f}"]
    assert cells == expected
    for result in results:  # of sets whose test split is not to be had
        result.scores.update(
            {key: replace(of, value=None) for key, of in result.scores.items() if "test/" in key}
        )
    console.print(stage_table(results))
    assert "demo_sts, dev" in console.export_text()
