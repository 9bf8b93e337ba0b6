"""What is decided between rows of a report where runs have kept the scores of their single rows."""

import numpy as np
import pytest

from juzhen.calibration.run_scores import PairedRuns
from juzhen.calibration.run_scores import differences as differences_of_runs
from juzhen.core.result import Result, Score
from juzhen.core.row_scores import ROWS_FILE, RowScores, SetRows
from juzhen.metrics.correlation import spearman, spearman_interval
from juzhen.report.collect import collect
from juzhen.report.matrix import build_matrix
from juzhen.report.page_data import page_data
from juzhen.report.significance import difference_interval, differences, significance_table

COLUMN, COUNT = "dev/bq", 400


@pytest.fixture
def write_run(make_result, tmp_path):
    """Writes a run whose scores are as good as `strength`; those of all runs are wrong in part at the same rows."""
    draw = np.random.default_rng(3)
    gold = draw.random(COUNT)
    hard = draw.normal(size=COUNT)

    def write(name, strength, seed=1, *, keeps_rows=True, fingerprint="f", **more):
        own = 0.3 * np.random.default_rng(seed + len(name)).normal(size=COUNT)
        scores = (strength * gold + 0.4 * hard + 0.2 * own).astype(np.float32)
        interval = spearman_interval(scores, gold, samples=300, confidence=0.95, seed=0)
        value = Score(spearman(scores, gold), *interval, COUNT)
        made = make_result([name], {f"{COLUMN}/spearman": value}, seed=seed, **more)
        made.weights = f"weights of {name} {seed}"
        made.data = {COLUMN: {"kind": "scored_pair", "fingerprint": fingerprint, "rows": COUNT}}
        folder = tmp_path / "runs" / f"{name}{seed}"
        folder.mkdir(parents=True)
        made.write(folder)
        places = {key: np.arange(COUNT, dtype=np.int32) for key in ("row", "line")}
        rows = SetRows(
            "scored_pair", fingerprint, places | {"gold": gold.astype(np.float32), "score": scores}
        )
        if keeps_rows:
            RowScores(made.weights, {COLUMN: rows}).write(folder / ROWS_FILE)
        return folder

    return write


def matrix_below(folder):
    return build_matrix(collect(folder, report=print), metric="spearman")


def test_rows_that_both_have_decide_what_the_intervals_of_two_cells_leave_open(write_run, tmp_path):
    folders = [write_run("a", 1.0), write_run("bb", 1.15)]
    matrix = matrix_below(tmp_path)
    (found,) = differences(matrix).itertuples()
    assert (found.tested_by, found.verdict) == ("rows", "lower")
    low, high, _ = difference_interval(matrix, COLUMN, *(row.cells[COLUMN] for row in matrix.rows))
    runs = PairedRuns(folders, data_dir=None, batch_tokens=512).scored(COLUMN)
    (gap,) = differences_of_runs(runs[1], runs[0], metric="spearman")
    assert (low, high) == pytest.approx((100 * gap.low, 100 * gap.high), abs=1e-3)
    assert "row by row" in significance_table(matrix, differences(matrix)).note
    for folder in folders:
        (folder / ROWS_FILE).unlink()
    (found,) = differences(without := matrix_below(tmp_path)).itertuples()
    assert (found.tested_by, found.verdict) == ("intervals", "undecided")
    assert "Welch" in significance_table(without, differences(without)).note
    ends = difference_interval(without, COLUMN, *(row.cells[COLUMN] for row in without.rows))
    assert ends[1] - ends[0] > 1.5 * (high - low)


def test_the_spread_of_seeds_counts_too(write_run, tmp_path):
    for seed, strength in enumerate((0.9, 1.0, 1.1)):
        write_run("a", strength, seed)
    write_run("bb", 1.15)
    (several,) = differences(matrix_below(tmp_path)).itertuples()
    assert several.tested_by == "rows"
    for seed in (0, 2):
        (tmp_path / "runs" / f"a{seed}" / "result.json").unlink()
    (single,) = differences(matrix_below(tmp_path)).itertuples()
    assert single.p < several.p / 10


def test_rows_of_other_files_or_of_some_seeds_alone_are_not_paired(write_run, tmp_path, capsys):
    write_run("a", 1.0)
    write_run("bb", 1.15, fingerprint="g")
    write_run("ccc", 1.15, 1)
    write_run("ccc", 1.2, 2, keeps_rows=False)
    assert set(differences(matrix_below(tmp_path))["tested_by"]) == {"intervals"}
    write_run("dddd", 1.1)
    (tmp_path / "runs" / "dddd1" / ROWS_FILE).write_bytes(b"no parquet")
    assert set(differences(matrix_below(tmp_path))["tested_by"]) == {"intervals"}
    assert capsys.readouterr().err.count("not compared row by row") == 1


def test_rows_of_trained_weights_do_not_stand_for_those_before_training(write_run, tmp_path):
    folder = write_run("a", 1.0)
    made = Result.read(folder)
    made.untrained = {f"{COLUMN}/spearman": Score(0.5, 0.45, 0.55, COUNT)}
    made.write(folder)
    matrix = matrix_below(tmp_path)
    assert [row.label for row in matrix.rows] == ["untrained", "a"]
    assert list(differences(matrix)["tested_by"]) == ["intervals"]
    from juzhen.report.build import build_report
    from juzhen.report.compare import Reference

    report = build_report(
        collect(tmp_path, report=print), metric="spearman", reference=Reference([], []), audit=None
    )
    (drawn,) = page_data(report)["undecided"]
    assert [other["by"] for other in drawn["others"]] == ["intervals"]
