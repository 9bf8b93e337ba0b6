"""Findings from the cells of a transfer matrix, and the cost of each row."""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from juzhen.core.kinds import main_metric_keys
from juzhen.core.result import Result, without_size
from juzhen.core.text import time_in_words
from juzhen.identity import PROMPT_KEYS
from juzhen.report.matrix import BASELINES, LEAKY, Cell, Matrix, Row
from juzhen.report.row_identity import deciding_choices
from juzhen.report.significance import both_ways
from juzhen.report.table import MISSING, ReportTable, heading, percent, signed, with_interval
from juzhen.report.training import Leak, training_of

WEIGHTS = ("path", "layers", "initialize")
READING = ("pooling", *PROMPT_KEYS)


def untrained_rows(row: Row, rows: Sequence[Row]) -> list[Row]:
    """Find the rows of the initial weights of `row`, with the same backbone and start.

    The most similar ones in model, pooling, prompt and precision come first.

    Args:
        row: A trained row.
        rows: Rows of the matrix.

    Returns:
        Untrained rows. Empty if none has the same start.
    """

    def start(other: Row) -> list[Any]:
        config = other.latest.config
        return [config.get("init_from"), *(config["backbone"].get(key) for key in WEIGHTS)]

    def unlikeness(other: Row) -> list[bool]:
        config, trained = other.latest.config, row.latest.config
        reads_alike = all(config["backbone"].get(key) == trained["backbone"].get(key) for key in READING)
        precisions = [(settings.get("hardware") or {}).get("precision") for settings in (config, trained)]
        return [config["model"] != trained["model"], not reads_alike, precisions[0] != precisions[1]]

    candidates = [other for other in rows if other.trained_on == "" and start(other) == start(row)]
    return sorted(candidates, key=unlikeness)


def _same_rows(column: str, *rows: Row) -> bool:
    """True if two results were scored on the same rows of a set, as far as they record it."""
    read = {
        result.data[column].get("fingerprint")
        for row in rows
        for result in row.all_results
        if column in result.data
    }
    return len(read - {None}) < 2


class Transfer:
    """Scores ×100 of a matrix over chosen columns, one line per row.

    Attributes:
        matrix: The matrix.
        columns: `split/dataset` of each chosen column.
        zero_shot: True if a row was not trained on the set and has not seen its rows.
        before: (trained row, column) → row of its initial weights. If there are several, the most similar one with a
            score.
        gains: Scores minus those of the initial weights.
    """

    def __init__(self, matrix: Matrix, columns: Sequence[str]) -> None:
        self.matrix, self.columns = matrix, list(columns)
        self.scores = 100 * matrix.frame("mean", columns).astype(float)
        self.in_domain, is_leaky, self.below_lexical = (
            matrix.frame(name, columns).eq(True) for name in ("in_domain", "is_leaky", "below_lexical")
        )
        self.zero_shot = self.scores.notna() & ~self.in_domain & ~is_leaky
        self.before = {
            (row.label, column): before.label
            for row in matrix.rows
            if row.is_trained
            for before in reversed(untrained_rows(row, matrix.rows))
            for column in columns
            if column in before.cells and _same_rows(column, row, before)
        }
        bases = {key: self.scores.loc[label, key[1]] for key, label in self.before.items()}
        self.gains = self.scores.apply(
            lambda line: (
                line - pd.Series({column: bases.get((line.name, column), math.nan) for column in line.index})
            ),
            axis="columns",
        )

    def averages_table(self) -> ReportTable:
        """Average the columns. Each set counts once, whatever its size.

        Returns:
            One line for each row of the matrix, in points (×100).
        """
        note = (
            "In-domain: the row was trained on the set's train split, alone or among others. Zero-shot: the other "
            "sets, without leaky ones. Each set counts once, whatever its size. Rows that lack a score have fewer "
            "sets, so compare gains: over the untrained weights, on the same sets."
        )
        head = ("trained on", "in-domain", "sets", "zero-shot", "sets", "gain in-domain", "gain zero-shot")
        body = []
        for row in self.matrix.rows:
            means, gains = [], []
            for group in (self.in_domain, self.zero_shot):
                scores, gain = (
                    frame.loc[row.label][group.loc[row.label]] for frame in (self.scores, self.gains)
                )
                means += [f"{scores.mean():.1f}" if len(scores) else MISSING, str(len(scores))]
                gains.append(signed(gain.mean(skipna=False)))
            body.append((row.label, *means, *gains))
        return ReportTable("averages", "In-domain against zero-shot", note, head, body)

    def helpers_table(self, differences: pd.DataFrame) -> ReportTable:
        """List single training sets by the number of targets that they help, in descending order.

        Args:
            differences: Tested differences, from `significance.differences`.

        Returns:
            A table with a line for each row of one training set.
        """
        note = (
            "Rows of one training set, on sets without training and without leaks, compared with the untrained "
            "weights. Certain: more than chance, as tested below."
        )
        head = ("trained on", "of sets", "higher", "certain", "certainly lower", "mean gain", "helps most")
        verdicts = both_ways(differences).set_index(["first", "second", "column"])["verdict"]
        ranked = []
        for row in single_set_rows(self.matrix):
            gains = self.gains.loc[row.label][self.zero_shot.loc[row.label]].dropna()
            if gains.empty:
                continue
            pairs = [(row.label, self.before[row.label, column], column) for column in gains.index]
            verdict = verdicts.reindex(pairs)
            certain, lower = int((verdict == "higher").sum()), int((verdict == "lower").sum())
            counts = (len(gains), int((gains > 0).sum()), certain, lower)
            most = f"{heading(gains.idxmax())} {signed(gains.max())}"
            line = (row.label, *map(str, counts), signed(gains.mean()), most)
            ranked.append((certain - lower, gains.mean(), line))
        ranked.sort(key=lambda line: line[:2], reverse=True)
        title = "Which training set helps most targets?"
        return ReportTable("helpers", title, note, head, [line for *_, line in ranked])

    def targets_table(self) -> ReportTable:
        """List evaluation sets, the hardest for rows of other sets first.

        Returns:
            One line for each evaluation set, in points (×100).
        """
        note = (
            "Hardest first: by the median over rows that were not trained on the set and do not leak into it. A set "
            "that its own training reaches and no other does needs training of its own."
        )
        labels = pd.Series({row.label: row.trained_on for row in self.matrix.rows})
        is_trained = ~labels.isin(BASELINES)
        lexical = self.scores[labels == "lexical"].max()
        ranked = []
        for column in self.columns:
            scores = self.scores[column]
            zero_shot = scores[is_trained & self.zero_shot[column]]
            in_domain = scores[is_trained & self.in_domain[column]]
            if zero_shot.empty and in_domain.empty:
                continue
            numbers = [zero_shot.median(), zero_shot.max(), in_domain.max(), lexical[column]]
            median, best, reached, baseline = (
                MISSING if pd.isna(number) else f"{number:.1f}" for number in numbers
            )
            by = MISSING if zero_shot.empty else str(zero_shot.idxmax())
            num_below = self.below_lexical.loc[zero_shot.index, column].sum()
            below = MISSING if baseline == MISSING else f"{num_below} of {len(zero_shot)}"
            line = (heading(column), median, best, by, reached, baseline, below)
            ranked.append((100.0 if zero_shot.empty else numbers[0], line))
        if all(line[1] == MISSING for _, line in ranked):  # each row learns from each set: none is a target
            ranked.clear()
        ranked.sort(key=lambda line: line[0])
        head = (
            "set",
            "median zero-shot",
            "best zero-shot",
            "by",
            "trained on it",
            "lexical",
            "below lexical",
        )
        return ReportTable("targets", "Which target is hard?", note, head, [line for _, line in ranked])


def single_set_rows(matrix: Matrix) -> list[Row]:
    """Return the rows that were trained on one set.

    Args:
        matrix: The transfer matrix.

    Returns:
        Rows of the matrix, in their order.
    """
    return [row for row in matrix.rows if len(row.sets) == 1]


def rows_table(matrix: Matrix) -> list[ReportTable]:
    """Explain names that sweeps gave to rows. No table if all rows are named by their training.

    Args:
        matrix: The transfer matrix.

    Returns:
        One table or none.
    """
    if not any(row.names for row in matrix.rows):
        return []
    note = (
        "a > b: stages in order. a + b: a mixture. [kind]: row type after conversion. "
        "by_kind: a loss for each row type."
    )
    body = []
    for row in (row for row in matrix.rows if row.is_trained):
        training = training_of(row.latest)
        sets = training.sets.replace(">", " > ").replace("+", " + ")
        loss = ", ".join([training.loss, *deciding_choices(row.latest)])
        body.append((row.label, sets, loss, training.family))
    return [ReportTable("rows", "What the rows are", note, ("row", "trained on", "loss", "model"), body)]


def leak_table(matrix: Matrix) -> ReportTable:
    """List the leaks of each row and column.

    Args:
        matrix: The transfer matrix.

    Returns:
        A table with the scores without the leaked rows.
    """
    note = (
        f"Evaluation rows whose pair is in a training set of the row, exactly or nearly. From 1 % on the matrix marks "
        f"them by {LEAKY}. Counted by the run: rows of all its training sets, and its score without them. Several "
        "seeds: means. Counted by the audit: rows of the one training set that shares most. A run with a limit may "
        "have seen fewer, and a run on several sets more."
    )
    body = []
    for row in matrix.rows:
        for column in matrix.columns:
            cell = row.cells.get(column)
            if cell is not None and (leak := cell.leak) is not None and leak.rows:
                share = "<0.1" if leak.share < 0.001 else f"{100 * leak.share:.1f}"
                score = cell.mean if leak.unseen is None else leak.score
                scores = (MISSING if score is None else percent(score), without_leaks(leak))
                counted = (f"{leak.rows:,}", share, *scores, str(leak.counted_by))
                body.append((row.label, heading(column), leak.source, *counted))
    if unknown := sum(cell.leak is None for row in matrix.rows for cell in row.cells.values()):
        note += f" {unknown} scores were not audited, or against other rows."
    share_head = ("rows", "% of the split", "all rows", "without them", "counted by")
    head = ("trained on", "set", "shares most", *share_head)
    return ReportTable("leaks", "Leaks", note, head, body, empty="None found.")


def unknown_table(matrix: Matrix) -> list[ReportTable]:
    """Count evaluation texts with unknown tokens. No table if no result has counted them.

    Args:
        matrix: The transfer matrix.

    Returns:
        One table or none.
    """
    note = (
        "Texts of an evaluation set that hold characters which the tokenizer of the row does not know, and pairs of "
        "different texts that have equal tokens. Several seeds have one tokenizer."
    )
    body = []
    for row in matrix.rows:
        for column in matrix.columns:
            counts = [
                result.data[column]["unknown"]
                for result in row.all_results
                if "unknown" in result.data.get(column, {})
            ]
            if counts:
                found = counts[-1]
                numbers = (f"{found['texts']:,}", f"{100 * found['share']:.1f}", f"{found['pairs']:,}")
                body.append((row.label, heading(column), *numbers))
    head = ("trained on", "set", "unknown texts", "% of the texts", "equal pairs")
    title = "Which texts do encoders not know?"
    return [ReportTable("unknown_texts", title, note, head, body)] if body else []


def without_leaks(leak: Leak) -> str:
    """Format the score on unseen rows with its interval, or explain why it is missing.

    Args:
        leak: Leak of a cell.

    Returns:
        Score and interval ×100, or words.
    """
    if leak.unseen is None:
        return MISSING
    if leak.unseen.value is None:
        return "undefined" if leak.unseen.count else "no row left"
    return with_interval(leak.unseen.value, leak.unseen.low, leak.unseen.high)


Stages = Sequence[Mapping[str, Any]]
"""`Result.training` of each stage of a curriculum."""


def _mean_of(name: str) -> Callable[[Row, Sequence[Stages]], float]:
    """Sum over the stages and average over the seeds. NaN if a result lacks the value."""

    def mean(row: Row, seeds: Sequence[Stages]) -> float:
        sums = [pd.Series([stage.get(name) for stage in one], dtype=float).sum(skipna=False) for one in seeds]
        return float(pd.Series(sums, dtype=float).mean())

    return mean


def duration(seconds: float) -> str:
    """Format a duration in a suitable unit.

    Args:
        seconds: Seconds. NaN gives MISSING.

    Returns:
        Text such as `7 min`.
    """
    return MISSING if pd.isna(seconds) else time_in_words(seconds)


def _last_of(row: Row) -> Result:
    return next(iter(row.results.values()))[-1]


@dataclass(frozen=True)
class Cost:
    """A column of the table of costs.

    Args:
        heading: Heading of the column.
        of: Value of a row and the stages of its seeds.
        text: Format of the value.
    """

    heading: str
    of: Callable[[Row, Sequence[Stages]], Any]
    text: Callable[[Any], str] = str


COSTS = {
    "seeds": Cost("seeds", lambda row, _: row.num_seeds),
    "stages": Cost("stages", lambda row, _: _last_of(row).stage + 1),
    "rows_seen": Cost(
        "rows seen", _mean_of("rows_seen"), lambda rows: MISSING if pd.isna(rows) else f"{rows:,.0f}"
    ),
    "train_seconds": Cost("training", _mean_of("train_seconds"), duration),
    "device": Cost("device", lambda row, seeds: str(_last_of(row).environment.get("device") or "unknown")),
}
"""Name in `row_costs` → column, in the order of the table. Seconds exclude validation. Rows count each time they are
seen.
"""


def row_costs(matrix: Matrix) -> pd.DataFrame:
    """Compute the costs of each trained row.

    Seeds count if every stage has a result. Of several results of a stage the latest counts. A stage that several runs
    share counts in each of them.

    Args:
        matrix: The transfer matrix.

    Returns:
        Label of a row → values of COSTS.
    """
    trained = [row for row in matrix.rows if row.is_trained]
    stages_of: dict[tuple[str, int], dict[int, Mapping[str, Any]]] = {}
    for run in matrix.runs["result"]:
        stages_of.setdefault((run.key, run.seed), {})[run.stage] = run.training
    costs = []
    for row in trained:
        seeds = []
        for last in (results[-1] for results in row.results.values()):
            stages = [
                training for stage, training in stages_of[last.key, last.seed].items() if stage <= last.stage
            ]
            seeds += [stages] if len(stages) == last.stage + 1 else []
        costs.append({name: cost.of(row, seeds) for name, cost in COSTS.items()})
    return pd.DataFrame(costs, index=[row.label for row in trained], columns=list(COSTS))


def cost_table(costs: pd.DataFrame) -> ReportTable:
    """Make the table of costs.

    Args:
        costs: Output of `row_costs`.

    Returns:
        A table with a line for each trained row.
    """
    note = "Training without validation and evaluation, all stages of a curriculum, mean over seeds."
    body = [
        (label, *(cost.text(value) for cost, value in zip(COSTS.values(), values, strict=True)))
        for label, *values in costs.itertuples()
    ]
    head = ("trained on", *(cost.heading for cost in COSTS.values()))
    return ReportTable("costs", "What each row cost", note, head, body)


# What embeddings score that are cut to fewer numbers, beside the whole ones: a table and a curve.


WHOLE = "whole"


class SizeCurve(NamedTuple):
    """Scores of a row on a set by embedding size.

    Args:
        row: The row.
        column: `split/dataset`.
        cells: Dimensions → cell. None is the full size.
    """

    row: Row
    column: str
    cells: dict[int | None, Cell]


def curves(matrix: Matrix) -> list[SizeCurve]:
    """Collect a curve for each row and shown column with scores at several sizes.

    Args:
        matrix: The transfer matrix.

    Returns:
        Curves in the order of rows and columns. Empty if every row has one size.
    """
    found = []
    for row in matrix.rows:
        by_column: dict[str, dict[int | None, Cell]] = {}
        for key, cell in row.cells.items():
            column, dim = without_size(key)
            by_column.setdefault(column, {})[dim] = cell
        for column in matrix.columns:
            cells = by_column.get(column, {})
            if len(cells) > 1:
                found.append(SizeCurve(row, column, {dim: cells[dim] for dim in _rising(cells)}))
    return found


def _rising(sizes: Iterable[int | None]) -> list[int | None]:
    """Sizes in order. The full size comes last."""
    return sorted(sizes, key=lambda dim: (dim is None, dim or 0))


def all_sizes(drawn: list[SizeCurve]) -> list[int | None]:
    """List every size of the curves in order.

    Args:
        drawn: Output of `curves`.

    Returns:
        Dimensions in rising order, and None for the full size at the end.
    """
    return _rising({None, *(dim for curve in drawn for dim in curve.cells)})


def size_tables(matrix: Matrix) -> list[ReportTable]:
    """Make a table of scores by embedding size.

    Args:
        matrix: The transfer matrix.

    Returns:
        One table, or none if every row has one size.
    """
    drawn = curves(matrix)
    sizes = all_sizes(drawn)
    body = [
        (curve.row.label, heading(curve.column, matrix), *(_text(curve.cells, dim) for dim in sizes))
        for curve in drawn
    ]
    note = (
        "Embeddings truncated to their first dimensions. In brackets: share of the full score. In result files such a "
        "column is called lcqmc@64."
    )
    head = ("trained on", "set", *(WHOLE if dim is None else str(dim) for dim in sizes))
    return [ReportTable("sizes", "How small may embeddings be?", note, head, body)] if body else []


def _text(cells: dict[int | None, Cell], dim: int | None) -> str:
    if dim not in cells:
        return MISSING
    whole, value = cells.get(None), cells[dim].mean
    share = "" if dim is None or whole is None or whole.mean <= 0 else f" ({100 * value / whole.mean:.0f} %)"
    return f"{percent(value)}{share}"


# Merged models compared with their parents: gain and forgetting.


NOTE = (
    "Averages are over the columns that the model and all its parents have, and over seeds. Forgotten: score of a "
    "parent on its training sets minus that of the merged model, as the mean of these sets and for the worst one."
)
HEAD = ("merged model", "average", "less mean of parents", "less best parent", "forgotten", "most")

Scores = Mapping[str, float]
"""Column → score, as a fraction."""


def gain_and_loss(
    merged: Scores, parents: Sequence[tuple[Sequence[str], Scores]]
) -> tuple[float, float, float, dict[str, float]] | None:
    """Compare a merged model with its parents.

    Args:
        merged: Scores of the merged model.
        parents: For each parent its training sets and its scores.

    Returns:
        The average of the merged model, its differences to the mean and to the best of the parents, and what it lost by
            column. None without common columns.
    """
    columns = [column for column in merged if all(column in scores for _, scores in parents)]
    if not columns:
        return None
    average = statistics.fmean(merged[column] for column in columns)
    averages = [statistics.fmean(scores[column] for column in columns) for _, scores in parents]
    lost: dict[str, float] = {}
    for sets, scores in parents:
        for column in merged.keys() & scores.keys():
            if column.split("/")[1] in sets:
                lost[column] = max(lost.get(column, -1.0), scores[column] - merged[column])
    return average, average - statistics.fmean(averages), average - max(averages), lost


def merged_tables(matrix: Matrix) -> list[ReportTable]:
    """Make a table of merged rows whose parents are in the matrix.

    Args:
        matrix: The transfer matrix.

    Returns:
        One table, or none without such rows.
    """
    runs = {result.measured_weights: row for row in matrix.rows for result in row.all_results}
    body = []
    for row in matrix.rows:
        found = [line for seed in row.results if (line := _of_seed(matrix, row, seed, runs))]
        if found:
            averages, to_mean, to_best, lost = zip(*found, strict=True)
            by_set = {column: statistics.fmean(side[column] for side in lost) for column in lost[0]}
            average, mean, best = map(statistics.fmean, (averages, to_mean, to_best))
            body.append((row.label, *_merged_cells(average, mean, best, by_set)))
    return (
        [ReportTable("merged", "What do merged models gain, and forget?", NOTE, HEAD, body)] if body else []
    )


def _of_seed(
    matrix: Matrix, row: Row, seed: int, runs: Mapping[str, Row]
) -> tuple[float, float, float, dict[str, float]] | None:
    described = row.results[seed][-1].training.get("parents") or []
    parents = [runs.get(parent["weights"]) for parent in described]
    if not described or None in parents:
        return None
    sides = [
        (each.sets, _scores(matrix, each, parent["seed"]))
        for each, parent in zip(parents, described, strict=True)
        if each is not None
    ]
    return gain_and_loss(_scores(matrix, row, seed), sides)


def _scores(matrix: Matrix, row: Row, seed: int) -> Scores:
    cells = {column: row.cells[column] for column in matrix.counted if column in row.cells}
    return {column: cell.values[seed] for column, cell in cells.items() if seed in cell.values}


def _merged_cells(
    average: float, to_mean: float, to_best: float, lost: Mapping[str, float]
) -> tuple[str, ...]:
    most = max(lost, key=lambda column: lost[column], default="")
    return (
        percent(average),
        signed(100 * to_mean),
        signed(100 * to_best),
        signed(100 * statistics.fmean(lost.values())) if lost else MISSING,
        f"{most.split('/')[1]} {signed(100 * lost[most])}" if most else MISSING,
    )


def parents_table(result: Result, folders: Sequence[str | Path]) -> ReportTable:
    """Compare a merged run with its parents.

    Args:
        result: Result of the merged run.
        folders: Run folders of the parents, in order.

    Returns:
        A table with a line for each common column, and averages in the last line.
    """
    parents = [Result.read(folder) for folder in folders]
    scores = [_by_column(each) for each in (*parents, result)]
    columns = [column for column in scores[-1] if all(column in each for each in scores)]
    labels = [" → ".join(parent.trained_on) or "untrained" for parent in parents]
    head = ("column", *(f"{number}: {label}" for number, label in enumerate(labels, start=1)), "merged")
    body = [(column, *(percent(each[column]) for each in scores)) for column in columns]
    if columns:
        averages = [statistics.fmean(each[column] for column in columns) for each in scores]
        body.append(("average", *map(percent, averages)))
    return ReportTable("parents", "Parents", "", head, body, empty="No column in common with the parents.")


def _by_column(result: Result) -> Scores:
    """Column → main metric. Test wins over dev."""
    scores: dict[str, float] = {}
    for key in main_metric_keys(result.scores):
        if (value := result.scores[key].value) is not None:
            scores[key.rpartition("/")[0]] = value
    return {
        column: value
        for column, value in scores.items()
        if column.startswith("test/") or f"test/{column.split('/')[1]}" not in scores
    }
