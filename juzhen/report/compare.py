"""Published numbers and claims next to ours, with their sources, or with a reason why they are not comparable."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from juzhen.report.figures import CLAIM, MEASURED, Published
from juzhen.report.matrix import Cell, Matrix
from juzhen.report.table import MISSING, ReportTable, heading, percent, with_interval
from juzhen.report.training import Training, stand_ins, training_of

TOLERANCE_POINTS = 1.0
"""Largest difference ×100 that counts as equal, because seeds alone move a fine-tuned encoder as far."""

NO_REFERENCE, NO_ROW, NO_TRAINING = "no reference", "no similar row", "no source has this training"

COMPARED_COLUMNS = (
    "trained on", "our setup", "set", "ours", "published", "its setup", "its table, model", "verdict",
    "learnt from less",
)  # fmt: skip
CLAIM_COLUMNS = ("claim", "source", "our best row", "set", "ours", "verdict", "note")


@dataclass(frozen=True)
class Comparison:
    """A cell of ours with a published number or claim, or with the reason for a missing reference.

    Attributes:
        verdict: `matches`, `differs by +1.3` (ours minus theirs, in points) or `no reference`. For a claim
            `reached` or `2.3 short`.
        stands_in: How our row was trained on less than theirs, or "".
        reason: Reason for a missing reference, difference of the row from a claim, or "".
    """

    row: str
    setup: str
    column: str
    ours: Cell
    published: Published | None
    verdict: str
    stands_in: str = ""
    reason: str = ""


def compare(matrix: Matrix, published: Iterable[Published]) -> list[Comparison]:
    """Compare our trained rows with every comparable measurement.

    Comparable means equal model family, training, loss, split, set and metric. A training is the sets of each stage and
    their row types. A source that does not name its loss is compared with any loss. Backbones may differ: both setups
    are named, and the reader judges. A number that a source repeats in several tables appears once.

    Args:
        matrix: The transfer matrix.
        published: Published numbers.

    Returns:
        A comparison for each cell.
    """
    references = [number for number in published if number.standing == MEASURED]
    compared = []
    for row in (row for row in matrix.rows if row.is_trained):
        training, stands_in = training_of(row.latest), "; ".join(stand_ins(row.latest))
        same = [number for number in references if training.sets in number.trainings]
        for column, cell in sorted(row.cells.items()):
            alike: dict[tuple[str, str, float], Published] = {}
            for number in same:
                if not unlike(number, training, column, cell.metric):
                    alike.setdefault((number.source, number.setup, number.percent), number)
            ours = (row.label, row.setup, column, cell)
            compared += [
                Comparison(*ours, number, _verdict(cell, number), stands_in) for number in alike.values()
            ]
            if not alike:
                reason = why_none(same, training, column, cell.metric)
                compared.append(Comparison(*ours, None, NO_REFERENCE, stands_in, reason))
    return compared


def unlike(number: Published, training: Training, column: str, metric: str) -> list[str]:
    """List reasons why a published number is not comparable to a cell, most important first.

    Returns:
        The reasons, empty if the number is a reference.
    """
    split, dataset = column.split("/")
    differs = {
        "start": training.start,
        "training": training.sets not in number.trainings,
        "set": number.dataset != dataset,
        "model": number.family != training.family,
        "loss": number.loss not in ("", training.loss),
        "supervision": number.supervision not in ("", training.supervision),
        "metric": number.metric != metric,
        "split": number.split != split,
    }
    return [name for name, is_other in differs.items() if is_other]


def why_none(references: Iterable[Published], training: Training, column: str, metric: str) -> str:
    """Explain why no published number is a reference for a cell, and name the nearest one."""
    if training.start:
        return f"went on from {training.start}, of which no source says what it had learnt"
    differences = [(unlike(number, training, column, metric), number) for number in references]
    same = [pair for pair in differences if "training" not in pair[0]]
    if not same:
        return f"{NO_TRAINING} ({training.sets})"
    near = [pair for pair in same if "set" not in pair[0]]
    if not near:
        return "the sources that have this training do not score this set"
    differs, number = min(near, key=lambda pair: len(pair[0]))
    phrases = {
        "model": f"of a {number.family}",
        "loss": f"by another loss ({number.loss})",
        "supervision": "learnt without labels",
        "metric": f"of {number.metric}",
        "split": f"of {number.split or 'a split that is not named'}, not {column.split('/')[0]}",
    }
    return f"the nearest, {number.percent:.2f} ({number.place}), is {', '.join(phrases[name] for name in differs)}"


def _verdict(cell: Cell, number: Published) -> str:
    difference = 100 * cell.mean - number.percent
    inside = cell.low is not None and cell.high is not None and cell.low <= number.percent / 100 <= cell.high
    return "matches" if inside or abs(difference) <= TOLERANCE_POINTS else f"differs by {difference:+.1f}"


def beside_claims(matrix: Matrix, published: Iterable[Published]) -> list[Comparison]:
    """Compare every claim of the metric with our best comparable row, on each split if it names none.

    A claim without evidence is never a reference, but may be a goal. A comparable row has its model family, and its
    training, loss and supervision if the claim names them. The initial weights may differ, unless the claim excludes
    labels. A column without such a row names the nearest row with a reason.

    Args:
        matrix: The transfer matrix.
        published: Published numbers and claims.

    Returns:
        A comparison for each claim.
    """
    compared = []
    trainings = {row.label: training_of(row.latest) for row in matrix.rows if row.is_trained}
    for claim in published:
        if claim.standing != CLAIM or claim.metric not in matrix.measures.values() or claim.unit != "percent":
            continue
        cells = [
            (_unlike_claim(claim, trainings.get(row.label), column, cell.metric), row, column, cell)
            for row in matrix.rows
            for column, cell in row.cells.items()
        ]
        best: dict[str, Comparison] = {}
        for differs, row, column, cell in cells:
            if not differs and (column not in best or cell.mean > best[column].ours.mean):
                short = claim.percent - 100 * cell.mean
                verdict = "reached" if short <= 0 else f"{short:.1f} short"
                best[column] = Comparison(row.label, row.setup, column, cell, claim, verdict)
        compared += [best[column] for column in sorted(best)]
        near = [entry for entry in cells if not {"set", "split", "metric"} & {*entry[0]}]
        if near and not best:
            differs, row, column, cell = min(near, key=lambda entry: (len(entry[0]), -entry[3].mean))
            reason = f"nearest: {row.label}, which differs in {', '.join(differs)}"
            compared.append(Comparison(row.label, row.setup, column, cell, claim, NO_ROW, reason=reason))
    return compared


def _unlike_claim(claim: Published, training: Training | None, column: str, metric: str) -> list[str]:
    """Reason why a cell is not comparable to a claim, or None for an untrained row."""
    if training is None:
        return ["training"] if column.endswith(f"/{claim.dataset}") else ["set"]
    says = {"split": claim.split, "training": claim.trained_on, "start": claim.supervision}
    return [name for name in unlike(claim, training, column, metric) if says.get(name, True)]


def comparison_tables(matrix: Matrix, published: Sequence[Published]) -> list[ReportTable]:
    """Make a table for each source with a number for one of our cells, then one of cells without, then one of claims.

    Args:
        matrix: The transfer matrix.
        published: Published numbers and claims.

    Returns:
        The tables.
    """
    compared = compare(matrix, published)
    tables = []
    for source in dict.fromkeys(entry.published.source for entry in compared if entry.published):
        body = compared_lines(compared, source)
        matches = sum(line[COMPARED_COLUMNS.index("verdict")] == "matches" for line in body)
        note = (
            f"matches: {matches} of {len(body)}. A match is in our 95 % interval or within ±{TOLERANCE_POINTS} points. "
            f"The numbers under `published` are quoted from this source. The setups may differ."
        )
        tables.append(
            ReportTable(f"published-{source}", f"Compared with {source}", note, COMPARED_COLUMNS, body)
        )
    if not tables:
        tables.append(
            ReportTable("published", "Compared with published numbers", "", (), [], empty="No reference.")
        )
    reasons: dict[tuple[str, str], list[str]] = {}  # one line for the sets of a row that have the same
    for entry in (entry for entry in compared if entry.published is None):
        reasons.setdefault((entry.row, entry.reason), []).append(entry.column)
    measured = [number for number in published if number.standing == MEASURED]
    scored = {number.dataset for number in measured}
    for (row, reason), columns in list(reasons.items()):
        # Sets and a training that no source has: nobody looks for these.
        if reason.startswith(NO_TRAINING) and not scored & {column.split("/")[1] for column in columns}:
            del reasons[row, reason]
    if reasons:
        sources = {number.source for number in measured}
        note = (
            f"{sum(map(len, reasons.values()))} of our numbers have no reference: a number of the same model family, "
            f"training, loss, set, metric and split. Searched sources: {len(sources)}."
        )
        head = ("trained on", "set", "why there is no reference")
        body = [(row, ", ".join(map(heading, columns)), reason) for (row, reason), columns in reasons.items()]
        tables.append(ReportTable("unlike", "Without a published number", note, head, body))
    if claims := claim_lines(beside_claims(matrix, published)):
        note = (
            "Claims of sources without a measurement, and goals. They are never a reference. Next to each: our best "
            "row of the same model family, and of the same training if the source names one."
        )
        tables.append(ReportTable("claims", "Claims and targets", note, CLAIM_COLUMNS, claims))
    return tables


def compared_lines(compared: Iterable[Comparison], source: str) -> list[tuple[str, ...]]:
    """Format comparisons with one source, with the columns COMPARED_COLUMNS."""
    return [
        (
            entry.row,
            entry.setup,
            heading(entry.column),
            with_interval(entry.ours.mean, entry.ours.low, entry.ours.high),
            f"{theirs.percent:.2f}",
            theirs.setup,
            theirs.table_and_model,
            entry.verdict,
            entry.stands_in or MISSING,
        )
        for entry in compared
        if (theirs := entry.published) is not None and theirs.source == source
    ]


def claim_lines(compared: Iterable[Comparison]) -> list[tuple[str, ...]]:
    """Format comparisons with claims, with the columns CLAIM_COLUMNS."""
    body: list[tuple[str, ...]] = []
    for entry in compared:
        if (claim := entry.published) is not None:
            ours = (
                entry.row,
                heading(entry.column),
                percent(entry.ours.mean),
                entry.verdict,
            )
            if entry.reason:  # named, not compared
                ours = (MISSING, heading(entry.column), MISSING, f"{entry.verdict}; {entry.reason}")
            body.append((f"{claim.metric} {figure_text(claim)}", claim.place, *ours, claim.note))
    return body


def figure_text(claim: Published) -> str:
    """Format a figure with its bound and unit: `at least 85`, `85 to 87`, `about 10 ms`."""
    unit = "" if claim.unit in ("percent", "1", claim.metric) else f" {claim.unit}"
    if claim.bound.startswith("to "):
        return f"{claim.percent:g} {claim.bound}{unit}"
    return f"{claim.bound} {claim.percent:g}{unit}".strip()
