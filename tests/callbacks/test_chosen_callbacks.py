"""Callbacks are chosen by the configuration: which there are, their numbers, and their part in the run's key."""

import json
from dataclasses import asdict

import pytest
from jobs import compose_job, key_of, run_job, weights

from callbacks.trainer import chosen_callbacks
from juzhen.core.result import Result
from juzhen.report.row_identity import identify
from launch.job import read_job, stored_job

WATCHING = ["Throughput", "SetCounts", "PeakMemory", "LossGradient", "SpaceHealth", "ScoreHealth"]
QUICK = ("training.duration=2 steps", "evaluation.splits=[dev]")


def chosen(*words):
    return chosen_callbacks(read_job(compose_job("benchmark=none", *words)).callbacks)


def test_the_default_and_what_is_left_out_or_added():
    assert [type(one).__name__ for one in chosen()] == WATCHING
    assert [type(one).__name__ for one in chosen("callbacks.space_health=null")] == [
        name for name in WATCHING if name != "SpaceHealth"
    ]
    assert chosen("callbacks=[]") == []
    (one,) = chosen("callbacks=[loss_gradient]", "callbacks.loss_gradient.high=5")
    assert one.high == 5
    again = "+callbacks.again={_target_:callbacks.trainer.SetCounts,decides_weights:false}"
    assert [type(one).__name__ for one in chosen("callbacks=[]", again)] == ["SetCounts"]


def test_only_what_decides_weights_is_part_of_the_key():
    keys = [
        key_of(*words)
        for words in (
            (),
            ("callbacks=[]",),
            ("callbacks.loss_gradient.high=5",),
            ("callbacks.loss_gradient.decides_weights=true",),
            ("callbacks.loss_gradient.decides_weights=true", "callbacks.loss_gradient.high=5"),
        )
    ]
    assert keys[0] == keys[1] == keys[2]
    assert len({keys[0], *keys[3:]}) == 3


@pytest.mark.slow
def test_a_run_without_any_has_a_result_and_the_same_row(tmp_path, tiny_backbone):
    watched, alone = (
        run_job(tmp_path / str(len(words)), tiny_backbone, *QUICK, *words)
        for words in ((), ("callbacks=[]",))
    )
    assert weights(watched) == weights(alone)
    assert not {one.name for one in alone.iterdir()} & {"health.jsonl", "scores.jsonl"}
    training = json.loads((alone / "result.json").read_text(encoding="utf-8"))["training"]
    assert training["steps"] == 2
    assert training["sets"] == {}
    assert "rows_per_second" not in training
    results = [Result.read(folder) for folder in (watched, alone)]
    assert len({identify(one, before_training=False) for one in results}) == 1
    results[0].config["callbacks"]["throughput"]["decides_weights"] = True
    assert len({identify(one, before_training=False) for one in results}) == 2


def test_a_result_from_before_there_were_callbacks_is_a_job_of_today():
    """`health` held their numbers; evaluating again asks for none of them."""
    defaults = read_job(compose_job())
    config = {key: value for key, value in asdict(defaults).items() if key != "callbacks"}
    job = stored_job(config | {"health": {"on_collapse": "warn"}}, defaults, own_hardware=True)
    assert job.callbacks == defaults.callbacks
    assert "health" not in asdict(job)
