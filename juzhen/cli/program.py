"""What stands around every program: its streams, its exit status, and the one handler of whatever is raised.

A mistake, or an error of a library, becomes one line on stderr, with a file that holds the traceback. Imports nothing
that takes time, so that Ctrl-C finds this in place.
"""

import errno
import io
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from juzhen.core.errors import INTERRUPTED, INTERRUPTED_STATUS, MISTAKE_STATUS, UserError, print_error
from juzhen.core.process import collect_rarely
from juzhen.core.progress import quiet_libraries
from juzhen.core.text import short

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

SPINS = "4000"
"""How often a thread that waits for others looks before it sleeps, in libgomp, the OpenMP of torch on Linux."""

NOBODY_READS = (errno.EPIPE, errno.EIO)
"""The reader of a pipe has seen enough, or the terminal is gone: no reason to lose what was computed."""

FULL_ERROR = "HYDRA_FULL_ERROR"
"""A variable that asks for tracebacks with 1, of Hydra and of us."""

FAILED_STATUS = 1
"""Exit status where starting the program again may help, or where nobody knows."""

ADVICE = {
    errno.ENOSPC: "free some space, or choose a folder on another disk",
    errno.EDQUOT: "free some space, or choose a folder on another disk",
    errno.EFBIG: "raise the limit of the size of files (ulimit -f), or write less",
    errno.EROFS: "choose a folder that can be written to",
    errno.EACCES: "choose a place that you may read and write",
    errno.EPERM: "choose a place that you may read and write",
    errno.EEXIST: "a file stands where a folder is expected; choose another place",
    errno.ENOENT: "choose a place that is there",
    errno.ENOTDIR: "a file stands where a folder is expected; choose another place",
    errno.EISDIR: "a folder stands where a file is expected; choose another place",
    errno.ELOOP: "its links lead in a circle, or to no place; choose another place",
    errno.ENAMETOOLONG: "give a shorter one",
    errno.EINVAL: "choose a file or a folder",
}
"""What the system refuses → what to do."""

MISTAKES = ADVICE.keys() - {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EPERM}
"""Refusals that will come again with the same command."""

LONGEST_REASON = 400
"""Characters of what another library says; the file with the traceback has all of it."""


def run_program(main: Callable[[], int | None], work: str = "") -> int:
    """Runs `main` and gives the exit status: its own, 2 after a mistake of the user, 130 after Ctrl-C, 1 after all
    else that is raised, and where its output could not be written (a full disk). A reader that has gone
    (`| head -1`) is no error.

    work  what is being done, for the line that tells of an exception
    """
    wait_briefly()
    collect_rarely()
    output = open_streams()
    quiet_libraries()
    warnings.formatwarning = _in_a_line
    status = status_of(main, work or Path(sys.argv[0]).name)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if output.problem is not None:
        print(f"error: the output could not be written: {output.problem.strerror}", file=sys.stderr)
        return status or 1
    return status


def _in_a_line(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """A warning of ours without the line of code that gave it; those of libraries with their place."""
    place = "" if category is UserWarning else f"{filename}:{lineno}: {category.__name__}: "
    return f"warning: {place}{message}\n"


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


def status_of(main: Callable[[], int | None], work: str = "") -> int:
    """Runs `main` and gives the exit status; what it raises is answered in one line.

    work  what is being done, for the line: the program or the verb
    """
    try:
        return main() or 0
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)
        return FAILED_STATUS
    except (Exception, KeyboardInterrupt) as error:
        if wants_traceback() and isinstance(error, Exception):
            raise
        return answer(error, work)


def wants_traceback() -> bool:
    return os.environ.get(FULL_ERROR) == "1"


def answer(error: BaseException, work: str = "") -> int:
    """Says in one line on stderr what was raised, and where its traceback is; gives the exit status."""
    if isinstance(error, KeyboardInterrupt):
        print(INTERRUPTED, file=sys.stderr)
        return INTERRUPTED_STATUS
    if isinstance(error, UserError):
        print_error(error)
        return MISTAKE_STATUS
    task = ", ".join(filter(None, (work, *reversed(getattr(error, "__notes__", [])))))
    line = f"{task}: {reason_of(error)}" if task else reason_of(error)
    log = None if _tells_all(error) else _logged(error)
    line = f"{line}; the traceback is in {log}" if log else line
    try:
        print_error(UserError(line))
    except Exception:  # without memory nothing can be loaded that would look for secrets
        print(f"error: {type(error).__name__}", file=sys.stderr)
    return MISTAKE_STATUS if isinstance(error, OSError) and error.errno in MISTAKES else FAILED_STATUS


def reason_of(error: BaseException) -> str:
    """What an exception says, in the words of whoever raised it, with the file and what can be done about it."""
    if isinstance(error, OSError) and error.strerror:
        names = [
            short(os.fsdecode(name), 200) for name in (error.filename, error.filename2) if _is_name(name)
        ]
        parts = [": ".join([*names[:1], error.strerror]), ADVICE.get(error.errno or 0, "")]
        return "; ".join(filter(None, parts))
    if isinstance(error, MemoryError):
        message = f" ({_last_line(error)})" if str(error) else ""
        return f"out of memory{message}; take smaller batches or less data, or allow more memory"
    if isinstance(error, RecursionError):
        return "what was read is nested too deeply, brackets in brackets"
    if isinstance(error, UnicodeEncodeError):
        return f"{short(error.object, 100)}: a name or a text that is no UTF-8; give it another name"
    kind = type(error).__name__
    message = _last_line(error)
    return message if message.startswith(kind) else f"{kind}: {message}" if message else kind


def _is_name(name: object) -> bool:
    return isinstance(name, str | bytes) and bool(name)


def _last_line(error: BaseException) -> str:
    """The message on one line; of a worker's traceback that another process has sent, its end."""
    text_lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if any("Traceback (most recent call last)" in line for line in text_lines):
        text_lines = text_lines[-1:]
    return short(" ".join(text_lines), LONGEST_REASON)


def _tells_all(error: BaseException) -> bool:
    """A refusal of the system, with its file: a traceback would say nothing more."""
    return isinstance(error, OSError) and error.errno in ADVICE and _is_name(error.filename)


def _logged(error: BaseException) -> str | None:
    """A new file that holds the traceback, readable by its owner alone; None where none can be written."""
    with suppress(Exception):
        from juzhen.core.atomic_write import remove_file
        from juzhen.core.secrets import redacted

        text = redacted("".join(traceback.format_exception(error)))
        descriptor, path = tempfile.mkstemp(prefix="juzhen-", suffix=".log")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
        except OSError:
            remove_file(Path(path), in_own_folder=True)
            raise
        return path
    return None
