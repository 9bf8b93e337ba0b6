"""The contents of a report, computed from results."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from juzhen.core.result import Result
from juzhen.report.answers import answers
from juzhen.report.compare import comparison_tables
from juzhen.report.effects import effect_tables, predict_cells, predicted_table
from juzhen.report.figures import Reference
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
from juzhen.report.matrix import Matrix, build_matrix
from juzhen.report.profiles import complement_tables, fidelity_table, shape_fidelity
from juzhen.report.significance import differences, significance_table
from juzhen.report.table import ReportTable
from juzhen.report.translation import Phrase


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
) -> Report:
    """Compute a report.

    Args:
        results: Results of runs.
        metric: Metric of the matrix. None takes the main metric of each set.
        reference: Published numbers.
        audit: Leak audit.
        split: Split of the columns, as for `build_matrix`.

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
    answered = answers(matrix, transfer, costs)
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
