"""How far the sweeps of a folder are, read from their ledger and from the results that are there."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from rich.console import Group
from rich.live import Live

from juzhen.core.errors import UserError
from juzhen.core.result import RunProgress
from juzhen.core.text import time_in_words
from juzhen.report.terminal import console_table, terminal
from sweeps.cell_state import cell_labels, percent, progress_words, seconds_left, share_done
from sweeps.ledger import Event, History, Ledger, is_at_work
from sweeps.planner import late_columns_line

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
    """Every cell that was ever planned below a folder, with its state.

    jobs          cells at a time of the latest sweep
    late_columns  what to type for finished cells that lack a column whose file has come since; None without any
    """

    cells: list[tuple[History, State]]
    jobs: int
    late_columns: str | None = None

    def count(self, state: State) -> int:
        return sum(cell_state is state for _, cell_state in self.cells)

    @property
    def seconds_left(self) -> float | None:
        """By the mean of finished cells, or else by the progress of those at work; None before there is any."""
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
    """The status of the sweeps of a folder. Raises UserError where none was ever planned."""
    ledger = Ledger(folder)
    histories = list(ledger.histories().values())
    if not histories:
        raise UserError(
            f"{folder}: no sweep was planned here; python train.py -m sweep=transfer_matrix plans one"
        )
    cells = [(history, state_of(history, ledger)) for history in histories]
    jobs = [event["jobs"] for event in ledger.events() if isinstance(event.get("jobs"), int)]
    return Status(cells, max([1, *jobs[-1:]]), late_columns_line(history.cell for history in histories))


def state_of(history: History, ledger: Ledger) -> State:
    """A result and a claim are facts; only where there is neither does the ledger decide."""
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
    """A line of counts, and a row for each cell that is not finished."""
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
    """Shows the status in place, again and again, until no run is at work or waits; Ctrl-C ends it, and no run."""
    at_end = {State.FINISHED, State.FAILED, State.PRUNED, State.INTERRUPTED}
    status = read_status(folder)
    with Live(to_console(status), console=terminal(), auto_refresh=False) as live:
        while any(state not in at_end for _, state in status.cells):
            time.sleep(WATCH_SECONDS)
            status = read_status(folder)
            live.update(to_console(status), refresh=True)


def at_work(history: History) -> float:
    """Seconds since the cell was started."""
    return (datetime.now(UTC) - datetime.fromisoformat(history.at)).total_seconds()


def summary(status: Status) -> str:
    """One line: how many cells are in which state, and about how long the others will take."""
    counts = [f"{status.count(state)} {state}" for state in reversed(State) if status.count(state)]
    line = f"{len(status.cells)} runs: {', '.join(counts)}"
    if status.seconds_left is not None:
        line += f"; about {time_in_words(status.seconds_left)} left, {status.jobs} at a time"
    return line
