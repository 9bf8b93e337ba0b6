"""Cells as jobs of a Slurm cluster, submitted through submitit. Nodes share the disk of the run folders.

What a node runs is a pickle that submitit writes below `<output_dir>/.sweep/jobs`, where nobody else may write. How a
job ended is told in JSON: the sweep itself reads no pickle, whoever has put one there.
"""

import getpass
import os
import re
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from juzhen.core.errors import UserError
from juzhen.core.places import ROOT
from juzhen.core.processor import num_cores
from sweeps.backends import remote
from sweeps.backends.interface import Backend, Ended, require_least
from sweeps.backends.local import OF_A_CELL
from sweeps.backends.worker import command_for
from sweeps.ledger import Cell, Event, Ledger
from sweeps.machine import thread_variables
from sweeps.processes import command_line, last_words

SUBMITTED = re.compile(r"(\d+)_submitted\.pkl")
CLUSTERS = ("slurm", "local")


@dataclass(frozen=True)
class SlurmResources:
    """What each job asks for; the keys are described in conf/hydra/launcher/slurm.yaml."""

    cluster: str
    jobs: int | None
    partition: str | None
    account: str | None
    qos: str | None
    constraint: str | None
    time_minutes: int
    cpus: int
    gpus: int | None
    memory_gb: float | None
    requeues: int
    signal_seconds: int
    setup: list[str]
    options: dict[str, Any]

    def __post_init__(self) -> None:
        if self.cluster not in CLUSTERS:
            raise UserError(f"hydra.launcher.cluster={self.cluster}: expected {' or '.join(CLUSTERS)}")
        least = {"jobs": 1, "time_minutes": 1, "cpus": 1, "gpus": 0, "requeues": 0, "signal_seconds": 1}
        require_least(self, least)
        if self.signal_seconds >= 60 * self.time_minutes:
            raise UserError(
                f"hydra.launcher.signal_seconds={self.signal_seconds}: a job has only "
                f"hydra.launcher.time_minutes={self.time_minutes}; expected less"
            )

    def sbatch(self, cell: Cell) -> dict[str, Any]:
        asked = {
            "job_name": f"juzhen-{cell.name}",
            "time": self.time_minutes,
            "cpus_per_task": self.cpus,
            "gpus_per_node": (cell.devices if self.gpus is None else self.gpus) or None,
            "mem": None if self.memory_gb is None else f"{round(self.memory_gb * 1024)}MB",
            "partition": self.partition,
            "account": self.account,
            "qos": self.qos,
            "constraint": self.constraint,
            "signal_delay_s": self.signal_seconds,
            "setup": self.setup or None,
            "additional_parameters": {("requeue" if self.requeues else "no-requeue"): True} | self.options,
        }
        return {"stderr_to_stdout": True} | {key: one for key, one in asked.items() if one is not None}


class SlurmQueue:
    """The jobs of this user that wait or run, looked up at most every `seconds`."""

    grace_seconds = 20.0

    def __init__(self, *, seconds: float = 5.0) -> None:
        self.seconds = seconds
        self.looked = float("-inf")
        self.jobs: set[str] | None = None

    def has(self, job: str) -> bool:
        """Also true where squeue gives no answer: then nothing is known of any job."""
        if time.monotonic() - self.looked > self.seconds:
            self.looked, self.jobs = time.monotonic(), self._look()
        return self.jobs is None or job in self.jobs

    def forget(self) -> None:
        self.looked = float("-inf")

    def _look(self) -> set[str] | None:
        command = ["squeue", "--noheader", "--format=%i", f"--user={getpass.getuser()}"]
        try:
            told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        except (OSError, subprocess.SubprocessError):
            return None
        return set(told.stdout.split())


class LocalQueue:
    """The same for submitit's stand-in for a cluster, whose job numbers are processes of this machine."""

    grace_seconds = 1.0

    def has(self, job: str) -> bool:
        return "submitit" in command_line(int(job))

    def forget(self) -> None:
        """It is always fresh."""


class SlurmWork:
    """A submitted job. It has ended when it says so on the disk, or when the queue has lost it for a while."""

    def __init__(self, folder: Path, job: str, queue: SlurmQueue | LocalQueue) -> None:
        self.ending = folder / f"{job}_ended.json"
        self.result = (
            folder / f"{job}_0_result.pkl"
        )  # of submitit, which writes one for a failure, too; never opened
        self.log = folder / f"{job}_0_log.out"
        self.job = job
        self.queue = queue
        self.facts = {"job": job}
        self.missing_since: float | None = None

    @property
    def ended(self) -> bool:
        return self.ending.exists() or self.result.exists()

    def poll(self) -> Ended | None:
        if self.ended:
            return Ended.read(self.ending) or Ended(1, f"its job ended: {last_words(self.log)}")
        if self.queue.has(self.job):
            self.missing_since = None
            return None
        now = time.monotonic()
        self.missing_since = self.missing_since or now
        if now - self.missing_since < self.queue.grace_seconds:
            return None
        return Ended(
            1, f"job {self.job} left the queue without a result: cancelled, out of time, or its node is gone"
        )


class SlurmBackend(Backend):
    """One job per cell. What is submitted outlives the sweep, and the same sweep finds it again."""

    begins = Event.SUBMITTED

    def __init__(
        self, program: Sequence[str], ledger: Ledger, cells: Sequence[Cell], resources: SlurmResources
    ) -> None:
        self.submitit = _submitit()
        self.program = list(program)
        self.ledger = ledger
        self.resources = resources
        is_local = resources.cluster == "local"
        self.poll_seconds = 0.2 if is_local else 2.0
        self.queue = LocalQueue() if is_local else SlurmQueue()
        # Slurm has a queue of its own, this machine has none.
        self.jobs = resources.jobs or (max(1, num_cores() // resources.cpus) if is_local else len(cells))

    def capacity(self) -> int:
        return self.jobs

    def describe(self) -> str:
        return f"up to {self.jobs} jobs in the queue of {self.resources.cluster}, {self.resources.cpus} cores each"

    def start(self, cell: Cell, log: Path) -> SlurmWork:
        command = command_for(self.ledger, cell, [*self.program, *cell.words, *OF_A_CELL])
        todo = remote.WorkerCell(
            command,
            thread_variables(self.resources.cpus),
            os.getcwd(),
            str(ROOT),
            str(self._folder(cell).resolve()),
            requeues=self.resources.requeues > 0,
        )
        refusals = self.submitit.core.utils
        try:
            job = self._executor(cell).submit(todo)
        except (refusals.FailedJobError, refusals.FailedSubmissionError) as error:
            reason = str(error).strip().splitlines()[-1].strip()
            raise UserError(
                f"sbatch refused {cell.name}: {reason}. Change hydra.launcher.* (see "
                f"conf/hydra/launcher/slurm.yaml); jobs= is how many are submitted at a time"
            ) from error
        self.queue.forget()
        return SlurmWork(self._folder(cell), job.job_id, self.queue)

    def adopt(self, cell: Cell) -> SlurmWork | None:
        """The latest job of the cell, unless it has ended."""
        jobs = [path for path in self._folder(cell).glob("*.pkl") if SUBMITTED.fullmatch(path.name)]
        if not jobs:
            return None
        latest = max(jobs, key=lambda path: path.stat().st_mtime)
        work = SlurmWork(self._folder(cell), SUBMITTED.fullmatch(latest.name)[1], self.queue)
        return work if not work.ended and self.queue.has(work.job) else None

    def stop(self, works: Sequence[SlurmWork], report: Callable[[str], None]) -> bool:
        """Nothing is cancelled: a job in a queue is worth keeping."""
        jobs = " ".join(work.job for work in works)
        ends = "kill" if self.resources.cluster == "local" else "scancel"
        report(
            f"leaving; {len(works)} jobs go on, and the same command waits for them. To end them: {ends} {jobs}"
        )
        return False

    def _folder(self, cell: Cell) -> Path:
        return self.ledger.folder / "jobs" / cell.name

    def _executor(self, cell: Cell) -> Any:
        asked, folder = self.resources.sbatch(cell), self._folder(cell).resolve()
        _make_private(folder)
        if self.resources.cluster == "slurm":
            executor = self.submitit.SlurmExecutor(folder, max_num_timeout=self.resources.requeues)
            executor.update_parameters(**asked)
            return executor
        executor = self.submitit.LocalExecutor(folder, max_num_timeout=self.resources.requeues)
        executor.update_parameters(
            timeout_min=self.resources.time_minutes,
            gpus_per_node=asked.get("gpus_per_node", 0),
            signal_delay_s=self.resources.signal_seconds,
            stderr_to_stdout=True,
        )
        return executor


def _submitit() -> Any:
    try:
        import cloudpickle
        import submitit
    except ImportError:
        raise UserError(
            "hydra/launcher=slurm needs submitit, which is not installed: "
            "pip install -e '.[launchers]' -c constraints.txt"
        ) from None
    cloudpickle.register_pickle_by_value(remote)
    return submitit


def _make_private(folder: Path) -> None:
    """Makes the folder, or one that is there ours alone. Raises UserError for one of somebody else."""
    folder.mkdir(parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise UserError(
            f"{folder}: is of another user, and nodes run what lies there; choose another output_dir"
        )
    folder.chmod(0o700)
