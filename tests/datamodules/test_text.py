"""Running text as rows: windows, held-out lines, and what is wrong with a file."""

import zlib

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from juzhen.core.errors import UserError
from juzhen.data import running_text
from juzhen.data.loading import cut as sampled
from juzhen.data.running_text import TextTable
from juzhen.data.source import load_examples
from juzhen.data.spec import DatasetConfig, LayoutConfig

LINES = [
    "今天天气很好。我们去公园吧！你去吗？",
    "短",
    "",
    "没有标点的一行文字也要切开才行不然太长了",
    "Version 3.5 is out. Get it now.",
]


def config(tmp_path, content, *, name="some.txt", window=10, **layout):
    raw = content if isinstance(content, bytes) else content.encode()
    (tmp_path / name).write_bytes(zstandard.compress(raw) if name.endswith(".zst") else raw)
    files = {"train": name, "dev": "dev.txt", "test": "test.txt"}
    given = LayoutConfig(files=files, columns={"text": 0}, header=False, window=window, **layout)
    return DatasetConfig(
        name="some", kind="sentence", language="zh", layout="txt", layouts={"txt": given}, rows={}
    )


def load(tmp_path, given, split="train", **options):
    options = {"on_bad_row": "error", "required": True} | options
    return load_examples(given, split, source="local", data_dir=tmp_path, **options)


@pytest.mark.parametrize("name", ["some.txt", "some.txt.zst"])
def test_lines_are_cut_at_the_ends_of_sentences(tmp_path, name):
    rows = load(tmp_path, config(tmp_path, "\n".join(LINES) + "\n", name=name))
    assert isinstance(rows.sentences, TextTable)
    assert rows.texts("text") == [
        "今天天气很好。",
        "我们去公园吧！",
        "你去吗？",
        "没有标点的一行文字也",
        "要切开才行不然太长了",
        "Version",
        "3.5 is",
        "out.",
        "Get it",
        "now.",
    ]
    assert rows.lines.tolist() == [1, 1, 1, 4, 4, 5, 5, 5, 5, 5]


def test_a_short_line_is_one_window_and_a_closing_quote_stays_with_its_sentence(tmp_path):
    rows = load(tmp_path, config(tmp_path, "“好极了！”他这样说，“快走。”\n一行文字", window=8))
    assert rows.texts("text") == ["“好极了！”", "他这样说，", "“快走。”", "一行文字"]


@given(st.lists(st.text("一二三。，a. \u00e9𠮷”", max_size=60), max_size=12), st.integers(8, 20))
def test_windows_keep_every_character_of_every_line_in_order(lines, window):
    found = running_text._windows("\n".join(lines), window=window, held_out_percent=0)
    raw = "\n".join(lines).encode()
    pieces = [raw[a:b].decode() for a, b in zip(found.starts, found.ends, strict=True)]
    assert all(len(piece) <= window and "\n" not in piece for piece in pieces)
    kept = dict.fromkeys(range(len(lines)), "")
    for number, piece in zip(found.lines.tolist(), pieces, strict=True):
        assert piece in lines[number]
        kept[number] += piece
    for number, line in enumerate(lines):
        # What is missing are rests of less than SHORTEST characters, at most one per cut and white space apart.
        if len(line) <= window and len("".join(line.split())) >= running_text.SHORTEST:
            assert kept[number] == line


def test_blocks_make_no_difference(tmp_path, monkeypatch):
    lines = [f"第{number}行的文字，" * (number % 7 + 1) for number in range(300)]
    given = config(tmp_path, "\n".join(lines), window=12)
    whole = load(tmp_path, given)
    monkeypatch.setattr(running_text, "BLOCK_BYTES", 64)
    parts = load(tmp_path, given)
    assert parts.texts("text") == whole.texts("text")
    assert parts.lines.tolist() == whole.lines.tolist()
    assert parts.fingerprint == whole.fingerprint


def test_held_out_lines_are_dev_by_their_hash_and_train_has_the_others(tmp_path):
    lines = [f"这是第{number}行文字。" for number in range(400)]
    given = config(tmp_path, "\n".join(lines), window=30, held_out_percent=10)
    train, dev = load(tmp_path, given), load(tmp_path, given, "dev")
    expected = [line for line in lines if zlib.crc32(line.encode()) % 10_000 < 1_000]
    assert dev.texts("text") == expected
    assert len(expected) > 20
    assert sorted([*train.texts("text"), *expected]) == sorted(lines)
    assert load(tmp_path, given, "test", required=False) is None
    given.layouts["txt"].held_out_rows = 7
    assert len(load(tmp_path, given, "dev")) == 7


def test_a_dev_file_takes_the_place_of_held_out_lines(tmp_path):
    given = config(
        tmp_path, "\n".join(f"这是第{number}行文字。" for number in range(50)), held_out_percent=50
    )
    (tmp_path / "dev.txt").write_text("这一行在开发集里。\n", encoding="utf-8")
    assert load(tmp_path, given, "dev").texts("text") == ["这一行在开发集里。"]
    assert set(load(tmp_path, given).lines.tolist()) == set(range(1, 51))


def test_a_limit_draws_windows_and_keeps_the_file_as_it_is(tmp_path):
    rows = load(
        tmp_path, config(tmp_path, "\n".join(f"这是第{number}行文字。" for number in range(50)), window=30)
    )
    cut = sampled(rows, 5, seed=1)
    assert len(cut.texts("text")) == 5
    assert cut.sentences is rows.sentences
    assert cut.lines.tolist() == [
        int(one.removeprefix("这是第").removesuffix("行文字。")) + 1 for one in cut.texts("text")
    ]


@pytest.mark.parametrize("mark", ["\ufeff", "\ufeff\ufeff"])
def test_marks_are_no_text_and_other_separators_end_no_line(tmp_path, mark):
    rows = load(tmp_path, config(tmp_path, mark + "今天天\u2028气\r很好\r\n明天\x85下雨吧\n", window=20))
    assert rows.texts("text") == ["今天天\u2028气\r很好", "明天\x85下雨吧"]
    assert rows.lines.tolist() == [1, 2]


@pytest.mark.parametrize(
    "content", ["今天天气\r明天下雨\r", "今天天气\r明天下雨", "\ufeff今天天气\r明天下雨\n"]
)
def test_carriage_returns_alone_are_refused_as_in_other_files_of_lines(tmp_path, content):
    with pytest.raises(UserError, match=r"some\.txt:1: .* line feeds"):
        load(tmp_path, config(tmp_path, content))
    one = load(tmp_path, config(tmp_path, "今天天气很好\r\n"))
    assert one.texts("text") == ["今天天气很好"]


def test_undecodable_lines_may_be_left_out(tmp_path):
    content = "第一行文字。\n".encode() + "第二行".encode("gb18030") + "\n第三行文字。\n".encode()
    rows = load(tmp_path, config(tmp_path, content), on_bad_row="drop")
    assert rows.texts("text") == ["第一行文字。", "第三行文字。"]
    assert rows.lines.tolist() == [1, 3]
    assert rows.num_dropped == 1
