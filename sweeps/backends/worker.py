"""Runs a cell on a node of a cluster: `python -m sweeps.backends.worker <output_dir> <run_dir> <command …>`.

What Slurm or Ray start is this program, and this program starts the cell. So a cell is always held by somebody who lets
no second one begin, tells the ledger where it is, hands a request to end on to it, and leaves nothing behind.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from sweeps.ledger import Cell, Event, Ledger
from sweeps.processes import SECONDS_TO_SAVE, die_with_parent, end_group, program_environment, start

OF_THE_CLUSTER = ("SLURM_", "SUBMITIT_", "RAY_")
"""Variables that a cell must not see: Lightning would take the job of one cell for a training over several tasks."""


class Worker:
    """One attempt at one cell, from waiting for a free cell to the end of its process."""

    def __init__(self, ledger: Ledger, cell: Cell, command: Sequence[str]) -> None:
        self.ledger = ledger
        self.cell = cell
        self.command = list(command)
        self.process: subprocess.Popen | None = None
        self.asked: float | None = None

    def run(self) -> int:
        """Exit status of the cell; 128 and the signal where one ended it."""
        signal.signal(signal.SIGTERM, self._end)
        with self.ledger.work(self.cell) as lock:
            if self.cell.finished:
                return 0
            if self.asked is not None:
                return 128 + signal.SIGTERM
            began = time.monotonic()
            status = self._attempt(lock)
        if status < 0:
            with self.ledger.log_of(self.cell).open("a", encoding="utf-8") as log:
                log.write(f"ended by signal {-status}\n")
            status = 128 - status
        if self.asked is not None and status:
            self.ledger.add(Event.STOPPED, cell=self.cell.name, seconds=round(time.monotonic() - began, 2))
        return status

    def _attempt(self, lock: int) -> int:
        inherited = program_environment().items()
        environment = {name: value for name, value in inherited if not name.startswith(OF_THE_CLUSTER)}
        # The cell holds the lock, too: it is busy until both have ended.
        self.process = start(self.command, self.ledger.log_of(self.cell), environment, kept=[lock])
        if self.asked is not None:
            self.process.terminate()
        self.ledger.add(Event.STARTED, cell=self.cell.name, process=self.process.pid)
        while (status := self.process.poll()) is None:
            if self.asked is not None and time.monotonic() - self.asked > SECONDS_TO_SAVE:
                self.process.kill()
            time.sleep(0.1)
        end_group(self.process.pid)
        return status

    def _end(self, signum: int, frame: object) -> None:
        self.asked = self.asked or time.monotonic()
        if self.process is not None:
            self.process.terminate()


def command_for(ledger: Ledger, cell: Cell, command: Sequence[str]) -> list[str]:
    """The command line of a worker of `command`; absolute, since nodes may start anywhere."""
    folders = [str(folder.resolve()) for folder in (ledger.folder.parent, Path(cell.run_dir))]
    return [sys.executable, "-m", "sweeps.backends.worker", *folders, *command]


def main(arguments: Sequence[str]) -> int:
    die_with_parent(int(os.environ.pop("ATTENDED_BY", "0")))
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)  # submitit's, and sent to every process of a job
    folder, run_dir, *command = arguments
    return Worker(Ledger(folder), Cell(run_dir, ()), command).run()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
