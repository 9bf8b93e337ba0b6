"""What stands around every program: its streams and its exit status.

Imports nothing that takes time, so that Ctrl-C finds this in place.
"""

import errno
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from juzhen.core.answer import status_of
from juzhen.core.progress import quiet_libraries

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

SPINS = "4000"
"""How often a thread that waits for others looks before it sleeps, in libgomp, the OpenMP of torch on Linux."""

NOBODY_READS = (errno.EPIPE, errno.EIO)
"""The reader of a pipe has seen enough, or the terminal is gone: no reason to lose what was computed."""


def run_program(main: Callable[[], int | None], work: str = "") -> int:
    """Runs `main` and gives the exit status: its own, 2 after a mistake of the user, 130 after Ctrl-C, 1 after all
    else that is raised, and where its output could not be written (a full disk). A reader that has gone
    (`| head -1`) is no error.

    work  what is being done, for the line that tells of an exception
    """
    wait_briefly()
    output = open_streams()
    quiet_libraries()
    status = status_of(main, work or Path(sys.argv[0]).name)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if output.problem is not None:
        print(f"error: the output could not be written: {output.problem.strerror}", file=sys.stderr)
        return status or 1
    return status


def wait_briefly() -> None:
    """Threads that wait for others soon sleep. Must be called before torch is loaded; a choice of the user's stays.

    By default they spin 300,000 times. Where another program takes one of the cores, they then hold the core that the
    thread they wait for needs. The short spin costs about 4 % when quiet (docs/guides/speed.md).
    """
    if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = SPINS


def open_streams() -> "Lasting":
    """Makes stdout and stderr such that no text and no reader can end the program; gives what stdout writes to.

    What an encoding lacks is written as \\u4eca. Closed streams go nowhere: the next file to be opened would take their
    number, and their text.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
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
    wrapper = stream if isinstance(stream, io.TextIOWrapper) else None
    return io.TextIOWrapper(
        io.BufferedWriter(file),
        encoding=wrapper.encoding if wrapper else "utf-8",
        errors="backslashreplace",
        line_buffering=wrapper.line_buffering if wrapper else True,
        write_through=wrapper.write_through if wrapper else False,
    )
