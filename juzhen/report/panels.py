"""What the page's panel of one row has beyond the matrix: how training went, and single rows of evaluation sets."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from juzhen.core.errors import UserError
from juzhen.core.result import Result
from juzhen.core.safe_open import csv_rows
from juzhen.core.text import short
from juzhen.report.build import Report
from juzhen.report.matrix import Row
from juzhen.report.page_data import drawn_columns
from juzhen.report.single_rows import PairTexts, scored_sets

MOST_POINTS = 160
"""Of a curve: as many as can be told apart on a screen."""

LOSS_WINDOW = 10
"""Logged losses are of single batches; drawn is their mean over so many."""

TABLE = "metrics.csv"
STEP = "step"
DURING_TRAINING = "epoch"
"""Only rows written while training have a value here; scores at the end, which are of the best weights, have none."""

Plain = dict[str, Any]
Curve = list[tuple[int, float]]
"""(step, value) in order; the first step is 1."""


def panels(report: Report, *, worst: int) -> dict[int, Plain]:
    """Number of the row → what its panel draws; rows with nothing to draw are absent.

    worst  so many pairs of each set with their texts
    """
    matrix, sentences, made = report.matrix, PairTexts(), {}
    for number, row in enumerate(matrix.rows):
        curves = _curves_of(row, {*matrix.measures.values()}) if row.is_trained else []
        scored = scored_sets(row, drawn_columns(matrix), matrix.kept, sentences, worst=worst)
        made[number] = ({"curves": curves} if curves else {}) | ({"sets": scored} if scored else {})
    return {number: panel for number, panel in made.items() if panel}


def _curves_of(row: Row, metrics: set[str]) -> list[Plain]:
    """The curves of each seed's last run: quantity, seed, and (step, value) points; of a set's weight, too."""
    lines = []
    for seed, results in row.results.items():
        if (curves := _read(results[-1])) is None:
            continue
        for key, curve in curves.items():
            is_score = (
                key.startswith("dev/") and "/selection/" not in key and key.rpartition("/")[2] in metrics
            )
            is_weight = key.startswith("train/") and key.endswith("/weight")
            if (is_score or is_weight or key == "train/loss") and len(curve) > 1:
                drawn = [100 * value if is_score else value for _, value in curve]
                drawn = drawn if is_score or is_weight else smoothed(drawn, LOSS_WINDOW)
                lines.append({"of": key, "seed": seed, "points": _points(curve, drawn)})
    return lines


def _read(result: Result) -> dict[str, Curve] | None:
    if not result.folder:
        return None
    try:
        return read_curves(Path(result.folder))
    except UserError:  # results are kept without their curves, too
        return None


def read_curves(folder: Path) -> dict[str, Curve]:
    """What a run logged while it trained: quantity, such as dev/csts/spearman or train/loss → its curve.

    A run that was continued has a table for each attempt; where two have the same step, the later one counts.

    Raises:
        UserError: No table, or a broken one.
    """
    attempts = folder.glob(f"metrics/*/{TABLE}")
    tables = sorted(attempts, key=lambda path: (len(path.parent.name), path.parent.name))
    if not tables:
        raise UserError(f"{folder}: no metrics/*/{TABLE}; expected a run that has trained, as in runs/NAME")
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
                f"{path}, line {number}: expected numbers as training logs them ({short(str(error))})"
            ) from error
    return {key: sorted(points.items()) for key, points in sorted(by_step.items())}


def smoothed(values: Sequence[float], window: int) -> list[float]:
    """The mean over the last `window` values, or over as many as there are.

    >>> smoothed([1.0, 2.0, 3.0, 4.0], 2)
    [1.0, 1.5, 2.5, 3.5]
    """
    return [statistics.fmean(values[max(0, end - window) : end]) for end in range(1, len(values) + 1)]


def _points(curve: Curve, drawn: Sequence[float]) -> Curve:
    every = -(-len(curve) // MOST_POINTS)
    chosen = [*range(0, len(curve) - 1, every), len(curve) - 1]
    return [(curve[index][0], float(f"{drawn[index]:.4g}")) for index in chosen]
