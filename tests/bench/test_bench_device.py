"""Where the benchmarks run; what needs a GPU to be seen is tested with one that is pretended."""

import pytest
import torch

from juzhen.backends.names import BackendName
from juzhen.core.errors import UserError
from tools.bench import __main__ as command
from tools.bench import device
from tools.bench.options import BENCHMARKS, resolve


@pytest.fixture
def gpu(monkeypatch):
    """The device in name; the waits that were made of it."""
    waits = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waits.append(True))
    monkeypatch.setenv(device.VARIABLE, "cpu")  # is put back afterwards
    device.choose_device("cuda")
    return waits


@pytest.mark.parametrize(
    ("name", "told"),
    [("training", "torch sees no CUDA device here"), ("cosent", "cosent is about the processor")],
)
def test_what_cannot_run_on_a_gpu_says_so(name, told, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match=told):
        command._on_gpu([name])


def test_all_on_a_gpu_are_those_that_have_a_part_there(gpu):
    assert command._on_gpu(list(BENCHMARKS)) == [
        "training",
        "crossencoder",
        "distill",
        "encoding",
        "evaluation",
        "memory",
    ]


def test_a_clock_waits_for_a_gpu_where_steps_begin_to_count_and_at_the_end(gpu, monkeypatch):
    times = iter([0.0, 9.0, 9.1, 9.2, 20.0, 20.1, 20.2, 26.0])
    monkeypatch.setattr(device.time, "perf_counter", lambda: next(times))
    clock = device.StepClock()
    clock.begin()
    for number in range(6):
        clock.note(torch.tensor(float(number)))
        clock.step()
    steps = clock.end()
    assert len(gpu) == 3
    assert steps.losses == [0, 1, 2, 3, 4, 5]
    assert sum(steps.seconds) == pytest.approx(26)
    assert device.typical(steps.seconds) == pytest.approx((26 - 20) / 2)


def test_on_a_processor_a_step_is_the_median(monkeypatch):
    monkeypatch.setenv(device.VARIABLE, "cpu")
    assert device.typical([9, 9, 9, 9, 1, 2, 30]) == 2


def test_back_ends_are_those_of_the_device(gpu, monkeypatch):
    monkeypatch.setattr("tools.bench.options.lacks_bf16", lambda: True)
    assert device.back_ends(BackendName) == [BackendName.TORCH, BackendName.TORCH_BF16]
    assert "bf16" in resolve("training", "modest", {"device": "cuda"})["precisions"]
