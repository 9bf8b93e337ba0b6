"""Published numbers and claims beside ours, each with its source; like with like, and a reason where there is none."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from juzhen.report.figures import CLAIM, MEASURED, Published
from juzhen.report.matrix import BASELINES, Cell, Matrix, Row
from juzhen.report.training import Training, stand_ins, training_of

TOLERANCE_POINTS = 1.0
"""Two numbers ×100 this close count as the same: seeds alone move a fine-tuned encoder as far."""

NO_REFERENCE, NO_ROW = "no reference", "no row of its like"


@dataclass(frozen=True)
class Comparison:
    """One of our cells, and a published number or claim for it, or None.

    verdict   `matches`, `differs by +1.3` (ours less theirs, in points) or `no reference`; of a claim `reached` or
              `2.3 short`
    stands_in in what way our row has learnt from less than theirs, empty where it has not
    reason    why there is no reference, or in what the row is not of a claim's like; empty where there is one, or it is
    """

    row: str
    setup: str
    column: str
    ours: Cell
    published: Published | None
    verdict: str
    stands_in: str = ""
    reason: str = ""


def compare(matrix: Matrix, published: Sequence[Published]) -> list[Comparison]:
    """Our trained rows against every measured number of the like: model family, training, loss, split, set, metric.

    A training is the sets of each stage and what they were read as; a source that does not
    name its loss is compared with any. Backbones need not be the same: both setups are named, the reader judges. A
    number that a source repeats unchanged in several tables appears once.
    """
    references = [one for one in published if one.standing == MEASURED]
    compared = []
    for row in matrix.rows:
        if row.trained_on in BASELINES:
            continue
        training, stands_in = training_of(row.latest), "; ".join(stand_ins(row.latest))
        for column, cell in sorted(row.cells.items()):
            shown: dict[tuple[str, str, float], Published] = {}
            for one in references:
                if not unlike(one, training, column, matrix.metric):
                    shown.setdefault((one.source, one.setup, one.percent), one)
            told = (row.label, row.setup, column, cell)
            for number in shown.values():
                compared.append(Comparison(*told, number, _verdict(cell, number), stands_in))
            if not shown:
                reason = why_none(references, training, column, matrix.metric)
                compared.append(Comparison(*told, None, NO_REFERENCE, stands_in, reason))
    return compared


def unlike(number: Published, training: Training, column: str, metric: str) -> list[str]:
    """In what a published number is not of the like of a cell, most telling first; empty: it is a reference for it."""
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
    """Why no published number is a reference for a cell; the nearest one is named where there is one."""
    if training.start:
        return f"went on from {training.start}, of which no source says what it had learnt"
    differences = [(unlike(one, training, column, metric), one) for one in references]
    same = [(found, one) for found, one in differences if "training" not in found]
    if not same:
        return f"no source has this training ({training.sets})"
    near = [(found, one) for found, one in same if "set" not in found]
    if not near:
        return "the sources that have this training do not score this set"
    found, one = min(near, key=lambda pair: len(pair[0]))
    words = {
        "model": f"of a {one.family}",
        "loss": f"by another loss ({one.loss})",
        "supervision": "learnt without labels",
        "metric": f"of {one.metric}",
        "split": f"of {one.split or 'a split that is not named'}, not {column.split('/')[0]}",
    }
    told = ", ".join(words[name] for name in found)
    return f"the nearest, {one.percent:.2f} ({one.place}), is {told}"


def _verdict(cell: Cell, number: Published) -> str:
    difference = 100 * cell.mean - number.percent
    inside = cell.low is not None and cell.high is not None and cell.low <= number.percent / 100 <= cell.high
    return "matches" if inside or abs(difference) <= TOLERANCE_POINTS else f"differs by {difference:+.1f}"


def beside_claims(matrix: Matrix, published: Iterable[Published]) -> list[Comparison]:
    """Every claim of the metric beside the best of our rows of its like, on each split where it names none.

    What a source says without evidence is never a reference, but may be a goal. Of its like is a row of its model
    family, and of its training, loss and supervision where it names them; what that row went on from is free, unless
    no labels may have been learnt from. A claim on one of our columns without such a row has the nearest one named,
    with the reason, and is compared with nothing.
    """
    found = []
    for one in published:
        if one.standing != CLAIM or one.metric != matrix.metric or one.unit != "percent":
            continue
        best: dict[str, Comparison] = {}
        for row in matrix.rows:
            for column, cell in row.cells.items():
                if _unlike_claim(one, row, column, matrix.metric):
                    continue
                if column not in best or cell.mean > best[column].ours.mean:
                    short = one.percent - 100 * cell.mean
                    verdict = "reached" if short <= 0 else f"{short:.1f} short"
                    best[column] = Comparison(row.label, row.setup, column, cell, one, verdict)
        found += [best[column] for column in sorted(best)] or _nearest_to(one, matrix)
    return found


def _nearest_to(claim: Published, matrix: Matrix) -> list[Comparison]:
    """Where no row is of a claim's like: the one that differs least, and in what."""
    near = [
        (differs, row, column, cell)
        for row in matrix.rows
        for column, cell in row.cells.items()
        if not {"set", "split"} & set(differs := _unlike_claim(claim, row, column, matrix.metric))
    ]
    if not near:
        return []
    differs, row, column, cell = min(near, key=lambda one: (len(one[0]), -one[3].mean))
    reason = f"nearest: {row.label}, which differs in {', '.join(differs)}"
    return [Comparison(row.label, row.setup, column, cell, claim, NO_ROW, reason=reason)]


def _unlike_claim(claim: Published, row: Row, column: str, metric: str) -> list[str]:
    """In what a cell of ours is not of a claim's like, where the claim says it."""
    if row.trained_on in BASELINES:
        return ["training"] if column.endswith(f"/{claim.dataset}") else ["set"]
    not_said = {"split"} if not claim.split else set()
    not_said |= {"training"} if not claim.trained_on else set()
    not_said |= {"start"} if not claim.supervision else set()
    return [one for one in unlike(claim, training_of(row.latest), column, metric) if one not in not_said]
