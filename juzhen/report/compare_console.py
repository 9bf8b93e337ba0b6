"""Published numbers and claims beside ours, for a terminal."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from juzhen.report.claims import CLAIM_COLUMNS, CLAIMS_MEANING, Beside, claim_lines
from juzhen.report.compare import (
    COMPARED_COLUMNS,
    NOTHING,
    REASON_COLUMNS,
    Comparison,
    compared_lines,
    meaning,
    reason_lines,
)
from juzhen.report.stacked_table import Column, StackedTable

if TYPE_CHECKING:
    from rich.console import Group

NUMBERS = ("ours", "published")
FIRST = ("trained on", "set", "ours", "published", "verdict")
"""What a reader looks for; how it came about stands at the right, or in the tables below."""


def to_console(compared: Sequence[Comparison], claims: Sequence[Beside], *, metric: str) -> "Group":
    """The parts of `comparison_markdown` and `claims_markdown`, as tables that fold to the width of the terminal."""
    from rich.console import Group

    return Group(*_parts(compared, claims, metric=metric))


def _parts(
    compared: Sequence[Comparison], claims: Sequence[Beside], *, metric: str
) -> Iterator[str | StackedTable]:
    yield meaning(metric)
    lines = compared_lines(compared)
    yield _table(COMPARED_COLUMNS, lines, first=FIRST, labels=2) if lines else NOTHING
    if reasons := reason_lines(compared):
        yield _table(REASON_COLUMNS, reasons, labels=1)
    yield f"no reference: {sum(one.published is None for one in compared)} of our numbers"
    if claims:
        yield CLAIMS_MEANING
        yield _table(CLAIM_COLUMNS, claim_lines(claims), labels=1)


def _table(
    names: Sequence[str], lines: Sequence[Sequence[str]], *, labels: int, first: Sequence[str] = ()
) -> StackedTable:
    rest = [name for name in names if name not in first]
    order = [names.index(name) for name in (*first, *rest)]
    columns = [Column(names[number], is_number=names[number] in NUMBERS) for number in order]
    return StackedTable(columns, ([line[number] for number in order] for line in lines), labels=labels)
