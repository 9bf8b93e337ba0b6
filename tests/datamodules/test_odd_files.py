"""Files that are no table of the set: each is refused in one short line, with its place and what to do about it."""

import json
import os

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from test_source import (
    BY_NAME,
    BY_POSITION,
    FORMATS,
    ROWS,
    as_json,
    as_parquet,
    as_tsv,
    dataset,
    load,
    packed,
    with_classes,
    written,
)

from juzhen.core.errors import UserError
from juzhen.data import readers
from juzhen.data.readers import read_table
from juzhen.data.spec import HubConfig, LayoutConfig

HEADER = "sentence1\tsentence2\tlabel\n"
SHORT, LONG = "甲\t乙\n", "甲\t乙\t1\t多\n"
GOOD = f"{HEADER}甲\t乙\t1\n"
WORSE = as_tsv([("甲", "乙", 1), ("甲", "", 1), ("甲", "乙", 7), ("", "", 9)]) + SHORT
GRADES = {
    "kind": "scored_pair",
    "score_range": [0, 5],
    "labels": None,
    "columns": {"text_a": "sentence1", "text_b": "sentence2", "score": "label"},
}
TWICE = "sentence1\tsentence2\tsentence1\tlabel\n甲\t乙\t丙\t1\n"
FAULTY_ROWS = {
    "too few fields": (GOOD + SHORT, "train.tsv:3: .*2 fields, expected 3"),
    "too many fields": (f"{HEADER}{LONG}甲\t乙\t1\n", "train.tsv:2: .*4 fields, expected 3"),
    "unknown label": (f"{GOOD}甲\t乙\tja\n", "train.tsv:3: .*'ja'. Known: 0, 1"),
    "missing label": (f"{GOOD}甲\t乙\t\n", "train.tsv:3: .*label is missing"),
    "empty text": (f"{GOOD}甲\t \t0\n", "train.tsv:3: text_b is empty"),
    "bad UTF-8": (GOOD.encode() + "好".encode() + b"\xd0\t\xe4\t1\n", "train.tsv:3: byte 4 .*0xd0.*UTF-8"),
    "NUL byte": (f"{GOOD}甲\0乙\t丙\t1\n", "train.tsv:3: text_a holds a NUL byte"),
    **{
        f"unseen {text!r}": (f"{GOOD}甲\t{text}\t1\n", "train.tsv:3: text_b is empty: .*cannot be seen")
        for text in ("\u200b", "\ufeff\u200d", "\x1b")
    },
    **{
        f"score {word!r}": (as_tsv([("甲", "乙", 2), ("甲", "乙", word)]), f"train.tsv:3: {said}", GRADES)
        for word, said in {
            "nan": "the score is nan, outside of score_range",
            "inf": "the score is inf, outside of score_range",
            "5.5": r"the score is 5.5, outside of score_range \[0, 5\]",
            "-1": "the score is -1, outside",
            "drei": "the score is 'drei', not a number",
            "": "the score is missing",
        }.items()
    },
    "several": (WORSE, r"train\.tsv:3: text_b is empty\. 3 more rows", {"rows": 5}, 4),
}
"""Fault → the file; its line and what is wrong there; what the set says; the number of its faulty rows."""


@pytest.mark.parametrize("fault", FAULTY_ROWS)
def test_a_faulty_row_is_named_or_dropped_and_counted(tmp_path, fault):
    content, message, *more = FAULTY_ROWS[fault]
    options, count = (*more, *({}, 1)[len(more) :])
    config = dataset(written(tmp_path, "train.tsv", content), **{"rows": 2} | options)
    with pytest.raises(UserError, match=f"^{tmp_path}/{message}.*on_bad_row=drop") as caught:
        load(config, tmp_path)
    assert "\n" not in str(caught.value)
    examples = load(config, tmp_path, on_bad_row="drop")
    assert (examples.texts("text_a"), examples.num_dropped) == (["甲"], count)


ENDS = np.cumsum([0, *(len(row[0].encode()) for row in ROWS)]).astype("<i4")
STRANGE_ENDS = np.append(ENDS[:-1], 10**6).astype("<i4")
STRANGE_ARROW = FORMATS[".arrow"][0].replace(ENDS.tobytes(), STRANGE_ENDS.tobytes())
MANY = as_tsv([(f"句{number * 7919 % 10007}", f"另{number}", number % 2) for number in range(5000)])
LAYOUT = LayoutConfig(files={"train": "toy/train.tsv.zst"}, columns=BY_NAME)
ON_HUB = HubConfig(id="x", splits={"train": "train"}, columns={})


def running(name="train.txt"):
    """What a set of running text says of its file."""
    layout = LayoutConfig(files={"train": name}, columns={"text": 0}, header=False, window=10)
    return {"kind": "sentence", "labels": None, "layouts": {"tsv": layout}}


LONG_LINE = "\t".join([*HEADER.split(), *(f"{n}" * 90 for n in range(200))]) + "\n"
LONG_LINE += "\t".join(["甲" * 5000, "乙", "1" * 5000, *["x"] * 200]) + "\n"
PAIRS = [as_tsv(ROWS), as_tsv(ROWS[:1])]


def endless():
    """A small file of four million rows."""
    column = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 4_000_000, pyarrow.int8()), ["甲"])
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.table({"sentence1": column}), sink)
    return sink.getvalue().to_pybytes()


REFUSED = {
    # the table
    "empty": ("train.tsv", b"", {}, r"train\.tsv: the file is empty"),
    "only a header": ("train.tsv", HEADER, {}, "no rows are left"),
    "missing column": (
        "train.tsv",
        "sentence1\tsentense2\tlabel\n甲\t乙\t1\n",
        {},
        "no column sentence2 .*are sentence1, sentense2, label. Did you mean .*sentense2",
    ),
    "no header line": ("train.tsv", "甲\t乙\t1\n", {"header": False}, "no column sentence1 .*no header line"),
    "position out of range": (
        "train.tsv",
        as_tsv(ROWS),
        {"columns": {**BY_POSITION, "label": 3}},
        "label .*column 3 .*only 3 columns",
    ),
    "column that stands twice": ("train.tsv", TWICE, {}, "sentence1 2 times.* by its place, from 0: 0 or 2"),
    "row count": (
        "train.tsv",
        as_tsv(ROWS),
        {"rows": 5},
        r"4 rows, .*dataset\.toy\.rows\.train promises 5.*type dataset\.toy\.rows\.train=null",
    ),
    "long cells": ("train.tsv", LONG_LINE, {}, "label"),
    "long names": ("train.tsv", LONG_LINE, {"columns": BY_NAME | {"label": "labels"}}, "labels"),
    "GBK": ("train.tsv", GOOD.encode("gb18030"), {}, r"train\.tsv:2: byte 1 .*iconv -f gb18030"),
    "GBK, rows left out": (
        "train.tsv",
        GOOD.encode("gb18030"),
        {"on_bad_row": "drop"},
        r"no rows are left \(1 were read, 1 of them faulty\)",
    ),
    **{
        f"{name} in {encoding}": (
            name,
            content.encode(encoding),
            {},
            f"(?!.*gb18030).*iconv -f {encoding} -t utf-8",
        )
        for encoding in ("utf-16", "utf-32")
        for name, content in (
            ("train.tsv", PAIRS[0]),
            ("train.jsonl", as_json(ROWS)),
            ("train.tsv.gz", PAIRS[0]),
        )
    },
    "evaluation split": (
        "dev.tsv",
        PAIRS[0].encode("utf-16"),
        {"split": "dev", "layouts": {"tsv": LayoutConfig(files={"dev": "dev.tsv"}, columns=BY_NAME)}},
        "UTF-16",
    ),
    # quotes
    "open quote": (
        "train.csv",
        'sentence1,sentence2,label\na,b,1\nc,"d,0\ne,f,1\n',
        {"quoted": True},
        r"train\.csv:3: a quoted field .*unbalanced",
    ),
    "quote in a quoted field": (
        "train.csv",
        'sentence1,sentence2,label\na,b,1\nc,"d,0\ne,"f",1\n',
        {"quoted": True},
        r"train\.csv:3: a quoted field",
    ),
    "quote that swallows a line": (
        "train.csv",
        'sentence1,sentence2,label\na,b,1\n"c,d,0\ne,f",1\ng,h,0\n',
        {"quoted": True},
        r"train\.csv:3: .*2 fields, expected 3",
    ),
    "quotes that nobody announced": (
        "train.csv",
        'sentence1,sentence2,label\n"a, b",c,1\n',
        {},
        r"train\.csv:2: .*4 fields, expected 3. .*set quoted: true",
    ),
    "texts in quotes that nobody announced": (
        "train.csv",
        'sentence1,sentence2,label\n"a ""b""",c,1\n',
        {},
        r"train\.csv:2: text_a .*`quoted: true`",
    ),
    "first row that is taken for names": (
        "train.tsv",
        "甲\t乙\t1\n丙\t丁\t0\n",
        {"columns": BY_POSITION},
        r"train\.tsv:1: .*label 1\b.*`header: false`",
    ),
    # JSON
    "not JSON": ("train.json", as_json(ROWS) + "\n{oops\n", {}, r"train\.json:5: not JSON"),
    "no JSON object": ("train.json", as_json(ROWS) + "\n7\n", {}, r"train\.json:5: not a JSON object"),
    "JSON array": ("train.json", "[{}]", {}, "one JSON object per line"),
    "key twice": (
        "train.json",
        '{"sentence1": "甲", "sentence2": "乙", "label": 0, "label": 1}',
        {},
        r"train\.json:1: not JSON .*'label'.* twice",
    ),
    "key missing in a row": (
        "train.json",
        as_json(ROWS) + '\n{"sentence1": "a", "label": 1}',
        {},
        r"train\.json:5: text_b is missing",
    ),
    "half a character": (
        "train.json",
        '{"sentence1": "\\ud800", "sentence2": "a", "label": 1}',
        {},
        r"train\.json:1: text_a holds half a surrogate pair",
    ),
    # Parquet and Arrow
    "no parquet": ("train.parquet", b"PAR1 and so on", {}, "damaged, or in another format"),
    "no arrow": ("train.arrow", b"ARROW1 and so on", {}, "damaged, or in another format"),
    "parquet cut": ("train.parquet", as_parquet(ROWS)[:-20], {}, "damaged, or in another format"),
    "arrow cut": ("train.feather", FORMATS[".feather"][0][:-20], {}, "damaged, or in another format"),
    "arrow with a strange end of a text": ("train.arrow", STRANGE_ARROW, {}, "damaged, or in another format"),
    "empty parquet": ("train.parquet", b"", {}, "the file is empty"),
    "parquet without a column": (
        "train.parquet",
        as_parquet(ROWS),
        {"columns": {**BY_NAME, "text_a": "a"}},
        "no column a",
    ),
    "parquet without end": ("train.parquet", endless(), {}, "4,000,000 rows in .* bytes"),
    **{
        f"classes of {suffix}": (
            f"train{suffix}",
            with_classes(suffix),
            {"labels": {"a": 0, "b": 1}},
            "row 1: .*'1'. Known: a, b",
        )
        for suffix in (".parquet", ".arrow")
    },
    # what the set says of it
    "unknown suffix": ("train.xls", b"x", {}, "unknown suffix"),
    "field of another kind": (
        "train.tsv",
        PAIRS[0],
        {"columns": {**BY_NAME, "txt_a": "x"}},
        "field txt_a, which a labelled_pair",
    ),
    "field not mapped": (
        "train.tsv",
        PAIRS[0],
        {"columns": {"text_a": "sentence1", "text_b": "sentence2"}},
        "needs a column for label",
    ),
    "labels not given": ("train.tsv", PAIRS[0], {"labels": None}, r"dataset\.toy\.labels: expected"),
    "label of no class": ("train.tsv", PAIRS[0], {"labels": {"0": 0, "1": 2}}, "class number, 0 to 1"),
    "source": ("train.tsv", PAIRS[0], {"source": "locl"}, "source=locl: .*Did you mean local"),
    "on_bad_row": ("train.tsv", PAIRS[0], {"on_bad_row": "skip"}, "on_bad_row=skip: .*Known: drop, error"),
    "no such folder": ("train.tsv", PAIRS[0], {"data_dir": "nowhere"}, "nowhere: no such folder"),
    "not on the hub": ("train.tsv", PAIRS[0], {"source": "hub"}, "source=local, data_dir="),
    # running text
    "NUL byte in a text": ("train.txt", "两句\0很长的话。\n", running(), r"train\.txt:1: .*NUL byte"),
    "text in GBK": (
        "train.txt",
        "第一行\n".encode() + "第二行\n".encode("gb18030"),
        running(),
        r"train\.txt:2: byte \d+ .*UTF-8.*on_bad_row=drop",
    ),
    "short lines": ("train.txt", "短\n也短\n", running(), "no line of 4 .* is left for train"),
    "absent text": ("other.txt", "一行文字。", running(), r"file .*train\.txt not found.*data_dir"),
    "text in a table": ("some.csv", "一行文字。", running("some.csv"), r"\.txt, \.txt\.zst or \.txt\.gz"),
    **{
        f"empty {name}": (name, "", running(name), "the file is empty")
        for name in ("train.txt", "train.txt.zst")
    },
    # files that are missing, packed otherwise or cut short
    "damaged gzip": ("train.tsv", PAIRS[0], {"file": "train.tsv.gz"}, "another way than its suffix"),
    **{
        f"{share} of an archive {suffix}": (
            "part",
            (whole := packed(suffix, MANY))[: int(len(whole) * share)],
            {"file": f"train.tsv{suffix}"},
            "cut short",
        )
        for suffix in (".zst", ".gz")
        for share in (0.3, 0.999)
    },
    "absent": (
        "other.tsv",
        PAIRS[0],
        {"set": "toy/train.tsv.zst", "hub": ON_HUB, "layouts": {"tsv": LAYOUT, "original": LAYOUT}},
        r"(?=.*data_dir=)(?=.*dataset\.toy\.layout=original)(?=.*source=hub).*/toy/train\.tsv\.zst not found",
    ),
    "absent split": (
        "train.tsv",
        PAIRS[0],
        {"split": "test", "group": "evaluate"},
        r"layout tsv .*evaluate\.toy\.layouts\.tsv\.files\.test=",
    ),
    "one of two absent": (
        "one.tsv",
        PAIRS[0],
        {"set": ["one.tsv", "two.tsv.zst"]},
        r"2 files, .*two.tsv.zst is missing. .*dataset\.toy\.layout=",
    ),
    "two absent": ("other", "", {"set": ["one.tsv", "two.tsv.zst"]}, r"file .*one\.tsv not found"),
    **{
        f"{name} packed in two ways": (["train.tsv", "train.tsv.gz"], PAIRS, {"set": name}, "Keep only one")
        for name in ("train.tsv.zst", "train.tsv", "train.tsv.gz")
    },
}
"""What is wrong → the file or files; what is in them; what the set and the job say; what is named."""


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_wrong_with_a_file_is_one_short_line(tmp_path, what):
    names, contents, options, message = REFUSED[what]
    several = [(names, contents)] if isinstance(names, str) else zip(names, contents, strict=True)
    for name, content in several:
        written(tmp_path, name, content)
    options = dict(options)
    if "file" in options:  # under a name that says something else
        (tmp_path / names).rename(tmp_path / options["file"])
    asked = options.pop("file", options.pop("set", names))
    of_job = {"split", "group", "source", "on_bad_row", "data_dir"} & options.keys()
    of_job = {key: options.pop(key) for key in of_job}
    with pytest.raises(UserError, match=message) as caught:
        load(dataset(asked, **options), tmp_path, **of_job)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600 + len(str(tmp_path))


def test_columns_that_nobody_reads_may_have_one_name(tmp_path):
    written(tmp_path, "train.tsv", "\tsentence1\tsentence2\tlabel\t\n0\t甲\t乙\t1\t\n")
    assert len(load(dataset("train.tsv"), tmp_path)) == 1
    by_place = dataset(written(tmp_path, "twice.tsv", TWICE), columns=BY_NAME | {"text_a": 2})
    assert load(by_place, tmp_path).texts("text_a") == ["丙"]


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


@pytest.mark.parametrize("suffix", ["tsv", "jsonl"])
def test_a_line_without_end_is_named(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(readers, "LONGEST_LINE", 1000)
    path = tmp_path / f"dev.{suffix}"
    short, long = ("a\tb", "x" * 2000) if suffix == "tsv" else ('{"a": 1}', json.dumps({"a": "x" * 2000}))
    path.write_text(f"{short}\n{long}\n")
    with pytest.raises(UserError, match=rf"dev\.{suffix}:2: .*2,\d+ characters\. Expected 1,000"):
        readers.read_table(path, header=False, quoted=False)


def test_blanks_around_the_name_of_a_column_are_not_part_of_it(tmp_path):
    (tmp_path / "dev.jsonl").write_text('{" a ": 1}\n')
    (tmp_path / "dev.csv").write_text(' a ,"b"\n1,2\n')
    assert readers.read_table(tmp_path / "dev.jsonl", header=True, quoted=False).names == ["a"]
    assert readers.read_table(tmp_path / "dev.csv", header=True, quoted=True).names == ["a", "b"]
