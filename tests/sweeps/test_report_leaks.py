"""Leaks that runs counted themselves, and scores without them, in a report."""

import csv
import io
from dataclasses import replace

import pytest
from report_fixture import AUDIT, COUNTS, counted, matrix_of, report_of, scored

from juzhen.core.result import Score
from juzhen.report.build import markdown
from juzhen.report.page import html
from juzhen.report.table import to_csv
from juzhen.report.training import Audit

REST = Score(0.48, 0.46, 0.50, 9500)


@pytest.fixture
def made(make_result):
    """A run on lcqmc, of which the audit says that it has 400 rows of bq."""

    def make(by_set=None, rest=None, column="dev/bq", **more):
        result = make_result(["lcqmc"], scored(75, 78, 52, 8), **more)
        result = replace(result, data={one: {"fingerprint": f"of {one.split('/')[1]}"} for one in COUNTS})
        return result if by_set is None else counted(result, column, by_set, rest)

    return make


def entry_of(*results, column="dev/bq"):
    (row,) = matrix_of(results, Audit(AUDIT)).rows
    return row.cells[column]


def test_what_a_run_counted_goes_before_the_audit(made):
    leak = entry_of(made({"lcqmc": 50}, REST)).leak
    assert (leak.rows, leak.share, leak.source, leak.is_counted, leak.is_marked) == (
        50,
        0.005,
        "lcqmc",
        True,
        False,
    )
    assert (leak.unseen, leak.score) == (REST, 0.52)
    audited = entry_of(made()).leak
    assert (audited.rows, audited.is_counted, audited.unseen) == (400, False, None)
    assert entry_of(made({})).leak.rows == 0  # nothing was seen, and the run has looked


def test_the_score_of_the_cell_stays_that_of_all_rows(made):
    entry = entry_of(made({"lcqmc": 500}, REST))
    assert (entry.mean, entry.count, entry.is_leaky) == (0.52, 10000, True)
    matrix = matrix_of([made({"lcqmc": 500}, REST)])
    assert matrix.columns == sorted(COUNTS)


def test_seeds_are_averaged_when_all_of_them_counted(made):
    one, other = (
        made({"lcqmc": 400}, REST),
        made({"lcqmc": 500}, replace(REST, value=0.50, count=9400), seed=2),
    )
    leak = entry_of(one, other).leak
    assert (leak.rows, leak.share) == (450, 0.045)
    assert (leak.unseen.value, leak.unseen.count) == (pytest.approx(0.49), 9450)
    assert not entry_of(one, made(seed=2)).leak.is_counted


def test_a_later_scoring_of_other_rows_makes_the_count_void(made):
    later = made(finished_at="2026-02-01T00:00:00+00:00")
    assert entry_of(made({"lcqmc": 500}, REST), later).leak.is_counted
    others = replace(later, data=later.data | {"dev/bq": {"fingerprint": "of others"}})
    assert entry_of(made({"lcqmc": 500}, REST), others).leak is None


@pytest.mark.parametrize(
    ("rest", "words"),
    [(Score(None, count=0), "no row left"), (Score(None, count=7), "undefined"), (None, "—")],
)
def test_a_rest_without_a_score_is_said_in_words(made, rest, words):
    results = [made({"lcqmc": 10000}, rest)]
    report = report_of(results)
    line = ("lcqmc", "bq (dev)", "lcqmc", "10,000", "100.0", "52.0", words, "run")
    assert report.table("leaks").body == [line]


def test_page_markdown_and_csv_have_both_scores(made):
    results = [made({"lcqmc": 500}, REST)]
    report = report_of(results, audit=Audit(AUDIT))
    page = html(report, title="Transfer")
    assert '"leak":"500 rows, 5.0 %, from lcqmc, counted by the run"' in page
    assert '"unseen":"48.0 [46.0, 50.0] on 9,500 rows, with them 52.0"' in page
    line = "| lcqmc | bq (dev) | lcqmc | 500 | 5.0 | 52.0 | 48.0 [46.0, 50.0] | run |"
    assert line in markdown(report)
    (cell,) = [one for one in csv.DictReader(io.StringIO(to_csv(report.matrix))) if one["dataset"] == "bq"]
    assert (cell["leaky_rows"], cell["leaky_share"], cell["leaks_counted_by"]) == ("500", "0.05", "run")
    assert (cell["mean"], cell["without_leaks"], cell["without_leaks_count"]) == ("0.52", "0.48", "9500")
