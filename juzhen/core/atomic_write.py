"""Atomic writes: a file or folder is replaced completely or not at all, also after a kill.

New content goes to a temporary name in the same folder, is flushed to the disk, and renamed. The name is random and
made exclusively, so a link planted in advance is never followed. A killed process leaves its temporary file. The next
write of the same target removes it, because the lock of its writer is gone. `juzhen.core.file_guard` decides which
files may be replaced. Two places write without this module: `sweeps/node.py`, which runs on a cluster without juzhen,
and `multirun.yaml` of Hydra's sweeper.
"""

import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from juzhen.core.errors import UserError
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
"""Names of temporary files and folders, and of a folder that was moved aside to be replaced."""

KEPT_ASIDE = "previous"
"""Folder in which a run keeps the files of earlier attempts. Nothing in it is cleared."""

NAME_BYTES = 200
"""Longest target name that a temporary name repeats: file systems allow 255 bytes."""

REFUSED_BYTES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""No more bytes fit on the disk, into a quota or under a limit of the process. The system then names no file."""

PROBE_BYTES = 2**20


@contextmanager
def atomic_write(
    path: str | Path,
    mode: str = "w",
    *,
    unless: Callable[[], bool] = lambda: False,
    in_own_folder: bool = False,
) -> Iterator[IO[Any]]:
    """Open a file to write to that replaces `path` at the end of the block. After an error nothing has changed.

    Args:
        path: The file. A link is not followed.
        mode: "w" for text in UTF-8, with line ends as given. "wb" for bytes.
        unless: Called at the end. If it returns True, the file at `path` stays.
        in_own_folder: The caller has checked that the folder is marked: `path` is neither checked nor listed.

    Yields:
        A new file next to it, open for writing.

    Raises:
        OSError: The disk refuses, or `path` is a device or a pipe.
        UserError: `path` may not be replaced (`juzhen.core.file_guard`).
    """
    path = Path(path)
    # A rename would turn /dev/stdout into a regular file for all programs.
    is_special = path.exists() and not path.is_file() and not path.is_dir()
    if is_special or path.absolute().parent == Path("/dev"):
        raise OSError(errno.EINVAL, "a device or a pipe, which a file would replace", str(path))
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
    _clear(path.parent, _target_name(path))


def write_text(path: str | Path, text: str, *, in_own_folder: bool = False) -> None:
    """Replace a file by a text.

    Args:
        path: File to write, in UTF-8.
        text: Whole content. Nothing is added at its end.
        in_own_folder: True for a file of a folder that juzhen has marked, as in `atomic_write`.

    Raises:
        UserError: As `atomic_write`.
        OSError: As `atomic_write`.
    """
    with atomic_write(path, in_own_folder=in_own_folder) as file:
        file.write(text)


def write_json(
    path: str | Path, content: Any, *, indent: int | None = 1, in_own_folder: bool = False
) -> None:
    """Replace a file by plain data as JSON.

    Args:
        path: File to write.
        content: Plain data: dictionaries, lists, texts, finite numbers, booleans and None.
        indent: Spaces a level. None writes a single line.
        in_own_folder: True for a file of a folder that juzhen has marked, as in `atomic_write`.

    Raises:
        ValueError: A number is NaN or infinite.
        UserError: As `atomic_write`.
        OSError: As `atomic_write`.
    """
    text = json.dumps(content, ensure_ascii=False, indent=indent, allow_nan=False) + "\n"
    write_text(path, text, in_own_folder=in_own_folder)


@contextmanager
def atomic_write_dir(path: str | Path) -> Iterator[Path]:
    """Give an empty folder to fill that replaces `path` at the end of the block, as `atomic_write` does for files.

    The umask alone decides who may read its files. A folder is replaced only if juzhen wrote all its files.

    Args:
        path: Folder to make or replace.

    Yields:
        A new folder next to it. It is removed if the block fails.

    Raises:
        UserError: The path is a file, the current folder or one above it, or a folder with other files than those of
            juzhen.
    """
    path = Path(path)
    if path.is_file():
        raise not_overwritable(path, "is a file, where a folder would be written")
    if not path.name:
        raise not_overwritable(path, "is the folder you are in, or one above it")
    check_overwritable(path, are_folders=True)
    part, descriptor = _begun(path, is_folder=True)
    try:
        yield part
        write_list(part)
        for entry in [*part.rglob("*"), part]:
            if entry.is_file() and not entry.is_symlink():  # safetensors writes 0600, whatever the umask is
                entry.chmod(entry.stat().st_mode | (part.stat().st_mode & 0o666))
            _flush(entry)
        _rename_over(part, path)
    finally:
        shutil.rmtree(part, ignore_errors=True)
        os.close(descriptor)
    _clear(path.parent, _target_name(path))


def require_room(folder: Path, num_bytes: int = PROBE_BYTES) -> None:
    """Check that a folder can take a number of bytes, before hours of work.

    It writes up to PROBE_BYTES, because free space does not show quotas, limits and permissions.

    Args:
        folder: The folder. Of a missing one the nearest existing parent counts.
        num_bytes: Size of the files to come.

    Raises:
        OSError: They do not fit, or nothing can be written. It has the path of the folder.
    """
    folder = next(place for place in (folder, *folder.absolute().parents) if place.is_dir())
    try:
        if shutil.disk_usage(folder).free < num_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(min(num_bytes, PROBE_BYTES)))
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from error


def new_link(target: Path, path: Path) -> None:
    """Replace `path` by a hard link to the file `target`.

    Args:
        target: An existing file on the same file system.
        path: File to make or replace.

    Raises:
        OSError: The file system has no hard links, or the paths are on different ones.
    """
    part = _unfinished(path)
    os.link(target, part)
    try:
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)  # POSIX does nothing if both names already are the same file


def remove_file(path: Path, *, in_own_folder: bool = False) -> None:
    """Remove a file of a marked folder, or a listed file. Any other file stays.

    Args:
        path: The file.
        in_own_folder: As in `atomic_write`.
    """
    if in_own_folder or is_own_dir(path.parent) or is_overwritable(path):
        path.unlink(missing_ok=True)


def remove_folder(path: Path, names: str) -> None:
    """Remove files of a marked folder, and then its empty folders. Links are not followed.

    Args:
        path: The folder. A folder without the mark is not changed.
        names: Regular expression of the files' relative paths. Other files stay.
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


@contextmanager
def removed_if_refused(places: Sequence[Path], *, unless: Callable[[], bool]) -> Iterator[None]:
    """Remove the places that the block made or filled if it raises UserError. What was there before stays.

    Args:
        places: Files and folders that the block may make. A list of files comes after them.
        unless: Called after a UserError. If it returns True, everything stays.
    """
    absent = [path for path in map(Path.absolute, places) if not os.path.lexists(path)]
    empty = [path for path in places if path.is_dir() and not path.is_symlink() and not os.listdir(path)]
    around = {folder for path in absent for folder in path.parents if not folder.exists()} - {*absent}
    try:
        yield
    except UserError:
        if not unless():
            filled = [entry for folder in empty for entry in folder.iterdir()]
            for path in (*absent, *filled):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    remove_file(path, in_own_folder=path in filled or path.name == LIST)
            for folder in sorted(around, reverse=True):
                with suppress(OSError):  # it is missing, or holds something else
                    folder.rmdir()
        raise


def move(path: Path, folder: Path) -> None:
    """Move a file or folder of a marked folder into another folder. A link is moved as a link.

    Args:
        path: File or folder to move. A link is moved as a link.
        folder: An existing folder on the same file system. The name stays.

    Raises:
        OSError: The move is impossible.
    """
    os.rename(path, folder / path.name)


def clear_leftovers(folder: Path) -> None:
    """Remove what killed processes left at any depth, and give a folder that they moved aside its name back.

    Files that a living process is writing stay.

    Args:
        folder: Folder to clear, with its subfolders. A missing one is no error.
    """
    for parent, folders, _ in os.walk(folder):
        folders[:] = [name for name in folders if name != KEPT_ASIDE and not LEFT_BEHIND.fullmatch(name)]
        _clear(Path(parent))


def _clear(folder: Path, name: str | None = None) -> None:
    """Clear one folder of leftovers, or of those of one target."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = LEFT_BEHIND.fullmatch(entry.name)
            if match and name in (None, match["target"]):
                _clear_one(Path(entry.path), folder / match["target"] if match["old"] else None)


def _clear_one(leftover: Path, target: Path | None) -> None:
    with suppress(OSError):  # locked: its writer lives
        # O_NONBLOCK: a pipe of that name is not waited for.
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


def _target_name(path: Path) -> str:
    encoded = os.fsencode(path.name)
    return path.name if len(encoded) <= NAME_BYTES else hashlib.sha256(encoded).hexdigest()[:16]


def _unfinished(path: Path) -> Path:
    return path.with_name(f".{_target_name(path)}.{secrets.token_hex(8)}.part")


def _begun(path: Path, *, is_folder: bool) -> tuple[Path, int]:
    """A new temporary file or folder for a target, and its descriptor, which holds a lock."""
    flags = os.O_RDONLY if is_folder else os.O_RDWR | os.O_CREAT | os.O_EXCL
    while True:
        part = _unfinished(path)
        if is_folder:
            part.mkdir()
        descriptor = os.open(part, flags | os.O_NOFOLLOW, 0o666)
        if _is_locked(descriptor):
            return part, descriptor
        os.close(descriptor)


def _is_locked(descriptor: int) -> bool:
    """Locks it. False if another process cleared it away between its creation and the lock."""
    with suppress(OSError):  # a file system without locks: there nothing is cleared either
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return os.fstat(descriptor).st_nlink > 0


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _rename_over(new: Path, path: Path) -> None:
    # A full folder cannot be replaced by one rename: the old one is locked, moved aside, and then removed.
    if not path.is_dir():
        os.rename(new, path)
        return
    old = _unfinished(path).with_suffix(".old")
    descriptor = os.open(path, os.O_RDONLY)
    try:
        _is_locked(descriptor)
        os.rename(path, old)
        os.rename(new, path)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        os.close(descriptor)
