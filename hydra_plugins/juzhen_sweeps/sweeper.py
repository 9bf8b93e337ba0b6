"""Hydra's grid, and rows: lists of words that are no grid. Any launcher may run the result."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from launch.sweep_cells import give_to_launcher


class RowSweeper(Sweeper):
    """Every cell of the grid in `params` and on the command line, once for each row: see `launch.sweep_cells`.

    rows  name → words as on a command line; none: the grid alone
    only  names of rows that are wanted; None: all
    launcher  what the launcher is given that has such keys (`launch.sweep_cells.give_to_launcher`)
    """

    def __init__(
        self,
        max_batch_size: int | None,
        params: Mapping[str, str] | None = None,
        rows: Mapping[str, str] | None = None,
        only: Sequence[str] | None = None,
        launcher: Mapping[str, Any] | None = None,
    ) -> None:
        """All but `max_batch_size` was read when the command line was checked."""
        self.max_batch_size = max_batch_size

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        give_to_launcher(config)
        self.config, self.context = config, hydra_context
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> Any:
        """Launches the cells that the check has left with the loader. Raises what a cell of Hydra's launchers did."""
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
