"""Runners of cells: processes of this machine, which share its threads and GPUs, jobs of Slurm, and tasks of Ray.

Nodes of a cluster share the run folders and the path of this Python."""

import contextlib
import json
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from juzhen.core.errors import UserError, install_line
from juzhen.core.machine import cuda_devices, num_cores
from juzhen.core.text import counted
from sweeps import node
from sweeps.ledger import JOBS, Event, Ledger, SweepCell
from sweeps.node import start

OF_A_CELL = ("resume=auto",)
"""Words that every cell is given, wherever it runs. Its progress goes into its log, as plain lines."""

CORES_PER_CELL = 4
"""Where nothing is said, so many cores are taken to be worth a cell of its own."""

SECONDS_TO_SAVE = 120.0
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")


class Ended(NamedTuple):
    """End of an attempt.

    Args:
        status: Exit status. Negative: number of the signal.
        error: Message for a failure that the log does not have.
    """

    status: int
    error: str = ""


class Attempt(Protocol):
    """One try of a cell and its start time. `facts` go into the ledger when it begins."""

    facts: Mapping[str, Any]
    since: float

    def poll(self) -> Ended | None:
        """Check whether the attempt has ended.

        Returns:
            Its end, or None while it runs.
        """


class Runner(Protocol):
    """Interface of a runner of cells, on this machine or a cluster.

    Attributes:
        begins: Event of a start: STARTED, or SUBMITTED if a cluster starts it later.
        poll_seconds: Seconds between two checks of the cells.
        capacity: Current maximum of concurrent cells.
    """

    begins: Event
    poll_seconds: float

    def capacity(self) -> int:
        """Current maximum of concurrent cells.

        Returns:
            At least 1.
        """

    def describe(self) -> str:
        """Describe the runner for the log.

        Returns:
            Part of a sentence.
        """

    def start(self, cell: SweepCell, log: Path) -> Attempt:
        """Start an attempt.

        Args:
            cell: A cell that no other process runs.
            log: File to which its output is appended.

        Returns:
            The running or queued attempt.
        """

    def stop(self, running: Sequence[Attempt], report: Callable[[str], None]) -> bool:
        """End the sweep early.

        Args:
            running: Attempts that have not ended.
            report: Called with a line for the user.

        Returns:
            True: the cells have saved and ended. False: they continue without the sweep.
        """

    def close(self) -> None: ...


class LocalAttempt:
    """A process of this machine that runs a cell.

    Args:
        process: The running process, the first of its group.
        slot: Its position among those that run now, from 0.
    """

    def __init__(self, process: subprocess.Popen, slot: int) -> None:
        self.process = process
        self.slot = slot
        self.facts = {"process": process.pid}
        self.since = time.monotonic()

    def poll(self) -> Ended | None:
        """Check whether the process has ended.

        Returns:
            Exit status, or None while it runs.
        """
        status = self.process.poll()
        if status is None:
            return None
        # Further devices wait for ever for a first one that was killed.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        return Ended(status)


class LocalRunner:
    """Runs `program` with the arguments of each cell as processes, which share threads and GPUs.

    Args:
        program: Python and train.py, with flags that come before the arguments of a cell.
        jobs: Number of concurrent cells. None: one per share of GPUs if cells request them, else one for
            every 4 cores.
        threads: CPU threads of each. None: OMP_NUM_THREADS, else the cores divided by `jobs`.
        gpus: Numbers as in CUDA_VISIBLE_DEVICES. None: all visible GPUs.
        devices: Number of GPUs that each cell requests. 0: none.
    """

    begins = Event.STARTED
    poll_seconds = 0.1

    def __init__(
        self,
        program: Sequence[str],
        *,
        jobs: int | None,
        threads: int | None,
        gpus: Sequence[int | str] | None,
        devices: int,
    ) -> None:
        self.program = list(program)
        self.devices = devices
        self.gpus = [str(gpu) for gpu in (_visible_gpus() if gpus is None else gpus)] if devices else []
        cores = num_cores()
        if jobs is None:
            jobs = len(self.gpus) // devices if self.gpus else cores // CORES_PER_CELL
        self.jobs = max(1, jobs)
        limit = os.environ.get("OMP_NUM_THREADS", "")
        share = max(1, cores // self.jobs)
        self.threads = threads or (min(int(limit), share) if limit.isdigit() else share)
        self.running: list[LocalAttempt] = []

    def environment(self, slot: int) -> dict[str, str]:
        """Return the environment variables for threads and GPUs of a process.

        Args:
            slot: Position of the process among those that run now, from 0. It decides about GPUs.

        Returns:
            Name of a variable → value.
        """
        variables = _thread_variables(self.threads)
        if self.gpus:
            first = slot * self.devices
            mine = [self.gpus[(first + number) % len(self.gpus)] for number in range(self.devices)]
            variables["CUDA_VISIBLE_DEVICES"] = ",".join(dict.fromkeys(mine))
        return variables

    def capacity(self) -> int:
        """Number of cells that run at a time.

        Returns:
            At least 1.
        """
        return self.jobs

    def describe(self) -> str:
        """Describe the runner for the log.

        Returns:
            Part of a sentence.
        """
        return f"{self.jobs} at a time, {counted(self.threads, 'threads')} each"

    def start(self, cell: SweepCell, log: Path) -> LocalAttempt:
        """Start a process in the first free slot.

        Args:
            cell: A cell that no other process runs.
            log: File to which its output is appended.

        Returns:
            The running attempt.
        """
        self.running = [attempt for attempt in self.running if attempt.process.poll() is None]
        taken = {attempt.slot for attempt in self.running}
        slot = next(slot for slot in range(len(taken) + 1) if slot not in taken)
        environment = _program_environment() | self.environment(slot)
        process = start([*self.program, *cell.words, *OF_A_CELL], str(log), environment)
        self.running.append(LocalAttempt(process, slot))
        return self.running[-1]

    def stop(self, running: Sequence[LocalAttempt], report: Callable[[str], None]) -> bool:
        """Let the processes save, and end them. A process that needs too long is killed.

        Args:
            running: Attempts of this runner that have not ended.
            report: Called with a line for the user.

        Returns:
            True.
        """
        report(f"stopping; {counted(len(running), 'runs save what they have', 'run saves what it has')}")
        for attempt in running:
            attempt.process.terminate()
        for attempt in running:
            try:
                attempt.process.wait(SECONDS_TO_SAVE)
            except subprocess.TimeoutExpired:
                attempt.process.kill()
                attempt.process.wait()
        return True

    def close(self) -> None:
        """Release nothing."""


def _program_environment() -> dict[str, str]:
    """Return the environment without HYDRA_FULL_ERROR.

    Returns:
        Name of a variable → value.
    """
    return {name: value for name, value in os.environ.items() if name != "HYDRA_FULL_ERROR"}


def _thread_variables(threads: int) -> dict[str, str]:
    return dict.fromkeys(THREAD_VARIABLES, str(threads))


def _visible_gpus() -> list[str]:
    """Return the GPUs visible to a process here, by their names in CUDA_VISIBLE_DEVICES.

    Returns:
        Names, or numbers from 0.
    """
    variable = os.environ.get("CUDA_VISIBLE_DEVICES")
    if variable is not None:
        return [gpu for gpu in variable.split(",") if gpu.strip()]
    return [str(number) for number in range(cuda_devices())]


SHARED_DISK_SECONDS = 5.0
"""What another node has written may be seen so much later."""

STORE_BYTES = 80 * 2**20
"""Object store of a Ray that the sweep starts itself, near the least that Ray takes: cells hand over nothing."""

IN_SUBMITIT = {
    "time_minutes": "timeout_min",
    "memory_gb": "mem_gb",
    "signal_seconds": "slurm_signal_delay_s",
    **{key: f"slurm_{key}" for key in ("partition", "account", "qos", "constraint", "setup")},
}
"""Key of conf/hydra/launcher/slurm.yaml → what submitit calls it."""

OF_THE_NODE = ("CUDA_VISIBLE_DEVICES", "RAY_", "SLURM_", "HOSTNAME", "TMPDIR")
"""Variables that keep the value they have on a node of Ray. The others are those of the sweep."""


class ClusterAttempt:
    """A submitted cell. It writes its progress as JSON to `state`, so no pickle of a job is read.

    Args:
        ledger: Ledger that records the start on a node.
        cell: The submitted cell.
        state: JSON file that the node writes.
        job: Job name on the cluster.
        is_over: Queries the cluster whether the job has ended.
    """

    def __init__(
        self, ledger: Ledger, cell: SweepCell, state: Path, job: str, is_over: Callable[[], bool]
    ) -> None:
        self.ledger = ledger
        self.cell = cell
        self.state = state
        self.job = job
        self.is_over = is_over
        self.facts = {"job": job}
        self.since = time.monotonic()
        self.has_begun = False
        self.over_since: float | None = None

    def poll(self) -> Ended | None:
        """Check whether the job has ended, by the file that its node writes.

        Returns:
            Exit status and a message, or None while it waits or runs.
        """
        try:
            facts = json.loads(self.state.read_text(encoding="utf-8"))
            status = facts.get("status")
        except (OSError, ValueError, AttributeError, RecursionError):
            facts = status = None
        if facts and not self.has_begun:
            self.has_begun, self.since = True, time.monotonic()
            self.ledger.add(Event.STARTED, cell=self.cell.name, process=facts.get("process"))
        if isinstance(status, int):
            return Ended(status)
        if not self.is_over():
            return None
        self.over_since = self.over_since or time.monotonic()
        if time.monotonic() - self.over_since < SHARED_DISK_SECONDS:
            return None
        return Ended(1, f"job {self.job} is gone: cancelled, out of time, or its node is gone")


class ClusterRunner:
    """Submits cells to a cluster: `submit` returns a job's name and a function that checks its end.

    Args:
        program: Python and train.py, with flags that come before the arguments of a cell.
        ledger: Ledger in the folder of the sweep. The folder has the files of each job.
    """

    begins = Event.SUBMITTED
    requeues = False

    def __init__(self, program: Sequence[str], ledger: Ledger) -> None:
        self.program = list(program)
        self.ledger = ledger

    def start(self, cell: SweepCell, log: Path) -> ClusterAttempt:
        """Submit a cell with a private folder for its state.

        Args:
            cell: A cell that no other process runs.
            log: File to which its output is appended, on a disk that the nodes share.

        Returns:
            The queued attempt.

        Raises:
            UserError: The folder of the state is a link, or belongs to another user.
        """
        folder = (self.ledger.folder / JOBS / cell.name).absolute()
        make_private(folder)
        state = folder / f"{secrets.token_hex(8)}.json"
        command = [*self.program, *cell.words, *OF_A_CELL]
        paths = os.getcwd(), str(log.absolute()), str(state)
        task = node.NodeCell(command, self.environment(), *paths, requeues=self.requeues)
        return ClusterAttempt(self.ledger, cell, state, *self.submit(task, cell, folder))


class SlurmRunner(ClusterRunner):
    """One job per cell, through submitit. conf/hydra/launcher/slurm.yaml describes the keys.

    Args:
        program: As in ClusterRunner.
        ledger: As in ClusterRunner.
        num_cells: Number of cells of the sweep.
        cluster: slurm, or local: submitit on this machine.
        jobs: Number of jobs in the queue. None: `num_cells`. With local: cores divided by `cpus`.
        cpus: CPU cores of each cell, and its threads.
        gpus: GPUs of each cell. None: as many as the cell requests.
        requeues: Requeues of a job that is out of time. 0: none.
        options: Further options of sbatch.
        **resources: The other keys of the file.

    Raises:
        UserError: submitit is not installed.
    """

    def __init__(
        self,
        program: Sequence[str],
        ledger: Ledger,
        num_cells: int,
        *,
        cluster: str,
        jobs: int | None,
        cpus: int,
        gpus: int | None,
        requeues: int,
        options: Mapping[str, Any],
        **resources: Any,
    ) -> None:
        super().__init__(program, ledger)
        with _needed("launchers"):
            import cloudpickle
            import submitit
        cloudpickle.register_pickle_by_value(node)
        self.submitit = submitit
        self.cluster = cluster
        self.cpus = cpus
        self.gpus = gpus
        self.requeues = requeues > 0
        self.max_requeues = requeues
        is_local = cluster == "local"
        self.poll_seconds = 0.2 if is_local else 2.0
        # Slurm has a queue of its own, this machine has none.
        self.jobs = jobs or (max(1, num_cores() // cpus) if is_local else num_cells)
        self.asked = {
            IN_SUBMITIT[key]: value for key, value in resources.items() if value not in (None, [])
        } | {
            "cpus_per_task": cpus,
            "stderr_to_stdout": True,
            "slurm_additional_parameters": {("requeue" if requeues else "no-requeue"): True} | dict(options),
        }

    def capacity(self) -> int:
        """Number of jobs in the queue at a time.

        Returns:
            At least 1.
        """
        return self.jobs

    def describe(self) -> str:
        """Describe the runner for the log.

        Returns:
            Part of a sentence.
        """
        return f"up to {counted(self.jobs, 'jobs')} in the queue of {self.cluster}, {counted(self.cpus, 'cores')} each"

    def environment(self) -> dict[str, str]:
        """Environment variables of a job.

        Returns:
            Name of a variable → value.
        """
        return _thread_variables(self.cpus)

    def parameters(self, cell: SweepCell) -> dict[str, Any]:
        """Return the parameters of submitit for a job.

        Args:
            cell: It names the job. Its GPUs are requested if the launcher sets none.

        Returns:
            Parameter → value.
        """
        gpus = cell.devices if self.gpus is None else self.gpus
        return self.asked | {"name": f"juzhen-{cell.name}"} | ({"gpus_per_node": gpus} if gpus else {})

    def submit(self, task: node.NodeCell, cell: SweepCell, folder: Path) -> tuple[str, Callable[[], bool]]:
        """Submit a job.

        Args:
            task: Command of the cell. It is pickled.
            cell: The cell.
            folder: Private folder for the files of submitit.

        Returns:
            Id of the job, and a function that returns True once it has ended.
        """
        limit = {"slurm_max_num_timeout": self.max_requeues}
        executor = self.submitit.AutoExecutor(folder, cluster=self.cluster, **limit)
        executor.update_parameters(**self.parameters(cell))
        job = executor.submit(task)
        return job.job_id, job.done

    def stop(self, running: Sequence[ClusterAttempt], report: Callable[[str], None]) -> bool:
        """Cancel nothing. Queued jobs continue.

        Args:
            running: Attempts that have not ended.
            report: Called with a line. It has the command that ends them.

        Returns:
            False.
        """
        ends = " ".join(
            ["kill" if self.cluster == "local" else "scancel", *(attempt.job for attempt in running)]
        )
        report(
            f"leaving; {counted(len(running), 'jobs go on', 'job goes on')}, and the same command finds their results. "
            f"To end them: {ends}"
        )
        return False

    def close(self) -> None:
        """Leave jobs to Slurm."""


class RayRunner(ClusterRunner):
    """One Ray task per cell. conf/hydra/launcher/ray.yaml describes the keys.

    A killed sweep cancels its tasks, and they save their progress. Ray runs whatever code it receives, so the
    cluster has to be private.

    Args:
        program: As in ClusterRunner.
        ledger: As in ClusterRunner.
        devices: GPUs that a cell requests.
        address: Address of the cluster. None: a Ray of this machine. It ends with the sweep.
        jobs: Number of concurrent cells. None: as many as the nodes have room for.
        cpus: CPU cores of each cell, and its threads.
        gpus: GPUs of each cell, 0.5: two share one. None: `devices`.

    Raises:
        UserError: No node has room for a cell, or Ray is not installed.
    """

    poll_seconds = 0.5

    def __init__(
        self,
        program: Sequence[str],
        ledger: Ledger,
        devices: int,
        *,
        address: str | None,
        jobs: int | None,
        cpus: int,
        gpus: float | None,
    ) -> None:
        super().__init__(program, ledger)
        with _needed("ray"):
            import ray
        ray.cloudpickle.register_pickle_by_value(node)
        self.ray = ray
        self.jobs = jobs
        self.cpus = cpus
        self.gpus = devices if gpus is None else gpus
        self.tasks: dict[str, Any] = {}
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        machine = {
            "num_cpus": num_cores(),
            "num_gpus": len(_visible_gpus()),
            "object_store_memory": STORE_BYTES,
        }
        ray.init(
            address=address or "local",
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            **({} if address else machine),  # a Ray of this machine, gone when the sweep is
        )
        if not self._room():
            self.close()
            raise UserError(
                f"no node of the Ray cluster has the {cpus} CPUs and {self.gpus:g} GPUs of a run. Set "
                "hydra.launcher.cpus=, hydra.launcher.gpus= or hardware.devices="
            )

    def _room(self) -> int:
        nodes = [entry["Resources"] for entry in self.ray.nodes() if entry["Alive"]]
        share = {kind: number for kind, number in {"CPU": self.cpus, "GPU": self.gpus}.items() if number}
        return sum(int(min(have.get(kind, 0) // number for kind, number in share.items())) for have in nodes)

    def capacity(self) -> int:
        """Return the current number of cells that all nodes have room for. Nodes may join and leave.

        Returns:
            At least 1.
        """
        room = max(1, self._room())
        return min(room, self.jobs or room)

    def describe(self) -> str:
        """Describe the runner for the log.

        Returns:
            Part of a sentence.
        """
        return f"{self.capacity()} at a time on Ray, {counted(self.cpus, 'threads')} each"

    def environment(self) -> dict[str, str]:
        """Return the environment of the sweep, without variables of a node.

        Returns:
            Name of a variable → value.
        """
        inherited = _program_environment().items()
        ours = {name: value for name, value in inherited if not name.startswith(OF_THE_NODE)}
        return ours | _thread_variables(self.cpus)

    def submit(self, task: node.NodeCell, cell: SweepCell, folder: Path) -> tuple[str, Callable[[], bool]]:
        """Submit without retries of Ray. The sweep counts attempts.

        Args:
            task: Command of the cell. It is pickled.
            cell: It names the task.
            folder: Not read.

        Returns:
            Id of the task, and a function that returns True once it has ended.
        """
        run = self.ray.remote(node.NodeCell.__call__)
        run = run.options(num_cpus=self.cpus, num_gpus=self.gpus, max_retries=0, name=cell.name)
        reference = run.remote(task)
        job = reference.task_id().hex()
        self.tasks[job] = reference
        return job, lambda: bool(self.ray.wait([reference], timeout=0)[0])

    def stop(self, running: Sequence[ClusterAttempt], report: Callable[[str], None]) -> bool:
        """Cancel the tasks, and wait until they have saved.

        Args:
            running: Attempts that have not ended.
            report: Called with a line for the user.

        Returns:
            True.
        """
        report(f"stopping; {counted(len(running), 'runs save what they have', 'run saves what it has')}")
        tasks = [self.tasks[attempt.job] for attempt in running]
        for task in tasks:
            self.ray.cancel(task, force=False)
        self.ray.wait(tasks, num_returns=len(tasks), timeout=SECONDS_TO_SAVE)
        return True

    def close(self) -> None:
        self.ray.shutdown()


@contextmanager
def _needed(extra: str) -> Iterator[None]:
    """Wrap imports of the packages of an extra."""
    try:
        yield
    except ImportError as error:
        raise UserError(f"{error}. Type: {install_line(extra)}") from None


def make_private(folder: Path) -> None:
    """Create a private folder, or make our existing folder private, since nodes run its files.

    Args:
        folder: Folder of one cell. Parents are created.

    Raises:
        UserError: It is a link, or belongs to another user.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise UserError(
            f"{folder}: is a link or belongs to another user, so nodes must not use it. Choose another output_dir"
        )
    folder.chmod(0o700)
