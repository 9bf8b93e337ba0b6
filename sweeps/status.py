"""How far the sweeps of a folder are, read from their ledger and from the results that are there."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from rich.console import Group

from juzhen.core.errors import UserError
from juzhen.core.texts import time_in_words
from juzhen.report.terminal import console_table
from sweeps.ledger import Event, History, Ledger
from sweeps.planner import late_columns_line

COLUMNS = ("state", "cell", "tried", "time", "what it said last")


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
    seconds_left  for what is not finished, from the time that finished cells took; None before the first has
    late_columns  what to type for finished cells that lack a column whose file has come since; None without any
    """

    cells: list[tuple[History, State]]
    jobs: int
    seconds_left: float | None
    late_columns: str | None = None

    def count(self, state: State) -> int:
        return sum(one is state for _, one in self.cells)


def read_status(folder: str | Path) -> Status:
    """The status of the sweeps of a folder. Raises UserError where none was ever planned."""
    ledger = Ledger(folder)
    histories = ledger.histories()
    if not histories:
        raise UserError(
            f"{folder}: no sweep was planned here; python train.py -m sweep=transfer_matrix plans one"
        )
    cells = [(history, state_of(history, ledger)) for history in histories.values()]
    jobs = [event["jobs"] for event in ledger.events() if event["event"] == Event.SWEEP]
    jobs = max([1, *jobs[-1:]])
    late_columns = late_columns_line(history.cell for history in histories.values())
    return Status(cells, jobs, _seconds_left(cells, jobs), late_columns)


def state_of(history: History, ledger: Ledger) -> State:
    """A result and a claim are facts; only where there is neither does the ledger decide."""
    if history.cell.finished:
        return State.FINISHED
    if ledger.is_at_work(history.cell):
        return State.RUNNING
    if history.last is Event.SUBMITTED:
        return State.QUEUED
    if ledger.is_claimed(history.cell):
        return State.RUNNING
    if history.last is Event.FAILED:
        return State.FAILED
    if history.last is Event.PRUNED:
        return State.PRUNED
    return State.WAITING if history.last is Event.PLANNED else State.INTERRUPTED


def _seconds_left(cells: Sequence[tuple[History, State]], jobs: int) -> float | None:
    """The mean of finished cells for each that is not, less what running ones have had already."""
    took = [history.seconds for history, state in cells if state is State.FINISHED and history.seconds]
    if not took:
        return None
    mean, left = sum(took) / len(took), 0.0
    for history, state in cells:
        if state is State.RUNNING:
            left += max(0.0, mean - _since(history))
        elif state not in (State.FINISHED, State.PRUNED):
            left += mean
    return left / jobs


def _since(history: History) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(history.at)).total_seconds()


def to_console(status: Status) -> Group:
    """A line of counts, and a row for each cell that is not finished."""
    rows = []
    order = list(State)
    for history, state in sorted(status.cells, key=lambda cell: order.index(cell[1])):
        if state is not State.FINISHED:
            seconds = _since(history) if state is State.RUNNING else history.seconds
            error = history.error if state is State.FAILED else ""
            tried = str(history.attempts)
            rows.append(
                (str(state), history.cell.name, tried, time_in_words(seconds) if seconds else "", error)
            )
    lines = [summary(status), *([status.late_columns] if status.late_columns else [])]
    return Group(*lines, *([console_table(COLUMNS, rows)] if rows else []))


def summary(status: Status) -> str:
    """One line: how many cells are in which state, and how long the rest will take."""
    counts = [f"{status.count(state)} {state}" for state in reversed(State) if status.count(state)]
    line = f"{len(status.cells)} cells: {', '.join(counts)}"
    done = status.count(State.FINISHED) + status.count(State.PRUNED)
    if status.seconds_left is not None and done < len(status.cells):
        line += f"; about {time_in_words(status.seconds_left)} left, {status.jobs} at a time"
    return line
