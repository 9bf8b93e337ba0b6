"""Data for the script of the page: cells of the matrix, costs, differences to the best row, and panels."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from juzhen.core.errors import UserError
from juzhen.core.examples import NLI_CLASSES, RANKED, TEXT_COLUMNS, Examples, Kind
from juzhen.core.kinds import metric_title
from juzhen.core.result import Result
from juzhen.core.row_scores import SetRows
from juzhen.core.safe_open import csv_rows
from juzhen.core.schema import validated
from juzhen.core.text import short
from juzhen.metrics.comparison import are_same_rows, points, slice_changes, slices
from juzhen.report.build import Report
from juzhen.report.html_shell import palettes
from juzhen.report.insights import (
    WHOLE,
    SizeCurve,
    Transfer,
    all_sizes,
    curves,
    duration,
    untrained_rows,
    without_leaks,
)
from juzhen.report.matrix import Cell, KeptRows, Matrix, Row
from juzhen.report.significance import clustered, difference_interval
from juzhen.report.table import MISSING, heading, mean_and_deviation, percent, signed
from juzhen.report.training import stand_ins

Plain = dict[str, Any]
DECIMALS = 2
"""Decimals of points that are drawn. Texts arrive formatted."""


def page_data(report: Report) -> Plain:
    """Collect the data of the page.

    Rows and columns are numbers in the matrix. Scores and differences are points, ×100.

    Args:
        report: The report.

    Returns:
        `columns`: name, short name and own metric. `rows`: label, setup, costs, stand-ins and cells. `orders`: rows and
            columns with similar ones side by side. `sizes`: embedding sizes and curves. `undecided`: column → best row
            and the others, with intervals. `heat`: colours on paper.
    """
    matrix, columns = report.matrix, drawn_columns(report.matrix)
    transfer = Transfer(matrix, columns)
    drawn = curves(matrix)
    number = {row.label: index for index, row in enumerate(matrix.rows)}
    alike_rows, alike_columns = clustered(matrix, columns)
    return {
        "heat": {name: themes["light"] for name, themes in palettes().items()},
        "metric": metric_title(matrix.metric),
        "columns": column_names(matrix, columns),
        "rows": [
            _row(
                report,
                row,
                {
                    column: number[transfer.before[row.label, column]]
                    for column in columns
                    if (row.label, column) in transfer.before
                },
                transfer.gains,
                columns,
            )
            for row in matrix.rows
        ],
        "orders": {
            "rows": [number[row.label] for row in alike_rows],
            "columns": [columns.index(column) for column in alike_columns],
        },
        "sizes": {
            "names": [WHOLE if dim is None else str(dim) for dim in all_sizes(drawn)],
            "curves": [
                _curve(curve, number[curve.row.label], columns.index(curve.column)) for curve in drawn
            ],
        },
        "undecided": [
            against for place in range(len(columns)) if (against := _against_best(matrix, columns, place))
        ],
    }


def _curve(curve: SizeCurve, row: int, column: int) -> Plain:
    points_of = {
        str(dim or WHOLE): [_in_points(value) for value in (cell.mean, cell.low, cell.high)]
        for dim, cell in curve.cells.items()
    }
    return {"row": row, "column": column, "points": points_of}


def drawn_columns(matrix: Matrix) -> list[str]:
    """List columns with a score in some row.

    Args:
        matrix: The transfer matrix.

    Returns:
        `split/dataset` keys in the order of the matrix.
    """
    return [column for column in matrix.columns if any(column in row.cells for row in matrix.rows)]


def column_names(matrix: Matrix, columns: Sequence[str]) -> list[Plain]:
    """Name columns for the script of the page.

    Args:
        matrix: The transfer matrix.
        columns: `split/dataset` keys.

    Returns:
        For each column its name, its short name, and its metric if that differs from the matrix.
    """
    splits = {column.split("/")[0] for column in columns}
    own = {column for column in columns if matrix.measures[column] != matrix.metric}
    return [
        {
            "name": heading(column, matrix),
            "short": column.split("/")[1]
            if len(splits) == 1 and column not in own
            else heading(column, matrix),
        }
        | ({"measure": metric_title(matrix.measures[column])} if column in own else {})
        for column in columns
    ]


def _row(
    report: Report, row: Row, before: Mapping[str, int], gains: pd.DataFrame, columns: Sequence[str]
) -> Plain:
    commands = list(dict.fromkeys(cell.command for cell in row.cells.values() if cell.command))
    return _without_nothing(
        {
            "label": row.label,
            "kind": {"": "untrained", "lexical": "lexical"}.get(row.trained_on, "trained"),
            "setup": row.setup,
            "seeds": [int(seed) for seed in row.results],
            "starts": list(dict.fromkeys(before.values())),
            "less": stand_ins(row.latest) if row.is_trained else [],
            "cost": _cost(report.costs.loc[row.label]) if row.is_trained else None,
            "commands": commands,
            "cells": {
                place: _cell(row.cells[column], gains.loc[row.label, column], before.get(column), commands)
                for place, column in enumerate(columns)
                if column in row.cells
            },
            "reasons": {
                place: row.reasons[column] for place, column in enumerate(columns) if column in row.reasons
            },
        }
    )


def _cost(cost: pd.Series) -> Plain:
    seconds, rows_seen = (
        None if pd.isna(cost[name]) else float(cost[name]) for name in ("train_seconds", "rows_seen")
    )
    return _without_nothing(
        {
            "seconds": seconds,
            "rows": rows_seen,
            "device": "" if cost["device"] == "unknown" else cost["device"],
            "time": "" if seconds is None else duration(seconds),
            "stages": int(cost["stages"]),
        }
    )


def _cell(cell: Cell, gain: float, before: int | None, commands: Sequence[str]) -> Plain:
    ends = [] if cell.low is None or cell.high is None else [percent(cell.low), percent(cell.high)]
    gained = not math.isnan(gain)
    return _without_nothing(
        {
            "mean": _in_points(cell.mean),
            "text": mean_and_deviation(cell),
            "low": _in_points(cell.low),
            "high": _in_points(cell.high),
            "ends": ends,
            "seeds": ", ".join(f"{seed}: {percent(value)}" for seed, value in cell.values.items()),
            "count": cell.count,
            "gain": round(gain, DECIMALS) if gained else None,
            "gained": signed(gain) if gained else "",
            "before": before,
            "trained": cell.in_domain,
            "leaky": cell.is_leaky,
            "below": cell.below_lexical,
            "best": cell.is_best,
            "leak": _leak_text(cell),
            "unseen": _unseen_text(cell),
            "command": commands.index(cell.command) if cell.command else None,
            "commit": cell.commit,
        }
    )


def _leak_text(cell: Cell) -> str:
    if cell.leak is None:
        return "not audited"
    if not cell.leak.rows:
        return ""
    counted = ", counted by the run" if cell.leak.is_counted else ""
    return f"{cell.leak.rows:,} rows, {100 * cell.leak.share:.1f} %, from {cell.leak.source}{counted}"


def _unseen_text(cell: Cell) -> str:
    """Format the score without leaks next to that with leaks, or "" if the run has none."""
    leak = cell.leak
    if leak is None or leak.unseen is None:
        return ""
    score = MISSING if leak.score is None else percent(leak.score)
    return f"{without_leaks(leak)} on {leak.unseen.count:,} rows, with them {score}"


def _against_best(matrix: Matrix, columns: Sequence[str], place: int) -> Plain | None:
    """Compare the best row of a column with the others, in order of scores, without leaks from other sets.

    None if no difference has an interval.
    """
    column = columns[place]
    scored = [
        (number, row.cells[column])
        for number, row in enumerate(matrix.rows)
        if column in row.cells and not row.cells[column].flatters
    ]
    scored.sort(key=lambda entry: -entry[1].mean)
    others = []
    for number, cell in scored[1:]:
        if (ends := difference_interval(matrix, column, cell, scored[0][1])) is not None:
            gap = 100 * (cell.mean - scored[0][1].mean)
            others.append(
                {
                    "row": number,
                    "points": round(gap, DECIMALS),
                    "low": round(ends[0], DECIMALS),
                    "high": round(ends[1], DECIMALS),
                    "text": signed(gap),
                    "ends": [signed(ends[0]), signed(ends[1])],
                    "open": ends[0] <= 0 <= ends[1],
                    "by": ends[2],
                }
            )
    return {"column": place, "best": scored[0][0], "others": others} if others else None


def _in_points(fraction: float | None) -> float | None:
    return None if fraction is None else round(100 * fraction, DECIMALS)


def _without_nothing(values: Plain) -> Plain:
    """Drop None, False and empty values, because a cell lacks most marks."""
    return {key: value for key, value in values.items() if value is not False and (value or value == 0)}


# Single rows of evaluation sets: scores by label, and the worst pairs.


BINS = 32
LONGEST = 300
"""Longest quoted sentence, in characters."""

GRADES = ("low grades", "middle grades", "high grades")
"""Thirds of the range of a graded set."""


def scored_sets(
    row: Row,
    columns: Sequence[str],
    kept: KeptRows,
    sentences: "PairTexts",
    *,
    worst: int,
    starts: Sequence[Row] = (),
) -> list[Plain]:
    """Collect score histograms, threshold, worst pairs and slices of a row, from its first seed that has them.

    Args:
        row: Row of the matrix.
        columns: Columns of the page.
        kept: Stored scores of single rows.
        sentences: Texts of the sets.
        worst: Worst pairs of each set. 0 reads no texts, and finds no slices.
        starts: Rows of its initial weights, the most similar one first.

    Returns:
        A mapping for each column.
    """
    sets: dict[str, Plain] = {}
    for seed, results in row.results.items():
        for result in reversed(results):
            if result.trained_on and not row.is_trained:
                continue  # it measured these weights before it trained them, and its rows are of the others
            scores = kept.of_run(result)
            for column in columns:
                if column in scores and column not in sets and column in row.cells:
                    made = _scored_set(result, column, scores[column], sentences, worst)
                    if made and worst:
                        made |= _slices(result, starts, column, kept, sentences)
                    sets |= {column: {"column": columns.index(column), "seed": seed, **made}} if made else {}
    return [sets[column] for column in columns if column in sets]


def _scored_set(result: Result, column: str, rows: SetRows, sentences: "PairTexts", worst: int) -> Plain:
    if "score" not in rows.columns:
        return {}
    scores = rows["score"].astype(float)
    groups = {name: values[np.isfinite(values)] for name, values in _by_label(rows, scores)}
    groups = {name: values for name, values in groups.items() if len(values)}
    if not groups:
        return {}
    everything = np.concatenate(list(groups.values()))
    ends = (float(everything.min()), float(everything.max()))
    if ends[0] == ends[1]:
        return {}
    threshold = _threshold_of(result, column)
    edges = np.linspace(*ends, BINS + 1)
    return {
        "ends": [round(end, 4) for end in ends],
        "counts": {name: np.histogram(values, edges)[0].tolist() for name, values in groups.items()},
        "threshold": threshold,
        "worst": _worst(
            sentences.of(result, column, rows.fingerprint),
            rows,
            worst,
            threshold["exact"] if threshold else None,
        )
        if worst
        else [],
    }


def _slices(
    result: Result, starts: Sequence[Row], column: str, kept: KeptRows, sentences: "PairTexts"
) -> Plain:
    """Changes by slice against the initial weights, where both have kept the scores of single rows."""
    after = kept.scored_by(result, column)
    others = ((start, kept.scored_by(start.latest, column)) for start in starts)
    found = next(((start, before) for start, before in others if before is not None), None)
    if after is None or found is None or not are_same_rows(after.rows, found[1].rows):
        return {}
    examples = sentences.of(result, column, after.rows.fingerprint)
    if examples is None or len(examples) != len(after.rows) or len(TEXT_COLUMNS[examples.kind]) < 2:
        return {}
    texts = [examples.texts(name) for name in TEXT_COLUMNS[examples.kind][:2]]
    changes = slice_changes(found[1], after, slices(texts[0], texts[1]))
    lines = [
        [change.name, change.rows, *(change.flipped or ("", "")), points(change.gap)] for change in changes
    ]
    return {"slices": lines, "against": found[0].label} if lines else {}


def _threshold_of(result: Result, column: str) -> Plain | None:
    """Read the decision threshold that a run fitted on the dev split of the set."""
    threshold = result.thresholds.get(column.split("/")[1])
    if threshold is None or threshold.value is None:
        return None
    names = ("accuracy", "precision", "recall", "f1")
    numbers = {name: getattr(threshold, name) for name in names}
    return {
        "value": round(threshold.value, 4),
        "exact": threshold.value,
        "on": threshold.judged_on,
        **{name: round(100 * number, 1) for name, number in numbers.items() if number is not None},
    }


def _by_label(rows: SetRows, scores: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    kind = Kind(rows.kind)
    if kind in RANKED:
        yield "right answer", scores
        yield "best other", rows["other"].astype(float)
    elif kind is Kind.SCORED_PAIR:
        thirds = np.clip((rows["gold"] * 3).astype(int), 0, 2)
        yield from ((name, scores[thirds == third]) for third, name in enumerate(GRADES))
    else:
        names = NLI_CLASSES if kind is Kind.NLI_PAIR else ("label 0", "label 1")
        yield from ((name, scores[rows["gold"] == label]) for label, name in enumerate(names))


def _worst(examples: Examples | None, rows: SetRows, count: int, border: float | None) -> list[Plain]:
    """List the worst pairs.

    With a threshold these are wrong decisions, furthest from it first. Without one they are pairs whose rank by score
    is furthest from their rank by label. For rankings they are rows whose best wrong answer is furthest above the right
    one.

    Empty if the files of the set are missing or have changed.
    """
    if examples is None or len(examples) != len(rows):
        return []
    kind, scores, gold = Kind(rows.kind), rows["score"].astype(float), None
    if kind in RANKED:
        error = rows["other"] - scores
    elif border is not None and kind is Kind.LABELLED_PAIR:
        gold = rows["gold"].astype(float)
        accepted = scores >= border
        places = np.abs(_ranks(scores) - (~accepted).sum() - 0.5)
        error = np.where(accepted == (gold == 1), -places, places)
    else:
        gold = rows["gold"].astype(float)
        error = np.abs(_ranks(scores) - _ranks(-gold if kind is Kind.NLI_PAIR else gold))
    error = np.where(np.isfinite(error), error, -np.inf)
    texts = [examples.texts(name) for name in TEXT_COLUMNS[kind][:2]]
    pairs = []
    for index in np.argsort(-error, kind="stable")[:count].tolist():
        if error[index] <= 0:
            break
        pair: Plain = {
            "texts": [short(text[index], LONGEST) for text in texts],
            "score": round(float(scores[index]), 3),
        }
        if gold is not None:
            pair["gold"] = NLI_CLASSES[int(gold[index])] if kind is Kind.NLI_PAIR else f"{gold[index]:g}"
        pairs.append(pair)
    return pairs


class PairTexts:
    """Texts of evaluation splits, each read once per report."""

    def __init__(self) -> None:
        self._read: dict[tuple[str, ...], Examples | None] = {}

    def of(self, result: Result, column: str, fingerprint: str) -> Examples | None:
        """Read the rows of a run.

        Args:
            result: Result of the run.
            column: `split/dataset`.
            fingerprint: Fingerprint of the rows that were scored.

        Returns:
            The rows. None if their files are missing or have changed.
        """
        key = (column, fingerprint, str(result.config.get("source")), str(result.config.get("data_dir")))
        if key not in self._read:
            examples = _examples_of(result, column)
            is_same = examples is not None and examples.fingerprint == fingerprint
            self._read[key] = examples if is_same else None
        return self._read[key]


def _ranks(values: np.ndarray) -> np.ndarray:
    """Rank values from 1. Equal values share their mean rank."""
    return pd.Series(values).rank().to_numpy()


def _examples_of(result: Result, column: str) -> Examples | None:
    from juzhen.data.loading import cut, sampled
    from juzhen.data.source import load_examples
    from juzhen.data.spec import DatasetConfig

    split, name = column.split("/")
    config, described = result.config, result.described(name)
    places: Plain = {key: config.get(key) for key in ("source", "data_dir", "on_bad_row")}
    if described is None or None in places.values() or "hub" in (described.get("source"), places["source"]):
        return None  # a report downloads nothing
    try:
        examples = load_examples(validated(DatasetConfig, described), split, **places)
    except (UserError, OSError):  # the page is made without these texts
        return None
    if examples is None:
        return None
    limit = (config.get("evaluation") or {}).get("limit")
    return cut(sampled(examples, limit), config.get("debug_rows"), result.seed)


# The panel of one row: training curves and single rows.


MOST_POINTS = 160
"""Points of a curve, as many as a screen can show."""

LOSS_WINDOW = 10
"""Logged losses are of single batches. The curve is their mean over this many."""

TABLE = "metrics.csv"
STEP = "step"
DURING_TRAINING = "epoch"
"""A column with values only in rows from training. Final scores, of the best weights, lack it."""

Points = list[tuple[int, float]]
"""(step, value) in order. The first step is 1."""


def panels(report: Report, *, worst: int) -> dict[int, Plain]:
    """Collect the panel of each row.

    Args:
        report: The report.
        worst: Worst pairs of each set.

    Returns:
        Number of the row → data of its panel. Rows without data are absent.
    """
    matrix, sentences, made = report.matrix, PairTexts(), {}
    for number, row in enumerate(matrix.rows):
        curves = _curves_of(row, {*matrix.measures.values()}) if row.is_trained else []
        starts = untrained_rows(row, matrix.rows) if row.is_trained and worst else ()
        columns = drawn_columns(matrix)
        scored = scored_sets(row, columns, matrix.kept, sentences, worst=worst, starts=starts)
        made[number] = ({"curves": curves} if curves else {}) | ({"sets": scored} if scored else {})
    return {number: panel for number, panel in made.items() if panel}


def _curves_of(row: Row, metrics: set[str]) -> list[Plain]:
    """Training curves of each seed's last run: quantity, seed and points. Weights of sets are included."""
    lines = []
    for seed, results in row.results.items():
        if (curves := _curves_in(results[-1])) is None:
            continue
        for key, curve in curves.items():
            is_score = (
                key.startswith("dev/") and "/selection/" not in key and key.rpartition("/")[2] in metrics
            )
            is_weight = key.startswith("train/") and key.endswith("/weight")
            if (is_score or is_weight or key == "train/loss") and len(curve) > 1:
                drawn = [100 * value if is_score else value for _, value in curve]
                drawn = drawn if is_score or is_weight else _smoothed(drawn, LOSS_WINDOW)
                lines.append({"of": key, "seed": seed, "points": _points(curve, drawn)})
    return lines


def _curves_in(result: Result) -> dict[str, Points] | None:
    if not result.folder:
        return None
    try:
        return read_curves(Path(result.folder))
    except UserError:  # results are kept without their curves, too
        return None


def read_curves(folder: Path) -> dict[str, Points]:
    """Read the metrics that a run logged in training.

    A resumed run has a table for each attempt. Where two have the same step, the later one counts.

    Args:
        folder: A run folder.

    Returns:
        Quantity, such as dev/csts/spearman or train/loss → curve.

    Raises:
        UserError: No table, or a broken one.
    """
    attempts = folder.glob(f"metrics/*/{TABLE}")
    tables = sorted(attempts, key=lambda path: (len(path.parent.name), path.parent.name))
    if not tables:
        raise UserError(f"{folder}: no metrics/*/{TABLE}. Give the folder of a trained run, as in runs/NAME")
    by_step: dict[str, dict[int, float]] = {}
    for path, number, row in ((table, *row) for table in tables for row in csv_rows(table)[1]):
        if not row.get(DURING_TRAINING):
            continue
        try:
            step = int(float(row[STEP])) + 1
            for key, value in row.items():
                if value and key not in (STEP, DURING_TRAINING):
                    by_step.setdefault(key, {})[step] = float(value)
        except (KeyError, ValueError, OverflowError) as error:
            raise UserError(
                f"{path}, line {number}: not a number ({short(str(error))}). Restore the file"
            ) from error
    return {key: sorted(points.items()) for key, points in sorted(by_step.items())}


def _smoothed(values: Sequence[float], window: int) -> list[float]:
    """Average each value with the ones before it, over at most `window` values.

    >>> _smoothed([1.0, 2.0, 3.0, 4.0], 2)
    [1.0, 1.5, 2.5, 3.5]
    """
    return [statistics.fmean(values[max(0, end - window) : end]) for end in range(1, len(values) + 1)]


def _points(curve: Points, drawn: Sequence[float]) -> Points:
    every = -(-len(curve) // MOST_POINTS)
    chosen = [*range(0, len(curve) - 1, every), len(curve) - 1]
    return [(curve[index][0], float(f"{drawn[index]:.4g}")) for index in chosen]
