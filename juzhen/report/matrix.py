"""The transfer matrix: training sets in rows, evaluation sets in columns, one metric over seeds in cells."""

import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from juzhen.core.errors import UserError, command
from juzhen.core.kinds import MAIN_METRICS, MTEB_SCORE, OF_ANY_TEXT, OF_RANKS, belongs_in_table, metric_key
from juzhen.core.result import WITHOUT_LEAKS, Result, without_size
from juzhen.core.row_scores import ROWS_FILE, RowScores, SetRows
from juzhen.identity import as_read
from juzhen.metrics.correlation import Gap
from juzhen.models.settings import name_of
from juzhen.report.row_identity import (
    Identity,
    deciding_choices,
    fitted_labels,
    identify,
    label_rows,
    row_name,
)
from juzhen.report.training import Audit, Leak, leak_of, parts_of

if TYPE_CHECKING:
    from juzhen.metrics.comparison import Scored


SPLITS = ("test", "dev")
"""Evaluation splits in order of preference."""
BOTH = "both"

BASELINES = ("", "lexical")
"""`trained_on` of untrained rows."""

LEXICAL = {"lexical": "TF-IDF", "jaccard": "Jaccard", "dice": "Dice", "bm25": "BM25"}
"""Name of a model without an encoder → its method."""

LEAST_FREEDOM = 2
"""Degrees of freedom that a pooled deviation between seeds needs."""

LEAKY, BELOW = "†", "▽"
"""Signs next to a cell: it has a leak, or it is below the lexical baseline."""


@dataclass(frozen=True)
class Cell:
    """A metric of one row on one set, as a fraction.

    Attributes:
        mean: Mean over seeds.
        std: Sample deviation over seeds, or None below two seeds.
        low: Lower end of the 95 % bootstrap interval, averaged over seeds.
        high: Upper end of the interval.
        values: Seed → value.
        count: Number of evaluation rows, or None if unknown.
        metric: Metric of the values.
        in_domain: True if the row was trained on the train split of this set.
        leak: Leak counted by the runs or by the audit, or None.
        command: Command line of the first seed, or "".
        commit: Commit of the code, or "". A `+` at its end means uncommitted changes.
        measured: Seed → result of the weights with this value. Empty for initial weights.
        below_lexical: True if the lexical baseline is better on the same split.
        is_best: True if no row is better, and no earlier row is equal.
        seed_noise: Variance of one training over seeds, and its degrees of freedom. Of a single seed it is that of the
            repeated rows of the column, or of the matrix. None if nothing was repeated. 0 without training.
    """

    mean: float
    std: float | None
    low: float | None
    high: float | None
    values: Mapping[int, float]
    count: int | None
    in_domain: bool
    leak: Leak | None
    command: str
    commit: str
    metric: str
    measured: Mapping[int, Result] = field(default_factory=dict, repr=False)
    below_lexical: bool = False
    is_best: bool = False
    seed_noise: tuple[float, float] | None = (0.0, math.inf)

    @property
    def num_seeds(self) -> int:
        return len(self.values)

    @property
    def is_leaky(self) -> bool:
        return self.leak is not None and self.leak.is_marked

    @property
    def flatters(self) -> bool:
        """True if the cell has a leak from another set than its own train split."""
        return self.is_leaky and not self.in_domain

    @property
    def signs(self) -> str:
        return LEAKY * self.is_leaky + BELOW * self.below_lexical


@dataclass
class Row:
    """All runs that differ only in their seed.

    Attributes:
        trained_on: See Identity.
        setup: Backbone and loss in words.
        results: Seed → results of its runs, oldest first.
        names: Names from sweeps.
        label: Name of the row in tables.
        cells: `split/dataset` → cell. Missing scores are absent.
        reasons: `split/dataset` → reason for a missing score.
    """

    trained_on: str
    setup: str
    results: dict[int, list[Result]] = field(repr=False)
    names: list[str]
    label: str = ""
    cells: dict[str, Cell] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    @property
    def num_seeds(self) -> int:
        return len(self.results)

    @property
    def is_trained(self) -> bool:
        return self.trained_on not in BASELINES

    @property
    def sets(self) -> list[str]:
        """Training sets in order, each once: a, b for "a>b+a". Empty for a baseline."""
        return list(dict.fromkeys(self.trained_on.replace("+", ">").split(">"))) if self.is_trained else []

    @property
    def all_results(self) -> list[Result]:
        return [result for results in self.results.values() for result in results]

    @property
    def latest(self) -> Result:
        """One of its results. All were trained on the same sets."""
        return self.all_results[-1]


class KeptRows:
    """Stored scores of single rows. `gap` compares the runs of two cells row by row."""

    def __init__(self) -> None:
        self._of_runs: dict[str, dict[str, SetRows]] = {}
        self._scored: dict[tuple[str, str], Scored | None] = {}

    def gap(self, column: str, first: Cell, other: Cell) -> Gap | None:
        """Subtract two cells row by row.

        Args:
            column: `split/dataset`.
            first: The first cell.
            other: The other cell.

        Returns:
            `first` minus `other` as fractions, or None if a run lacks scores, or has other rows.
        """
        cells = first, other
        sides = [[self.scored_by(result, column) for result in cell.measured.values()] for cell in cells]
        runs = [[run for run in side if run is not None] for side in sides]
        if runs != sides or not all(runs):
            return None
        from juzhen.metrics.comparison import are_same_rows, paired_gap

        start = runs[0][0].rows
        for run in (*runs[0], *runs[1]):
            if first.metric not in run.measures or not are_same_rows(start, run.rows):
                return None
        return paired_gap(runs[0], runs[1], first.metric, noise=[cell.seed_noise for cell in cells])

    def of_run(self, result: Result) -> dict[str, SetRows]:
        """Read the rows of a run.

        Args:
            result: Result of the run, with its folder. A result that was never in a folder has no rows.

        Returns:
            `split/dataset` → rows. {} without a file, or with a notice for an unreadable file.
        """
        if (folder := result.folder) not in self._of_runs:
            self._of_runs[folder] = {}
            if folder and (Path(folder) / ROWS_FILE).is_file():
                try:
                    self._of_runs[folder] = RowScores.read(folder).of(result)
                except UserError as error:
                    print(f"not compared row by row: {error}", file=sys.stderr)
        return self._of_runs[folder]

    def scored_by(self, result: Result, column: str) -> "Scored | None":
        """Return the rows of a column as a run scored them.

        Args:
            result: Result of the run.
            column: `split/dataset`.

        Returns:
            Scores of the rows. None if the run has kept none.
        """
        place = result.folder, column
        if place not in self._scored:
            self._scored[place] = None
            if (rows := self.of_run(result).get(column)) is not None:
                from juzhen.metrics.comparison import Scored

                try:
                    self._scored[place] = Scored.by(result, column, rows)
                except UserError as error:
                    print(f"not compared row by row: {error}", file=sys.stderr)
        return self._scored[place]


@dataclass(frozen=True)
class Matrix:
    """The transfer matrix.

    Attributes:
        metric: Metric of all columns, or the most common one if each column has its main metric.
        measures: Column → metric.
        rows: The rows, best first.
        runs: One line per run, oldest first, and one for its scored initial weights, as in Result.
        columns: `split/dataset` keys in the order of the benchmark. A column has one split.
        counted: One of these for each set with `metric`, for averages of one metric that count each set once.
        hidden: Columns of other splits with values, which are not shown.
        kept: Stored scores of single rows.
    """

    metric: str
    measures: Mapping[str, str]
    rows: Sequence[Row]
    runs: pd.DataFrame
    columns: list[str]
    counted: list[str]
    hidden: list[str]
    kept: KeptRows

    def frame(self, name: str, columns: Sequence[str], rows: Sequence[Row] | None = None) -> pd.DataFrame:
        """Return a field of the cells as a frame.

        Args:
            name: Attribute of `Cell`, such as "mean".
            columns: `split/dataset` keys.
            rows: Rows in their order. None: all rows.

        Returns:
            One line per row, by its label. NaN without a cell.
        """
        rows = self.rows if rows is None else rows
        values = [
            [getattr(row.cells[key], name) if key in row.cells else math.nan for key in columns]
            for row in rows
        ]
        return pd.DataFrame(values, index=[row.label for row in rows], columns=list(columns))


def build_matrix(
    results: Sequence[Result],
    *,
    metric: str | None,
    split: str | None = None,
    audit: Audit | None = None,
    sets: Sequence[str] | None = None,
) -> Matrix:
    """Compute the matrix over some results.

    Baselines come first, then rows by length of the curriculum and name. Of several results with the same settings and
    seed the latest counts.

    Args:
        results: Results of runs.
        metric: Metric of all columns. None takes the main metric of each set.
        split: dev, test, or both for two columns per set. None takes the split with values for most rows, or test.
        audit: Leak audit.
        sets: Names of the sets of the columns, in any order. None: all sets.

    Returns:
        The matrix.

    Raises:
        UserError: No result has the metric, the split, or a set.
    """
    metric = None if metric is None else metric_key(metric)
    runs, rows = _rows_of(results)
    records = [
        {"row": run.row, "seed": run.seed, "result": run.result, "key": key} | vars(score)
        for run in runs.itertuples()
        for key, score in run.scores.items()
    ]
    # Equal weights may have been scored by several runs, each on sets of its own.
    scores = pd.DataFrame(
        records, columns=["row", "seed", "result", "key", "value", "low", "high", "count", "why"]
    )
    scores = scores.drop_duplicates(["row", "seed", "key"], keep="last").sort_values("seed", kind="stable")
    scores["column"], scores["metric"] = (scores["key"].str.rsplit("/", n=1).str[part] for part in (0, 1))
    if sets is not None:
        evaluated = scores["column"].map(lambda column: without_size(column)[0].split("/")[1])
        if absent := next((name for name in sets if name not in {*evaluated}), None):
            known = ", ".join(sorted({*evaluated})) or "none"
            raise UserError(f"set={absent}: no result has scores of it. Evaluated sets: {known}")
        scores = scores[evaluated.isin(sets)]
    names = sorted(scores["metric"].unique())
    measures = _speaking(scores) if metric is None else dict.fromkeys(scores["column"], metric)
    if metric not in (None, *names) or not measures:
        raise UserError(
            f"metric={metric or ''}: no result has it. The results have {', '.join(names) or 'no scores'}"
        )
    groups: dict[tuple[int, str], list[Any]] = {}
    for score in scores[scores["metric"] == scores["column"].map(measures)].itertuples():
        groups.setdefault((score.row, score.column), []).append(score)
    for number, column in sorted(groups):
        row, group = rows[number], groups[number, column]
        reasons = [score.why for score in group if isinstance(score.why, str)]
        if valued := [score for score in group if not pd.isna(score.value)]:
            row.cells[column] = _cell(row, column, valued, audit)
        elif reasons:
            row.reasons[column] = reasons[0]
    suites = [result.config.get("evaluate") or {} for row in rows for result in row.all_results]
    in_suites = list(dict.fromkeys(name for suite in sorted(suites, key=len, reverse=True) for name in suite))
    rows.sort(key=_row_order)
    _mark(rows)
    if metric is None:
        beside = scores["column"].isin(measures)
    else:
        beside = scores["metric"].map(lambda name: belongs_in_table(name, metric.removesuffix(WITHOUT_LEAKS)))
    scored = [column for column in scores["column"][beside].unique() if without_size(column)[1] is None]
    columns, counted, both = (_columns(scored, in_suites, rows, side) for side in (split, None, BOTH))
    filled = {column for row in rows for column in row.cells}
    hidden = [column for column in both if column in filled - {*columns}]
    shown = [
        measures[column] for column in columns if column in filled
    ]  # a set without a value decides nothing
    common = metric or max((*MAIN_METRICS, OF_ANY_TEXT, MTEB_SCORE), key=shown.count)  # the first of equals
    alike = [column for column in (counted if split == BOTH else columns) if measures[column] == common]
    return Matrix(common, measures, rows, runs, columns, alike, hidden, KeptRows())


def _speaking(scores: pd.DataFrame) -> dict[str, str]:
    """Column → main metric of its set. Of several ranking metrics, the most frequent one in the rows."""
    measures: dict[str, str] = {}
    for column, group in scores.groupby("column", sort=False):
        counts = group.dropna(subset="value")["metric"].value_counts()
        names = [name for name in MAIN_METRICS if name in {*group["metric"]}]
        if names and names[0] in OF_RANKS:
            ranked = [name for name in OF_RANKS if name in names]
            names = [max(ranked, key=lambda name: counts.get(name, 0))]  # the first of equals
        names = names or [*({OF_ANY_TEXT, MTEB_SCORE} & {*group["metric"]})]
        measures |= {str(column): name for name in names[:1]}
    return measures


def _rows_of(results: Sequence[Result]) -> tuple[pd.DataFrame, list[Row]]:
    """The frame of runs, and its rows in the order of their first runs, without cells."""
    records: list[dict[str, Any]] = []
    identities: dict[Identity, int] = {}
    for result in sorted(results, key=lambda result: result.finished_at):
        # Later stages start from trained weights, so what they measured before training is no untrained row.
        sides = [(True, result.untrained)] if result.untrained and result.stage == 0 else []
        for before, scores in [*sides, (False, result.scores)]:
            number = identities.setdefault(identify(result, before_training=before), len(identities))
            name = "" if before else row_name(result)
            records.append(
                vars(result) | {"row": number, "row_name": name, "scores": scores, "result": result}
            )
    runs, rows = pd.DataFrame(records), []
    for identity, (_, group) in zip(identities, runs.groupby("row"), strict=True):
        of_seeds = {int(seed): list(seeds) for seed, seeds in group.groupby("seed", sort=False)["result"]}
        names = list(filter(None, group["row_name"].unique()))
        rows.append(Row(identity.trained_on, _setup(group["result"].iloc[0], identity), of_seeds, names))
    labels = label_rows(list(identities), [", ".join(row.names) for row in rows])
    for row, label in zip(rows, _with_devices(labels, rows), strict=True):
        row.label = label
    return runs, rows


def _setup(result: Result, identity: Identity) -> str:
    if identity.trained_on == "lexical":
        model = result.config["model"]
        return LEXICAL.get(model.get("method"), LEXICAL[name_of(model)])
    config = as_read(result.config)
    start = str(config["backbone"]["path"] if "backbone" in config else config["init_from"])
    if not identity.trained_on or "loss" not in config:
        return start
    return ", ".join([start, name_of(config["loss"]), *deciding_choices(result)])


def _cell(row: Row, column: str, scores: Sequence[Any], audit: Audit | None) -> Cell:
    """Make a cell from `scores`, its lines in the order of seeds, all with a value."""
    first = scores[0]
    values = [float(score.value) for score in scores]
    bounded = not any(pd.isna(score.low) or pd.isna(score.high) for score in scores)
    low, high = (
        statistics.fmean(getattr(score, end) for score in scores) if bounded else None
        for end in ("low", "high")
    )
    result: Result = first.result
    typed, commit = (result.environment.get(key) for key in ("command", "git_commit"))
    parts = {part for name in row.sets for part in parts_of(name, result.config)}
    seeds = [row.results[score.seed] for score in scores]
    measured = {
        int(score.seed): score.result for score in scores if row.trained_on or not score.result.trained_on
    }
    return Cell(
        mean=statistics.fmean(values),
        std=statistics.stdev(values) if len(values) > 1 else None,
        low=low,
        high=high,
        values={int(score.seed): value for score, value in zip(scores, values, strict=True)},
        count=next((int(score.count) for score in scores if score.count), None),
        in_domain=without_size(column)[0].split("/")[1] in parts,
        leak=leak_of(seeds, first.key, row.sets, result, audit),
        command=command("python", *typed) if typed else "",
        commit=f"{commit[:10]}{'+' if result.environment.get('git_dirty') else ''}" if commit else "",
        metric=first.metric,
        measured=measured,
    )


def _mark(rows: Sequence[Row]) -> None:
    """Mark cells that are best in their column, or below the lexical baseline."""
    for column in {column for row in rows for column in row.cells}:
        scored = [row for row in rows if column in row.cells]
        lexical = max(
            (row.cells[column].mean for row in scored if row.trained_on == "lexical"), default=-math.inf
        )
        best = max(scored, key=lambda row: row.cells[column].mean)  # the first of equals
        for row in scored:
            is_below = row.trained_on != "lexical" and row.cells[column].mean < lexical
            row.cells[column] = replace(row.cells[column], is_best=row is best, below_lexical=is_below)
    _pool_seeds(rows)


def _pool_seeds(rows: Sequence[Row]) -> None:
    """Set the noise of seeds of trained cells. A single seed takes it from other rows."""
    trained = [row for row in rows if row.is_trained]
    repeated = [
        (column, cell.std**2, cell.num_seeds - 1)
        for row in trained
        for column, cell in row.cells.items()
        if cell.std is not None
    ]
    of_all = _pooled(repeated)
    by_column = {column: [entry for entry in repeated if entry[0] == column] for column, *_ in repeated}
    for row in trained:
        for column, cell in row.cells.items():
            own = (cell.std**2, float(cell.num_seeds - 1)) if cell.std is not None else None
            row.cells[column] = replace(cell, seed_noise=own or _pooled(by_column.get(column, [])) or of_all)


def _pooled(repeated: Sequence[tuple[str, float, int]]) -> tuple[float, float] | None:
    freedom = sum(degrees for *_, degrees in repeated)
    if freedom < LEAST_FREEDOM:
        return None
    return sum(variance * degrees for _, variance, degrees in repeated) / freedom, float(freedom)


def _with_devices(labels: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """Add devices to labels, unless all rows with an encoder ran on the same device.

    Seeds on several devices are one row, whose label names them.
    """
    computed = []
    for row in rows:
        nodes = [
            node.get("hardware") for result in row.all_results for node in (result.config, *result.filled)
        ]
        devices = {node["accelerator"] for node in nodes if node and "accelerator" in node}
        computed.append(sorted(devices) if row.trained_on != "lexical" else [])
    if len({device for devices in computed for device in devices}) < 2:
        return list(labels)
    told = [
        f"{label}, on {' and '.join(devices)}" if devices else label
        for label, devices in zip(labels, computed, strict=True)
    ]
    return fitted_labels(told)


def _columns(
    scored: Sequence[str], in_order: Sequence[str], rows: Sequence[Row], split: str | None
) -> list[str]:
    """Choose columns as `build_matrix` describes. A set without defined scores gets a column, too."""
    if split not in (None, BOTH) and not any(column.startswith(f"{split}/") for column in scored):
        raise UserError(f"split={split}: no result has a score of that split. Leave it out, or take another")
    filled = {column: sum(column in row.cells for row in rows) for column in scored}
    by_set: dict[str, list[str]] = {}
    for column in scored:
        by_set.setdefault(column.split("/")[1], []).append(column)
    columns: list[str] = []
    for name in [*(name for name in in_order if name in by_set), *sorted(by_set.keys() - {*in_order})]:
        candidates = by_set[name]
        preferred = [f"{side}/{name}" for side in SPLITS if f"{side}/{name}" in candidates]
        candidates = [*preferred, *(column for column in candidates if column not in preferred)]
        if split is None:
            columns.append(max(candidates, key=filled.__getitem__))  # the first of the best
        elif split == BOTH:
            columns += [column for column in reversed(candidates) if filled[column]] or candidates[:1]
        else:
            columns += [column for column in candidates if column.startswith(f"{split}/")]
    return columns


def _row_order(row: Row) -> tuple[int, int, str]:
    baseline = {"lexical": 0, "": 1}.get(row.trained_on, 2)
    return baseline, row.trained_on.count(">") + row.trained_on.count("+"), row.label
