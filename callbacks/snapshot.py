"""The state of training in shared memory: the system keeps it when the process is killed, and no disk is waited for.

Checkpoints on disk are kept beside it, since they outlive the machine too. Linux only: without /proc to say which start
of the system this is, a file that the system had no time to write out could not be told from a whole one.
"""

import json
import os
import secrets
import statistics
import struct
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from callbacks.snapshot_file import (
    HEADER_BYTES,
    NoRoomError,
    SnapshotFile,
    boot_id,
    lock,
    read_header,
    read_snapshot,
    read_told,
    take_apart,
)
from schema.whole import write_json

SUFFIX = ".snapshot"
POINTER = "snapshot.json"
"""In the folder of the checkpoints: where the snapshot of this training is."""
KEPT_DAYS = 7
"""After so long without a write a snapshot is taken for abandoned."""
COSTS_KEPT = 9
"""Writes whose median time decides when the next one is due."""


class Found(NamedTuple):
    """The state of a training that did not end.

    steps  optimiser steps that were done when it was written
    """

    path: Path
    steps: int


def find_snapshot(checkpoints: Path) -> Found | None:
    """What the training with these checkpoints left in memory, if there is something that can be trusted."""
    try:
        path = Path(json.loads((checkpoints / POINTER).read_text(encoding="utf-8"))["path"])
        if path.lstat().st_uid != os.getuid():
            return None
        with path.open("rb") as file:
            page = file.read(HEADER_BYTES)
        is_ours = read_header(page)["owner"] == str(checkpoints.resolve())
        return Found(path, read_told(page)[2]) if is_ours else None
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        return None


def forget_snapshot(checkpoints: Path) -> None:
    """Gives back the memory of what `find_snapshot` would find."""
    found = find_snapshot(checkpoints)
    if found is not None:
        found.path.unlink(missing_ok=True)
    (checkpoints / POINTER).unlink(missing_ok=True)


def private_folder(shared: Path) -> Path | None:
    """This user's folder in a place that all users write to; None where it cannot be had or is not ours alone."""
    if not shared.is_dir() or boot_id() is None:
        return None
    folder = shared / f"juzhen-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        told = folder.lstat()
    except OSError:
        return None
    ours = told.st_uid == os.getuid() and not told.st_mode & 0o077 and not folder.is_symlink()
    return folder if ours else None


def clear_away(folder: Path) -> None:
    """Deletes snapshots that no training will ask for again: their run is gone, or was left alone for a week."""
    for path in folder.glob(f"*{SUFFIX}"):
        with suppress(OSError), path.open("rb") as file:
            # Held by a lock, its process lives.
            if lock(file.fileno()) and not _is_wanted(path, file.read(HEADER_BYTES)):
                path.unlink(missing_ok=True)


def _is_wanted(path: Path, page: bytes) -> bool:
    if time.time() - path.stat().st_mtime > KEPT_DAYS * 86400:
        return False
    try:
        found = find_snapshot(Path(read_header(page)["owner"]))
    except (ValueError, KeyError, TypeError):
        return False
    return found is not None and found.path == path


class Snapshots:
    """Writes the state of one training as often as it may cost: after every step, unless that takes too long.

    checkpoints  folder where `find_snapshot` will look
    shared       a folder in memory, such as /dev/shm
    share        part of the time that writing may take
    """

    def __init__(self, checkpoints: Path, shared: Path, *, share: float) -> None:
        self.checkpoints = checkpoints
        self.shared = shared
        self.share = share
        self.folder = private_folder(shared)
        self.written = 0
        self.seconds = 0.0
        self._file: SnapshotFile | None = None
        self._costs: deque[float] = deque(maxlen=COSTS_KEPT)
        self._ended = 0.0

    @property
    def due(self) -> bool:
        """True when the time since the last one pays for the next."""
        if self.folder is None:
            return False
        cost = statistics.median(self._costs) if self._costs else 0.0
        return cost <= self.share * (time.perf_counter() - self._ended)

    def write(self, gather: Callable[[], dict[str, Any]], *, steps: int) -> None:
        """Keeps what `gather` gives, the state after so many optimiser steps. After a NoRoomError never due again."""
        began = time.perf_counter()
        tensors, remainder = take_apart(gather())
        try:
            if self._file is not None and self._file.fits(tensors):
                self._file.write(tensors, remainder, steps=steps)
                self._costs.append(time.perf_counter() - began)
            else:
                self._begin(tensors, remainder, steps=steps)
        except NoRoomError:
            self.folder = None
            raise
        self.written += 1
        self._ended = time.perf_counter()
        self.seconds += self._ended - began

    def _begin(self, tensors: list[Tensor], remainder: Any, *, steps: int) -> None:
        """A new file with a state in it, then the pointer to it; only then the one before it goes."""
        clear_away(self.folder)
        before = find_snapshot(self.checkpoints)
        file = SnapshotFile(self.folder / f"{secrets.token_hex(8)}{SUFFIX}", self.checkpoints, tensors)
        try:
            file.write(tensors, remainder, steps=steps)
            self.checkpoints.mkdir(parents=True, exist_ok=True)
            write_json(self.checkpoints / POINTER, {"path": str(file.path)})
        except BaseException:
            file.close()
            raise
        if before is not None:
            before.path.unlink(missing_ok=True)
        if self._file is not None:
            self._file.close()
        self._file = file

    def state(self) -> dict[str, Any]:
        """What `find_snapshot` found, in the memory where it is if this training has written it."""
        found = find_snapshot(self.checkpoints)
        own = self._file if self._file is not None and found.path == self._file.path else None
        return (own and own.state()) or read_snapshot(found.path)

    def close(self) -> None:
        """Gives the memory back, of this training and of the one that it continues."""
        if self._file is not None:
            self._file.close()
            self._file = None
        forget_snapshot(self.checkpoints)
