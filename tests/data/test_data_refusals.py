"""Refusals of data: a call → the key and the way out of its message."""

import contextlib
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
import test_foreign_rows as foreign
import test_judgements as judgements
import test_new_set as new_set
import test_search_tables as search_tables
from refusals import each, rows, typed
from test_gaps import (
    SOME_WORDS,
    frame_with_a_missing_label,
    gappy,
    held,
    new_set_of_gappy_rows,
    records,
    table_of_split_cells,
    table_with_scores_of_positives_alone,
)
from test_layouts import of_glue
from test_rows import ODD_LABELS, PAIRS, UNCLEAR, many_rows, rows_with_an_endless_score
from test_tables import (
    ENCODED,
    book_of_three_sheets,
    book_with_a_failed_formula,
    repacked,
    table_with_ids_and_notes,
    write_book,
)
from test_unequal_negatives import ROWS as UNEQUAL
from test_unequal_negatives import Own, scored_rows

from juzhen import SentenceEncoder, fit, read_search
from juzhen.core.calibration_files import Fusion
from juzhen.core.errors import UserError
from juzhen.core.examples import Examples, Kind
from juzhen.core.result import Result
from juzhen.core.schema import ConfigError
from juzhen.data import excel
from juzhen.data.dataset_from_table import make_set
from juzhen.data.leaks import LeakFilter
from juzhen.data.rankings import RankingSet, as_ranking
from juzhen.data.row_kinds import guess, read_raw
from juzhen.data.rows import as_examples
from juzhen.data.source import load_examples
from juzhen.data.spec import DatasetConfig
from juzhen.data.tables import TableReading, read_own_table, read_texts
from juzhen.evaluation import evaluate

PAIR = {"text_a": ["怎么还花呗"], "text_b": ["花呗怎么还"]}


def some(kind, texts, **fields):
    return Examples.from_texts("some", "train", kind=kind, texts=texts, **fields)


def ranking(**known):
    return RankingSet("mine", "dev", ["a"], ["b", "c"], [{0: 1.0}], **known)


def leaky():
    pairs = some(Kind.LABELLED_PAIR, PAIR, targets=np.ones(1))
    return LeakFilter([pairs]).without_leaks(pairs)


def table(folder, *records):
    path = folder / "rows.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in records), encoding="utf-8")
    return path


def table_without_names(folder, words):
    path = folder / "rows.csv"
    path.write_text("".join(f'第{n}句,第{n}文,"{words[n % 2]}"\n' for n in range(40)), encoding="utf-8")
    return path


def named(folder, name):
    raw = read_raw(
        table(folder, *({"text_a": f"句{n}", "text_b": f"文{n}", "label": n % 2} for n in range(40)))
    )
    return make_set(name, raw, guess(raw))


CALLS = {
    "a ranking of single sentences": (
        lambda folder: as_ranking(some(Kind.SENTENCE, {"text": ["a"]})),
        "train/some: .*labelled_pair",
    ),
    "an answer that is the query itself": (lambda folder: ranking(own=np.array([0])), "dev/mine: query 0"),
    "an answer known not to be one": (
        lambda folder: ranking(irrelevant=[np.array([0, 1])]),
        "dev/mine: query 0",
    ),
    "training rows that all leak": (lambda folder: leaky(), r"some: .*filter_leaks=false"),
    "a triplet without a negative": (
        lambda folder: as_examples(
            [{"anchor": "q", "positive": "p", "negative": "n"}, {"anchor": "a", "positive": "b"}]
        ),
        r"row 2.*negative",
    ),
    **{
        f"columns={columns!r}": (
            lambda folder, columns=columns: as_examples([("a", "b", 1)], columns=columns),
            key,
        )
        for columns, key in (
            (["a", "b"], "columns="),
            ({"text_a": 1, "text_b": 2, "label": 9}, "no column 9"),
            ({"text_a": 1, "text_b": 1, "label": 3}, "from one column"),
        )
    },
    **{
        f"score_range={ends!r}": (
            lambda folder, ends=ends: as_examples([("a", "b", 1)], score_range=ends),
            "score_range=.*highest",
        )
        for ends in ((5, 0), (1,), "0-5", None, (0, math.nan))
    },
    **{
        f"labels {words} without a name": (
            lambda folder, words=words: as_examples(table_without_names(folder, words)),
            f"column 3 .*{words[0]}",
        )
        for words in (("好", "坏"), ("80%", "10%"), ("0,5", "0,9"), ("通过", "不通过"))
    },
    **{
        f"grades such as {grade}": (
            lambda folder, grade=grade: as_examples(
                [{"q": f"句{n}", "p": f"文{n}", "score": grade.format(n)} for n in range(1, 10)]
            ),
            "plain number.* 0.05",
        )
        for grade in ("{}%", "{}％", "0,{}")
    },
    "percentages": (
        lambda folder: as_examples([{"q": f"句{n}", "p": f"文{n}", "y": f"{n % 2}0%"} for n in range(40)]),
        "y holds 00%",
    ),
    "labels of one class": (
        lambda folder: as_examples([("a", "b", "1"), ("c", "d", "是")]),
        "1, 是 are one class",
    ),
    "a sheet by its number": (
        lambda folder: as_examples(table(folder, {"anchor": "甲", "positive": "乙"}), sheet=2),
        "sheet=.2.",
    ),
    "rows learnt that are no Examples": (
        lambda folder: evaluate("lexical", [("a", "b", 1), ("c", "d", 0)], trained_on=[("a", "b")]),
        "trained_on:",
    ),
    "vectors of texts": (
        lambda folder: evaluate(lambda texts: texts, [("a", "b", 1), ("c", "d", 0)]),
        "encode: ",
    ),
    "vectors of complex numbers": (
        lambda folder: evaluate(lambda texts: np.ones((len(texts), 2)) * 1j, [("a", "b", 1), ("c", "d", 0)]),
        "encode: .*complex",
    ),
    "a file with a misspelt name": (
        lambda folder: as_examples(table(folder, {"anchor": "甲", "positive": "乙"}).with_name("row.jsonl")),
        "No such file. Did you mean",
    ),
    "only faulty rows": (
        lambda folder: as_examples(
            table(folder, {"anchor": "甲", "positive": ""}, {"anchor": "", "positive": "乙"}),
            on_bad_row="drop",
        ),
        "no rows are left",
    ),
    **{
        f"a set called {name!r}": (lambda folder, name=name: named(folder, name), "^name=")
        for name in ("", "../x", "a b", "a.b", "-", "长" * 100)
    },
}


def named_folder(f):
    """A folder with one table, where a table is expected."""
    (f.tmp_path / "dev.csv").write_text("a,b,label\n甲,乙,1\n", "utf-8")
    return f.tmp_path


def archive(f):
    (f.tmp_path / "dev.zip").write_bytes(b"PK")
    return f.tmp_path / "dev.zip"


def unlike(labels, odd, held):
    """One row of 200 has another label: how it is held, and the place that messages name."""
    return (lambda f: many_rows(labels, odd, held, f.tmp_path)), (
        "faq.csv:121" if held == "file" else "row 120"
    )


def said_twice(encoder_folder):
    rows = [{"标准问": "甲问", "相似问": "乙问"}, {"标准问": "丁问", "相似问": ""}]
    fit(encoder_folder, rows, columns={"anchor": "标准问", "positive": "相似问"}, loss="info_nce")


ODD = [(*unlike(labels, odd, held), odd) for labels, odd in ODD_LABELS for held in ("file", "tuples")]
OTHER_RANGE = [(a, b, n) for n, (a, b, _) in enumerate([*PAIRS, ("甲", "乙", 0)])]
ROWS_OF_PYTHON = [
    *each(lambda f, rows: as_examples(rows), UNCLEAR),
    *(
        (lambda f, take=take, place=place, given_as=given_as: take(given_as(place(f))), words)
        for place, words in ((named_folder, r"folder.*dev\.csv"), (archive, r"dev\.zip.*\.csv"))
        for take, given_as in (
            (lambda rows: evaluate("lexical", rows), str),
            (lambda rows: evaluate("lexical", rows), Path),
            (as_examples, Path),
        )
    ),
    (lambda f: as_examples(rows_with_an_endless_score()), r"row 2: .*score.*on_bad_row=drop"),
    *(
        (lambda f, made=made: as_examples(made(f)), f"{place}: .*label.*{odd}.*on_bad_row=drop")
        for made, place, odd in ODD
    ),
    (lambda f: said_twice(f.encoder_folder), "on_bad_row"),
    (lambda f: as_examples(OTHER_RANGE, on_bad_row="drop"), r"score_range=\(0, 4\)"),
    (lambda f: as_examples(scored_rows(2.0)), "negative"),  # a score without its text
    (
        lambda f: fit(SentenceEncoder.load("builtin/mini_zh"), UNEQUAL, loss=Own(), progress=False),
        r"loss=Own: .* 1 to 3.*info_nce",
    ),
]
GAPPY = records(gappy(["1"] * 20, "", each=5), "label"), records(gappy(["1"] * 20, None, each=5), "label")
WORDY = [
    (records(gappy(values, gap, each=every), name), gap)
    for values, gap, every, _ in SOME_WORDS
    for name in ("标记", "label")
]
GAPS = [
    *(
        (
            lambda f, rows=rows, how=how: as_examples(held(rows, how, f.tmp_path)),
            r"label is empty.*3 more.*drop",
        )
        for rows in GAPPY
        for how in ("frame", "parquet", "csv")
    ),
    *(
        (
            lambda f, rows=rows, how=how: as_examples(held(rows, how, f.tmp_path), score_range=(0, 5)),
            f"{gap}.*drop|drop.*{gap}",
        )
        for rows, gap in WORDY
        for how in ("tuples", "frame", "csv")
    ),
    (
        lambda f: as_examples(table_of_split_cells(f.tmp_path), split_cells="||"),
        r"faq\.csv:3: label is empty",
    ),
    (lambda f: as_examples(frame_with_a_missing_label()), "label is missing"),
]


def spoilt(f, sheet):
    """An Excel file whose sheet has this content."""
    return read_raw(repacked(write_book(f.tmp_path / "faq.xlsx", faq=[["a", "b"], ["c", "d"]]), sheet1=sheet))


def too_large(f):
    f.monkeypatch.setattr(excel, "ALWAYS_BYTES", 2**20)
    spoilt(f, b" " * 2**23)


def old_book(f, suffix):
    (f.tmp_path / "old.xlsx").write_bytes(b"\xd0\xcf\x11\xe0" * 100)
    read_raw(f.tmp_path / f"old.{suffix}")


def scattered(f):
    f.monkeypatch.setattr(excel, "ALWAYS_CELLS", 100)
    read_raw(write_book(f.tmp_path / "odd.xlsx", odd=[[None] * n + ["x"] for n in range(60)]))


def content(f, name, text, encoding="utf-8"):
    (f.tmp_path / name).write_text(text, encoding=encoding)
    return f.tmp_path / name


SPACE = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
FAR_ROW = '<row r="99999999999"><c r="A99999999999" t="n"><v>1</v></c></row>'
BOOKS = [
    (
        lambda f: read_own_table(book_of_three_sheets(f.tmp_path / "faq.xlsx"), TableReading(sheet="练习")),
        r"sheet=练习: .*Known: .*训练",
    ),
    (lambda f: read_own_table(f.tmp_path / "faq.csv", TableReading(sheet="1")), r"--sheet 1: .*no sheets"),
    (lambda f: spoilt(f, "<worksheet><sheetData><row>"), r"faq\.xlsx: .*line 1, column"),
    (
        lambda f: spoilt(f, f"<worksheet {SPACE}><sheetData>{FAR_ROW}</sheetData></worksheet>"),
        r"faq\.xlsx: .*above",
    ),
    (too_large, r"faq\.xlsx: unpacks to 8 MiB. At most"),
    (lambda f: old_book(f, "xlsx"), "password"),
    (lambda f: old_book(f, "xls"), r"\.xls: .*save it as \.xlsx|Save it as \.xlsx"),
    (scattered, r"60 cells .* 60 rows and 60 columns"),
    (lambda f: as_examples(book_with_a_failed_formula(f.tmp_path / "faq.xlsx")), r"row 2|:2: "),
]


def three_columns(f):
    return as_examples(content(f, "three.csv", "标准问,相似问,答案\n甲,乙,丙\n"))


FITTED = {"fitted": {}, "run": "runs/A", "weights": "0", "threshold": {"value": 0.5}}
TABLES = [
    *each(
        lambda f, anchor: as_examples(
            table_with_ids_and_notes(f.tmp_path / "faq.csv"), columns={"anchor": anchor, "positive": "3"}
        ),
        [("0", "from 1"), ("5", "Known"), ("文本丙", "Did you mean")],
    ),
    (three_columns, r"columns=\{'anchor'"),
    (
        lambda f: read_own_table(content(f, "faq.csv", "question,answer\n甲,乙,x\n丙,丁,y\n")),
        r"faq\.csv:1: .*2 cells.*3",
    ),
    (
        lambda f: as_examples(content(f, "odd.json", "[1, 2]")),
        r"odd\.json.*2 rows are faulty, and none is left",
    ),
    (lambda f: as_examples(content(f, "blank.csv", ",\n,\n")), r"blank\.csv: no cell holds a text"),
    (lambda f: read_own_table(content(f, "t.csv", "sep=^\na^b\n")), r"t\.csv:1: sep=\^"),
    *each(
        lambda f, given: given[1](content(f, "t.csv", f"a,b\n{ENCODED[given[0]]}\n", given[0])),
        [
            ((encoding, read), r"t\.csv:2: .*UTF-8")
            for encoding in ENCODED
            for read in (read_own_table, read_texts)
        ],
    ),
    *each(
        lambda f, given: given[0](content(f, "t.json", json.dumps(FITTED, indent=given[1]))),
        [
            ((read, indent), r"t\.json: .*juzhen calibrate")
            for indent in (None, 2)
            for read in (read_own_table, Fusion.read, Result.read)
        ],
    ),
    *each(
        lambda f, given: as_examples(content(f, "chat.jsonl", given[0]), columns=given[1]),
        [
            (('{"messages": [{"role": "user", "content": "hi"}]}', None), "messages.*objects.*'role'"),
            (('{"a": {"x": 1}, "b": [{"y": 2}]}', None), "b.*objects.*'y'"),
            (('{"a": {"t": "甲"}, "b": "乙"}', {"anchor": "a", "positive": "b"}), "column a.*objects"),
            (('{"a": "甲", "b": "乙"}\n{"a": {"t": "丙"}, "b": "丁"}', None), "chat.jsonl:2: a is .*object"),
        ],
    ),
]


def stsb_without_test(f):
    options = {"source": "local", "data_dir": f.tmp_path, "on_bad_row": "error", "required": True}
    load_examples(of_glue(), "test", **options)


def without_openpyxl(f):
    f.monkeypatch.setitem(sys.modules, "openpyxl", None)
    (f.tmp_path / "faq.xlsx").touch()
    read_raw(f.tmp_path / "faq.xlsx")


def guessed(f, given, **words):
    guess(read_raw(new_set.write(f.tmp_path / "pairs.csv", given)), **words)


def raw(f, given):
    (f.tmp_path / "pairs.csv").write_bytes(given)
    guess(read_raw(f.tmp_path / "pairs.csv"))


def made(f, text):
    (f.tmp_path / "pairs.csv").write_text(text, encoding="utf-8")
    read = read_raw(f.tmp_path / "pairs.csv")
    make_set("faq", read, guess(read))


def of_joined_rows(f):
    read = new_set.joined_rows(f.tmp_path)
    make_set("faq", read, guess(read))


def written_by_somebody_else(f):
    path = new_set.write(f.tmp_path / "pairs.csv", new_set.PLAIN)
    read = read_raw(path)
    made = make_set("mine", read, guess(read))
    described = new_set.save(made, path, f.tmp_path)
    described.write_text("name: mine\n", encoding="utf-8")
    try:
        new_set.save(made, path, f.tmp_path)
    finally:
        assert described.read_text(encoding="utf-8") == "name: mine\n"


ANCHOR_3 = {"anchor": "标准问", "positive": "3"}
NEW_SETS = [
    (
        lambda f: read_raw(
            content(f, "mined.jsonl", '{"question": "好", "positive": ["a", "b"], "negatives": ["c"]}')
        ),
        "column positive holds lists of 2",
    ),
    (without_openpyxl, r"needs openpyxl. Type: pip install -e '\.\[excel\]' -c constraints"),
    *each(
        lambda f, words: guess(new_set.table_with_answers(f.tmp_path), **words),
        [
            ({}, r"标准问, 相似问, 答案.*--columns anchor=标准问,positive=相似问"),
            ({"columns": {"anchor": "标准问", "positive": "相似"}}, "Did you mean 相似问"),
            (
                {"columns": {"anchor": "1", "label": "2"}},
                r"--columns anchor, label: .* Expected .*text, label",
            ),
            (
                {"kind": Kind.TRIPLET, "columns": ANCHOR_3},
                r"--kind triplet: .* anchor=标准问,positive=3 are those of",
            ),
        ],
    ),
    *each(
        lambda f, given: guessed(f, given),
        [
            (
                [[*row[:2], "0"] for row in new_set.PAIRS],
                "is 0 in every row: there is nothing to learn",
            ),
            ([[str(n), str(n % 7)] for n in range(50)], "no column of texts"),
            (
                [["text", "price"], *([a, f"{n * n}.5"] for n, (a, *_) in enumerate(new_set.PAIRS))],
                "Say --kind sentence",
            ),
        ],
    ),
    (
        lambda f: guessed(f, new_set.PLAIN, kind=Kind.POSITIVE_PAIR),
        "the values of 是否相同 mark some rows as negatives",
    ),
    *each(
        raw,
        [
            (b"", "the file is empty"),
            (b"\n\n\n", "the file is empty"),
            ("标准问,相似问\n".encode(), "no row below the names"),
            (
                "a,b\n好,坏\n".encode() + b"\xff\xff\x80,x\n",
                r"pairs\.csv:3: not UTF-8, UTF-16, GBK or Big5",
            ),
            (b"PK\3\4\0\0\0\0\1,\2\n", "binary data"),
            ('好,"坏\n天,地\n'.encode(), r"pairs\.csv:1: a quoted field cannot be read .*unbalanced"),
            (b"x" * 2**25 + b",y\n", r"pairs\.csv:1: the line has 33,554,434 characters"),
        ],
    ),
    (
        lambda f: made(f, "a,b,score\n你好,您好,0.9\n再见,拜拜,不知道\n早,晚,0.1\n"),
        r"only 2 rows can be used.*Line 3: .*不知道.*--dev 0 --test 0",
    ),
    (of_joined_rows, r"40 of 40 rows share sentences.*--dev 0 --test 0"),
    (written_by_somebody_else, "not written by juzhen, or has changed"),
    (stsb_without_test, "stsb_en/test"),
]


def theirs(f, given, format="flag_embedding", **options):
    foreign.read(f.tmp_path, given, format, **options)


FLAG, SCORED = foreign.FLAG, foreign.SCORED
THEIR_TRIPLET = {"query": "a", "answer": "b", "negative_1": "c", "negative_2": "d", "label": 2.0}
FOREIGN = [
    (
        lambda f: theirs(f, SCORED, kind="positive_pair"),
        r"rows.jsonl:1: scores of a teacher, .*teacher_scores: false",
    ),
    (
        lambda f: theirs(f, FLAG, teacher_scores=True),
        r"rows.jsonl:1: no scores of a teacher, and the layout has",
    ),
    (
        lambda f: theirs(f, [SCORED[0], FLAG[1]]),
        r"rows.jsonl:2: no scores of a teacher, and other rows have them",
    ),
    *each(lambda f, change: theirs(f, [FLAG[0], FLAG[1] | change]), foreign.NO_ROWS),
    *each(
        lambda f, change: theirs(f, [foreign.SWIFT_PAIR | change], "ms_swift", kind="positive_pair"),
        foreign.NO_PAIRS,
    ),
    (
        lambda f: theirs(f, [THEIR_TRIPLET], "sentence_transformers"),
        ":1: label has 1 numbers, expected 2",
    ),
    (
        lambda f: theirs(f, [{"query": "a", "docs": ["b"], "labels": [1]}], "sentence_transformers"),
        r":1: docs is .*not a text",
    ),
    (
        lambda f: read_raw(content(f, "pairs.jsonl", '{"query": "a", "pos": "text", "neg": ["c"]}')),
        r"pairs.jsonl:1: pos is the text 'text', expected a list",
    ),
]


def search_of(f, *words):
    """`juzhen dataset` on three tables of a search, in their folder."""
    f.monkeypatch.chdir(f.tmp_path)
    search_tables.search_files(f.tmp_path, 4)
    try:
        typed(f, "dataset", *words)
    finally:
        assert not (f.tmp_path / "data").exists()


def said_columns(f, columns):
    queries = [{"a": "怎么退货", "b": "备注很长很长很长很长"}, {"a": "", "b": "x"}]
    corpus = [{"c": "七天内可以退货", "d": "这是另一列更长的文字内容在这里"}]
    read_search(queries, corpus, [{"e": "怎么退货", "f": "七天内可以退货", "g": 3}], columns=columns)


def judged(f, changed):
    folder = judgements.written(f.tmp_path, **{key: one for key, one in changed.items() if key != "columns"})
    config = judgements.described(columns=changed.get("columns", judgements.COLUMNS))
    judgements.read(folder, config)


ONE = {"query": "a", "document": "t"}
FILES = ("--queries=q.csv", "--corpus=c.csv", "--answers=a.csv")
PLACES = ("--config-dir", "conf", "--data-dir", "data")
SEARCHES = [
    *each(
        lambda f, given: read_search(*given),
        [
            (([{"query": "a", "other": "x"}], [{"id": "d", "text": "t"}]), "answers"),
            ((["a"], ["t"], [{"x": "1", "y": "2"}]), "columns="),
            ((["a"], ["t"], [ONE | {"gain": 0}]), "answers a query"),
            ((["a"], ["t"], [ONE | {"query": "b"}, ONE]), "on_bad_row"),
            ((["a"], ["t"], [ONE | {"gain": word} for word in ("x", 1)]), "gain"),
            ((["a"], ["t", ""], [ONE]), "corpus"),
            ((["a"], [{"id": 1, "text": "t"}, {"id": 1, "text": "u"}], [ONE | {"document": 1}]), "row 2"),
        ],
    ),
    *each(
        lambda f, options: read_search(["a"], ["t"], [ONE], **options),
        [({"on_bad_row": "skip"}, "^on_bad_row=skip: "), ({"sheet": "x"}, "^sheet='x': .*Leave it out")],
    ),
    *each(said_columns, [({"query": "zz"}, "no table has this column"), ({"text_a": "a"}, "no such field")]),
    *each(
        lambda f, words: search_of(f, *words),
        [
            (["mine", "--queries=q.csv", *PLACES], "--corpus"),
            (["mine", "--corpus=c.csv", *PLACES], "--queries"),
            (["mine", *FILES, "--kind", "triplet", *PLACES], "--kind"),
            (["a b", *FILES, *PLACES], "--name"),
            ([], r"juzhen dataset faq\.csv"),
            (["mine", *FILES, "--dev", "0.01", "--test", "0.5", *PLACES], "dev"),
        ],
    ),
    *each(judged, [*judgements.WRONG, *judgements.NO_TEXTS]),
]
REFUSED = {
    "a call": [(lambda f, call=call: call(f.tmp_path), words) for call, words in CALLS.values()],
    "rows of Python": ROWS_OF_PYTHON,
    "a gap": GAPS,
    "a book": BOOKS,
    "a table": TABLES,
    "a new set": NEW_SETS,
    "rows of others": FOREIGN,
    "a search": SEARCHES,
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("call", "words"), rows(REFUSED))
def test_a_mistake_is_named_with_its_key(f, call, words):
    with pytest.raises(UserError, match=words) as caught:
        call(f)
    assert "\n" not in str(caught.value)


def grades(f):
    """A file of 0 and 1, with one row between them, whose column is called a score."""
    path = many_rows("01", "0.5", "file", f.tmp_path)
    path.write_text(path.read_text("utf-8").replace("标签", "得分"), "utf-8")
    return as_examples(path)


def odd_class(f):
    classes = ["entailment", "neutral", "contradiction"]
    return as_examples(many_rows(classes, "neutrall", "file", f.tmp_path), on_bad_row="drop")


def refused_all_the_same(given):
    with contextlib.suppress(UserError):
        as_examples(given)


WARNED = {
    "an odd label": [
        *((lambda f, made=made: refused_all_the_same(made(f)), f"{place}.*score") for made, place, _ in ODD),
        *((lambda f, made=made: as_examples(made(f), on_bad_row="drop"), place) for made, place, _ in ODD),
        (grades, r"faq\.csv:121.*label"),
        (odd_class, r"faq\.csv:121"),
        (lambda f: as_examples(rows_with_an_endless_score(), on_bad_row="drop"), "row"),
    ],
    "a gap": [
        *(
            (
                lambda f, rows=rows, how=how: as_examples(held(rows, how, f.tmp_path), on_bad_row="drop"),
                "4 faulty rows",
            )
            for rows in GAPPY
            for how in ("frame", "parquet", "csv")
        ),
        *(
            (
                lambda f, rows=rows, how=how: as_examples(
                    held(rows, how, f.tmp_path), score_range=(0, 5), on_bad_row="drop"
                ),
                "faulty rows are left out",
            )
            for rows, _ in WORDY
            for how in ("tuples", "frame", "csv")
        ),
        (
            lambda f: as_examples(table_of_split_cells(f.tmp_path), split_cells="||", on_bad_row="drop"),
            "1 faulty",
        ),
        (lambda f: as_examples(frame_with_a_missing_label(), on_bad_row="drop"), "1 faulty"),
        (
            lambda f: as_examples(table_with_scores_of_positives_alone(f.tmp_path)),
            "score_positive.*not read.*score_negative",
        ),
        (lambda f: as_examples(table_of_split_cells(f.tmp_path), on_bad_row="drop"), "one text.*split_cells"),
    ],
    "a sheet": [
        (
            lambda f: as_examples(book_of_three_sheets(f.tmp_path / "faq.xlsx"), on_bad_row="drop"),
            "sheet='封面'",
        )
    ],
    "an official set": each(
        lambda f, _: judgements.official(f.tmp_path),
        [
            (None, words)
            for words in (
                r"dev\.tsv: left out are",
                "documents without text: 1",
                r"not there \(answers among them count as not found\): 3",
                r"stand twice \(the first counts\): 2; of these with another gain: 1",
            )
        ],
    ),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("call", "words"), rows(WARNED))
def test_what_is_left_out_or_in_doubt_is_named_in_a_warning(f, call, words):
    with pytest.warns(UserWarning, match=words):
        call(f)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (new_set_of_gappy_rows, ["label is empty", "4 rows"]),
        (search_tables.new_search, ["40 queries (test 40) in 40 documents"]),
    ],
)
def test_a_new_set_tells_what_it_holds(call, words, tmp_path, capsys):
    call(tmp_path)
    printed = capsys.readouterr().out
    assert all(word in printed for word in words)


@pytest.mark.parametrize(
    ("key", "value", "kinds"),
    [
        ("score_range", [0, 5], "scored_pair"),
        ("grades", [0, 1], "scored_pair"),
        ("labels", {"0": 0}, "labelled"),
    ],
)
@pytest.mark.parametrize("kind", ["labelled_pair", "scored_pair", "positive_pair", "triplet", "sentence"])
def test_a_key_that_a_kind_does_not_read_is_refused_by_its_name(key, value, kinds, kind):
    described = {"name": "x", "kind": kind, "language": "zh", "layout": "a"}
    described |= {"layouts": {"a": {"files": {}, "columns": {}}}, key: value}
    if kind.startswith(kinds):
        assert getattr(DatasetConfig(**described), key)
    else:
        with pytest.raises(ConfigError, match=f"{key}: .*{kind}"):
            DatasetConfig(**described)
