"""Claims and targets beside our best: what a source says without evidence is never a reference, but may be a goal."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from juzhen.report.compare import unlike
from juzhen.report.figures import CLAIM, Published
from juzhen.report.matrix import Cell, Matrix, Row
from juzhen.report.table import heading, percent
from juzhen.report.training import training_of


@dataclass(frozen=True)
class Beside:
    """A claim, and the best of our rows of its like.

    column   where ours is read: a claim that names no split is set beside each that we have
    verdict  `reached`, or `2.3 short`
    """

    claim: Published
    row: str
    column: str
    ours: Cell
    verdict: str


CLAIM_COLUMNS = ("claim", "source", "our best row", "set", "ours", "verdict", "note")


def beside_claims(matrix: Matrix, published: Iterable[Published]) -> list[Beside]:
    """Every claim of the metric for which we have a row of its model family, and of its training and loss where it
    names them; what that row went on from is free."""
    found = []
    for one in published:
        if one.standing != CLAIM or one.metric != matrix.metric or one.unit != "percent":
            continue
        best: dict[str, Beside] = {}
        for row in matrix.rows:
            for column, cell in _cells_of_like(one, row, matrix.metric):
                if column not in best or cell.mean > best[column].ours.mean:
                    best[column] = Beside(one, row.label, column, cell, _verdict(one, cell))
        found += [best[column] for column in sorted(best)]
    return found


def _cells_of_like(claim: Published, row: Row, metric: str) -> Iterator[tuple[str, Cell]]:
    not_said = {"start"} | ({"split"} if not claim.split else set())
    not_said |= {"training"} if not claim.trained_on else set()
    if row.trained_on not in ("", "lexical"):
        training = training_of(row.latest)
        for column, cell in row.cells.items():
            if not set(unlike(claim, training, column, metric)) - not_said:
                yield column, cell


def claim_lines(found: Sequence[Beside]) -> list[tuple[str, ...]]:
    """A line of text for each, in the order of CLAIM_COLUMNS."""
    return [
        (
            f"{one.claim.metric} {spoken(one.claim)}",
            one.claim.place,
            one.row,
            heading(one.column),
            percent(one.ours.mean),
            one.verdict,
            one.claim.note,
        )
        for one in found
    ]


def spoken(claim: Published) -> str:
    """A figure with its bound and unit: `at least 85`, `85 to 87`, `about 10 ms`."""
    unit = "" if claim.unit in ("percent", "1", claim.metric) else f" {claim.unit}"
    if claim.bound.startswith("to "):
        return f"{claim.percent:g} {claim.bound}{unit}"
    return f"{claim.bound} {claim.percent:g}{unit}".strip()


def _verdict(claim: Published, ours: Cell) -> str:
    short = claim.percent - 100 * ours.mean
    return "reached" if short <= 0 else f"{short:.1f} short"
