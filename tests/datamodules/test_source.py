"""Every format gives the same rows, and every broken input one line that names the place."""

import gzip
import json
from dataclasses import replace

import numpy as np
import pyarrow
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.core.text import text_fault
from juzhen.data import readers
from juzhen.data.readers import read_table
from juzhen.data.source import load_examples
from juzhen.data.spec import DatasetConfig, HubConfig, LayoutConfig
from juzhen.data.tables import TableReading, read_own_table

ROWS = [
    ("一个男人在弹吉他。", "一个人在弹吉他。", 1),
    ('"引号开头的句子', "NA", 0),
    ("null", "None", 0),
    ("他说“好”", "nan", 1),
]
NAMES = ("sentence1", "sentence2", "label")
BY_NAME = {"text_a": "sentence1", "text_b": "sentence2", "label": "label"}
BY_POSITION = {"text_a": 0, "text_b": 1, "label": 2}


def dataset(file, *, columns=BY_NAME, header=True, quoted=False, rows=None, **more):
    """A labelled pair set whose train split is `file`."""
    layout = LayoutConfig(files={"train": file}, columns=columns, header=header, quoted=quoted)
    base = DatasetConfig(
        name="toy",
        kind="labelled_pair",
        language="zh",
        about="",
        license="",
        origin="",
        layout="tsv",
        layouts={"tsv": layout},
        rows={"train": rows},
        labels={"0": 0, "1": 1},
    )
    return replace(base, **more)


def load(config, folder, split="train", *, on_bad_row="error", **more):
    options = {"source": "local", "data_dir": folder, "on_bad_row": on_bad_row, "required": True} | more
    return load_examples(config, split, **options)


def packed(name, content):
    """The bytes of a file, with the compression that its name says."""
    raw = content.encode() if isinstance(content, str) else content
    if name.endswith(".zst"):
        raw = zstandard.ZstdCompressor().compress(raw)
    return gzip.compress(raw) if name.endswith(".gz") else raw


def written(folder, name, content):
    (folder / name).write_bytes(packed(name, content))
    return name


def as_tsv(rows, header=True):
    lines = [NAMES] if header else []
    return "".join("\t".join(map(str, row)) + "\n" for row in [*lines, *rows])


def as_csv(rows):
    quoted = ['"{}","{}",{}'.format(*(text.replace('"', '""') for text in row[:2]), row[2]) for row in rows]
    return "\n".join([",".join(NAMES), *quoted])


def as_json(rows):
    return "\n".join(json.dumps(dict(zip(NAMES, row, strict=True)), ensure_ascii=False) for row in rows)


def arrow_table(rows):
    return pyarrow.table(dict(zip(NAMES, zip(*rows, strict=True), strict=True)))


def as_parquet(rows, **more):
    table = arrow_table(rows)
    for name, values in more.items():
        table = table.append_column(name, values)
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def as_arrow(table, new=pyarrow.ipc.new_stream):
    """What `Dataset.save_to_disk` writes, and with `new_file` what `to_feather` does."""
    sink = pyarrow.BufferOutputStream()
    with new(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


FORMATS = {
    ".tsv": (as_tsv(ROWS), {}),
    ".txt": (as_tsv(ROWS, header=False), {"header": False, "columns": BY_POSITION}),
    ".csv": (as_csv(ROWS), {"quoted": True}),
    ".json": (as_json(ROWS), {}),
    ".jsonl": (as_json(ROWS), {}),
    ".parquet": (as_parquet(ROWS), {}),
    ".arrow": (as_arrow(arrow_table(ROWS)), {}),
    ".feather": (as_arrow(arrow_table(ROWS), pyarrow.ipc.new_file), {}),
}


@pytest.mark.parametrize("compression", ["", ".zst", ".gz"])
@pytest.mark.parametrize("suffix", FORMATS)
def test_every_format_gives_the_same_rows_and_fingerprint(tmp_path, suffix, compression):
    content, options = FORMATS[suffix]
    name = written(tmp_path, f"train{suffix}{compression}", content)
    examples = load(dataset(name, rows=4, **options), tmp_path)
    reference = load(dataset(written(tmp_path, "reference.tsv", as_tsv(ROWS))), tmp_path)
    assert list(zip(examples.texts("text_a"), examples.texts("text_b"), strict=True)) == [
        row[:2] for row in ROWS
    ]
    assert examples.targets.tolist() == [row[2] for row in ROWS]
    assert examples.fingerprint == reference.fingerprint
    first = 2 if suffix in (".tsv", ".csv") else 1
    assert examples.lines.tolist() == list(range(first, first + 4))


def test_fingerprint_depends_on_every_text_target_and_the_order(tmp_path):
    changed = [ROWS[::-1], [*ROWS[:3], ("他说“好”", "nan", 0)], [*ROWS[:3], ("他说“好”", "nan ?", 1)], ROWS]
    digests = [
        load(dataset(written(tmp_path, f"{number}.tsv", as_tsv(rows))), tmp_path).fingerprint
        for number, rows in enumerate(changed)
    ]
    assert len(set(digests)) == 4


def test_byte_order_mark_crlf_and_outer_whitespace_are_tolerated(tmp_path):
    plain = as_tsv([(f" {a}　", b, label) for a, b, label in ROWS])
    name = written(tmp_path, "train.tsv", b"\xef\xbb\xbf" + plain.replace("\n", "\r\n").encode())
    assert load(dataset(name), tmp_path).texts("text_a") == [row[0] for row in ROWS]


@pytest.mark.parametrize("mark", ["", "\ufeff", "\ufeff\ufeff"])
@pytest.mark.parametrize(("line_end", "last"), [("\r", "\r"), ("\r", ""), ("\r\n", ""), ("\n", "\n")])
@pytest.mark.parametrize("quoted", [False, True])
def test_line_ends_and_marks_are_read_as_in_tables(tmp_path, mark, line_end, last, quoted):
    text = mark + "甲\u2028乙\t丙\x85丁\t1\n戊\t己\t0\n庚\t辛\t1".replace("\n", line_end) + last
    name = written(tmp_path, "train.tsv", text.encode())
    rows = load(dataset(name, header=False, columns=BY_POSITION, quoted=quoted), tmp_path)
    assert rows.texts("text_a") == ["甲\u2028乙", "戊", "庚"]
    assert rows.texts("text_b") == ["丙\x85丁", "己", "辛"]
    assert rows.targets.tolist() == [1, 0, 1]
    assert rows.lines.tolist() == [1, 2, 3]
    table = read_own_table(tmp_path / name, TableReading(header=False))
    assert list(map(str, next(iter(table.columns)))) == rows.texts("text_a")


@pytest.mark.parametrize("reads", [True, False])
def test_a_carriage_return_within_a_line_is_part_of_its_text(tmp_path, reads):
    name = written(tmp_path, "train.tsv", "甲\r乙\t丙\t1\n戊\t己\t0\n".encode())
    table = read_own_table(tmp_path / name, TableReading(header=False))
    rows = load(dataset(name, header=False, columns=BY_POSITION), tmp_path).texts("text_a")
    assert (rows if reads else list(table.columns[0])) == ["甲\r乙", "戊"]


def test_quoted_field_may_span_lines_and_lines_stay_right(tmp_path):
    name = written(tmp_path, "train.csv", 'sentence1,sentence2,label\n"a\nb",c,1\nd,e,0\n')
    examples = load(dataset(name, quoted=True), tmp_path)
    assert examples.texts("text_a") == ["a\nb", "d"]
    assert examples.lines.tolist() == [2, 4]


def test_unicode_line_separators_do_not_end_a_row(tmp_path):
    name = written(tmp_path, "train.tsv", as_tsv([("甲\u2028乙", "丙\x85丁", 1)]))
    assert load(dataset(name), tmp_path).texts("text_b") == ["丙\x85丁"]


CELL = st.text(st.characters(exclude_characters="\t\n\r", exclude_categories=["Cs"]), min_size=1)
CELL = CELL.map(str.strip).filter(lambda text: text_fault(text) is None)


@settings(max_examples=50)
@given(rows=st.lists(st.tuples(CELL, CELL, st.sampled_from([0, 1])), min_size=1, max_size=8))
def test_any_text_survives_tsv_csv_and_json(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("any")
    prints = set()
    for name, content, quoted in (
        ("a.tsv.zst", as_tsv(rows), False),
        ("a.csv", as_csv(rows), True),
        ("a.jsonl", as_json(rows), False),
        ("a.parquet", as_parquet(rows), False),
    ):
        examples = load(dataset(written(folder, name, content), quoted=quoted), folder)
        assert examples.texts("text_a") == [row[0] for row in rows]
        prints.add(examples.fingerprint)
    assert len(prints) == 1


def test_scores_are_scaled_to_the_unit_interval(tmp_path):
    name = written(tmp_path, "train.tsv", as_tsv([("甲", "乙", 1), ("甲", "丙", "2.5"), ("甲", "丁", "5.0")]))
    columns = {"text_a": "sentence1", "text_b": "sentence2", "score": "label"}
    scored = dataset(name, kind="scored_pair", score_range=[1, 5], labels=None, columns=columns)
    assert np.allclose(load(scored, tmp_path).targets, [0, 0.375, 1])


def test_ignored_labels_are_left_out_without_being_dropped(tmp_path):
    name = written(tmp_path, "train.tsv", as_tsv([("甲", "乙", "-"), ("", "乙", "-"), ("丙", "丁", 1)]))
    examples = load(dataset(name, rows=1, ignore_labels=["-"]), tmp_path)
    assert (len(examples), examples.num_dropped, examples.lines.tolist()) == (1, 0, [4])
    assert examples.sentences == ["丙", "丁"]


def test_archive_of_several_frames_is_read_whole(tmp_path):
    pieces = [as_tsv(ROWS[:2]), as_tsv(ROWS[2:], header=False)]
    for compress, suffix in ((zstandard.ZstdCompressor().compress, ".zst"), (gzip.compress, ".gz")):
        (tmp_path / f"train.tsv{suffix}").write_bytes(b"".join(compress(piece.encode()) for piece in pieces))
        assert len(read_table(tmp_path / f"train.tsv{suffix}", header=True, quoted=False).lines) == 4


def test_absent_split_is_none_unless_it_is_required(tmp_path):
    assert load(dataset("toy/train.tsv.zst"), tmp_path, required=False) is None
    assert load(dataset("toy/train.tsv.zst"), tmp_path, "test", required=False) is None


def test_layout_path_finds_the_file_compressed_otherwise(tmp_path):
    written(tmp_path, "train.tsv", as_tsv(ROWS))
    assert len(load(dataset("train.tsv.zst"), tmp_path)) == 4
    written(tmp_path, "train.tsv.gz", as_tsv(ROWS))
    assert len(load(dataset("train.tsv.gz"), tmp_path)) == 4


def test_source_of_the_dataset_goes_before_that_of_the_job(tmp_path):
    config = dataset(written(tmp_path, "train.tsv", as_tsv(ROWS)), source="local")
    assert len(load(config, tmp_path, source="hub")) == 4


def test_triplet_with_several_negatives_and_sentences_by_position(tmp_path):
    name = written(tmp_path, "train.tsv", "问\t正\t反一\t反二\n")
    columns = {"anchor": 0, "positive": 1, "negative": 2, "negative_2": 3}
    config = dataset(name, kind="triplet", columns=columns, header=False, labels=None)
    examples = load(config, tmp_path)
    assert list(examples.columns) == list(columns)
    assert examples.texts("negative_2") == ["反二"]
    config = dataset(name, kind="sentence", columns={"text": 2}, header=False, labels=None)
    assert load(config, tmp_path).texts("text") == ["反一"]


@pytest.fixture
def local_hub(tmp_path, monkeypatch):
    """A folder that the datasets library takes for a hub id."""
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    folder = tmp_path / "hub"
    folder.mkdir()
    return folder


def test_hub_folder_gives_the_rows_of_the_file(tmp_path, local_hub):
    import datasets

    features = datasets.Features(
        sentence1=datasets.Value("string"),
        sentence2=datasets.Value("string"),
        label=datasets.ClassLabel(names=["different", "same"]),
    )
    rows = dict(zip(NAMES, map(list, zip(*ROWS, strict=True)), strict=True))
    datasets.Dataset.from_dict(rows, features=features).to_parquet(local_hub / "train.parquet")
    hub = HubConfig(id=str(local_hub), revision="0" * 40, splits={"train": "train"}, columns=BY_NAME)
    reference = load(dataset(written(tmp_path, "train.tsv", as_tsv(ROWS))), tmp_path)
    by_number = load(dataset("-", hub=hub), tmp_path, source="hub")
    by_name = load(dataset("-", hub=hub, labels={"different": 0, "same": 1}), tmp_path, source="hub")
    assert by_number.fingerprint == by_name.fingerprint == reference.fingerprint
    assert (
        load_examples(dataset("-", hub=hub), "dev", source="hub", data_dir=tmp_path, on_bad_row="error")
        is None
    )
    absent = replace(hub, id=str(local_hub / "nothing"))
    for config, message in (
        (dataset("-", hub=hub, labels={"a": 0, "b": 1}), r"hub/train, row 1: .*'1'. Known: a, b"),
        (dataset("-", hub=absent), "source=local and data_dir="),
    ):
        with pytest.raises(UserError, match=message) as caught:
            load(config, tmp_path, source="hub")
        assert "\n" not in str(caught.value)


def with_classes(suffix):
    """A file of the datasets library, which names the classes of its numbers."""
    features = {
        "label": {"names": ["different", "same"], "_type": "ClassLabel"},
        "sentence1": {"_type": "Value"},
    }
    table = arrow_table(ROWS).replace_schema_metadata(
        {"huggingface": json.dumps({"info": {"features": features}})}
    )
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(table, sink)
    return sink.getvalue().to_pybytes() if suffix == ".parquet" else as_arrow(table)


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_a_file_of_the_datasets_library_names_its_classes(tmp_path, suffix):
    written(tmp_path, f"train{suffix}", with_classes(suffix))
    reference = load(dataset(written(tmp_path, "a.tsv", as_tsv(ROWS))), tmp_path)
    for labels in ({"different": 0, "same": 1}, {"0": 0, "1": 1}):
        assert load(dataset(f"train{suffix}", labels=labels), tmp_path).fingerprint == reference.fingerprint


def test_columns_that_nobody_names_are_not_decoded(tmp_path, monkeypatch):
    decoded, of_parquet = [], readers._of_parquet
    monkeypatch.setattr(
        readers, "_of_parquet", lambda file, place: decoded.append(place) or of_parquet(file, place)
    )
    raw = as_parquet(ROWS, vector=pyarrow.array([[0.5] * 8] * len(ROWS)))
    examples = load(dataset(written(tmp_path, "train.parquet", raw)), tmp_path)
    assert examples.texts("text_a") == [row[0] for row in ROWS]
    assert sorted(decoded) == [0, 1, 2]


def test_labels_of_a_kind_are_classes_it_has(tmp_path):
    examples = load(dataset(written(tmp_path, "train.tsv", as_tsv(ROWS))), tmp_path)
    assert (examples.kind, examples.num_classes) == (Kind.LABELLED_PAIR, 2)


def test_several_files_are_one_split(tmp_path):
    written(tmp_path, "one.tsv", as_tsv(ROWS))
    written(tmp_path, "two.tsv.zst", as_tsv(ROWS[:2]))
    examples = load(dataset(["one.tsv", "two.tsv.zst"]), tmp_path)
    assert examples.texts("text_a") == [row[0] for row in [*ROWS, *ROWS[:2]]]
    assert examples.targets.tolist() == [1, 0, 0, 1, 1, 0]
    assert len(examples.sentences) == len(load(dataset("one.tsv"), tmp_path).sentences)
    assert examples.fingerprint != load(dataset(["one.tsv"]), tmp_path).fingerprint
