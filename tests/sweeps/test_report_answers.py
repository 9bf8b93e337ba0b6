import math
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from report_fixture import AUDIT, matrix_of, report_of, scored, small_picture, write_reference
from scipy.stats import norm, spearmanr, ttest_rel

from juzhen.core.errors import UserError
from juzhen.core.result import Score
from juzhen.report.collect import collect
from juzhen.report.compare import Published, load_reference
from juzhen.report.significance import (
    ALL,
    CENTRED,
    clustered,
    complementary_pairs,
    differences,
    greedy_order,
    shape_fidelity,
)
from juzhen.report.training import Audit

SETS = ("csts", "lcqmc", "bq", "pawsx_zh")


@pytest.fixture
def made(make_result):
    """A row of a single seed: trained on, percents of csts, lcqmc, bq, pawsx_zh."""
    return lambda trained_on, *percents, **more: make_result(
        list(trained_on), scored(*percents), schedule="serial", **more
    )


def test_interval_test_is_the_one_of_the_formula(made):
    found = differences(matrix_of([made(["a"], 50, 50, 50, 50), made(["b"], 53, 50, 50, 50)]))
    error = [(np.arctanh(m + 0.02) - np.arctanh(m - 0.02)) / (2 * 1.959964) for m in (0.50, 0.53)]
    z = (np.arctanh(0.53) - np.arctanh(0.50)) / np.hypot(*error)
    (one,) = found[found["column"] == "dev/csts"].itertuples()
    assert one.tested_by == "intervals"
    assert one.p == pytest.approx(2 * norm.sf(z), rel=1e-6)
    assert one.points == pytest.approx(-3)


def test_holm_multiplies_by_the_number_of_tests_that_are_left(made):
    report = report_of([made(["a"], 50, 50, 50, 50), made(["b"], 60, 54, 53, 50)])
    ordered = report.differences.sort_values("p")
    expected, largest = [], 0.0
    for rank, p in enumerate(ordered["p"]):
        largest = max(largest, min(1, p * (4 - rank)))
        expected.append(largest)
    assert list(ordered["p_holm"]) == pytest.approx(expected)
    assert list(ordered["verdict"]) == ["lower", "lower", "undecided", "undecided"]
    assert report.table("significance").body == [("a", "0", "2", "2", "0"), ("b", "2", "0", "2", "0")]


def test_spread_over_seeds_makes_a_test_more_careful(made):
    def p_of(spread):
        seeds = [made(["a"], 50 + step, 50, 50, 50, seed=i) for i, step in enumerate((-spread, 0, spread))]
        found = differences(matrix_of([*seeds, made(["b"], 56, 50, 50, 50)]))
        return found.set_index("column")["p"]["dev/csts"]

    assert p_of(0.001) < p_of(1) < p_of(4)


def test_without_intervals_seeds_are_paired_if_there_are_three(make_result):
    values = {"a": (0.50, 0.52, 0.51), "b": (0.54, 0.55, 0.56)}

    def p_of(count):
        results = [
            make_result([name], {"dev/csts/spearman": one}, seed=seed)
            for name, seeds in values.items()
            for seed, one in enumerate(seeds[:count])
        ]
        return differences(matrix_of(results)).iloc[0]

    assert p_of(3).tested_by == "seeds"
    assert p_of(3).p == pytest.approx(ttest_rel(*values.values()).pvalue)
    assert (math.isnan(p_of(2).p), p_of(2).verdict) == (True, "not tested")


def published(table):
    return [
        Published("them", "", "", "", row, "dev", name, "spearman", percent)
        for row, percents in table.items()
        for name, percent in zip(SETS, percents, strict=True)
    ]


@pytest.mark.slow
def test_shape_is_the_rank_correlation_of_shared_cells(made):
    ours = {"a": (80, 50, 30, 10), "b": (70, 60, 45, 8), "c": (60, 40, 20, 30), "d": (75, 45, 35, 5)}
    theirs = {"a": (82, 41, 32, 9), "b": (75, 66, 40, 11), "c": (55, 48, 10, 51), "x": (1, 1, 1, 1)}
    theirs["d"] = (74, 39, 38, 7)
    matrix = matrix_of([made([name], *percents) for name, percents in ours.items()])
    found = {one.scope: one for one in shape_fidelity(matrix, published(theirs)).itertuples()}
    a = np.array([ours[name] for name in ours], float)
    b = np.array([theirs[name] for name in ours], float)
    assert found[ALL].cells == 16
    assert found[ALL].value == pytest.approx(spearmanr(a.ravel(), b.ravel()).statistic)
    centred = spearmanr((a - a.mean(0)).ravel(), (b - b.mean(0)).ravel()).statistic
    assert found[CENTRED].value == pytest.approx(centred)
    assert found["dev/csts"].value == pytest.approx(spearmanr(a[:, 0], b[:, 0]).statistic)
    assert found[ALL].low < found[ALL].value < found[ALL].high
    assert found[ALL].low > 0.5


def test_shape_of_another_metric_or_of_nothing_shared_is_silent(made):
    matrix = matrix_of([made(["a"], 80, 50, 30, 10)])
    numbers = published({"a": (1, 2, 3, 4)})
    assert shape_fidelity(matrix, [replace(one, metric="accuracy") for one in numbers]).empty
    assert shape_fidelity(matrix, published({"b": (1, 2, 3, 4)})).empty


def test_greedy_takes_the_best_row_then_what_adds_most(made):
    results = [made(["a"], 80, 60, 30, 5), made(["b"], 78, 62, 31, 3), made(["c"], 10, 10, 10, 60)]
    matrix = matrix_of(results)
    columns = [f"dev/{name}" for name in SETS]
    steps = greedy_order(matrix, matrix.rows, columns)
    assert list(steps["added"]) == ["a", "c", "b"]
    assert list(steps["gain"]) == pytest.approx([0, 55 / 4, 3 / 4])
    assert steps["improves"][1] == ["dev/pawsx_zh"]
    assert greedy_order(matrix, [], columns).empty


def test_a_pair_shows_what_a_row_of_both_really_gained(made):
    singles = [made(["a"], 80, 60, 30, 5), made(["b"], 60, 70, 30, 5)]
    both = made(["b", "a"], 82, 66, 30, 5, stage=1)
    matrix = matrix_of([*singles, both])
    (pair,) = complementary_pairs(matrix, matrix.rows[:2], [f"dev/{name}" for name in SETS]).itertuples()
    assert pair.best_of == pytest.approx(10 / 4)
    assert pair.observed == pytest.approx(8 / 4)
    assert pair.joint == "b → a"


def test_alike_rows_and_columns_come_to_stand_side_by_side(made):
    results = [made([], 50, 40, 30, 9), made(["a"], 80, 60, 30, 5), made(["b"], 20, 20, 40, 50)]
    results += [made(["c"], 81, 62, 33, 4), made(["d"], 22, 23, 44, 55)]
    rows, columns = clustered(
        matrix_of(results), [f"dev/{name}" for name in ("csts", "pawsx_zh", "lcqmc", "bq")]
    )
    order = [row.label for row in rows]
    assert order[-1] == "untrained"
    assert abs(order.index("a") - order.index("c")) == 1
    assert abs(order.index("b") - order.index("d")) == 1
    assert abs(columns.index("dev/csts") - columns.index("dev/lcqmc")) == 1
    assert abs(columns.index("dev/pawsx_zh") - columns.index("dev/bq")) == 1


def test_leaks_are_found_only_for_the_rows_that_were_audited(make_result):
    (row,) = [one for one in matrix_of(small_picture(make_result), Audit(AUDIT)).rows if one.label == "lcqmc"]
    leak = row.cells["dev/bq"].leak
    assert (leak.source, leak.rows, leak.share, row.cells["dev/bq"].is_leaky) == ("lcqmc", 400, 0.04, True)
    assert row.cells["dev/lcqmc"].leak.rows == 0
    assert row.cells["dev/pawsx_zh"].leak is None
    other = {**AUDIT, "sets": AUDIT["sets"] | {"bq/dev": {"rows": 10000, "fingerprint": "of others"}}}
    (row,) = [one for one in matrix_of(small_picture(make_result), Audit(other)).rows if one.label == "lcqmc"]
    assert row.cells["dev/bq"].leak is None


@pytest.mark.parametrize(("is_filtered", "rows"), [(True, 0), (False, 400)])
def test_rows_that_were_left_out_do_not_leak(make_result, is_filtered, rows):
    results = [make_result(["lcqmc"], scored(75, 78, 52, 8), evaluate={}, filter_leaks=is_filtered)]
    assert matrix_of(results, Audit(AUDIT)).rows[0].cells["dev/bq"].leak.rows == rows


def test_a_joined_set_is_in_domain_and_leaks_by_its_parts(make_result):
    def node(*files):
        return {"layout": "tsv", "layouts": {"tsv": {"files": {"train": list(files)}}}}

    joined = {
        "dataset": {"both": node("l/train.tsv", "o/train.tsv")},
        "evaluate": {"lcqmc": node("l/train.tsv")},
    }
    (row,) = matrix_of([make_result(["both"], scored(75, 78, 52, 8), **joined)], Audit(AUDIT)).rows
    assert [column for column, cell in row.cells.items() if cell.in_domain] == ["dev/lcqmc"]
    assert row.cells["dev/bq"].leak.source == "lcqmc"


def test_a_source_in_its_own_names_is_translated_and_what_is_unknown_is_named(tmp_path):
    reference = load_reference(write_reference(tmp_path / "reference"))
    found = {(one.trained_on, one.split, one.dataset): one.percent for one in reference.numbers}
    assert found["lcqmc", "dev", "csts"] == 78.42
    assert found["lcqmc", "dev", "lcqmc"] == 78.90
    assert found["lcqmc>csts", "dev", "bq"] == 50.10
    assert found["", "dev", "lcqmc"] == 1.00
    assert reference.unknown == ["mystery", "somewhere"]
    (tmp_path / "own.csv").write_text(
        "table,model,setup,trained_on,split,dataset,metric,percent\nt,m,s,a>b,test,c,spearman,12.5\n"
    )
    (number,) = load_reference(tmp_path).numbers
    assert number == Published("own", "t", "m", "s", "a>b", "test", "c", "spearman", 12.5), "our names stay"


def test_the_shared_reference_is_the_shipped_one_in_other_words():
    folder = Path(os.environ.get("JUZHEN_DATA", "nowhere")).parent / "reference"
    if not folder.is_dir():
        pytest.skip("published numbers as first transcribed: a folder `reference` beside JUZHEN_DATA")
    theirs = [one for one in load_reference(folder).numbers if one.source == "published_transfer"]
    shipped = [one for one in load_reference(None).numbers if one.source == "chinese_transfer"]
    keys = ("trained_on", "split", "dataset", "metric", "percent")

    def told(numbers):
        return sorted(tuple(getattr(one, key) for key in keys) for one in numbers if one.trained_on)

    assert told(theirs) == told(shipped)


def test_an_average_of_sets_is_a_column_but_counts_in_no_mean(made):
    result = made(["csts"], 80, 50, 30, 10)
    result.data = {f"dev/{name}": {"fingerprint": name} for name in SETS}
    result.scores["dev/all_mean/spearman"] = Score(0.9)
    report = report_of([result])
    assert "dev/all_mean" in report.matrix.columns
    (line,) = report.table("averages").body
    assert line[1:5] == ("80.0", "1", "30.0", "3")


def test_intervals_of_several_seeds_are_the_mean_of_their_bounds(make_result):
    scores = (Score(0.5, 0.4, 0.6, 10), Score(0.6, 0.5, 0.8, 10))
    results = [
        make_result(["csts"], {"dev/csts/spearman": one}, seed=seed)
        for seed, one in enumerate(scores, start=1)
    ]
    (row,) = matrix_of(results).rows
    cell = row.cells["dev/csts"]
    assert (cell.low, cell.high) == pytest.approx((0.45, 0.7))
    assert cell.values == {1: 0.5, 2: 0.6}
    assert cell.count == 10


def test_rows_named_by_a_sweep_are_explained_and_others_need_it_not(make_result):
    def report(**config):
        results = [make_result(["csts"], scored(80, 50, 30, 10), **config)]
        return report_of(results)

    named = report(sweep_row="csts-base")
    assert named.table("rows").body == [("csts-base", "csts", "cosent", "biencoder")]
    assert [row.label for row in named.matrix.rows] == ["csts-base"]
    assert "rows" not in [table.key for table in report().tables]


def test_runs_on_a_set_of_a_user_alone_ask_only_what_they_can_answer(make_result):
    """Two losses on one set: no target, pair or next stage to choose, and no source that could have a number."""
    results = [
        make_result(["faq"], {"test/faq/spearman": value}, loss={"name": name, "_target_": f"losses.{name}"})
        for name, value in (("cosent", 0.6), ("cosine", 0.7))
    ]
    report = report_of(results, reference=load_reference(None))
    bodies = {table.key: table.body for table in report.tables}
    assert [bodies[key] for key in ("targets", "pairs", "greedy")] == [[], [], []]
    assert "unlike" not in bodies
    # Of a set that sources score it is told that they have no such training.
    report = report_of([make_result(["faq"], {"test/lcqmc/spearman": 0.5})], reference=load_reference(None))
    assert "no source has this training (faq)" in report.table("unlike").body[0][-1]


def test_goals_stand_beside_the_best_row_of_their_like_and_are_no_reference(make_result):
    results = [
        make_result([name], {"dev/stsb_en/spearman": value})
        for name, value in (("stsb_en", 0.8), ("x", 0.84))
    ]
    results += [
        make_result(
            ["wiki1m"],
            {"dev/stsb_en/spearman": 0.86},
            model="lightning_modules.cot.CotEncoder",
            init_from="mlm",
        )
    ]
    report = report_of(results, reference=load_reference(None))
    goals = {line[1]: line for line in report.table("claims").body}
    assert goals["two_stage_cot: expected results, two stages"][:1] == ("spearman at least 85",)
    assert goals["two_stage_cot: expected results, two stages"][2:6] == (
        "mlm → wiki1m",
        "stsb_en (dev)",
        "86.0",
        "reached",
    )
    assert goals["embedding_chapter: 5.7 pipeline, text-embedding-ada-002"][2:6] == (
        "x",
        "stsb_en (dev)",
        "84.0",
        "1.0 short",
    )
    assert not any("temperature" in place or "pooling" in place for place in goals)  # not in the paper named
    assert goals["stsb_design: 1 overview, bert-base-uncased"][2:6] == (
        "—",
        "stsb_en (dev)",
        "—",
        "no similar row; nearest: stsb_en, which differs in loss",
    )
    assert [table.key for table in report.tables if table.key.startswith("published-")] == []


def test_a_score_whose_square_no_number_holds_is_not_read(make_result, tmp_path):
    made = make_result(["csts"], {"dev/csts/spearman": 1e308})
    (tmp_path / "run").mkdir()
    made.write(tmp_path / "run")
    told = []
    with suppress(UserError):
        collect(tmp_path, report=told.append)
    assert "spearman" in told[0]
