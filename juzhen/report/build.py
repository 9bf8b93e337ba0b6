"""The contents of a report, computed from results: findings, tables of effects, ranks, gains and losses."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pandas as pd

from juzhen.core.result import Result
from juzhen.metrics.comparison import points
from juzhen.metrics.correlation import Gap
from juzhen.metrics.matrix_statistics import leave_one_out, low_rank, two_way
from juzhen.report.answers import answers
from juzhen.report.compare import Reference, comparison_tables
from juzhen.report.insights import (
    Transfer,
    cost_table,
    leak_table,
    merged_tables,
    row_costs,
    rows_table,
    single_set_rows,
    size_tables,
    unknown_table,
)
from juzhen.report.leaks import Audit
from juzhen.report.matrix import Matrix, Row, build_matrix
from juzhen.report.profiles import complement_tables, fidelity_table, shape_fidelity
from juzhen.report.significance import both_ways, contrast, differences, significance_table
from juzhen.report.table import MISSING, ReportTable, heading, signed
from juzhen.report.translation import Phrase

LEAST_MEASURED = 4
"""Cells that a row and a column need for predictions."""

ROUNDS, MOST_LEFT_OUT = 50, 60
"""Rounds of a prediction, and cells that its error is measured on, so that a report stays quick."""


def effect_tables(matrix: Matrix, transfer: Transfer, tested: pd.DataFrame) -> list[ReportTable]:
    """Make the tables of this module that have a line.

    Args:
        matrix: The transfer matrix.
        transfer: Its gains.
        tested: Tested differences of rows.
    """
    tables = [_forgetting_table(matrix, transfer), *_part_tables(matrix, transfer.columns)]
    return [table for table in (*tables, _rank_table(matrix, transfer.columns, tested)) if table.body]


def _part_tables(matrix: Matrix, columns: Sequence[str]) -> list[ReportTable]:
    lines = [
        (row.label, column, seed, 100 * value)
        for row in matrix.rows
        if row.is_trained
        for column in columns
        if column in row.cells and not row.cells[column].flatters
        for seed, value in row.cells[column].values.items()
    ]
    found = two_way(pd.DataFrame(lines, columns=["row", "column", "seed", "score"]))
    if found is None:
        return []
    note = (
        "Score = mean + row + column + interaction + seed: standard deviation of each part in points, with 95 % "
        "intervals, over trained rows without leaks from other sets. Seed: of one training. The interaction is what "
        "makes a training help one set and not another."
    )
    body = [
        (part.name, f"{part.deviation:.1f}", f"[{part.low:.1f}, {part.high:.1f}]") for part in found.parts
    ]
    parts = ReportTable("parts", "What moves a score?", note, ("part", "deviation", "95 % interval"), body)
    note = "Mean of a row over the sets less that of the mean row, in points. The interval holds for further sets."
    effects = [
        (str(label), signed(effect), f"[{low:+.1f}, {high:+.1f}]")
        for label, effect, low, high in found.rows.sort_values("effect", ascending=False).itertuples()
    ]
    head = ("trained on", "effect", "95 % interval")
    return [parts, ReportTable("effects", "Which training helps on average?", note, head, effects)]


def _rank_table(matrix: Matrix, columns: Sequence[str], tested: pd.DataFrame) -> ReportTable:
    """Ranks with simultaneous intervals: rows that are certainly better or worse bound them (Mogstad et al. 2024)."""
    verdicts = both_ways(tested)
    ranks: dict[tuple[str, str], str] = {}
    for column in columns:
        rows = [row for row in matrix.rows if column in row.cells and not row.cells[column].flatters]
        rows.sort(key=lambda row: -row.cells[column].mean)
        labels = {row.label for row in rows}
        here = verdicts[
            (verdicts["column"] == column) & verdicts["first"].isin(labels) & verdicts["second"].isin(labels)
        ]
        counts = pd.crosstab(here["first"], here["verdict"]).reindex(
            columns=["higher", "lower"], fill_value=0
        )
        for place, row in enumerate(rows if len(counts) else [], start=1):
            higher, lower = counts.loc[row.label]
            ranks[row.label, column] = f"{place} [{1 + lower}, {len(rows) - higher}]"
    note = (
        "Place of each row in a set, with an interval that holds for all places of this report together at 95 %: from "
        "the differences that Holm's correction leaves certain. Cells with leaks from other sets are left out."
    )
    body = [
        (row.label, *(ranks.get((row.label, column), MISSING) for column in columns))
        for row in matrix.rows
        if any((row.label, column) in ranks for column in columns)
    ]
    return ReportTable("ranks", "Which place has a row?", note, ("trained on", *map(heading, columns)), body)


def predict_cells(matrix: Matrix, columns: Sequence[str]) -> tuple[dict[tuple[str, str], float], float]:
    """Predict scores of trained rows on sets that they were neither scored nor trained on.

    Args:
        matrix: The transfer matrix.
        columns: Its columns.

    Returns:
        (label, column) → prediction in points, and the error of measured cells that are left out. Rows and columns with
        fewer than LEAST_MEASURED cells are absent.
    """
    trained = [row for row in matrix.rows if row.is_trained]
    flatters = matrix.frame("flatters", columns, trained).eq(True)
    measured = (100 * matrix.frame("mean", columns, trained).astype(float)).mask(flatters)
    measured = measured.loc[:, measured.count() >= LEAST_MEASURED]
    measured = measured[measured.count(axis="columns") >= LEAST_MEASURED]
    missing = {
        (row.label, column)
        for row in trained
        if row.label in measured.index
        for column in measured.columns
        if not {column, column.split("/")[1]} & {*row.cells, *row.reasons, *row.sets}
    }
    if not missing:
        return {}, math.nan
    fill = partial(low_rank, rounds=ROUNDS)
    filled, error = fill(measured), leave_one_out(measured, fill, most=MOST_LEFT_OUT)
    return {place: float(filled.loc[place]) for place in sorted(missing)}, error


def predicted_table(predicted: Mapping[tuple[str, str], float], error: float) -> ReportTable:
    note = (
        "Filled by the effects of rows and columns and two components, from trained rows without leaks from other "
        "sets. Error: of measured cells that were left out, root of the mean square. No other table and no decision "
        "uses them."
    )
    body = [
        (label, heading(column), f"≈ {value:.1f}", f"± {error:.1f}")
        for (label, column), value in predicted.items()
    ]
    head = ("trained on", "set", "predicted", "error")
    return ReportTable("predicted", "Predicted, not measured", note, head, body)


def _forgetting_table(matrix: Matrix, transfer: Transfer) -> ReportTable:
    note = (
        "Change against the untrained weights in points, with 95 % intervals: mean over the sets that a row was "
        "trained on, and over all others that have no leak. Forgotten most: the other set that loses most."
    )
    body = []
    for row in matrix.rows:
        known = [key for key in transfer.columns if key in row.cells and (row.label, key) in transfer.before]
        own = [column for column in known if row.cells[column].in_domain]
        others = [column for column in known if transfer.zero_shot.loc[row.label, column]]
        changes = [mean_change(matrix, transfer, row, group) for group in (own, others)]
        if any(changes):
            texts = [MISSING if change is None else points(change) for change in changes]
            lost = transfer.gains.loc[row.label, others]
            worst = (
                f"{heading(lost.idxmin())} {signed(lost.min())}" if len(lost) and lost.min() < 0 else MISSING
            )
            body.append((row.label, *texts, worst))
    head = ("trained on", "gain on own sets", "change of others", "forgotten most")
    return ReportTable("forgetting", "What is gained, and forgotten?", note, head, body)


def mean_change(matrix: Matrix, transfer: Transfer, row: Row, columns: Sequence[str]) -> Gap | None:
    """Mean change of a row over columns, against the weights that it started from.

    Rows of different sets are independent. A seed moves all columns together, so its part comes from the means of the
    seeds. Of a single seed it is the mean error of the columns, as if they moved in step.

    Args:
        matrix: The transfer matrix.
        transfer: Its gains.
        row: A trained row.
        columns: Columns that both have.

    Returns:
        None without columns, or if one has no test.
    """
    rows = {row.label: row for row in matrix.rows}
    found = [
        contrast(matrix, column, row.cells[column], rows[transfer.before[row.label, column]].cells[column])
        for column in columns
    ]
    known = [each for each in found if each is not None]
    if not known or len(known) < len(found):
        return None
    count = len(known)
    variance = sum(each.row_error**2 for each in known) / count**2
    seeds = set.intersection(*({*row.cells[column].values} for column in columns))
    if len(seeds) > 1:
        means = [statistics.fmean(row.cells[column].values[seed] for column in columns) for seed in seeds]
        of_seeds, freedom = statistics.variance(means) / len(means), len(means) - 1.0
    else:
        of_seeds = statistics.fmean(each.seed_error or 0.0 for each in known) ** 2
        freedom = min(noise[1] if (noise := row.cells[column].seed_noise) else math.inf for column in columns)
    total = variance + of_seeds
    value = statistics.fmean(each.gap.value for each in known)
    return Gap(value, math.sqrt(total), total**2 * freedom / of_seeds**2 if of_seeds else math.inf)


@dataclass(frozen=True)
class Report:
    """Contents of a report.

    Attributes:
        matrix: The transfer matrix.
        costs: Cost of each row, from `row_costs`.
        fidelity: Agreement with published numbers, from `shape_fidelity`.
        differences: Tested differences of rows, from `significance.differences`.
        tables: All other tables, in the order of the page.
        num_results: Number of result files.
        sentences: What the report answers first, in English and Chinese.
        command: Command line of the next run, or "".
        predicted: Row label and column → predicted score in points, of cells that were not measured.
        prediction_error: Their leave-one-out error.
    """

    matrix: Matrix
    costs: pd.DataFrame
    fidelity: pd.DataFrame
    differences: pd.DataFrame
    tables: list[ReportTable]
    num_results: int
    sentences: Sequence[Phrase] = ()
    command: str = ""
    predicted: Mapping[tuple[str, str], float] = field(default_factory=dict)
    prediction_error: float = math.nan

    def table(self, key: str) -> ReportTable:
        return next(table for table in self.tables if table.key == key)


def build_report(
    results: Sequence[Result],
    *,
    metric: str | None,
    reference: Reference,
    audit: Audit | None,
    split: str | None = None,
    runs: Path | None = None,
) -> Report:
    """Compute a report.

    Args:
        results: Results of runs.
        metric: Metric of the matrix. None takes the main metric of each set.
        reference: Published numbers.
        audit: Leak audit.
        split: Split of the columns, as for `build_matrix`.
        runs: Folder of the results, in which the next run is put.

    Returns:
        The report.

    Raises:
        UserError: No result has the metric or the split.
    """
    matrix = build_matrix(results, metric=metric, split=split, audit=audit)
    # Sets, each once, not averages of other columns: those whose rows a result has read.
    read = {key for result in results for key in result.data}
    scored = [column for column in matrix.counted if any(column in row.cells for row in matrix.rows)]
    columns = [column for column in scored if not read or column in read]
    transfer, tested = Transfer(matrix, columns), differences(matrix)
    fidelity, costs = shape_fidelity(matrix, reference.numbers), row_costs(matrix)
    unknown = [(name,) for name in reference.unknown]
    note = "Names of the reference that have no equal here; their numbers are not compared."
    predicted, error = predict_cells(matrix, columns)
    answered = answers(matrix, transfer, costs, runs=runs)
    tables = [
        *answered.tables,
        *rows_table(matrix),
        *size_tables(matrix),
        transfer.averages_table(),
        transfer.helpers_table(tested),
        *effect_tables(matrix, transfer, tested),
        *([predicted_table(predicted, error)] if predicted else []),
        transfer.targets_table(),
        *merged_tables(matrix),
        *complement_tables(matrix, single_set_rows(matrix), columns),
        fidelity_table(fidelity),
        *comparison_tables(matrix, reference.numbers),
        *([ReportTable("unknown", "Not compared", note, ("name",), unknown)] if unknown else []),
        significance_table(matrix, tested),
        leak_table(matrix),
        *unknown_table(matrix),
        cost_table(costs),
    ]
    return Report(
        matrix,
        costs,
        fidelity,
        tested,
        tables,
        len(results),
        answered.sentences,
        answered.command,
        predicted,
        error,
    )
