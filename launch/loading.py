"""Messages while a job is checked and torch is loaded. Imports only fast modules."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from juzhen.core.errors import INTERRUPTED, INTERRUPTED_STATUS
from juzhen.core.process import freeze_modules

_announced: set[str] = set()


def announce(package: str) -> None:
    """Says once that `package` is being loaded. Nothing where it is loaded already."""
    if package not in sys.modules and package not in _announced:
        _announced.add(package)
        print(f"loading {package} …", file=sys.stderr, flush=True)


@contextmanager
def checking() -> Iterator[None]:
    """Show on a terminal that the job is being checked, until the end of the block."""
    is_terminal = sys.stderr.isatty() and os.environ.get("TERM") not in (None, "dumb")
    if is_terminal:
        print("checking the job …", end="\r", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if is_terminal:
            print("\x1b[K", end="", file=sys.stderr, flush=True)


@contextmanager
def loading(package: str = "torch") -> Iterator[None]:
    """Announce the import of `package`, which takes seconds, and let Ctrl-C end the program at once.

    Some code within an import may swallow the exception of Ctrl-C, and the program would continue. A loaded
    package is not announced.
    """
    if package in sys.modules:
        yield
        return
    announce(package)
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # and not ignored
    if is_ours:
        signal.signal(signal.SIGINT, _end_at_once)
    try:
        yield
    finally:
        freeze_modules()
        if is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _end_at_once(signum: int, frame: object) -> None:
    print(INTERRUPTED, file=sys.stderr, flush=True)
    os._exit(INTERRUPTED_STATUS)
