"""Whatever a data file holds, it becomes rows or one UserError, in memory that its size bounds."""

import gzip
import json

import numpy as np
import pyarrow
import pytest
import zstandard
from fuzzing import answer, any_file, memory_bound, on_examples, sizes, spoilt
from hypothesis import strategies as st
from pyarrow import parquet

from juzhen.calibration.pair_scorer import Scorer
from juzhen.cli.verbs import verb
from juzhen.core.examples import Examples
from juzhen.data.readers import FileTable
from juzhen.data.row_checks import read_targets
from juzhen.data.source import load_examples
from juzhen.data.spec import DatasetConfig, LayoutConfig
from juzhen.data.tables import text_values
from juzhen.encoders.augmentation import Translations

ROWS = [("一个人在弹吉他。", "他在弹琴", "1"), ('他说"好"', "行", "0"), ("a b", "c,d", "1")]
NAMES = ("text_a", "text_b", "label")
TSV = "\n".join("\t".join(row) for row in [NAMES, *ROWS]).encode() + b"\n"
CSV = b'text_a,text_b,label\n"a ""b""\nc",d,1\ne,"f",0\n'
JSON_LINES = "\n".join(
    json.dumps(dict(zip(NAMES, row, strict=True)), ensure_ascii=False) for row in ROWS
).encode()
TEXT = "第一句话很长，真的很长。第二句话！第三句？\n短\n\n又一行文字，没有句号\n".encode() * 3


def packed(table: pyarrow.Table, **options: object) -> bytes:
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(table, sink, **options)
    return sink.getvalue().to_pybytes()


def streamed(table: pyarrow.Table) -> bytes:
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


COLUMNS = dict(zip(NAMES, zip(*ROWS, strict=True), strict=True))
PARQUET = [
    packed(pyarrow.table(COLUMNS)),
    packed(pyarrow.table(COLUMNS), compression="none", use_dictionary=False),
    packed(pyarrow.table(COLUMNS | {"label": [1, None, 0], "other": [[1], [], None]})),
    packed(pyarrow.table(COLUMNS | {"text_b": [1.5, 2, None], "label": [b"1", b"0", b"\xff"]})),
]
FORMATS = {
    "train.tsv": [TSV],
    "train.txt": [TSV],
    "train.csv": [CSV, TSV.replace(b"\t", b",")],
    "train.json": [JSON_LINES],
    "train.jsonl": [JSON_LINES, b'{"text_a": {"a": [1]}, "text_b": 3, "label": 1.0}'],
    "train.parquet": PARQUET,
    "train.arrow": [streamed(pyarrow.table(COLUMNS))],
    "train.tsv.gz": [gzip.compress(TSV)],
    "train.csv.zst": [zstandard.compress(CSV)],
    "train.parquet.gz": [gzip.compress(PARQUET[0])],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    memory_bound()
    return tmp_path_factory.mktemp("fuzz")


def described(name, *, by_place=False, header=True, quoted=False, **more):
    columns = dict(zip(NAMES, range(3) if by_place else NAMES, strict=True))
    layout = LayoutConfig(files={"train": name}, columns=columns, header=header, quoted=quoted, **more)
    return DatasetConfig(
        name="toy",
        kind="labelled_pair",
        language="zh",
        about="",
        license="",
        origin="",
        layout="only",
        layouts={"only": layout},
        rows={},
        labels={"0": 0, "1": 1},
    )


def read(config, folder, on_bad_row):
    return load_examples(
        config, "train", source="local", data_dir=folder, on_bad_row=on_bad_row, required=True
    )


@sizes
@pytest.mark.parametrize("name", FORMATS)
def test_tables(folder, name, size):
    @on_examples(
        size,
        raw=any_file(*FORMATS[name]),
        drops=st.booleans(),
        by_place=st.booleans(),
        header=st.booleans(),
        quoted=st.booleans(),
    )
    def holds(raw, drops, by_place, header, quoted):
        (folder / name).write_bytes(raw)
        config = described(name, by_place=by_place, header=header, quoted=quoted)
        found = answer(lambda: read(config, folder, "drop" if drops else "error"))
        if isinstance(found, Examples):
            assert len(found) == len(found.targets) == len(found.lines) > 0
            assert all(text.strip() and "\0" not in text for text in found.sentences)
            assert set(found.targets.tolist()) <= {0.0, 1.0}

    (folder / name).unlink()


@sizes
def test_packed_inside_is_what_is_read(folder, size):
    """The unpacked text is spoilt, and packed well."""

    @on_examples(size, raw=any_file(TSV), cut=st.integers(0, 3))
    def holds(raw, cut):
        for name, pack in (("a.tsv.gz", gzip.compress), ("a.tsv.zst", zstandard.compress)):
            packed = pack(raw)
            (folder / name).write_bytes(packed[: len(packed) - cut])
            plain = answer(lambda name=name: read(described(name), folder, "drop"))
            (folder / name).unlink()
            if cut:
                assert isinstance(plain, str)


@sizes
@pytest.mark.parametrize("name", ["text.txt", "text.txt.zst", "text.txt.gz"])
def test_text_of_an_audit(folder, name, size):
    pack = {"zst": zstandard.compress, "gz": gzip.compress}.get(name.rpartition(".")[2], bytes)

    @on_examples(size, raw=any_file(TEXT), packs=st.booleans())
    def holds(raw, packs):
        (folder / name).write_bytes(pack(raw) if packs else raw)
        found = answer(lambda: text_values(folder / name))
        if isinstance(found, list) and packs:
            assert len(found) <= raw.count(b"\n") + 1


@sizes
@pytest.mark.parametrize("name", ["train.txt", "train.txt.zst"])
def test_running_text(folder, name, size):
    @on_examples(
        size,
        raw=any_file(TEXT),
        window=st.integers(8, 60),
        held_out=st.floats(0, 99, allow_nan=False),
        drops=st.booleans(),
        split=st.sampled_from(["train", "dev"]),
    )
    def holds(raw, window, held_out, drops, split):
        (folder / name).write_bytes(zstandard.compress(raw) if name.endswith("zst") else raw)
        config = described(name, window=window, held_out_percent=held_out, held_out_rows=2)
        config.kind, config.labels = "sentence", None
        how = {"source": "local", "data_dir": folder, "on_bad_row": "drop" if drops else "error"}
        found = answer(lambda: load_examples(config, split, **how))
        if isinstance(found, Examples):
            texts = list(found.sentences)
            assert all(text.strip() and len(text) <= window and "\0" not in text for text in texts)

    (folder / name).unlink()


WORDS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=6),
    st.sampled_from(["0", "1", " 1 ", "1.0", "nan", "-inf", "٣", "１", "1_0", "1e999", "0x1", ""]),
    st.binary(max_size=3),
    st.lists(st.integers(), max_size=2),
)


@sizes
def test_labels_and_scores(size):
    @on_examples(
        size,
        3,
        gold=st.lists(WORDS, min_size=1, max_size=6),
        labels=st.dictionaries(st.text(max_size=3), st.integers(-1, 4), max_size=3),
        ignored=st.lists(st.text(max_size=2), max_size=2),
        score_range=st.none() | st.lists(st.floats(), min_size=2, max_size=2),
        kind=st.sampled_from(["scored_pair", "labelled_pair", "nli_pair", "labelled_text"]),
    )
    def holds(gold, labels, ignored, score_range, kind):
        config = described("x")
        config.kind, config.labels, config.ignore_labels = kind, labels, ignored
        config.score_range = score_range
        table = FileTable("x", None, [], np.arange(1, len(gold) + 1, dtype=np.int32))
        faults = {}
        found = answer(lambda: read_targets(gold, table, config, key="dataset.x", faults=faults))
        if not isinstance(found, str):
            targets, keep = found
            assert len(targets) == len(keep) == len(gold)
            good = [row for row in range(len(gold)) if keep[row] and row + 1 not in faults]
            assert np.isfinite(targets[good]).all()
            assert kind != "scored_pair" or ((targets[good] >= 0) & (targets[good] <= 1)).all()
            assert all("\n" not in fault and len(fault) < 500 for fault in faults.values())


@sizes
def test_files_to_score(folder, size, monkeypatch):
    """What is written has the rows and columns that were read, and one more."""
    monkeypatch.setattr(Scorer, "scores", lambda scorer, first, *more, **options: np.zeros(len(first)))

    @on_examples(
        size,
        raw=any_file(TSV, TSV.replace(b"text_a\ttext_b", b"sentence1\tsentence2")),
        words=st.lists(st.sampled_from(["--no-header", "--quoted", "--columns=0"]), max_size=2, unique=True),
        columns=st.none()
        | st.lists(st.sampled_from(["0", "1", "9", "text_a", "²", "-1", ""]), min_size=2, max_size=2),
    )
    def holds(raw, words, columns):
        path, output = folder / "pairs.tsv", folder / "scored.tsv"
        path.write_bytes(raw)
        output.unlink(missing_ok=True)
        words = [word for word in words if not word.startswith("--columns")]
        more = [] if columns is None else ["--columns", *columns]
        command = ["run", "--file", str(path), "--output", str(output), *words, *more]

        def score():
            with verb("score").make_context("score", command) as context:
                return context.command.invoke(context)

        found = answer(score)
        assert isinstance(found, str) != output.exists()


@sizes
def test_translations(folder, size):
    good = "今天\ttoday\n明天\ttomorrow\tthe day after\n".encode()

    @on_examples(size, raw=any_file(good))
    def holds(raw):
        path = folder / "translations.tsv"
        path.write_bytes(raw)
        found = answer(lambda: Translations(path))
        if isinstance(found, Translations):
            answer(lambda: found.require("toy", ["今天"]))


def test_the_accidents_happen():
    """Otherwise all of this would be the reading of good files."""
    seen = set()

    @on_examples(60, raw=spoilt(TSV))
    def look(raw):
        seen.add(raw == TSV)

    assert seen == {True, False}
