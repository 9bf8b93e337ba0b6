"""Gaps in a column of labels or scores: such rows are faulty, whatever holds them, and no label is left out unseen."""

import pandas
import pytest

from juzhen.cli.main import main
from juzhen.core.errors import UserError
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
def test_a_row_without_a_label_is_no_positive_pair_though_all_others_are(how, gap, tmp_path):
    rows = held(records(gappy(["1"] * 20, gap, each=5), "label"), how, tmp_path)
    with pytest.raises(UserError, match=r"label is empty.*3 more.*drop"):
        as_examples(rows)
    with pytest.warns(UserWarning, match="4 faulty rows"):
        read = as_examples(rows, on_bad_row="drop")
    assert (read.kind, len(read), read.num_dropped) == ("positive_pair", 16, 4)
    assert "第4问怎么办" not in read.sentences


def test_cells_that_were_split_keep_the_gaps_of_their_rows(tmp_path):
    path = tmp_path / "faq.csv"
    path.write_text("text_a,text_b,label\n甲,乙||丙,1\n丁,戊||己,\n庚,辛,1\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"faq\.csv:3: label is empty"):
        as_examples(path, split_cells="||")
    with pytest.warns(UserWarning, match="1 faulty"):
        assert len(as_examples(path, split_cells="||", on_bad_row="drop")) == 3


@pytest.mark.parametrize("how", ["tuples", "frame", "csv"])
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ["标记", "label"])
@pytest.mark.parametrize(
    ("values", "gap", "each", "kind"),
    [
        (ANSWERS, "不清楚", 20, "labelled_pair"),
        (["entailment", "neutral", "contradiction", "neutral"] * 50, "N/A", 20, "nli_pair"),
        (GRADES, "N/A", 5, "scored_pair"),
    ],
)
def test_a_column_with_a_word_in_some_cells_is_still_the_label(how, name, values, gap, each, kind, tmp_path):
    rows = held(records(gappy(values, gap, each=each), name), how, tmp_path)
    with pytest.raises(UserError, match=f"{gap}.*drop|drop.*{gap}"):
        as_examples(rows, score_range=(0, 5))
    with pytest.warns(UserWarning, match="faulty rows are left out"):
        read = as_examples(rows, score_range=(0, 5), on_bad_row="drop")
    assert (read.kind, len(read)) == (kind, MANY - MANY // each)


def test_missing_values_of_pandas_are_gaps():
    frame = pandas.DataFrame(records([1, 0, 1, 0, None], "label"))
    frame = frame.astype({"label": "Int64"})
    with pytest.raises(UserError, match="label is missing"):
        as_examples(frame)
    with pytest.warns(UserWarning, match="1 faulty"):
        read = as_examples(frame, on_bad_row="drop")
    assert (read.kind, read.targets.tolist()) == ("labelled_pair", [1, 0, 1, 0])


def test_scores_of_a_teacher_that_are_not_of_every_document_are_named(tmp_path):
    path = tmp_path / "faq.csv"
    path.write_text("anchor,positive,negative,score_positive\n甲,乙,丙,0.9\n丁,戊,己,0.8\n", encoding="utf-8")
    with pytest.warns(UserWarning, match=r"score_positive.*not read.*score_negative"):
        read = as_examples(path)
    assert (read.kind, read.teacher_scores) == ("triplet", None)


def test_a_new_set_leaves_rows_without_a_label_out_and_counts_them(tmp_path, capsys):
    path = held(records(gappy(["1"] * 40, "", each=10), "label"), "csv", tmp_path)
    words = ["--data-dir", str(tmp_path / "data"), "--config-dir", str(tmp_path / "conf"), "--yes"]
    assert main(["dataset", str(path), *words]) == 0
    printed = capsys.readouterr().out
    assert "label is empty" in printed
    assert "4 rows" in printed
    written = [*(tmp_path / "data" / "faq").glob("*.csv")]
    assert sum(len(pandas.read_csv(file)) for file in written) == 36
