"""Gaps in a column of labels or scores: such rows are faulty, whatever holds them, and no label is left out unseen."""

import pandas
import pytest

from juzhen.cli.main import main
from juzhen.data.rows import as_examples

MANY = 200
GRADES = [str(number % 6) for number in range(MANY)]
ANSWERS = ["是" if number % 2 else "否" for number in range(MANY)]


def gappy(values, gap, *, each):
    return [gap if number % each == each - 1 else value for number, value in enumerate(values)]


def records(values, name):
    pairs = ({"text_a": f"第{row}问怎么办", "text_b": f"第{row}问如何解决"} for row in range(len(values)))
    return [pair | {name: value} for pair, value in zip(pairs, values, strict=True)]


def held(rows, how, folder):
    frame = pandas.DataFrame(rows)
    if how == "tuples":
        return [tuple(row.values()) for row in rows]
    if how == "frame":
        return frame
    if how == "parquet":
        frame.to_parquet(folder / "faq.parquet")
        return folder / "faq.parquet"
    frame.to_csv(folder / "faq.csv", index=False)
    return folder / "faq.csv"


@pytest.mark.parametrize("how", ["frame", "parquet", "csv"])
@pytest.mark.parametrize("gap", ["", None])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_row_without_a_label_is_no_positive_pair_though_all_others_are(how, gap, tmp_path):
    rows = held(records(gappy(["1"] * 20, gap, each=5), "label"), how, tmp_path)
    read = as_examples(rows, on_bad_row="drop")
    assert (read.kind, len(read), read.num_dropped) == ("positive_pair", 16, 4)
    assert "第4问怎么办" not in read.sentences


def table_of_split_cells(folder):
    path = folder / "faq.csv"
    path.write_text("text_a,text_b,label\n甲,乙||丙,1\n丁,戊||己,\n庚,辛,1\n", encoding="utf-8")
    return path


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_cells_that_were_split_keep_the_gaps_of_their_rows(tmp_path):
    path = table_of_split_cells(tmp_path)
    assert len(as_examples(path, split_cells="||", on_bad_row="drop")) == 3


SOME_WORDS = [
    (ANSWERS, "不清楚", 20, "labelled_pair"),
    (["entailment", "neutral", "contradiction", "neutral"] * 50, "N/A", 20, "nli_pair"),
    (GRADES, "N/A", 5, "scored_pair"),
]


@pytest.mark.parametrize("how", ["tuples", "frame", "csv"])
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ["标记", "label"])
@pytest.mark.parametrize(("values", "gap", "each", "kind"), SOME_WORDS)
def test_a_column_with_a_word_in_some_cells_is_still_the_label(how, name, values, gap, each, kind, tmp_path):
    rows = held(records(gappy(values, gap, each=each), name), how, tmp_path)
    read = as_examples(rows, score_range=(0, 5), on_bad_row="drop")
    assert (read.kind, len(read)) == (kind, MANY - MANY // each)


def frame_with_a_missing_label():
    return pandas.DataFrame(records([1, 0, 1, 0, None], "label")).astype({"label": "Int64"})


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_missing_values_of_pandas_are_gaps():
    read = as_examples(frame_with_a_missing_label(), on_bad_row="drop")
    assert (read.kind, read.targets.tolist()) == ("labelled_pair", [1, 0, 1, 0])


def table_with_scores_of_positives_alone(folder):
    path = folder / "faq.csv"
    path.write_text("anchor,positive,negative,score_positive\n甲,乙,丙,0.9\n丁,戊,己,0.8\n", encoding="utf-8")
    return path


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_scores_of_a_teacher_that_are_not_of_every_document_are_not_read(tmp_path):
    read = as_examples(table_with_scores_of_positives_alone(tmp_path))
    assert (read.kind, read.teacher_scores) == ("triplet", None)


def new_set_of_gappy_rows(folder):
    path = held(records(gappy(["1"] * 40, "", each=10), "label"), "csv", folder)
    words = ["--data-dir", str(folder / "data"), "--config-dir", str(folder / "conf"), "--yes"]
    assert main(["dataset", str(path), *words]) == 0


def test_a_new_set_leaves_rows_without_a_label_out(tmp_path):
    new_set_of_gappy_rows(tmp_path)
    written = [*(tmp_path / "data" / "faq").glob("*.csv")]
    assert sum(len(pandas.read_csv(file)) for file in written) == 36
