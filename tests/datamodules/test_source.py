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
from pydantic import ValidationError

from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.core.text import text_fault
from juzhen.data import readers
from juzhen.data.readers import read_table
from juzhen.data.source import load_examples
from juzhen.data.spec import DatasetConfig, HubConfig, LayoutConfig

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


def load(config, folder, *, on_bad_row="error", **more):
    options = {"source": "local", "data_dir": folder, "on_bad_row": on_bad_row, "required": True} | more
    return load_examples(config, "train", **options)


def written(folder, name, content):
    """The file under `folder`, with the compression that its name says."""
    raw = content.encode() if isinstance(content, str) else content
    if name.endswith(".zst"):
        raw = zstandard.ZstdCompressor().compress(raw)
    if name.endswith(".gz"):
        raw = gzip.compress(raw)
    (folder / name).write_bytes(raw)
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


HEADER = "sentence1\tsentence2\tlabel\n"
SHORT, LONG = "甲\t乙\n", "甲\t乙\t1\t多\n"
BROKEN_ROWS = {
    "too few fields": (f"{HEADER}甲\t乙\t1\n{SHORT}", "train.tsv:3: the row has 2 fields, expected 3"),
    "too many fields": (f"{HEADER}{LONG}甲\t乙\t1\n", "train.tsv:2: the row has 4 fields, expected 3"),
    "unknown label": (f"{HEADER}甲\t乙\t1\n甲\t乙\tja\n", "train.tsv:3: the label is 'ja'. Known: 0, 1"),
    "missing label": (f"{HEADER}甲\t乙\t1\n甲\t乙\t\n", "train.tsv:3: the label is missing"),
    "empty text": (f"{HEADER}甲\t乙\t1\n甲\t \t0\n", "train.tsv:3: text_b is empty"),
    "bad UTF-8": (
        HEADER.encode() + "甲\t乙\t1\n好".encode() + b"\xd0\t\xe4\t1\n",
        "train.tsv:3: byte 4 of the line is 0xd0, which is not UTF-8",
    ),
}


@pytest.mark.parametrize("fault", BROKEN_ROWS)
def test_faulty_row_is_named_or_dropped_and_counted(tmp_path, fault):
    content, message = BROKEN_ROWS[fault]
    name = written(tmp_path, "train.tsv", content)
    with pytest.raises(UserError) as caught:
        load(dataset(name, rows=2), tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}/{message}")
    assert "\n" not in str(caught.value)
    assert "on_bad_row=drop" in str(caught.value)
    examples = load(dataset(name, rows=2), tmp_path, on_bad_row="drop")
    assert (len(examples), examples.num_dropped) == (1, 1)
    assert examples.texts("text_a") == ["甲"]


def test_first_faulty_line_is_named_with_how_many_more(tmp_path):
    rows = [("甲", "乙", 1), ("甲", "", 1), ("甲", "乙", 7), ("", "", 9)]
    name = written(tmp_path, "train.tsv", as_tsv(rows) + SHORT)
    with pytest.raises(UserError, match=r"train\.tsv:3: text_b is empty\. 3 more rows are faulty\."):
        load(dataset(name), tmp_path)
    assert load(dataset(name, rows=5), tmp_path, on_bad_row="drop").num_dropped == 4


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("nan", "the score is nan, outside of score_range"),
        ("inf", "the score is inf, outside of score_range"),
        ("5.5", r"the score is 5.5, outside of score_range \[0, 5\]"),
        ("-1", "the score is -1, outside"),
        ("drei", "the score is 'drei', not a number"),
        ("", "the score is missing"),
    ],
)
def test_faulty_score_is_named(tmp_path, word, message):
    name = written(tmp_path, "train.tsv", as_tsv([("甲", "乙", 2), ("甲", "乙", word)]))
    columns = {"text_a": "sentence1", "text_b": "sentence2", "score": "label"}
    scored = dataset(name, kind="scored_pair", score_range=[0, 5], labels=None, columns=columns)
    with pytest.raises(UserError, match=rf"train\.tsv:3: .*{message}"):
        load(scored, tmp_path)


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


ENDS = np.cumsum([0, *(len(row[0].encode()) for row in ROWS)]).astype("<i4")
STRANGE_ENDS = np.append(ENDS[:-1], 10**6).astype("<i4")
STRANGE_ARROW = FORMATS[".arrow"][0].replace(ENDS.tobytes(), STRANGE_ENDS.tobytes())

FILE_FAULTS = {
    "empty": ("train.tsv", b"", {}, r"train\.tsv: the file is empty"),
    "only a header": ("train.tsv", HEADER, {}, "no rows are left"),
    "missing column": (
        "train.tsv",
        "sentence1\tsentense2\tlabel\n甲\t乙\t1\n",
        {},
        r"no column sentence2 .*found are sentence1, sentense2, label. Did you mean .*sentense2",
    ),
    "no header line": (
        "train.tsv",
        "甲\t乙\t1\n",
        {"header": False},
        "no column sentence1 .*no header line",
    ),
    "position out of range": (
        "train.tsv",
        as_tsv(ROWS),
        {"columns": {**BY_POSITION, "label": 3}},
        r"label is read from column 3 .*only 3 columns",
    ),
    "row count": (
        "train.tsv",
        as_tsv(ROWS),
        {"rows": 5},
        r"4 rows, but dataset\.toy\.rows\.train promises 5.*type dataset\.toy\.rows\.train=null",
    ),
    "open quote": (
        "train.csv",
        'sentence1,sentence2,label\na,b,1\nc,"d,0\ne,f,1\n',
        {"quoted": True},
        r"train\.csv:3: a quoted field cannot be read .*unbalanced",
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
        r"train\.csv:3: the row has 2 fields, expected 3",
    ),
    "quotes that nobody announced": (
        "train.csv",
        'sentence1,sentence2,label\n"a, b",c,1\n',
        {},
        r"train\.csv:2: the row has 4 fields, expected 3. For fields in double quotes set quoted: true",
    ),
    "texts in quotes that nobody announced": (
        "train.csv",
        'sentence1,sentence2,label\n"a ""b""",c,1\n',
        {},
        r"train\.csv:2: text_a is in quotes: write `quoted: true`",
    ),
    "a first row that is taken for names": (
        "train.tsv",
        "甲\t乙\t1\n丙\t丁\t0\n",
        {"columns": BY_POSITION},
        r"train\.tsv:1: the column names are a row, with the label 1. Write `header: false`",
    ),
    "damaged gzip": (
        "train.tsv",
        as_tsv(ROWS),
        {"file": "train.tsv.gz"},
        "compressed in another way than its suffix",
    ),
    "not JSON": ("train.json", as_json(ROWS) + "\n{oops\n", {}, r"train\.json:5: not JSON"),
    "no JSON object": ("train.json", as_json(ROWS) + "\n7\n", {}, r"train\.json:5: not a JSON object"),
    "JSON array": ("train.json", "[{}]", {}, "one JSON object per line"),
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
    "no parquet": ("train.parquet", b"PAR1 and so on", {}, "damaged, or in another format"),
    "no arrow": ("train.arrow", b"ARROW1 and so on", {}, "damaged, or in another format than its suffix"),
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
    "unknown suffix": ("train.xls", b"x", {}, "unknown suffix"),
    "field of another kind": (
        "train.tsv",
        as_tsv(ROWS),
        {"columns": {**BY_NAME, "txt_a": "x"}},
        "field txt_a, which a labelled_pair does not have",
    ),
    "field not mapped": (
        "train.tsv",
        as_tsv(ROWS),
        {"columns": {"text_a": "sentence1", "text_b": "sentence2"}},
        "needs a column for label",
    ),
    "labels not given": ("train.tsv", as_tsv(ROWS), {"labels": None}, r"dataset\.toy\.labels: expected"),
}


@pytest.mark.parametrize("fault", FILE_FAULTS)
def test_file_fault_is_one_clear_line(tmp_path, fault):
    name, content, options, message = FILE_FAULTS[fault]
    written(tmp_path, name, content)
    options = dict(options)
    if "file" in options:
        (tmp_path / name).rename(tmp_path / options["file"])
        name = options.pop("file")
    with pytest.raises(UserError, match=message) as caught:
        load(dataset(name, **options), tmp_path)
    assert "\n" not in str(caught.value)


def test_gbk_file_is_an_error_even_when_bad_rows_are_dropped(tmp_path):
    name = written(tmp_path, "train.tsv", as_tsv([("中文", "汉字", 1)]).encode("gb18030"))
    with pytest.raises(UserError, match=r"train\.tsv:2: byte 1 .*iconv -f gb18030"):
        load(dataset(name), tmp_path)
    with pytest.raises(UserError, match=r"no rows are left \(1 were read, 1 of them faulty\)"):
        load(dataset(name), tmp_path, on_bad_row="drop")


@pytest.mark.parametrize("suffix", [".zst", ".gz"])
def test_truncated_archive_is_an_error_not_a_short_file(tmp_path, suffix):
    rows = [(f"句子{number * 7919 % 10007}", f"另{number}", number % 2) for number in range(5000)]
    name = written(tmp_path, f"train.tsv{suffix}", as_tsv(rows))
    whole = (tmp_path / name).read_bytes()
    for share in (0.3, 0.999):
        (tmp_path / name).write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(UserError, match="cut short"):
            load(dataset(name), tmp_path)


def test_archive_of_several_frames_is_read_whole(tmp_path):
    pieces = [as_tsv(ROWS[:2]), as_tsv(ROWS[2:], header=False)]
    for compress, suffix in ((zstandard.ZstdCompressor().compress, ".zst"), (gzip.compress, ".gz")):
        (tmp_path / f"train.tsv{suffix}").write_bytes(b"".join(compress(piece.encode()) for piece in pieces))
        assert len(read_table(tmp_path / f"train.tsv{suffix}", header=True, quoted=False).lines) == 4


def test_absent_split_is_none_unless_it_is_required(tmp_path):
    config = dataset("toy/train.tsv.zst", hub=HubConfig(id="x", splits={"train": "train"}, columns={}))
    config.layouts["original"] = config.layouts["tsv"]
    assert load(config, tmp_path, required=False) is None
    with pytest.raises(UserError) as caught:
        load(config, tmp_path)
    assert f"file {tmp_path}/toy/train.tsv.zst not found" in str(caught.value)
    for advice in ("data_dir=", "dataset.toy.layout=original", "dataset.toy.source=hub"):
        assert advice in str(caught.value)
    options = {"source": "local", "data_dir": tmp_path, "on_bad_row": "error"}
    assert load_examples(config, "test", **options) is None
    with pytest.raises(
        UserError, match=r"layout tsv has no such file .*evaluate\.toy\.layouts\.tsv\.files\.test="
    ):
        load_examples(config, "test", required=True, group="evaluate", **options)


def test_layout_path_finds_the_file_compressed_otherwise_but_never_chooses(tmp_path):
    written(tmp_path, "train.tsv", as_tsv(ROWS))
    assert len(load(dataset("train.tsv.zst"), tmp_path)) == 4
    written(tmp_path, "train.tsv.gz", as_tsv(ROWS[:1]))
    with pytest.raises(UserError, match="Keep only one"):
        load(dataset("train.tsv.zst"), tmp_path)


def test_a_path_below_the_home_folder(tmp_path, monkeypatch):
    written(tmp_path, "train.tsv", as_tsv(ROWS))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "data").mkdir()
    assert len(load(dataset("~/train.tsv"), tmp_path / "data")) == 4


def test_the_same_name_packed_otherwise_must_hold_the_same(tmp_path):
    written(tmp_path, "train.tsv", as_tsv(ROWS))
    written(tmp_path, "train.tsv.gz", as_tsv(ROWS[:1]))
    for name in ("train.tsv", "train.tsv.gz"):
        with pytest.raises(UserError, match=r"is next to it.*Keep only one"):
            load(dataset(name), tmp_path)
    written(tmp_path, "train.tsv.gz", as_tsv(ROWS))
    assert len(load(dataset("train.tsv.gz"), tmp_path)) == 4


def test_words_that_name_nothing_are_answered_with_the_nearest(tmp_path):
    config = dataset(written(tmp_path, "train.tsv", as_tsv(ROWS)))
    for wrong, message in (
        ({"source": "locl"}, "source=locl: unknown choice. Did you mean local"),
        ({"on_bad_row": "skip"}, "on_bad_row=skip: unknown choice. Known: drop, error"),
        ({"data_dir": tmp_path / "nowhere"}, "nowhere: no such folder"),
        ({"source": "hub"}, "source=local, data_dir="),
    ):
        with pytest.raises(UserError, match=message):
            load(config, **({"folder": tmp_path} | wrong))
    with pytest.raises(ValidationError, match=r"layout=tvs: unknown layout. Did you mean tsv"):
        replace(config, layout="tvs")


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
    with pytest.raises(UserError, match=r"hub/train, row 1: the label is '1'. Known: a, b"):
        load(dataset("-", hub=hub, labels={"a": 0, "b": 1}), tmp_path, source="hub")


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_a_file_of_the_datasets_library_names_its_classes(tmp_path, suffix):
    features = {
        "label": {"names": ["different", "same"], "_type": "ClassLabel"},
        "sentence1": {"_type": "Value"},
    }
    table = arrow_table(ROWS).replace_schema_metadata(
        {"huggingface": json.dumps({"info": {"features": features}})}
    )
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(table, sink)
    written(
        tmp_path, f"train{suffix}", sink.getvalue().to_pybytes() if suffix == ".parquet" else as_arrow(table)
    )
    reference = load(dataset(written(tmp_path, "a.tsv", as_tsv(ROWS))), tmp_path)
    for labels in ({"different": 0, "same": 1}, {"0": 0, "1": 1}):
        assert load(dataset(f"train{suffix}", labels=labels), tmp_path).fingerprint == reference.fingerprint
    with pytest.raises(UserError, match=r"row 1: the label is '1'. Known: a, b"):
        load(dataset(f"train{suffix}", labels={"a": 0, "b": 1}), tmp_path)


def test_columns_that_nobody_names_are_not_decoded(tmp_path, monkeypatch):
    decoded, of_parquet = [], readers._of_parquet
    monkeypatch.setattr(
        readers, "_of_parquet", lambda file, place: decoded.append(place) or of_parquet(file, place)
    )
    raw = as_parquet(ROWS, vector=pyarrow.array([[0.5] * 8] * len(ROWS)))
    examples = load(dataset(written(tmp_path, "train.parquet", raw)), tmp_path)
    assert examples.texts("text_a") == [row[0] for row in ROWS]
    assert sorted(decoded) == [0, 1, 2]


def test_hub_that_fails_points_to_local_files(tmp_path, local_hub):
    hub = HubConfig(id=str(local_hub / "nothing"), splits={"train": "train"}, columns=BY_NAME)
    with pytest.raises(UserError, match="source=local and data_dir=") as caught:
        load(dataset("-", hub=hub), tmp_path, source="hub")
    assert "\n" not in str(caught.value)


def test_labels_of_a_kind_are_classes_it_has(tmp_path):
    name = written(tmp_path, "train.tsv", as_tsv(ROWS))
    with pytest.raises(UserError, match="class number, 0 to 1"):
        load(dataset(name, labels={"0": 0, "1": 2}), tmp_path)
    assert load(dataset(name), tmp_path).kind is Kind.LABELLED_PAIR
    assert load(dataset(name), tmp_path).num_classes == 2


def test_several_files_are_one_split_and_a_missing_one_is_named(tmp_path):
    config = dataset(["one.tsv", "two.tsv.zst"], rows=None)
    written(tmp_path, "one.tsv", as_tsv(ROWS))
    with pytest.raises(
        UserError, match=r"read from 2 files, and two.tsv.zst is missing. .*dataset.toy.layout="
    ):
        load(config, tmp_path)
    written(tmp_path, "two.tsv.zst", as_tsv(ROWS[:2]))
    examples = load(config, tmp_path)
    assert examples.texts("text_a") == [row[0] for row in [*ROWS, *ROWS[:2]]]
    assert examples.targets.tolist() == [1, 0, 0, 1, 1, 0]
    assert len(examples.sentences) == len(load(dataset("one.tsv"), tmp_path).sentences)
    assert examples.fingerprint != load(dataset(["one.tsv"]), tmp_path).fingerprint
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"file .*one\.tsv not found"):
        load(config, tmp_path / "empty")
