"""The state of training in shared memory: the system keeps it when the process is killed, and no disk is waited for.

Checkpoints on disk are kept beside it, since they outlive the machine too. Linux only: without /proc to say which start
of the system this is, a file that the system had no time to write out could not be told from a whole one.
"""

import secrets
import statistics
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor

from callbacks.snapshot_file import NoRoomError, SnapshotFile, read_snapshot, take_apart
from callbacks.snapshots import (
    IN_CHECKPOINTS,
    POINTER,
    SUFFIX,
    clear_away,
    find_snapshot,
    forget_snapshot,
    private_folder,
)
from juzhen.core.owned import own_folder
from juzhen.core.whole import remove_file, write_json

COSTS_KEPT = 9
"""Writes whose median time decides when the next one is due."""


class Snapshots:
    """Writes the state of one training as often as it may cost: after every step, unless that takes too long.

    checkpoints  folder where `find_snapshot` will look
    shared       a folder in memory, such as /dev/shm
    share        part of the time that writing may take
    keep_bytes   what snapshots of killed trainings may take together; the oldest go first
    """

    def __init__(
        self, checkpoints: Path, shared: Path, *, share: float, keep_bytes: float = float("inf")
    ) -> None:
        self.checkpoints = checkpoints
        self.shared = shared
        self.share = share
        self.keep_bytes = keep_bytes
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
        """Keeps what `gather` gives, the state after so many optimizer steps. After a NoRoomError never due again."""
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
        clear_away(self.folder, keep_bytes=self.keep_bytes)
        before = find_snapshot(self.checkpoints)
        file = SnapshotFile(self.folder / f"{secrets.token_hex(8)}{SUFFIX}", self.checkpoints, tensors)
        try:
            file.write(tensors, remainder, steps=steps)
            own_folder(self.checkpoints, earlier=IN_CHECKPOINTS)
            write_json(self.checkpoints / POINTER, {"path": str(file.path)}, in_own_folder=True)
        except BaseException:
            file.close()
            raise
        if before is not None:
            remove_file(before.path, in_own_folder=True)
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
