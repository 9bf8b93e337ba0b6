"""Turns, ratios, clocks and memory: how both sides are measured, on a processor or on one GPU."""

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from importlib.metadata import version
from itertools import pairwise
from multiprocessing import get_context
from typing import Any

import torch
from torch import Tensor

from benchmarks.table import SIZES, WARM_UP_STEPS
from juzhen.core.errors import UserError
from juzhen.core.machine import describe_environment, lacks_bf16, peak_mib, processor_name, resident_mib

VARIABLE = "JUZHEN_BENCHMARK_DEVICE"
"""Of the environment, by which processes that are started know the device."""

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
Numbers = dict[str, Any]


def choose_device(name: str) -> None:
    """Sets the device of this process and of those it starts. Raises UserError where it is not there."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not available.get(name, True):
        raise UserError(f"--device {name}: torch sees no such device here. Leave the option out")
    os.environ[VARIABLE] = name


def device() -> str:
    return os.environ.get(VARIABLE, "cpu")


def wait() -> None:
    """Until a GPU has done what it was given: meanwhile the program goes on."""
    if device() != "cpu":
        getattr(torch, device()).synchronize()


def memory_mib(*, most: bool = False) -> float:
    """Memory in use, or the most that was: of the GPU (of Metal what its driver holds), else of this process."""
    if device() == "cuda":
        return (torch.cuda.max_memory_allocated() if most else torch.cuda.memory_allocated()) / 2**20
    if device() == "mps":
        return torch.mps.driver_allocated_memory() / 2**20
    return peak_mib() if most else resident_mib()


def describe_machine() -> Numbers:
    """Commit, device, threads, versions and the load before measuring; no host name and no path."""
    environment = describe_environment()
    names = ("git_commit", "git_dirty", "platform", "python", "cpu_cores", "packages")
    instructions = torch.backends.cpu.get_cpu_capability() + ("" if lacks_bf16() else ", bf16")
    environment["packages"] |= {"sentence-transformers": version("sentence-transformers")}
    return {name: environment[name] for name in names} | {
        "processor": f"{processor_name() or platform.processor() or 'unknown'}, {instructions}",
        "threads": torch.get_num_threads(),
        "load_before": round(os.getloadavg()[0], 2),
        "device": torch.cuda.get_device_name() if device() == "cuda" else device(),
    }


def alternate(turns: Mapping[Any, Callable[[int], Numbers]], rounds: int) -> dict[Any, list[Numbers]]:
    """What the turn of each side gives in each round, called with the number of the round.

    Every second round runs in the opposite order, so that no side profits from always coming first or last.
    """
    results: dict[Any, list[Numbers]] = {side: [] for side in turns}
    for number in range(rounds):
        for side in turns if number % 2 == 0 else reversed(list(turns)):
            results[side].append(turns[side](number))
    return results


def ratio(theirs: Sequence[float], ours: Sequence[float]) -> dict[str, float]:
    """theirs / ours round by round, median, lowest and highest: above 1, ours took less.

    >>> ratio([2.0, 3.0, 9.0], [1.0, 1.0, 3.0])
    {'ratio': 3.0, 'ratio_low': 2.0, 'ratio_high': 3.0}
    """
    ratios = [other / mine for other, mine in zip(theirs, ours, strict=True)]
    return {"ratio": statistics.median(ratios), "ratio_low": min(ratios), "ratio_high": max(ratios)}


def medians(
    results: Mapping[Any, list[Numbers]], cost: str, rival: Callable[[Any], Any]
) -> dict[Any, dict[str, float]]:
    """Side → the median over rounds of each number, and the ratio of the `cost` of its rival to its own."""
    costs = {side: [turn[cost] for turn in turns] for side, turns in results.items()}
    table = {}
    for side, turns in results.items():
        names = [name for name, value in turns[0].items() if isinstance(value, float)]
        table[side] = {name: statistics.median(turn[name] for turn in turns) for name in names}
        table[side] |= ratio(costs[rival(side)], costs[side])
    return table


def training_flops(lengths: Sequence[int], size: str) -> float:
    """Operations of matrix products, forward and backward, of a BERT on inputs of these lengths; an addition is one.

    A layer has 12·d² weights in linear layers, 2 operations a token; QKᵀ and its product with V take 4·d·L². Backward
    takes twice that.

    >>> training_flops([3], "tiny")
    224640.0
    """
    layers, width, _ = SIZES[size]
    return float(layers * (72 * width**2 * sum(lengths) + 12 * width * sum(length**2 for length in lengths)))


def matrix_gflops(precision: str) -> float:
    """GFLOP/s of plain matrix products here and now: the ceiling for a model in that precision."""
    rows, width = (3000, 1024) if device() == "cpu" else (16384, 8192)
    first, second = (torch.randn(n, width, dtype=DTYPES[precision], device=device()) for n in (rows, width))
    times = [0.0]
    while len(times) < 3 or times[-1] - times[1] < 0.3:  # the first product warms up
        first @ second
        wait()
        times.append(time.perf_counter())
    return 2 * rows * width**2 * (len(times) - 2) / (times[-1] - times[1]) / 1e9


def apart(function: Callable[..., Numbers], *arguments: Any) -> Numbers:
    """What the function returns in a process of its own, with `mib_peak`, the most memory of it.

    It loads what the modules of its arguments import. Raises MemoryError where the system kills it, as where memory
    runs out.
    """
    pool_options = (1, get_context("spawn"), torch.set_num_threads, (torch.get_num_threads(),))
    with ProcessPoolExecutor(*pool_options) as pool:
        try:
            numbers = pool.submit(function, *arguments).result()
            return numbers | {"mib_peak": round(pool.submit(memory_mib, most=True).result(), 1)}
        except BrokenProcessPool as error:
            raise MemoryError(f"{function.__name__} was killed") from error


class StepClock:
    """When each step came to the same point, and its loss. Losses are fetched at the end: fetching is waiting.

    before  MiB that were held when it was made
    """

    def __init__(self, num_steps: int) -> None:
        self.before = round(memory_mib(), 1)
        self.waits = (WARM_UP_STEPS - 1, num_steps - 1)  # between them a GPU is let alone
        self.times: list[float] = []
        self.tensors: list[Tensor] = []

    def record(self, loss: Tensor) -> None:
        if len(self.times) in self.waits:
            wait()
        self.times.append(time.perf_counter())
        self.tensors.append(loss.detach())

    @property
    def losses(self) -> list[float]:
        return [float(loss) for loss in self.tensors]

    def seconds(self, skipped: int = 1) -> float:
        """Of a step after the first ones: the median; on a GPU, where only their sum is known, the mean."""
        steps = [later - earlier for earlier, later in pairwise(self.times)][skipped - 1 :]
        return (statistics.median if device() == "cpu" else statistics.fmean)(steps)


def trained(train: Callable[..., StepClock], *work: Any) -> Numbers:
    """Numbers of a training in this process."""
    clock = train(*work, seed=0)
    return {"mib_before": clock.before, "seconds_per_step": clock.seconds()}
