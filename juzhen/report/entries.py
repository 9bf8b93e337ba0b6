"""Cells with all that a reader may ask of them: interval, seeds, rows, leaks, the command that gives them again."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

from juzhen.core.commands import command
from juzhen.core.named import PROMPT_KEYS
from juzhen.core.result import Result
from juzhen.report.leaks import NO_LEAK, Audit, Leak, counted_leak
from juzhen.report.matrix import BASELINES, Cell, Matrix, Row
from juzhen.report.training import chosen_layout, train_files


def with_entries(matrix: Matrix, audit: Audit | None) -> Matrix:
    """The same matrix, its cells with all that they may have."""
    lexical, best = lexical_scores(matrix.rows), best_rows(matrix.rows)
    rows = []
    for row in matrix.rows:
        least = {} if row.trained_on == "lexical" else lexical
        cells = {
            column: replace(
                _entry(row, column, matrix.metric, audit),
                below_lexical=cell.mean < least.get(column, -inf),
                is_best=best[column] is row,
            )
            for column, cell in row.cells.items()
        }
        rows.append(replace(row, cells=cells))
    return replace(matrix, rows=rows)


def best_rows(rows: Iterable[Row]) -> dict[str, Row]:
    """Column → the row with the highest score, of equal ones the first."""
    best: dict[str, Row] = {}
    for row in rows:
        for column, cell in row.cells.items():
            if column not in best or cell.mean > best[column].cells[column].mean:
                best[column] = row
    return best


def lexical_scores(rows: Sequence[Row]) -> dict[str, float]:
    """Column → the best score of a lexical row."""
    best = best_rows(row for row in rows if row.trained_on == "lexical")
    return {column: row.cells[column].mean for column, row in best.items()}


def trained_sets(trained_on: str) -> list[str]:
    """Names in the order of training, each once: "a>b+a" → a, b; none for a baseline."""
    if trained_on in BASELINES:
        return []
    return list(dict.fromkeys(trained_on.replace("+", ">").split(">")))


def untrained_row(row: Row, rows: Sequence[Row]) -> Row | None:
    """The row of the weights that `row` started from: same backbone and start, and pooling, prompt and model if there
    is a choice; None where nobody measured them."""
    own = row.latest.config
    candidates = [
        one
        for one in rows
        if one.trained_on == ""
        and one.latest.config["backbone"]["path"] == own["backbone"]["path"]
        and one.latest.config.get("init_from") == own.get("init_from")
    ]

    def likeness(one: Row) -> int:
        other = one.latest.config
        reading = ("pooling", *PROMPT_KEYS)
        reads_alike = all(other["backbone"].get(key) == own["backbone"].get(key) for key in reading)
        return 2 * (other["model"] == own["model"]) + reads_alike

    return max(candidates, key=likeness, default=None)


def _entry(row: Row, column: str, metric: str, audit: Audit | None) -> Cell:
    key = f"{column}/{metric}"
    asked = {seed: found[key] for seed, found in sorted(row.scores.items()) if key in found}
    values = {seed: score.value for seed, score in asked.items() if score.value is not None}
    scores = [asked[seed] for seed in values]
    results = row.results[next(iter(values))]
    having = (one for one in reversed(results) if key in one.scores or key in one.untrained)
    result = next(having, results[-1])
    bounds = [(one.low, one.high) for one in scores if one.low is not None and one.high is not None]
    low, high = (
        map(statistics.fmean, zip(*bounds, strict=True)) if len(bounds) == len(scores) else (None, None)
    )
    names = trained_sets(row.trained_on)
    parts = {part for name in names for part in _parts(name, result.config)}
    typed, commit = (result.environment.get(key) for key in ("command", "git_commit"))
    return replace(
        row.cells[column],
        low=low,
        high=high,
        values=tuple(values.items()),
        count=next((score.count for score in scores if score.count), None),
        in_domain=column.split("/")[1] in parts,
        leak=(counted_leak([row.results[seed] for seed in values], f"{column}/{metric}") if names else None)
        or _audited_leak(names, column, result, audit),
        command=command("python", *typed) if typed else "",
        commit=f"{commit[:10]}{'+' if result.environment.get('git_dirty') else ''}" if commit else "",
    )


def _audited_leak(names: Sequence[str], column: str, result: Result, audit: Audit | None) -> Leak | None:
    if not names or result.config.get("filter_leaks"):
        return NO_LEAK  # nothing was learnt from, or the leaked rows were left out
    if audit is None:
        return None
    audited: list[str] = []
    for name in names:
        parts = [part for part in _parts(name, result.config) if part != name]
        audited += parts if name not in audit.train and parts else [name]
    return audit.leak(audited, column, result.data.get(column, {}).get("fingerprint"))


def _parts(name: str, config: Mapping[str, Any]) -> list[str]:
    """A set and those whose training files it is joined from, as far as the configuration knows them."""
    known = {**config.get("evaluate", {}), **config["dataset"]}
    files = {other: set(train_files(chosen_layout(node))) for other, node in known.items()}
    inside = [other for other, own in files.items() if own and own <= files.get(name, set())]
    return list(dict.fromkeys([name, *inside]))
