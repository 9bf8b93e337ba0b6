"""States of training in shared memory, as files: where they are, whose they are, and which nobody will ask for again.

`callbacks.snapshot` writes them. Here is what can be known of them without torch.
"""

import json
import mmap
import os
import struct
import time
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from juzhen.core.opened import open_input, read_json
from juzhen.core.result import RESULT_FILE
from juzhen.core.whole import remove_file

CHECKPOINTS = "checkpoints"
RESUME_FILE = "resume.ckpt"
SHARED = Path("/dev/shm")
SUFFIX = ".snapshot"
POINTER = "snapshot.json"
"""In the folder of the checkpoints: where the snapshot of this training is."""
IN_CHECKPOINTS = r"resume\.ckpt|best\.ckpt|snapshot\.json|\.juzhen"
"""What a run writes to that folder."""
KEPT_DAYS = 7
"""After so long without a write a snapshot is taken for abandoned."""
HEADER_BYTES = mmap.PAGESIZE
WHOLE = struct.Struct("<Q")
"""Which copy is whole: 0 (none), 1 or 2. So short that it is written at once or not at all."""
TOLD = struct.Struct("<QQ")
"""Of a copy: bytes of its remainder, optimizer steps done."""
STATE_AT = HEADER_BYTES - WHOLE.size - 2 * TOLD.size


class Found(NamedTuple):
    """The state of a training that did not end.

    steps  optimizer steps that were done when it was written
    """

    path: Path
    steps: int


def find_snapshot(checkpoints: Path) -> Found | None:
    """What the training with these checkpoints left in memory, if there is something that can be trusted."""
    try:
        path = Path(read_json(checkpoints / POINTER)["path"])
        if path.lstat().st_uid != os.getuid():
            return None
        with open_input(path) as file:
            page = file.read(HEADER_BYTES)
        is_ours = read_header(page)["owner"] == str(checkpoints.resolve())
        return Found(path, read_told(page)[2]) if is_ours else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError, struct.error):
        return None


def forget_snapshot(checkpoints: Path) -> None:
    """Gives back the memory of what `find_snapshot` would find."""
    found = find_snapshot(checkpoints)
    if found is not None:
        remove_file(found.path, in_own_folder=True)
    remove_file(checkpoints / POINTER, earlier=IN_CHECKPOINTS)


def folder_in(shared: Path) -> Path:
    """This user's folder in a place that all users write to."""
    return shared / f"juzhen-{os.getuid()}"


def private_folder(shared: Path) -> Path | None:
    """The same, made where it is missing; None where it cannot be had or is not ours alone."""
    if not shared.is_dir() or boot_id() is None:
        return None
    folder = folder_in(shared)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        told = folder.lstat()
    except OSError:
        return None
    ours = told.st_uid == os.getuid() and not told.st_mode & 0o077 and not folder.is_symlink()
    return folder if ours else None


class Use(StrEnum):
    """What a snapshot is good for."""

    AT_WORK = "at work"  # its training is running
    KEPT = "kept"  # its training was killed and may go on from it
    ABANDONED = "abandoned"  # its run is gone, finished, or was left alone for a week


@dataclass(frozen=True)
class Snapshot:
    """One file; `owner` is the folder of the checkpoints that it belongs to, None where it does not say."""

    path: Path
    owner: Path | None
    steps: int | None
    num_bytes: int
    written_at: float
    use: Use


def snapshots(folder: Path) -> list[Snapshot]:
    """All snapshots of a folder, the one written last first."""
    found = []
    for path in folder.glob(f"*{SUFFIX}"):
        with suppress(OSError), open_input(path) as file:
            told = path.stat()
            page = file.read(HEADER_BYTES)
            is_held = not lock(file.fileno())  # its process lives
            owner, steps = None, None
            with suppress(ValueError, KeyError, TypeError, RecursionError, struct.error):
                owner = Path(read_header(page)["owner"])
                steps = read_told(page)[2]
            use = Use.KEPT if _is_wanted(path, owner, told.st_mtime) else Use.ABANDONED
            use = Use.AT_WORK if is_held else use
            found.append(Snapshot(path, owner, steps, told.st_blocks * 512, told.st_mtime, use))
    return sorted(found, key=lambda one: -one.written_at)


def clear_away(folder: Path, *, keep_bytes: float = float("inf")) -> None:
    """Deletes snapshots that no training will ask for, and those kept for longest where all take more than that."""
    kept = 0
    for one in snapshots(folder):
        kept += one.num_bytes if one.use is Use.KEPT else 0
        if one.use is Use.ABANDONED or (one.use is Use.KEPT and kept > keep_bytes):
            delete(one)


def delete(snapshot: Snapshot) -> None:
    """Deletes it, unless a training has begun to write to it since."""
    with suppress(OSError), open_input(snapshot.path) as file:
        if lock(file.fileno()):
            remove_file(snapshot.path, in_own_folder=True)


def _is_wanted(path: Path, owner: Path | None, written_at: float) -> bool:
    if owner is None or time.time() - written_at > KEPT_DAYS * 86400 or (owner.parent / RESULT_FILE).exists():
        return False
    found = find_snapshot(owner)
    return found is not None and found.path == path


def lock(descriptor: int) -> bool:
    """Locks a file as long as this process lives; False if another one has done so."""
    import fcntl  # not on every system, and where it is not nothing gets here

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def boot_id() -> str | None:
    """What tells this start of the system from all others; None where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def read_header(page: bytes) -> dict[str, Any]:
    """What the first page tells. Raises ValueError for one of another start of the system."""
    header = json.loads(page[:STATE_AT].rstrip(b"\0"))
    if header["boot"] is None or header["boot"] != boot_id():
        raise ValueError("the snapshot is of another start of the system")
    return header


def read_told(page: bytes) -> tuple[int, int, int]:
    """Which copy is whole (1 or 2), the bytes of its remainder, the steps behind it. Raises ValueError if none is."""
    (whole,) = WHOLE.unpack_from(page, STATE_AT)
    if whole not in (1, 2):
        raise ValueError("no state has been written yet")
    return whole, *TOLD.unpack_from(page, STATE_AT + WHOLE.size + (whole - 1) * TOLD.size)
