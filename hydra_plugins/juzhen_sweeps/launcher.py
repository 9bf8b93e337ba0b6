"""Run the cells of a sweep, on this machine or a cluster, with a ledger that survives kills."""

import sys
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, configure_log, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

from juzhen.core.errors import UserError
from juzhen.core.text import counted
from launch.hydra_internals import flag_parser
from launch.job import read_job, run_key
from launch.run_folder import GoneError, offline_line, require_same_data, require_same_job
from sweeps.ledger import Ledger, SweepCell
from sweeps.local import LocalRunner, Runner
from sweeps.planner import Planner, show
from sweeps.status import SweepDisplay

FAILED_STATUS = 1
CONFIGURATION_FLAGS = ("config-path", "config-name", "config-dir")


class CellLauncher(Launcher):
    """Runs each cell as a separate `train.py`. The runner decides where, see `sweeps.local.Runner`."""

    is_here = True
    """Cells read their data where the sweep is started."""

    def __init__(self, attempts: int, **resources: Any) -> None:
        """`resources`: resources of one cell, or number of concurrent cells, as in conf/hydra/launcher."""
        self.attempts = attempts
        self.resources = OmegaConf.to_container(OmegaConf.create(resources), resolve=True)

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.context = hydra_context
        self.config = config

    @abstractmethod
    def runner(self, cells: Sequence[SweepCell], ledger: Ledger) -> Runner:
        """Return the runner of these cells. Raises UserError if none is possible."""

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Run the cells. Exit with status 1 if one failed in its last attempt, after all others are done."""
        setup_globals()
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        configs = [self._compose(overrides, initial_job_idx + i) for i, overrides in enumerate(job_overrides)]
        pairs = zip(configs, job_overrides, strict=True)
        cells = [cell_of(config, overrides) for config, overrides in pairs]
        _require_own_folders(cells, configs)
        for config, cell in zip(configs, cells, strict=True):
            if cell.finished:
                require_data_of(config, self)
        folder = self.config.hydra.sweep.dir
        ledger = Ledger(folder)
        runner = self.runner(cells, ledger)
        with SweepDisplay() as display:
            options = {"report": display.report, "watch": display.refresh}
            summary = Planner(cells, ledger, runner, attempts=self.attempts, **options).run()
        show(
            f"{counted(len(summary.finished), 'runs')} finished, {len(summary.skipped)} were finished before, "
            f"{len(summary.failed)} failed. Show them: juzhen table {folder}"
        )
        for cell, error in summary.failed.items():
            show(f"failed: {cell.name}: {error} ({ledger.log_of(cell)})")
        show_offline(ledger)
        if summary.failed:
            raise SystemExit(FAILED_STATUS)
        return []  # a run's result is in its folder

    def _compose(self, overrides: Sequence[str], number: int) -> DictConfig:
        config = self.context.config_loader.load_sweep_config(self.config, list(overrides))
        with open_dict(config):
            config.hydra.job.id = config.hydra.job.num = number
        return config


class ProcessLauncher(CellLauncher):
    """Cells are processes of this machine. See `sweeps.local.LocalRunner` for the numbers."""

    def runner(self, cells: Sequence[SweepCell], ledger: Ledger) -> Runner:
        return LocalRunner(program(), devices=max(cell.devices for cell in cells), **self.resources)


class SlurmLauncher(CellLauncher):
    """Each cell is a job of a Slurm cluster."""

    is_here = False

    def runner(self, cells: Sequence[SweepCell], ledger: Ledger) -> Runner:
        from sweeps.clusters import SlurmRunner

        return SlurmRunner(program(), ledger, len(cells), **self.resources)


class RayLauncher(CellLauncher):
    """Each cell is a task of a Ray cluster."""

    is_here = False

    def runner(self, cells: Sequence[SweepCell], ledger: Ledger) -> Runner:
        from sweeps.clusters import RayRunner

        return RayRunner(program(), ledger, max(cell.devices for cell in cells), **self.resources)


def show_offline(ledger: Ledger) -> None:
    """Print the command that uploads the offline W&B runs of a sweep."""
    line = offline_line(history.cell.run_dir for history in ledger.histories().values())
    if line is not None:
        show(line)


def _require_own_folders(cells: Sequence[SweepCell], configs: Sequence[DictConfig]) -> None:
    """Raise UserError if two jobs would have folders of one name, since a sweep identifies cells by it."""
    first: dict[str, DictConfig] = {}
    for cell, config in zip(cells, configs, strict=True):
        other = first.setdefault(cell.name, config)
        if other is not config and run_key(other) != run_key(config):
            raise UserError(
                f"run_dir={cell.run_dir}: several runs of this sweep would be called {cell.name}. Leave run_dir out "
                "(output_dir=… is the folder above them, name=… the begin of their names)"
            )


def require_data_of(config: DictConfig, launcher: Launcher) -> None:
    """Raise UserError if a finished cell has another job or other data than its overrides mean now.

    If cells run on other machines, data that exist only there are not required.
    """
    job = read_job(config)
    require_same_job(config, replace(job, resume="auto"))
    try:
        require_same_data(Path(job.run_dir), job)
    except GoneError:
        if getattr(launcher, "is_here", True):
            raise


def program() -> list[str]:
    """Return the program as started, with its configuration flags. Overrides may follow."""
    flags, _ = flag_parser().parse_known_args(sys.argv[1:])
    values = {f"--{name}": getattr(flags, name.replace("-", "_")) for name in CONFIGURATION_FLAGS}
    overrides = [word for flag, value in values.items() if value for word in (flag, value)]
    return [sys.executable, str(Path(sys.argv[0]).resolve()), *overrides]


def cell_of(config: DictConfig, words: Sequence[str]) -> SweepCell:
    """Return the cell of a composition, with its number of GPUs."""
    devices = config.hardware.devices if config.hardware.accelerator == "cuda" else 0
    return SweepCell(str(config.run_dir), tuple(words), devices=devices)
