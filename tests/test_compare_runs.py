"""juzhen compare: runs on the same rows, against scipy's bootstrap, and on real jobs."""

import csv
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from pyarrow import parquet

from juzhen.calibration.run_scores import PairedRuns, differences, flips
from juzhen.cli.main import main
from juzhen.core.result import Result
from juzhen.core.row_scores import ROWS_FILE, RowScores, SetRows
from juzhen.metrics.comparison import Scored, flipped_rows, row_frame, worst_rows


def pairs(kind="labelled_pair", **columns):
    floats = {name: np.asarray(values, dtype=np.float32) for name, values in columns.items()}
    places = {name: np.arange(len(next(iter(floats.values()))), dtype=np.int32) for name in ("row", "line")}
    return SetRows(kind, "f", places | floats)


def drawn(count=300, *, kind="scored_pair"):
    draw = np.random.default_rng(7)
    gold = draw.random(count) if kind == "scored_pair" else draw.integers(0, 2, count)
    scores = gold + draw.normal(0, 0.4, (2, count)) * [[1.0], [0.7]]
    return [Scored(pairs(kind, gold=gold, score=one), threshold=0.5) for one in scores]


def correlation(first, other, gold, axis=-1):
    def of(scores):
        return scipy.stats.spearmanr(scores, gold).statistic

    return of(other) - of(first)


@pytest.mark.slow
def test_the_interval_of_a_correlation_is_that_of_scipy():
    first, other = drawn()
    (gap,) = differences(first, other, metric=None)
    data = (first.rows["score"], other.rows["score"], first.rows["gold"])
    assert gap.other - gap.first == pytest.approx(correlation(*data))
    theirs = scipy.stats.bootstrap(
        data, correlation, paired=True, vectorized=False, n_resamples=1000, method="percentile", rng=1
    ).confidence_interval
    width = theirs.high - theirs.low
    assert (gap.low, gap.high) == pytest.approx(theirs, abs=0.12 * width)
    alone = [scipy.stats.bootstrap(
        (data[place], data[2]), lambda s, g: scipy.stats.spearmanr(s, g).statistic, paired=True,
        vectorized=False, n_resamples=300, method="percentile", rng=1,
    ).confidence_interval for place in (0, 1)]  # fmt: skip
    assert gap.high - gap.low < sum(one.high - one.low for one in alone)


def test_the_interval_of_an_accuracy_is_that_of_scipy():
    first, other = drawn(kind="labelled_pair")
    gap = differences(first, other, metric="accuracy")[0]
    both = (first.right.astype(float), other.right.astype(float))
    theirs = scipy.stats.bootstrap(
        both, lambda a, b, axis=-1: b.mean(axis) - a.mean(axis), paired=True, n_resamples=2000,
        method="percentile", rng=1,
    ).confidence_interval  # fmt: skip
    assert gap.other - gap.first == pytest.approx(both[1].mean() - both[0].mean())
    assert (gap.low, gap.high) == pytest.approx(theirs, abs=0.15 * (theirs.high - theirs.low))


def test_a_run_beside_itself_differs_by_nothing():
    first, _ = drawn()
    (gap,) = differences(first, first, metric=None)
    assert (gap.points, gap.low, gap.high, gap.is_decided) == (0, 0, 0, False)


def test_rankings_are_compared_by_their_queries_and_lonely_rows_do_not_count():
    first = Scored(pairs("retrieval", ndcg_at_10=[0.1, 0.5, 0.9], mrr_at_10=[0, 1, 1]))
    other = Scored(pairs("retrieval", ndcg_at_10=[0.2, 0.6, 1.0], mrr_at_10=[1, 1, 1]))
    (gap,) = differences(first, other, metric=None)
    assert (gap.measure, gap.points) == ("ndcg_at_10", pytest.approx(10, abs=1e-4))
    assert not gap.is_decided, "three queries decide nothing"
    many = [
        Scored(pairs("retrieval", ndcg_at_10=np.tile(one.rows["ndcg_at_10"], 50))) for one in (first, other)
    ]
    assert differences(*many, metric=None)[0].is_decided
    (gap,) = differences(first, other, metric="mrr_at_10")
    assert gap.points == pytest.approx(100 / 3)
    alone = Scored(
        pairs("positive_pair", score=[1, 1, 1], other=[0, np.nan, 2], ranking_accuracy=[1, np.nan, 0])
    )
    assert differences(alone, alone, metric=None)[0].first == 0.5


def test_flips_are_the_rows_that_one_alone_has_right():
    gold = [1, 1, 0, 0, 1]
    first = Scored(pairs(gold=gold, score=[0.9, 0.2, 0.1, 0.8, 0.1]), threshold=0.5)
    other = Scored(pairs(gold=gold, score=[0.9, 0.8, 0.9, 0.1, 0.3]), threshold=0.5)
    assert flips(first, other)[:3] == (1, 2, 1)
    assert flips(first, other)[3] == scipy.stats.binomtest(1, 3).pvalue
    frame = row_frame({"A": first, "B": other}, {"text": list("abcde")})
    assert set(flipped_rows(frame, first, other)["row"]) == {1, 2, 3}
    assert worst_rows(frame)["row"].tolist() == [2, 4]
    assert frame["right: B"].tolist() == [1, 1, 0, 1, 0]
    assert frame["text"].tolist() == list("abcde")


def test_of_graded_pairs_the_ranks_that_moved_most_come_first():
    gold = np.linspace(0, 1, 5)
    first, other = (
        Scored(pairs("scored_pair", gold=gold, score=one)) for one in (gold, [0, 0.2, 0.9, 0.8, 0.4])
    )
    frame = row_frame({"A": first, "B": other}, {})
    assert first.error.tolist() == [0] * 5
    assert flipped_rows(frame, first, other)["row"].tolist()[0] in (2, 4)
    assert (frame["moved"] >= 0).all()


TEXTS = ("text_a", "text_b", "premise", "hypothesis")


def test_compare_shows_differences_settings_and_pairs_with_their_texts(two_runs, tmp_path, capsys):
    table, page = tmp_path / "rows.csv", tmp_path / "page.md"
    words = ["--sets", "demo_qmc", "--worst", "2", "--csv", str(table), "--markdown", str(page)]
    assert main(["compare", *map(str, two_runs), *words]) == 0
    printed = capsys.readouterr().out
    told = (
        "demo_qmc, cosent",
        "demo_qmc, cosine",
        "loss.name",
        "Spearman",
        "Decisions",
        "McNemar",
        "about 90 %",
    )
    for text in told:  # of 48 rows each
        assert text in printed
    assert "Worst of B, demo_qmc (test)" in page.read_text()
    results = [Result.read(run).scores["test/demo_qmc/spearman"].value for run in two_runs]
    assert f"{100 * results[0]:.1f}" in printed
    with table.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 48
    kept = RowScores.read(two_runs[0]).sets["test/demo_qmc"]
    assert [float(row["score: A"]) for row in rows] == pytest.approx(kept["score"].tolist(), abs=1e-6)
    lines = (runs_file(Result.read(two_runs[0]))).read_text(encoding="utf-8").splitlines()
    for row in rows:
        assert lines[int(row["line"]) - 1].split("\t")[:2] == [row["text_a"], row["text_b"]]


def test_the_file_of_rows_has_their_texts_where_no_pairs_are_listed(two_runs, tmp_path):
    table = tmp_path / "rows.csv"
    assert main(["compare", *map(str, two_runs), "--worst", "0", "--csv", str(table)]) == 0
    with table.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len({row["set"] for row in rows}) > 3  # more than are listed without --sets
    assert all(sum(bool(row[name]) for name in row if name in TEXTS) >= 2 for row in rows)


def runs_file(result):
    from juzhen.core.paths import PACKAGE

    return PACKAGE / "builtin" / "data" / "demo_qmc" / "test.tsv"


def test_nothing_is_computed_where_rows_were_kept_and_other_rows_are_not_compared(
    two_runs, tmp_path, capsys, monkeypatch
):
    import juzhen.families.registry

    monkeypatch.setattr(juzhen.families.registry, "PairScorer", None)
    assert PairedRuns(two_runs, data_dir=None, batch_tokens=512).scored("dev/demo_qmc")
    copy = tmp_path / "copy"
    shutil.copytree(two_runs[1], copy)
    (copy / ROWS_FILE).unlink()
    assert main(["compare", str(two_runs[0]), str(copy), "--sets", "demo_qmc"]) == 0
    assert "no scores of single rows in" in capsys.readouterr().out
    content = json.loads((copy / "result.json").read_text())
    content["weights"] = "of others"
    (copy / "result.json").write_text(json.dumps(content))
    shutil.copy(two_runs[1] / ROWS_FILE, copy / ROWS_FILE)
    assert not RowScores.read(copy).of(Result.read(copy))


def test_the_main_metric_of_a_set_is_that_of_its_kind_whatever_sets_are_in_the_file(tmp_path):
    """A file orders columns by its first set."""
    query = pairs("retrieval", ndcg_at_10=[1, 0], recall_at_10=[1, 1], map_at_100=[1, 0])
    found = {key: [0.5, 1.0] for key in ("score", "other", "recall_at_1", "recall_at_10", "mrr")}
    sets = {"dev/search": query, "dev/faq": pairs("positive_pair", **found)}
    RowScores("w", sets).write(tmp_path / ROWS_FILE)
    read = {name: Scored(rows) for name, rows in RowScores.read(tmp_path).sets.items()}
    assert {name: scored.measures[0] for name, scored in read.items()} == {
        "dev/search": "ndcg_at_10",
        "dev/faq": "recall_at_1",
    }
    assert differences(read["dev/faq"], read["dev/faq"], metric=None)[0].measure == "recall_at_1"


def changed(folder, **columns):
    """Write the file of a run again with other columns: name → array → array."""
    kept = RowScores.read(folder)
    sets = {
        name: replace(
            rows, columns={**rows.columns, **{key: make(rows[key]) for key, make in columns.items()}}
        )
        for name, rows in kept.sets.items()
    }
    replace(kept, sets=sets).write(folder / ROWS_FILE)


@pytest.mark.parametrize("damage", ["other order", "no number", "no scores", "rows missing"])
def test_rows_that_are_not_those_of_the_result_are_named_and_not_compared(damage, two_runs, tmp_path, capsys):
    runs = [tmp_path / "runs" / run.name for run in two_runs]
    for run, copy in zip(two_runs, runs, strict=True):
        shutil.copytree(run, copy)
    if damage == "other order":
        changed(runs[1], score=lambda scores: scores[::-1])
    elif damage == "rows missing":
        table = parquet.read_table(runs[1] / ROWS_FILE)
        parquet.write_table(table.slice(3), runs[1] / ROWS_FILE)
    else:
        lost = slice(None) if damage == "no scores" else slice(2, 3)
        changed(runs[1], score=lambda scores: with_nan(scores, lost))
    assert main(["compare", *map(str, runs), "--sets", "demo_qmc"]) == 2
    told = capsys.readouterr().err
    assert f"{runs[1] / ROWS_FILE}" in told
    assert "Traceback" not in told
    assert main(["table", str(runs[0].parent)]) == 0
    told = capsys.readouterr().err
    assert f"not compared row by row: {runs[1] / ROWS_FILE}" in told


def with_nan(scores, place):
    lost = scores.copy()
    lost[place] = np.nan
    return lost
