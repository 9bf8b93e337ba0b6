"""The page of results/decide, and what ships of it, follow from the archive."""

import pandas as pd

from juzhen.advice.search import GAINS, expected_gain, stored_gains
from tools.archives import unpacked
from tools.decide_page import FOLDER, collect, matrix, rounded


def test_shipped_gains_are_those_of_the_page():
    assert GAINS.read_bytes() == (FOLDER / GAINS.name).read_bytes()
    assert expected_gain("bq", "bq") > 5
    assert expected_gain("bq", "a set of mine") == stored_gains().loc["bq"].mean()


def test_scores_of_the_page_are_those_of_the_archive():
    scores = rounded(collect(unpacked() / "decide" / "runs"))
    kept = pd.read_csv(FOLDER / "scores.csv")
    pd.testing.assert_frame_equal(scores.reset_index(drop=True), kept, check_exact=True)


def test_cells_whose_rows_leak_are_left_out():
    lines = [("atec", "afqmc", 1.0), ("atec", "bq", 2.0), ("bq", "bq", 3.0), ("bq", "afqmc", 4.0)]
    table = matrix(pd.DataFrame(lines, columns=["source", "target", "score"]))
    assert table.isna().to_dict() == {
        "afqmc": {"atec": True, "bq": False},
        "bq": {"atec": False, "bq": False},
    }
