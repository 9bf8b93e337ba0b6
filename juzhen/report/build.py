"""Everything that the report shows, put together from results."""

from collections.abc import Sequence
from dataclasses import dataclass

from juzhen.core.result import Result
from juzhen.report.compare import beside_claims, compare
from juzhen.report.comparison import claims_table, published_tables
from juzhen.report.complement import complementary_pairs, greedy_order, greedy_table, pairs_table
from juzhen.report.costs import Cost, cost_table, row_costs
from juzhen.report.entries import trained_sets, untrained_row, with_entries
from juzhen.report.fidelity import Fidelity, fidelity_table, shape_fidelity
from juzhen.report.figures import MEASURED
from juzhen.report.leaks import Audit
from juzhen.report.matrix import BASELINES, Matrix, build_matrix
from juzhen.report.questions import (
    averages_table,
    helpers_table,
    leak_table,
    rows_table,
    single_set_rows,
    targets_table,
)
from juzhen.report.reference import Reference
from juzhen.report.significance import Differences, significance_table
from juzhen.report.table import Table


@dataclass(frozen=True)
class Report:
    """matrix      every cell with what a report says of it
    tables      all others, in the order of the page
    num_results how many files it was made from
    """

    matrix: Matrix
    costs: dict[str, Cost]
    fidelity: list[Fidelity]
    differences: Differences
    tables: list[Table]
    num_results: int

    def table(self, key: str) -> Table:
        return next(one for one in self.tables if one.key == key)


def build_report(
    results: Sequence[Result],
    *,
    metric: str,
    reference: Reference,
    audit: Audit | None,
    split: str | None = None,
) -> Report:
    """Raises UserError when no result has the metric, or the split, as `build_matrix` takes it."""
    matrix = with_entries(build_matrix(results, metric=metric, split=split), audit)
    # Sets, each once, not averages of other columns: those whose rows a result has read.
    read = {key for one in results for key in one.data}
    scored = [column for column in matrix.counted if any(column in row.cells for row in matrix.rows)]
    columns = [column for column in scored if not read or column in read]
    untrained = {
        row.label: untrained_row(row, matrix.rows) for row in matrix.rows if row.trained_on not in BASELINES
    }
    differences = Differences(matrix)
    singles = single_set_rows(matrix)
    joint = [row for row in matrix.rows if len(trained_sets(row.trained_on)) == 2]
    fidelity = shape_fidelity(matrix, reference.numbers)
    costs = row_costs(matrix.rows, results)
    measured = {one.source for one in reference.numbers if one.standing == MEASURED}
    published = published_tables(compare(matrix, reference.numbers), len(measured))
    unknown = [(name,) for name in reference.unknown]
    note = "Names of the reference that have no equal here; their numbers are not compared."
    tables = [
        *rows_table(matrix),
        averages_table(matrix, columns, untrained),
        helpers_table(matrix, columns, untrained, differences),
        targets_table(matrix, columns),
        pairs_table(complementary_pairs(singles, joint, columns)),
        greedy_table(greedy_order(singles, columns)),
        fidelity_table(fidelity),
        *published,
        *claims_table(beside_claims(matrix, reference.numbers)),
        *([Table("unknown", "Not compared", note, ("name",), unknown)] if unknown else []),
        significance_table(matrix, differences),
        leak_table(matrix),
        cost_table(costs, matrix),
    ]
    return Report(matrix, costs, fidelity, differences, tables, len(results))
