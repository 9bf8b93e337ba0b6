"""Mining in training: when it is due, what it leaves as it is, that it goes on bit for bit, and what is refused."""

import json
import os
import signal

import pytest
import torch
from jobs import MINED_FOR as JOB
from jobs import compose_job, interrupt, key_of, run_job, weights

from callbacks.mining import NegativeMining
from callbacks.resume import random_state
from callbacks.trainer import chosen_callbacks
from juzhen.core.result import Result
from launch.job import read_job
from lightning_modules.base import SentenceModule

EASY = "callbacks.mining.until_easy=true"


def chosen(*words):
    (found,) = (
        one
        for one in chosen_callbacks(read_job(compose_job("benchmark=none", *words)).callbacks)
        if isinstance(one, NegativeMining)
    )
    return found


def lines(run):
    return [json.loads(line) for line in (run / "mining.jsonl").read_text(encoding="utf-8").splitlines()]


def told(run):
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines(run)]


def test_when_it_is_due():
    dynamic, static = (chosen(f"mining={name}").phases for name in ("dynamic", "static"))
    due = [step for step in range(10_001) if dynamic.due(step, 10_000)]
    assert due == [*range(0, 3000, 1000), *range(3000, 7000, 500), *range(7000, 10_000, 200)]
    assert [step for step in range(11) if dynamic.due(step, 10)] == [0, 3, 7]
    assert [step for step in range(11) if static.due(step, 10)] == [0]
    shares = [dynamic.hard_share(step, 100) for step in (0, 15, 30, 50, 70, 100)]
    assert shares == pytest.approx([0.3, 0.4, 0.5, 0.6, 0.7, 0.9])


@pytest.mark.parametrize("name", ["static", "dynamic", "ance"])
def test_the_limit_of_hard_negatives_cuts_no_share(name):
    mining = chosen(f"mining={name}")
    most = max(mining.phases.hard_share(step, 100) for step in range(101))
    assert mining.hard_at_most >= round(most * mining.options.num_negatives)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, tiny_backbone):
    """A run that is left alone, what its batches held, and whether mining changed a generator."""
    batches, states = [], []
    step, mined = SentenceModule.training_step, NegativeMining._next

    def kept(self, batch, index):
        batches.append({name: batch.sentence_ids[rows] for name, rows in batch.columns.items()})
        assert self.encoder.training
        return step(self, batch, index)

    def watched(self, *given):
        before = random_state()
        found = mined(self, *given)
        after = random_state()
        # From Python's own generator the checks of types draw, which are made in tests alone.
        states.append(
            torch.equal(before["torch"], after["torch"])
            and torch.equal(before["numpy"][1], after["numpy"][1])
        )
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SentenceModule, "training_step", kept)
        patched.setattr(NegativeMining, "_next", watched)
        run = run_job(tmp_path_factory.mktemp("whole"), tiny_backbone, *JOB, EASY)
    return run, batches, states


@pytest.mark.slow
def test_batches_have_the_negatives_in_force_and_no_generator_is_touched(whole):
    run, batches, states = whole
    assert [line["step"] for line in lines(run)] == [0, 2, 3, 4, 5, 6, 7, 9]
    assert states == [True] * 8
    assert all(list(batch)[2:] == ["negative", *(f"negative_{n}" for n in range(2, 9))] for batch in batches)
    first = lines(run)[0]
    assert first["changed_rows"] == 1.0
    assert first["hard_share"] == pytest.approx(2 / 8, abs=0.03)  # 0.3 of 8
    assert lines(run)[-1]["hard_share"] <= 5 / 8
    result = Result.read(run)
    assert result.training["mining"]["times"] == 8
    assert result.training["mining"]["seconds"] > 0
    assert result.data["train/demo_qmc"]["kind"] == "positive_pair"  # as it was read


@pytest.mark.parametrize("step", [2, 5])
@pytest.mark.slow
def test_a_killed_run_goes_on_bit_for_bit(tmp_path, tiny_backbone, whole, step):
    run, *_ = whole
    job = (*JOB, EASY, "resume=auto")
    assert interrupt(tmp_path, tiny_backbone, step, "SIGKILL", *job) == -signal.SIGKILL
    finished = run_job(tmp_path, tiny_backbone, *job)
    assert weights(finished) == weights(run)
    assert {line["step"]: line for line in told(finished)} == {line["step"]: line for line in told(run)}


@pytest.mark.slow
def test_a_signal_at_a_mining_is_obeyed_at_once_and_the_mining_made_up_for(tmp_path, tiny_backbone, whole):
    job = (*JOB, EASY, "resume=auto")
    assert interrupt(tmp_path, tiny_backbone, 5, "SIGTERM", *job) == 128 + signal.SIGTERM
    (begun,) = tmp_path.glob("*/mining.jsonl")
    assert len(begun.read_text(encoding="utf-8").splitlines()) == 4  # 0, 2, 3, 4
    assert weights(run_job(tmp_path, tiny_backbone, *job)) == weights(whole[0])


ANCE = (*JOB[:2], "mining=ance", *JOB[3:], "callbacks.mining.every_steps=[3]", "resume=auto")


@pytest.mark.slow
def test_a_second_process_mines_for_the_next_time(tmp_path, tiny_backbone):
    run = run_job(tmp_path / "whole", tiny_backbone, *ANCE)
    assert [(line["step"], line["stale_steps"]) for line in lines(run)] == [(0, 0), (6, 3), (9, 3)]
    assert lines(run)[1]["changed_rows"] > 0.9
    assert lines(run)[1]["hard_share"] == 6 / 8
    assert not (run / "mining").exists()
    for step in (4, 7):  # while it is under way, and again
        assert interrupt(tmp_path / "cut", tiny_backbone, step, "SIGKILL", *ANCE) == -signal.SIGKILL
    finished = run_job(tmp_path / "cut", tiny_backbone, *ANCE)
    assert weights(finished) == weights(run)
    assert {line["step"]: line for line in told(finished)} == {line["step"]: line for line in told(run)}


@pytest.mark.slow
def test_a_process_that_dies_is_told(tmp_path, tiny_backbone, monkeypatch):
    monkeypatch.setattr("callbacks.mining._work", killed)
    with pytest.raises(RuntimeError, match="the process that mines negatives ended with status -9"):
        run_job(tmp_path, tiny_backbone, *ANCE)


def killed(*given):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_mined_once_and_in_a_mixture(tmp_path, tiny_backbone):
    run = run_job(
        tmp_path,
        tiny_backbone,
        *JOB,
        "mining=static",
        "callbacks.mining.every_steps=null",
        "dataset=[demo_qmc,demo_sts]",
        "+loss@schedule.sets.demo_sts.loss=cosent",
        "callbacks.mining.sets=[demo_qmc]",
        "callbacks.mining.index=flat",
    )
    assert [(line["step"], line["set"]) for line in lines(run)] == [(0, "demo_qmc")]
    assert lines(run)[0]["hard_share"] == 0.5


STAGES = (
    *JOB,
    "schedule=serial",
    "schedule.order=[demo_qmc,hard]",
    "+schedule.stages.hard.dataset=[demo_qmc]",
    "training.duration=4 steps",
    "callbacks.mining.phases=[1.0]",
    "callbacks.mining.every_steps=[2]",
    "callbacks.mining.hard_share=[0.5,0.5]",
    "schedule.store=null",
)


def stage_folders(run):
    """Those of the curriculum, in order: the last is the run's."""
    return run / "stages" / "0-demo_qmc", run


@pytest.mark.slow
def test_stages_that_are_not_named_learn_as_without_mining(tmp_path, tiny_backbone):
    run = run_job(tmp_path, tiny_backbone, *STAGES, "callbacks.mining.stages=[hard]")
    first, second = stage_folders(run)
    assert not (first / "mining.jsonl").exists()
    assert [line["step"] for line in lines(second)] == [0, 2]
    plain = run_job(tmp_path / "plain", tiny_backbone, *STAGES, "callbacks.mining=null")
    before, after = stage_folders(plain)
    assert weights(first) == weights(before)
    assert weights(second) != weights(after)


@pytest.mark.slow
def test_a_killed_curriculum_mines_in_its_stage_bit_for_bit(tmp_path, tiny_backbone):
    job = (*STAGES, "callbacks.mining.stages=[hard]", "resume=auto")
    whole = run_job(tmp_path / "whole", tiny_backbone, *job)
    assert interrupt(tmp_path / "cut", tiny_backbone, 3, "SIGKILL", *job) == -signal.SIGKILL
    finished = run_job(tmp_path / "cut", tiny_backbone, *job)
    assert weights(finished) == weights(whole)


def test_stages_are_part_of_the_key():
    named = (*STAGES, "callbacks.mining.stages=[hard]")
    assert key_of(*named) != key_of(*STAGES)


def test_it_is_part_of_the_key():
    words = ("dataset=[demo_qmc]", "loss=info_nce")
    keys = [key_of(*words, *more) for more in ((), ("mining=static",), ("mining=dynamic",))]
    assert len(set(keys)) == 3


@pytest.mark.slow
def test_rows_have_negatives_of_their_own(tmp_path, tiny_backbone):
    words = (
        "callbacks.mining.relative_margin=0.0001",
        "callbacks.mining.positive_reference=own",
        EASY,
        "resume=auto",
    )
    runs = [run_job(tmp_path / name, tiny_backbone, *JOB, *words) for name in ("one", "other")]
    assert told(runs[0]) == told(runs[1])
    lowest = run_job(
        tmp_path / "lowest", tiny_backbone, *JOB, *words, "callbacks.mining.positive_reference=lowest"
    )
    assert sum(one["missing_share"] for one in told(runs[0])) < sum(
        one["missing_share"] for one in told(lowest)
    )
    cut = tmp_path / "cut"
    assert interrupt(cut, tiny_backbone, 4, "SIGKILL", *JOB, *words) == -signal.SIGKILL
    assert weights(run_job(cut, tiny_backbone, *JOB, *words)) == weights(runs[0])
