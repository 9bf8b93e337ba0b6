"""Scores of single rows: what a run leaves of them, and when they are taken for those of a result."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
from jobs import run_job

from juzhen.core.result import Result
from juzhen.core.row_scores import ROWS_FILE, RowScores, SetRows
from juzhen.metrics.correlation import spearman


def rows_of(count=3, *, kind="labelled_pair", **columns):
    places = {"row": np.arange(count, dtype=np.int32), "line": np.arange(2, count + 2, dtype=np.int32)}
    floats = {name: np.asarray(values, dtype=np.float32) for name, values in columns.items()}
    return SetRows(kind, "f1", places | floats)


def test_what_is_written_is_read_again_and_holds_no_text(tmp_path):
    sets = {
        "dev/a": rows_of(gold=[0, 1, 1], score=[0.1, 0.25, 0.5]),
        "test/b": rows_of(2, kind="retrieval", ndcg_at_10=[0.5, np.nan]),
    }
    RowScores("w", sets).write(tmp_path / ROWS_FILE)
    read = RowScores.read(tmp_path)
    assert (read.weights, list(read.sets)) == ("w", list(sets))
    for name, rows in sets.items():
        assert (read.sets[name].kind, read.sets[name].fingerprint) == (rows.kind, rows.fingerprint)
        pd.testing.assert_frame_equal(read.sets[name].frame, rows.frame)
    assert list(pd.read_parquet(tmp_path / ROWS_FILE)) == [
        "set",
        "row",
        "line",
        "gold",
        "score",
        "ndcg_at_10",
    ]


def test_further_sets_join_those_of_the_same_weights_alone():
    first = RowScores("w", {"dev/a": rows_of(score=[1, 2, 3])})
    further = {"dev/b": rows_of(score=[4, 5, 6])}
    assert list(first.with_sets("w", further).sets) == ["dev/a", "dev/b"]
    assert list(first.with_sets("other", further).sets) == ["dev/b"]


def test_a_run_leaves_the_scores_that_its_numbers_are_made_of(tmp_path, tiny_backbone):
    run = run_job(tmp_path, tiny_backbone, "dataset=[demo_qmc]", "loss=by_kind", "training.batch_size=16")
    result, kept = Result.read(run), RowScores.read(run)
    rows = kept.of(result)
    assert set(rows) == {"dev/demo_qmc", "test/demo_qmc"}
    for column, one in rows.items():
        assert len(one) == result.data[column]["rows"] == 48
        assert spearman(one["score"], one["gold"]) == result.scores[f"{column}/spearman"].value
        assert (one["line"] > 0).all()
    assert not replace(kept, weights="others").of(result)
    result.data["dev/demo_qmc"]["fingerprint"] = "others"
    assert set(kept.of(result)) == {"test/demo_qmc"}
    assert "rows" not in json.loads((run / "result.json").read_text())
