"""Running text as rows: windows of a plain-text file that end with sentences, and a held-out part of its lines.

Lines of less than SHORTEST characters are left out. A line longer than a window is split into several, each as long as
fits. A window never crosses a line. Whether a line is held out depends on its bytes alone, so equal lines are in the
same split in every file and on every machine.
"""

import hashlib
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import numpy as np
from jaxtyping import Bool, Int, UInt8

from juzhen.core.errors import UserError
from juzhen.core.examples import Examples, Kind
from juzhen.core.paths import COMPRESSIONS
from juzhen.core.text import NUL_FAULT
from juzhen.data.readers import BYTE_ORDER_MARK, decompressed, mapped, require_utf8, undecodable_lines
from juzhen.data.spec import LayoutConfig, SplitRequest

SHORTEST = 4
"""Characters. Shorter lines, and shorter rests of split lines, carry too little."""

BLOCK_BYTES = 1 << 22
SENTENCE_ENDS = "。！？；!?;…"
CLAUSE_ENDS = "，、：,:"
CLOSING = "”’」』）》】〉)\"'"
NEW_LINE, SPACE = ord("\n"), ord(" ")


class TextTable(Sequence[str]):
    """Windows of running UTF-8 text, in the order of the file. Read-only, and possibly mapped from the file.

    Args:
        content: uint8, the whole text.
        starts: int64, index of each text's first byte in `content`.
        ends: int64, index behind its last byte.

    >>> table = TextTable(np.frombuffer("今天。明天。".encode(), np.uint8), np.array([0, 9]), np.array([9, 18]))
    >>> table[1], table[0:2], len(table), table.sizes.tolist()
    ('明天。', ['今天。', '明天。'], 2, [9, 9])
    """

    def __init__(self, content: UInt8[np.ndarray, "bytes"], starts: np.ndarray, ends: np.ndarray) -> None:
        self.content = content
        self.starts = starts
        self.ends = ends

    @property
    def sizes(self) -> Int[np.ndarray, "texts"]:
        """Bytes per text."""
        return self.ends - self.starts

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, chosen: int) -> str: ...

    @overload
    def __getitem__(self, chosen: slice) -> list[str]: ...

    def __getitem__(self, chosen: int | slice) -> str | list[str]:
        if isinstance(chosen, slice):
            return [self[number] for number in range(*chosen.indices(len(self)))]
        return self.content[self.starts[chosen] : self.ends[chosen]].tobytes().decode().strip()

    def __iter__(self) -> Iterator[str]:
        return (self[number] for number in range(len(self)))


@dataclass
class Windows:
    """Windows of a text, by byte.

    Args:
        starts: Index of each window's first byte.
        ends: Index behind its last byte.
        lines: Line of each window, from 1.
        held_out: True for windows of held-out lines.
    """

    starts: Int[np.ndarray, "windows"]
    ends: Int[np.ndarray, "windows"]
    lines: Int[np.ndarray, "windows"]
    held_out: Bool[np.ndarray, "windows"]

    def chosen(self, rows: np.ndarray) -> "Windows":
        """Select windows.

        Args:
            rows: Indices, or a mask over all windows.

        Returns:
            The windows in the order of the indices.
        """
        return Windows(self.starts[rows], self.ends[rows], self.lines[rows], self.held_out[rows])

    @classmethod
    def joined(cls, parts: "list[Windows]") -> "Windows":
        """Join the windows of several parts of one text.

        Args:
            parts: At least one part, in order. Their byte indices already count from the start of the text.

        Returns:
            All windows.
        """
        names = cls.__dataclass_fields__
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def load_text(path: Path, request: SplitRequest, *, holds_out: bool) -> Examples:
    """Read the windows of a text file as sentences, in the order of the file.

    Args:
        path: The file.
        request: The split.
        holds_out: The file holds dev and train. The split is then that of the held-out lines or of the others.

    Returns:
        Examples of kind `sentence`. Those of train are read from the mapped file when they are used.

    Raises:
        UserError: An empty file, another format, a faulty line, or no line for the split.
    """
    layout, split = request.layout, request.split
    content = _content(path)
    windows, faults = _all_windows(content, layout)
    if faults and request.on_bad_row == "error":
        line, reason = min(faults.items())
        raise UserError(
            f"{path}:{line}: {reason}. Fix the file, or choose on_bad_row=drop to leave such lines out and count them"
        )
    if holds_out:
        windows = windows.chosen(np.flatnonzero(windows.held_out == (split == "dev")))
        if split == "dev" and layout.held_out_rows is not None:
            # Spread over the file, whose parts may have different subjects.
            offsets = np.linspace(0, len(windows.starts) - 1, min(layout.held_out_rows, len(windows.starts)))
            windows = windows.chosen(offsets.astype(np.int64))
    if not len(windows.starts):
        raise UserError(f"{path}: no line of {SHORTEST} or more characters is left for {split}")
    table = TextTable(content, windows.starts, windows.ends)
    return Examples(
        request.config.name,
        split,
        Kind.SENTENCE,
        table if split == "train" else list(table),
        {"text": np.arange(len(windows.starts), dtype=np.int32)},
        None,
        fingerprint=_fingerprint(content, windows),
        num_dropped=len(faults),
        lines=windows.lines.astype(np.int32),
    )


def _content(path: Path) -> UInt8[np.ndarray, "bytes"]:
    """The bytes of the file: mapped into memory, or unpacked as one block."""
    packed = path.suffix in COMPRESSIONS
    if (path.with_suffix("") if packed else path).suffix.lower() != ".txt":
        raise UserError(
            f"{path}: a layout with `window` reads plain text. Expected .txt, .txt.zst or .txt.gz"
        )
    content = np.frombuffer(decompressed(path) if packed else mapped(path), dtype=np.uint8)
    start = content[:BLOCK_BYTES].tobytes()
    require_utf8(path, start)
    plain = start.removeprefix(BYTE_ORDER_MARK).removeprefix(BYTE_ORDER_MARK)
    if b"\r" in plain.strip(b"\r\n") and b"\n" not in plain.strip(b"\r\n"):
        raise UserError(f"{path}:1: carriage returns are no line ends. Save the file with line feeds")
    content = content[len(start) - len(plain) :]
    if not len(content):
        raise UserError(f"{path}: the file is empty. Give another file")
    return content


def _fingerprint(content: UInt8[np.ndarray, "bytes"], windows: Windows) -> str:
    digest = hashlib.blake2b(content.data, digest_size=16)
    digest.update(np.stack([windows.starts, windows.ends]).astype("<i8").tobytes())
    return digest.hexdigest()


def _all_windows(content: UInt8[np.ndarray, "bytes"], layout: LayoutConfig) -> tuple[Windows, dict[int, str]]:
    assert layout.window is not None  # otherwise its files would be tables
    parts, line = [], 1
    faults: dict[int, str] = {}
    for start, end in _blocks(content):
        block = content[start:end].tobytes()
        if bad := _bad_lines(block, first_line=line):
            faults |= bad
            block = b"\n".join(
                b" " * len(row) if line + number in bad else row
                for number, row in enumerate(block.split(b"\n"))
            )
        text = block.decode()
        windows = _windows(text, window=layout.window, held_out_percent=layout.held_out_percent)
        windows.starts += start
        windows.ends += start
        windows.lines += line
        parts.append(windows)
        line += block.count(b"\n")
    return Windows.joined(parts), faults


def _blocks(content: UInt8[np.ndarray, "bytes"]) -> Iterator[tuple[int, int]]:
    """Blocks of about BLOCK_BYTES that end with a line."""
    start = 0
    while start < len(content):
        end = start + BLOCK_BYTES
        while end < len(content):
            (breaks,) = np.nonzero(content[end : end + BLOCK_BYTES] == NEW_LINE)
            if len(breaks):
                end += int(breaks[0]) + 1
                break
            end += BLOCK_BYTES
        yield start, min(end, len(content))
        start = end


def _bad_lines(block: bytes, *, first_line: int) -> dict[int, str]:
    faults = {}
    if b"\0" in block:
        line_numbers = enumerate(block.split(b"\n"), start=first_line)
        faults = {number: f"the line {NUL_FAULT}" for number, line in line_numbers if b"\0" in line}
    try:
        block.decode()
    except UnicodeDecodeError:
        faults |= undecodable_lines(block, first_line=first_line)
    return faults


def _windows(text: str, *, window: int, held_out_percent: float) -> Windows:
    """Windows of some whole lines. Bytes and lines count from 0."""
    points = np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
    widths = 1 + (points > 0x7F).astype(np.int64) + (points > 0x7FF) + (points > 0xFFFF)
    offsets = np.concatenate([[0], np.cumsum(widths)])  # character → byte
    breaks = np.flatnonzero(points == NEW_LINE)
    starts, ends = np.append(0, breaks + 1), np.append(breaks, len(points))
    raw, spans = text.encode(), zip(offsets[starts].tolist(), offsets[ends].tolist(), strict=True)
    buckets = np.array([zlib.crc32(raw[first:last]) for first, last in spans])
    held_out = buckets % 10_000 < held_out_percent * 100
    starts, ends, line_numbers = _cut(points, starts, ends, window=window)
    solid = np.concatenate([[0], np.cumsum(points > SPACE)])  # characters other than ASCII white space
    is_long = solid[ends] - solid[starts] >= SHORTEST
    starts, ends, line_numbers = starts[is_long], ends[is_long], line_numbers[is_long]
    return Windows(offsets[starts], offsets[ends], line_numbers, held_out[line_numbers])


def _cut(
    points: np.ndarray, starts: np.ndarray, ends: np.ndarray, *, window: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Split each line into windows of at most `window` characters: (starts, ends, line), in order.

    All lines are split once at a time: behind the last sentence end of the window, else behind its last comma, else
    behind its last space, else at its end. A window is not split in its first third, which would give splinters.
    """
    levels = [
        _ends_behind(points, SENTENCE_ENDS, with_full_stop=True),
        _ends_behind(points, CLAUSE_ENDS),
        np.flatnonzero(points == SPACE) + 1,
    ]
    line_numbers = np.arange(len(starts))
    done: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    while len(starts):
        cuts = np.minimum(starts + window, ends)
        undecided = cuts < ends
        for marks in levels:
            if not len(marks):
                continue
            last = marks[np.maximum(np.searchsorted(marks, cuts, side="right") - 1, 0)]
            windows = undecided & (last > starts + window // 3) & (last <= cuts)
            cuts = np.where(windows, last, cuts)
            undecided &= ~windows
        done.append((starts, cuts, line_numbers))
        goes_on = cuts < ends
        starts, ends, line_numbers = cuts[goes_on], ends[goes_on], line_numbers[goes_on]
    starts, cuts, line_numbers = (np.concatenate(columns) for columns in zip(*done, strict=True))
    order = np.argsort(starts, kind="stable")
    return starts[order], cuts[order], line_numbers[order]


def _ends_behind(points: np.ndarray, marks: str, *, with_full_stop: bool = False) -> np.ndarray:
    """Positions right behind one of the marks, or behind the closing quotes that follow it."""
    is_end = np.isin(points, np.array([ord(mark) for mark in marks], dtype=np.uint32))
    following = np.append(points[1:], NEW_LINE)
    if with_full_stop:  # of Latin text; not the point of 3.5
        is_end |= (points == ord(".")) & (following == SPACE)
    closes = np.isin(points, np.array([ord(mark) for mark in CLOSING], dtype=np.uint32))
    is_end = (is_end & ~np.append(closes[1:], False)) | (closes & np.append(False, is_end[:-1]))
    return np.flatnonzero(is_end) + 1
