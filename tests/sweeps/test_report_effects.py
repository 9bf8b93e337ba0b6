"""Predicted cells, ranks and forgetting of a report: against plain numbers, and marked where they are predicted."""

import re
import statistics

import numpy as np
import pytest
from report_fixture import report_of

from juzhen.core.result import Score
from juzhen.report.build import mean_change
from juzhen.report.insights import Transfer
from juzhen.report.matrix import build_matrix
from juzhen.report.page import html
from juzhen.report.table import to_csv

SETS, SEEDS = tuple("vwxyz"), (1, 2, 3)


def known(value):
    return Score(value, value - 0.01, value + 0.01, 2000)


@pytest.fixture
def results(make_result):
    """Six rows on five sets, additive but for noise of 0.2 points. Row f has no score on z."""
    draw = np.random.default_rng(0)
    made = [make_result([], {f"dev/{name}/spearman": known(0.4 + at / 20) for at, name in enumerate(SETS)})]
    for place, row in enumerate("abcdef"):
        for seed in SEEDS:
            scores = {
                f"dev/{name}/spearman": known(0.45 + at / 20 + place / 50 + draw.normal(0, 0.002))
                for at, name in enumerate(SETS)
                if (row, name) != ("f", "z")
            }
            made.append(make_result([row], scores, seed=seed))
    return made


def test_a_missing_cell_is_predicted_with_an_error_and_marked_and_nowhere_measured(results):
    report = report_of(results)
    assert report.predicted.keys() == {("f", "dev/z")}
    assert report.predicted["f", "dev/z"] == pytest.approx(75, abs=3 * report.prediction_error)
    assert 0 < report.prediction_error < 3
    assert "≈ " in report.table("predicted").body[0][2]
    page = html(report, title="T")
    (cell,) = re.findall(r'<td class="cell absent predicted"[^>]*>.*?</td>', page)
    assert "data-heat" not in cell
    assert "predicted, not measured" in cell
    (line,) = [line for line in report.table("ranks").body if line[0] == "f"]
    assert line[-1] == "—"
    assert not any(line.startswith("f,") and ",dev,z," in line for line in to_csv(report.matrix).splitlines())


def test_a_whole_matrix_predicts_nothing(results):
    assert report_of([result for result in results if result.trained_on != ["f"]]).predicted == {}


def test_ranks_of_distinct_rows_are_sharp_and_of_equal_ones_wide(results):
    lines = {line[0]: line[1:] for line in report_of(results).table("ranks").body}
    place, low, high = map(int, re.findall(r"\d+", lines["f"][0]))
    assert (place, low) == (1, 1)
    assert high < 6
    assert lines["untrained"][0] == "7 [7, 7]"


def test_the_mean_change_is_that_of_plain_means_and_holds_the_spread_of_seeds(results):
    matrix = build_matrix(results, metric=None)
    transfer = Transfer(matrix, matrix.columns)
    row = next(row for row in matrix.rows if row.label == "c")
    gap = mean_change(matrix, transfer, row, matrix.columns)
    gains = [transfer.gains.loc["c", column] for column in matrix.columns]
    assert 100 * gap.value == pytest.approx(statistics.fmean(gains))
    seeds = [statistics.fmean(row.cells[column].values[seed] for column in matrix.columns) for seed in SEEDS]
    assert gap.error > statistics.stdev(seeds) / np.sqrt(3)
    assert gap.interval[0] < gap.value < gap.interval[1]
    assert mean_change(matrix, transfer, row, []) is None
