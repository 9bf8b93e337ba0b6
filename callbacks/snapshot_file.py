"""A file in memory that holds one state of training, and is whole whenever its process is killed."""

import io
import json
import mmap
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from callbacks.snapshots import HEADER_BYTES, STATE_AT, TOLD, WHOLE, boot_id, lock, read_header, read_told
from juzhen.core.opened import open_input
from juzhen.core.whole import remove_file

ALIGNMENT = 64
REMAINDER_BYTES = 2**18
"""Room for whatever is not a tensor: counters, generators, what callbacks remember."""
LARGE_BYTES = 2**29
"""A state that takes more has one copy: memory for a second is worth more than the moments in which it is written."""
MEMORY_SHARE = 0.5
"""Of the memory that is available, what a snapshot may take."""

Layout = list[list[Any]]
"""Of each tensor its type, shape, number of elements, first byte and number of bytes."""


class NoRoomError(Exception):
    """There is not enough shared memory; the message says how much was wanted."""


class SnapshotFile:
    """Copies of one state in a file that is mapped into memory: the older one is overwritten, then declared whole.

    Of a large state there is one copy, and none is whole while it is written.

    In the file: a page that tells owner and sizes and ends with what is whole, the layout as JSON, the copies.
    A copy is its tensors and a remainder, everything else, which `torch.save` wrote and `weights_only` reads.

    path     a file that does not exist yet
    owner    folder of the checkpoints that it belongs to
    tensors  like those of the states that will be written: as many, of the same types and shapes
    Raises NoRoomError.
    """

    def __init__(self, path: Path, owner: Path, tensors: list[Tensor]) -> None:
        self.path = path
        layout = describe(tensors)
        end = max((offset + size for *_, offset, size in layout), default=0)
        described = json.dumps(layout).encode()
        first = aligned(HEADER_BYTES + len(described))
        self._slot_bytes = aligned(end) + REMAINDER_BYTES
        copies = 1 if self._slot_bytes > LARGE_BYTES else 2
        self._starts = [first + copy * self._slot_bytes for copy in range(copies)]
        self._file = _create(path, first + copies * self._slot_bytes)
        # Mapped page by page at the first writes, these would look several times as slow as they will be.
        flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
        self._map = mmap.mmap(self._file.fileno(), 0, flags=flags)
        sizes = {"layout_bytes": len(described), "slot_bytes": self._slot_bytes}
        words = json.dumps({"owner": str(owner.resolve()), "boot": boot_id(), **sizes}).encode()
        self._map[: len(words)] = words
        self._map[HEADER_BYTES : HEADER_BYTES + len(described)] = described
        self._views = [_views(self._map, layout, start) for start in self._starts]
        self._whole = 0

    def fits(self, tensors: list[Tensor]) -> bool:
        """True when the file was made for such tensors."""
        views = self._views[0]
        return len(views) == len(tensors) and all(
            view.shape == tensor.shape and view.dtype == tensor.dtype
            for view, tensor in zip(views, tensors, strict=True)
        )

    @torch.no_grad()
    def write(self, tensors: list[Tensor], remainder: Any, *, steps: int) -> None:
        """Copies a state. Killed at any moment, this leaves the one before it or this one; of large ones this or none.

        remainder  all but the tensors, see `take_apart`
        steps      optimizer steps that the state has behind it
        Raises NoRoomError.
        """
        buffer = io.BytesIO()
        torch.save(remainder, buffer)
        size = buffer.tell()
        if size > REMAINDER_BYTES:
            raise NoRoomError(f"{size} bytes beside the tensors, room for {REMAINDER_BYTES}")
        index = self._whole % len(self._starts)  # the copy that is not whole, or the only one
        if self._whole == index + 1:
            self._declare(0)
        for view, tensor in zip(self._views[index], tensors, strict=True):
            view.copy_(tensor)
        end = self._starts[index] + self._slot_bytes
        self._map[end - REMAINDER_BYTES : end - REMAINDER_BYTES + size] = buffer.getvalue()
        told_at = STATE_AT + WHOLE.size + index * TOLD.size
        self._map[told_at : told_at + TOLD.size] = TOLD.pack(size, steps)
        self._declare(index + 1)
        os.utime(self._file.fileno())  # memory that is mapped does not tell when it was written to

    def state(self) -> dict[str, Any] | None:
        """The state that was written last; its tensors are the copy itself, so that no memory is taken for them."""
        if not self._whole:
            return None
        index = self._whole - 1
        told_at = STATE_AT + WHOLE.size + index * TOLD.size
        size, _ = TOLD.unpack(self._map[told_at : told_at + TOLD.size])
        at = self._starts[index] + self._slot_bytes - REMAINDER_BYTES
        return _whole_state(self._map[at : at + size], self._views[index])

    def _declare(self, whole: int) -> None:
        self._whole = whole
        self._map[STATE_AT : STATE_AT + WHOLE.size] = WHOLE.pack(whole)

    def close(self) -> None:
        """Gives the memory back; the state is gone."""
        remove_file(self.path, in_own_folder=True)
        self._views = []
        with suppress(BufferError):  # something else still looks into it
            self._map.close()
        self._file.close()


def _views(memory: mmap.mmap, layout: Layout, start: int) -> list[Tensor]:
    """The tensors of `layout` in memory that begins at `start`."""
    views = []
    for dtype, shape, count, offset, _ in layout:
        kind = getattr(torch, dtype)
        view = torch.frombuffer(memory, dtype=kind, count=count, offset=start + offset) if count else None
        views.append(torch.empty(shape, dtype=kind) if view is None else view.view(shape))
    return views


def take_apart(state: Any) -> tuple[list[Tensor], Any]:
    """The tensors of nested dictionaries and lists, in order, and the same with a number where each tensor was."""
    tensors: list[Tensor] = []

    def walk(node: Any) -> Any:
        if isinstance(node, Tensor):
            tensors.append(node)
            return {"tensor": len(tensors) - 1, "is": "here"}
        if isinstance(node, dict):
            return {key: walk(value) for key, value in node.items()}
        if isinstance(node, list | tuple):
            return type(node)(walk(value) for value in node)
        return node

    return tensors, walk(state)


def put_together(remainder: Any, tensors: list[Tensor]) -> Any:
    """What `take_apart` was given."""
    if isinstance(remainder, dict):
        if remainder.keys() == {"tensor", "is"}:
            return tensors[remainder["tensor"]]
        return {key: put_together(value, tensors) for key, value in remainder.items()}
    if isinstance(remainder, list | tuple):
        return type(remainder)(put_together(value, tensors) for value in remainder)
    return remainder


def describe(tensors: list[Tensor]) -> Layout:
    """Where the tensors are put, one after another."""
    layout, offset = [], 0
    for tensor in tensors:
        size = tensor.numel() * tensor.element_size()
        dtype = str(tensor.dtype).removeprefix("torch.")
        layout.append([dtype, list(tensor.shape), tensor.numel(), offset, size])
        offset = aligned(offset + size)
    return layout


def aligned(offset: int) -> int:
    """The next place at which a tensor may begin."""
    return -(-offset // ALIGNMENT) * ALIGNMENT


def _create(path: Path, size: int) -> BinaryIO:
    """A new file that nobody else can read, held by a lock of this process; its memory is set aside already."""
    available = min(_available_bytes() * MEMORY_SHARE, _free_bytes(path.parent))
    if size > available:
        raise NoRoomError(f"it would take {size / 2**20:,.0f} MiB, and {available / 2**20:,.0f} may be taken")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        lock(descriptor)
        os.posix_fallocate(descriptor, 0, size)  # without, a full file system would be a bus error later
    except OSError as error:
        remove_file(path, in_own_folder=True)
        os.close(descriptor)
        raise NoRoomError(f"{size / 2**20:,.0f} MiB could not be had ({error})") from error
    return os.fdopen(descriptor, "r+b")


def _available_bytes() -> float:
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 2**10
    return float("inf")


def _free_bytes(folder: Path) -> int:
    system = os.statvfs(folder)
    return system.f_bavail * system.f_frsize


def read_snapshot(path: Path) -> dict[str, Any]:
    """The state that was written last, as tensors of its own. Raises OSError or ValueError if there is none."""
    with open_input(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as memory:
        header = read_header(memory[:HEADER_BYTES])
        whole, size, _ = read_told(memory[:HEADER_BYTES])
        layout = json.loads(memory[HEADER_BYTES : HEADER_BYTES + header["layout_bytes"]])
        start = aligned(HEADER_BYTES + header["layout_bytes"]) + (whole - 1) * header["slot_bytes"]
        end = start + header["slot_bytes"]
        stored = memory[end - REMAINDER_BYTES : end - REMAINDER_BYTES + size]
        tensors = [view.clone() for view in _views(memory, layout, start)]
    return _whole_state(stored, tensors)


def _whole_state(remainder: bytes, tensors: list[Tensor]) -> dict[str, Any]:
    """A state from the two parts that were written of it."""
    rest = torch.load(io.BytesIO(remainder), map_location="cpu", weights_only=True)
    return put_together(rest, tensors)
