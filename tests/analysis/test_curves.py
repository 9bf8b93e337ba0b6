"""Learning curves: what the report page reads from the tables of a run."""

import csv
from pathlib import Path

import pytest

from juzhen.report.page_data import read_curves

COLUMNS = ["dev/csts/spearman", "dev/selection/spearman", "epoch", "step", "train/loss"]


def write(folder: Path, rows: list[list[object]], attempt: str = "0", columns: list[str] = COLUMNS) -> Path:
    path = folder / "metrics" / attempt / "metrics.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    return folder


@pytest.fixture
def run(tmp_path):
    rows = [
        ["", "", 0, 9, 2.5],
        [0.5, 0.5, 0, 19, ""],
        ["", "", 0, 19, 2.0],
        [0.6, 0.6, 0, 39, ""],
        [0.9, "", "", 40, ""],
    ]
    return write(tmp_path / "runs" / "one", rows)


def test_curves_are_what_was_logged_while_training(run):
    curves = read_curves(run)
    # 0.9 is of the best weights, at the end.
    assert curves["dev/csts/spearman"] == [(20, 0.5), (40, 0.6)]
    assert curves["train/loss"] == [(10, 2.5), (20, 2.0)]


def test_of_a_step_that_was_done_again_the_later_attempt_counts(run):
    write(run, [[0.7, 0.7, 0, 39, ""], [0.8, 0.8, 0, 59, ""]], attempt="10")
    write(run, [[0.1, 0.1, 0, 39, ""]], attempt="2")
    assert read_curves(run)["dev/csts/spearman"] == [(20, 0.5), (40, 0.7), (60, 0.8)]
