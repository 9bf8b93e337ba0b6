"""Durations of a stage in optimizer steps."""

import pytest
from jobs import compose_job

from datamodules.datamodule import SentenceDataModule, only_stage
from juzhen.core.examples import Examples, Kind
from juzhen.data.loading import JobData
from launch.job import read_job


def stage(*overrides, **sizes):
    """A stage that learns from sets of so many rows each."""
    rows = {
        name: Examples.from_texts(
            name,
            "train",
            kind=Kind.POSITIVE_PAIR,
            texts={column: [f"{column} {row}" for row in range(size)] for column in ("anchor", "positive")},
        )
        for name, size in sizes.items()
    }
    words = (f"dataset=[{','.join(sizes)}]", "training.duration=2 epochs", *overrides)
    job = read_job(compose_job(*words))
    return SentenceDataModule(JobData(rows, []), only_stage(list(rows)), job=job)


@pytest.mark.parametrize(
    ("warmup", "steps"),
    [("4 steps", 4), ("20 percent", 4), ("0.5 epochs", 5), ("128 examples", 2), ("0 steps", 0)],
)
def test_a_warm_up_is_told_in_any_unit(warmup, steps):
    one = stage("training.batch_size=64", f"optimizer.warmup={warmup}", demo_sts=640)
    assert (one.total_steps, one.warmup_steps) == (20, steps)


def test_examples_are_counted_by_the_batches_that_there_are():
    """Two sets in batches of 64 and of 16: a step takes 32 rows on average, and a warm-up of 320 takes ten steps."""
    own = ("training.batch_size=64", "+schedule.sets.demo_qmc.batch_size=16")
    mixed = stage(*own, "optimizer.warmup=320 examples", demo_sts=640, demo_qmc=320)
    assert mixed.stream.mean_batch_size == 32
    assert (mixed.total_steps, mixed.warmup_steps) == (60, 10)


def test_accumulated_batches_are_one_step():
    one = stage(
        "training.batch_size=64", "training.accumulate=2", "optimizer.warmup=256 examples", demo_sts=640
    )
    assert (one.total_steps, one.warmup_steps) == (10, 2)


def test_nothing_to_learn_from_is_no_step():
    job = read_job(compose_job("dataset=[]"))
    none = SentenceDataModule(JobData({}, []), only_stage([]), job=job)
    assert (none.total_steps, none.warmup_steps) == (0, 0)
