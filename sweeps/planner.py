"""Planner of a sweep: skips finished cells, resumes interrupted ones and retries failed ones."""

import signal
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock

from juzhen.cli.program import on_sigterm
from juzhen.core.errors import MISTAKE_STATUS, UserError, command
from juzhen.core.result import Result, RunProgress
from juzhen.core.text import counted, time_in_words
from juzhen.evaluation.saved_run import missing_sets
from sweeps.ledger import Event, Ledger, SweepCell, is_at_work
from sweeps.runners import Attempt, Ended, Runner

LONGEST_LABEL = 60


def cell_labels(cells: Iterable[SweepCell]) -> dict[str, str]:
    """Return cell name → arguments that differ between cells.

    A cell keeps its name if these arguments are missing, too many or ambiguous.

    Args:
        cells: Cells of a sweep. Equal names count once.

    Returns:
        Name → label for a table. The label of a named row is the row with its seed.
    """
    cells = list({cell.name: cell for cell in cells}.values())
    shared = set.intersection(*(set(cell.words) for cell in cells)) if cells else set()
    labels = {cell.name: " ".join(word for word in cell.words if word not in shared) for cell in cells}
    for cell in cells:
        rows = [word.partition("=")[2].strip("\"'") for word in cell.words if word.startswith("sweep_row=")]
        if rows:
            seeds = [word for word in cell.words if word.startswith("seed=")]
            labels[cell.name] = " ".join([*rows, *seeds])
    values = list(labels.values())
    return {
        name: label if label and len(label) <= LONGEST_LABEL and values.count(label) == 1 else name
        for name, label in labels.items()
    }


def dev_score(cell: SweepCell) -> float | None:
    """Return the best dev score of a finished cell.

    Args:
        cell: A cell with a Result.

    Returns:
        A score, not multiplied by 100. None without a score or a readable Result.
    """
    try:
        training = Result.read(cell.run_dir).training
    except Exception:  # whatever is wrong with it, the table of results says so
        return None
    scores = [value for key, value in training.items() if key.startswith("best_dev_")]
    return next((float(score) for score in scores if isinstance(score, int | float)), None)


def progress_words(progress: RunProgress | None) -> str:
    """Describe the progress, such as `training on csts 120/400`.

    Args:
        progress: State of a running cell. None: "".

    Returns:
        Text with thousands separators.
    """
    return "" if progress is None else f"{progress.work} {progress.done:,}/{progress.total:,}"


def share_done(progress: RunProgress | None) -> float:
    """Compute the finished share of a training.

    Args:
        progress: State of a running cell. None: not begun.

    Returns:
        A fraction: 0 before and 1 after the training.
    """
    if progress is None or not progress.total:
        return 0.0
    if progress.work.startswith("training"):
        return min(1.0, progress.done / progress.total)
    return 0.0 if progress.work.endswith("before training") else 1.0


def percent(score: float | None) -> str:
    """Format a score ×100 with one digit.

    Args:
        score: A score from −1 to 1. None: "".

    Returns:
        Text such as `81.2`.
    """
    return "" if score is None else f"{100 * score:.1f}"


def seconds_left(
    finished: Sequence[float], running: Sequence[tuple[float, float]], waiting: int, *, jobs: int
) -> float | None:
    """Estimate the remaining seconds of a sweep. None before an estimate is possible.

    Args:
        finished: Seconds of each finished cell.
        running: Seconds and finished share of each running cell.
        waiting: Number of cells that have not begun.
        jobs: Number of concurrent cells.

    Returns:
        Seconds. None before an estimate is possible, or with nothing left.
    """
    seconds = list(finished) or [worked / share for worked, share in running if share > 0.01]
    if not seconds or not (running or waiting):
        return None
    mean = sum(seconds) / len(seconds)
    return mean * (waiting + sum(1 - share for _, share in running)) / max(1, jobs)


@dataclass
class CellAttempt:
    """A cell and its attempts in this sweep.

    Args:
        cell: The cell.
        attempts: Number of attempts.
        attempt: The running one, or None.
        claim: Lock of a running cell against other sweeps.
    """

    cell: SweepCell
    attempts: int = 0
    attempt: Attempt | None = None
    claim: FileLock | None = None

    @property
    def seconds(self) -> float:
        return round(time.monotonic() - self.attempt.since, 2)


@dataclass
class Summary:
    """Summary of a sweep.

    Args:
        finished, skipped: Cells by outcome.
        failed: Failed cell → its error.
    """

    finished: list[SweepCell] = field(default_factory=list)
    skipped: list[SweepCell] = field(default_factory=list)
    failed: dict[SweepCell, str] = field(default_factory=dict)


class Planner:
    """One sweep over `cells`.

    Args:
        cells: Cells of the sweep. Equal names count once.
        ledger: Ledger in the folder of the sweep.
        runner: Runner of the cells.
        attempts: Maximal number of attempts per cell, in this sweep.
        report: Called with each line for the user.
        watch: Called repeatedly with the planner, to show the progress.
    """

    def __init__(
        self,
        cells: Iterable[SweepCell],
        ledger: Ledger,
        runner: Runner,
        *,
        attempts: int,
        report: Callable[[str], None],
        watch: "Callable[[Planner], None]" = lambda planner: None,
    ) -> None:
        self.cells = list({cell.name: cell for cell in cells}.values())
        self.ledger = ledger
        self.runner = runner
        self.attempts = attempts
        self.report = report
        self.watch = watch
        self.seconds: dict[str, float] = {}
        self.waiting: list[CellAttempt] = []
        self.running: list[CellAttempt] = []
        self.summary = Summary()

    def run(self) -> Summary:
        """Run all cells. On SIGTERM and Ctrl-C the running cells save their progress.

        Returns:
            Finished, skipped and failed cells.
        """
        self._plan()
        before = signal.signal(signal.SIGTERM, on_sigterm)
        try:
            while self._fill() or self.waiting or self.running:
                if not self._start_next():
                    time.sleep(self.runner.poll_seconds)
                self._reap()
                self.watch(self)
        finally:
            signal.signal(signal.SIGTERM, before)
            self._stop_all()
            self.runner.close()
        return self.summary

    def _plan(self) -> None:
        sizes = {"cells": len(self.cells), "jobs": self.runner.capacity()}
        self.ledger.plan(self.cells, (Event.SWEEP, sizes))
        done = sum(cell.finished for cell in self.cells)
        self.report(
            f"{counted(len(self.cells), 'runs')}, {done} of them finished already; {self.runner.describe()}"
        )
        if line := late_columns_line(self.cells):
            self.report(line)
        self.waiting = [CellAttempt(cell) for cell in self.cells]

    def _fill(self) -> bool:
        """Add turns while there is room. A search adds its cells one by one."""
        return False

    def _start_next(self) -> bool:
        """Start the first possible cell if there is room. True if anything advanced."""
        if len(self.running) >= self.runner.capacity():
            return False
        for turn in self.waiting:
            if turn.cell.finished:
                self.waiting.remove(turn)
                self.summary.skipped.append(turn.cell)
                return True
            claim = self.ledger.claim(turn.cell)
            if claim is None:
                continue  # another sweep is at it
            if turn.cell.finished or is_at_work(turn.cell):
                claim.release()  # its sweep was killed, and it is saving what it has, or runs on in a cluster
                continue
            self.waiting.remove(turn)
            self._begin(turn, claim)
            return True
        return False

    def _begin(self, turn: CellAttempt, claim: FileLock) -> None:
        log = self.ledger.log_of(turn.cell)
        log.parent.mkdir(parents=True, exist_ok=True)
        turn.attempt = self.runner.start(turn.cell, log)
        turn.claim = claim
        turn.attempts += 1
        self.running.append(turn)
        begins = self.runner.begins
        self.ledger.add(begins, cell=turn.cell.name, attempt=turn.attempts, **turn.attempt.facts)
        self.report(f"{self._count()} {turn.cell.name}: {begins}")

    def _reap(self) -> None:
        for turn in list(self.running):
            ended = turn.attempt.poll()
            if ended is not None:
                self.running.remove(turn)
                self._end(turn, ended)
                turn.claim.release()

    def _end(self, turn: CellAttempt, ended: Ended) -> None:
        cell, name = turn.cell, turn.cell.name
        if cell.finished:
            self.ledger.add(Event.FINISHED, cell=name, seconds=turn.seconds)
            self.summary.finished.append(cell)
            self.seconds[name] = turn.seconds
            score = dev_score(cell)
            reached = "" if score is None else f", dev {percent(score)}"
            self.report(f"{self._count()} {name}: finished in {time_in_words(turn.seconds)}{reached}")
            return
        if is_at_work(cell):  # a job that a killed sweep had left in the queue was faster
            turn.attempts -= 1
            self.waiting.append(turn)
            return
        error = ended.error or "ended without a result"
        if not ended.error and ended.status:
            error = (
                _last_line(self.ledger.log_of(cell))
                if ended.status > 0
                else f"ended by signal {-ended.status}"
            )
        self.ledger.add(Event.FAILED, cell=name, seconds=turn.seconds, status=ended.status, error=error)
        if ended.status == MISTAKE_STATUS:
            outlook = "; the same command would fail again"
        else:
            outlook = "; it will be tried again" if turn.attempts < self.attempts else ""
        self.report(f"{name}: failed ({error}){outlook}")
        if turn.attempts < self.attempts and ended.status != MISTAKE_STATUS:
            self.waiting.append(turn)
        else:
            self.summary.failed[cell] = error

    def _count(self) -> str:
        done = len(self.summary.finished) + len(self.summary.skipped) + len(self.summary.failed)
        return f"[{done}/{len(self.cells)}]"

    def _stop_all(self) -> None:
        """End the running cells, or leave them to their cluster. A completed sweep has none."""
        if not self.running:
            return
        if self.runner.stop([turn.attempt for turn in self.running], self.report):
            for turn in self.running:
                self.ledger.add(Event.STOPPED, cell=turn.cell.name, seconds=turn.seconds)
        for turn in self.running:
            turn.claim.release()


def _last_line(log: Path) -> str:
    """Return the last printed line of a program: its error, if it is one of juzhen's."""
    text = log.read_bytes()[-8192:].decode(errors="replace") if log.exists() else ""
    printed = [line.strip() for line in text.splitlines() if line.strip()]
    return printed[-1][:300] if printed else "it printed nothing"


def late_columns_line(cells: Iterable[SweepCell]) -> str | None:
    """Make the command for finished cells whose evaluation split got its file later.

    Args:
        cells: Cells of a sweep. Unfinished ones do not count.

    Returns:
        One line. None if no cell lacks a column.
    """

    def lacks(cell: SweepCell) -> bool:
        try:
            return cell.finished and bool(missing_sets(Result.read(cell.run_dir)))
        except (UserError, OSError, KeyError):
            return False  # the commands that read this result, or that file, say what is wrong with it

    lacking = [cell for cell in cells if lacks(cell)]
    if not lacking:
        return None
    lead = "1 finished run lacks" if len(lacking) == 1 else f"{len(lacking)} finished runs lack"
    line = command("juzhen", "evaluate", Path(lacking[0].run_dir).parent)
    return f"{lead} columns whose files are there now: {line}"
