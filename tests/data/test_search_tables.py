"""A search out of two or three tables: which column is what, what names what, what is left out, and the same twice."""

import csv
import json

import numpy as np
import pytest

from juzhen import evaluate, read_search
from juzhen.cli.main import main
from juzhen.data.rankings import as_ranking
from juzhen.data.source import load_examples
from juzhen.data.spec import read_description

CORPUS = ["七天内可以退货", "两天内发货", "电子发票在订单里下载", "会员可以随时取消"]
QUERIES = ["怎么退货", "几天发货", "要发票", "不想续费了"]


def write(path, rows, delimiter=",", encoding="utf-8"):
    with path.open("w", encoding=encoding, newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    return path


def answered(ranking):
    """Query → texts that answer it, with their gains."""
    return {
        query: {ranking.corpus[number]: gain for number, gain in answers.items()}
        for query, answers in zip(ranking.queries, ranking.relevant, strict=True)
    }


EXPECTED = {query: {text: 1.0} for query, text in zip(QUERIES, CORPUS, strict=True)}
IDS = [f"d{number}" for number in range(4)]


@pytest.mark.parametrize(
    ("queries", "corpus", "answers"),
    [
        # three tables, by ids and by texts
        (
            [("qid", "query"), *enumerate(QUERIES)],
            [("id", "text"), *zip(IDS, CORPUS, strict=True)],
            [("query-id", "corpus-id", "score"), *((n, one, 1) for n, one in enumerate(IDS))],
        ),
        (
            [("问题",), *((one,) for one in QUERIES)],
            [("编号", "正文"), *enumerate(CORPUS)],
            [("问题", "文档"), *zip(QUERIES, CORPUS, strict=True)],
        ),
        # names of ids as one word, and of nothing but ids
        (
            [("qid", "问题"), *((f"q{n}", one) for n, one in enumerate(QUERIES))],
            [("docid", "内容"), *zip(IDS, CORPUS, strict=True)],
            [("qid", "docid"), *((f"q{n}", one) for n, one in enumerate(IDS))],
        ),
        # ids of both that are the same numbers: names of columns say which is which
        (
            [("query_id", "text"), *enumerate(QUERIES)],
            [("doc_id", "content"), *enumerate(CORPUS)],
            [("doc_id", "query_id"), *((n, n) for n in range(4))],
        ),
        # the layout of TREC, without names
        (
            [("id", "text"), *((f"q{n}", one) for n, one in enumerate(QUERIES))],
            [("id", "text"), *zip(IDS, CORPUS, strict=True)],
            [(f"q{n}", 0, one, 1) for n, one in enumerate(IDS)],
        ),
        # two tables: the query names the document, by id or by text
        (
            [("question", "doc"), *zip(QUERIES, IDS, strict=True)],
            [("key", "passage"), *zip(IDS, CORPUS, strict=True)],
            None,
        ),
        (
            [("编号", "问句", "答案"), *((n, *row) for n, row in enumerate(zip(QUERIES, CORPUS, strict=True)))],
            [("内容",), *((one,) for one in CORPUS)],
            None,
        ),
    ],
)  # fmt: skip
def test_tables_as_people_have_them(tmp_path, queries, corpus, answers):
    paths = [
        None if rows is None else write(tmp_path / f"{name}.csv", rows)
        for name, rows in (("queries", queries), ("corpus", corpus), ("answers", answers))
    ]
    ranking = read_search(*paths)
    assert answered(ranking) == EXPECTED
    assert list(ranking.corpus) == CORPUS
    assert ranking.own.tolist() == [-1] * 4


def test_blanks_between_columns_gbk_and_sheets_of_python(tmp_path):
    judged = tmp_path / "qrels.txt"
    judged.write_text("".join(f"{n} 0 {n + 10} 1\n" for n in range(4)))
    queries = write(tmp_path / "q.tsv", [("id", "query"), *enumerate(QUERIES)], "\t", "gbk")
    corpus = [{"id": n + 10, "text": text} for n, text in enumerate(CORPUS)]
    assert answered(read_search(queries, corpus, judged)) == EXPECTED
    lines = tmp_path / "c.jsonl"
    lines.write_text(
        "".join(json.dumps({"_id": n, "text": text}) + "\n" for n, text in zip(IDS, CORPUS, strict=True))
    )
    several = [{"query": QUERIES[0], "docs": ["d0", "d3"]}, {"query": QUERIES[1], "docs": ["d1"]}]
    found = answered(read_search(several, lines))
    assert found == {QUERIES[0]: {CORPUS[0]: 1.0, CORPUS[3]: 1.0}, QUERIES[1]: {CORPUS[1]: 1.0}}
    cells = [{"query": QUERIES[0], "docs": "d0||d3"}, {"query": QUERIES[1], "docs": "d1"}]
    assert answered(read_search(cells, lines, split_cells="||")) == found


def test_titles_gains_negatives_and_answers_that_are_not_there():
    corpus = [{"id": "a", "title": "退货", "text": "七天内"}, {"id": "b", "title": "发货", "text": "两天内"}]
    answers = [
        {"query": "怎么退货", "document": "a", "relevance": 2},
        {"query": "怎么退货", "document": "b", "relevance": 0},
        {"query": "怎么退货", "document": "gone", "relevance": 1},
        {"query": "几天发货", "document": "b", "relevance": 1},
    ]  # fmt: skip
    with pytest.warns(UserWarning, match="not in the corpus") as said:
        ranking = read_search(["怎么退货", "几天发货", "没有答案的"], corpus, answers)
    assert any("1 query has no answer" in str(one.message) for one in said)
    assert list(ranking.corpus) == ["退货 七天内", "发货 两天内"]
    assert answered(ranking) == {"怎么退货": {"退货 七天内": 2.0}, "几天发货": {"发货 两天内": 1.0}}
    assert [one.tolist() for one in ranking.irrelevant] == [[1], []]
    assert ranking.unreachable == [[1.0], []]  # it counts in what could be reached
    yes = [
        {"query": one, "document": text, "是否相关": word}
        for one, text, word in zip(QUERIES, CORPUS, "是是是否", strict=True)
    ]
    assert set(answered(read_search(QUERIES, CORPUS, yes))) == {*QUERIES[:3]}


def test_a_query_is_a_document_only_where_id_and_text_are_the_same():
    texts = [{"id": n, "text": text} for n, text in enumerate(CORPUS)]
    answers = [{"query": n, "document": (n + 1) % 4} for n in range(4)]
    assert read_search(texts, texts, answers).own.tolist() == [0, 1, 2, 3]
    others = [{"id": n, "text": text} for n, text in enumerate(QUERIES)]
    assert read_search(others, texts, answers).own.tolist() == [-1] * 4


def test_columns_may_be_said_and_faulty_rows_left_out():
    queries = [{"a": "怎么退货", "b": "备注很长很长很长很长"}, {"a": "", "b": "x"}]
    corpus = [{"c": "七天内可以退货", "d": "这是另一列更长的文字内容在这里"}]
    answers = [{"e": "怎么退货", "f": "七天内可以退货", "g": 3}]
    said = {"query": "a", "document": "c", "gain": "g"}
    found = read_search(queries, corpus, answers, columns=said, on_bad_row="drop")
    assert answered(found) == {"怎么退货": {"七天内可以退货": 3.0}}


def search_files(folder, count=40):
    rows = [(f"q{n}", f"{QUERIES[n % 4]}第{n}个") for n in range(count)]
    documents = [(f"d{n}", f"{CORPUS[n % 4]}，编号{n}") for n in range(count)]
    write(folder / "q.csv", [("id", "query"), *rows])
    write(folder / "c.csv", [("id", "text"), *documents])
    write(folder / "a.csv", [("query", "document"), *((f"q{n}", f"d{n}") for n in range(count))])
    return [
        f"--{part}={folder / name}"
        for part, name in (("queries", "q.csv"), ("corpus", "c.csv"), ("answers", "a.csv"))
    ]


def new_search(folder):
    places = [f"--config-dir={folder / 'conf'}", f"--data-dir={folder / 'data'}"]
    assert main(["dataset", "mine", *search_files(folder), *places]) == 0


def test_new_writes_a_set_that_gives_the_same_numbers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    new_search(tmp_path)
    config = read_description(tmp_path / "conf" / "dataset" / "mine.yaml")
    read = load_examples(config, "test", source="local", data_dir="data", on_bad_row="error", required=True)
    assert (len(as_ranking(read).queries), len(as_ranking(read).corpus)) == (40, 40)
    direct = read_search(*(tmp_path / name for name in ("q.csv", "c.csv", "a.csv")))
    assert answered(as_ranking(read)) == answered(direct)

    def encode(texts):
        return [np.random.default_rng(sum(map(ord, text))).normal(size=8) for text in texts]

    scores = [evaluate(encode, one).scores for one in (direct, read)]
    assert scores[0]["test/search/ndcg_at_10"].value == scores[1]["test/mine/ndcg_at_10"].value > 0
    before = (tmp_path / "conf" / "dataset" / "mine.yaml").read_text()
    new_search(tmp_path)  # again: the same
    assert (tmp_path / "conf" / "dataset" / "mine.yaml").read_text() == before


def test_queries_are_split_and_each_split_searches_the_whole_corpus(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [
        *search_files(tmp_path),
        "--dev",
        "0.25",
        "--test",
        "0.25",
        "--config-dir",
        "conf",
        "--data-dir",
        "data",
    ]
    assert (
        main(["dataset", str(tmp_path / "q.csv"), "--name", "mine", *words[1:]]) == 0
    )  # FILE is the queries
    config, seen = read_description(tmp_path / "conf" / "dataset" / "mine.yaml"), []
    for split, count in (("train", 20), ("dev", 10), ("test", 10)):
        ranking = as_ranking(
            load_examples(config, split, source="local", data_dir="data", on_bad_row="error", required=True)
        )
        assert (len(ranking.queries), len(ranking.corpus)) == (count, 40)
        seen += ranking.queries
    assert len({*seen}) == 40
