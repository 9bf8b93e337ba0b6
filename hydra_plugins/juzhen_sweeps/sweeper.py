"""Hydra's grid, and rows: lists of words that are no grid. Any launcher may run the result."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from hydra.core.override_parser.types import Override, Quote, QuotedString
from omegaconf import ListConfig

from launch.hydra_internals import basic_sweeper
from launch.sweep_rows import key_of, split_rows, with_row

GROUP = "logger.group"
ROW = "sweep_row"
BasicSweeper = basic_sweeper()


class RowSweeper(BasicSweeper):
    """Every cell of the grid in `params` and on the command line, once for each row.

    rows  name → words as on a command line; none: the grid alone
    only  names of rows that are wanted; None: all
    """

    def __init__(
        self,
        max_batch_size: int | None,
        params: Mapping[str, str] | None = None,
        rows: Mapping[str, str] | None = None,
        only: Sequence[str] | None = None,
    ) -> None:
        super().__init__(max_batch_size, dict(params or {}))
        self.rows = split_rows(dict(rows or {}), list(only) if isinstance(only, ListConfig) else only)
        self.typed: set[str] = set()
        self.group: str | None = None

    def sweep(self, arguments: list[str]) -> Any:
        self.typed = {key_of(word) for word in arguments}
        self.group = None if GROUP in self.typed else group_of(self.config, arguments)
        return super().sweep(arguments)

    def validate_batch_is_legal(self, batch: Sequence[Sequence[str]]) -> None:
        """Nothing: `launch.preflight` has composed every choice, and the launcher composes every cell."""

    def split_arguments(self, overrides: list[Override], max_batch_size: int | None) -> list[list[list[str]]]:
        (grid,) = BasicSweeper.split_arguments(overrides, None)
        cells = [
            [*with_row(cell, row, self.typed), *self._named(name)]
            for name, row in self.rows.items()
            for cell in grid
        ]
        cells = cells if self.rows else grid
        if self.group is not None:
            cells = [[*cell, f"{GROUP}={self.group}"] for cell in cells]
        return list(self.split_overrides_to_chunks(cells, max_batch_size))

    def _named(self, row: str) -> list[str]:
        """The word by which a run learns which row it is; its tables call it so."""
        return [] if ROW in self.typed else [f"{ROW}={QuotedString(row, Quote.double).with_quotes()}"]


def group_of(config: Any, arguments: Sequence[str]) -> str:
    """The group that the runs of a sweep share on W&B: its name; without one, the same for the same words."""
    name = config.hydra.runtime.choices.get("sweep")
    return name or f"multirun-{hashlib.sha256(' '.join(sorted(arguments)).encode()).hexdigest()[:8]}"
