"""Scores of single rows that runs have kept, for the cells of a matrix; read when they are asked for."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from juzhen.core.errors import UserError
from juzhen.core.result import Result
from juzhen.core.row_scores import ROWS_FILE, RowScores, SetRows
from juzhen.metrics.gap import Gap

if TYPE_CHECKING:  # it loads scipy.stats
    from juzhen.metrics.comparison import Scored


class KeptRows:
    """`gap` compares the runs of two cells row by row where each of them has kept its rows."""

    def __init__(self) -> None:
        self._of_runs: dict[str, dict[str, SetRows]] = {}
        self._scored: dict[tuple[str, str], Scored | None] = {}

    def gap(self, column: str, metric: str, first: Iterable[Result], other: Iterable[Result]) -> Gap | None:
        """`first` less `other` in a metric, as fractions; None where a run has no rows of it, or others."""
        sides = [[self._scored_by(result, column) for result in results] for results in (first, other)]
        runs = [[run for run in side if run is not None] for side in sides]
        if runs != sides or not all(runs):
            return None
        from juzhen.metrics.comparison import are_same_rows, paired_gap

        start = runs[0][0].rows
        for run in (*runs[0], *runs[1]):
            if metric not in run.measures or not are_same_rows(start, run.rows):
                return None
        return paired_gap(runs[0], runs[1], metric)

    def of_run(self, result: Result) -> dict[str, SetRows]:
        """`split/dataset` → the rows; {} where a run has none, or, with a line, where its file cannot be read."""
        if (folder := result.folder) not in self._of_runs:
            self._of_runs[folder] = {}
            if folder and (Path(folder) / ROWS_FILE).is_file():
                try:
                    self._of_runs[folder] = RowScores.read(folder).of(result)
                except UserError as error:
                    print(f"not compared row by row: {error}", file=sys.stderr)
        return self._of_runs[folder]

    def _scored_by(self, result: Result, column: str) -> "Scored | None":
        place = result.folder, column
        if place not in self._scored:
            self._scored[place] = self._read(result, column)
        return self._scored[place]

    def _read(self, result: Result, column: str) -> "Scored | None":
        if (rows := self.of_run(result).get(column)) is None:
            return None
        from juzhen.metrics.comparison import Scored

        split, name = column.split("/")
        threshold = result.thresholds.get(name) if split != "dev" else None
        return Scored(rows, None if threshold is None else threshold.value)
