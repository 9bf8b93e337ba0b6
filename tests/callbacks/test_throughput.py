from types import SimpleNamespace

import pytest

from callbacks import trainer as module
from callbacks.trainer import Throughput


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(seconds=100.0)
    monkeypatch.setattr(module.time, "perf_counter", lambda: now.seconds)
    return now


def train(watch, clock, *, batches, seconds):
    trainer = SimpleNamespace(world_size=1)
    watch.on_train_start(trainer, None)
    for _ in range(batches):
        clock.seconds += seconds
        watch.on_train_batch_end(trainer, None, None, range(10), 0)


def test_validation_does_not_count_as_training(clock):
    watch = Throughput()
    train(watch, clock, batches=2, seconds=0.5)
    watch.on_validation_start(None, None)
    clock.seconds += 7
    watch.on_validation_end(None, None)
    clock.seconds += 1
    watch.on_train_batch_end(SimpleNamespace(world_size=1), None, None, range(10), 2)
    assert watch.summary() == {
        "rows_seen": 30,
        "train_seconds": 2.0,
        "validation_seconds": 7.0,
        "rows_per_second": 15.0,
    }


def test_it_goes_on_counting_after_a_resume_but_not_while_nothing_ran(clock):
    first, second = Throughput(), Throughput()
    train(first, clock, batches=4, seconds=1)
    clock.seconds += 3600
    second.load_state_dict(first.state_dict())
    train(second, clock, batches=1, seconds=1)
    assert (second.summary()["rows_seen"], second.summary()["train_seconds"]) == (50, 5.0)


def test_before_the_first_step_there_is_no_speed():
    assert Throughput().summary()["rows_per_second"] is None
