"""Paired comparison of runs on the same rows: differences with intervals, flipped pairs, and worst pairs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from juzhen.calibration.run_scores import ScoredRun, read_rows
from juzhen.core.errors import UserError
from juzhen.core.examples import JUDGED, TEXT_COLUMNS, Kind
from juzhen.core.kinds import main_metric
from juzhen.core.row_scores import PLACES, RowScores
from juzhen.metrics.comparison import ROWS_OF_PAIRS, Scored, are_same_rows, paired_gap


@dataclass(frozen=True)
class RunDifference:
    """A metric of one run minus that of the first one, as fractions.

    Args:
        low: Lower end of the 95 % interval of the difference. Rows (of rankings: queries) are paired.
        high: Upper end of the interval.
    """

    measure: str
    first: float
    other: float
    low: float
    high: float

    @property
    def points(self) -> float:
        return 100 * (self.other - self.first)

    @property
    def is_decided(self) -> bool:
        return not self.low <= 0 <= self.high


class PairedRuns:
    """Two or more runs. Each is compared with the first.

    Args:
        data_dir: Folder of texts and rows that were not kept. Default: the data folder of each run.
        notes: Columns that could not be compared, and the reasons.
    """

    def __init__(self, folders: Sequence[Path], *, data_dir: Path | None, batch_tokens: int) -> None:
        self.runs = [ScoredRun(path, data_dir=data_dir, batch_tokens=batch_tokens) for path in folders]
        self._rows = [RowScores.read(run.folder).of(run.result) for run in self.runs]
        self.notes: list[str] = []
        self._data_dir = data_dir

    def columns(self, split: str | None, sets: Sequence[str] | None) -> list[str]:
        """Return each `split/dataset` that all runs have measured with the set's main metric.

        Args:
            split: dev, test or both. Default: test if all runs have it, else dev, for each set.

        Raises:
            UserError: No common column.
        """
        read = [
            [column for column in run.result.data if not column.startswith("train/")] for run in self.runs
        ]
        shared = [column for column in read[0] if all(column in columns for columns in read)]
        shared = [column for column in shared if main_metric(Kind(self.runs[0].result.data[column]["kind"]))]
        if sets is not None:
            if absent := [name for name in sets if name not in {column.split("/")[1] for column in shared}]:
                raise UserError(f"--sets {absent[0]}: not all of these runs were scored on it")
            shared = [column for column in shared if column.split("/")[1] in sets]
        if split in ("dev", "test"):
            shared = [column for column in shared if column.startswith(f"{split}/")]
        elif split is None:
            shared = [
                column
                for column in shared
                if f"test/{column.split('/')[1]}" not in shared or "test/" in column
            ]
        if not shared:
            raise UserError(
                "these runs have no evaluation set in common. Type juzhen evaluate to score finished runs on more"
            )
        return shared

    def scored(self, column: str) -> list[Scored] | None:
        """Return the rows of a column as scored by each run. None, with a note, if the rows differ."""
        runs_scored = [self._of_run(number, column) for number in range(len(self.runs))]
        scored = [rows for rows in runs_scored if rows is not None]
        if len(scored) < len(runs_scored):
            missing = [
                str(run.folder) for run, rows in zip(self.runs, runs_scored, strict=True) if rows is None
            ]
            self.notes.append(
                f"{column}: no scores of single rows in {', '.join(missing)}; juzhen evaluate --again keeps them"
            )
            return None
        if not all(are_same_rows(scored[0].rows, other.rows) for other in scored[1:]):
            self.notes.append(f"{column}: the runs have scored other rows")
            return None
        return scored

    def _of_run(self, number: int, column: str) -> Scored | None:
        run, rows = self.runs[number], self._rows[number].get(column)
        split, name = column.split("/")
        if rows is None:
            kind, is_debug = run.result.data[column]["kind"], run.result.config.get("debug_rows") is not None
            computed = run.scored(name, split) if kind in ROWS_OF_PAIRS and not is_debug else None
            if computed is None:
                return None
            from juzhen.evaluation.scoring import rows_of_set  # loads torch

            rows = rows_of_set(computed.examples, computed.scores)
        threshold = run.result.thresholds.get(name) if split != "dev" else None
        return Scored(rows, None if threshold is None else threshold.value)

    def texts(self, column: str) -> dict[str, list[str]]:
        """Return text columns of the data set. Empty with a note if it cannot be read."""
        from juzhen.data.loading import cut
        from juzhen.data.rankings import as_ranking

        result = self.runs[0].result
        try:
            examples = read_rows(result, column, data_dir=self._data_dir)
        except UserError as error:
            self.notes.append(f"{column}: no texts: {error}")
            return {}
        examples = cut(examples, result.config.get("debug_rows"), result.seed)
        if examples.kind in JUDGED:
            return {"query": list(as_ranking(examples).queries)}
        return {name: examples.texts(name) for name in TEXT_COLUMNS[examples.kind]}


def differences(first: Scored, other: Scored, *, metric: str | None) -> list[RunDifference]:
    """Return differences of the common metrics, of `metric` only, or by default of the set's main metric."""
    shared = [name for name in first.measures if name in other.measures]
    measures = [metric] if metric in shared else shared if first.kind in ROWS_OF_PAIRS else shared[:1]
    gaps = {measure: paired_gap([other], [first], measure) for measure in measures}
    return [
        RunDifference(
            measure, float(first.value(measure) or 0), float(other.value(measure) or 0), *gap.interval
        )
        for measure, gap in gaps.items()
        if gap is not None
    ]


def flips(first: Scored, other: Scored) -> tuple[int, int, int, float] | None:
    """Count rows that only one run decides correctly, or neither, and the p-value of McNemar's exact test.

    None if no row is decided.
    """
    if first.right is None or other.right is None:
        return None
    alone, theirs = int((first.right & ~other.right).sum()), int((other.right & ~first.right).sum())
    neither = int((~first.right & ~other.right).sum())
    p = float(binomtest(alone, alone + theirs).pvalue) if alone + theirs else 1.0
    return alone, theirs, neither, p


def row_frame(scored: Mapping[str, Scored], texts: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """Return a line per row: place, gold value, texts, and each run's score, error and `right`, by its label.

    `moved` is the error of the last run minus that of the first. It is below 0 if the last run is better.
    """
    runs = list(scored.values())
    frame = runs[0].rows.frame[[name for name in (*PLACES, "gold") if name in runs[0].rows.columns]].copy()
    for label, run in scored.items():
        name = "score" if "score" in run.rows.columns else run.measures[0]
        frame[f"{name}: {label}"] = run.rows[name]
        if run.right is not None:
            frame[f"right: {label}"] = run.right.astype(int)
    frame["moved"] = runs[-1].error - runs[0].error
    frame["error"] = runs[-1].error
    for name, column in texts.items():
        frame[name] = column
    return frame


def flipped_rows(frame: pd.DataFrame, first: Scored, last: Scored) -> pd.DataFrame:
    """Return rows decided correctly by one run only, largest change first. Without decisions: all rows."""
    if first.right is not None and last.right is not None:
        frame = frame[first.right != last.right]
    return frame[frame["moved"] != 0].sort_values("moved", key=np.abs, ascending=False, kind="stable")


def worst_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with errors of the last run, the worst first."""
    return frame[frame["error"] > 0].sort_values("error", ascending=False, kind="stable")
