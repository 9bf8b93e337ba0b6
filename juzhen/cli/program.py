"""What stands around every program: its streams, its exit status, and what it says while torch is loaded.

Imports nothing that takes time, so that Ctrl-C finds this in place.
"""

import codecs
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from juzhen.cli.streams import open_streams
from juzhen.core import answer
from juzhen.core.errors import INTERRUPTED, INTERRUPTED_STATUS, UserError

SPINS = "4000"
"""How often a thread that waits for others looks before it sleeps, in libgomp, the OpenMP of torch on Linux."""


def run_program(main: Callable[[], int | None], what: str = "") -> int:
    """Runs `main` and gives the exit status: its own, 2 after a mistake of the user, 130 after Ctrl-C, 1 after all
    else that is raised, and where its output could not be written (a full disk). A reader that has gone
    (`| head -1`) is no error.

    what  is being done, for the line that tells of an exception
    """
    _take_utf8()
    _forget_odd_sizes()
    wait_briefly()
    output = open_streams()
    status = status_of(main, what or Path(sys.argv[0]).name)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if output.problem is not None:
        print(f"error: the output could not be written: {output.problem.strerror}", file=sys.stderr)
        return status or 1
    return status


def status_of(main: Callable[[], int | None], what: str = "") -> int:
    """As `juzhen.core.answer.status_of`, for a program, which needs a folder to stand in."""

    def checked() -> int | None:
        _require_folder()
        return main()

    return answer.status_of(checked, what)


_announced: set[str] = set()


def announce(what: str) -> None:
    """Says once that `what` is being loaded; nothing where it is loaded already."""
    if what not in sys.modules and what not in _announced:
        _announced.add(what)
        print(f"loading {what} …", file=sys.stderr, flush=True)


@contextmanager
def checking() -> Iterator[None]:
    """Around what takes a moment before the first word: a person at a terminal sees that it is done."""
    shown = sys.stderr.isatty() and os.environ.get("TERM") not in (None, "dumb")
    if shown:
        print("checking the job …", end="\r", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if shown:
            print("\x1b[K", end="", file=sys.stderr, flush=True)


@contextmanager
def loading(what: str = "torch") -> Iterator[None]:
    """Around the import of `what`, which takes seconds: says so, and lets Ctrl-C end the program at once.

    Somewhere in an import an exception of Ctrl-C may be swallowed, and the program would run on. Nothing is said where
    it is loaded already.
    """
    if what in sys.modules:
        yield
        return
    announce(what)
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # ignored, or somebody else's
        yield
        return
    signal.signal(signal.SIGINT, _end_at_once)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end_at_once(signum: int, frame: object) -> None:
    print(INTERRUPTED, file=sys.stderr, flush=True)
    os._exit(INTERRUPTED_STATUS)


def wait_briefly() -> None:
    """Threads that wait for others soon sleep. Must be called before torch is loaded; a choice of the user's stays.

    By default they spin 300,000 times. Where another program takes one of the cores, they then hold the core that the
    thread they wait for needs. The short spin costs about 4 % when quiet (docs/guides/speed.md).
    """
    if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = SPINS


def _require_folder() -> None:
    try:
        os.getcwd()
    except OSError:
        raise UserError(
            "the folder that this was started in is no longer there; go to another one (cd) and start again"
        ) from None


def _forget_odd_sizes() -> None:
    """Sizes of the terminal that are no numbers, or none at all, would end or mislead what draws tables and bars."""
    for name in ("COLUMNS", "LINES"):
        if not re.fullmatch(r"[1-9][0-9]{0,4}", os.environ.get(name, "1")):
            del os.environ[name]


def _take_utf8() -> None:
    """Arguments as UTF-8. Where the locale knows ASCII alone, Python starts again in its UTF-8 mode.

    File names and what libraries write would otherwise fail at the first Chinese sign.
    """
    if codecs.lookup(sys.getfilesystemencoding()).name == "ascii":
        os.environ["PYTHONUTF8"] = "1"
        os.environ.setdefault("PYTHONIOENCODING", "ascii")
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
