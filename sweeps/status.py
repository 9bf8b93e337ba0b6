"""Progress of sweeps: the live display of a running one, and `juzhen status` from ledgers and results."""

import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from juzhen.core.errors import UserError
from juzhen.core.progress import console_table, is_live, terminal
from juzhen.core.result import RunProgress
from juzhen.core.text import counted, time_in_words
from sweeps.ledger import Event, History, Ledger, is_at_work
from sweeps.planner import (
    Planner,
    cell_labels,
    dev_score,
    late_columns_line,
    percent,
    progress_words,
    seconds_left,
    share_done,
)

WATCH_SECONDS = 5.0
COLUMNS = ("state", "run", "progress", "dev", "tried", "time", "error")


class State(StrEnum):
    RUNNING = "running"
    QUEUED = "queued"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    WAITING = "waiting"
    PRUNED = "pruned"
    FINISHED = "finished"


@dataclass(frozen=True)
class Status:
    """Every planned cell below a folder, with its state.

    Args:
        cells: History and state of each cell.
        jobs: Number of concurrent cells in the latest sweep.
        late_columns: Command for finished cells that lack a column whose file has arrived since. None without
            any.
    """

    cells: list[tuple[History, State]]
    jobs: int
    late_columns: str | None = None

    def count(self, state: State) -> int:
        """Count the cells in a state.

        Args:
            state: The state.

        Returns:
            Number of cells.
        """
        return sum(cell_state is state for _, cell_state in self.cells)

    @property
    def seconds_left(self) -> float | None:
        """Estimate by the mean of finished cells, else by the progress of running ones. None without any."""
        finished, running, waiting = [], [], 0
        for history, state in self.cells:
            if state is State.FINISHED:
                finished += [history.seconds] if history.seconds else []
            elif state is State.RUNNING:
                running.append((at_work(history), share_done(RunProgress.read(history.cell.run_dir))))
            else:
                waiting += state is not State.PRUNED
        return seconds_left(finished, running, waiting, jobs=self.jobs)


def read_status(folder: str | Path) -> Status:
    """Read the status of the sweeps of a folder.

    Args:
        folder: Folder with the runs of sweeps and their ledger.

    Returns:
        The status.

    Raises:
        UserError: Nothing was ever planned there.
    """
    ledger = Ledger(folder)
    histories = list(ledger.histories().values())
    if not histories:
        raise UserError(
            f"{folder}: no sweep was planned here. Plan one by python train.py -m sweep=transfer_matrix"
        )
    cells = [(history, _state_of(history, ledger)) for history in histories]
    jobs = [event["jobs"] for event in ledger.events() if isinstance(event.get("jobs"), int)]
    return Status(cells, max([1, *jobs[-1:]]), late_columns_line(history.cell for history in histories))


def _state_of(history: History, ledger: Ledger) -> State:
    """Return the state of a cell. A result or a claim decides. Only without both does the ledger decide."""
    cell, last = history.cell, history.last
    if cell.finished:
        return State.FINISHED
    if last is Event.SUBMITTED:
        return State.QUEUED
    if ledger.is_claimed(cell) or (last is Event.STARTED and is_at_work(cell)):
        return State.RUNNING
    return {Event.FAILED: State.FAILED, Event.PRUNED: State.PRUNED, Event.PLANNED: State.WAITING}.get(
        last, State.INTERRUPTED
    )


def to_console(status: Status) -> Group:
    """Return a line of counts, and a row for each unfinished cell.

    Args:
        status: Result of `read_status`.

    Returns:
        Renderable of rich.
    """
    rows = []
    order = list(State)
    labels = cell_labels(history.cell for history, _ in status.cells)
    for history, state in sorted(status.cells, key=lambda cell: order.index(cell[1])):
        if state is State.FINISHED:
            continue
        seconds = history.seconds
        if state is State.RUNNING:
            seconds = at_work(history)
        progress = RunProgress.read(history.cell.run_dir)
        error = history.error if state is State.FAILED else ""
        took = time_in_words(seconds) if seconds else ""
        dev = percent(None if progress is None else progress.dev)
        label = labels[history.cell.name]
        rows.append((str(state), label, progress_words(progress), dev, str(history.attempts), took, error))
    head = [summary(status), *([status.late_columns] if status.late_columns else [])]
    return Group(*head, *([console_table(COLUMNS, rows)] if rows else []))


def watched(folder: str | Path) -> None:
    """Show the status repeatedly until no run is running or waiting. Ctrl-C ends the display only.

    Args:
        folder: Folder with the runs of sweeps and their ledger.

    Raises:
        UserError: A folder without a sweep.
    """
    at_end = {State.FINISHED, State.FAILED, State.PRUNED, State.INTERRUPTED}
    status = read_status(folder)
    with Live(to_console(status), console=terminal(), auto_refresh=False) as live:
        while any(state not in at_end for _, state in status.cells):
            time.sleep(WATCH_SECONDS)
            status = read_status(folder)
            live.update(to_console(status), refresh=True)


def at_work(history: History) -> float:
    """Return the seconds since the last event of a cell. A running cell has its start there.

    Args:
        history: History of the cell.

    Returns:
        Seconds.
    """
    return (datetime.now(UTC) - datetime.fromisoformat(history.at)).total_seconds()


def summary(status: Status) -> str:
    """Return one line: number of cells in each state, and the estimated remaining time.

    Args:
        status: Result of `read_status`.

    Returns:
        Text without a line break.
    """
    counts = [f"{status.count(state)} {state}" for state in reversed(State) if status.count(state)]
    line = f"{counted(len(status.cells), 'runs')}: {', '.join(counts)}"
    if status.seconds_left is not None:
        line += f"; about {time_in_words(status.seconds_left)} left, {status.jobs} at a time"
    return line


LIVE_COLUMNS = ("state", "run", "progress", "dev", "time")
REDRAW_SECONDS = 1.0
AROUND = 6
"""Lines of a terminal that are left for the head of the table and for what stands above it."""


class SweepDisplay:
    """Context manager of a sweep: `report` accepts lines, `refresh` accepts the planner repeatedly."""

    def __init__(self) -> None:
        self.live: Live | None = None
        self._drawn = 0.0
        self._labels: dict[str, str] = {}
        self._scores: dict[str, float | None] = {}

    def __enter__(self) -> "SweepDisplay":
        if is_live():
            console = Console(stderr=True, markup=False, highlight=False)
            self.live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False)
            self.live.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.live is not None:
            self.live.stop()
            self.live = None

    def report(self, line: str) -> None:
        """Print above the table, at once, also if stderr is a file.

        Args:
            line: A line for the user.
        """
        if self.live is not None:
            self.live.console.print(line, soft_wrap=True)
        else:
            print(line, file=sys.stderr, flush=True)

    def refresh(self, planner: Planner) -> None:
        """Draw the table again, at most once per REDRAW_SECONDS. Nothing is drawn without a terminal.

        Args:
            planner: The running sweep.
        """
        if self.live is None or time.monotonic() - self._drawn < REDRAW_SECONDS:
            return
        self._drawn = time.monotonic()
        table = console_table(LIVE_COLUMNS, self._rows(planner), numbers=LIVE_COLUMNS[3:])
        self.live.update(Group(table, Text(self._summary(planner))), refresh=True)

    def _rows(self, planner: Planner) -> list[tuple[str, ...]]:
        """Return running cells, then failed, finished (best first) and waiting ones, as lines permit."""
        assert self.live is not None
        summary = planner.summary
        cells = [turn.cell for turn in (*planner.running, *planner.waiting)]
        cells += [*summary.finished, *summary.skipped, *summary.failed]
        if len(self._labels) != len({cell.name for cell in cells}):
            self._labels = cell_labels(cells)
        rows: list[tuple[str, ...]] = []
        for turn in planner.running:
            progress = RunProgress.read(turn.cell.run_dir)
            remaining = (
                "" if progress is None or progress.left is None else f"{time_in_words(progress.left)} left"
            )
            score = None if progress is None else progress.dev
            time_of = remaining or time_in_words(turn.seconds)
            name = self._labels[turn.cell.name]
            rows.append(("running", name, progress_words(progress) or "starting", percent(score), time_of))
        rows += [("failed", self._labels[cell.name], error, "", "") for cell, error in summary.failed.items()]
        done = [*summary.finished, *summary.skipped]
        for cell in done:
            if cell.name not in self._scores:
                self._scores[cell.name] = dev_score(cell)
        done.sort(key=lambda cell: -(self._scores[cell.name] or -1.0))
        for cell in done:
            seconds = planner.seconds.get(cell.name)
            took = "" if seconds is None else time_in_words(seconds)
            score = self._scores[cell.name]
            rows.append(("finished", self._labels[cell.name], "", percent(score), took))
        rows += [("waiting", self._labels[turn.cell.name], "", "", "") for turn in planner.waiting]
        room = max(len(planner.running) + 1, self.live.console.height - AROUND)
        if len(rows) > room:
            rows = [*rows[: room - 1], ("", f"and {len(rows) - room + 1} more", "", "", "")]
        return rows

    def _summary(self, planner: Planner) -> str:
        summary, running, waiting = planner.summary, planner.running, len(planner.waiting)
        counts = {
            "finished": len(summary.finished) + len(summary.skipped),
            "failed": len(summary.failed),
            "running": len(running),
            "waiting": waiting,
        }
        line = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        at_work = [(turn.seconds, share_done(RunProgress.read(turn.cell.run_dir))) for turn in running]
        remaining = seconds_left(
            list(planner.seconds.values()), at_work, waiting, jobs=planner.runner.capacity()
        )
        return line if remaining is None else f"{line}; about {time_in_words(remaining)} left"
