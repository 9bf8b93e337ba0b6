"""Sweepers and launchers of `train.py -m`. Hydra imports this file at every start.

The sweeper `rows` runs a grid and named rows, `optuna` runs a search. A launcher runs the cells on this machine or a
cluster, with a ledger that survives kills."""

import sys
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, configure_log, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

from callbacks.trial import TrialAddress, require_optuna
from juzhen.core.atomic_write import write_text
from juzhen.core.errors import UserError
from juzhen.core.progress import tell
from juzhen.core.result import RESULT_FILE
from juzhen.core.text import counted
from launch.hydra_internals import flag_parser
from launch.job import read_job, run_key
from launch.overrides import Groups, with_current_names
from launch.run_folder import GoneError, offline_line, require_same_data, require_same_job
from launch.sweep_cells import CheckedCell, give_to_launcher, read_cell
from sweeps.ledger import Ledger, SweepCell
from sweeps.planner import Planner
from sweeps.runners import LocalRunner, Runner
from sweeps.status import SweepDisplay

if TYPE_CHECKING:
    from optuna import Trial

    from sweeps.search import HyperparameterSearch, SearchSpace


FAILED_STATUS = 1
CONFIGURATION_FLAGS = ("config-path", "config-name", "config-dir")


class CellLauncher(Launcher):
    """Runs each cell as a separate `train.py`. The runner decides where, see `sweeps.runners.Runner`."""

    is_here = True
    """Cells read their data where the sweep is started."""

    def __init__(self, attempts: int, **resources: Any) -> None:
        """Read the keys of conf/hydra/launcher.

        Args:
            attempts: Maximal number of attempts per cell.
            **resources: Resources of one cell, or number of concurrent cells.
        """
        self.attempts = attempts
        self.resources = OmegaConf.to_container(OmegaConf.create(resources), resolve=True)

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.context = hydra_context
        self.config = config

    @abstractmethod
    def runner(self, cells: Sequence[SweepCell], ledger: Ledger) -> Runner:
        """Return the runner of these cells.

        Args:
            cells: Cells that may be run. Their GPUs decide about devices.
            ledger: Ledger in the folder of the sweep.

        Returns:
            Starts the cells and reports their end.

        Raises:
            UserError: No runner is possible.
        """

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Run the cells.

        Args:
            job_overrides: Words of each cell.
            initial_job_idx: Number of the first cell.

        Returns:
            []. The result of a cell is in its folder.

        Raises:
            SystemExit: Status 1, if a cell failed in its last attempt. All others are done by then.
        """
        setup_globals()
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        configs = [self._compose(overrides, initial_job_idx + i) for i, overrides in enumerate(job_overrides)]
        pairs = zip(configs, job_overrides, strict=True)
        cells = [_cell_of(config, overrides) for config, overrides in pairs]
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
        tell(
            f"{counted(len(summary.finished), 'runs')} finished, {len(summary.skipped)} were finished before, "
            f"{len(summary.failed)} failed. Show them: juzhen table {folder}"
        )
        for cell, error in summary.failed.items():
            tell(f"failed: {cell.name}: {error} ({ledger.log_of(cell)})")
        _show_offline(ledger)
        if summary.failed:
            raise SystemExit(FAILED_STATUS)
        return []  # a run's result is in its folder

    def _compose(self, overrides: Sequence[str], number: int) -> DictConfig:
        config = self.context.config_loader.load_sweep_config(self.config, list(overrides))
        with open_dict(config):
            config.hydra.job.id = config.hydra.job.num = number
        return config


class ProcessLauncher(CellLauncher):
    """Cells are processes of this machine. See `sweeps.runners.LocalRunner` for the numbers."""

    def runner(self, cells: Sequence[SweepCell], ledger: Ledger) -> Runner:
        return LocalRunner(program(), devices=max(cell.devices for cell in cells), **self.resources)


class SlurmLauncher(CellLauncher):
    """Each cell is a job of a Slurm cluster."""

    is_here = False

    def runner(self, cells: Sequence[SweepCell], ledger: Ledger) -> Runner:
        from sweeps.runners import SlurmRunner

        return SlurmRunner(program(), ledger, len(cells), **self.resources)


class RayLauncher(CellLauncher):
    """Each cell is a task of a Ray cluster."""

    is_here = False

    def runner(self, cells: Sequence[SweepCell], ledger: Ledger) -> Runner:
        from sweeps.runners import RayRunner

        return RayRunner(program(), ledger, max(cell.devices for cell in cells), **self.resources)


def _show_offline(ledger: Ledger) -> None:
    """Print the command that uploads the offline W&B runs of a sweep."""
    line = offline_line(history.cell.run_dir for history in ledger.histories().values())
    if line is not None:
        tell(line)


def _require_own_folders(cells: Sequence[SweepCell], configs: Sequence[DictConfig]) -> None:
    """Raise UserError if two jobs would have folders of one name, since a sweep identifies cells by it."""
    first: dict[str, DictConfig] = {}
    for cell, config in zip(cells, configs, strict=True):
        other = first.setdefault(cell.name, config)
        if other is not config and run_key(other) != run_key(config):
            raise UserError(
                f"run_dir={cell.run_dir}: several runs of this sweep would be called {cell.name}. Leave run_dir out "
                "(output_dir=… is the folder above them, name=… the beginning of their names)"
            )


def require_data_of(config: DictConfig, launcher: Launcher) -> None:
    """Check that a finished cell has the job and the data that its overrides mean now.

    Args:
        config: Composed configuration of the cell.
        launcher: If its cells run on other machines, data that exist only there are not required.

    Raises:
        UserError: The job or the data differ.
    """
    job = read_job(config)
    require_same_job(config, replace(job, resume="auto"))
    try:
        require_same_data(Path(job.run_dir), job)
    except GoneError:
        if getattr(launcher, "is_here", True):
            raise


def program() -> list[str]:
    """Return the program as started, with its configuration flags. Overrides may follow.

    Returns:
        Interpreter, script and flags.
    """
    flags, _ = flag_parser().parse_known_args(sys.argv[1:])
    values = {f"--{name}": getattr(flags, name.replace("-", "_")) for name in CONFIGURATION_FLAGS}
    overrides = [word for flag, value in values.items() if value for word in (flag, value)]
    return [sys.executable, str(Path(sys.argv[0]).resolve()), *overrides]


def _cell_of(config: DictConfig, words: Sequence[str]) -> SweepCell:
    """Return the cell of a composition, with its number of GPUs."""
    devices = config.hardware.devices if config.hardware.accelerator == "cuda" else 0
    return SweepCell(str(config.run_dir), tuple(words), devices=devices)


class CellSweeper(Sweeper):
    """Gives the launcher of a sweep the keys that are meant for it."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        give_to_launcher(config)
        self.config, self.context = config, hydra_context
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )


class RowSweeper(CellSweeper):
    """Runs the grid in `params` and on the command line, once for each row: see `launch.sweep_cells`.

    Args:
        max_batch_size: Number of cells that the launcher receives at a time. None: all.
        params: Key → values of the grid.
        rows: Name → command-line arguments. None: the grid alone.
        only: Names of selected rows. None: all.
        launcher: Settings for a launcher that has such keys (`launch.sweep_cells.give_to_launcher`).
    """

    def __init__(
        self,
        max_batch_size: int | None,
        params: Mapping[str, str] | None = None,
        rows: Mapping[str, str] | None = None,
        only: Sequence[str] | None = None,
        launcher: Mapping[str, Any] | None = None,
    ) -> None:
        """Options except `max_batch_size` were read when the command line was checked."""
        self.max_batch_size = max_batch_size

    def sweep(self, arguments: list[str]) -> Any:
        """Launch the checked cells in the loader.

        Args:
            arguments: Overrides of the sweep. The cells in the loader already hold them.

        Returns:
            Output of Hydra's launcher for each batch of cells.

        Raises:
            Exception: The error of a cell, in Hydra's launchers.
        """
        cells = [list(words) for words in self.context.config_loader.cells]  # type: ignore[attr-defined]
        folder = Path(self.config.hydra.sweep.dir)
        folder.mkdir(parents=True, exist_ok=True)
        OmegaConf.save(self.config, folder / "multirun.yaml")
        size, returns = self.max_batch_size or len(cells), []
        for start in range(0, len(cells), size):
            batch = self.launcher.launch(cells[start : start + size], initial_job_idx=start)
            for ended in batch:
                ended.return_value  # noqa: B018  raises what the job did
            returns.append(batch)
        return returns


GROUP = "logger.group"


class SearchSweeper(CellSweeper):
    """Trials of the space in `params` and on the command line.

    conf/hydra/sweeper/optuna.yaml describes the keys.
    """

    def __init__(
        self,
        *,
        study: str,
        params: Mapping[str, Any] | None,
        rows: Mapping[str, str] | None = None,
        only: Sequence[str] | None = None,
        max_batch_size: int | None = None,
        launcher: Mapping[str, Any] | None = None,
        **numbers: Any,
    ) -> None:
        """Options from `rows` to `launcher` exist if a file of conf/sweep has turned a grid into a search.

        Args:
            study: Name of the study.
            params: Key → values of the space. None: the command line alone.
            rows: Refused if there are any.
            only: Not read.
            max_batch_size: Not read.
            launcher: Not read here, see `launch.sweep_cells.give_to_launcher`.
            **numbers: Other keys of `sweeps.search.SearchSettings`.
        """
        self.study = study
        self.params = dict(params or {})
        self.rows = dict(rows or {})
        self.numbers = numbers

    def sweep(self, arguments: list[str]) -> None:
        """Run trials until the study has enough. Exit with status 1 if none has a score.

        Raises:
            UserError: Rows, a launcher without processes for trials, or seeds in two places.
        """
        require_optuna()
        from sweeps.search import HyperparameterSearch, SearchPlanner, SearchSettings, search_markdown

        seeds = tuple(self.numbers["seeds"] or ())
        settings = SearchSettings(**self.numbers | {"study": self.study, "seeds": seeds})
        space = self._space(arguments, has_seeds=bool(seeds))
        folder = Path(self.config.hydra.sweep.dir)
        ledger = Ledger(folder)
        self._groups = Groups(self.context.config_loader)
        setup_globals()
        first_point = {
            key: getattr(kind, "choices", None) or [kind.low] for key, kind in space.varied.items()
        }
        first = self._compose(space.words({key: values[0] for key, values in first_point.items()})).config
        runner = self.launcher.runner([_cell_of(first, [])], ledger)
        with HyperparameterSearch(folder, space, settings, key=run_key(first)) as search:
            with SweepDisplay() as display:
                options = {"report": display.report, "watch": display.refresh}
                planned = search, partial(self._cells, search), ledger, runner
                SearchPlanner(*planned, attempts=self.launcher.attempts, **options).run()
            text = search_markdown(search, seed=first.seed)
            write_text(search.path.with_suffix(".md"), text, in_own_folder=True)
        print(text, end="")
        _show_offline(ledger)
        if not search.has_score:
            raise SystemExit(FAILED_STATUS)

    def _space(self, arguments: Sequence[str], *, has_seeds: bool) -> "SearchSpace":
        from sweeps.search import read_space

        if self.rows:
            raise UserError(
                f"hydra.sweeper.rows: a search has no rows ({', '.join(self.rows)}). Leave them out, or give "
                "choices: 'dataset=choice([csts],[afqmc])'"
            )
        if not hasattr(self.launcher, "runner"):
            name = self.config.hydra.runtime.choices["hydra/launcher"]
            raise UserError(
                f"hydra/launcher={name}: a search needs a launcher with one process for each trial. Choose local_queue"
            )
        params = with_current_names([f"{key}={value}" for key, value in self.params.items()])
        parser = OverridesParser.create(config_loader=self.context.config_loader)
        overrides = parser.parse_overrides([f"{GROUP}={self.study}", *params, *arguments])
        if has_seeds and any(override.key_or_group == "seed" for override in overrides):
            raise UserError("hydra.sweeper.seeds: seed=… is given, too. Keep one of them")
        return read_space(overrides)

    def _cells(self, search: "HyperparameterSearch", trial: "Trial") -> list[SweepCell]:
        """Return the runs of a trial, one for each seed. The first reports to it."""
        overrides = search.space.words(trial.params)
        cells = []
        for number, seed in enumerate(search.settings.seeds or [None]):
            row = overrides if seed is None else [*overrides, f"seed={seed}"]
            cell = self._compose(row)
            row = [*cell.words]
            if (Path(cell.config.run_dir) / RESULT_FILE).exists():
                require_data_of(cell.config, self.launcher)
            if number == 0:
                address = QuotedString(str(TrialAddress(str(search.path), trial.number)), Quote.double)
                row = [*row, f"trial={address.with_quotes()}"]
            cells.append(_cell_of(cell.config, row))
        return cells

    def _compose(self, words: Sequence[str]) -> CheckedCell:
        return read_cell(self.context.config_loader, self.config, words, self._groups)
