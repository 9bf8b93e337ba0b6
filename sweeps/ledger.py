"""The ledger of a folder of runs: plans, starts and ends, as lines. Lines are only appended."""

import fcntl
import json
import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from juzhen.core.file_guard import claim_dir, refuse_links
from juzhen.core.result import RESULT_FILE
from juzhen.core.secrets import redacted

FOLDER = ".sweep"
EVENTS = "events.jsonl"
JOBS = "jobs"
"""Folder of what clusters keep of each cell. Submitit leaves links there."""

LONGEST_NAME = 200
"""Bytes of a run folder's name. Files named after it are a little longer."""


class Event(StrEnum):
    SWEEP = "sweep"  # a sweep began: number of cells, cells at a time
    PLANNED = "planned"
    SUBMITTED = "submitted"  # handed to a cluster, which starts it when there is room
    STARTED = "started"
    FINISHED = "finished"
    FAILED = "failed"
    PRUNED = "pruned"  # its search ended it early
    STOPPED = "stopped"  # its sweep was ended; it saved what it had


@dataclass(frozen=True)
class SweepCell:
    """One run of a sweep.

    Args:
        run_dir: Folder of the run. Its name ends in the key of the run, so it names the cell.
        words: Command-line arguments for `train.py`.
        devices: Number of GPUs that it requests.
    """

    run_dir: str
    words: tuple[str, ...]
    devices: int = 0

    @property
    def name(self) -> str:
        return Path(self.run_dir).name

    @property
    def finished(self) -> bool:
        """True if its Result exists. Only this counts, not the ledger."""
        return (Path(self.run_dir) / RESULT_FILE).exists()


@dataclass
class History:
    """History of one cell in the ledger.

    Args:
        cell: The cell.
        attempts: Number of starts.
        last: Latest event.
        at: Time of the latest event.
        seconds: Working time in seconds.
        error: Error of the latest failure, or "".
    """

    cell: SweepCell
    attempts: int = 0
    last: Event = Event.PLANNED
    at: str = ""
    seconds: float = 0.0
    error: str = ""

    def add(self, event: dict[str, Any]) -> None:
        """Apply an event of the cell.

        Args:
            event: A line of the ledger: `event`, `at`, and optional `seconds` and `error`.
        """
        self.last, self.at = Event(event["event"]), event["at"]
        self.attempts += self.last is Event.STARTED
        self.seconds += float(event.get("seconds", 0.0))
        self.error = str(event.get("error", ""))


class Ledger:
    """Events of the runs below `folder`, in `<folder>/.sweep/`. Any number of processes may write.

    Args:
        folder: Folder of the runs. The ledger is made at the first line.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder) / FOLDER
        self.path = self.folder / EVENTS

    def log_of(self, cell: SweepCell) -> Path:
        """Return the path of a cell's output, with all attempts.

        Args:
            cell: A cell of the sweep.

        Returns:
            Path in `logs`. The file need not exist.
        """
        return self.folder / "logs" / f"{cell.name}.log"

    def add(self, event: Event, **facts: Any) -> None:
        """Append one line. It is on the disk when this returns.

        Args:
            event: Kind of the line.
            **facts: Values that JSON can hold, such as `cell` and `seconds`. Secrets are left out.
        """
        self.add_all([(event, facts)])

    def add_all(self, events: Iterable[tuple[Event, dict[str, Any]]]) -> None:
        """Append lines. They are on the disk when this returns.

        Args:
            events: Kinds and facts, in order. Time and host are added to each.
        """
        shared = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "host": socket.gethostname()}
        entries = [{"event": str(event)} | redacted(facts) | shared for event, facts in events]
        # A new line first: a process may have been killed while it wrote the last one.
        text = "".join(f"\n{json.dumps(event, ensure_ascii=False)}" for event in entries) + "\n"
        claim_dir(self.folder)
        with FileLock(self.folder / "events.lock"), self.path.open("ab") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())

    def plan(self, cells: Iterable[SweepCell], *first: tuple[Event, dict[str, Any]]) -> None:
        """Add the cells that the ledger does not know, after other events.

        Args:
            cells: Cells of the sweep.
            *first: Kinds and facts of events before the plans.
        """
        refuse_links(self.folder.parent, [FOLDER], within=[JOBS])
        histories = self.histories()
        planned = [
            (Event.PLANNED, {"run_dir": cell.run_dir, "words": list(cell.words), "devices": cell.devices})
            for cell in cells
            if cell.name not in histories
        ]
        self.add_all([*first, *planned])

    def events(self) -> Iterator[dict[str, Any]]:
        """Return all events, oldest first, without torn lines or lines of other programs.

        Yields:
            `event`, `at`, and the facts of this event.
        """
        content = self.path.read_bytes() if self.path.exists() else b""
        for line in content.splitlines():
            with suppress(ValueError, TypeError, KeyError, RecursionError):
                event = json.loads(line)
                if Event(event["event"]) and datetime.fromisoformat(event["at"]).tzinfo is not None:
                    yield event

    def histories(self) -> dict[str, History]:
        """Return cell name → history, in planned order.

        Returns:
            {} before the sweep is planned.
        """
        histories: dict[str, History] = {}
        for event in self.events():
            with suppress(ValueError, TypeError, KeyError, OverflowError):
                if event["event"] == Event.PLANNED:
                    cell = SweepCell(event["run_dir"], tuple(event["words"]), int(event["devices"]))
                    if 0 < len(os.fsencode(cell.name)) <= LONGEST_NAME and "\0" not in cell.run_dir:
                        histories.setdefault(cell.name, History(cell, at=event["at"]))
                elif event.get("cell") in histories:
                    histories[event["cell"]].add(event)
        return histories

    def claim(self, cell: SweepCell) -> FileLock | None:
        """Lock a cell, so that only this process starts it, until release.

        Args:
            cell: A cell of the sweep.

        Returns:
            The held lock. None if another process has it.
        """
        folder = self.folder / "claims"
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / f"{cell.name}.lock", is_singleton=False)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return None
        return lock

    def is_claimed(self, cell: SweepCell) -> bool:
        """True if any sweep is working on the cell now.

        Args:
            cell: A cell of the sweep.

        Returns:
            False once the claim can be taken. It is given back.
        """
        lock = self.claim(cell)
        if lock is not None:
            lock.release()
        return lock is None


def is_at_work(cell: SweepCell) -> bool:
    """True if a process holds the run's folder, here or on a node. Checked before a start.

    Args:
        cell: A cell. A missing folder is not at work.

    Returns:
        False for a folder without a lock.
    """
    path = Path(cell.run_dir) / ".lock"
    if not path.exists():
        return False
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False
