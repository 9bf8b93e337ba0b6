"""What runs a cell on a node of a cluster. It travels by value and needs the standard library alone there."""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time

OF_THE_CLUSTER = ("SLURM_", "SUBMITIT_", "RAY_", "HYDRA_FULL_ERROR")
"""Variables that a cell must not see: Lightning would take the job of one cell for a training over several tasks."""


class NodeCell:
    """A command that is run in a folder, its output added to a log. The file `state` tells the sweep how it goes.

    environment  what is added to that of the node
    requeues     a job of Slurm whose time is up, or whose node is wanted, goes back into the queue. Else it ends
    """

    def __init__(
        self,
        command: list[str],
        environment: dict[str, str],
        folder: str,
        log: str,
        state: str,
        *,
        requeues: bool,
    ) -> None:
        self.command = command
        self.environment = environment
        self.folder = folder
        self.log = log
        self.state = state
        self.requeues = requeues
        self.process: subprocess.Popen | None = None

    def __call__(self) -> None:
        """KeyboardInterrupt, which is how Ray asks for an end, saves. So does SIGTERM, which is how Slurm does."""
        if "SUBMITIT_EXECUTOR" in os.environ:
            signal.signal(signal.SIGTERM, self._end)
        inherited = {k: value for k, value in os.environ.items() if not k.startswith(OF_THE_CLUSTER)}
        self.process = start(self.command, self.log, inherited | self.environment, cwd=self.folder)
        self._tell(process=self.process.pid)
        try:
            while (status := self.process.poll()) is None:
                time.sleep(0.2)
        except KeyboardInterrupt:
            self._save()
            raise
        self._tell(status=status)

    def checkpoint(self) -> object:
        """Asked by submitit when time is up: what is to be run next, or None."""
        import submitit

        self._save()
        self.process = None
        return submitit.helpers.DelayedSubmission(self) if self.requeues else None

    def _end(self, signum: int, frame: object) -> None:
        """No status is told, so it is the queue that says whether the job comes again."""
        self._save()
        sys.exit(128 + signum)

    def _save(self) -> None:
        """Asks for the end and waits for it, without `process.wait`: a signal's handler may have interrupted `poll`."""
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(self.process.pid, signal.SIGTERM)
                os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)

    def _tell(self, **facts: int) -> None:
        """Whole or not at all."""
        part = f"{self.state}.part"
        with open(part, "w") as file:
            json.dump(facts, file)
        os.replace(part, self.state)


def start(
    command: list[str], log: str, environment: dict[str, str], *, cwd: str | None = None
) -> subprocess.Popen:
    """Starts a cell, whose output is added to `log`. On Linux it is sent SIGTERM when this process dies, however.

    It is a group of its own, since Ctrl-C is for the sweep, and ignores SIGUSR2, by which Slurm tells all processes of
    a job that its time ends: whoever started the cell asks it to save.
    """
    parent = os.getpid()

    def tie() -> None:
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        if sys.platform.startswith("linux"):
            ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
            if os.getppid() != parent:  # it died before the kernel was asked
                os._exit(128 + signal.SIGTERM)

    with open(log, "ab") as output:
        return subprocess.Popen(
            command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=tie,
        )
