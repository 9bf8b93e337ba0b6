"""The tables of the report as plain text cells; Markdown and the page are made from the same ones."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from juzhen.core.texts import time_in_words
from juzhen.report.claims import CLAIM_COLUMNS, Beside, claim_lines
from juzhen.report.compare import (
    LESS,
    REASON_COLUMNS,
    TOLERANCE_POINTS,
    Comparison,
    reason_lines,
)
from juzhen.report.costs import Cost
from juzhen.report.entries import BASELINES, Entry, EntryMatrix
from juzhen.report.fidelity import Fidelity
from juzhen.report.leaks import Leak
from juzhen.report.matrix import Matrix
from juzhen.report.significance import Differences
from juzhen.report.table import MISSING, heading, percent, with_interval
from juzhen.report.training import training_of

LEAKY, BELOW = "†", "▽"
"""Signs beside a cell."""


@dataclass(frozen=True)
class Table:
    """One table of the report.

    key    a word for markers and anchors
    lines  cells as text, as many as `head` has
    empty  what stands in place of no lines
    """

    key: str
    title: str
    note: str
    head: tuple[str, ...]
    lines: Sequence[tuple[str, ...]]
    empty: str = "Nothing here to answer this from."


def signs(entry: Entry) -> str:
    """† for a leak, ▽ for less than the lexical baseline, both or neither."""
    return LEAKY * entry.is_leaky + BELOW * entry.below_lexical


def signed(value: float | None) -> str:
    return MISSING if value is None else f"{value:+.1f}"


def published_tables(compared: Sequence[Comparison], num_sources: int) -> list[Table]:
    """One table for each source that has a number for one of our cells, then what has none, and why."""
    missing = sum(one.published is None for one in compared)
    tables = []
    for source in dict.fromkeys(one.published.source for one in compared if one.published):
        shared = [one for one in compared if one.published and one.published.source == source]
        matches = sum(one.verdict == "matches" for one in shared)
        note = (
            f"matches: {matches} of {len(shared)}; it lies in our 95 % interval or within ±{TOLERANCE_POINTS} points. "
            f"The numbers under `published` are this source's own, quoted; the setups may differ, so judge by them."
        )
        lines = [_beside(one) for one in shared]
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


BESIDE_COLUMNS = (
    "trained on",
    "our setup",
    "set",
    "ours",
    "published",
    "its setup",
    "its table, model",
    "verdict",
    LESS,
)


def _beside(one: Comparison) -> tuple[str, ...]:
    theirs = one.published
    assert theirs is not None
    ours = with_interval(one.ours.mean, one.ours.low, one.ours.high)
    words = (one.row, one.setup, heading(one.column), ours, f"{theirs.percent:.2f}", theirs.setup)
    return (*words, theirs.table_and_model, one.verdict, one.stands_in or MISSING)


def rows_table(matrix: Matrix) -> list[Table]:
    """What the names stand for that sweeps gave to rows; none where all rows are called by their training."""
    if not any(row.runs.names for row in matrix.rows):
        return []
    note = "Stages in order: a > b; a + b is a mixture, [kind] what a set was read as; by_kind: each kind its own loss."
    lines = []
    for row in matrix.rows:
        if row.trained_on not in BASELINES:
            found = training_of(row.latest)
            lines.append(
                (row.label, found.sets.replace(">", " > ").replace("+", " + "), found.loss, found.family)
            )
    return [Table("rows", "What the rows are", note, ("row", "trained on", "loss", "model"), lines)]


def claims_table(found: Sequence[Beside]) -> list[Table]:
    if not found:
        return []
    note = (
        "What sources say without a measurement of their own, or set as a goal: never a reference. Beside each stands "
        "the best of our rows of the same model family, and of the same training where the source names one."
    )
    return [Table("claims", "Claims and targets", note, CLAIM_COLUMNS, claim_lines(found))]


def fidelity_table(found: Iterable[Fidelity]) -> Table:
    note = (
        "Spearman correlation between our cells and the published ones, over the cells that both have. 95 % interval "
        "from a bootstrap over rows with all their cells. Levels removed: each column less its mean on either side, "
        "so that which set is easy does not count, only which training helps it. An interval from fewer than "
        "ten rows is a hint."
    )
    lines = [
        (
            one.source,
            heading(one.scope) if "/" in one.scope else one.scope,
            str(one.cells),
            str(one.rows),
            MISSING if one.value is None else f"{one.value:.3f}",
            MISSING if one.low is None or one.high is None else f"[{one.low:.3f}, {one.high:.3f}]",
        )
        for one in found
    ]
    head = ("source", "scope", "cells", "rows", "correlation", "95 % interval")
    return Table("fidelity", "Is the shape the published one?", note, head, lines)


def cost_table(costs: Mapping[str, Cost], matrix: Matrix) -> Table:
    note = "Training without validation and evaluation, all stages of a curriculum, mean over seeds."
    lines = []
    for row in matrix.rows:
        if row.label in costs:
            cost = costs[row.label]
            seen = MISSING if cost.rows_seen is None else f"{cost.rows_seen:,.0f}"
            lines.append(
                (row.label, str(row.num_seeds), str(cost.stages), seen, duration(cost.seconds), cost.device)
            )
    head = ("trained on", "seeds", "stages", "rows seen", "training", "device")
    return Table("costs", "What each row cost", note, head, lines)


def duration(seconds: float | None) -> str:
    return MISSING if seconds is None else time_in_words(seconds)


def leak_table(matrix: EntryMatrix) -> Table:
    note = (
        f"Evaluation rows whose pair is in a training set of the row, exactly or nearly; {LEAKY} in the matrix from "
        "1 % on. Counted by the run: the rows it trained on, all sets together, and its score without them; several "
        "seeds: means. Counted by the audit: the whole training set that shares most, so that a capped run may have "
        "seen fewer, and one of several sets more."
    )
    lines = []
    for row in matrix.rows:
        for column in matrix.columns:
            entry = row.cells.get(column)
            if entry is not None and entry.leak is not None and entry.leak.rows:
                leak = entry.leak
                share = "<0.1" if leak.share < 0.001 else f"{100 * leak.share:.1f}"
                whole = entry.mean if leak.rest is None else leak.rest.whole
                scores = (MISSING if whole is None else percent(whole), without_leaks(leak))
                by = "run" if leak.is_counted else "audit"
                lines.append((row.label, heading(column), leak.source, f"{leak.rows:,}", share, *scores, by))
    unknown = sum(entry.leak is None for row in matrix.rows for entry in row.cells.values())
    if unknown:
        note += f" {unknown} scores were not audited, or against other rows."
    head = (
        "trained on",
        "set",
        "shares most",
        "rows",
        "% of the split",
        "all rows",
        "without them",
        "counted by",
    )
    return Table("leaks", "Leaks", note, head, lines, empty="None found.")


def without_leaks(leak: Leak) -> str:
    """The score on the rows that training has not seen, with its interval; in words where there is none."""
    if leak.rest is None:
        return MISSING
    if leak.rest.value is None:
        return "undefined" if leak.rest.count else "no row left"
    return with_interval(leak.rest.value, leak.rest.low, leak.rest.high)


def significance_table(matrix: Matrix, differences: Differences) -> Table:
    """Each row beside all others: cells in which the difference is more than chance."""
    note = (
        "Cells, row against row, in which a difference is certain at 5 % after Holm's correction over all "
        f"{differences.num_tested:,} tests of this report. Results hold no scores of single rows, so no test pairs "
        "evaluation rows: values are compared by their bootstrap intervals and, with several seeds, their spread over "
        "seeds (Welch, Fisher's z for correlations); without intervals, paired over three seeds or more. This errs on "
        "the side of undecided. With one seed, what another seed would change is not seen."
    )
    head = ("trained on", "higher", "lower", "undecided", "not tested")
    lines = []
    for row in matrix.rows:
        verdicts = [
            differences.verdict(row.label, other.label, column)
            for other in matrix.rows
            for column in matrix.columns
            if other is not row and column in row.cells and column in other.cells
        ]
        lines.append((row.label, *(str(verdicts.count(word)) for word in head[1:])))
    return Table("significance", "Which differences are more than chance", note, head, lines)
