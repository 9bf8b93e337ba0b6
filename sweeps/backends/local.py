"""Cells as processes of this machine."""

import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from sweeps.backends.interface import Backend, Ended
from sweeps.ledger import Cell, Event, History
from sweeps.machine import Machine
from sweeps.processes import end_group, is_running, program_environment, start, stop

OF_A_CELL = ("resume=auto", "logger.progress=false")
"""Words that every cell is given, wherever it runs."""


class LocalWork:
    def __init__(self, process: subprocess.Popen, slot: int) -> None:
        self.process = process
        self.slot = slot
        self.facts = {"process": process.pid}

    def poll(self) -> Ended | None:
        status = self.process.poll()
        if status is None:
            return None
        end_group(self.process.pid)
        return Ended(status)


class LocalBackend(Backend):
    """Processes that share out threads and GPUs as `machine` says; each is `program` and the words of its cell."""

    begins = Event.STARTED
    poll_seconds = 0.1

    def __init__(self, program: Sequence[str], machine: Machine) -> None:
        self.program = list(program)
        self.machine = machine
        self.works: list[LocalWork] = []

    def capacity(self) -> int:
        return self.machine.jobs

    def describe(self) -> str:
        return f"{self.machine.jobs} at a time, {self.machine.threads} threads each"

    def start(self, cell: Cell, log: Path) -> LocalWork:
        self.works = [work for work in self.works if work.process.poll() is None]
        taken = {work.slot for work in self.works}
        slot = next(slot for slot in range(len(taken) + 1) if slot not in taken)
        environment = program_environment() | self.machine.environment(slot)
        work = LocalWork(start([*self.program, *cell.words, *OF_A_CELL], log, environment), slot)
        self.works.append(work)
        return work

    def is_busy(self, cell: Cell, history: History | None) -> bool:
        """A process of a sweep that was killed is saving what it has: the kernel has asked it to end."""
        if history is None or history.last is not Event.STARTED or history.process is None:
            return False
        return is_running(history.process, history.host)

    def stop(self, works: Sequence[LocalWork], report: Callable[[str], None]) -> bool:
        report(f"stopping; {len(works)} cells save what they have")
        for work in works:
            work.process.send_signal(signal.SIGTERM)
        for work in works:
            stop(work.process)
        return True
