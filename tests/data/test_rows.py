"""Rows of Python objects and of files are the same rows: columns are known by their names, labels by their words."""

import io
from collections import namedtuple
from importlib.util import find_spec

import datasets
import numpy
import pandas
import pyarrow
import pytest
import torch

from juzhen import SentenceEncoder, fit
from juzhen.core.examples import Examples
from juzhen.data.rows import as_examples
from juzhen.evaluation import evaluate

PAIRS = [
    ("怎么退货", "东西想退掉怎么办", 1),
    ("怎么退货", "什么时候发货", 0),
    ("如何开票", "发票怎么开", 1),
    ("如何开票", "怎么退货", 0),
]
NAMES = ["text_a", "text_b", "label"]
RECORDS = [dict(zip(NAMES, row, strict=True)) for row in PAIRS]
Row = namedtuple("Row", NAMES)

AS_PEOPLE_HOLD_THEM = {
    "tuples": PAIRS,
    "lists": [[*row] for row in PAIRS],
    "generator": (row for row in PAIRS),
    "dicts": RECORDS,
    "dicts in another order": [dict(reversed(record.items())) for record in RECORDS],
    "dict of lists": {name: [record[name] for record in RECORDS] for name in NAMES},
    "label as index": pandas.DataFrame(RECORDS).set_index("label"),
    "stream of unseen columns": datasets.IterableDataset.from_generator(lambda: iter(RECORDS)),
    "dict of columns": {
        "text_a": pandas.Series([row["text_a"] for row in RECORDS]),
        "text_b": (row["text_b"] for row in RECORDS),
        "label": torch.tensor([row["label"] for row in RECORDS]),
    },
    "tensors as labels": [(a, b, torch.tensor(label)) for a, b, label in PAIRS],
    "dicts of tensors": [record | {"label": torch.tensor(record["label"])} for record in RECORDS],
    "named tuples": [Row(*row) for row in PAIRS],
    "pandas": pandas.DataFrame(RECORDS),
    "pandas, other columns first": pandas.DataFrame(RECORDS)[["label", "text_a", "text_b"]],
    "pandas without names": pandas.DataFrame(PAIRS),
    "rows of pandas": [*pandas.DataFrame(RECORDS).itertuples()],
    "arrow": pyarrow.Table.from_pylist(RECORDS),
    "arrow batch": pyarrow.RecordBatch.from_pylist(RECORDS),
    "datasets": datasets.Dataset.from_list(RECORDS),
    "datasets, a format with one column": datasets.Dataset.from_list(RECORDS).with_format("torch", ["label"]),
    "a stream of datasets": datasets.Dataset.from_list(RECORDS).to_iterable_dataset(),
    "booleans": [record | {"label": bool(record["label"])} for record in RECORDS],
    "names of Chinese files": [
        {"问题": a, "相似问题": b, "是否同义": "是" if label else "否"} for a, b, label in PAIRS
    ],
    "further columns": [{"id": n + 7, **record, "note": None} for n, record in enumerate(RECORDS)],
}

if find_spec("polars") is not None:
    import polars

    AS_PEOPLE_HOLD_THEM["plan of polars"] = polars.DataFrame(RECORDS).lazy()


@pytest.mark.parametrize("held", AS_PEOPLE_HOLD_THEM)
def test_rows_are_the_same_however_they_are_held(held):
    read = as_examples(AS_PEOPLE_HOLD_THEM[held])
    assert (read.kind, read.texts("text_a"), read.texts("text_b")) == (
        "labelled_pair",
        [a for a, _, _ in PAIRS],
        [b for _, b, _ in PAIRS],
    )
    assert read.targets.tolist() == [1, 0, 1, 0]


def test_several_tables_are_several_sets():
    frames = [pandas.DataFrame(RECORDS), pandas.DataFrame(RECORDS[:3])]
    scores = evaluate("lexical", frames).scores
    assert [scores[f"dev/rows_{number}/auc"].count for number in (1, 2)] == [4, 3]


def rows_with_an_endless_score():
    rows = pandas.DataFrame(RECORDS).rename(columns={"label": "score"}).astype({"score": float})
    rows.loc[1, "score"] = float("inf")
    rows.loc[2, "score"] = 0.5
    return rows


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_score_without_bound_is_a_faulty_row():
    assert as_examples(rows_with_an_endless_score(), on_bad_row="drop").targets.tolist() == [1, 0.5, 0]


def test_numbers_of_classes_have_the_names_that_a_data_set_gives_them():
    features = datasets.Features(
        {
            "premise": datasets.Value("string"),
            "hypothesis": datasets.Value("string"),
            "label": datasets.ClassLabel(names=["contradiction", "neutral", "entailment"]),
        }
    )
    rows = [{"premise": a, "hypothesis": b, "label": n % 3} for n, (a, b, _) in enumerate(PAIRS)]
    read = as_examples(datasets.Dataset.from_list(rows, features=features))
    assert (read.kind, read.targets.tolist()) == ("nli_pair", [2, 1, 0, 2])


LABELS = {
    "是 否": "labelled_pair",
    "yes no": "labelled_pair",
    "相同 不同": "labelled_pair",
    "True False": "labelled_pair",
    "1 0": "labelled_pair",
    "1.0 0.0": "labelled_pair",
    "同义 不同义": "labelled_pair",
    "similar dissimilar": "labelled_pair",
    "√ ×": "labelled_pair",
    "✔ ✘": "labelled_pair",
    "相关 不相关": "labelled_pair",
    "一样 不一样": "labelled_pair",
    "重复 不重复": "labelled_pair",
    "same diff": "labelled_pair",
    "entailment not_entailment": "labelled_pair",
    "蕴含 矛盾": "nli_pair",
    "entailment contradiction": "nli_pair",
    "0.9 0.1": "scored_pair",
}


@pytest.mark.parametrize("words", LABELS)
@pytest.mark.parametrize("held", ["file", "dicts", "tuples"])
def test_labels_are_read_by_their_words(tmp_path, words, held):
    yes, no = words.split()
    rows = [(a, b, yes if label else no) for a, b, label in PAIRS]
    if held == "file":
        lines = ["问题,相似问题,是否同义", *(",".join(row) for row in rows)]
        (tmp_path / "faq.csv").write_text("\n".join(lines), encoding="gb18030")
    given = {
        "file": tmp_path / "faq.csv",
        "dicts": [dict(zip(("问题", "相似问题", "是否同义"), row, strict=True)) for row in rows],
        "tuples": rows,
    }
    read = as_examples(given[held])
    expected = {"labelled_pair": [1, 0, 1, 0], "nli_pair": [0, 2, 0, 2], "scored_pair": [0.9, 0.1, 0.9, 0.1]}
    assert read.kind == LABELS[words]
    assert read.targets.tolist() == pytest.approx(expected[read.kind])


def many_rows(labels, odd, held, folder):
    """200 rows of these labels in turn, with an odd one in row 120; as they are held."""
    rows = [
        (f"怎么办理{n}", f"{n}如何办理", odd if n == 120 else labels[n % len(labels)]) for n in range(1, 201)
    ]
    if held == "tuples":
        return rows
    (folder / "faq.csv").write_text(
        "\n".join(["问题,相似问题,标签", *(",".join(row) for row in rows)]), "utf-8"
    )
    return folder / "faq.csv"


ODD_LABELS = [("01", "2"), ("01", "0.5"), ("01", "-1"), ("01", "x"), ("是否", "也许"), ("是否", "2")]


@pytest.mark.parametrize("held", ["file", "tuples"])
@pytest.mark.parametrize(("labels", "odd"), ODD_LABELS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_odd_label_is_a_faulty_row_and_makes_no_grades(tmp_path, labels, odd, held):
    given = many_rows(labels, odd, held, tmp_path)
    read = as_examples(given, on_bad_row="drop")
    assert (read.kind, len(read), read.num_dropped) == ("labelled_pair", 199, 1)


@pytest.mark.parametrize("odd", ["1 ", "1.0", "是", "true"])
def test_another_spelling_of_a_label_is_no_odd_one(tmp_path, odd, recwarn):
    read = as_examples(many_rows("01", odd, "file", tmp_path))
    assert (read.kind, read.targets[119], len(recwarn)) == ("labelled_pair", 1, 0)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("ending", "num_notes"), [("", 0), (",", 1), (",,", 1)])
def test_an_empty_column_without_a_name_is_not_left_out_silently(tmp_path, recwarn, ending, num_notes):
    lines = [f"第{number}个问题,第{number}个说法{ending}" for number in range(9)]
    (tmp_path / "pairs.csv").write_text("\n".join(lines), encoding="utf-8")
    assert as_examples(tmp_path / "pairs.csv").kind == "positive_pair"
    assert ["column 3" in str(warning.message) for warning in recwarn] == [True] * num_notes


def test_grades_that_are_mostly_0_and_1_are_read_as_grades_where_that_is_said(tmp_path):
    given = many_rows("01", "0.5", "file", tmp_path)
    columns = {"text_a": "问题", "text_b": "相似问题", "score": "标签"}
    assert as_examples(given, columns=columns).targets[119] == 0.5
    given.write_text(given.read_text("utf-8").replace("标签", "得分"), "utf-8")
    assert as_examples(given).kind == "scored_pair"


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_odd_class_of_inference_is_a_faulty_row(tmp_path):
    given = many_rows(["entailment", "neutral", "contradiction"], "neutrall", "file", tmp_path)
    read = as_examples(given, on_bad_row="drop")
    assert (read.kind, len(read)) == ("nli_pair", 199)


def test_fit_learns_labels_and_not_their_words(encoder_folder, tmp_path):
    """A file with 是 and 否, for learning and for dev, leads to the weights that 1 and 0 lead to."""
    lines = ["问题,相似问题,是否同义", *(f"{a},{b},{'是' if label else '否'}" for a, b, label in PAIRS)]
    (tmp_path / "faq.csv").write_text("\n".join(lines), encoding="utf-8")
    learnt = [
        fit(SentenceEncoder.load(encoder_folder), rows, dev=rows, epochs=2, learning_rate=1e-3).state_dict()
        for rows in (PAIRS, str(tmp_path / "faq.csv"), pandas.DataFrame(RECORDS))
    ]
    before = SentenceEncoder.load(encoder_folder).state_dict()
    assert any(not torch.equal(weight, before[name]) for name, weight in learnt[0].items())
    for other in learnt[1:]:
        for name, weight in learnt[0].items():
            assert torch.equal(weight, other[name]), name


UNCLEAR = [
    ([{"标准问": "甲", "相似问": "乙", "答案": "丙"}], r"标准问, 相似问, 答案.*columns=\{'anchor'"),
    ([{"a": 1, "b": 2}], "no column of texts"),
    (numpy.array("甲"), r"rows: .*path of a file"),
    (io.StringIO("a,b\n甲,乙\n"), r"rows: .*path of a file"),
    (dict(PAIRS[i][:2] for i in (0, 2)), r"rows: .*dict of lists"),
    ({"train": PAIRS, "test": PAIRS}, r"rows: .*rows\['train'\]"),
    ([("甲", "乙"), {"a": "丙"}], "row 2: got a dict"),
    ([("甲", 3), ("乙", "丙")], "row 1: positive is 3, not a text"),
    ([("甲", "乙"), ("丙", None)], "row 2: positive is"),
    ([], "no rows. Give a list"),
    ({"甲", "乙"}, "got a set"),
    (7, "got a int"),
    ({"text_a": "甲", "text_b": "乙"}, "one dict"),
    ({"text_a": ["甲"], "text_b": ["乙", "丙"]}, r"columns of \[1, 2\] values"),
    (datasets.DatasetDict(train=datasets.Dataset.from_list(RECORDS)), r"rows\['train'\]"),
    ([object()], "row 1: got a object"),
    ([record | {"label": "maybe"} for record in RECORDS], "label holds maybe"),
    ([record | {"label": "矛盾"} for record in RECORDS], "nothing to learn"),
    ([("甲", "乙", "80%"), ("丙", "丁", "4/5")], "80%, 4/5.*scores"),
    ("nofolder/faq.csv", "nofolder/faq.csv: No such file"),
]


def test_a_person_may_say_which_column_is_what(encoder_folder):
    rows = [
        {"标准问": "甲问", "相似问": "乙问", "答案": "丙答"},
        {"标准问": "丁问", "相似问": "", "答案": "戊答"},
    ]
    for columns in ({"anchor": "标准问", "positive": "答案"}, {"anchor": "1", "positive": "3"}):
        read = as_examples(rows, columns=columns)
        assert (read.texts("anchor"), read.texts("positive")) == (["甲问", "丁问"], ["丙答", "戊答"])
    columns = {"anchor": "标准问", "positive": "相似问"}
    fit(encoder_folder, rows, columns=columns, on_bad_row="drop", loss="info_nce", epochs=1)


def test_scores_of_another_range_are_read_where_it_is_said():
    rows = [(a, b, n) for n, (a, b, _) in enumerate([*PAIRS, ("甲", "乙", 0)])]
    assert as_examples(rows, on_bad_row="drop", score_range=(0, 4)).targets.tolist() == [
        0,
        0.25,
        0.5,
        0.75,
        1,
    ]


def test_examples_are_taken_as_they_are():
    rows = as_examples(PAIRS)
    assert isinstance(rows, Examples)
    assert as_examples(rows) is rows


def test_columns_that_name_rows_are_not_texts():
    rows = [{"商品编号": f"A{n}", "问法": f"第{n}个问题", "说明": f"第{n}个回答"} for n in range(12)]
    assert (
        as_examples(rows).sentences
        == as_examples([{"问法": r["问法"], "说明": r["说明"]} for r in rows]).sentences
    )
    labelled = [{"user_id": f"u{n}", "a": f"问题{n}", "b": f"说法{n}", "label_id": n % 2} for n in range(12)]
    assert as_examples(labelled).targets.tolist() == [n % 2 for n in range(12)]
