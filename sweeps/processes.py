"""Small facts about processes: who is alive, how to end one, what it said last."""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

SECONDS_TO_SAVE = 120.0
PR_SET_PDEATHSIG = 1
OF_THE_SWEEP_ALONE = ("HYDRA_FULL_ERROR",)
"""Variables that `launch.cli` sets for its own process."""


def program_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in OF_THE_SWEEP_ALONE}


def dies_with_parent() -> Callable[[], None] | None:
    """For `preexec_fn`: the child is sent SIGTERM when its parent dies, however that dies. None where unknown."""
    if not sys.platform.startswith("linux"):
        return None
    libc, parent = ctypes.CDLL(None), os.getpid()

    def ask_kernel() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before the kernel was asked
            os._exit(128 + signal.SIGTERM)

    return ask_kernel


def die_with_parent(parent: int) -> None:
    """The same for this process, which `parent` started."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            raise SystemExit(128 + signal.SIGTERM)


def start(
    command: Sequence[str], log: Path, environment: Mapping[str, str], *, kept: Sequence[int] = ()
) -> subprocess.Popen:
    """Starts a cell, whose output is added to `log`; it is a group of its own, and dies with this process.

    Ctrl-C is for the sweep, which then asks its cells to save.

    kept  descriptors that the cell holds, too
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
            preexec_fn=dies_with_parent(),
            pass_fds=kept,
        )


def is_running(process: int, host: str) -> bool:
    """A cell was started as that process of this machine, and it is alive. Of another host: not known, False.

    Process ids are used again: one that is no `train.py` is another program.
    """
    if host != socket.gethostname():
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return "train.py" in command_line(process)


def command_line(process: int) -> str:
    """Empty for a process that has ended and only waits to be noticed."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        shown = subprocess.run(
            ["ps", "-o", "command=", "-p", str(process)], capture_output=True, text=True, check=False
        )
        return shown.stdout


def stop(process: subprocess.Popen) -> None:
    """Waits for a process that was asked to end, and ends it when it takes too long."""
    try:
        process.wait(SECONDS_TO_SAVE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def end_group(leader: int) -> None:
    """Ends what a process left behind when it ended: further devices wait for ever for a first one that was killed."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def last_words(log: Path) -> str:
    """The last line that a program printed: its error, if it is one of juzhen's."""
    if not log.exists():
        return "it printed nothing"
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 8192))
        lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it printed nothing"
