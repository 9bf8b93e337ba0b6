"""What is sent to a node. It travels by value and needs the standard library alone: nodes need not find the project."""

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys

OF_THE_NODE = ("CUDA_VISIBLE_DEVICES", "RAY_", "SLURM_", "HOSTNAME", "TMPDIR")
"""Variables that keep the value they have on the node; the others are those of the sweep."""


def run_worker(command: list[str], environment: dict[str, str], folder: str, root: str, ending: str) -> None:
    """Runs a worker in `folder` and leaves its exit status in the file `ending`.

    KeyboardInterrupt, which is how Ray asks for an end, saves.
    """
    process = start(command, _told(environment), folder, root)
    try:
        while True:
            try:
                return tell(ending, process.wait(0.2))
            except subprocess.TimeoutExpired:
                continue
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        raise


def start(command: list[str], environment: dict[str, str], folder: str, root: str) -> subprocess.Popen:
    """`root` is where the worker finds the project."""
    told = {"PYTHONPATH": os.pathsep.join(filter(None, [root, environment.get("PYTHONPATH", "")]))}
    told["ATTENDED_BY"] = str(os.getpid())
    return subprocess.Popen(command, cwd=folder, env=environment | told)


def tell(ending: str, status: int) -> None:
    """Leaves an exit status where the sweep looks for it, as JSON, whole or not at all."""
    part = f"{ending}.{secrets.token_hex(8)}.part"
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump({"status": status}, file)
    os.replace(part, ending)


def _told(environment: dict[str, str]) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name.startswith(OF_THE_NODE)}
    return {k: value for k, value in environment.items() if not k.startswith(OF_THE_NODE)} | own


class WorkerCell:
    """What submitit calls on a node, and asks to save when time is up or the node is wanted for something else.

    endings   folder in which `<job>_ended.json` will tell the exit status
    requeues  at the end of its time the job goes back into the queue; otherwise it ends
    """

    def __init__(
        self,
        command: list[str],
        environment: dict[str, str],
        folder: str,
        root: str,
        endings: str,
        *,
        requeues: bool,
    ) -> None:
        self.arguments = (command, environment, folder, root, endings)
        self.requeues = requeues
        self.process: subprocess.Popen | None = None

    def __call__(self) -> None:
        import submitit

        command, environment, folder, root, endings = self.arguments
        signal.signal(signal.SIGTERM, self._end)
        self.process = start(command, dict(os.environ) | environment, folder, root)
        status = self.process.wait()
        tell(os.path.join(endings, f"{submitit.JobEnvironment().job_id}_ended.json"), status)

    def checkpoint(self) -> object:
        """Called on submitit's signal; what is to be run next, or None."""
        import submitit

        self._save()
        if not self.requeues:
            return None
        return submitit.helpers.DelayedSubmission(WorkerCell(*self.arguments, requeues=True))

    def _save(self) -> None:
        """Called from a handler, while `wait` below it holds the lock of the process: so this goes around both."""
        if self.process is None or self.process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.process.pid, signal.SIGTERM)
            os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)

    def _end(self, signum: int, frame: object) -> None:
        """Slurm wants it to end. No result is written, so it is the queue that says whether it comes again."""
        self._save()
        sys.exit(128 + signum)
