"""The bytes of a file, unpacked where its name says so, and never more of them than a text can hold."""

import gzip
import io
import zlib
from pathlib import Path

import zstandard

from juzhen.core.errors import UserError

ALWAYS_BYTES = 2**26
MOST_TIMES = 200
"""A file may unpack to so many times its size, or to ALWAYS_BYTES. Text packs to a third or a tenth; what packs to less
than a two-hundredth says next to nothing, and may be made to fill the memory."""

CHUNK = 4096
"""Bytes of a zstd file that are unpacked at a time: one block of it can hold 32,000 times its size."""


def decompressed(path: Path) -> bytes:
    """The bytes of the file, unpacked; a file cut short is an error, not a short file."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    try:
        match path.suffix.lower():
            case ".zst":
                return _unpack_zstd(raw, _room(raw), path)
            case ".gz":
                return _unpack_gzip(raw, _room(raw), path)
    except EOFError:
        raise UserError(f"{path}: the compressed file is cut short; fetch or copy it again") from None
    except (OSError, zlib.error, zstandard.ZstdError) as error:
        raise UserError(f"{path}: damaged, or not compressed as its suffix says ({error})") from error
    return raw


def _room(raw: bytes) -> int:
    return max(ALWAYS_BYTES, MOST_TIMES * len(raw))


def _unpack_gzip(raw: bytes, room: int, path: Path) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
        content = file.read(room + 1)
    return _within(content, room, path, f"gzip -dk {path.name}")


def _unpack_zstd(raw: bytes, room: int, path: Path) -> bytes:
    """All frames of a zstd file, one by one: the stream reader takes a truncated file for a short one."""
    parts, size, start = [], 0, 0
    while start < len(raw) and size <= room:
        frame = zstandard.ZstdDecompressor().decompressobj()
        while start < len(raw) and not frame.eof and size <= room:
            parts.append(frame.decompress(raw[start : start + CHUNK]))
            start += CHUNK
            size += len(parts[-1])
        if frame.eof:
            start = min(start, len(raw)) - len(frame.unused_data)
        elif size <= room:
            raise EOFError
    return _within(b"".join(parts), room, path, f"zstd -dk {path.name}")


def _within(content: bytes, room: int, path: Path, command: str) -> bytes:
    if len(content) > room:
        raise UserError(
            f"{path}: unpacks to more than {MOST_TIMES} times its size ({room / 2**20:.0f} MiB and more), as no text "
            f"does; if it is meant, unpack it yourself: {command}"
        )
    return content
