"""`juzhen.evaluate` on rows and files of one's own, by any encoder; and what `fit(dev=…)` says and leaves."""

import csv
import json

import numpy as np
import pytest

import juzhen
from juzhen import CrossEncoder, SentenceEncoder, evaluate, fit
from juzhen.cli.main import main
from juzhen.core.errors import UserError
from juzhen.data.rankings import RankingSet
from juzhen.evaluation.settings import EvaluationSettings

FAQ = [
    ("怎么退货", "东西想退掉"),
    ("怎么退货", "退货流程是什么"),
    ("多久发货", "什么时候能寄出"),
    ("多久发货", "几天发货"),
    ("能开发票吗", "要发票"),
    ("会员怎么取消", "不想续费了"),
]
LABELLED = [(a, b, 1) for a, b in FAQ] + [
    (a, b, 0) for (a, _), (_, b) in zip(FAQ, FAQ[3:] + FAQ[:3], strict=True)
]
GRADED = [(a, b, number / 12) for number, (a, b, _) in enumerate(LABELLED)]
TRIPLETS = [(a, b, other) for (a, b), (other, _) in zip(FAQ, FAQ[2:] + FAQ[:2], strict=True)]


@pytest.fixture(scope="module")
def encoder():
    return SentenceEncoder.load("builtin/mini_zh")


def speaking(found):
    return str(found).splitlines()[2].split(" | ")[1]


@pytest.mark.parametrize(
    ("rows", "measure", "title"),
    [
        (FAQ, "recall_at_1", "R@1"),
        (LABELLED, "spearman", "spearman"),
        (GRADED, "spearman", "spearman"),
        (TRIPLETS, "triplet_accuracy", "triplet accuracy"),
    ],
)
def test_rows_of_each_kind_have_value_interval_and_count(encoder, rows, measure, title):
    found = evaluate(encoder, rows)
    score = found.scores[f"dev/rows/{measure}"]
    assert score.low <= score.value <= score.high
    assert score.count == len(rows)
    assert speaking(found) == title
    assert f"{score.value:.4f}" in str(found)


@pytest.mark.parametrize("rows", [FAQ[:1], FAQ[:2]])
def test_rows_without_a_second_answer_have_no_score(encoder, rows):
    scores = evaluate(encoder, rows).scores.values()
    assert {score.value for score in scores} == {None}


def test_labelled_rows_have_a_threshold_that_was_not_fitted_on_the_rows_it_judges(encoder):
    found = evaluate(encoder, LABELLED)
    assert 0 <= found.scores["dev/rows/accuracy"].value <= 1
    assert found.thresholds["rows"].judged_on == "halves of dev"
    assert f"rows: same from {found.thresholds['rows'].value:.4f} on" in str(found)


def test_a_file_named_columns_and_dicts_are_the_same_rows(encoder, tmp_path):
    path = tmp_path / "faq.csv"
    with path.open("w", encoding="gbk", newline="") as file:
        csv.writer(file).writerows([("编号", "标准问", "相似问"), *((n, *row) for n, row in enumerate(FAQ))])
    expected = evaluate(encoder, FAQ).scores["dev/rows/mrr"]
    assert evaluate(encoder, str(path)).scores["dev/faq/mrr"] == expected
    assert evaluate(encoder, path).scores["dev/faq/mrr"] == expected
    columns = {"anchor": "标准问", "positive": "相似问"}
    assert evaluate(encoder, [path], columns=columns).scores["dev/faq/mrr"] == expected
    named = [dict(zip(columns.values(), row, strict=True)) for row in FAQ]
    assert evaluate(encoder, named).scores["dev/rows/mrr"] == expected
    both = evaluate(encoder, ["demo_sts", path], settings=EvaluationSettings(debug_rows=6))
    assert {key.split("/")[1] for key in both.scores} == {"demo_sts", "faq"}


def test_the_verb_scores_files_as_the_function_does(tmp_path):
    files = [tmp_path / "faq.csv", tmp_path / "同义.csv"]
    for file, rows in zip(files, (FAQ, LABELLED), strict=True):
        with file.open("w", encoding="gbk", newline="") as opened:
            csv.writer(opened).writerows([("标准问", "相似问", "是否同义")[: len(rows[0])], *rows])
    assert main(["evaluate", "builtin/mini_zh", *map(str, files), "--out", str(tmp_path / "out")]) == 0
    printed = json.loads((tmp_path / "out" / "encoders.json").read_text())["builtin/mini_zh"]
    found = evaluate("builtin/mini_zh", files).scores
    for name in ("dev/faq/mrr", "dev/同义/spearman", "dev/同义/accuracy"):
        assert printed[name]["value"] == pytest.approx(found[name].value)
        assert printed[name]["count"] == found[name].count
    (tmp_path / "lines.txt").write_text("怎么退货\n如何退货\n", encoding="utf-8")
    assert main(["evaluate", "builtin/mini_zh", str(tmp_path / "lines.txt")]) == 2  # nothing can be scored


def test_files_called_dev_and_test_are_splits_of_the_set_of_their_folder(encoder, tmp_path):
    """As `juzhen dataset` writes them: the threshold is fitted on dev and judged on test."""
    folder = tmp_path / "faq"
    folder.mkdir()
    for name, rows in (("dev.csv", LABELLED), ("test.csv", LABELLED[::-1])):
        with (folder / name).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("text_a", "text_b", "label"), *rows])
    found = evaluate(encoder, [folder / "dev.csv", folder / "test.csv"])
    assert found.scores["dev/faq/spearman"].value == pytest.approx(found.scores["test/faq/spearman"].value)
    assert found.thresholds["faq"].judged_on == "test"
    assert found.scores["test/faq/accuracy"].value == found.thresholds["faq"].accuracy
    alone = evaluate(encoder, folder / "test.csv")
    assert "dev split" in alone.scores["test/faq/accuracy"].why


def test_whatever_gives_vectors_is_scored(encoder):
    class Theirs:
        def encode(self, texts):
            assert isinstance(texts, list)
            return encoder.encode(texts, convert_to_tensor=True)

    expected = evaluate(encoder, FAQ).scores
    for other in (Theirs(), lambda texts: encoder.encode(texts).tolist()):
        scores = evaluate(other, FAQ).scores
        assert scores["dev/rows/recall_at_1"] == expected["dev/rows/recall_at_1"]
        assert scores["dev/rows/positive_score"].value == pytest.approx(
            expected["dev/rows/positive_score"].value
        )


def test_their_queries_and_documents_are_read_by_their_methods():
    class Theirs:
        def encode(self, texts):
            raise AssertionError("queries and documents alone are read here")

        def encode_query(self, texts):
            return np.eye(3)[[int(text[1]) for text in texts]]

        def encode_document(self, texts):
            return np.eye(3)[[(int(text[1]) + 1) % 3 for text in texts]]

    ranking = RankingSet("mine", "test", ["q0", "q1"], ["d0", "d1", "d2"], [{2: 1.0}, {2: 1.0}])
    scores = evaluate(Theirs(), ranking).scores
    # d2 is the nearest of q0; of q1 d0 is, and the two others are equal behind it.
    assert scores["test/mine/mrr_at_10"].value == pytest.approx((1 + (1 / 2 + 1 / 3) / 2) / 2)


def test_texts_with_classes_and_a_cross_encoder(encoder):
    texts = [(f"足球比赛{n}", "体育") for n in range(6)] + [(f"手机电脑{n}", "科技") for n in range(6)]
    named = [{"text": text, "label": label} for text, label in texts]
    assert evaluate(encoder, named).scores["dev/rows/transfer_accuracy"].value > 0.5
    pairs = CrossEncoder(
        SentenceEncoder.load("builtin/mini_zh"), outputs=1, segments=False, symmetric=False, seed=0
    )
    found = evaluate(pairs.eval(), FAQ)
    assert found.scores["dev/rows/ranking_accuracy"].count == len(FAQ)
    assert "dev/rows/recall_at_1" not in found.scores


@pytest.mark.parametrize(
    ("rows", "measure"), [(FAQ, "recall_at_1"), (LABELLED, "spearman"), (TRIPLETS, "triplet_accuracy")]
)
@pytest.mark.sampled(3)
def test_fit_says_what_dev_was_and_became_and_leaves_a_threshold(rows, measure, tmp_path, capsys):
    start = SentenceEncoder.load("builtin/mini_zh")
    before = evaluate(start, rows).scores[f"dev/rows/{measure}"]
    loss = "cosent" if measure == "spearman" else "info_nce"
    encoder = fit(start, rows, loss=loss, dev=rows, epochs=2, batch_size=4, learning_rate=1e-3)
    scores = encoder.fit_scores
    assert scores.metric == f"dev/rows/{measure}"
    assert scores.before.scores[scores.metric] == before
    after = evaluate(encoder, rows)
    assert scores.after.scores[scores.metric] == after.scores[scores.metric]
    line = capsys.readouterr().err.strip().splitlines()[-1]
    for value in (before.value, after.scores[scores.metric].value, encoder.threshold()):
        assert f"{value:.4f}" in line
    assert encoder.threshold() == encoder.threshold("rows") == after.thresholds["rows"].value
    assert encoder.is_same(rows[0][0], rows[0][1]) is bool(
        encoder.score(rows[0][0], rows[0][1]) >= encoder.threshold()
    )
    kept = SentenceEncoder.load(encoder.save(tmp_path / "saved"))
    assert kept.threshold() == encoder.threshold()
    fit(encoder, rows, loss=loss, epochs=1, learning_rate=1e-3)  # other weights, and nobody has measured them
    with pytest.raises(UserError, match="juzhen calibrate"):
        encoder.threshold()
    assert not (encoder.save(tmp_path / "again") / "thresholds.json").exists()


def test_fit_without_dev_is_silent(capsys):
    encoder = fit("builtin/mini_zh", FAQ, loss="info_nce", epochs=1)
    assert encoder.fit_scores is None
    assert capsys.readouterr().err == ""
    fit("builtin/mini_zh", FAQ, loss="info_nce", epochs=1, dev=FAQ, progress=False)
    assert capsys.readouterr().err == ""


def test_the_package_offers_it():
    assert juzhen.evaluate is evaluate


@pytest.mark.parametrize("names", [("标准问", "相似问"), ("standard_question", "user"), ("q", "paraphrase")])
def test_the_header_of_positive_pairs_names_what_is_searched(names):
    """With as many texts in both columns, their order in the file changes nothing."""
    rows = [dict(zip(names, pair, strict=True)) for pair in SWAPPED]
    turned = [dict(reversed(row.items())) for row in rows]
    first, second = (juzhen.evaluate("builtin/mini_zh", given).scores for given in (rows, turned))
    assert {key: score.value for key, score in first.items()} == {
        key: score.value for key, score in second.items()
    }
    unnamed = [dict(zip(("b", "a"), row.values(), strict=True)) for row in turned]
    with pytest.warns(UserWarning, match="a are the queries, and b is searched"):
        other = juzhen.evaluate("builtin/mini_zh", unnamed).scores
    assert other["dev/rows/recall_at_1"].value != first["dev/rows/recall_at_1"].value


SWAPPED = [
    ("怎么退货", "东西不想要了怎么退"),
    ("什么时候发货", "几天能发出来"),
    ("如何开发票", "发票怎么开"),
    ("怎么改地址", "收货地址写错了"),
    ("能便宜点吗", "有没有优惠"),
    ("怎么付款", "可以用微信付吗"),
    ("质量怎么样", "东西好不好"),
    ("有保修吗", "坏了能修吗"),
]
