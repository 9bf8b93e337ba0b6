"""Files and folders that are whole or not there; nobody else of this program replaces, moves or removes anything.

What stands in the way and is not ours (`juzhen.core.file_guard`) is refused.

They are written beside their target under a name that nobody can foresee, made exclusively, so that a link which
somebody has planted is never followed; then flushed to the disk and renamed. A kill leaves the old one or the new one,
and an unfinished one beside it that the next write of the same target removes: its writer held a lock on it.
"""

import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from juzhen.core.file_guard import (
    LIST,
    MARKER,
    add_to_list,
    check_overwritable,
    is_overwritable,
    is_own_dir,
    not_overwritable,
    write_list,
)

LEFT_BEHIND = re.compile(r"\.(?P<target>.+)\.[0-9a-f]{16}\.(part|(?P<old>old))")
"""Names of what a process that was killed has not finished, or has moved aside."""

KEPT_ASIDE = "previous"
"""Folder in which a run keeps what an earlier attempt left; nothing is cleared there."""

NAME_BYTES = 200
"""Of a target's name that its unfinished file repeats: file systems take 255."""

REFUSED_BYTES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""A disk, a quota or a limit of the process takes no more bytes; the system then names no file."""

PROBE_BYTES = 2**20


@contextmanager
def atomic_write(
    path: str | Path,
    mode: str = "w",
    *,
    unless: Callable[[], bool] = lambda: False,
    in_own_folder: bool = False,
) -> Iterator[IO[Any]]:
    """A file to write to that takes the place of `path` at the end of the block; after an error nothing has changed.

    mode    w: text in UTF-8, line ends as they are given · wb: bytes
    unless  when this is true at the end, what is at `path` by then is left there
    in_own_folder  the folder was found to be ours, and the name in it is: nothing is asked or listed

    No link at `path` is followed. Raises OSError where the disk refuses, and for a device or a pipe; UserError for
    what we have not written (`juzhen.core.file_guard`).
    """
    path = Path(path)
    # /dev/stdout and its like would be files from then on, for all programs.
    is_other = path.exists() and not path.is_file() and not path.is_dir()
    if is_other or path.absolute().parent == Path("/dev"):
        raise OSError(errno.EINVAL, "it is a device or a pipe, whose place a file would take", str(path))
    if not in_own_folder:
        check_overwritable(path)
    part, descriptor = _begun(path, is_folder=False)
    encoding, newline = (None, None) if "b" in mode else ("utf-8", "")
    try:
        with os.fdopen(descriptor, mode, encoding=encoding, newline=newline) as file:
            yield file
            file.flush()
            os.fsync(descriptor)
            if not unless():
                if not in_own_folder:
                    add_to_list(path, part)
                os.replace(part, path)
    except OSError as error:
        if error.errno in REFUSED_BYTES and error.filename is None:
            error.filename = str(path)
        raise
    finally:
        part.unlink(missing_ok=True)
    _clear(path.parent, _name(path))


def require_room(folder: Path, num_bytes: int = PROBE_BYTES) -> None:
    """Raises OSError, with the folder, where so many bytes cannot be written: before what takes hours, not after.

    A file of PROBE_BYTES at most is written and removed: free space alone tells of no quota, limit or permission.
    """
    try:
        if shutil.disk_usage(folder).free < num_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        part, descriptor = _begun(folder / "room", is_folder=False)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(bytes(min(num_bytes, PROBE_BYTES)))
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from error


def write_text(path: str | Path, text: str, *, in_own_folder: bool = False) -> None:
    """Replaces a file by one that holds the text. Errors: as `atomic_write`."""
    with atomic_write(path, in_own_folder=in_own_folder) as file:
        file.write(text)


def write_json(
    path: str | Path, content: Any, *, indent: int | None = 1, in_own_folder: bool = False
) -> None:
    """Replaces a file by one that holds plain data as JSON. Errors: as `atomic_write`; ValueError for NaN."""
    text = json.dumps(content, ensure_ascii=False, indent=indent, allow_nan=False) + "\n"
    write_text(path, text, in_own_folder=in_own_folder)


@contextmanager
def atomic_write_dir(path: str | Path) -> Iterator[Path]:
    """An empty folder to fill that takes the place of `path`, as `atomic_write` does for files.

    The umask alone decides who reads its files. It keeps the list of them, and replaces a folder only if the files of
    that are all listed.
    """
    path = Path(path)
    if path.is_file():
        raise not_overwritable(path, "is a file, and no folder that is")
    check_overwritable(path)
    part, descriptor = _begun(path, is_folder=True)
    try:
        yield part
        write_list(part)
        for entry in [*part.rglob("*"), part]:
            _share(entry, like=part)
            _flush(entry)
        _rename_over(part, path)
    finally:
        shutil.rmtree(part, ignore_errors=True)
        os.close(descriptor)
    _clear(path.parent, _name(path))


def open_database(path: Path | None, *, writes: bool = False, patience: float = 60) -> sqlite3.Connection:
    """A database of SQLite in a folder of ours; its transactions are whole or not there, also after a kill.

    path      None: in memory
    writes    False: nothing is changed, and what another process commits meanwhile is seen
    patience  seconds to wait for another process that writes

    What has been committed is on the disk. Threads may share it if they take turns. Raises sqlite3.Error.
    """
    if path is None:
        return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    address = f"{path.absolute().as_uri()}?mode={'rwc' if writes else 'ro'}"
    options: dict[str, Any] = {"isolation_level": None, "check_same_thread": False, "timeout": patience}
    connection = sqlite3.connect(address, uri=True, **options)
    try:
        connection.execute("PRAGMA schema_version")
    except sqlite3.OperationalError:
        changes = path.with_name(f"{path.name}-wal")
        if writes or (changes.exists() and changes.stat().st_size):
            raise
        # A folder that cannot be written to, where nobody writes.
        connection = sqlite3.connect(f"{address}&immutable=1", uri=True, **options)
    connection.execute("PRAGMA trusted_schema = OFF")  # a strange file calls no functions
    if writes:
        connection.execute("PRAGMA journal_mode = WAL")  # readers do not wait
        connection.execute("PRAGMA synchronous = FULL")
    return connection


def new_link(target: Path, path: Path) -> None:
    """Makes `path` another name of the file `target`, in the place of what is there. Raises OSError where it cannot."""
    part = _unfinished(path)
    os.link(target, part)
    try:
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)  # POSIX renames no name of a file over another of the same file


def remove_file(path: Path, *, in_own_folder: bool = False) -> None:
    """Removes a file from a folder of ours, or one that is listed as ours; any other stays.

    in_own_folder  as in `atomic_write`
    """
    if in_own_folder or is_own_dir(path.parent) or is_overwritable(path):
        path.unlink(missing_ok=True)


def remove_folder(path: Path, names: str) -> None:
    """Removes, of a folder of ours, what the pattern matches (relative paths), and then empty folders. All else stays.

    No link is followed.
    """
    if not is_own_dir(path):
        return
    for folder, _, files in os.walk(path, topdown=False):
        for file in (Path(folder, name) for name in files if name != MARKER):
            if re.fullmatch(names, file.relative_to(path).as_posix()) or LEFT_BEHIND.fullmatch(file.name):
                file.unlink(missing_ok=True)
        if not {*os.listdir(folder)} - {MARKER, LIST}:
            for name in (MARKER, LIST):
                Path(folder, name).unlink(missing_ok=True)
            os.rmdir(folder)


def move(path: Path, folder: Path) -> None:
    """Moves a file or folder of ours into a folder; a link as a link."""
    os.rename(path, folder / path.name)


def clear_leftovers(folder: Path) -> None:
    """Removes what processes that were killed have left unfinished at any depth; what they had moved aside comes back.

    What a living process is writing stays.
    """
    for parent, folders, _ in os.walk(folder):
        folders[:] = [name for name in folders if name != KEPT_ASIDE and not LEFT_BEHIND.fullmatch(name)]
        _clear(Path(parent))


def _clear(folder: Path, name: str | None = None) -> None:
    """As `clear_leftovers`, in one folder; `name`: only what belongs to the target of that name."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = LEFT_BEHIND.fullmatch(entry.name)
            if match and name in (None, match["target"]):
                _remove(Path(entry.path), folder / match["target"] if match["old"] else None)


def _remove(leftover: Path, target: Path | None) -> None:
    """Removes one of them, or gives it back its name if nothing else has that; not while it is locked."""
    with suppress(OSError):
        # A pipe is not waited for.
        descriptor = os.open(leftover, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if target is not None and not target.exists():
                os.rename(leftover, target)
            elif leftover.is_dir():
                shutil.rmtree(leftover)
            else:
                leftover.unlink()
        finally:
            os.close(descriptor)


def _name(path: Path) -> str:
    """The target as its unfinished file names it."""
    encoded = os.fsencode(path.name)
    return path.name if len(encoded) <= NAME_BYTES else hashlib.sha256(encoded).hexdigest()[:16]


def _unfinished(path: Path) -> Path:
    return path.with_name(f".{_name(path)}.{secrets.token_hex(8)}.part")


def _begun(path: Path, *, is_folder: bool) -> tuple[Path, int]:
    """A new file or folder beside its target, and its descriptor, which holds a lock."""
    flags = os.O_RDONLY if is_folder else os.O_RDWR | os.O_CREAT | os.O_EXCL
    while True:
        part = _unfinished(path)
        if is_folder:
            part.mkdir()
        descriptor = os.open(part, flags | os.O_NOFOLLOW, 0o666)
        if _is_held(descriptor):
            return part, descriptor
        os.close(descriptor)


def _is_held(descriptor: int) -> bool:
    """Locks it; False if another process that tidies up was faster and has removed it."""
    with suppress(OSError):  # a file system without locks, where nothing is tidied up either
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return os.fstat(descriptor).st_nlink > 0


def _share(path: Path, *, like: Path) -> None:
    """A file is read by whom the folder is: safetensors writes 0600, whatever the umask allows."""
    if path.is_file() and not path.is_symlink():
        path.chmod(path.stat().st_mode | (like.stat().st_mode & 0o666))


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _rename_over(new: Path, path: Path) -> None:
    """No full folder is replaced in one step: the old one is moved aside first, locked, and then removed."""
    if not path.is_dir():
        os.rename(new, path)
        return
    old = _unfinished(path).with_suffix(".old")
    descriptor = os.open(path, os.O_RDONLY)
    try:
        _is_held(descriptor)
        os.rename(path, old)
        os.rename(new, path)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        os.close(descriptor)
