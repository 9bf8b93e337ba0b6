"""The layout of BEIR and MTEB: what is in the files is in the set, and what is wrong is told with its line."""

import json

import numpy as np
import pytest

from juzhen.core.examples import Kind
from juzhen.data.loading import cut, sampled
from juzhen.data.rankings import as_ranking
from juzhen.data.source import load_examples
from juzhen.data.spec import DatasetConfig, HubConfig, LayoutConfig
from juzhen.evaluation.encoding_plan import ranked_lists
from juzhen.metrics.ranking import order_numbers

COLUMNS = {
    "query": "query-id",
    "document": "corpus-id",
    "gain": "score",
    "id": "_id",
    "title": "title",
    "text": "text",
}
CORPUS = [
    {"_id": "d1", "title": "挂失", "text": "银行卡丢了怎么挂失"},
    {"_id": "d2", "title": "", "text": "信用卡账单日是哪一天"},
    {"_id": "d3", "text": "信用卡账单日是哪一天"},
    {"_id": "7", "title": "额度", "text": ""},
]
QUERIES = [{"_id": "q1", "text": "挂失"}, {"_id": "7", "text": "额度"}, {"_id": "q3", "text": "别的一问"}]
JUDGED = [("q1", "d1", "2"), ("7", "d3", "1"), ("q1", "d2", "0"), ("7", "d2", "-1")]


def written(folder, *, corpus=CORPUS, queries=QUERIES, judgements=JUDGED):
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    for name, records in (("corpus", corpus), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    rows = [("query-id", "corpus-id", "score"), *judgements]
    (folder / "qrels" / "dev.tsv").write_text("".join("\t".join(one) + "\n" for one in rows))
    return folder


def described(kind="retrieval", files=None, columns=COLUMNS):
    files = files or {"dev": "qrels/dev.tsv", "queries": "queries.jsonl", "corpus": "corpus.jsonl"}
    layout = LayoutConfig(files=files, columns=columns)
    return DatasetConfig(
        name="mine", kind=kind, language="zh", about="some", layout="beir", layouts={"beir": layout}
    )


def read(folder, config=None, on_bad_row="error"):
    return load_examples(
        config or described(), "dev", source="local", data_dir=folder, on_bad_row=on_bad_row, required=True
    )


def test_what_is_in_the_files_is_in_the_set(tmp_path):
    found = as_ranking(read(written(tmp_path)))
    assert found.queries == ["挂失", "额度"], "a query of another split is none of this one"
    assert found.corpus == ["挂失 银行卡丢了怎么挂失", *["信用卡账单日是哪一天"] * 2, "额度"]
    assert found.relevant == [{0: 2.0}, {2: 1.0}]
    assert [one.tolist() for one in found.irrelevant] == [[1], [1]], "0, or less as some write it"
    assert found.candidates is None


def test_a_query_with_the_id_and_the_text_of_a_document_never_finds_it(tmp_path):
    same = [*QUERIES[:1], {"_id": "d2", "text": CORPUS[1]["text"]}]
    rows = [("q1", "d1", "1"), ("d2", "d3", "1")]
    found = as_ranking(read(written(tmp_path, queries=same, judgements=rows)))
    own = dict(zip(found.queries, found.own.tolist(), strict=True))
    assert own == {"挂失": -1, CORPUS[1]["text"]: 1}
    assert as_ranking(read(written(tmp_path))).own.tolist() == [-1, 3], "额度 is title and text of document 7"


def test_documents_that_are_put_in_order_are_those_that_are_judged(tmp_path):
    found = as_ranking(read(written(tmp_path), described("reranking")))
    assert [[found.corpus[one] for one in some] for some in found.candidates] == [
        ["挂失 银行卡丢了怎么挂失", "信用卡账单日是哪一天"],
        ["信用卡账单日是哪一天"] * 2,
    ]


def test_parquet_with_numbers_for_ids_gives_the_same_rows(tmp_path):
    import pyarrow
    from pyarrow import parquet

    numbers = {"q1": 1, "q3": 3, "d1": 11, "d2": 12, "d3": 13, "7": 7}
    for name, records in (("corpus", CORPUS), ("queries", QUERIES)):
        rows = [one | {"_id": numbers[one["_id"]]} for one in records]
        parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / f"{name}.parquet")
    rows = [
        dict(zip(("query-id", "corpus-id"), map(numbers.get, one), strict=False)) | {"score": int(one[2])}
        for one in JUDGED
    ]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "dev.parquet")
    files = {"dev": "dev.parquet", "queries": "queries.parquet", "corpus": "corpus.parquet"}
    typed, plain = as_ranking(read(tmp_path, described(files=files))), as_ranking(read(written(tmp_path)))
    assert (typed.queries, typed.corpus, typed.relevant) == (plain.queries, plain.corpus, plain.relevant)


FIELDS = {
    "no gain": {key: one for key, one in COLUMNS.items() if key != "gain"},
    "titel": COLUMNS | {"titel": "name"},
}
WRONG = [
    (
        {"judgements": [*JUDGED, ("q3", "d2", "0")]},
        r"dev\.tsv:6: nothing answers the query q3 with a gain above 0",
    ),
    (
        {"judgements": [("q1", "d9", "1")]},
        r"dev\.tsv: no rows are left .*none names a document that is there",
    ),
    ({"judgements": [("q9", "d1", "1")]}, r"dev\.tsv:2: there is no query with the id q9"),
    ({"judgements": [("q1", "d1", "good")]}, r"dev\.tsv:2: the gain is 'good', not a finite number"),
    ({"judgements": [("7", "7", "1")]}, r"dev\.tsv:2: the query 7 is the document itself"),
    ({"judgements": []}, r"dev\.tsv: no rows are left"),
    ({"corpus": []}, r"corpus\.jsonl: the file is empty"),
    ({"corpus": [*CORPUS, CORPUS[0]]}, r"corpus\.jsonl:5: the id d1 is that of line 1 too"),
    ({"corpus": [*CORPUS, {"text": "x"}]}, r"corpus\.jsonl:5: the id is missing"),
    ({"corpus": [*CORPUS, {"_id": "d5", "text": None}]}, r"corpus\.jsonl:5: text is missing"),
    ({"queries": [*QUERIES, {"_id": "q4", "text": " "}]}, r"queries\.jsonl:4: text is empty"),
    ({"queries": [*QUERIES, QUERIES[2]]}, r"queries\.jsonl:4: the id q3 is that of line 3 too"),
    ({"columns": FIELDS["no gain"]}, "needs a column for gain"),
    ({"columns": FIELDS["titel"]}, "field titel, .*Did you mean title"),
]
NO_TEXTS = [
    (
        {"corpus": [*CORPUS, {"_id": ["d5"], "text": "x"}]},
        r"corpus\.jsonl:5: the id is \['d5'\], expected a text",
    ),
    ({"corpus": [*CORPUS, {"_id": {"a": 1}, "text": "x"}]}, r"corpus\.jsonl:5: the id is \{'a': 1\}"),
    ({"queries": [*QUERIES, {"_id": True, "text": "x"}]}, r"queries\.jsonl:4: the id is True"),
    ({"queries": [*QUERIES, {"_id": 1.5, "text": "x"}]}, r"queries\.jsonl:4: the id is 1\.5"),
    (
        {"corpus": [*CORPUS, {"_id": "d5", "title": ["a"], "text": "x"}]},
        r"corpus\.jsonl:5: the title is \['a'\]",
    ),
    (
        {"corpus": [*CORPUS, {"_id": "d5", "title": 7, "text": "x"}]},
        r"corpus\.jsonl:5: the title is 7, not a text",
    ),
]
"""Ids and titles that are no texts: such rows may be left out."""


@pytest.mark.parametrize("changed", [changed for changed, _ in NO_TEXTS])
def test_rows_whose_ids_or_titles_are_no_texts_may_be_left_out(tmp_path, changed):
    assert read(written(tmp_path, **changed), on_bad_row="drop").num_dropped == 1


def test_faulty_rows_are_left_out_and_counted_where_they_may_be(tmp_path):
    rows = [*JUDGED, ("q3", "d2", "0"), ("q9", "d1", "1")]
    found = read(written(tmp_path, judgements=rows), on_bad_row="drop")
    assert (len(found), found.num_dropped) == (4, 2)
    found = read(written(tmp_path, corpus=[*CORPUS, CORPUS[0]]), on_bad_row="drop")
    assert (len(found), found.num_dropped) == (4, 1)
    assert as_ranking(found).relevant == as_ranking(read(written(tmp_path))).relevant


def official(folder):
    """An empty document, answers that are not there, judgements that stand twice: trec_eval takes them all."""
    corpus = [*CORPUS, {"_id": "d5", "title": "", "text": ""}]
    rows = [
        *JUDGED,
        ("q1", "d9", "1"),
        ("q1", "d5", "2"),
        ("q1", "d1", "2"),
        ("q1", "d2", "1"),
        ("q3", "d9", "1"),
    ]
    return read(written(folder, corpus=corpus, judgements=rows))


def test_official_sets_are_read_as_they_are(tmp_path, recwarn):
    found = official(tmp_path)
    assert len(recwarn) == 1
    ranking = as_ranking(found)
    assert len(ranking.corpus) == len(CORPUS)
    gains = dict(zip(ranking.queries, ranking.judged, strict=True))
    assert {query: sorted(one.values()) for query, one in gains.items()} == {
        "挂失": [1.0, 2.0, 2.0], "额度": [1.0], "别的一问": [1.0],
    }  # fmt: skip
    assert found.fingerprint != read(written(tmp_path)).fingerprint


@pytest.mark.parametrize("limit", [1, 2])
def test_some_queries_of_a_set_keep_what_is_unreachable(tmp_path, limit):
    rows = [*JUDGED, ("q1", "d9", "1"), ("q3", "d9", "1")]
    found = read(written(tmp_path, judgements=rows))
    gains = dict(zip(as_ranking(found).queries, as_ranking(found).judged, strict=True))
    for some in (sampled(found, limit), cut(found, limit, seed=3)):
        ranking = as_ranking(some)
        assert len(ranking.queries) == limit
        for query, judged in zip(ranking.queries, ranking.judged, strict=True):
            assert sorted(judged.values()) == sorted(gains[query].values())


def test_unreachable_answers_are_measured_as_trec_eval_does(tmp_path):
    """Four queries that find their answer first; one of them has a second answer, and a fifth has one, nowhere."""
    corpus = [{"_id": f"d{n}", "text": f"第{n}篇"} for n in range(4)]
    queries = [{"_id": f"q{n}", "text": f"第{n}问"} for n in range(5)]
    rows = [(f"q{n}", f"d{n}", "1") for n in range(4)] + [("q0", "x", "1"), ("q4", "y", "1")]
    ranking = as_ranking(read(written(tmp_path, corpus=corpus, queries=queries, judgements=rows)))
    lists = ranked_lists(ranking, lambda some, _: np.eye(5, 4)[some], depth=4)
    found = order_numbers(lists, ranking.judged, ["ndcg_at_10", "recall_at_10"])
    ndcg = (1 / (1 + 1 / np.log2(3)) + 3) / 5
    assert found["ndcg_at_10"][0].mean() == pytest.approx(ndcg)
    assert found["recall_at_10"][0].mean() == pytest.approx(3.5 / 5)


def test_own_documents_are_known_by_their_id_alone(tmp_path):
    """ArguAna: documents have titles, which the same text as a query has not."""
    corpus = [{"_id": f"d{n}", "title": "题", "text": f"第{n}篇"} for n in range(3)]
    queries = [{"_id": f"d{n}", "text": f"第{n}篇"} for n in range(2)]
    rows = [("d0", "d1", "1"), ("d1", "d2", "1")]
    ranking = as_ranking(read(written(tmp_path, corpus=corpus, queries=queries, judgements=rows)))
    assert ranking.queries == ["第0篇", "第1篇"], "a query is read as it stands"
    assert [ranking.corpus[one] for one in ranking.own] == ["题 第0篇", "题 第1篇"]


def test_ids_of_two_files_that_count_for_themselves_say_nothing(tmp_path):
    corpus = [{"_id": str(n), "text": f"第{n}篇"} for n in range(3)]
    queries = [{"_id": str(n), "text": f"第{n}问"} for n in range(3)]
    rows = [("0", "0", "1"), ("1", "2", "1")]
    ranking = as_ranking(read(written(tmp_path, corpus=corpus, queries=queries, judgements=rows)))
    assert ranking.own.tolist() == [-1, -1]
    assert ranking.relevant == [{0: 1.0}, {2: 1.0}]


def test_other_texts_are_other_data(tmp_path):
    plain = read(written(tmp_path))
    assert read(written(tmp_path)).fingerprint == plain.fingerprint
    more = [*CORPUS, {"_id": "d5", "text": "另一篇"}]
    assert read(written(tmp_path, corpus=more)).fingerprint != plain.fingerprint


@pytest.mark.parametrize("kind", ["retrieval", "reranking"])
def test_a_file_of_pairs_is_read_as_judgements(tmp_path, kind):
    (tmp_path / "pairs.tsv").write_text("a\tb\tsame\n问\t答\t1\n问\t错\t0\n答\t再答\t1\n")
    columns = {"text_a": "a", "text_b": "b", "label": "same"}
    config = described(kind, {"dev": "pairs.tsv"}, columns)
    config.labels, config.rows = {"0": 0, "1": 1}, {"dev": 3}
    found = read(tmp_path, config)
    assert found.kind is Kind(kind)
    ranking = as_ranking(found)
    assert ranking.queries == ["问", "答", "再答"]
    assert sorted(ranking.corpus) == sorted(["问", "答", "错", "再答"])
    if kind == "reranking":
        assert [ranking.corpus[one] for one in ranking.candidates[0]] == ["答", "错", "再答"]


def test_the_hub_has_queries_and_corpus_as_subsets(tmp_path, monkeypatch):
    """A folder stands for a hub id: its files are what the hub would give."""
    folder = written(tmp_path / "hub")
    import datasets

    asked = []

    def load_dataset(path, name, revision, split):
        asked.append((name, split))
        file = {"corpus": "corpus.jsonl", "queries": "queries.jsonl", "default": "qrels/dev.tsv"}[name]
        if name == "default":
            return datasets.Dataset.from_csv(str(folder / file), sep="\t")
        return datasets.Dataset.from_list(
            [json.loads(line) for line in (folder / file).read_text().splitlines()]
        )

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    config = described()
    config.hub = HubConfig(
        id=str(folder), subset="default", splits={"dev": "validation", "corpus": "all"}, columns=COLUMNS
    )
    found = load_examples(config, "dev", source="hub", data_dir=".", on_bad_row="error", required=True)
    assert sorted(asked) == [("corpus", "all"), ("default", "validation"), ("queries", "validation")]
    plain = read(folder)
    assert found.sentences == plain.sentences
    assert np.array_equal(found.targets, plain.targets)
