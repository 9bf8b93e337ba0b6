"""What needs a process of its own: a new one, or a copy of this, without the seconds in which a new one loads torch."""

import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def python(*words: object, cwd: Path = ROOT, **more) -> subprocess.CompletedProcess[str]:
    """How `python <words>` ends, and what it says."""
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, **more)


def printed(*words: object, silent: bool = False, **more) -> str:
    """What `python <words>` prints. A program that fails, or that should be silent and is not, fails the test."""
    ended = python(*words, **more)
    assert ended.returncode == 0, ended.stderr
    assert not silent or ended.stderr == ""
    return ended.stdout


def in_a_fork(function: Callable[..., object], *given: object) -> int:
    """Calls it in a copy of this process and waits: the exit code, or minus the signal that ended it, as subprocess."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            _start_thread_pool()
            function(*given)
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _start_thread_pool() -> None:
    """Starts the pool of torch in the one thread of a copy: two at once fail ("Invalid thread pool!")."""
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        torch.set_num_threads(torch.get_num_threads())
