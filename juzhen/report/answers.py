"""What a report answers first: what to train on for each target, what is undecided, and the next run worth making."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from juzhen.core.aliases import current_word
from juzhen.core.errors import command, setting
from juzhen.metrics.comparison import points
from juzhen.metrics.matrix_statistics import LEVEL, expected_improvement, holm
from juzhen.report.insights import Transfer, single_set_rows
from juzhen.report.matrix import Matrix, Row
from juzhen.report.significance import CellDifference, contrast
from juzhen.report.table import MISSING, Phrase, ReportTable, heading, percent, phrase

MOST = 6
"""Targets that a sentence names."""

CLOSE = 0.005
"""A difference that is too small to matter, as a fraction."""

LEAST_PAIRS = 8
"""Measured cells of rows of two sets that a prediction of other pairs needs."""


@dataclass(frozen=True)
class TargetAnswer:
    """What the rows of a matrix decide about one column.

    Attributes:
        column: `split/dataset`.
        name: Its name in sentences.
        contenders: Rows that may be the best, the best first. Cells with leaks from other sets do not count.
        contrasts: Label of every other row → the best row minus it. Rows without a test are absent.
        gain: Best row minus the weights that it started from, or None.
        why: Reason why no row can be called the best, or "".
    """

    column: str
    name: str
    contenders: list[Row]
    contrasts: dict[str, CellDifference]
    gain: CellDifference | None
    why: str

    @property
    def best(self) -> Row:
        return self.contenders[0]

    @property
    def shared(self) -> list[str]:
        """Training sets of every contender."""
        return [name for name in self.best.sets if all(name in row.sets for row in self.contenders)]

    @property
    def is_decided(self) -> bool:
        return not self.why and (len(self.contenders) == 1 or bool(self.shared))


class Proposal(NamedTuple):
    """A run worth making.

    Attributes:
        about: What it is.
        gain: Points that the best training of a target is expected to gain by it, mean over the targets.
        seconds: Expected time.
        words: Its command line.
    """

    about: Phrase
    gain: float
    seconds: float
    words: list[str]


@dataclass(frozen=True)
class Answers:
    """The answers of a report.

    Attributes:
        sentences: Three, in English and Chinese.
        command: Command line of the next run, or "".
        tables: Tables behind them.
    """

    sentences: list[Phrase]
    command: str
    tables: list[ReportTable]


def answers(matrix: Matrix, transfer: Transfer, costs: pd.DataFrame, *, runs: Path | None = None) -> Answers:
    """Find the answers of a matrix.

    Args:
        matrix: The transfer matrix.
        transfer: Its gains.
        costs: From `row_costs`.
        runs: Folder in which the next run is put. None keeps that of the earlier runs.

    Returns:
        Three sentences, with their tables.
    """
    targets = find_targets(matrix, transfer)
    next_run = _first_run(matrix, targets) or max(
        _proposals(matrix, transfer, targets, costs) if targets else (),
        key=lambda proposal: proposal.gain / proposal.seconds,
        default=None,
    )
    sentences = [_decided(matrix, targets), _undecided(targets), _next(next_run)]
    words = next_run.words if next_run else []
    if runs is not None:
        words = [*(word for word in words if not word.startswith("output_dir=")), f"output_dir={runs}"]
    return Answers(sentences, command("python", *words) if next_run else "", _tables(targets))


def find_targets(matrix: Matrix, transfer: Transfer) -> list[TargetAnswer]:
    """Compare the best row of each column with all others.

    A row is a contender unless the best row is certainly better, at 5 % after Holm's correction over the comparisons of
    all columns. The true best row is excluded from its column with at most that probability (Hsu 1984).

    Args:
        matrix: The transfer matrix.
        transfer: Its scores and gains over the compared columns.

    Returns:
        An answer for each column that a trained row is scored on.
    """
    scored = {
        column: sorted(
            (row for row in matrix.rows if column in row.cells and not row.cells[column].flatters),
            key=lambda row: -row.cells[column].mean,
        )
        for column in transfer.columns
    }
    scored = {column: rows for column, rows in scored.items() if any(row.is_trained for row in rows)}
    contrasts = {
        (column, row.label): found
        for column, (best, *others) in scored.items()
        for row in others
        if (found := contrast(matrix, column, best.cells[column], row.cells[column])) is not None
    }
    corrected = holm(pd.Series({key: found.gap.p for key, found in contrasts.items()}, dtype=float))
    has_untrained = any(row.trained_on == "" for row in matrix.rows)
    one_split = len({column.split("/")[0] for column in scored}) == 1
    targets = []
    for column, (best, *others) in scored.items():
        worse = {row.label for row in others if corrected.get((column, row.label), 1.0) <= LEVEL}
        contenders = [best, *(row for row in others if row.label not in worse)]
        starts = [row for row in others if row.label == transfer.before.get((best.label, column))]
        of_column = {
            row.label: contrasts[column, row.label] for row in others if (column, row.label) in contrasts
        }
        trained = [row for row in (best, *others) if row.is_trained]
        why = ""
        if not others:
            why = "only one row is scored"
        elif any(row.cells[column].seed_noise is None for row in trained):
            why = "every training has one seed"
        gain = of_column.get(starts[0].label) if starts else None
        if not why and gain is None and has_untrained and best.is_trained:
            why = "no untrained score"
        name = column.split("/")[1] if one_split else heading(column)
        targets.append(TargetAnswer(column, name, contenders, of_column, gain, why))
    return targets


def _listed(parts: Sequence[Phrase]) -> Phrase:
    shown = list(parts[:MOST])
    if rest := len(parts) - MOST:
        shown += [phrase("{} more below", str(rest))] if rest > 0 else []
    return "; ".join(english for english, _ in shown), "；".join(chinese for _, chinese in shown)


def _decided(matrix: Matrix, targets: Sequence[TargetAnswer]) -> Phrase:
    if not targets:
        return phrase("No training of these results has a score, so they do not say what to train on.")
    decided = [target for target in targets if target.is_decided]
    if not decided:
        reasons = {target.why for target in targets} - {""}
        reason = phrase(min(reasons)) if reasons else phrase("no row is certainly better than all others")
        return phrase("Nothing is decided about what to train on: {}.", reason)
    parts = []
    for target in decided:
        if not target.best.is_trained:
            parts.append(phrase("nothing for {}, {} is certainly better", target.name, target.best.label))
        else:
            alone = len(target.contenders) == 1
            name = (
                target.best.label if alone else phrase("{} with or without others", " + ".join(target.shared))
            )
            gain = phrase("gain not known") if target.gain is None else _hull(target)
            parts.append(phrase("{} for {}: {}", name, target.name, gain))
    return phrase("Train on {}.", _listed(parts))


def _hull(target: TargetAnswer) -> str:
    """Gain of the best row. The interval reaches down to that of the last contender."""
    assert target.gain is not None
    behind = max((target.contrasts[row.label].gap.value for row in target.contenders[1:]), default=0.0)
    return points(target.gain.gap, behind=behind)


def _undecided(targets: Sequence[TargetAnswer]) -> Phrase:
    parts = [
        phrase("{} among {} rows ({})", target.name, str(len(target.contenders)), _to_decide(target))
        for target in targets
        if len(target.contenders) > 1
    ]
    if not parts:
        return phrase("Nothing else is undecided.") if targets else phrase("Nothing can be compared.")
    return phrase("Undecided: {}.", _listed(parts))


def _to_decide(target: TargetAnswer) -> Phrase:
    """What would decide between the first two contenders."""
    if len(target.contenders) == 1:
        return phrase("decided")
    found = target.contrasts.get(target.contenders[1].label)
    if found is None or found.seed_error is None:
        return phrase("two more seeds of each would show their noise")
    if abs(found.gap.value) < CLOSE:
        return phrase("less than 0.5 points apart")
    rows, seeds = found.needed
    if rows is None and seeds is None:
        return phrase("more seeds and more rows together")
    ways = [
        phrase("{} seeds a side", f"{seeds:,}") if seeds is not None else None,
        phrase("{} rows", f"{rows:,}") if rows is not None and found.rows else None,
    ]
    known = [way for way in ways if way is not None]
    either = known[0] if len(known) == 1 else phrase("{} or {}", *known)
    return phrase("{} in all", either)


# The next run.


def _first_run(matrix: Matrix, targets: Sequence[TargetAnswer]) -> Proposal | None:
    """A run without which nothing else can be answered: the untrained row, then a second seed."""
    trained = [row for row in matrix.rows if row.is_trained and _words(row)]
    if not trained:
        return None
    single = [row for row in trained if not _is_sweep(row)]
    if single and not any(row.trained_on == "" for row in matrix.rows):
        words = [
            word
            for word in _words(single[0])
            if not re.match(r"\+?(dataset|schedule|training|sweep_row|loss)\b", word)
        ]
        return Proposal(
            phrase("the untrained row, which gains are measured from"),
            0.0,
            0.0,
            [*words, "dataset=[]"],
        )
    unknown = [target for target in targets if target.why == "every training has one seed"]
    best = next((target.best for target in unknown if _words(target.best)), None)
    if best is None:
        return None
    about = phrase("a second seed of {}, which shows what seeds change", best.label)
    return Proposal(about, 0.0, 0.0, _with_next_seed(best))


def _proposals(
    matrix: Matrix, transfer: Transfer, targets: Sequence[TargetAnswer], costs: pd.DataFrame
) -> Iterator[Proposal]:
    seconds = costs["train_seconds"].astype(float)
    for row in matrix.rows:
        if row.is_trained and _words(row) and seconds[row.label] > 0:
            gain = _gain_of_seed(row, targets) / len(targets)
            if gain > 0:
                about = phrase("one more seed of {}", row.label)
                yield Proposal(about, gain, float(seconds[row.label]), _with_next_seed(row))
    error = _error_of_pairs(transfer, matrix)
    if error is None:
        return
    made = {frozenset(row.sets) for row in matrix.rows}
    for pair in combinations(single_set_rows(matrix), 2):
        first, second = sorted(pair, key=lambda row: sum(cell.in_domain for cell in row.cells.values()))
        cost = float(seconds[first.label] + seconds[second.label])
        is_new = {*first.sets, *second.sets} not in made and first.setup == second.setup
        known = all(_words(row) and not _is_sweep(row) for row in pair)
        if is_new and cost > 0 and known:
            gain = _gain_of_pair(pair, targets, error) / len(targets)
            about = phrase("{} and then {}", first.label, second.label)
            yield Proposal(about, gain, cost, _pair_words(first, second))


def _gain_of_seed(row: Row, targets: Sequence[TargetAnswer]) -> float:
    """Points that a further seed of a row is expected to add, over all targets (knowledge gradient)."""
    total = 0.0
    for target in targets:
        if row not in target.contenders or len(target.contenders) < 2:
            continue
        cell = row.cells[target.column]
        if cell.seed_noise is None or not cell.seed_noise[0]:
            continue
        rival = next(other for other in target.contenders if other is not row)
        behind = abs(rival.cells[target.column].mean - cell.mean)
        moved = math.sqrt(cell.seed_noise[0] / (cell.num_seeds * (cell.num_seeds + 1)))
        total += 100 * expected_improvement(behind, moved)
    return total


def _error_of_pairs(transfer: Transfer, matrix: Matrix) -> tuple[float, float] | None:
    """Mean and deviation of rows of two sets minus the better of their single sets, as fractions."""
    singles = {row.sets[0]: row for row in single_set_rows(matrix)}
    errors = []
    for row in matrix.rows:
        parts = [singles[name] for name in row.sets if name in singles]
        if len(row.sets) == len(parts) == 2:
            errors += [
                row.cells[column].mean - max(part.cells[column].mean for part in parts)
                for column in transfer.columns
                if all(column in each.cells and not each.cells[column].flatters for each in (row, *parts))
            ]
    return (float(np.mean(errors)), float(np.std(errors, ddof=1))) if len(errors) >= LEAST_PAIRS else None


def _gain_of_pair(pair: Sequence[Row], targets: Sequence[TargetAnswer], error: tuple[float, float]) -> float:
    """Points that a run on two sets is expected to add over all targets, predicted by the better of the two."""
    total = 0.0
    for target in targets:
        cells = [row.cells.get(target.column) for row in pair]
        known = [cell.mean for cell in cells if cell is not None and not cell.flatters]
        if len(known) == 2:
            behind = target.best.cells[target.column].mean - max(known) - error[0]
            total += 100 * expected_improvement(behind, error[1])
    return total


def _typed(row: Row) -> list[str]:
    """Command line of its first run as typed, without `python`."""
    return next(iter(row.results.values()))[-1].environment.get("command") or []


def _is_sweep(row: Row) -> bool:
    """True if the words are those of a whole sweep: runs of one process kept no others before 0.3."""
    return "-m" in _typed(row)


def _words(row: Row) -> list[str]:
    """Command line of its first run alone, without `python`. Empty if it is not known."""
    left_out = ("logger.", "resume=", "hydra.")
    words = [current_word(word) for word in _typed(row) if not word.startswith(left_out)]
    words = _on_any_machine(row, words)
    if not _is_sweep(row):
        return words
    name = next(iter(row.results.values()))[-1].config.get("sweep_row")
    has_grid = any("," in word and not word.startswith("seed=") for word in words)
    return [*words, f"hydra.sweeper.only=[{name}]"] if name and not has_grid else []


def _on_any_machine(row: Row, words: Sequence[str]) -> list[str]:
    """Leave out the hardware of the first run. Its precision stays, which decides numbers and the row of a table."""
    others = [word for word in words if not word.startswith("hardware")]
    precision = (next(iter(row.results.values()))[-1].config.get("hardware") or {}).get("precision")
    if len(others) == len(words):
        return others
    return [*others, f"hardware.precision={precision}"] if precision else [*words]


def _with_next_seed(row: Row) -> list[str]:
    seed = next(number for number in (42, *range(1, 1000)) if number not in row.results)
    return [*(word for word in _words(row) if not word.startswith("seed=")), f"seed={seed}"]


def _pair_words(first: Row, second: Row) -> list[str]:
    """The command line of the second row, on the sets of both in order."""
    own = (r"dataset=", r"schedule", r"sweep_row=", r"seed=")
    words = [word for word in _words(second) if not word.startswith(own)]
    words += [word for word in _words(first) if word.startswith("dataset.") and word not in words]
    sets = setting("dataset", [*first.sets, *second.sets])
    return [*words, sets, "schedule=serial", f"seed={next(iter(second.results))}"]


def _next(proposal: Proposal | None) -> Phrase:
    if proposal is None:
        return phrase(
            "No next run can be named: these results keep no command, or nothing is left to decide."
        )
    if not proposal.gain:
        return phrase("Next run: {}.", proposal.about)
    rate = f"{60 * proposal.gain / proposal.seconds:.2g}"
    minutes = f"{proposal.seconds / 60:.1f}"
    return phrase(
        "Next run: {}, expected to raise the best of a target by {} points on average in {} minutes ({} a minute).",
        proposal.about, "< 0.01" if proposal.gain < 0.01 else f"{proposal.gain:.2f}", minutes, rate,
    )  # fmt: skip


# The tables behind the sentences.


def _tables(targets: Sequence[TargetAnswer]) -> list[ReportTable]:
    note = (
        "May be the best: rows that the best row does not beat at 5 % after Holm's correction over all sets. Gain: "
        "over the untrained weights, 95 % interval. To decide: seeds or evaluation rows in all that would find the "
        "difference of the first two in 80 % of cases."
    )
    body = [
        (
            heading(target.column),
            target.best.label,
            percent(target.best.cells[target.column].mean),
            MISSING if target.gain is None else points(target.gain.gap),
            *_rivals(target),
            target.why or _to_decide(target)[0],
        )
        for target in targets
    ]
    head = (
        "set",
        "best row",
        "score",
        "gain",
        "may be the best, too",
        "the first of them behind",
        "to decide",
    )
    return [ReportTable("answers", "What to train on", note, head, body)]


def _rivals(target: TargetAnswer) -> tuple[str, str]:
    rivals = target.contenders[1:]
    found = target.contrasts.get(rivals[0].label) if rivals else None
    return ", ".join(row.label for row in rivals) or MISSING, MISSING if found is None else points(found.gap)
