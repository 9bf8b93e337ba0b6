"""The report as Markdown, CSV and LaTeX."""

from collections.abc import Sequence

from juzhen.core.csv_rows import csv_text
from juzhen.core.markup import in_markdown, markdown_table
from juzhen.report.build import Report
from juzhen.report.leaks import Leak
from juzhen.report.matrix import BELOW, LEAKY, Cell, Matrix, Row
from juzhen.report.table import (
    MISSING,
    Table,
    caption,
    heading,
    matrix_table,
    mean_and_deviation,
    shown,
    to_csv,
    undefined_lines,
)

CSV_EXTRA = (
    "count",
    "in_domain",
    "below_lexical",
    "leaky_rows",
    "leaky_share",
    "leaks_counted_by",
    "without_leaks",
    "without_leaks_low",
    "without_leaks_high",
    "without_leaks_count",
    "command",
)
REST_COLUMNS = ("value", "low", "high", "count")
LEGEND = (
    f"**bold** best of the set, *italic* trained on it, {LEAKY} leaky, {BELOW} below the lexical baseline."
)


def markdown(report: Report) -> str:
    matrix = report.matrix
    parts = ["# Transfer matrix", f"From {report.num_results} results.", matrix_markdown(matrix)]
    for table in report.tables:
        parts += [f"## {in_markdown(table.title)}", in_markdown(table.note), table_markdown(table)]
    return "\n\n".join(parts) + "\n"


def matrix_markdown(matrix: Matrix) -> str:
    told = "".join(f"\n\n{in_markdown(line)}" for line in undefined_lines(matrix))
    return f"{caption(matrix)} {LEGEND}\n\n{_aligned(*matrix_table(matrix, _cell))}{told}"


def table_markdown(table: Table) -> str:
    return _aligned(table.head, table.lines) if table.lines else table.empty


def is_numeric(lines: Sequence[Sequence[str]], place: int) -> bool:
    """A column of numbers, which stands to the right."""
    return all(line[place][:1] in f"0123456789+-.<[*{MISSING}" for line in lines)


def _cell(row: Row, column: str) -> str:
    if column not in row.cells:
        return MISSING
    entry = row.cells[column]
    mark = "*" * (2 * entry.is_best + entry.in_domain)
    return f"{mark}{shown(row, column)}{mark}{entry.signs}"


def _aligned(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return markdown_table(head, lines, numbers=[i for i in range(len(head)) if is_numeric(lines, i)])


def matrix_csv(matrix: Matrix) -> str:

    def values_of(one: Cell) -> Sequence[object]:
        marks = (int(one.in_domain), int(one.below_lexical))
        return (one.count, *marks, *_leak_values(one.leak), one.command)

    return to_csv(matrix, CSV_EXTRA, values_of)


def _leak_values(leak: Leak | None) -> tuple[object, ...]:
    """Rows, share, by whom they were counted; then the score on the rest, its interval and its rows."""
    if leak is None:
        return (None,) * 7
    rest = (None,) * 4 if leak.rest is None else tuple(vars(leak.rest)[name] for name in REST_COLUMNS)
    counted_by = "run" if leak.is_counted else "audit" if leak.rows else None
    return (leak.rows, leak.share, counted_by, *rest)


def differences_csv(report: Report) -> str:
    """Every pair of rows in every column that both have."""
    head = ("first", "second", "column", "points", "tested_by", "p", "p_holm", "verdict")
    lines = [head]
    for one in report.differences.all:
        tested = (one.tested_by, _p(one.p), _p(one.p_holm), one.verdict)
        lines.append((one.first, one.second, one.column, f"{one.points:.2f}", *tested))
    return csv_text(lines)


def _p(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def table_csv(tables: Sequence[Table]) -> str:
    """Tables of one form below each other, each line with its table's title before it."""
    head = ("table", *(tables[0].head if tables else ()))
    return csv_text([head, *((table.title, *line) for table in tables for line in table.lines)])


SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "→": r"$\rightarrow$",
    "·": r"$\cdot$",
    "±": r"$\pm$",
    "—": "---",
    LEAKY: r"$^{\dagger}$",
    BELOW: r"$^{\vee}$",
} | {sign: f"\\{sign}" for sign in "&%$#_{}"}


def latex(matrix: Matrix) -> str:
    """A booktabs table; it needs \\usepackage{booktabs} and nothing else."""
    lines = [
        "% \\usepackage{booktabs}",
        f"% {caption(matrix)}",
        "% bold: best of the column; italic: trained on it; dagger: leaky; vee: below the lexical baseline",
        f"\\begin{{tabular}}{{l{'r' * len(matrix.columns)}}}",
        "\\toprule",
        " & ".join(["trained on", *(escaped(heading(column)) for column in matrix.columns)]) + " \\\\",
        "\\midrule",
    ]
    for row in matrix.rows:
        cells = [_latex_cell(row, column) for column in matrix.columns]
        lines.append(" & ".join([escaped(row.label), *cells]) + " \\\\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])


def _latex_cell(row: Row, column: str) -> str:
    if column not in row.cells:
        return "---"
    entry = row.cells[column]
    text = escaped(mean_and_deviation(entry))
    if entry.in_domain:
        text = f"\\textit{{{text}}}"
    if entry.is_best:
        text = f"\\textbf{{{text}}}"
    return text + escaped(entry.signs)


def escaped(text: str) -> str:
    """Text for LaTeX.

    >>> escaped("a_b → c & 5 %")
    'a\\\\_b $\\\\rightarrow$ c \\\\& 5 \\\\%'
    """
    return "".join(SPECIAL.get(sign, sign) for sign in text)
