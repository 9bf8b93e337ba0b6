"""Files that are no UTF-8 table: each is recognised, and answered with what to do about it, in one short line."""

import json
import os

import pyarrow
import pytest
from pyarrow import parquet
from test_source import BY_NAME, ROWS, as_json, as_tsv, dataset, load, written

from juzhen.core.errors import UserError
from juzhen.data import readers
from juzhen.data.readers import read_table
from juzhen.data.source import load_examples
from juzhen.data.spec import LayoutConfig

TABLE = as_tsv(ROWS)


def refused(name, content, folder, **options):
    """What is said of the file; one line, however long the file's own lines are."""
    written(folder, name, content)
    with pytest.raises(UserError) as caught:
        load(dataset(name, **options), folder)
    told = str(caught.value)
    assert "\n" not in told
    assert len(told) < 600 + len(str(folder))
    return told


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
@pytest.mark.parametrize("name", ["train.tsv", "train.jsonl", "train.tsv.gz"])
def test_utf16_is_recognised_by_its_mark(tmp_path, encoding, name):
    content = as_json(ROWS) if "jsonl" in name else TABLE
    told = refused(name, content.encode(encoding), tmp_path)
    assert f"iconv -f {encoding} -t utf-8" in told
    assert "gb18030" not in told


def test_a_text_with_a_nul_byte_is_a_faulty_row(tmp_path):
    told = refused("train.tsv", TABLE + "甲\0乙\t丙\t1\n", tmp_path)
    assert "train.tsv:6: text_a holds a NUL byte" in told
    assert load(dataset("train.tsv"), tmp_path, on_bad_row="drop").num_dropped == 1
    text = LayoutConfig(files={"train": "train.txt"}, columns={}, window=40)
    running = {"kind": "sentence", "labels": None, "layouts": {"tsv": text}}
    assert "train.txt:2: the line holds a NUL byte" in refused(
        "train.txt", "一句很长的话。\n两句\0很长的话。\n", tmp_path, **running
    )


@pytest.mark.parametrize("text", ["\u200b", "\ufeff\u200d", "\x1b"])
def test_a_text_that_nobody_can_see_is_empty(tmp_path, text):
    told = refused("train.tsv", as_tsv([("甲", text, 1)]), tmp_path)
    assert "train.tsv:2: text_b is empty: it holds only characters that cannot be seen" in told


def test_a_column_that_stands_twice_is_no_guess(tmp_path):
    told = refused("train.tsv", "sentence1\tsentence2\tsentence1\tlabel\n甲\t乙\t丙\t1\n", tmp_path)
    assert "the column sentence1 2 times" in told
    assert "Name it by its place, from 0: 0 or 2" in told
    by_place = BY_NAME | {"text_a": 2}
    assert load(dataset("train.tsv", columns=by_place), tmp_path).texts("text_a") == ["丙"]


def test_a_json_key_that_stands_twice_is_a_faulty_row(tmp_path):
    line = '{"sentence1": "甲", "sentence2": "乙", "label": 0, "label": 1}'
    assert "train.json:1: not JSON (the key 'label' appears twice" in refused("train.json", line, tmp_path)


def test_columns_that_nobody_reads_may_have_one_name(tmp_path):
    written(tmp_path, "train.tsv", "\tsentence1\tsentence2\tlabel\t\n0\t甲\t乙\t1\t\n")
    assert len(load(dataset("train.tsv"), tmp_path)) == 1


@pytest.mark.parametrize("column", ["label", "sentence1"])
def test_what_is_long_is_shortened_in_messages(tmp_path, column):
    rows = [("甲" * 5000, "乙", "1" * 5000)]
    columns = BY_NAME | ({"label": "labels"} if column == "sentence1" else {})
    header = "\t".join(["sentence1", "sentence2", "label", *(f"{n}" * 90 for n in range(200))])
    content = header + "\n" + "\t".join([*rows[0], *["x"] * 200]) + "\n"
    refused("train.tsv", content, tmp_path, columns=columns)


def test_a_parquet_file_of_a_value_without_end_is_stopped(tmp_path):
    column = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 4_000_000, pyarrow.int8()), ["甲"])
    parquet.write_table(pyarrow.table({"sentence1": column}), tmp_path / "train.parquet")
    with pytest.raises(UserError, match=r"4,000,000 rows in .* bytes, which no text fits in"):
        load(dataset("train.parquet"), tmp_path)


def test_json_objects_with_a_key_each_take_no_room_of_their_square(tmp_path):
    lines = [json.dumps({"sentence1": "甲", "sentence2": "乙", "label": 1, f"k{n}": 1}) for n in range(3000)]
    written(tmp_path, "train.json", "\n".join(lines))
    table = read_table(tmp_path / "train.json", header=True, quoted=False)
    assert (len(table.names), len(table.columns[5])) == (3003, 3000)
    assert len(load(dataset("train.json"), tmp_path)) == 3000


def test_a_pipe_is_no_file_that_is_waited_for(tmp_path):
    os.mkfifo(tmp_path / "train.tsv")
    with pytest.raises(OSError, match=r"a named pipe.*train\.tsv"):
        load(dataset("train.tsv"), tmp_path)


def test_an_evaluation_split_is_looked_at_alike(tmp_path):
    written(tmp_path, "dev.tsv", TABLE.encode("utf-16"))
    config = dataset("train.tsv")
    config.layouts["tsv"].files["dev"] = "dev.tsv"
    with pytest.raises(UserError, match="UTF-16"):
        load_examples(config, "dev", source="local", data_dir=tmp_path, on_bad_row="error")


@pytest.mark.parametrize("suffix", ["tsv", "jsonl"])
def test_a_line_without_end_is_named(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(readers, "LONGEST_LINE", 1000)
    path = tmp_path / f"dev.{suffix}"
    short, long = ("a\tb", "x" * 2000) if suffix == "tsv" else ('{"a": 1}', json.dumps({"a": "x" * 2000}))
    path.write_text(f"{short}\n{long}\n")
    with pytest.raises(
        UserError, match=rf"dev\.{suffix}:2: the line has 2,\d+ characters. Expected 1,000 at most"
    ):
        readers.read_table(path, header=False, quoted=False)


def test_blanks_around_the_name_of_a_column_are_not_part_of_it(tmp_path):
    (tmp_path / "dev.jsonl").write_text('{" a ": 1}\n')
    (tmp_path / "dev.csv").write_text(' a ,"b"\n1,2\n')
    assert readers.read_table(tmp_path / "dev.jsonl", header=True, quoted=False).names == ["a"]
    assert readers.read_table(tmp_path / "dev.csv", header=True, quoted=True).names == ["a", "b"]
