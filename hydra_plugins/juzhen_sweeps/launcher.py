"""Runs the cells of a sweep, here or in a cluster, by a ledger that survives what kills them."""

import sys
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus, configure_log, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

from juzhen.core.errors import UserError, nearest
from launch.data_record import GoneError, require_same_data
from launch.hydra_internals import flag_parser
from launch.job import read_job
from sweeps.backends.interface import Backend
from sweeps.backends.local import LocalBackend
from sweeps.ledger import Cell, Ledger
from sweeps.machine import Machine
from sweeps.planner import Planner, Summary, show

FAILED_STATUS = 1
CONFIGURATION_FLAGS = ("config-path", "config-name", "config-dir")


class CellLauncher(Launcher):
    """Each cell is a `train.py` of its own; where it runs is up to the back end, see `sweeps.backends`."""

    attempts: int
    is_here = True
    """Cells read their data where the sweep is started."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.context = hydra_context
        self.config = config

    @abstractmethod
    def backend(self, cells: Sequence[Cell], ledger: Ledger) -> Backend:
        """A place for these cells. Raises UserError when there is none."""

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Runs the cells. Ends the program with status 1 when one failed to the last, once all others are done."""
        setup_globals()
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        configs = [self._compose(words, initial_job_idx + i) for i, words in enumerate(job_overrides)]
        cells = [cell_of(config, words) for config, words in zip(configs, job_overrides, strict=True)]
        for config, cell in zip(configs, cells, strict=True):
            if cell.finished:
                require_data_of(config, self)
        folder = self.config.hydra.sweep.dir
        ledger = Ledger(folder)
        planner = Planner(cells, ledger, self.backend(cells, ledger), attempts=self.attempts, report=show)
        _conclude(planner.run(), folder)
        ended = {"status": JobStatus.COMPLETED, "_return_value": None}  # what Hydra wants to know of them
        return [
            JobReturn(overrides=list(words), cfg=config, hydra_cfg=config, **ended)
            for config, words in zip(configs, job_overrides, strict=True)
        ]

    def _compose(self, words: Sequence[str], number: int) -> DictConfig:
        config = self.context.config_loader.load_sweep_config(self.config, list(words))
        with open_dict(config):
            config.hydra.job.id = config.hydra.job.num = number
        return config


class ProcessLauncher(CellLauncher):
    """Cells are processes of this machine; see `sweeps.machine` for the numbers."""

    def __init__(
        self, jobs: int | None, threads: int | None, gpus: Sequence[int | str] | None, attempts: int
    ) -> None:
        self.jobs = jobs
        self.threads = threads
        self.gpus = gpus
        self.attempts = attempts

    def backend(self, cells: Sequence[Cell], ledger: Ledger) -> LocalBackend:
        devices = max(cell.devices for cell in cells)
        machine = Machine(jobs=self.jobs, threads=self.threads, gpus=self.gpus, devices=devices)
        return LocalBackend(program(), machine)


class ClusterLauncher(CellLauncher):
    """Cells run on other machines; `resources` are what one of them is given."""

    is_here = False

    def __init__(self, attempts: int, **resources: Any) -> None:
        self.attempts = attempts
        self.resources = resources


class SlurmLauncher(ClusterLauncher):
    """Each cell is a job of a Slurm cluster; see `sweeps.backends.slurm` and conf/hydra/launcher/slurm.yaml."""

    def backend(self, cells: Sequence[Cell], ledger: Ledger) -> Backend:
        from sweeps.backends.slurm import SlurmBackend, SlurmResources

        return SlurmBackend(program(), ledger, cells, _resources(SlurmResources, self.resources))


class RayLauncher(ClusterLauncher):
    """Each cell is a task of a Ray cluster; see `sweeps.backends.ray_cluster` and conf/hydra/launcher/ray.yaml."""

    def backend(self, cells: Sequence[Cell], ledger: Ledger) -> Backend:
        from sweeps.backends.ray_cluster import RayBackend, RayResources

        return RayBackend(program(), ledger, cells, _resources(RayResources, self.resources))


def require_data_of(config: DictConfig, launcher: Launcher) -> None:
    """Raises UserError where a finished cell was made from other data than its words mean now.

    Where cells run on other machines, data that only those have is not asked for.
    """
    job = read_job(config)
    try:
        require_same_data(Path(job.run_dir), job)
    except GoneError:
        if getattr(launcher, "is_here", True):
            raise


def _resources(kind: type, given: Mapping[str, Any]) -> Any:
    """An object of that dataclass from keys of the configuration. Raises UserError for a key that it does not have."""
    known = [field.name for field in fields(kind)]
    for key in given:
        if key not in known:
            raise UserError(f"hydra.launcher.{key}: there is no such key; {nearest(key, known)}")
    return kind(**OmegaConf.to_container(OmegaConf.create(dict(given)), resolve=True))


def program() -> list[str]:
    """The program as it was started, with its flags that say where the configuration is; words may follow."""
    flags, _ = flag_parser().parse_known_args(sys.argv[1:])
    given = {f"--{name}": getattr(flags, name.replace("-", "_")) for name in CONFIGURATION_FLAGS}
    words = [word for flag, value in given.items() if value for word in (flag, value)]
    return [sys.executable, str(Path(sys.argv[0]).resolve()), *words]


def cell_of(config: DictConfig, words: Sequence[str]) -> Cell:
    """The cell that a composition is, with the GPUs that it wants."""
    devices = config.hardware.devices if config.hardware.accelerator == "cuda" else 0
    return Cell(str(config.run_dir), tuple(words), devices=devices)


def _conclude(summary: Summary, folder: str) -> None:
    show(
        f"{len(summary.finished)} cells finished, {len(summary.skipped)} were finished before, "
        f"{len(summary.failed)} failed. Show them: juzhen table {folder}"
    )
    for cell, error in summary.failed.items():
        show(f"failed: {cell.name}: {error} ({Ledger(folder).log_of(cell)})")
    if summary.failed:
        raise SystemExit(FAILED_STATUS)
