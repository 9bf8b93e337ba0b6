"""Cache of arrays on disk, read by memory mapping: tokens and embeddings that all runs share.

One safetensors file per key. It is written atomically and never changed, so processes need no lock: two that write the
same key only lose time.
"""

import json
import mmap
import os
import re
import time
import warnings
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from juzhen.core.atomic_write import atomic_write, clear_leftovers, remove_file
from juzhen.core.errors import UserError
from juzhen.core.file_guard import claim_dir
from juzhen.core.safe_open import open_regular_file

SUFFIX = ".safetensors"
FILE = rf"[0-9a-f]{{32}}\{SUFFIX}"
"""Pattern of a file name: the key, a digest of everything that determines the arrays."""

DTYPES = {"I64": "<i8", "I32": "<i4", "F32": "<f4", "F16": "<f2", "U8": "|u1"}
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}
ALIGNED = 64

STAYS_SECONDS = 24 * 3600
"""A file used within this time is not removed to make room, because a job may still map it."""

_CHECKED: dict[Path, tuple[int, ...]] = {}
"""File → its state when this process last compared its bytes with the checksum."""


class Stored(dict[str, np.ndarray]):
    """Mapped arrays of a file. Another process gets the path and maps the file itself."""

    def __init__(self, path: Path, arrays: Mapping[str, np.ndarray]) -> None:
        super().__init__(arrays)
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return read_arrays, (self.path, False)


class ArrayCache:
    """Files `<folder>/<key>.safetensors`. A key may begin with the name of a subfolder.

    A damaged file is removed with a warning. If nothing can be written, a warning appears and the work continues.

    Args:
        folder: Folder of the cache.
        holds: Its content, in the plural, for messages.
        max_bytes: Largest size. The files that were used longest ago are removed.
    """

    def __init__(self, folder: str | Path, *, holds: str, max_bytes: int) -> None:
        self.folder = Path(folder).expanduser()
        self._holds = holds
        self._max_bytes = max_bytes

    def path(self, key: str) -> Path:
        """Return the file of a key. It need not exist.

        Args:
            key: Name without suffix, with `/` after the name of a subfolder.

        Returns:
            Path of a `.safetensors` file in the cache.
        """
        return self.folder / f"{key}{SUFFIX}"

    def keys(self, prefix: str) -> list[str]:
        """Return all keys in a subfolder, in order.

        Args:
            prefix: Name of the subfolder. A link is a foreign folder, and has no keys.

        Returns:
            Keys with the prefix. An empty list if the folder is missing.
        """
        folder = self.folder / prefix
        if self.folder.is_symlink() or folder.is_symlink():
            return []
        return sorted(f"{prefix}/{path.stem}" for path in folder.glob(f"*{SUFFIX}") if _is_ours(path))

    def read(self, key: str) -> Stored | None:
        """Return the arrays of a key, or None.

        Args:
            key: Key as in `write`. Its file becomes the one used last.

        Returns:
            The arrays, mapped from the file. None if the file is missing, or damaged: then it is removed with a
            warning.
        """
        path = self.path(key)
        try:
            stored = read_arrays(path, checks=_CHECKED.get(path) != _state(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            warnings.warn(f"{path}: cannot be used ({error}); its {self._holds} are made again", stacklevel=2)
            self.remove(key)
            return None
        with suppress(OSError):  # a read-only folder
            os.utime(path)  # time of the last use
        with suppress(OSError):  # another process may have removed it to make room
            _CHECKED[path] = _state(path)
        return stored

    def write(self, key: str, arrays: Mapping[str, np.ndarray]) -> Stored | None:
        """Write arrays and map them.

        Of several processes that write a key at once, the last ones use the file of the first: all map the same file.

        Args:
            key: Name without suffix, with `/` after the name of a subfolder.
            arrays: Name → array of any shape.

        Returns:
            The mapped arrays. None, with a warning, if they cannot be written.
        """
        path = self.path(key)
        try:
            claim_dir(self.folder)
            claim_dir(path.parent)
            with atomic_write(path, "wb", unless=path.is_file, in_own_folder=True) as file:
                write_arrays(file, arrays, key=key)
            with suppress(FileNotFoundError):  # another process may clear it, too
                self._make_room()
            return read_arrays(path)
        except (OSError, ValueError, UserError) as error:
            warnings.warn(
                f"{path.parent}: {self._holds} cannot be kept here ({getattr(error, 'strerror', None) or error}); the "
                "work goes on without. Choose another folder for the cache",
                stacklevel=2,
            )
            return None

    def remove(self, key: str) -> None:
        """Remove the file of a key. A missing file is no error.

        Args:
            key: Key as in `write`.
        """
        with suppress(OSError):
            remove_file(self.path(key))

    def _make_room(self) -> None:
        clear_leftovers(self.folder)
        files = [(path.stat(), path) for path in self.folder.rglob(f"*{SUFFIX}") if _is_ours(path)]
        room, now = self._max_bytes, time.time()
        for status, path in sorted(files, key=lambda file: -file[0].st_mtime):
            room -= status.st_size
            if room < 0 and now - status.st_mtime > STAYS_SECONDS:
                remove_file(path)


def _state(path: Path) -> tuple[int, ...]:
    """Inode, size and time of the last change: a file with other bytes has another state."""
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _is_ours(path: Path) -> bool:
    return re.fullmatch(FILE, path.name) is not None


def write_arrays(file: IO[bytes], arrays: Mapping[str, np.ndarray], *, key: str) -> None:
    """Write a safetensors file with a checksum of key and bytes.

    The widest numbers come first, so that all are aligned.

    Args:
        file: Open for bytes, at the position of the first byte.
        arrays: Name → array. Arrays that are not contiguous are copied.
        key: Written, too, and its name is part of the checksum, so that a file at another place is refused.
    """
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    arrays = dict(sorted(arrays.items(), key=lambda item: -item[1].itemsize))
    entries, end = {}, 0
    for name, array in arrays.items():
        start, end = end, end + array.nbytes
        entries[name] = {"dtype": NAMES[array.dtype], "shape": array.shape, "data_offsets": [start, end]}
    checksum = _checksum(key.rpartition("/")[2], entries)
    for array in arrays.values():
        checksum = zlib.crc32(array.data, checksum)
    header = json.dumps({"__metadata__": {"checksum": str(checksum), "key": key}, **entries}).encode()
    header += b" " * (-(8 + len(header)) % ALIGNED)
    file.write(len(header).to_bytes(8, "little") + header)
    for array in arrays.values():
        file.write(array.data)


def read_arrays(path: Path, checks: bool = True) -> Stored:
    """Map the arrays of a file, read-only.

    Args:
        path: The file.
        checks: Compare all bytes with the checksum. False if another process has just done it.

    Returns:
        The arrays and their file.

    Raises:
        OSError: The file cannot be opened.
        ValueError: The file is damaged.
    """
    with open_regular_file(path) as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    start = 8 + int.from_bytes(content[:8], "little")
    try:
        entries = json.loads(content[8:start])
        facts = entries.pop("__metadata__")
        checksum, key = facts["checksum"], facts.get("key", path.stem)  # files of before 0.3 have no key
        if not path.with_suffix("").as_posix().endswith(key):
            raise ValueError(f"written as {key}")
        if checks and checksum != str(zlib.crc32(memoryview(content)[start:], _checksum(path.stem, entries))):
            raise ValueError("a wrong checksum")
        return Stored(path, {name: _array(content, start, entry) for name, entry in entries.items()})
    except (LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"no arrays: {type(error).__name__}") from error


def _array(content: mmap.mmap, start: int, entry: Mapping[str, Any]) -> np.ndarray:
    dtype, (first, end) = np.dtype(DTYPES[entry["dtype"]]), entry["data_offsets"]
    return np.frombuffer(content, dtype, (end - first) // dtype.itemsize, start + first).reshape(
        entry["shape"]
    )


def _checksum(key: str, entries: Mapping[str, Any]) -> int:
    return zlib.crc32(f"{key} {json.dumps(entries)}".encode())
