"""Published numbers beside ours, each with its source."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from schema.markup import in_markdown
from sweeps.matrix import Cell, Matrix
from sweeps.table import percent

PUBLISHED = Path(__file__).parent / "published"
TOLERANCE_POINTS = 1.0
"""Two numbers ×100 this close count as the same: seeds alone move a fine-tuned encoder as far."""


@dataclass(frozen=True)
class Published:
    """One number of one source, with its names translated into ours (see published/README.md).

    trained_on  as in sweeps.identity.Identity; empty where the source's training sets have no equal here
    split       empty where the source does not say
    """

    source: str
    table: str
    model: str
    setup: str
    trained_on: str
    split: str
    dataset: str
    metric: str
    percent: float


@dataclass(frozen=True)
class Comparison:
    """One of our cells, and a published number for it or None.

    verdict  `matches`, `differs by +1.3` (ours less theirs, in points) or `no reference`
    """

    row: str
    setup: str
    column: str
    ours: Cell
    published: Published | None
    verdict: str


def load_published(folder: Path = PUBLISHED) -> list[Published]:
    """Every published number, source by source."""
    numbers = []
    for path in sorted(folder.glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            for line in csv.DictReader(file):
                numbers.append(Published(**{**line, "source": path.stem, "percent": float(line["percent"])}))
    return numbers


def compare(matrix: Matrix, published: Sequence[Published]) -> list[Comparison]:
    """Our trained rows against every number with the same training sets in order, split, dataset and metric.

    Backbone and loss need not be the same: both setups are named, the reader judges. A number that a source
    repeats unchanged in several tables appears once.
    """
    references: dict[tuple[str, str], dict[tuple[str, str, float], Published]] = {}
    for number in published:
        if number.metric == matrix.metric and number.trained_on and number.split:
            known = references.setdefault((number.trained_on, f"{number.split}/{number.dataset}"), {})
            known.setdefault((number.source, number.setup, number.percent), number)
    compared = []
    for row in matrix.rows:
        if row.trained_on in ("", "lexical"):
            continue
        for column, cell in sorted(row.cells.items()):
            for number in references.get((row.trained_on, column), {"": None}).values():
                compared.append(
                    Comparison(row.label, row.setup, column, cell, number, _verdict(cell, number))
                )
    return compared


def comparison_markdown(compared: Sequence[Comparison], *, metric: str) -> str:
    """A Markdown table of the cells that have a reference, and how many have none."""
    lines = [
        f"{metric} ×100. matches: published lies in our 95 % interval, or within ±{TOLERANCE_POINTS} points.",
        "",
        "| trained on | our setup | set | ours | published | its setup | source | verdict |",
        "|---|---|---|--:|--:|---|---|---|",
    ]
    for one in compared:
        if one.published is not None:
            theirs = one.published
            cells = [one.row, one.setup, one.column, percent(one.ours.mean), f"{theirs.percent:.1f}"]
            cells += [theirs.setup, f"{theirs.source}: {theirs.table}, {theirs.model}", one.verdict]
            lines.append(f"| {' | '.join(map(in_markdown, cells))} |")
    missing = sum(one.published is None for one in compared)
    return "\n".join([*lines, "", f"no reference: {missing} of our numbers", ""])


def _verdict(cell: Cell, number: Published | None) -> str:
    if number is None:
        return "no reference"
    difference = 100 * cell.mean - number.percent
    inside = cell.low is not None and cell.high is not None and cell.low <= number.percent / 100 <= cell.high
    return "matches" if inside or abs(difference) <= TOLERANCE_POINTS else f"differs by {difference:+.1f}"
