"""Hydra's grid, and rows: lists of words that are no grid. Any launcher may run the result."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from hydra.core.override_parser.types import Override, Quote, QuotedString
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, ListConfig

from launch.hydra_internals import basic_sweeper
from launch.own_hydra import give_to_launcher
from launch.sweep_rows import key_of, split_rows, with_row, with_waiting

GROUP = "logger.group"
ROW = "sweep_row"
BasicSweeper = basic_sweeper()


class RowSweeper(BasicSweeper):
    """Every cell of the grid in `params` and on the command line, once for each row.

    rows  name → words as on a command line; none: the grid alone
    only  names of rows that are wanted; None: all
    waiting  words for keys that only some cells have; the others do without
    launcher  what the launcher is given that has such keys (`launch.own_hydra.give_to_launcher`)
    """

    def __init__(
        self,
        max_batch_size: int | None,
        params: Mapping[str, str] | None = None,
        rows: Mapping[str, str] | None = None,
        only: Sequence[str] | None = None,
        waiting: Sequence[str] = (),
        launcher: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(max_batch_size, dict(params or {}))
        self.waiting = list(waiting)
        self.rows = split_rows(dict(rows or {}), list(only) if isinstance(only, ListConfig) else only)
        self.typed: set[str] = set()
        self.group: str | None = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        give_to_launcher(config)
        super().setup(hydra_context=hydra_context, task_function=task_function, config=config)

    def sweep(self, arguments: list[str]) -> Any:
        arguments = [*arguments, *self.waiting]
        self.typed = {key_of(word) for word in arguments}
        self.group = None if GROUP in self.typed else group_of(self.config, arguments)
        return super().sweep(arguments)

    def validate_batch_is_legal(self, batch: Sequence[Sequence[str]]) -> None:
        """Nothing: `launch.check` has composed every choice, and the launcher composes every cell."""

    def split_arguments(self, overrides: list[Override], max_batch_size: int | None) -> list[list[list[str]]]:
        (cells,) = BasicSweeper.split_arguments(overrides, None)
        if self.rows:
            cells = [
                [*with_row(cell, row, self.typed), *_named(name, self.typed)]
                for name, row in self.rows.items()
                for cell in cells
            ]
        if self.waiting:
            cells = self._each_with_what_it_has(cells)
        if self.group is not None:
            cells = [[*cell, f"{GROUP}={self.group}"] for cell in cells]
        return list(self.split_overrides_to_chunks(cells, max_batch_size))

    def _each_with_what_it_has(self, cells: Sequence[Sequence[str]]) -> list[list[str]]:
        """The cells without words for keys that they do not have; those that are then the same come once."""
        keys = {key_of(word) for word in self.waiting}
        compose = partial(self.hydra_context.config_loader.load_sweep_config, self.config)
        distinct: dict[tuple[str, ...], None] = {}
        for cell in cells:
            overrides = [word for word in cell if key_of(word) not in keys]
            waiting = [word for word in cell if key_of(word) in keys]
            distinct[tuple(with_waiting(overrides, waiting, compose))] = None
        return [list(cell) for cell in distinct]


def _named(row: str, typed: set[str]) -> list[str]:
    """The word by which a run learns which row it is; its tables call it so."""
    return [] if ROW in typed else [f"{ROW}={QuotedString(row, Quote.double).with_quotes()}"]


def group_of(config: Any, arguments: Sequence[str]) -> str:
    """The group that the runs of a sweep share on W&B: its name; without one, the same for the same words."""
    name = config.hydra.runtime.choices.get("sweep")
    return name or f"multirun-{hashlib.sha256(' '.join(sorted(arguments)).encode()).hexdigest()[:8]}"
