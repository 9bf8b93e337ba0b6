"""Verbs read tables alike: formats, sheets, columns by name or by number, cells of several texts, faulty rows."""

import csv
import json

import numpy as np
import pytest

from juzhen.cli.main import main
from juzhen.encoders import SentenceEncoder
from juzhen.index import Index

pytest.importorskip("openpyxl")
import openpyxl  # of the extra excel

FAQ = [
    ("编号", "标准问", "相似问"),
    (7, "怎么退货", "东西想退掉"),
    (8, "如何还款", "钱怎么还"),
    (9, "怎么开票", "发票怎么开"),
]


@pytest.fixture
def book(tmp_path):
    made = openpyxl.Workbook()
    made.active.title = "问答"
    for row in FAQ:
        made.active.append(row)
    made.create_sheet("其他").append(["x"])
    made.save(tmp_path / "faq.xlsx")
    return tmp_path / "faq.xlsx"


@pytest.fixture(scope="module")
def encoder(encoder_folder):
    return SentenceEncoder.load(encoder_folder).eval()


def run(*words):
    return main([*map(str, words)])


def test_pairs_of_a_book_are_scored(book, encoder, encoder_folder, capsys):
    assert run("score", encoder_folder, "--file", book) == 0
    told = capsys.readouterr().err
    assert "标准问 is compared with 相似问" in told
    assert "其他" in told
    with (book.parent / "faq.scored.csv").open(encoding="utf-8-sig", newline="") as file:
        head, *rows = csv.reader(file)
    assert head == [*FAQ[0], "score"]
    assert [(int(row[0]), *row[1:3]) for row in rows] == FAQ[1:]
    expected = encoder.score([row[1:] for row in FAQ[1:]])
    np.testing.assert_allclose([float(row[3]) for row in rows], expected, atol=1e-6)


def test_json_lines_keep_their_values_and_gain_a_score(tmp_path, encoder, encoder_folder):
    records = [{"q": a, "a": b, "more": {"n": [n]}} for n, a, b in FAQ[1:]]
    path = tmp_path / "faq.jsonl"
    path.write_text("\n".join(json.dumps(record) for record in records), encoding="utf-8")
    assert run("score", encoder_folder, "--file", path, "--columns", "text_a=q,text_b=2") == 0
    written = [
        json.loads(line) for line in (tmp_path / "faq.scored.jsonl").read_text("utf-8").split("\n")[:-1]
    ]
    scores = [record.pop("score") for record in written]
    assert written == records
    np.testing.assert_allclose(scores, encoder.score([row[1:] for row in FAQ[1:]]), atol=1e-6)


@pytest.mark.parametrize("column", ["text=相似问", "text=3"])
def test_a_column_is_encoded(book, encoder, encoder_folder, column):
    assert run("encode", encoder_folder, book, "--columns", column) == 0
    np.testing.assert_allclose(
        np.load(book.parent / "faq.npy"), encoder.encode([row[2] for row in FAQ[1:]]), atol=1e-6
    )


def test_texts_of_one_cell_are_encoded_one_by_one(tmp_path, encoder, encoder_folder):
    (tmp_path / "faq.csv").write_text("text\n怎么退货||如何还款\n怎么开票\n", encoding="utf-8")
    assert run("encode", encoder_folder, tmp_path / "faq.csv", "--split-cells", "||") == 0
    expected = encoder.encode(["怎么退货", "如何还款", "怎么开票"])
    np.testing.assert_allclose(np.load(tmp_path / "faq.npy"), expected, atol=1e-6)


def test_faulty_rows_are_refused_left_out_or_all_there_is(tmp_path, encoder_folder, capsys):
    path = tmp_path / "faq.csv"
    path.write_text("text,id\n怎么退货,1\n ,2\n如何还款,3\n", encoding="utf-8")
    for words in (
        ["encode", encoder_folder, path],
        ["index", "build", tmp_path / "index", encoder_folder, path],
    ):
        assert run(*words) == 2
        assert "faq.csv:3" in (told := capsys.readouterr().err)
        assert "--on-bad-row drop" in told
        assert run(*words, "--on-bad-row", "drop") == 0
        assert "1 faulty row" in "".join(capsys.readouterr())
    assert len(np.load(tmp_path / "faq.npy")) == 2
    path.write_text("text,id\n ,1\n\u200b,2\n", encoding="utf-8")
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("text_a,text_b\n ,甲\n乙,\n", encoding="utf-8")
    for words in (
        ["encode", encoder_folder, path],
        ["index", "build", tmp_path / "other", encoder_folder, path],
        ["index", "add", tmp_path / "index", encoder_folder, path],
        ["score", encoder_folder, "--file", pairs],
        ["mine", pairs, "bm25", "--out", tmp_path / "of_tests_hard.tsv"],
    ):
        assert run(*words, "--on-bad-row", "drop") == 2, words
        assert "left" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_an_index_of_a_book_and_ids_that_a_file_takes_out(book, encoder, encoder_folder, tmp_path):
    folder = tmp_path / "index"
    columns = ("--columns", "text=标准问,id=编号", "--metadata", "相似问", "编号")
    assert run("index", "build", folder, encoder_folder, book, *columns) == 0
    with Index.open(folder, encoder) as index:
        (hit,), *_ = index.search(["怎么退货"], 1)
        assert (hit.id, hit.metadata) == ("7", {"相似问": "东西想退掉", "编号": 7})
    gone = tmp_path / "gone.csv"
    gone.write_text("编号,why\n8,old\n", encoding="utf-8")
    assert run("index", "remove", folder, "--file", gone, "--id", "编号") == 0
    with Index.open(folder, encoder) as index:
        assert sorted(hit.id for hit in index.search(["怎么退货"], 5)[0]) == ["7", "9"]


def test_an_id_with_a_sign_that_ends_lines_elsewhere_names_one_text(tmp_path, encoder, encoder_folder):
    folder, ids = tmp_path / "index", ["17\u202842", "17", "42", "a\x85b", "a", "b"]
    texts = [json.dumps({"text": f"第{n}句", "id": name}) for n, name in enumerate(ids)]
    (tmp_path / "texts.jsonl").write_text("\n".join(texts), encoding="utf-8")
    assert run("index", "build", folder, encoder_folder, tmp_path / "texts.jsonl", "--id", "id") == 0
    (tmp_path / "ids").write_text("17\u202842\r\na\x85b\n", encoding="utf-8", newline="")
    assert run("index", "remove", folder, "--file", tmp_path / "ids") == 0
    with Index.open(folder, encoder) as index:
        assert sorted(hit.id for hit in index.search(["句"], 9)[0]) == ["17", "42", "a", "b"]


def test_a_table_is_mined_and_graded_as_a_set_is(tmp_path, encoder_folder, capsys):
    path = tmp_path / "faq.csv"
    lines = [f"第{n}个问题怎么办,问题{n}如何处理" for n in range(12)]
    path.write_text("\n".join(["标准问,相似问", *lines]), encoding="gb18030")
    out = tmp_path / "of_tests_hard.tsv"
    assert run("mine", path, "bm25", "--out", out, "--num-negatives", 1, "--relative-margin", "none") == 0
    assert out.read_text(encoding="utf-8").startswith("anchor\tpositive\tnegative\n第0个问题怎么办\t")
    graded = tmp_path / "of_tests_graded.tsv"
    assert run("distill", encoder_folder, path, "--out", graded, "--columns", "anchor=2,positive=1") == 0
    assert "12 pairs of faq/train" in capsys.readouterr().out
    assert "language: zh" in (tmp_path / "conf" / "dataset" / "of_tests_graded.yaml").read_text("utf-8")


def test_a_table_is_looked_at_for_leaks(tmp_path):
    train, held = tmp_path / "train.csv", tmp_path / "held.jsonl"
    train.write_text(
        "text_a,text_b,label\n怎么退货呢,东西想退掉,是\n如何还款呢,何时发货,否\n", encoding="utf-8"
    )
    record = {"sentence1": "怎么退货呢", "sentence2": "东西想退掉", "label": "1"}
    held.write_text(json.dumps(record), encoding="utf-8")
    words = ["leaks", "--train", train, "--evaluate", held, "--output", tmp_path / "leaks", "--no-progress"]
    assert run(*words) == 0
    assert "| train | 1 (100 %) |" in (tmp_path / "leaks" / "pairs.md").read_text("utf-8")
