"""Runs the cells of a sweep as processes: finished ones are skipped, interrupted ones go on, failed ones come again."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from sweeps.ledger import Cell, Event, History, Ledger
from sweeps.machine import Machine
from sweeps.processes import dies_with_parent, end_group, is_running, last_words, program_environment, stop

POLL_SECONDS = 0.1


@dataclass
class Turn:
    """A cell and how often it has been tried in this sweep."""

    cell: Cell
    attempts: int = 0


@dataclass
class Running:
    """A cell at work in a slot of the machine; `claim` keeps other sweeps away."""

    turn: Turn
    process: subprocess.Popen
    claim: ExitStack
    since: float


@dataclass(frozen=True)
class Summary:
    """How a sweep ended: cells by what became of them, and error and log of each that failed."""

    finished: list[Cell]
    skipped: list[Cell]
    failed: dict[Cell, str]


class Planner:
    """One sweep over `cells`.

    program   the command line that a cell's words are added to
    attempts  how often a cell is tried at most, in this sweep
    report    is called with each line that a person may want to read
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        ledger: Ledger,
        machine: Machine,
        *,
        program: Sequence[str],
        attempts: int,
        report: Callable[[str], None],
    ) -> None:
        self.cells = list({cell.name: cell for cell in cells}.values())
        self.ledger = ledger
        self.machine = machine
        self.program = list(program)
        self.attempts = attempts
        self.report = report
        self.running: dict[int, Running] = {}
        self.finished: list[Cell] = []
        self.skipped: list[Cell] = []
        self.failed: dict[Cell, str] = {}
        self.seconds: list[float] = []

    def run(self) -> Summary:
        """Returns when nothing is left to do. On SIGTERM and Ctrl-C the cells at work save what they have."""
        self._plan()
        self.waiting = [Turn(cell) for cell in self.cells]
        before = signal.signal(signal.SIGTERM, _exit)
        try:
            while self.waiting or self.running:
                self._reap()
                if not self._start_next():
                    time.sleep(POLL_SECONDS)
        finally:
            signal.signal(signal.SIGTERM, before)
            self._stop_all()
        return Summary(self.finished, self.skipped, self.failed)

    def _plan(self) -> None:
        known = self.ledger.histories()
        planned = [
            (Event.PLANNED, {"run_dir": cell.run_dir, "words": list(cell.words), "devices": cell.devices})
            for cell in self.cells
            if cell.name not in known
        ]
        sizes = {"cells": len(self.cells), "jobs": self.machine.jobs}
        self.ledger.add_all([(Event.SWEEP, sizes), *planned])
        done = sum(cell.finished for cell in self.cells)
        self.report(
            f"{len(self.cells)} cells, {done} of them finished already; {self.machine.jobs} at a time, "
            f"{self.machine.threads} threads each"
        )

    def _start_next(self) -> bool:
        """Starts the first cell that can be, in a free slot; true if something came forward."""
        free = [slot for slot in range(self.machine.jobs) if slot not in self.running]
        if not free:
            return False
        for turn in self.waiting:
            if turn.cell.finished:
                self.waiting.remove(turn)
                self.skipped.append(turn.cell)
                return True
            with ExitStack() as claim:
                if not claim.enter_context(self.ledger.claim(turn.cell)):
                    continue  # another sweep is at it
                if turn.cell.finished or _orphan(self.ledger.histories().get(turn.cell.name)):
                    continue  # an orphan's sweep was killed, and it is saving what it has
                self.waiting.remove(turn)
                self._start(turn, free[0], claim.pop_all())
                return True
        return False

    def _start(self, turn: Turn, slot: int, claim: ExitStack) -> None:
        log = self.ledger.log_of(turn.cell)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            process = subprocess.Popen(
                [*self.program, *turn.cell.words, "resume=auto", "logger.progress=false"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=program_environment() | self.machine.environment(slot),
                start_new_session=True,  # Ctrl-C is for the sweep, which then asks its cells to save
                preexec_fn=dies_with_parent(),
            )
        turn.attempts += 1
        self.running[slot] = Running(turn, process, claim, time.monotonic())
        self.ledger.add(Event.STARTED, cell=turn.cell.name, process=process.pid, attempt=turn.attempts)
        self.report(f"{self._count()} {turn.cell.name}: started")

    def _reap(self) -> None:
        for slot, one in list(self.running.items()):
            status = one.process.poll()
            if status is None:
                continue
            del self.running[slot]
            end_group(one.process.pid)
            with one.claim:
                self._end(one, status, time.monotonic() - one.since)

    def _end(self, one: Running, status: int, seconds: float) -> None:
        turn, name = one.turn, one.turn.cell.name
        if status == 0 and turn.cell.finished:
            self.ledger.add(Event.FINISHED, cell=name, seconds=round(seconds, 2))
            self.finished.append(turn.cell)
            self.seconds.append(seconds)
            self.report(f"{self._count()} {name}: finished in {spoken(seconds)}{self._left()}")
            return
        error = last_words(self.ledger.log_of(turn.cell)) if status > 0 else f"ended by signal {-status}"
        if status == 0:
            error = "ended without a result"
        self.ledger.add(Event.FAILED, cell=name, seconds=round(seconds, 2), status=status, error=error)
        again = turn.attempts < self.attempts
        self.report(f"{name}: failed ({error}){'; it will be tried again' if again else ''}")
        if again:
            self.waiting.append(turn)
        else:
            self.failed[turn.cell] = error

    def _count(self) -> str:
        done = len(self.finished) + len(self.skipped) + len(self.failed)
        return f"[{done}/{len(self.cells)}]"

    def _left(self) -> str:
        left = len(self.waiting) + len(self.running)
        if not left:
            return ""
        mean = sum(self.seconds) / len(self.seconds)
        return f", about {spoken(mean * left / self.machine.jobs)} left"

    def _stop_all(self) -> None:
        """Asks the cells that are at work to save and end; none are when the sweep ended by itself."""
        if self.running:
            self.report(f"stopping; {len(self.running)} cells save what they have")
        for one in self.running.values():
            one.process.send_signal(signal.SIGTERM)
        for one in self.running.values():
            with one.claim:
                stop(one.process)
                seconds = round(time.monotonic() - one.since, 2)
                self.ledger.add(Event.STOPPED, cell=one.turn.cell.name, seconds=seconds)
        self.running.clear()


def spoken(seconds: float) -> str:
    """A length of time in the unit that suits it.

    >>> spoken(41.2), spoken(400), spoken(9000)
    ('41 s', '7 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _orphan(history: History | None) -> bool:
    """A process of an earlier sweep is still at work on the cell."""
    if history is None or history.last is not Event.STARTED or history.process is None:
        return False
    return is_running(history.process, history.host)


def _exit(signum: int, frame: object) -> None:
    raise SystemExit(128 + signum)


def show(line: str) -> None:
    """To the terminal at once, also where stdout is a file."""
    print(line, file=sys.stderr, flush=True)
