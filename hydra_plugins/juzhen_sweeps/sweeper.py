"""Sweepers: `rows` runs a grid and named rows, `optuna` runs a search. Hydra imports this file at every start."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.core.plugins import Plugins
from hydra.core.utils import setup_globals
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from callbacks.trial import TrialAddress, require_optuna
from hydra_plugins.juzhen_sweeps.launcher import FAILED_STATUS, cell_of, require_data_of, show_offline
from juzhen.core.atomic_write import write_text
from juzhen.core.errors import UserError
from juzhen.core.result import RESULT_FILE
from launch.job import run_key
from launch.overrides import Groups, with_current_names
from launch.sweep_cells import CheckedCell, give_to_launcher, read_cell
from sweeps.ledger import Ledger, SweepCell
from sweeps.status import SweepDisplay

if TYPE_CHECKING:
    from optuna import Trial

    from sweeps.search import HyperparameterSearch, SearchSpace


class RowSweeper(Sweeper):
    """Runs the grid in `params` and on the command line, once for each row: see `launch.sweep_cells`.

    Args:
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

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        give_to_launcher(config)
        self.config, self.context = config, hydra_context
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> Any:
        """Launch the checked cells in the loader. Raises the error of a cell in Hydra's launchers."""
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


class SearchSweeper(Sweeper):
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
        """Options from `rows` to `launcher` exist if a file of conf/sweep has turned a grid into a search."""
        self.study = study
        self.params = dict(params or {})
        self.rows = dict(rows or {})
        self.numbers = numbers

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.context = hydra_context
        self.config = config
        self._groups = Groups(hydra_context.config_loader)
        give_to_launcher(config)
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> None:
        """Run trials until the study has enough. Exit with status 1 if none has a score."""
        require_optuna()
        from sweeps.search import HyperparameterSearch, SearchPlanner, SearchSettings, search_markdown

        seeds = tuple(self.numbers["seeds"] or ())
        settings = SearchSettings(**self.numbers | {"study": self.study, "seeds": seeds})
        space = self._space(arguments, has_seeds=bool(seeds))
        folder = Path(self.config.hydra.sweep.dir)
        ledger = Ledger(folder)
        setup_globals()
        first_point = {
            key: getattr(kind, "choices", None) or [kind.low] for key, kind in space.varied.items()
        }
        first = self._compose(space.words({key: values[0] for key, values in first_point.items()})).config
        runner = self.launcher.runner([cell_of(first, [])], ledger)
        with HyperparameterSearch(folder, space, settings, key=run_key(first)) as search:

            def cells_of(trial: "Trial") -> list[SweepCell]:
                return self._cells(search, trial)

            attempts = self.launcher.attempts
            with SweepDisplay() as display:
                options = {"report": display.report, "watch": display.refresh}
                SearchPlanner(search, cells_of, ledger, runner, attempts=attempts, **options).run()
            text = search_markdown(search, seed=first.seed)
            write_text(search.path.with_suffix(".md"), text, in_own_folder=True)
        print(text, end="")
        show_offline(ledger)
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
            cells.append(cell_of(cell.config, row))
        return cells

    def _compose(self, words: Sequence[str]) -> CheckedCell:
        return read_cell(self.context.config_loader, self.config, words, self._groups)
