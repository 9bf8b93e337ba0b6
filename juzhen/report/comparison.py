"""Published numbers and claims beside ours, as Markdown and as tables that fold to the width of a terminal."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from juzhen.core.markup import markdown_table
from juzhen.report.claims import CLAIM_COLUMNS, Beside, claim_lines
from juzhen.report.compare import (
    COMPARED_COLUMNS,
    REASON_COLUMNS,
    TOLERANCE_POINTS,
    Comparison,
    compared_lines,
    reason_lines,
)
from juzhen.report.stacked_table import Column, StackedTable

if TYPE_CHECKING:
    from rich.console import Group

NUMBERS = ("ours", "published")
FIRST = ("trained on", "set", "ours", "published", "verdict")
"""What a reader looks for; how it came about stands at the right, or in the tables below."""

Listing = tuple[Sequence[str], Sequence[Sequence[str]]]
"""Headings and lines."""


def comparison_markdown(compared: Sequence[Comparison], claims: Sequence[Beside] = (), *, metric: str) -> str:
    """The cells that have a reference, those that have none and why, how many these are, and claims."""
    texts = []
    for part in _parts(compared, claims, metric=metric):
        if not isinstance(part, str):
            numbers = [place for place, name in enumerate(part[0]) if name in NUMBERS]
            part = markdown_table(*part, numbers=numbers)
        texts.append(part)
    return "\n\n".join(texts) + "\n"


def to_console(compared: Sequence[Comparison], claims: Sequence[Beside], *, metric: str) -> "Group":
    from rich.console import Group

    parts = _parts(compared, claims, metric=metric)
    return Group(*(part if isinstance(part, str) else _stacked(*part) for part in parts))


def _parts(
    compared: Sequence[Comparison], claims: Sequence[Beside], *, metric: str
) -> Iterator[str | Listing]:
    near = f"within ±{TOLERANCE_POINTS} points"
    yield f"{metric} ×100. matches: published lies in our 95 % interval, or {near}."
    lines = compared_lines(compared)
    yield (COMPARED_COLUMNS, lines) if lines else "Nothing of ours has a reference."
    if reasons := reason_lines(compared):
        yield REASON_COLUMNS, reasons
    yield f"no reference: {sum(one.published is None for one in compared)} of our numbers"
    if claims:
        yield (
            "Claims and targets, which no measurement of their source stands behind, beside the best of our rows:"
        )
        yield CLAIM_COLUMNS, claim_lines(claims)


def _stacked(names: Sequence[str], lines: Sequence[Sequence[str]]) -> StackedTable:
    first = FIRST if names is COMPARED_COLUMNS else ()
    order = [names.index(name) for name in (*first, *(one for one in names if one not in first))]
    columns = [Column(names[number], is_number=names[number] in NUMBERS) for number in order]
    return StackedTable(
        columns, ([line[number] for number in order] for line in lines), labels=2 if first else 1
    )
