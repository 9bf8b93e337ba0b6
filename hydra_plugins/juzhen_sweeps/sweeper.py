"""Hydra's grid, and rows: lists of words that are no grid. Any launcher may run the result."""

from collections.abc import Mapping, Sequence
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.types import Override
from omegaconf import ListConfig

from launch.sweep_rows import key_of, split_rows, with_row


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

    def sweep(self, arguments: list[str]) -> Any:
        self.typed = {key_of(word) for word in arguments}
        return super().sweep(arguments)

    def validate_batch_is_legal(self, batch: Sequence[Sequence[str]]) -> None:
        """Nothing: `launch.preflight` has composed every choice, and the launcher composes every cell."""

    def split_arguments(self, overrides: list[Override], max_batch_size: int | None) -> list[list[list[str]]]:
        (grid,) = BasicSweeper.split_arguments(overrides, None)
        cells = [with_row(cell, row, self.typed) for row in self.rows.values() for cell in grid]
        return list(self.split_overrides_to_chunks(cells if self.rows else grid, max_batch_size))
