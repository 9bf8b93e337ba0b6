"""Run a cell on a node of a cluster. This module travels by value and needs only the standard library."""

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
    """A command to run in a folder, logging its output. The file `state` reports its progress.

    Args:
        command: Program and arguments.
        environment: Variables added to the environment of the node.
        requeues: Put a job of Slurm back into the queue when its time is up or its node is needed. False: end
            it.
        folder: Working folder of the command.
        log: File to which its output is appended.
        state: JSON file that is replaced at each change.
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
        """Run the cell. KeyboardInterrupt, the end signal of Ray, saves. So does SIGTERM, that of Slurm."""
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
        """Return the next command to run, or None. submitit calls this when time is up.

        Returns:
            Submission of submitit, or None if the cell is not requeued.
        """
        import submitit

        self._save()
        self.process = None
        return submitit.helpers.DelayedSubmission(self) if self.requeues else None

    def _end(self, signum: int, frame: object) -> None:
        """End the job without a status. The queue decides whether the job returns."""
        self._save()
        sys.exit(128 + signum)

    def _save(self) -> None:
        """Request the end and wait, without `process.wait`. A signal handler may have interrupted `poll`."""
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(self.process.pid, signal.SIGTERM)
                os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)

    def _tell(self, **facts: int) -> None:
        """Write the state atomically."""
        part = f"{self.state}.part"
        with open(part, "w") as file:
            json.dump(facts, file)
        os.replace(part, self.state)


def start(
    command: list[str], log: str, environment: dict[str, str], *, cwd: str | None = None
) -> subprocess.Popen:
    """Start a cell and append its output to `log`. On Linux it gets SIGTERM when this process dies.

    It runs in a separate process group, since Ctrl-C is for the sweep. It ignores SIGUSR2, by which Slurm
    signals the end of time to all processes of a job. The process that started the cell requests the save.

    Args:
        command: Program and arguments.
        log: File to which stdout and stderr are appended.
        environment: All variables of the process.
        cwd: Working folder. None: that of this process.

    Returns:
        The running process.
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
