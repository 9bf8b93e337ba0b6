"""stdout and stderr such that no text and no reader can end a program."""

import codecs
import errno
import io
import os
import sys
import unicodedata
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

NOBODY_READS = (errno.EPIPE, errno.EIO)
"""The reader of a pipe has seen enough, or the terminal is gone: no reason to lose what was computed."""

PLAIN = {
    **dict.fromkeys("×", "x"),
    **dict.fromkeys("·•", "*"),
    **dict.fromkeys("–—−‐", "-"),
    **dict.fromkeys("“”", '"'),
    **dict.fromkeys("‘’", "'"),
    "…": "...",
    "→": "->",
    "←": "<-",
    "±": "+-",
    "≤": "<=",
    "≥": ">=",
    "。": ".",
    "、": ",",
    **dict.fromkeys("─━═╌╍┄┅┈┉", "-"),
    **dict.fromkeys("│┃║╎╏┆┇┊┋", "|"),
    **dict.fromkeys("█▉▊▋▌▍▎▏▓▒░", "#"),
}
"""Sign → what stands for it where it cannot be shown."""


def open_streams() -> "Lasting":
    """Makes stdout and stderr such that no text and no reader can end the program; gives what stdout writes to.

    Closed ones go nowhere. As they are they would be worse than silent: the next file to be opened would take their
    number, and their text.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    codecs.register_error("readable", readable)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    output = Lasting(1)
    sys.stdout, sys.stderr = _over(output, sys.stdout), _over(Lasting(2), sys.stderr)
    return output


class Lasting(io.FileIO):
    """A file to write to whose reader may go: from then on what is written is dropped.

    problem  why it could not be written, unless because nobody reads it any more
    """

    def __init__(self, number: int) -> None:
        super().__init__(number, "wb", closefd=False)
        self.name = ("<stdin>", "<stdout>", "<stderr>")[number]
        self.problem: OSError | None = None

    def write(self, data: "ReadableBuffer") -> int:
        try:
            return super().write(data)
        except OSError as error:
            self.problem = None if error.errno in NOBODY_READS else error
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())  # also for C libraries and for processes that are started
            os.close(nowhere)
            return memoryview(data).nbytes


def _over(file: Lasting, stream: TextIO | None) -> TextIO:
    """A text stream over `file` that encodes as `stream` does."""
    given = stream if isinstance(stream, io.TextIOWrapper) else None
    return io.TextIOWrapper(
        io.BufferedWriter(file),
        encoding=given.encoding if given else "utf-8",
        errors="readable",
        line_buffering=given.line_buffering if given else True,
        write_through=given.write_through if given else False,
    )


def readable(error: UnicodeError) -> tuple[str, int]:
    """Error handler of a codec: what it cannot encode becomes the plain signs that come closest.

    Chinese becomes \\u4eca, a byte that was no UTF-8 \\xff.

    >>> _ = codecs.register_error("readable", readable)
    >>> "Spearman ×100 … é 今 ┏━┓".encode("ascii", "readable")
    b'Spearman x100 ... e \\\\u4eca +-+'
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_plain, error.object[error.start : error.end])), error.end


def _plain(sign: str) -> str:
    if sign in PLAIN:
        return PLAIN[sign]
    if "\u2500" <= sign <= "\u257f":
        return "+"  # corners and crossings of boxes
    simple = unicodedata.normalize("NFKD", sign).encode("ascii", "ignore").decode()
    if simple:
        return simple
    number = ord(sign)
    if 0xDC80 <= number <= 0xDCFF:
        return f"\\x{number - 0xDC00:02x}"
    return sign.encode("ascii", "backslashreplace").decode()
