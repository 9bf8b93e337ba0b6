"""The questions a transfer matrix is made for, answered from its cells."""

import statistics
from collections.abc import Mapping, Sequence

from juzhen.report.entries import lexical_scores, trained_sets
from juzhen.report.leaks import Leak
from juzhen.report.matrix import BASELINES, LEAKY, Matrix, Row
from juzhen.report.significance import Differences
from juzhen.report.table import MISSING, Table, heading, percent, signed, with_interval
from juzhen.report.training import training_of


def single_set_rows(matrix: Matrix) -> list[Row]:
    return [row for row in matrix.rows if len(trained_sets(row.trained_on)) == 1]


def averages_table(matrix: Matrix, columns: Sequence[str], untrained: Mapping[str, Row | None]) -> Table:
    """Means over columns, each set counted once whatever its size."""
    note = (
        "In-domain: the row was trained on the set's train split, alone or among others. Zero-shot: the other sets, "
        "without leaky ones. Each set counts once, whatever its size. Rows that lack a score have fewer sets, so "
        "compare gains: over the untrained weights, on the same sets."
    )
    head = ("trained on", "in-domain", "sets", "zero-shot", "sets", "gain in-domain", "gain zero-shot")
    lines = []
    for row in matrix.rows:
        own = [one for one in columns if one in row.cells and row.cells[one].in_domain]
        groups = [own, _zero_shot(row, columns)]
        means, gains = [], []
        for group in groups:
            means += [percent(_mean(row, group)) if group else MISSING, str(len(group))]
            gains.append(signed(_gain(row, untrained.get(row.label), group)))
        lines.append((row.label, *means, *gains))
    return Table("averages", "In-domain against zero-shot", note, head, lines)


def helpers_table(
    matrix: Matrix, columns: Sequence[str], untrained: Mapping[str, Row | None], differences: Differences
) -> Table:
    """Single training sets, the one that helps most targets first."""
    note = (
        "Rows of one training set, on sets they were not trained on and that do not leak, beside the untrained "
        "weights. Certain: more than chance, as tested below."
    )
    head = ("trained on", "of sets", "higher", "certain", "certainly lower", "mean gain", "helps most")
    ranked = []
    for row in single_set_rows(matrix):
        before = untrained.get(row.label)
        targets = [] if before is None else [one for one in _zero_shot(row, columns) if one in before.cells]
        if before is None or not targets:
            continue
        gains = {one: 100 * (row.cells[one].mean - before.cells[one].mean) for one in targets}
        verdicts = [differences.verdict(row.label, before.label, one) for one in targets]
        certain, lower = verdicts.count("higher"), verdicts.count("lower")
        most = max(gains, key=lambda one: gains[one])
        mean = statistics.fmean(gains.values())
        counts = (len(targets), sum(gain > 0 for gain in gains.values()), certain, lower)
        line = (row.label, *map(str, counts), signed(mean), f"{heading(most)} {signed(gains[most])}")
        ranked.append(((certain - lower, mean), line))
    ranked.sort(key=lambda one: one[0], reverse=True)
    return Table(
        "helpers", "Which training set helps most targets?", note, head, [line for _, line in ranked]
    )


def targets_table(matrix: Matrix, columns: Sequence[str]) -> Table:
    """Evaluation sets, the hardest for other sets' rows first."""
    note = (
        "Hardest first: by the median over rows that were not trained on the set and do not leak into it. A set that "
        "its own training reaches and no other does needs training of its own."
    )
    head = ("set", "median zero-shot", "best zero-shot", "by", "trained on it", "lexical", "below lexical")
    lexical = lexical_scores(matrix.rows)
    ranked = []
    for column in columns:
        trained = [row for row in matrix.rows if row.trained_on not in BASELINES and column in row.cells]
        zero = [row for row in trained if column in _zero_shot(row, [column])]
        own = [row.cells[column].mean for row in trained if row.cells[column].in_domain]
        if not zero and not own:
            continue
        median = statistics.median(row.cells[column].mean for row in zero) if zero else None
        best = max(zero, key=lambda row: row.cells[column].mean, default=None)
        below = sum(row.cells[column].below_lexical for row in zero)
        line = (
            heading(column),
            MISSING if median is None else percent(median),
            percent(best.cells[column].mean) if best else MISSING,
            best.label if best else MISSING,
            percent(max(own)) if own else MISSING,
            percent(lexical[column]) if column in lexical else MISSING,
            f"{below} of {len(zero)}" if column in lexical else MISSING,
        )
        ranked.append((1.0 if median is None else median, line))
    ranked.sort(key=lambda one: one[0])
    return Table("targets", "Which target is hard?", note, head, [line for _, line in ranked])


def rows_table(matrix: Matrix) -> list[Table]:
    """What the names stand for that sweeps gave to rows; none where all rows are called by their training."""
    if not any(row.names for row in matrix.rows):
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


def leak_table(matrix: Matrix) -> Table:
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


def _zero_shot(row: Row, columns: Sequence[str]) -> list[str]:
    scored = [one for one in columns if one in row.cells]
    return [one for one in scored if not (row.cells[one].in_domain or row.cells[one].is_leaky)]


def _mean(row: Row, columns: Sequence[str]) -> float:
    return statistics.fmean(row.cells[one].mean for one in columns)


def _gain(row: Row, before: Row | None, columns: Sequence[str]) -> float | None:
    if before is None or before is row or not columns or not all(one in before.cells for one in columns):
        return None
    return 100 * (_mean(row, columns) - _mean(before, columns))
