"""The ledger of a folder of runs: what was planned, started and ended, as lines that are only ever added."""

import fcntl
import json
import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from juzhen.core.errors import UserError
from juzhen.core.owned import own_folder, refuse_links
from juzhen.core.result import RESULT_FILE
from juzhen.core.secrets import redacted
from juzhen.core.shape import Object, require_shape

FOLDER = ".sweep"
EVENTS = "events.jsonl"


class Event(StrEnum):
    SWEEP = "sweep"  # a sweep began: number of cells, cells at a time
    PLANNED = "planned"
    SUBMITTED = "submitted"  # handed to a cluster, which starts it when there is room
    STARTED = "started"
    FINISHED = "finished"
    FAILED = "failed"
    PRUNED = "pruned"  # its search ended it early
    STOPPED = "stopped"  # its sweep was ended; it saved what it had


EVENT = Object({"event": str, "at": str}, {"host": str})
ENDED = Object({"cell": str}, {"seconds": float, "error": str})
SHAPES = {
    Event.SWEEP: Object({"jobs": int}),
    Event.PLANNED: Object({"run_dir": str, "words": [str], "devices": int}),
    Event.SUBMITTED: Object({"cell": str, "job": str}),
    Event.STARTED: Object({"cell": str, "process": int, "host": str}),
} | dict.fromkeys((Event.FINISHED, Event.FAILED, Event.PRUNED, Event.STOPPED), ENDED)
"""What is read of each event."""

LEAST_NAME, LONGEST_NAME = 1, 200
"""Bytes of a run folder's name; files named after it are a little longer."""


@dataclass(frozen=True)
class Cell:
    """One run of a sweep.

    run_dir  its folder; the name of it ends in the key of the run, so it names the cell
    words    what `train.py` is given for it
    devices  GPUs that it asks for
    """

    run_dir: str
    words: tuple[str, ...]
    devices: int = 0

    @property
    def name(self) -> str:
        return Path(self.run_dir).name

    @property
    def finished(self) -> bool:
        """Its Result is there: the one thing that counts, whatever the ledger says."""
        return (Path(self.run_dir) / RESULT_FILE).exists()


@dataclass
class History:
    """What the ledger tells of one cell.

    attempts  how often it was started
    last      the latest event
    seconds   of its attempts that ended, together
    process   id of the process of the latest attempt, and `host`, where that was
    job       what a cluster calls the latest attempt that was submitted
    error     last line of what the latest failure printed
    """

    cell: Cell
    attempts: int = 0
    last: Event = Event.PLANNED
    at: str = ""
    seconds: float = 0.0
    process: int | None = None
    host: str = ""
    job: str = ""
    error: str = ""


class Ledger:
    """Events of the runs below `folder`, in `<folder>/.sweep/`; written by any number of processes."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder) / FOLDER
        self.path = self.folder / EVENTS

    def log_of(self, cell: Cell) -> Path:
        """Where a cell's output is kept, attempt after attempt."""
        return self.folder / "logs" / f"{cell.name}.log"

    def add(self, event: Event, **facts: Any) -> None:
        self.add_all([(event, facts)])

    def add_all(self, events: list[tuple[Event, dict[str, Any]]]) -> None:
        """Adds lines; they are on the disk when this returns."""
        shared = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "host": socket.gethostname()}
        text = "".join(
            json.dumps({"event": str(event)} | redacted(facts) | shared, ensure_ascii=False) + "\n"
            for event, facts in events
        )
        own_folder(self.folder, earlier=".*")
        with FileLock(self.folder / "events.lock"), self.path.open("ab+") as file:
            if file.tell() and self._is_torn():
                text = "\n" + text
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())

    def plan(self, cells: Iterable[Cell], *first: tuple[Event, dict[str, Any]]) -> None:
        """Adds those of the cells that it does not know, after other events."""
        refuse_links(self.folder.parent, [FOLDER])
        known = self.histories()
        planned = [
            (Event.PLANNED, {"run_dir": cell.run_dir, "words": list(cell.words), "devices": cell.devices})
            for cell in cells
            if cell.name not in known
        ]
        self.add_all([*first, *planned])

    def _is_torn(self) -> bool:
        """A process was killed while it wrote the last line."""
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"

    def events(self) -> Iterator[dict[str, Any]]:
        """All events, oldest first; a line that is torn, or that no sweep has written, is none."""
        try:
            lines = self.path.read_bytes().splitlines()
        except FileNotFoundError:
            return
        except OSError as error:
            raise UserError(f"{self.path}: cannot be read ({error.strerror})") from error
        for line in lines:
            try:
                event = json.loads(line)
                require_shape(event, EVENT, "it")
                require_shape(event, SHAPES[Event(event["event"])], "it")
                if datetime.fromisoformat(event["at"]).tzinfo is None:
                    continue
            except (ValueError, OverflowError, RecursionError):
                continue
            yield event

    def histories(self) -> dict[str, History]:
        """Cell name → what is told of it, in the order in which cells were planned."""
        found: dict[str, History] = {}
        for event in self.events():
            kind = event["event"]
            if kind == Event.PLANNED:
                cell = Cell(event["run_dir"], tuple(event["words"]), event["devices"])
                if not LEAST_NAME <= len(os.fsencode(cell.name)) <= LONGEST_NAME or "\0" in event["run_dir"]:
                    continue  # it names no folder of a run
                found.setdefault(cell.name, History(cell, at=event["at"]))
            elif event.get("cell") in found:
                _tell(found[event["cell"]], event)
        return found

    @contextmanager
    def claim(self, cell: Cell) -> Iterator[bool]:
        """True when this process may work on the cell until the end of the block, False when another does."""
        lock = FileLock(self._claim_of(cell, "lock"), is_singleton=False)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    def is_claimed(self, cell: Cell) -> bool:
        """Some sweep is working on the cell at this moment."""
        with self.claim(cell) as free:
            return not free

    @contextmanager
    def work(self, cell: Cell) -> Iterator[int]:
        """Held on the node where a cell is at work, waited for by a second; gives the descriptor of the lock."""
        with self._claim_of(cell, "work").open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file.fileno()

    def is_at_work(self, cell: Cell) -> bool:
        """A node is working on the cell at this moment, for a sweep or left behind by one."""
        with self._claim_of(cell, "work").open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return True
        return False

    def _claim_of(self, cell: Cell, kind: str) -> Path:
        folder = self.folder / "claims"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{cell.name}.{kind}"


def _tell(history: History, event: dict[str, Any]) -> None:
    history.last, history.at = Event(event["event"]), event["at"]
    if history.last is Event.STARTED:
        history.attempts += 1
        history.process, history.host = event["process"], event["host"]
    elif history.last is Event.SUBMITTED:
        history.job = event["job"]
    else:
        history.seconds += event.get("seconds", 0.0)
        history.error = event.get("error", "")
