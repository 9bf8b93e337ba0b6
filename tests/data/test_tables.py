"""One reader of tables: formats, encodings, headers, lines and sheets, whoever asks."""

import csv
import gzip
import io
import json
import sys
import zipfile
from time import process_time

import numpy as np
import pytest

from juzhen.core.errors import UserError
from juzhen.core.paths import BUILTIN
from juzhen.core.text import split_lines
from juzhen.data.dataset_from_table import clean, make_set, origin_of, write_set
from juzhen.data.headers import is_header
from juzhen.data.row_kinds import guess, read_raw, text_cells
from juzhen.data.rows import as_examples, split_raw
from juzhen.data.source import load_examples
from juzhen.data.spec import read_description
from juzhen.data.tables import TableReading, column_values, names_of, read_own_table, read_texts, text_values
from juzhen.encoders.augmentation import Translations

LINES = (BUILTIN / "data" / "demo_qmc" / "train.tsv").read_text(encoding="utf-8").split("\n")[1:41]
ROWS = [(a, b, int(label)) for a, b, label in (line.split("\t") for line in LINES)]
ODD_SIGNS = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
"""What ends a line for `str.splitlines`, and for nobody else."""


def write_csv(path, rows, encoding="utf-8", delimiter=","):
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter).writerows(rows)
    path.write_bytes(file.getvalue().encode(encoding))
    return path


def write_book(path, **sheets):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


@pytest.mark.parametrize(
    "names",
    [
        "问题 答案", "question answer", "标准问 相似问", "query doc", "sentence1 sentence2", "标准问题 扩展问法", "q a",
        "source target", "src tgt", "原文 译文", "title content", "instruction response", "用户问题 客服回复", "s1 s2",
        "userQuery botReply", "utterance paraphrase", "知识标题 相似问法", "query_text passage_text", "诉求 处理意见",
        "A B",
    ],
)  # fmt: skip
@pytest.mark.parametrize("count", [3, 40])
def test_names_above_texts_are_a_header(names, count):
    texts = [(a, b) for a, b, _ in ROWS[:count]]
    english = [(f"How do I cancel order {n}?", f"Open the app, choose order {n}") for n in range(count)]
    for body in (texts, english):
        assert is_header(names.split(), [*zip(*body, strict=True)])


def test_a_row_of_texts_is_no_header():
    """Whichever row comes first, of Chinese and of English pairs, and of a few rows."""
    english = [(f"Is order {n} late", "hi" if n % 5 else f"It is on its way {n}") for n in range(30)]
    for body in (
        [(a, b) for a, b, _ in ROWS],
        english,
        english[:4],
        [("是", "好"), ("否", "坏"), ("是", "行")],
    ):
        for place in range(len(body)):
            below = body[:place] + body[place + 1 :]
            assert not is_header(body[place], [*zip(*below, strict=True)]), body[place]


def test_a_label_in_the_first_row_makes_it_a_row():
    assert not is_header(("怎么退货", "退货", "是"), [("甲", "乙"), ("丙", "丁"), ("否", "否")])
    assert is_header(("question", "similar_question", "same"), [("甲", "乙"), ("丙", "丁"), ("0", "1")])
    assert is_header(("", "0", "1"), [("0", "1"), ("丙", "丁"), ("天", "地")])


@pytest.mark.parametrize(
    "suffix", ["csv", "tsv", "txt", "jsonl", "json", "parquet", "arrow", "xlsx", "csv.gz"]
)
def test_the_same_rows_in_every_format(tmp_path, suffix):
    names, path = ["问题", "相似问题", "是否同义"], tmp_path / f"faq.{suffix}"
    if suffix == "xlsx":
        write_book(path, faq=[names, *ROWS])
    elif suffix in ("parquet", "arrow"):
        import pyarrow as pa
        from pyarrow import feather, parquet

        table = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in ROWS])
        (parquet.write_table if suffix == "parquet" else feather.write_feather)(table, path)
    elif suffix == "json":
        records = [dict(zip(names, row, strict=True)) for row in ROWS]
        path.write_text(json.dumps(records, ensure_ascii=False, indent=1), encoding="utf-8")
    elif suffix == "jsonl":
        lines = (json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) for row in ROWS)
        path.write_text("\n".join(lines), encoding="utf-8")
    else:
        delimiter = "," if "csv" in suffix else "\t"
        write_csv(path, [names, *ROWS], "gb18030" if suffix == "csv" else "utf-16", delimiter)
        if suffix.endswith("gz"):
            path.write_bytes(gzip.compress(path.read_bytes()))
    read = as_examples(path)
    assert (read.kind, read.fingerprint) == ("labelled_pair", as_examples(ROWS).fingerprint)


def test_a_line_ends_at_a_line_feed_alone(tmp_path):
    texts = [f"一{sign}二" for sign in ODD_SIGNS] + ["三\r四"]
    for end in ("\n", "\r\n"):
        (tmp_path / "lines.txt").write_bytes(end.join(texts).encode() + end.encode())
        assert text_values(tmp_path / "lines.txt") == texts
        assert split_lines(end.join(texts)) == texts
        for suffix, sign in ((".csv", ","), (".tsv", "\t")):
            path = tmp_path / f"rows{suffix}"
            rows = [("问题", "答案"), *((text, f"答{n}") for n, text in enumerate(texts))]
            path.write_bytes(end.join(sign.join(row) for row in rows).encode())
            assert column_values(read_own_table(path), 0) == texts
            quoted = end.join(sign.join(f'"{cell}"' for cell in row) for row in rows)
            path.write_bytes(quoted.encode())
            assert column_values(read_own_table(path), 0) == texts
    (tmp_path / "rows.jsonl").write_text(
        "\n".join(json.dumps({"text": text}, ensure_ascii=False) for text in texts),
        encoding="utf-8",
        newline="",
    )
    assert text_values(tmp_path / "rows.jsonl") == texts


def test_texts_with_odd_signs_go_through_a_set_and_a_table_of_translations(tmp_path):
    rows = [
        ("标准问", "相似问"),
        *((f"问{n}{sign}题", f"问法{n}{sign}甲") for n, sign in enumerate(f"{ODD_SIGNS}\r")),
    ]
    path = write_csv(tmp_path / "faq.csv", rows)
    raw = read_raw(path)
    new = make_set("faq", raw, guess(raw), dev=0, test=0)
    places = {"data_dir": tmp_path / "data", "descriptions": tmp_path / "conf"}
    for _ in range(2):
        described = write_set(new, **places, origin=origin_of(path, []))
    read = load_examples(read_description(described), "train", source="hub", data_dir=".", on_bad_row="error")
    assert read.texts("anchor") == [first for first, _ in rows[1:]]
    (tmp_path / "there").write_text(
        "\n".join("\t".join(row) for row in rows[1:]), encoding="utf-8", newline=""
    )
    drawn = Translations(tmp_path / "there").drawn
    assert [drawn(first, np.random.default_rng(0)) for first, _ in rows[1:]] == [
        other for _, other in rows[1:]
    ]


def test_several_texts_of_one_cell_become_rows(tmp_path):
    rows = [("标准问", "相似问"), ("怎么退货", "退货||想退掉 || 如何退"), ("怎么开票", "开发票")]
    raw = read_raw(write_csv(tmp_path / "faq.csv", rows), TableReading(split_cells="||"))
    cells = split_raw(raw, guess(raw)).cells
    assert cells["相似问"].tolist() == ["退货", "想退掉", "如何退", "开发票"]
    assert cells.index.tolist() == [2, 2, 2, 3]
    read = as_examples(tmp_path / "faq.csv", split_cells="||")
    assert (len(read), read.lines.tolist()) == (4, [2, 2, 2, 3])


def book_of_three_sheets(path):
    return write_book(
        path,
        封面=[],
        训练=[["客服问答一览"], ["标准问", "相似问"], *(row[:2] for row in ROWS[:5])],
        测试=[["标准问", "相似问"], ["测试问", "测试答"]],
    )


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_sheets_are_named_and_chosen(tmp_path):
    path = book_of_three_sheets(tmp_path / "faq.xlsx")
    table = read_own_table(path)
    assert column_values(table, 0) == [a for a, _, _ in ROWS[:5]]
    assert table.names == ["标准问", "相似问"]
    assert table.faults.keys() == {1}
    assert "测试" in table.notes[0]
    for name in ("测试", "3"):
        assert column_values(read_own_table(path, TableReading(sheet=name)), 0) == ["测试问"]
    assert len(as_examples(path, on_bad_row="drop")) == 5


def test_stray_cells_of_a_sheet_cost_a_cell_each(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    path = write_book(tmp_path / "faq.xlsx", faq=[["标准问", "相似问"], *(row[:2] for row in ROWS[:9])])
    book = openpyxl.load_workbook(path)
    book.active["XFD1"], book.active["A1048576"] = "x", "y"
    book.save(path)
    table = read_own_table(path)
    assert (len(table.lines), len(table.columns), table.lines.max()) == (10, 3, 2**20)
    raw = text_cells(table)
    good, left_out = clean(raw, guess(raw, columns={"anchor": "标准问", "positive": "相似问"}))
    assert (len(good), left_out) == (9, {2**20: "positive is empty"})


def repacked(path, **parts):
    """An Excel file with other parts."""
    with zipfile.ZipFile(path) as file:
        held = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in held.items():
            key = name.rpartition("/")[2].partition(".")[0]
            file.writestr(name, parts.get(key, content))
    return path


def book_with_a_failed_formula(path):
    return write_book(path, faq=[["标准问", "相似问"], ["怎么退货", "#N/A"], ["退货", "想退掉"]])


def test_formulas_that_failed_are_no_texts(tmp_path):
    path = book_with_a_failed_formula(tmp_path / "faq.xlsx")
    assert len(as_examples(path, on_bad_row="drop")) == 1


def table_with_ids_and_notes(path):
    return write_csv(path, [("id", "文本甲", "文本乙", "note"), (7, "甲", "乙", "x"), (9, "丙", "丁", "y")])


def test_columns_go_by_number_from_1_wherever_they_are_said(tmp_path):
    path = table_with_ids_and_notes(tmp_path / "faq.csv")
    named = as_examples(path, columns={"anchor": "文本甲", "positive": "文本乙"})
    assert as_examples(path, columns={"anchor": "2", "positive": "3"}).fingerprint == named.fingerprint


def test_a_last_cell_that_is_always_empty_needs_no_name(tmp_path):
    path = tmp_path / "faq.csv"
    path.write_text("question,answer\n甲,乙,\n丙,丁,\n", encoding="utf-8")
    assert read_own_table(path).names == ["question", "answer"]


def test_what_columns_are_called_goes_before_what_they_look_like(tmp_path):
    path = tmp_path / "faq.csv"
    cells = [f"问{n},答{n},{n},http://x" for n in range(6)]
    path.write_text("\n".join(["q,a,score,url", *cells]), encoding="utf-8")
    read = as_examples(path, score_range=(0, 5))
    assert (read.kind, read.targets.tolist()) == ("scored_pair", pytest.approx([n / 5 for n in range(6)]))
    path.write_text("\n".join(["text,text,label,,", *(f"问{n},答{n},{n % 2},," for n in range(6))]), "utf-8")
    read = as_examples(path)
    assert (read.kind, read.targets.tolist()) == ("labelled_pair", [0, 1] * 3)
    path.write_text("\n".join(["答案,问题", *(f"答{n},问{n}" for n in range(6))]), "utf-8")
    assert as_examples(path).texts("anchor") == [f"问{n}" for n in range(6)]


def test_cells_keep_what_they_are(tmp_path):
    """Numbers, nested values and blanks: metadata of an index is made of them."""
    (tmp_path / "a.jsonl").write_text('{"text": " 甲 ", "m": {"n": [1, 2.5]}, "k": null}\n', encoding="utf-8")
    table = read_own_table(tmp_path / "a.jsonl")
    assert dict(zip(names_of(table), (column_values(table, n)[0] for n in range(3)), strict=True)) == {
        "text": " 甲 ", "m": {"n": [1, 2.5]}, "k": None,
    }  # fmt: skip
    book = read_own_table(write_book(tmp_path / "a.xlsx", a=[["text", "n"], ["甲", 17], ["乙", 2.5]]))
    assert column_values(book, 1) == [17, 2.5]
    assert np.issubdtype(book.lines.dtype, np.int32)


@pytest.mark.slow
def test_a_table_of_very_many_columns_costs_a_little_per_column(tmp_path):
    columns = 30_000
    path = tmp_path / "wide.csv"
    path.write_text(
        ",".join(f"c{n}" for n in range(columns)) + "\n" + ",".join("文" * columns) + "\n", "utf-8"
    )
    start = process_time()
    with pytest.raises(UserError, match="text=c0"):
        read_texts(path, TableReading())
    assert process_time() - start < 10  # 20 s where each name was compared with all before it


def rows_of(count):
    return [(f"怎么退货{number}", f" 东西想退掉{number}", number % 2) for number in range(count)]


def test_a_row_of_a_large_table_costs_few_calls_of_python(tmp_path):
    def calls(count):
        path = write_csv(tmp_path / f"{count}.csv", [("sentence1", "sentence2", "label"), *rows_of(count)])
        made = 0

        def count_call(frame, event, argument):
            nonlocal made
            made += event == "call"

        as_examples(path)  # what is imported and compiled the first time
        sys.setprofile(count_call)
        try:
            as_examples(path)
        finally:
            sys.setprofile(None)
        return made

    assert calls(4000) - calls(2000) <= 3 * 2000


@pytest.mark.parametrize("end", ["", "\n", "\n\n", "\n , , \n", "\n\n\t\n"])
@pytest.mark.parametrize("gap", ["", "\n", "\n\n", " , , \n"])
def test_rows_without_quotes_are_those_of_quoted_cells(tmp_path, end, gap):
    lines = ["sentence1,sentence2,label", *(",".join(map(str, row)) for row in rows_of(30))]
    plain, quoted = tmp_path / "plain.csv", tmp_path / "quoted.csv"
    plain.write_text("\n".join([*lines[:9], gap + lines[9], *lines[10:]]) + end, encoding="utf-8")
    lines[5:6] = [",".join(f'"{cell}"' for cell in lines[5].split(","))]
    quoted.write_text("\n".join([*lines[:9], gap + lines[9], *lines[10:]]) + end, encoding="utf-8")
    read = [as_examples(path) for path in (plain, quoted)]
    assert read[0].fingerprint == read[1].fingerprint
    assert read[0].lines.tolist() == read[1].lines.tolist()
    assert read[0].lines[:9].tolist() == [2, 3, 4, 5, 6, 7, 8, 9, 10 + gap.count("\n")]


@pytest.mark.parametrize("sign", [";", ",", "\t", "|"])
@pytest.mark.parametrize("said", ["sep={}", '"sep={}"', "SEP={}"])
def test_the_line_that_excel_writes_about_its_delimiter_is_no_row(tmp_path, sign, said):
    for rows in (ROWS[:3], [["a", 'b "c"', 1], ["d" if sign == "\t" else "d\ne", "f", 0]]):
        body = write_csv(tmp_path / "body.csv", rows, delimiter=sign).read_bytes()
        (path := tmp_path / "t.csv").write_bytes(said.format(sign).encode() + b"\r\n" + body)
        read = read_own_table(path, TableReading(header=False))
        assert [[*row] for row in zip(*read.columns, strict=True)] == [[a, b, str(c)] for a, b, c in rows]
        assert read.lines[:2].tolist() == [2, 3]


ENCODED = {
    "shift_jis": "パスワードを忘れた場合はどうすればいいですか,商品の返品方法を教えてください",
    "euc_jp": "パスワードを忘れた場合はどうすればいいですか,商品の返品方法を教えてください",
    "iso2022_jp": "商品の返品方法を教えてください,東京の天気は今日どうですか",
    "euc_kr": "비밀번호를 잊어버렸어요 어떻게 하나요,상품을 반품하고 싶습니다",
    "hz": "怎么退货,东西想退掉",
    "tis_620": "ฉันจะคืนสินค้าได้อย่างไร,สินค้าจะส่งเมื่อไหร่",
    "cp1251": "как вернуть товар в магазин,какая сегодня погода",
    "latin-1": "Können Sie mir helfen über,Gebäude schön größer Öffnung",
}


@pytest.mark.parametrize("count", [1, 4, 40])
def test_gbk_of_any_size_is_read(tmp_path, count):
    read = read_own_table(write_csv(tmp_path / "t.csv", ROWS[:count], encoding="gbk"))
    assert list(zip(*read.columns[:2], strict=True)) == [(a, b) for a, b, _ in ROWS[:count]]
