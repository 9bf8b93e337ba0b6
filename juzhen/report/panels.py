"""What the page's panel of one row has beyond the matrix: how training went, and single rows of evaluation sets."""

from pathlib import Path
from typing import Any

from juzhen.core.errors import UserError
from juzhen.core.result import Result
from juzhen.report.build import Report
from juzhen.report.curves import Curves, read_curves, smoothed
from juzhen.report.drawn_curves import LOSS_WINDOW
from juzhen.report.matrix import Row
from juzhen.report.page_data import drawn_columns
from juzhen.report.single_rows import PairTexts, scored_sets

MOST_POINTS = 160
"""Of a curve: as many as can be told apart on a screen."""

Plain = dict[str, Any]


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
        for key in sorted(curves.values):
            is_score = (
                key.startswith("dev/") and "/selection/" not in key and key.rpartition("/")[2] in metrics
            )
            is_weight = key.startswith("train/") and key.endswith("/weight")
            if (is_score or is_weight or key == "train/loss") and len(curves.values[key]) > 1:
                lines.append({"of": key, "seed": seed, "points": _points(curves, key, is_score)})
    return lines


def _read(result: Result) -> Curves | None:
    if not result.folder:
        return None
    try:
        return read_curves(Path(result.folder))
    except UserError:  # results are kept without their curves, too
        return None


def _points(curves: Curves, key: str, is_score: bool) -> list[tuple[int, float]]:
    steps, values = zip(*curves.values[key], strict=True)
    drawn = [100 * value for value in values] if is_score else list(values)
    drawn = drawn if is_score or key.endswith("/weight") else smoothed(drawn, LOSS_WINDOW)
    every = -(-len(steps) // MOST_POINTS)
    chosen = [*range(0, len(steps) - 1, every), len(steps) - 1]
    return [(steps[index], float(f"{drawn[index]:.4g}")) for index in chosen]
