"""Published figures and claims next to ours, with their sources, or with a reason why they are not comparable.

Where figures are from is in published/README.md. Files of a reader may use our names or those of the source.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from juzhen.core.errors import UserError
from juzhen.core.safe_open import csv_rows
from juzhen.core.text import short
from juzhen.report.matrix import Cell, Matrix
from juzhen.report.table import MISSING, ReportTable, heading, percent, with_interval
from juzhen.report.training import Training, set_names, stand_ins, training_of

PUBLISHED = Path(__file__).parent / "published"

MEASURED, CLAIM, NOT_IN_THE_PAPER = "measured", "claim", "not in the paper named"
STANDINGS = (MEASURED, CLAIM, NOT_IN_THE_PAPER)
"""Measured by the source · stated without evidence, or as a target · attributed to a paper that lacks it."""


@dataclass(frozen=True)
class Published:
    """One figure of one source, with its names translated into ours.

    Attributes:
        source: Key of the source.
        table, model: Table and model of the source, in its words.
        setup: Setup in the words of the source.
        trained_on: As in juzhen.report.training.Training, or "" if the training sets have no equivalent here.
        split: Split, or "" if the source does not name it.
        dataset: Set, or "" if nothing here scores the same.
        metric: Metric, in our words.
        percent: The figure, ×100 if `unit` is percent.
        family: As in juzhen.report.training.Training.
        loss: As in juzhen.report.training.Training, or "" if the source does not name it.
        supervision: "none" if the source excludes labels, or "" if it does not name it.
        standing: One of STANDINGS. Only measurements are references.
        or_trained_on: Another training, if the source contradicts itself.
        unit: percent, or the unit of another figure.
        bound: "at least", "at most", "about", or "to 87" for a range. "" for a plain figure.
        named: Paper or leaderboard that the source names.
        note: A note for the reader.
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
    family: str = "biencoder"
    loss: str = ""
    supervision: str = ""
    standing: str = MEASURED
    or_trained_on: str = ""
    unit: str = "percent"
    bound: str = ""
    named: str = ""
    note: str = ""

    @property
    def trainings(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.trained_on, self.or_trained_on)))

    @property
    def table_and_model(self) -> str:
        return ", ".join(filter(None, (self.table, self.model)))

    @property
    def place(self) -> str:
        return f"{self.source}: {self.table_and_model}"


REQUIRED = ("table", "model", "setup", "trained_on", "split", "dataset", "metric", "percent")
OPTIONAL = tuple(field.name for field in fields(Published) if field.name not in (*REQUIRED, "source"))

THEIR_COLUMNS = ("eval_set", "metric", "percent")
"""Required columns of a file with the source's names. table, model, backbone and loss are optional."""

SPLIT_ENDINGS = ("dev", "test")
SAME_SET = {"bqcorpus": "bq", "pawsx": "pawsx_zh", "allnlizh": "allnli_zh", "pku-paraphrase": "pkuparaph"}


@dataclass(frozen=True)
class Reference:
    """Published numbers.

    Attributes:
        numbers: All numbers.
        unknown: Names of the source without an equivalent here, to show to the reader.
    """

    numbers: list[Published]
    unknown: list[str]


def figure(source: str, line: Mapping[str, str]) -> Published:
    """Read a line of a file. Missing and empty columns have defaults.

    Args:
        source: Name of the source.
        line: Column → text.

    Returns:
        The figure.

    Raises:
        ValueError: A value is wrong.
    """
    values: dict[str, Any] = {name: line[name] for name in REQUIRED} | {
        name: line[name] for name in OPTIONAL if line.get(name)
    }
    if values.get("standing", MEASURED) not in STANDINGS:
        raise ValueError(f"standing={short(values['standing'])}: unknown. Use one of {', '.join(STANDINGS)}")
    if not math.isfinite(percent := float(line["percent"])):
        raise ValueError(f"percent={short(line['percent'])}: not a finite number. Use one such as 71.5")
    return Published(**{"source": source, **values, "percent": percent})


def load_published() -> list[Published]:
    """Read every included figure, source by source: measurements, claims and targets.

    Returns:
        All figures, by file name and line.
    """
    return [
        figure(path.stem, line) for path in sorted(PUBLISHED.glob("*.csv")) for _, line in csv_rows(path)[1]
    ]


def load_reference(folder: Path | None) -> Reference:
    """Read the published numbers of a folder.

    A file with our names has our columns. Missing ones have the defaults of `Published`. In a file with the names of a
    source, `eval_set` may end in _dev or _test. `model` is translated if the included files have the same table and
    model, or if it joins known sets by hyphens, newest first. Names without a translation are kept and shown, but never
    compared.

    Args:
        folder: Folder with CSV files. None takes the included ones.

    Returns:
        Numbers, and names without a translation.

    Raises:
        UserError: A folder or file cannot be read.
    """
    if folder is None:
        return Reference(load_published(), [])
    expected = ", ".join(REQUIRED)
    if not folder.is_dir():
        raise UserError(
            f"reference={folder}: no such folder. Give one with CSV files like {PUBLISHED.name}/*.csv"
        )
    if not (paths := sorted(folder.glob("*.csv"))):
        raise UserError(f"reference={folder}: no CSV file. Give one with the columns {expected}")
    translator = _Translator(load_published())
    numbers = []
    for path in paths:
        columns, records = csv_rows(path)
        is_ours = {*columns} >= {*REQUIRED}
        if not is_ours and not {*columns} >= {*THEIR_COLUMNS}:
            raise UserError(
                f"{path}: columns {short(', '.join(sorted(columns)) or 'none', 200)}. Use {expected}, "
                f"or at least {', '.join(THEIR_COLUMNS)}"
            )
        for number, line in records:
            try:
                numbers.append(figure(path.stem, line if is_ours else line | translator.translate(line)))
            except ValueError as error:
                raise UserError(f"{path}, line {number}: {error}") from None
    return Reference(numbers, sorted(translator.unknown))


class _Translator:
    """Translates names of a source, and collects those without a translation."""

    def __init__(self, shipped: Sequence[Published]) -> None:
        self._models = {(number.table, number.model): number for number in shipped if number.trained_on}
        self._columns = {(number.table, number.dataset, number.split) for number in shipped}
        self._sets = {number.dataset for number in shipped if number.dataset}
        self._sets |= {name for number in shipped for name in set_names(number.trained_on)}
        self.unknown: set[str] = set()

    def translate(self, line: Mapping[str, str]) -> dict[str, str]:
        table, model, name = line.get("table") or "", line.get("model") or "", line["eval_set"]
        setup = [line[key] for key in ("backbone", "loss") if line.get(key)]
        stem, _, ending = name.rpartition("_")
        split, stem = (ending, stem) if ending in SPLIT_ENDINGS and stem else ("", name)
        dataset = SAME_SET.get(stem, stem)
        if dataset not in self._sets:
            self.unknown.add(name)
        elif not split:
            # Where the name does not say the split, a shipped table of the same name may; else it is "".
            splits = [column[2] for column in self._columns if column[:2] == (table, dataset)]
            split = splits[0] if len(splits) == 1 else ""
            self.unknown |= set() if split else {f"{name} (its split is not stated)"}
        return {
            "table": table,
            "model": model or " ".join(setup),
            "setup": ", ".join(setup) or "not stated",
            **self._trained(table, model),
            "split": split,
            "dataset": dataset,
            "metric": line["metric"],
        }

    def _trained(self, table: str, model: str) -> dict[str, str]:
        if shipped := self._models.get((table, model)):
            return {
                name: getattr(shipped, name) for name in ("trained_on", "or_trained_on", "family", "loss")
            }
        stages = [SAME_SET.get(name, name) for name in reversed(model.split("-"))]
        is_known = {*stages} <= self._sets
        self.unknown |= {model} if model and not is_known else set()
        return {"trained_on": ">".join(stages) if is_known else ""}


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
        row: Our row, in words.
        setup: Its backbone and loss, in words.
        column: `split/dataset`.
        ours: Our cell.
        published: The figure. None without a reference.
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
                reason = _why_none(same, training, column, cell.metric)
                compared.append(Comparison(*ours, None, NO_REFERENCE, stands_in, reason))
    return compared


def unlike(number: Published, training: Training, column: str, metric: str) -> list[str]:
    """List reasons why a published number is not comparable to a cell, most important first.

    Args:
        number: Published figure.
        training: Training of our row.
        column: `split/dataset` of our cell.
        metric: Metric of our cell.

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


def _why_none(references: Iterable[Published], training: Training, column: str, metric: str) -> str:
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
        body = _compared_lines(compared, source)
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


def _compared_lines(compared: Iterable[Comparison], source: str) -> list[tuple[str, ...]]:
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
    """Format comparisons with claims, with the columns CLAIM_COLUMNS.

    Args:
        compared: Comparisons. Those without a claim are left out.

    Returns:
        Cells of each line.
    """
    body: list[tuple[str, ...]] = []
    for entry in compared:
        if (claim := entry.published) is not None:
            ours = (entry.row, heading(entry.column), percent(entry.ours.mean), entry.verdict)
            if entry.reason:  # named, not compared
                ours = (MISSING, heading(entry.column), MISSING, f"{entry.verdict}; {entry.reason}")
            body.append((f"{claim.metric} {figure_text(claim)}", claim.place, *ours, claim.note))
    return body


def figure_text(claim: Published) -> str:
    """Format a figure with its bound and unit: `at least 85`, `85 to 87`, `about 10 ms`.

    Args:
        claim: Published figure.

    Returns:
        The number as the source has it. The unit is left out for percent and for the metric itself.
    """
    unit = "" if claim.unit in ("percent", "1", claim.metric) else f" {claim.unit}"
    if claim.bound.startswith("to "):
        return f"{claim.percent:g} {claim.bound}{unit}"
    return f"{claim.bound} {claim.percent:g}{unit}".strip()
