"""Where both sides run, the processor or one CUDA device, and what that can do. Told to processes of their own by the
environment.

A GPU works through what it has been given while the program goes on, so a clock waits for it: where steps begin to
count and after the last one. Single steps have no time of their own there.
"""

import os
import platform
import statistics
import time
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor

from juzhen.backends.names import BackendName
from juzhen.core.environment import describe_environment
from juzhen.core.errors import UserError
from juzhen.core.memory import peak_mib, resident_mib
from juzhen.core.processor import lacks_bf16, processor_name
from tools.bench.options import DEVICES
from tools.bench.steps import Steps

VARIABLE = "JUZHEN_BENCH_DEVICE"
WARM_UP_STEPS = 4

SHAPES = {"cpu": (3000, 1024), "cuda": (16384, 8192)}
"""Rows and width of the products that tell what a device can do."""
PEAK_SECONDS = 0.3
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def choose_device(name: str) -> None:
    """Sets the device of this process and of those it starts. Raises UserError where it is not there."""
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("--device cuda: torch sees no CUDA device here; leave the option out")
    os.environ[VARIABLE] = name


def device() -> str:
    return os.environ.get(VARIABLE, DEVICES[0])


def on_gpu() -> bool:
    return device() == "cuda"


def back_ends(names: Iterable[BackendName]) -> list[BackendName]:
    """Those that are worth a turn: no ONNX on a GPU, which it would not use, no bf16 where it is only imitated."""
    if on_gpu():
        return [name for name in names if not name.needs_onnx]
    return [name for name in names if name is not BackendName.TORCH_BF16 or not lacks_bf16()]


def wait() -> None:
    if on_gpu():
        torch.cuda.synchronize()


def typical(seconds: Sequence[float]) -> float:
    """Seconds of a step after the warm-up: the median; on a GPU, where only their sum is known, the mean."""
    counted = seconds[WARM_UP_STEPS:]
    return statistics.fmean(counted) if on_gpu() else statistics.median(counted)


def held_mib() -> float:
    return torch.cuda.memory_allocated() / 2**20 if on_gpu() else resident_mib()


def most_mib() -> float:
    return torch.cuda.max_memory_allocated() / 2**20 if on_gpu() else peak_mib()


def describe_machine() -> dict[str, Any]:
    """Commit, cores, threads, versions and the load before measuring; no host name and no path."""
    environment = describe_environment()
    # Maker and instruction sets decide the speed of matrix products.
    instructions = torch.backends.cpu.get_cpu_capability() + ("" if lacks_bf16() else ", bf16")
    theirs = {"sentence-transformers": version("sentence-transformers")}
    return {
        key: environment[key] for key in ("git_commit", "git_dirty", "platform", "python", "cpu_cores")
    } | {
        "processor": f"{processor_name() or platform.processor() or 'unknown'}, {instructions}",
        "threads": torch.get_num_threads(),
        "packages": environment["packages"] | theirs,
        "load_before": round(os.getloadavg()[0], 2),
        "device": torch.cuda.get_device_name() if on_gpu() else device(),
    }


def matrix_gflops(precision: str) -> float:
    """GFLOP/s of plain matrix products here and now: the ceiling for a model in that precision."""
    how = {"dtype": DTYPES[precision], "device": device()}
    rows, width = SHAPES[device()]
    left, right = torch.randn(rows, width, **how), torch.randn(width, width, **how)
    left @ right
    wait()
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < PEAK_SECONDS:
        left @ right
        wait()
        count += 1
    return 2 * rows * width**2 * count / (time.perf_counter() - start) / 1e9


class StepClock:
    """When training began and when each step ended. Losses are fetched after the last step: fetching is waiting."""

    def __init__(self) -> None:
        self._ends: list[float] = []
        self._losses: list[Tensor] = []

    def begin(self) -> None:
        wait()
        self._ends.append(time.perf_counter())

    def note(self, loss: Tensor) -> None:
        """The loss of the step that is under way."""
        self._losses.append(loss.detach())

    def step(self) -> None:
        if len(self._ends) == WARM_UP_STEPS:
            wait()
        self._ends.append(time.perf_counter())

    def end(self) -> Steps:
        """All steps. To be called right after the last one."""
        if on_gpu():
            wait()
            self._ends[-1] = time.perf_counter()
        return Steps.between(self._ends, [float(loss) for loss in self._losses])
