"""A table becomes a set: what it is taken for, what is left out, and how it is split."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_tables import write_csv as write

from juzhen.core.examples import Kind
from juzhen.core.paths import BUILTIN
from juzhen.data.dataset_from_table import (
    clean,
    connected_groups,
    make_set,
    origin_of,
    split_groups,
    write_set,
)
from juzhen.data.leaks.matching import normalize
from juzhen.data.readers import decoded
from juzhen.data.row_kinds import guess, read_raw
from juzhen.data.source import load_examples
from juzhen.data.spec import read_description

LINES = (BUILTIN / "data" / "demo_qmc" / "train.tsv").read_text(encoding="utf-8").splitlines()[1:401]
PAIRS = [line.split("\t") for line in LINES]
WORDS = {"0": "否", "1": "是"}


HEADER = ["问题", "相似问", "是否相同"]
PLAIN = [HEADER, *PAIRS]
IN_WORDS = [["序号", "甲", "乙", "标签"], *([str(n), a, b, WORDS[c]] for n, (a, b, c) in enumerate(PAIRS))]
NEGATED = [["a", "b", "c"], *([a, b, ["不匹配", "匹配"][int(c)]] for a, b, c in PAIRS)]
GRADED = [["s1", "s2", "score"], *([a, b, str(n % 11 / 2)] for n, (a, b, _) in enumerate(PAIRS))]
NLI = [
    ["premise", "hypothesis", "label"],
    *([a, b, ["蕴含", "中立", "矛盾"][n % 3]] for n, (a, b, _) in enumerate(PAIRS)),
]
NUMBERED_NLI = [
    ["premise", "hypothesis", "label"],
    *([a, b, str(n % 3)] for n, (a, b, _) in enumerate(PAIRS)),
]
TRIPLETS = [["neg", "query", "pos"], *([a + "啊", a, b] for a, b, _ in PAIRS)]
CLASSES = [["内容", "类别"], *([a, f"类{n % 5}"] for n, (a, _, _) in enumerate(PAIRS))]
QQP = [
    ["id", "qid1", "qid2", "question1", "question2", "is_duplicate"],
    *([str(n), str(7 * n), str(5 * n + 3), *pair] for n, pair in enumerate(PAIRS)),
]
FAQ = [["类别", "标准问", "相似问"], *([f"业务{n % 4}", *pair[:2]] for n, pair in enumerate(PAIRS))]
LABELLED = {"text_a": 0, "text_b": 1, "label": 2}


TRADITIONAL = (
    "問題,相似問題,是否同義\n怎麼退貨,東西想退掉,是\n怎麼退貨,何時發貨,否\n天氣很好,我們去公園散步吧,否\n"
)


@pytest.mark.parametrize("encoding", ["cp950", "big5hkscs", "gb18030", "utf-16"])
def test_traditional_characters_are_read_in_their_encoding(tmp_path, encoding):
    for name, content in (("a.csv", TRADITIONAL), ("long.csv", TRADITIONAL + TRADITIONAL[13:] * 3000)):
        (tmp_path / name).write_bytes(content.encode(encoding))
        text, _ = decoded(tmp_path / name, (tmp_path / name).read_bytes())
        assert text == content


@pytest.mark.parametrize(
    ("rows", "encoding", "delimiter", "suffix", "kind", "columns"),
    [
        (PLAIN, "utf-8", ",", ".csv", "labelled_pair", LABELLED),
        (PLAIN, "utf-8-sig", ";", ".csv", "labelled_pair", LABELLED),
        (PLAIN, "gb18030", ",", ".csv", "labelled_pair", LABELLED),
        (PLAIN, "utf-16", "\t", ".csv", "labelled_pair", LABELLED),
        (PLAIN, "utf-16-le", "\t", ".txt", "labelled_pair", LABELLED),
        (PAIRS, "utf-8", "\t", ".tsv", "labelled_pair", LABELLED),
        ([["a", "b", "class"], *PAIRS], "utf-8", ",", ".csv", "labelled_pair", LABELLED),
        (NEGATED, "utf-16-be", "|", ".csv", "labelled_pair", LABELLED),
        (IN_WORDS, "gbk", "\t", ".tsv", "labelled_pair", {"text_a": 1, "text_b": 2, "label": 3}),
        (QQP, "utf-8", ",", ".csv", "labelled_pair", {"text_a": 3, "text_b": 4, "label": 5}),
        (GRADED, "utf-8", ",", ".csv", "scored_pair", {"text_a": 0, "text_b": 1, "score": 2}),
        (NLI, "utf-8", ",", ".csv", "nli_pair", {"premise": 0, "hypothesis": 1, "label": 2}),
        (NUMBERED_NLI, "utf-8", ",", ".csv", "nli_pair", {"premise": 0, "hypothesis": 1, "label": 2}),
        ([row[:2] for row in PLAIN], "utf-8", ",", ".csv", "positive_pair", {"anchor": 0, "positive": 1}),
        (FAQ, "gbk", ",", ".csv", "positive_pair", {"anchor": 1, "positive": 2}),
        ([row[:2] for row in PAIRS], "gbk", ",", ".csv", "positive_pair", {"anchor": 0, "positive": 1}),
        (TRIPLETS, "utf-8", ",", ".csv", "triplet", {"anchor": 1, "positive": 2, "negative": 0}),
        (CLASSES, "utf-8", ",", ".csv", "labelled_text", {"text": 0, "label": 1}),
        ([row[:1] for row in PAIRS], "utf-8", "\t", ".txt", "sentence", {"text": 0}),
    ],
)  # fmt: skip
@pytest.mark.sampled(2)
def test_what_a_file_holds(tmp_path, rows, encoding, delimiter, suffix, kind, columns):
    path = write(tmp_path / f"pairs{suffix}", rows, encoding, delimiter)
    table = read_raw(path)
    guessed = guess(table)
    places = {field: table.names.index(column) for field, column in guessed.columns.items()}
    assert (guessed.kind, places) == (kind, columns)
    assert len(table.cells) == len(PAIRS)
    new = make_set("mine", table, guessed)
    described = save(new, path, tmp_path)
    config = read_description(described)
    splits = ("train",) if kind == "sentence" else ("train", "dev", "test")
    options = {"source": "hub", "data_dir": "nowhere", "on_bad_row": "error", "required": True}
    sizes = {split: len(load_examples(config, split, **options)) for split in splits}
    assert sum(sizes.values()) == sum(map(len, new.splits.values()))
    if kind != "sentence":
        assert abs(sizes["dev"] - sum(map(len, new.splits.values())) / 10) <= 3
        assert abs(sizes["test"] - sum(map(len, new.splits.values())) / 10) <= 3


def save(new, path, folder):
    return write_set(
        new,
        data_dir=folder / "data",
        descriptions=folder / "conf",
        origin=origin_of(path, ["--name", new.name]),
    )


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".xlsx"])
def test_formats_with_names_of_columns(tmp_path, suffix):
    path = tmp_path / f"pairs{suffix}"
    records = [dict(zip(("a", "b", "label"), (*pair[:2], int(pair[2])), strict=True)) for pair in PAIRS]
    if suffix == ".jsonl":
        lines = (json.dumps(record, ensure_ascii=False) for record in records)
        path.write_text("\n".join(lines), encoding="utf-8")
    elif suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(records), path)
    else:
        openpyxl = pytest.importorskip("openpyxl")
        book = openpyxl.Workbook()
        for row in (["a", "b", "label", None], *([*record.values()] for record in records)):
            book.active.append(row)
        book.save(path)
    table = read_raw(path)
    assert guess(table).kind is Kind.LABELLED_PAIR
    assert table.cells.iloc[0].tolist() == PAIRS[0]


def test_lists_of_negatives_become_columns(tmp_path):
    path = tmp_path / "mined.jsonl"
    rows = [
        {"question": a, "positive": [b], "negatives": [f"{b}吗", f"{a}呢", "无关"][: 2 + n % 2]}
        for n, (a, b, _) in enumerate(PAIRS)
    ]
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), encoding="utf-8")
    table = read_raw(path)
    assert guess(table).columns == {
        "anchor": "question",
        "positive": "positive",
        "negative": "negatives",
        "negative_2": "negatives 2",
        "negative_3": "negatives 3",
    }
    assert clean(table, guess(table))[0].iloc[0].tolist() == [
        *PAIRS[0][:2],
        f"{PAIRS[0][1]}吗",
        f"{PAIRS[0][0]}呢",
        "",  # every other row has a third one
    ]


def test_triplets_that_share_negatives_are_split_all_the_same(tmp_path):
    rows = [["query", "pos", "neg"], *([f"问{n}", f"答{n}", f"反例{n % 3}"] for n in range(60))]
    table = read_raw(write(tmp_path / "mined.csv", rows))
    assert {*make_set("mined", table, guess(table)).splits} == {"train", "dev", "test"}


def test_a_formula_without_its_value_is_an_empty_cell(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (HEADER, *PAIRS[:20], ["=A2", "怎么办", 1]):
        book.active.append(row)
    book.save(tmp_path / "faq.xlsx")
    table = read_raw(tmp_path / "faq.xlsx")
    assert clean(table, guess(table))[1] == {22: "text_a is empty"}


def table_with_answers(folder):
    rows = [["标准问", "相似问", "答案"], *([a, b, f"回答{n}号"] for n, (a, b, _) in enumerate(PAIRS))]
    return read_raw(write(folder / "faq.csv", rows))


def test_two_of_three_columns_of_texts_are_pairs_where_that_is_said(tmp_path):
    table = table_with_answers(tmp_path)
    columns = {"anchor": "标准问", "positive": "3"}
    assert guess(table, columns=columns).columns == {"anchor": "标准问", "positive": "答案"}


def test_one_label_in_every_row_makes_positive_pairs(tmp_path):
    table = read_raw(write(tmp_path / "pairs.csv", [[*row[:2], "1"] for row in PAIRS]))
    assert guess(table).kind is Kind.POSITIVE_PAIR


@pytest.mark.parametrize(
    ("first", "is_header"),
    [
        (["请问怎么还款", "想问还款的办法"], False),
        (["标准问", "相似问"], True),
        (["question", "answer"], True),
        (["怎么还款？", "问题"], False),
    ],
)
def test_whether_the_first_line_names_the_columns(tmp_path, first, is_header):
    table = read_raw(write(tmp_path / "pairs.csv", [first, *(row[:2] for row in PAIRS)]))
    assert (table.names == first) is is_header


def test_cells_with_quotes_commas_and_ends_of_lines(tmp_path):
    odd = ['他说"你好", 然后\n走了', "=1+1", "1"]
    table = read_raw(write(tmp_path / "pairs.csv", [HEADER, odd, *PAIRS], "utf-8-sig"))
    assert table.cells.iloc[0].tolist() == odd
    assert [*table.cells.index[:2]] == [2, 4]
    stray = tmp_path / "pairs.tsv"
    stray.write_text("\n".join(f'"{a}"吗\t"{b}' for a, b, _ in PAIRS), encoding="utf-8")
    assert read_raw(stray).cells.iloc[0].tolist() == [f'"{PAIRS[0][0]}"吗', f'"{PAIRS[0][1]}']


def test_rows_that_teach_nothing_or_contradict_are_left_out_with_their_lines(tmp_path):
    rows = [
        HEADER, ["怎么还款", "如何还款", "1"], ["怎么还款", "如何还款", "1"], ["如何还款", "怎么还款", "1"],
        ["退货", "换货", "0"], ["换货", "退货", "1"], ["好的", "", "1"],
        ["同一句", "同一句", "0"], ["同一句", "同一句", "1"],
        ["甲问题", "乙问题", "2"], ["甲问题", "丙问题", ""], ["多一格", "的行", "1", "x"],
    ]  # fmt: skip
    table = read_raw(write(tmp_path / "pairs.csv", rows))
    good, left_out = clean(table, guess(read_raw(write(tmp_path / "good.csv", PLAIN))))
    assert good["label"].tolist() == ["1", "1"]
    assert good.index.tolist() == [2, 9]
    assert left_out == {
        3: "repeats an earlier row",
        4: "repeats an earlier row",
        5: "contradicts another row",
        6: "contradicts another row",
        7: "text_b is empty",
        8: "two of its texts are the same",
        10: "label is 2, which is none of the classes",
        11: "label is empty",
        12: "4 cells, expected 3",
    }


PIECES = st.lists(st.tuples(*[st.integers(0, 60)] * 2, st.integers(0, 1)), min_size=30, max_size=200)


@given(PIECES, st.integers(0, 3))
def test_no_text_is_in_two_splits_and_each_split_has_its_share(rows, seed):
    texts = [[f"句{a}" for a, _, _ in rows], [f"句{b}" for _, b, _ in rows]]
    classes = np.array([label for *_, label in rows])
    groups = connected_groups(texts)
    shares = {"train": 0.8, "dev": 0.1, "test": 0.1}
    splits = split_groups(groups, classes, shares, seed).tolist()
    homes: dict[str, set[str]] = {}
    for column in texts:
        for text, split in zip(column, splits, strict=True):
            homes.setdefault(text, set()).add(split)
    assert all(len(home) == 1 for home in homes.values())
    largest = np.bincount(groups).max()
    for split in ("dev", "test"):
        assert splits.count(split) <= 0.1 * len(rows) + largest / 2 + 1
    assert splits == split_groups(groups, classes, shares, seed).tolist()


def test_classes_have_their_share_in_each_split(tmp_path):
    table = read_raw(write(tmp_path / "pairs.csv", PLAIN))
    new = make_set("mine", table, guess(table), dev=0.2, test=0.2)
    whole = np.mean([label == "1" for rows in new.splits.values() for label in rows["label"]])
    for rows in new.splits.values():
        assert abs((rows["label"] == "1").mean() - whole) < 0.05
    other = make_set("mine", table, guess(table), dev=0.2, test=0.2, seed=1)
    assert not other.splits["dev"].equals(new.splits["dev"])
    texts = {
        split: {*map(normalize, [*rows["text_a"], *rows["text_b"]])} for split, rows in new.splits.items()
    }
    assert not texts["train"] & (texts["dev"] | texts["test"])
    assert not texts["dev"] & texts["test"]


def joined_rows(folder):
    rows = [["标准问", "相似问"], *(["怎么还款", f"还款的第{n}种问法"] for n in range(40))]
    return read_raw(write(folder / "faq.csv", rows))


def test_rows_that_are_all_joined_make_a_set_without_other_splits(tmp_path):
    table = joined_rows(tmp_path)
    assert len(make_set("faq", table, guess(table), dev=0, test=0).splits["train"]) == 40


def test_a_set_is_written_again_with_the_same_bytes(tmp_path):
    path = write(tmp_path / "pairs.csv", PLAIN)
    table = read_raw(path)
    new = make_set("mine", table, guess(table))
    described = save(new, path, tmp_path)
    first = described.read_bytes()
    assert save(new, path, tmp_path).read_bytes() == first


def test_a_description_has_no_key_that_has_a_default(tmp_path):
    path = write(tmp_path / "pairs.csv", PLAIN)
    table = read_raw(path)
    text = save(make_set("mine", table, guess(table)), path, tmp_path).read_text(encoding="utf-8")
    assert text.startswith("# @package dataset.mine\n# Made of: ")
    keys = [line.partition(":")[0] for line in text.splitlines() if not line.startswith((" ", "#"))]
    assert keys == ["name", "kind", "language", "source", "layout", "layouts", "labels"]
