"""A table of a user's becomes a set: what is found out about it, what is left out, and how it is split."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.core.places import BUILTIN
from juzhen.data.configured import read_description
from juzhen.data.leaks.normalize import normalize
from juzhen.data.new_set import clean, connected_groups, make_set, split_groups, write_set
from juzhen.data.row_kinds import guess
from juzhen.data.sniff import read_grid
from juzhen.data.source import load_examples

LINES = (BUILTIN / "data" / "demo_qmc" / "train.tsv").read_text(encoding="utf-8").splitlines()[1:401]
PAIRS = [line.split("\t") for line in LINES]
WORDS = {"0": "否", "1": "是"}


def write(path: Path, rows: list[list[str]], encoding: str = "utf-8", delimiter: str = ",") -> Path:
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter).writerows(rows)
    path.write_bytes(file.getvalue().encode(encoding))
    return path


HEADER = ["问题", "相似问", "是否相同"]
PLAIN = [HEADER, *PAIRS]
IN_WORDS = [["序号", "甲", "乙", "标签"], *([str(n), a, b, WORDS[c]] for n, (a, b, c) in enumerate(PAIRS))]
GRADED = [["s1", "s2", "score"], *([a, b, str(n % 11 / 2)] for n, (a, b, _) in enumerate(PAIRS))]
NLI = [
    ["premise", "hypothesis", "label"],
    *([a, b, ["蕴含", "中立", "矛盾"][n % 3]] for n, (a, b, _) in enumerate(PAIRS)),
]
TRIPLETS = [["neg", "query", "pos"], *([a + "啊", a, b] for a, b, _ in PAIRS)]
CLASSES = [["内容", "类别"], *([a, f"类{n % 5}"] for n, (a, _, _) in enumerate(PAIRS))]


@pytest.mark.parametrize(
    ("rows", "encoding", "delimiter", "suffix", "kind", "columns"),
    [
        (PLAIN, "utf-8", ",", ".csv", "labelled_pair", {"text_a": 0, "text_b": 1, "label": 2}),
        (PLAIN, "utf-8-sig", ";", ".csv", "labelled_pair", {"text_a": 0, "text_b": 1, "label": 2}),
        (PLAIN, "gb18030", ",", ".csv", "labelled_pair", {"text_a": 0, "text_b": 1, "label": 2}),
        (PLAIN, "utf-16", "\t", ".csv", "labelled_pair", {"text_a": 0, "text_b": 1, "label": 2}),
        (PLAIN, "utf-16-le", "\t", ".txt", "labelled_pair", {"text_a": 0, "text_b": 1, "label": 2}),
        (PAIRS, "utf-8", "\t", ".tsv", "labelled_pair", {"text_a": 0, "text_b": 1, "label": 2}),
        (IN_WORDS, "gbk", "\t", ".tsv", "labelled_pair", {"text_a": 1, "text_b": 2, "label": 3}),
        (GRADED, "utf-8", ",", ".csv", "scored_pair", {"text_a": 0, "text_b": 1, "score": 2}),
        (NLI, "utf-8", ",", ".csv", "nli_pair", {"premise": 0, "hypothesis": 1, "label": 2}),
        ([row[:2] for row in PLAIN], "utf-8", ",", ".csv", "positive_pair", {"anchor": 0, "positive": 1}),
        (TRIPLETS, "utf-8", ",", ".csv", "triplet", {"anchor": 1, "positive": 2, "negative": 0}),
        (CLASSES, "utf-8", ",", ".csv", "labelled_text", {"text": 0, "label": 1}),
        ([row[:1] for row in PAIRS], "utf-8", "\t", ".txt", "sentence", {"text": 0}),
    ],
)  # fmt: skip
def test_what_a_file_holds(tmp_path, rows, encoding, delimiter, suffix, kind, columns):
    path = write(tmp_path / f"pairs{suffix}", rows, encoding, delimiter)
    grid = read_grid(path)
    found = guess(grid)
    assert (found.kind, found.columns) == (kind, columns)
    assert len(grid.rows) == len(PAIRS)
    new = make_set("mine", grid, found)
    description = write_set(
        new, data_dir=tmp_path / "data", description_folder=tmp_path / "conf", made_by="a test"
    )
    config = read_description(description)
    sizes = {}
    for split in ("train", "dev", "test"):
        options = {"source": "local", "data_dir": tmp_path / "data", "on_bad_row": "error", "required": True}
        sizes[split] = len(load_examples(config, split, **options))
    assert sum(sizes.values()) == new.num_rows == sum(config.rows.values())
    assert abs(sizes["dev"] - new.num_rows / 10) <= 3
    assert abs(sizes["test"] - new.num_rows / 10) <= 3


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".xlsx"])
def test_formats_with_names_of_their_own(tmp_path, suffix):
    path = tmp_path / f"pairs{suffix}"
    records = [dict(zip(("a", "b", "label"), (*pair[:2], int(pair[2])), strict=True)) for pair in PAIRS]
    if suffix == ".jsonl":
        path.write_text(
            "\n".join(json.dumps(record, ensure_ascii=False) for record in records), encoding="utf-8"
        )
    elif suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(records), path)
    else:
        openpyxl = pytest.importorskip("openpyxl")
        book = openpyxl.Workbook()
        for row in (["a", "b", "label"], *([*record.values()] for record in records)):
            book.active.append(row)
        book.save(path)
    grid = read_grid(path)
    assert guess(grid).kind is Kind.LABELLED_PAIR
    assert grid.rows[0] == [*PAIRS[0]]


def test_three_columns_of_texts_are_no_triplets_unless_one_is_called_negative(tmp_path):
    rows = [["标准问", "相似问", "答案"], *([a, b, f"回答{n}号"] for n, (a, b, _) in enumerate(PAIRS))]
    grid = read_grid(write(tmp_path / "faq.csv", rows))
    with pytest.raises(UserError, match=r"标准问, 相似问, 答案.*--columns"):
        guess(grid)
    assert guess(grid, columns={"anchor": "标准问", "positive": "3"}).columns == {"anchor": 0, "positive": 2}
    with pytest.raises(UserError, match="did you mean 相似问"):
        guess(grid, columns={"anchor": "标准问", "positive": "相似"})


def test_bytes_of_no_encoding_are_refused_with_their_line(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_bytes("a,b\n好,坏\n".encode() + b"\xff\xff\x80,x\n")
    with pytest.raises(UserError, match=r"pairs\.csv:3: not UTF-8, UTF-16 or GBK"):
        read_grid(path)


def test_rows_that_teach_nothing_or_contradict_are_left_out_with_their_lines(tmp_path):
    rows = [
        HEADER, ["怎么还款", "如何还款", "1"], ["怎么还款", "如何还款", "1"], ["如何还款", "怎么还款", "1"],
        ["退货", "换货", "0"], ["换货", "退货", "1"], ["好的", "", "1"],
        ["同一句", "同一句", "0"], ["同一句", "同一句", "1"],
        ["甲问题", "乙问题", "2"], ["甲问题", "丙问题", ""], ["多一格", "的行", "1", "x"],
    ]  # fmt: skip
    grid = read_grid(write(tmp_path / "pairs.csv", rows))
    kept, left_out = clean(grid, guess(read_grid(write(tmp_path / "good.csv", PLAIN))))
    assert [row[2] for row in kept] == ["1", "1"]
    assert {line: reason.split(" ")[0] for line, reason in left_out.items()} == {
        3: "the", 4: "the", 5: "lines", 6: "lines", 7: "a", 8: "both", 10: "the", 11: "the", 12: "4",
    }  # fmt: skip
    assert left_out[3] == "the same as line 2"
    assert left_out[5] == "lines 5, 6 have the same texts and other labels"


PIECES = st.lists(st.tuples(*[st.integers(0, 60)] * 2, st.integers(0, 1)), min_size=30, max_size=200)


@given(PIECES, st.integers(0, 3))
def test_no_text_is_in_two_splits_and_each_split_has_its_share(rows, seed):
    texts = [[f"句{a}", f"句{b}"] for a, b, _ in rows]
    classes = np.array([label for *_, label in rows])
    groups = connected_groups(texts)
    shares = {"train": 0.8, "dev": 0.1, "test": 0.1}
    splits = split_groups(groups, classes, shares, seed)
    homes: dict[str, set[str]] = {}
    for row, split in zip(texts, splits, strict=True):
        for text in row:
            homes.setdefault(text, set()).add(split)
    assert all(len(home) == 1 for home in homes.values())
    largest = np.bincount(groups).max()
    for split in ("dev", "test"):
        assert splits.count(split) <= 0.1 * len(rows) + largest / 2 + 1
    assert splits == split_groups(groups, classes, shares, seed)


def test_classes_have_their_share_in_each_split(tmp_path):
    grid = read_grid(write(tmp_path / "pairs.csv", PLAIN))
    new = make_set("mine", grid, guess(grid), dev=0.2, test=0.2)
    whole = np.mean([row[2] == "1" for rows in new.splits.values() for row in rows])
    for rows in new.splits.values():
        assert abs(np.mean([row[2] == "1" for row in rows]) - whole) < 0.05
    other = make_set("mine", grid, guess(grid), dev=0.2, test=0.2, seed=1)
    assert other.splits["dev"] != new.splits["dev"]
    together = {normalize(text) for row in new.splits["train"] for text in row[:2]}
    assert not together & {normalize(text) for row in new.splits["test"] for text in row[:2]}


def test_rows_that_all_hang_together_are_refused_with_the_way_out(tmp_path):
    rows = [["标准问", "相似问"], *(["怎么还款", f"还款的第{n}种问法"] for n in range(40))]
    grid = read_grid(write(tmp_path / "faq.csv", rows))
    with pytest.raises(UserError, match=r"40 hang together.*--dev 0 --test 0"):
        make_set("faq", grid, guess(grid))
    assert len(make_set("faq", grid, guess(grid), dev=0, test=0).splits["train"]) == 40


def test_what_somebody_else_has_written_is_not_replaced(tmp_path):
    grid = read_grid(write(tmp_path / "pairs.csv", PLAIN))
    new = make_set("mine", grid, guess(grid))
    places = {"data_dir": tmp_path / "data", "description_folder": tmp_path / "conf", "made_by": "a test"}
    first = write_set(new, **places).read_bytes()
    assert write_set(new, **places).read_bytes() == first
    (tmp_path / "conf" / "mine.yaml").write_text("name: mine\n", encoding="utf-8")
    with pytest.raises(UserError, match="not written by juzhen, or has changed"):
        write_set(new, **places)


@pytest.mark.parametrize("name", ["", "../x", "a b", "a.b", "-"])
def test_names_that_cannot_be_keys_are_refused(tmp_path, name):
    grid = read_grid(write(tmp_path / "pairs.csv", PLAIN))
    with pytest.raises(UserError, match="--name"):
        make_set(name, grid, guess(grid))
