"""Published numbers and claims beside ours, as tables: of the report, as Markdown, and for a terminal."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from juzhen.core.markup import markdown_table
from juzhen.report.compare import TOLERANCE_POINTS, Comparison
from juzhen.report.figures import Published
from juzhen.report.stacked_table import Column, StackedTable
from juzhen.report.table import MISSING, Table, heading, percent, with_interval

if TYPE_CHECKING:
    from rich.console import Group

COMPARED_COLUMNS = (
    "trained on", "our setup", "set", "ours", "published", "its setup", "source", "verdict", "learnt from less"
)  # fmt: skip
BESIDE_COLUMNS = tuple("its table, model" if one == "source" else one for one in COMPARED_COLUMNS)
REASON_COLUMNS = ("trained on", "set", "why there is no reference")
CLAIM_COLUMNS = ("claim", "source", "our best row", "set", "ours", "verdict", "note")

NUMBERS = ("ours", "published")
FIRST = ("trained on", "set", "ours", "published", "verdict")
"""What a reader looks for; how it came about stands at the right, or in the tables below."""

Listing = tuple[Sequence[str], Sequence[Sequence[str]]]
"""Headings and lines."""


def compared_lines(compared: Sequence[Comparison]) -> list[tuple[str, ...]]:
    """A line of text for each cell that has a reference, in the order of COMPARED_COLUMNS."""
    lines: list[tuple[str, ...]] = []
    for one in compared:
        if (theirs := one.published) is not None:
            words = (one.row, one.setup, one.column, percent(one.ours.mean), f"{theirs.percent:.1f}")
            lines.append((*words, theirs.setup, theirs.place, one.verdict, one.stands_in))
    return lines


def _beside_lines(compared: Sequence[Comparison], source: str) -> list[tuple[str, ...]]:
    """The same for the numbers of one source, with our intervals, in the order of BESIDE_COLUMNS."""
    lines: list[tuple[str, ...]] = []
    for one in compared:
        if (theirs := one.published) is not None and theirs.source == source:
            ours = with_interval(one.ours.mean, one.ours.low, one.ours.high)
            words = (one.row, one.setup, heading(one.column), ours, f"{theirs.percent:.2f}", theirs.setup)
            lines.append((*words, theirs.table_and_model, one.verdict, one.stands_in or MISSING))
    return lines


def reason_lines(compared: Sequence[Comparison]) -> list[tuple[str, str, str]]:
    """Row, sets and reason, one line for the sets of a row that have the same."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in compared:
        if one.published is None:
            found.setdefault((one.row, one.reason), []).append(heading(one.column))
    return [(row, ", ".join(columns), reason) for (row, reason), columns in found.items()]


def claim_lines(found: Sequence[Comparison]) -> list[tuple[str, ...]]:
    """A line of text for each claim, in the order of CLAIM_COLUMNS."""
    lines: list[tuple[str, ...]] = []
    for one in found:
        if (claim := one.published) is not None:
            ours = (one.row, heading(one.column), percent(one.ours.mean), one.verdict)
            if one.reason:  # named, not compared
                ours = (MISSING, heading(one.column), MISSING, f"{one.verdict}; {one.reason}")
            lines.append((f"{claim.metric} {spoken(claim)}", claim.place, *ours, claim.note))
    return lines


def spoken(claim: Published) -> str:
    """A figure with its bound and unit: `at least 85`, `85 to 87`, `about 10 ms`."""
    unit = "" if claim.unit in ("percent", "1", claim.metric) else f" {claim.unit}"
    if claim.bound.startswith("to "):
        return f"{claim.percent:g} {claim.bound}{unit}"
    return f"{claim.bound} {claim.percent:g}{unit}".strip()


def published_tables(compared: Sequence[Comparison], num_sources: int) -> list[Table]:
    """One table for each source that has a number for one of our cells, then what has none, and why."""
    missing = sum(one.published is None for one in compared)
    tables = []
    for source in dict.fromkeys(one.published.source for one in compared if one.published):
        lines = _beside_lines(compared, source)
        matches = sum(line[BESIDE_COLUMNS.index("verdict")] == "matches" for line in lines)
        note = (
            f"matches: {matches} of {len(lines)}; it lies in our 95 % interval or within ±{TOLERANCE_POINTS} points. "
            f"The numbers under `published` are this source's own, quoted; the setups may differ, so judge by them."
        )
        tables.append(Table(f"published-{source}", f"Beside {source}", note, BESIDE_COLUMNS, lines))
    if not tables:
        tables.append(Table("published", "Beside published numbers", "", (), [], empty="No reference."))
    if missing:
        note = (
            f"{missing} of our numbers have no reference, which must be of the same model family, training, loss, set, "
            f"metric and split; sources that were looked at: {num_sources}."
        )
        tables.append(
            Table("unlike", "Without a published number", note, REASON_COLUMNS, reason_lines(compared))
        )
    return tables


def claims_table(found: Sequence[Comparison]) -> list[Table]:
    if not found:
        return []
    note = (
        "What sources say without a measurement of their own, or set as a goal: never a reference. Beside each stands "
        "the best of our rows of the same model family, and of the same training where the source names one."
    )
    return [Table("claims", "Claims and targets", note, CLAIM_COLUMNS, claim_lines(found))]


def comparison_markdown(
    compared: Sequence[Comparison], claims: Sequence[Comparison] = (), *, metric: str
) -> str:
    """The cells that have a reference, those that have none and why, how many these are, and claims."""
    texts = []
    for part in _parts(compared, claims, metric=metric):
        if not isinstance(part, str):
            numbers = [place for place, name in enumerate(part[0]) if name in NUMBERS]
            part = markdown_table(*part, numbers=numbers)
        texts.append(part)
    return "\n\n".join(texts) + "\n"


def to_console(compared: Sequence[Comparison], claims: Sequence[Comparison], *, metric: str) -> "Group":
    from rich.console import Group

    parts = _parts(compared, claims, metric=metric)
    return Group(*(part if isinstance(part, str) else _stacked(*part) for part in parts))


def _parts(
    compared: Sequence[Comparison], claims: Sequence[Comparison], *, metric: str
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
