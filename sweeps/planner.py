"""Runs the cells of a sweep: finished ones are skipped, interrupted ones go on, failed ones come again."""

import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from juzhen.core.commands import command
from juzhen.core.errors import MISTAKE_STATUS, UserError
from juzhen.core.result import Result
from juzhen.core.texts import time_in_words
from juzhen.evaluation.finished import missing_sets
from sweeps.backends.interface import Backend, Ended, Work
from sweeps.ledger import Cell, Event, Ledger
from sweeps.processes import last_words


@dataclass
class Turn:
    """A cell and how often it has been tried in this sweep."""

    cell: Cell
    attempts: int = 0


@dataclass
class Running:
    """A cell at work; `claim` keeps other sweeps away."""

    turn: Turn
    work: Work
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

    backend   where cells run
    attempts  how often a cell is tried at most, in this sweep
    report    is called with each line that a person may want to read
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        ledger: Ledger,
        backend: Backend,
        *,
        attempts: int,
        report: Callable[[str], None],
    ) -> None:
        self.cells = list({cell.name: cell for cell in cells}.values())
        self.ledger = ledger
        self.backend = backend
        self.attempts = attempts
        self.report = report
        self.running: list[Running] = []
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
                    time.sleep(self.backend.poll_seconds)
        finally:
            signal.signal(signal.SIGTERM, before)
            self._stop_all()
            self.backend.close()
        return Summary(self.finished, self.skipped, self.failed)

    def _plan(self) -> None:
        sizes = {"cells": len(self.cells), "jobs": self.backend.capacity()}
        self.ledger.plan(self.cells, (Event.SWEEP, sizes))
        done = sum(cell.finished for cell in self.cells)
        self.report(f"{len(self.cells)} cells, {done} of them finished already; {self.backend.describe()}")
        if (line := late_columns_line(self.cells)) is not None:
            self.report(line)

    def _start_next(self) -> bool:
        """Starts the first cell that can be, where there is room; true if something came forward."""
        if len(self.running) >= self.backend.capacity():
            return False
        for turn in self.waiting:
            if turn.cell.finished:
                self.waiting.remove(turn)
                self.skipped.append(turn.cell)
                return True
            with ExitStack() as claim:
                if not claim.enter_context(self.ledger.claim(turn.cell)):
                    continue  # another sweep is at it
                left = None if turn.cell.finished else self.backend.adopt(turn.cell)
                if turn.cell.finished or (left is None and self._is_busy(turn.cell)):
                    continue  # its sweep was killed, and it is saving what it has
                self.waiting.remove(turn)
                self._begin(turn, left, claim.pop_all())
                return True
        return False

    def _is_busy(self, cell: Cell) -> bool:
        if self.ledger.is_at_work(cell):
            return True
        return self.backend.is_busy(cell, self.ledger.histories().get(cell.name))

    def _begin(self, turn: Turn, left: Work | None, claim: ExitStack) -> None:
        """Starts a cell, or takes over what an earlier sweep has left."""
        name, work, done = turn.cell.name, left, "is at work already, and is waited for"
        with ExitStack() as undo:
            undo.push(claim)  # it is given back when the start is refused
            turn.attempts += 1
            if work is None:
                log = self.ledger.log_of(turn.cell)
                log.parent.mkdir(parents=True, exist_ok=True)
                work, done = self.backend.start(turn.cell, log), str(self.backend.begins)
            self.running.append(Running(turn, work, claim, time.monotonic()))
            undo.pop_all()
        if left is None:
            self.ledger.add(self.backend.begins, cell=name, attempt=turn.attempts, **work.facts)
        self.report(f"{self._count()} {name}: {done}")

    def _reap(self) -> None:
        for one in list(self.running):
            ended = one.work.poll()
            if ended is None:
                continue
            self.running.remove(one)
            with one.claim:
                self._end(one, ended, self._seconds(one))

    def _seconds(self, one: Running) -> float:
        """How long the cell was at work; in a cluster that is not how long it has been submitted."""
        if self.backend.begins is Event.STARTED:
            return time.monotonic() - one.since
        history = self.ledger.histories()[one.turn.cell.name]
        if history.last is not Event.STARTED:
            return 0.0
        return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(history.at)).total_seconds())

    def _end(self, one: Running, ended: Ended, seconds: float) -> None:
        turn, name, status = one.turn, one.turn.cell.name, ended.status
        if status == 0 and turn.cell.finished:
            self.ledger.add(Event.FINISHED, cell=name, seconds=round(seconds, 2))
            self.finished.append(turn.cell)
            self.seconds.append(seconds)
            self.report(f"{self._count()} {name}: finished in {time_in_words(seconds)}{self._left()}")
            return
        error = ended.error
        if not error and status:
            error = last_words(self.ledger.log_of(turn.cell)) if status > 0 else f"ended by signal {-status}"
        error = error or "ended without a result"
        self.ledger.add(Event.FAILED, cell=name, seconds=round(seconds, 2), status=status, error=error)
        is_final = status == MISTAKE_STATUS
        again = turn.attempts < self.attempts and not is_final
        outlook = (
            "; it will be tried again" if again else "; the same command would fail again" if is_final else ""
        )
        self.report(f"{name}: failed ({error}){outlook}")
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
        at_a_time = max(1, min(left, self.backend.capacity()))
        return f", about {time_in_words(mean * left / at_a_time)} left"

    def _stop_all(self) -> None:
        """Ends the cells that are at work, or leaves them to their cluster; none are when the sweep ended by itself."""
        if not self.running:
            return
        ended = self.backend.stop([one.work for one in self.running], self.report)
        for one in self.running:
            name = one.turn.cell.name
            with one.claim:
                # A cell of a cluster has told itself that it stopped, unless it never began.
                if ended and self.ledger.histories()[name].last in (Event.STARTED, Event.SUBMITTED):
                    self.ledger.add(Event.STOPPED, cell=name, seconds=round(self._seconds(one), 2))
        self.running.clear()


def _exit(signum: int, frame: object) -> None:
    raise SystemExit(128 + signum)


def show(line: str) -> None:
    """To the terminal at once, also where stdout is a file."""
    print(line, file=sys.stderr, flush=True)


def has_late_columns(cell: Cell) -> bool:
    """An evaluation split of a finished cell had no file and now has one; no file of rows is opened."""
    try:
        return bool(missing_sets(Result.read(cell.run_dir)))
    except (UserError, OSError, KeyError):
        return False  # the commands that read this result, or that file, say what is wrong with it


def late_columns_line(cells: Iterable[Cell]) -> str | None:
    """What to type for the finished ones among `cells` that lack something; None when there are none."""
    lacking = [cell for cell in cells if cell.finished and has_late_columns(cell)]
    if not lacking:
        return None
    folder = Path(lacking[0].run_dir).parent
    which = "1 finished cell lacks" if len(lacking) == 1 else f"{len(lacking)} finished cells lack"
    return f"{which} columns whose files are there now: {command('juzhen', 'evaluate', folder)}"
