"""Merged models beside the models that they are made of: what was gained, and what was forgotten."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from juzhen.core.kinds import main_metric_keys
from juzhen.core.result import Result
from juzhen.report.matrix import Matrix, Row
from juzhen.report.table import MISSING, ReportTable, percent, signed

NOTE = (
    "Averages are over the columns that the model and all its parents have, and over seeds. Forgotten: a parent on the "
    "sets that it was trained on, less the merged model there; the mean over these sets, and the set that lost most."
)
HEAD = ("merged model", "average", "less mean of parents", "less best parent", "forgotten", "most")

Scores = Mapping[str, float]
"""Column → score, as a fraction."""


def gain_and_loss(
    merged: Scores, parents: Sequence[tuple[Sequence[str], Scores]]
) -> tuple[float, float, float, dict[str, float]] | None:
    """The average of a merged model, its difference to the mean and to the best of its parents, and what it has
    forgotten, by column.

    parents  for each the sets that it was trained on, and its scores

    None where no column is common to all.
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
    """A line for each merged row of a matrix whose parents are in it; no table where there is none."""
    runs = {result.measured_weights: row for row in matrix.rows for result in row.all_results}
    body = []
    for row in matrix.rows:
        found = [line for seed in row.results if (line := _of_seed(matrix, row, seed, runs))]
        if found:
            averages, to_mean, to_best, lost = zip(*found, strict=True)
            by_set = {column: statistics.fmean(side[column] for side in lost) for column in lost[0]}
            average, mean, best = map(statistics.fmean, (averages, to_mean, to_best))
            body.append((row.label, *_cells(average, mean, best, by_set)))
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


def _cells(average: float, to_mean: float, to_best: float, lost: Mapping[str, float]) -> tuple[str, ...]:
    most = max(lost, key=lambda column: lost[column], default="")
    return (
        percent(average),
        signed(100 * to_mean),
        signed(100 * to_best),
        signed(100 * statistics.fmean(lost.values())) if lost else MISSING,
        f"{most.split('/')[1]} {signed(100 * lost[most])}" if most else MISSING,
    )


def parents_table(result: Result, folders: Sequence[str | Path]) -> ReportTable:
    """A merged run beside its parents, a line for each column; the last one of averages."""
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
    """Column → the measure that speaks for it, of the split with a score: test before dev."""
    scores: dict[str, float] = {}
    for key in main_metric_keys(result.scores):
        if (value := result.scores[key].value) is not None:
            scores[key.rpartition("/")[0]] = value
    return {
        column: value
        for column, value in scores.items()
        if column.startswith("test/") or f"test/{column.split('/')[1]}" not in scores
    }
