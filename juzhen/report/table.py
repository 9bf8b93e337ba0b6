"""A matrix as text: Markdown, console, CSV; and what the other tables of a report are. Fractions are shown ×100."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from juzhen.core.markup import in_markdown, markdown_table
from juzhen.report.matrix import BELOW, LEAKY, Cell, Matrix, Row
from juzhen.report.terminal import console_table

if TYPE_CHECKING:
    import rich.table

MISSING = "—"
NUMERIC = ("", *f"0123456789+-.<[*{MISSING}")
"""How a cell begins in a column of numbers."""

LEGEND = (
    f"**bold** best of the set, *italic* trained on it, {LEAKY} leaky, {BELOW} below the lexical baseline."
)
CHINESE_LEGEND = f"**粗体**为该集最佳，*斜体*为在其上训练过，{LEAKY} 有泄漏，{BELOW} 低于词面基线。"

CSV_COLUMNS = (
    "row", "setup", "split", "dataset", "metric", "mean", "std", "low", "high", "num_seeds", "count", "in_domain",
    "below_lexical", "leaky_rows", "leaky_share", "leaks_counted_by", "without_leaks", "without_leaks_low",
    "without_leaks_high", "without_leaks_count", "command",
)  # fmt: skip


@dataclass(frozen=True)
class ReportTable:
    """One table of the report, as plain text cells; Markdown and the page are made from the same ones.

    key    a word for markers and anchors
    body   cells as text, as many as `head` has
    empty  what stands in place of no lines
    """

    key: str
    title: str
    note: str
    head: tuple[str, ...]
    body: Sequence[tuple[str, ...]]
    empty: str = "Nothing here to answer this from."

    @property
    def numbers(self) -> list[int]:
        """Columns of numbers, which stand to the right."""
        first = [{line[column][:1] for line in self.body} for column in range(len(self.head))]
        return [column for column, signs in enumerate(first) if signs <= {*NUMERIC}]

    def markdown(self) -> str:
        return markdown_table(self.head, self.body, numbers=self.numbers) if self.body else self.empty

    def console(self) -> "rich.table.Table | str":
        numbers = [self.head[column] for column in self.numbers]
        return console_table(self.head, self.body, numbers=numbers) if self.body else self.empty


def caption(matrix: Matrix) -> str:
    hidden = ", ".join(map(heading, matrix.hidden))
    return (
        f"{matrix.metric.replace('_', ' ')} ×100; row: trained on, column: evaluated on. "
        f"One seed: 95 % bootstrap interval where there is one; several: mean ± standard deviation "
        f"(n: seeds with a value, where not all have one). {MISSING} no score."
        + (f" Not shown: {hidden}; --split both shows them." if hidden else "")
    )


def chinese_caption(matrix: Matrix) -> str:
    hidden = "、".join(map(heading, matrix.hidden))
    return (
        f"{matrix.metric.replace('_', ' ')} ×100；行：训练集，列：评测集。单个种子：95 % 自助法区间；"
        f"多个种子：均值 ± 标准差。{MISSING} 无分数。{CHINESE_LEGEND}"
        + (f"未显示：{hidden}；加 --split both 即可显示。" if hidden else "")
    )


def undefined_lines(matrix: Matrix) -> list[str]:
    """Why cells have no score though their sets were evaluated, a line for the rows of a column that share a reason."""
    labels: dict[tuple[str, str], list[str]] = {}
    for row in matrix.rows:
        for column in matrix.columns:
            if reason := row.reasons.get(column):
                labels.setdefault((column, reason), []).append(row.label)
    return [
        f"{MISSING} {heading(column)}: {why} ({', '.join(rows)})" for (column, why), rows in labels.items()
    ]


def matrix_table(matrix: Matrix, text_of: Callable[[Row, str], str]) -> ReportTable:
    """`text_of` gives what a row has in a column."""
    body = [
        (row.label, str(row.num_seeds), *(text_of(row, column) for column in matrix.columns))
        for row in matrix.rows
    ]
    head = ("trained on", "seeds", *map(heading, matrix.columns))
    return ReportTable("matrix", "Transfer matrix", "", head, body)


def to_markdown(matrix: Matrix) -> str:
    reasons = "".join(f"\n{in_markdown(line)}\n" for line in undefined_lines(matrix))
    return f"{caption(matrix)}\n\n{matrix_table(matrix, cell_text).markdown()}\n{reasons}"


def to_console(matrix: Matrix) -> "rich.table.Table":
    """A table for a terminal, without its caption; intervals stand below their value so that many columns fit."""
    table = matrix_table(matrix, lambda row, column: cell_text(row, column).replace(" ", "\n", 1))
    return console_table(table.head, table.body, numbers=table.head[1:])


def to_csv(matrix: Matrix) -> str:
    """One line per row and split, as fractions in full precision; also splits that the table leaves out."""
    body = []
    for row in matrix.rows:
        for column, cell in sorted(row.cells.items()):
            numbers = (cell.mean, cell.std, cell.low, cell.high, cell.num_seeds, cell.count)
            marks = (int(cell.in_domain), int(cell.below_lexical))
            leak, unseen = cell.leak, cell.leak and cell.leak.unseen
            seen = (leak.rows, leak.share, leak.counted_by) if leak else (None,) * 3
            unseen_numbers = (unseen.value, unseen.low, unseen.high, unseen.count) if unseen else (None,) * 4
            names = (row.label, row.setup, *column.split("/"), matrix.metric)
            body.append((*names, *numbers, *marks, *seen, *unseen_numbers, cell.command))
    return pd.DataFrame(body, columns=CSV_COLUMNS, dtype=object).to_csv(index=False, lineterminator="\n")


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def signed(value: float | None) -> str:
    return MISSING if value is None or pd.isna(value) else f"{value:+.1f}"


def heading(column: str) -> str:
    """A column's name in a table: `test/lcqmc` → `lcqmc (test)`."""
    split, dataset = column.split("/")
    return f"{dataset} ({split})"


def cell_text(row: Row, column: str) -> str:
    """A cell in words, with the number of seeds where not all have a value."""
    cell = row.cells.get(column)
    if cell is None:
        return MISSING
    text = mean_and_deviation(cell) if cell.std is not None else with_interval(cell.mean, cell.low, cell.high)
    return text if cell.num_seeds == row.num_seeds else f"{text} (n = {cell.num_seeds})"


def marked_text(row: Row, column: str) -> str:
    """The same in Markdown, with the marks of LEGEND."""
    cell = row.cells.get(column)
    if cell is None:
        return MISSING
    mark = "*" * (2 * cell.is_best + cell.in_domain)
    return f"{mark}{cell_text(row, column)}{mark}{cell.signs}"


def interval(low: float | None, high: float | None) -> str:
    return MISSING if low is None or high is None else f"[{percent(low)}, {percent(high)}]"


def with_interval(value: float, low: float | None, high: float | None) -> str:
    return f"{percent(value)} {interval(low, high)}".removesuffix(f" {MISSING}")


def mean_and_deviation(cell: Cell) -> str:
    return percent(cell.mean) + (f" ± {percent(cell.std)}" if cell.std is not None else "")
