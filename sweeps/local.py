"""Cells as processes of this machine, which share its threads and GPUs, and the interface of all runners."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from juzhen.core.machine import cuda_devices, num_cores
from juzhen.core.text import counted
from sweeps.ledger import Event, SweepCell
from sweeps.node import start

OF_A_CELL = ("resume=auto",)
"""Words that every cell is given, wherever it runs. Its progress goes into its log, as plain lines."""

CORES_PER_CELL = 4
"""Where nothing is said, so many cores are taken to be worth a cell of its own."""

SECONDS_TO_SAVE = 120.0
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")


class Ended(NamedTuple):
    """End of an attempt: exit status (negative: signal), and a message for failures missing in the log."""

    status: int
    error: str = ""


class Attempt(Protocol):
    """One try of a cell and its start time. `facts` go into the ledger when it begins."""

    facts: Mapping[str, Any]
    since: float

    def poll(self) -> Ended | None: ...


class Runner(Protocol):
    """Interface of a runner of cells, on this machine or a cluster.

    Attributes:
        begins: Event of a start: STARTED, or SUBMITTED if a cluster starts it later.
        poll_seconds: Seconds between two checks of the cells.
        capacity: Current maximum of concurrent cells.
        start: Start an attempt. Append its output to `log`.
        stop: End the sweep early. True: the cells have saved and ended. False: they continue without the
            sweep.
    """

    begins: Event
    poll_seconds: float

    def capacity(self) -> int: ...
    def describe(self) -> str: ...
    def start(self, cell: SweepCell, log: Path) -> Attempt: ...
    def stop(self, running: Sequence[Attempt], report: Callable[[str], None]) -> bool: ...
    def close(self) -> None: ...


class LocalAttempt:
    def __init__(self, process: subprocess.Popen, slot: int) -> None:
        self.process = process
        self.slot = slot
        self.facts = {"process": process.pid}
        self.since = time.monotonic()

    def poll(self) -> Ended | None:
        status = self.process.poll()
        if status is None:
            return None
        # Further devices wait for ever for a first one that was killed.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        return Ended(status)


class LocalRunner:
    """Runs `program` with the arguments of each cell as processes, which share threads and GPUs.

    Args:
        jobs: Number of concurrent cells. None: one per share of GPUs if cells request them, else one for
            every 4 cores.
        threads: CPU threads of each. None: OMP_NUM_THREADS, else the cores divided by `jobs`.
        gpus: Numbers as in CUDA_VISIBLE_DEVICES. None: all visible GPUs.
        devices: Number of GPUs that each cell requests. 0: none.
    """

    begins = Event.STARTED
    poll_seconds = 0.1

    def __init__(
        self,
        program: Sequence[str],
        *,
        jobs: int | None,
        threads: int | None,
        gpus: Sequence[int | str] | None,
        devices: int,
    ) -> None:
        self.program = list(program)
        self.devices = devices
        self.gpus = [str(gpu) for gpu in (visible_gpus() if gpus is None else gpus)] if devices else []
        cores = num_cores()
        if jobs is None:
            jobs = len(self.gpus) // devices if self.gpus else cores // CORES_PER_CELL
        self.jobs = max(1, jobs)
        limit = os.environ.get("OMP_NUM_THREADS", "")
        share = max(1, cores // self.jobs)
        self.threads = threads or (min(int(limit), share) if limit.isdigit() else share)
        self.running: list[LocalAttempt] = []

    def environment(self, slot: int) -> dict[str, str]:
        """Return the environment variables for threads and GPUs of the process in a slot, counted from 0."""
        variables = thread_variables(self.threads)
        if self.gpus:
            first = slot * self.devices
            mine = [self.gpus[(first + number) % len(self.gpus)] for number in range(self.devices)]
            variables["CUDA_VISIBLE_DEVICES"] = ",".join(dict.fromkeys(mine))
        return variables

    def capacity(self) -> int:
        return self.jobs

    def describe(self) -> str:
        return f"{self.jobs} at a time, {self.threads} threads each"

    def start(self, cell: SweepCell, log: Path) -> LocalAttempt:
        self.running = [attempt for attempt in self.running if attempt.process.poll() is None]
        taken = {attempt.slot for attempt in self.running}
        slot = next(slot for slot in range(len(taken) + 1) if slot not in taken)
        environment = program_environment() | self.environment(slot)
        process = start([*self.program, *cell.words, *OF_A_CELL], str(log), environment)
        self.running.append(LocalAttempt(process, slot))
        return self.running[-1]

    def stop(self, running: Sequence[LocalAttempt], report: Callable[[str], None]) -> bool:
        report(f"stopping; {counted(len(running), 'runs save what they have', 'run saves what it has')}")
        for attempt in running:
            attempt.process.terminate()
        for attempt in running:
            try:
                attempt.process.wait(SECONDS_TO_SAVE)
            except subprocess.TimeoutExpired:
                attempt.process.kill()
                attempt.process.wait()
        return True

    def close(self) -> None:
        """Release nothing."""


def program_environment() -> dict[str, str]:
    """Return the environment without the variable that `launch.cli` sets for its process."""
    return {name: value for name, value in os.environ.items() if name != "HYDRA_FULL_ERROR"}


def thread_variables(threads: int) -> dict[str, str]:
    return dict.fromkeys(THREAD_VARIABLES, str(threads))


def visible_gpus() -> list[str]:
    """Return the GPUs visible to a process here, by their names in CUDA_VISIBLE_DEVICES."""
    variable = os.environ.get("CUDA_VISIBLE_DEVICES")
    if variable is not None:
        return [gpu for gpu in variable.split(",") if gpu.strip()]
    return [str(number) for number in range(cuda_devices())]
