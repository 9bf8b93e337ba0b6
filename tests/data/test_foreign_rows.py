"""Training rows of FlagEmbedding, ms-swift and sentence-transformers: by yaml, by `juzhen dataset`, and refusals."""

import json

import numpy as np
import pytest

from juzhen.core.examples import Kind
from juzhen.data.dataset_from_table import make_set
from juzhen.data.row_kinds import guess, read_raw
from juzhen.data.source import load_examples
from juzhen.data.spec import DatasetConfig

FLAG = [
    {"query": "怎么退款", "pos": ["如何退货", "退款流程"], "neg": ["天气", "下雨吗"], "prompt": "问："},
    {"query": "账单日", "pos": ["几号出账单"], "neg": ["天气", "吃饭", "睡觉"]},
]
SCORED = [
    {"query": "a", "pos": ["b", "c"], "neg": ["d"], "pos_scores": [3, 2.5], "neg_scores": [-1.0]},
    {"query": "e", "pos": ["f"], "neg": ["g"], "pos_scores": [1.5], "neg_scores": [0]},
]


def said(text, role="user"):
    return [{"role": role, "content": text}]


SWIFT = [
    {
        "messages": [{"role": "system", "content": "检索："}, *said("怎么退款")],
        "positive_messages": [said("如何退货", "assistant"), said("退款流程")],
        "negative_messages": [said("天气")],
    }
]


def read(tmp_path, rows, format, kind="triplet", on_bad_row="error", suffix=".jsonl", **layout):
    path = tmp_path / f"rows{suffix}"
    if suffix == ".jsonl":
        path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), encoding="utf-8")
    else:
        import pyarrow as pa
        from pyarrow import parquet

        parquet.write_table(pa.Table.from_pylist(rows), path)
    described = {"labels": {"0": 0, "1": 1}} if kind == "labelled_pair" else {}
    described |= {"score_range": [0, 1]} if kind == "scored_pair" else {}
    files = {"train": path.name}
    config = DatasetConfig(
        name="rows", kind=kind, language="zh", layout="theirs", **described,
        layouts={"theirs": {"files": files, "format": format, **layout}},
    )  # fmt: skip
    options = {"source": "local", "data_dir": tmp_path, "on_bad_row": on_bad_row, "required": True}
    return load_examples(config, "train", **options)


def texts(examples):
    return [*zip(*(examples.texts(column) for column in examples.columns), strict=True)]


def present(examples):
    """The texts that each row has."""
    has = np.pad(~examples.missing, ((0, 0), (1, 0)), constant_values=True)
    return [
        tuple(text for text, is_there in zip(row, there, strict=True) if is_there)
        for row, there in zip(texts(examples), has, strict=True)
    ]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_each_positive_of_flag_embedding_is_a_row_with_the_same_negatives(tmp_path, suffix):
    rows = read(tmp_path, FLAG, "flag_embedding", suffix=suffix)
    assert present(rows) == [
        ("问：怎么退款", "如何退货", "天气", "下雨吗"),
        ("问：怎么退款", "退款流程", "天气", "下雨吗"),
        ("账单日", "几号出账单", "天气", "吃饭", "睡觉"),
    ]
    assert rows.lines.tolist() == [1, 1, 2]
    more = read(tmp_path, FLAG, "flag_embedding", suffix=suffix, negatives=3)
    assert more.missing is None
    assert texts(more)[0] == ("问：怎么退款", "如何退货", "天气", "下雨吗", "天气")  # over again
    assert texts(read(tmp_path, FLAG, "flag_embedding", kind="positive_pair"))[2] == ("账单日", "几号出账单")


def test_scores_of_a_teacher_stand_beside_their_documents(tmp_path):
    rows = read(tmp_path, SCORED, "flag_embedding")
    np.testing.assert_array_equal(rows.teacher_scores, [[3, -1], [2.5, -1], [1.5, 0]])
    assert read(tmp_path, SCORED, "flag_embedding", teacher_scores=False).teacher_scores is None
    pairs = read(tmp_path, SCORED, "flag_embedding", kind="positive_pair", teacher_scores=False)
    assert texts(pairs)[0] == ("a", "b")


NO_ROWS = [
    ({"pos": "如何退货"}, r"rows.jsonl:2: pos is the text '如何退货', expected a list of texts"),
    ({"neg": "天气"}, r"rows.jsonl:2: neg is the text '天气', expected a list"),
    ({"pos": []}, r"rows.jsonl:2: pos is an empty list"),
    ({"pos": ["a", 7]}, r"rows.jsonl:2: pos\[1\] is 7, not a text"),
    ({"neg": []}, r"rows.jsonl:2: no negative. Set kind: positive_pair"),
    ({"query": None}, r"rows.jsonl:2: query is missing"),
    ({"pos_scores": [1.0], "neg_scores": [0.5]}, r"rows.jsonl:2: neg_scores has 1 numbers, expected 3"),
    ({"pos_scores": "1"}, r"rows.jsonl:2: pos_scores is the text '1', expected a list of 1 numbers"),
]


@pytest.mark.parametrize("change", [change for change, _ in NO_ROWS])
def test_lines_that_are_no_rows_may_be_left_out(tmp_path, change):
    rows = [FLAG[0], FLAG[1] | change]
    assert len(read(tmp_path, rows, "flag_embedding", on_bad_row="drop")) == 2


SWIFT_PAIR = {"messages": said("a"), "positive_messages": [said("b")]}
NO_PAIRS = [
    ({"positive_messages": said("b")}, r":1: positive_messages\[0\] is .*expected a list of messages"),
    ({"positive_messages": "b"}, r":1: positive_messages is the text 'b', expected a list of conv"),
    ({"messages": said("a") + said("b", "assistant")}, r":1: messages has 2 messages beside"),
    ({"images": ["x.jpg"]}, r":1: images: only texts are read"),
    ({"label": 1}, r":1: a label, which a positive_pair does not have"),
]


def test_messages_of_ms_swift(tmp_path):
    assert texts(read(tmp_path, SWIFT, "ms_swift")) == [
        ("检索： 怎么退款", "如何退货", "天气"),
        ("检索： 怎么退款", "退款流程", "天气"),
    ]
    pair = SWIFT_PAIR
    scored = read(tmp_path, [pair | {"label": 0.8}, pair | {"label": 0}], "ms_swift", kind="scored_pair")
    np.testing.assert_allclose(scored.targets, [0.8, 0])
    assert read(tmp_path, [pair | {"label": 1}], "ms_swift", kind="labelled_pair").targets.tolist() == [1]


def test_columns_of_sentence_transformers_go_by_their_order(tmp_path):
    triplet = {"query": "a", "answer": "b", "negative_1": "c", "negative_2": "d"}
    theirs = "sentence_transformers"
    assert texts(read(tmp_path, [triplet], theirs)) == [("a", "b", "c", "d")]
    margins = read(tmp_path, [triplet | {"label": [2.0, 5.0]}], theirs)
    np.testing.assert_array_equal(margins.teacher_scores, [[0, -2, -5]])
    scores = read(tmp_path, [triplet | {"labels": [3, 2, 1]}], theirs)
    np.testing.assert_array_equal(scores.teacher_scores, [[3, 2, 1]])
    pairs = [{"sentence1": "a", "sentence2": "b", "score": 0.5}]
    assert read(tmp_path, pairs, theirs, kind="scored_pair").targets.tolist() == [0.5]
    assert texts(read(tmp_path, [{"anchor": "a", "positive": "b"}], theirs, kind="positive_pair"))


def test_a_layout_is_read_by_columns_or_by_a_format(tmp_path):
    with pytest.raises(Exception, match=r"format=ms_swift .* the columns"):
        read(tmp_path, SWIFT, "ms_swift", columns={"anchor": "messages"})
    with pytest.raises(Exception, match="for rows of a `format`"):
        read(tmp_path, SWIFT, None, negatives=3, columns={"anchor": "messages"})


@pytest.mark.parametrize(
    ("rows", "kind", "columns"),
    [
        (FLAG, Kind.TRIPLET, ["anchor", "positive", "negative", "negative_2", "negative_3"]),
        (SCORED, Kind.TRIPLET, ["anchor", "positive", "negative", "score_positive", "score_negative"]),
        (SWIFT, Kind.TRIPLET, ["anchor", "positive", "negative"]),
    ],
)
def test_a_new_set_knows_the_rows_by_themselves(tmp_path, rows, kind, columns):
    path = tmp_path / "theirs.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    table = read_raw(path)
    rows_are = guess(table)
    assert (rows_are.kind, [*rows_are.columns]) == (kind, columns)
    made = make_set("theirs", table, rows_are, dev=0, test=0)
    assert [*made.splits["train"].columns] == columns
    assert len(made.splits["train"]) + len(made.left_out) == len(table.cells)
    assert bool(rows_are.notes) == (rows is FLAG)  # which says that a negative is not read


def test_labels_of_ms_swift_are_classes_or_scores(tmp_path):
    path = tmp_path / "pairs.jsonl"
    rows = [
        {"messages": said(f"问题{n}"), "positive_messages": [said(f"答案{n}")], "label": n % 2}
        for n in range(9)
    ]
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    assert guess(read_raw(path)).kind is Kind.LABELLED_PAIR
