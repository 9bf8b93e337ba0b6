"""Streams and exit status of every program, the one handler of its exceptions, and answers to --version and --info.

A mistake, or an error of a library, becomes one line on stderr and a file with the traceback. This module imports
nothing slow, so that Ctrl-C finds the handler in place.
"""

import errno
import io
import math
import os
import re
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from juzhen.core.errors import (
    INTERRUPTED,
    INTERRUPTED_STATUS,
    MISTAKE_STATUS,
    TERMINATED,
    TERMINATED_STATUS,
    UserError,
    print_error,
)
from juzhen.core.machine import collect_rarely, freeze_modules
from juzhen.core.paths import DISTRIBUTION
from juzhen.core.progress import is_live, quiet_libraries
from juzhen.core.text import counted, short

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


SPINS = "4000"
"""Spins of a waiting thread before it sleeps, in libgomp, the OpenMP of torch on Linux."""

NOBODY_READS = (errno.EPIPE, errno.EIO)
"""The reader of a pipe has stopped, or the terminal is gone. Results must not be lost for that."""

STOPS = (
    (INTERRUPTED, INTERRUPTED_STATUS),
    (f"{TERMINATED}. Finished files are kept, unfinished ones are removed", TERMINATED_STATUS),
)
"""Line and exit status of Ctrl-C and of SIGTERM."""

FULL_ERROR = "HYDRA_FULL_ERROR"
"""Variable of Hydra, and ours, that shows tracebacks if it is 1."""

FAILED_STATUS = 1
"""Exit status if starting the program again may help, or if the cause is unknown."""

ADVICE = {
    errno.ENOSPC: "Free some space, or choose a folder on another disk",
    errno.EDQUOT: "Free some space, or choose a folder on another disk",
    errno.EFBIG: "Raise the limit of the size of files (ulimit -f), or write less",
    errno.EROFS: "Choose a folder that you may write",
    errno.EACCES: "Choose a file or folder that you may read and write",
    errno.EPERM: "Choose a file or folder that you may read and write",
    errno.EEXIST: "Expected a folder, not a file. Choose another path",
    errno.ENOENT: "Choose an existing path",
    errno.ENOTDIR: "Expected a folder, not a file. Choose another path",
    errno.EISDIR: "Expected a file, not a folder. Choose another path",
    errno.ELOOP: "Its links lead in a circle. Choose another path",
    errno.ENAMETOOLONG: "Give a shorter name",
    errno.EINVAL: "Choose a file or a folder",
}
"""Error number → advice."""

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)

MISTAKES = ADVICE.keys() - {*NO_ROOM, errno.EFBIG, errno.EPERM}
"""Errors that the same command would meet again."""

LONGEST_REASON = 400
"""Longest message of another library in characters. The file with the traceback has all of it."""


class Terminated(SystemExit):
    """SIGTERM, by which `kill`, `timeout` and schedulers end a program."""


def run_program(main: Callable[[], int | None], work: str = "") -> int:
    """Run a program from its first stream to its exit status.

    A reader that stops (`| head -1`) is not an error.

    Args:
        main: The program.
        work: Name of the work in the line about an exception.

    Returns:
        The status of `main`, 2 after a mistake of the user, 130 after Ctrl-C, 143 after SIGTERM, and 1 after any other
            exception or if the output could not be written, for example to a full disk.
    """
    obey_sigterm()
    wait_briefly()
    collect_rarely()
    output = open_streams()
    quiet_libraries()
    warnings.formatwarning = _in_a_line
    sys.unraisablehook = _keep_stop
    status = status_of(main, work or Path(sys.argv[0]).name)
    sys.unraisablehook = partial(_keep_stop, is_over=True)
    signal.setitimer(signal.ITIMER_REAL, 0)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if output.problem is not None:
        print(f"error: the output could not be written: {output.problem.strerror}", file=sys.stderr)
        return status or 1
    return status


def obey_sigterm() -> None:
    """Let SIGTERM raise Terminated, so that temporary files are removed. An ignored SIGTERM stays ignored."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, on_sigterm)
        # A forked worker ends without a line. Python loses a signal that comes before it has begun.
        os.register_at_fork(
            before=_hold_sigterm, after_in_parent=_take_sigterm, after_in_child=_die_of_sigterm
        )


def _hold_sigterm() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])


def _take_sigterm() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])


def _die_of_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _take_sigterm()


def on_sigterm(signum: int, frame: object) -> None:
    """Raise Terminated. `timeout` sends SIGTERM twice, and the second must not interrupt the removal of files.

    Args:
        signum: Number of the signal.
        frame: Not read.

    Raises:
        Terminated: Except within a second of the last one, or while Lightning handles the signal.
    """
    # Lightning calls this one, too, but saves after the step.
    if "lightning" in type(signal.getsignal(signum)).__module__:
        return
    now = time.monotonic()
    if now - _terminated_at[-1] > 1:
        _terminated_at.append(now)
        raise Terminated(TERMINATED_STATUS)


_terminated_at = [-math.inf]


def _keep_stop(raised: "sys.UnraisableHookArgs", *, is_over: bool = False) -> None:
    """Raise Ctrl-C and SIGTERM again that Python drops, because they came within a `__del__` or a callback of C.

    When the program is over, the alarm would kill it.
    """
    if not isinstance(raised.exc_value, KeyboardInterrupt | Terminated):
        return sys.__unraisablehook__(raised)
    if is_over or sys.is_finalizing():
        return
    _dropped.append(raised.exc_value)
    signal.signal(signal.SIGALRM, _raise_dropped)
    signal.setitimer(signal.ITIMER_REAL, 0.01)  # the hook itself must not raise


def _raise_dropped(signum: int = 0, frame: object = None) -> None:
    if _dropped:
        signal.setitimer(signal.ITIMER_REAL, 0)  # an alarm would kill a program that ends
        raise _dropped.pop()


_dropped: list[BaseException] = []


def _in_a_line(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Format a warning in one line: ours without its line of code, those of libraries with their place."""
    place = "" if category is UserWarning else f"{filename}:{lineno}: {category.__name__}: "
    return f"warning: {place}{message}\n"


def wait_briefly() -> None:
    """Let waiting threads sleep soon, before torch is loaded. The user's own variables win.

    By default they spin 300,000 times. If another program takes a core, they keep the core that the awaited thread
    needs. The short spin costs about 4 % on a quiet machine (docs/guides/speed.md).
    """
    if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = SPINS


def open_streams() -> "Lasting":
    """Prepare stdout and stderr so that no text and no reader can end the program.

    A character that the encoding lacks is written as \\u4eca. Closed streams are opened on the null device, because the
    next opened file would take their number, and their text.

    Returns:
        The file under stdout.
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
    """A file for output that drops everything once its reader is gone.

    Args:
        number: File descriptor, 1 or 2.

    Attributes:
        problem: Why writing failed, unless the reader is gone.
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
    """Open a text stream over `file` with the encoding of `stream`."""
    wrapper = stream if isinstance(stream, io.TextIOWrapper) else None
    return io.TextIOWrapper(
        io.BufferedWriter(file),
        encoding=wrapper.encoding if wrapper else "utf-8",
        errors="backslashreplace",
        line_buffering=wrapper.line_buffering if wrapper else True,
        write_through=wrapper.write_through if wrapper else False,
    )


def status_of(main: Callable[[], int | None], work: str = "") -> int:
    """Run a program, and answer an exception in one line.

    Args:
        main: The program.
        work: Program or verb, for the line.

    Returns:
        The exit status.
    """
    try:
        status = main() or 0
        _raise_dropped()
        return status
    except Terminated as ended:
        return answer(ended)
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)
        return FAILED_STATUS
    except (Exception, KeyboardInterrupt) as error:
        if os.environ.get(FULL_ERROR) == "1" and isinstance(error, Exception):
            raise
        return answer(error, work)


def answer(error: BaseException, work: str = "") -> int:
    """Print one line on stderr about an exception, with the file of its traceback.

    Args:
        error: The exception.
        work: Program or verb, for the line.

    Returns:
        The exit status.
    """
    if isinstance(error, KeyboardInterrupt | Terminated):
        line, status = STOPS[isinstance(error, Terminated)]
        print(line, file=sys.stderr)
        return status
    if isinstance(error, UserError):
        print_error(error)
        return MISTAKE_STATUS
    if found := re.search(r"\(os error (\d+)\)", str(error)):  # of a library in Rust, such as safetensors
        error = OSError(int(found[1]), os.strerror(int(found[1]))).with_traceback(error.__traceback__)
    task = ", ".join(filter(None, (work, *reversed(getattr(error, "__notes__", [])))))
    line = f"{task}: {reason_of(error)}" if task else reason_of(error)
    # A refusal of the system with a file name, or of a full disk, says all that a traceback would.
    known = isinstance(error, OSError) and error.errno in (ADVICE if _is_name(error.filename) else NO_ROOM)
    log = None if known else _logged(error)
    line = f"{line}. The traceback is in {log}" if log else line
    try:
        print_error(UserError(line))
    except Exception:  # without memory nothing can be loaded that would look for secrets
        print(f"error: {type(error).__name__}", file=sys.stderr)
    return MISTAKE_STATUS if isinstance(error, OSError) and error.errno in MISTAKES else FAILED_STATUS


def reason_of(error: BaseException) -> str:
    """Describe an exception in the words of its author, with the file and advice.

    Args:
        error: The exception.

    Returns:
        The description, without a full stop.
    """
    if isinstance(error, OSError) and error.strerror:
        names = [
            short(os.fsdecode(name), 200) for name in (error.filename, error.filename2) if _is_name(name)
        ]
        parts = [": ".join([*names[:1], error.strerror]), ADVICE.get(error.errno or 0, "")]
        return ". ".join(filter(None, parts))
    if isinstance(error, MemoryError):
        message = f" ({_last_line(error)})" if str(error) else ""
        return f"out of memory{message}. Take smaller batches or less data, or allow more memory"
    if isinstance(error, RecursionError):
        return "what was read is nested too deeply, brackets in brackets"
    if isinstance(error, UnicodeEncodeError):
        return f"{short(error.object, 100)}: not UTF-8. Give it another name"
    kind = type(error).__name__
    message = _last_line(error)
    return message if message.startswith(kind) else f"{kind}: {message}" if message else kind


def _is_name(name: object) -> bool:
    return isinstance(name, str | bytes) and bool(name)


def _last_line(error: BaseException) -> str:
    """Put a message on one line. From the traceback of another process take the last line."""
    text_lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if any("Traceback (most recent call last)" in line for line in text_lines):
        text_lines = text_lines[-1:]
    return short(" ".join(text_lines), LONGEST_REASON)


def _logged(error: BaseException) -> str | None:
    """Write the traceback to a new private file, or return None if that fails."""
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


_announced: set[str] = set()


def announce(package: str) -> None:
    """Print once on stderr that a package is being loaded. Nothing is printed for a loaded package.

    Args:
        package: Name of the package.
    """
    if package not in sys.modules and package not in _announced:
        _announced.add(package)
        print(f"loading {package} …", file=sys.stderr, flush=True)


@contextmanager
def checking() -> Iterator[None]:
    """Show on a terminal that the job is being checked, until the end of the block."""
    is_terminal = is_live()
    if is_terminal:
        print("checking the job …", end="\r", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if is_terminal:
            print("\x1b[K", end="", file=sys.stderr, flush=True)


@contextmanager
def loading(package: str = "torch") -> Iterator[None]:
    """Announce the import of `package`, which takes seconds, and let Ctrl-C and SIGTERM end the program at once.

    Some code within an import may swallow their exceptions, and the program would continue. A loaded
    package is not announced.

    Args:
        package: Name of the package. Nothing happens if it is loaded already.
    """
    if package in sys.modules:
        yield
        return
    announce(package)
    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: on_sigterm}
    ours = {number: each for number, each in handlers.items() if signal.getsignal(number) is each}
    for number in ours:  # and not ignored
        signal.signal(number, _end_at_once)
    try:
        yield
    finally:
        freeze_modules()
        for number, handler in ours.items():
            signal.signal(number, handler)


def _end_at_once(signum: int, frame: object) -> None:
    line, status = STOPS[signum == signal.SIGTERM]
    print(line, file=sys.stderr, flush=True)
    os._exit(status)


INFO = ("--info", "-i")
OF_HYDRA = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
"""Parts of a configuration that Hydra shows with --info."""

SHOWN = ("torch", "pytorch-lightning", "transformers", "hydra-core")


def tell_about(arguments: Sequence[str], *, conf_dir: Path) -> bool:
    """Print the answer to --version, or to --info as the only word.

    Args:
        arguments: The command line.
        conf_dir: Folder of the configuration.

    Returns:
        False if Hydra must answer.
    """
    if "--version" in arguments:
        print(version_line())
        return True
    if [*arguments] not in ([flag] for flag in INFO):
        return False
    print("\n".join(info_lines(conf_dir)))
    return True


def version_line() -> str:
    """Return a line such as `juzhen 0.1.0 (torch 2.9.1, Python 3.12.3)`.

    Returns:
        The line, without a line break.
    """
    import platform

    return f"juzhen {_version(DISTRIBUTION)} (torch {_version('torch')}, Python {platform.python_version()})"


def info_lines(conf_dir: Path) -> Iterator[str]:
    """Yield version, libraries, machine, and the default folders of a job.

    Args:
        conf_dir: Folder of the configuration. The answer names it.

    Yields:
        Lines without line breaks.
    """
    from juzhen.core.machine import describe_environment, found_hardware

    facts = describe_environment()
    commit = facts["git_commit"]
    changed = ", with changes" if facts["git_dirty"] else ""
    yield f"juzhen {_version(DISTRIBUTION)}" + (f", commit {commit[:10]}{changed}" if commit else "")
    yield f"libraries      {', '.join(f'{name} {_version(name)}' for name in SHOWN)}"
    yield f"python         {facts['python']}"
    yield f"machine        {facts['platform']}, {counted(facts['cpu_cores'], 'cores')}, {facts['processor']}"
    option, why = found_hardware()
    yield f"device         auto takes {option}: {why}"
    yield f"configuration  {conf_dir}"
    yield f"data_dir       {_folder('JUZHEN_DATA', 'data')}"
    yield f"cache_dir      {_folder('JUZHEN_CACHE', '.cache')}"
    yield f"more           --info {', '.join(OF_HYDRA)}"


def _folder(variable: str, default: str) -> str:
    folder = os.environ.get(variable)
    return f"{default} ({variable} is not set)" if folder is None else f"{folder} (from {variable})"


def _version(package: str) -> str:
    from juzhen.core.machine import package_version

    return package_version(package) or "not installed"
