"""An index gives what a search over all vectors gives, after whatever was added and removed, and after a kill."""

import json
import os
import re
import signal
import time
from contextlib import suppress

import numpy as np
import pandas
import pytest
from forks import ROOT, printed
from pages import page

from juzhen.cli.main import main
from juzhen.core.errors import UserError
from juzhen.data.tables import TableReading
from juzhen.encoders import SentenceEncoder
from juzhen.encoders.pooling import unit
from juzhen.encoders.search import recall
from juzhen.index import Index, Rows, add, build, read_rows, remove, writing
from juzhen.index.store import KINDS
from juzhen.metrics.lexical import BM25

pytest.importorskip("faiss")

QUERIES = ["怎么退货", "火车的第8个问题", "天气的第0个问题，编号0"]


def pairs(hits):
    return [[(hit.index, hit.score) for hit in row] for row in hits]


def exact(encoder, texts, k, numbers=None):
    hits = encoder.search(QUERIES, texts, k)
    numbers = numbers or range(len(texts))
    return [[(numbers[hit.document], pytest.approx(hit.score, abs=1e-6)) for hit in row] for row in hits]


def test_flat_gives_what_a_search_over_all_gives(built, encoder, rows):
    with Index.open(built(), encoder) as index:
        found = index.search(QUERIES, 10)
        assert pairs(found) == exact(encoder, rows.texts, 10)
        assert [hit.index for hit in found[2]][:2] == [0, 299]
        hit = found[0][0]
        assert (hit.id, hit.text, hit.metadata) == (
            rows.ids[hit.index],
            rows.texts[hit.index],
            rows.metadata[hit.index],
        )
        vectors = encoder.encode_query(QUERIES)
        assert pairs(index.search(QUERIES, 10, vectors=vectors)) == pairs(found)
    with writing.index_in_memory(encoder, rows) as index:
        assert index.search(QUERIES, 10) == found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sampled(3)
def test_every_kind_gives_exact_scores_and_most_of_the_nearest(built_once, encoder, rows, kind):
    with Index.open(built_once(kind), encoder) as index:
        found = index.search(QUERIES, 10)
        queries, documents = unit(encoder.encode_query(QUERIES)), unit(encoder.encode_document(rows.texts))
        places = np.array([[hit.index for hit in row] for row in found])
        expected = np.array([[hit.document for hit in row] for row in encoder.search(QUERIES, documents, 10)])
        assert recall(queries, documents, found=places, exact=expected) >= 0.6
        for query, row in zip(queries, found, strict=True):
            assert [hit.score for hit in row] == pytest.approx(
                (documents[[hit.index for hit in row]] @ query).tolist(), abs=1e-5
            )
        topics = index.search(QUERIES, 5, where={"topic": ["退货", "苹果"], "page": 3})
        assert all(hit.metadata["topic"] in ("退货", "苹果") for row in topics for hit in row)
        assert all(len(row) == 5 and {hit.metadata["page"] for hit in row} == {3} for row in topics)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sampled(3)
def test_what_is_added_and_removed_counts_at_once_and_after_files_are_made_anew(
    built, encoder, rows, kind, monkeypatch
):
    folder = built(kind)
    with Index.open(folder, encoder) as index:
        names = sorted(path.name for path in folder.glob("dense-*"))
        later = Rows(["怎么退货", "火车晚点了"], ["t1", "new"], [{"topic": "退货"}] * 2, ["topic"])
        assert add(folder, encoder, later) == 1  # t1 is replaced
        remove(folder, ["t2"])
        texts = [text for number, text in enumerate(rows.texts) if number not in (1, 2)] + list(later.texts)
        numbers = [number for number in range(302) if number not in (1, 2)]
        assert len(index) == 300
        first = index.search(QUERIES, 10)
        if kind == "flat":
            assert pairs(first) == exact(encoder, texts, 10, numbers)
        lexical = index.search(["火车晚点了"], 3, mode="bm25")[0]
        assert (lexical[0].id, lexical[0].ranks) == ("new", {"bm25": 1})
        assert sorted(path.name for path in folder.glob("dense-*")) == names
        monkeypatch.setattr(writing, "LATER", 0)
        monkeypatch.setattr(writing, "SHARE", 0)
        remove(folder, ["t4"])
        assert sorted(path.name for path in folder.glob("dense-*")) != names
        assert len([*folder.glob("dense-*"), *folder.glob("bm25-*")]) == 2
        second = index.search(QUERIES, 10)
        assert second[0][0].text == "怎么退货"
        assert all(hit.id not in ("t2", "t4") for row in second for hit in row)


def test_codes_are_fitted_again_once_there_are_four_times_the_texts(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "LATER", 0)
    monkeypatch.setattr(writing, "SHARE", 0)
    texts = [f"第{number}个问题" for number in range(40)]
    build(tmp_path / "index", encoder, Rows(texts[:10]), name="small", kind="int8")
    for start, end, fitted in ((10, 20, 10), (20, 39, 10), (39, 40, 40)):
        add(tmp_path / "index", encoder, Rows(texts[start:end]))
        with Index.open(tmp_path / "index", encoder) as index:
            assert (len(index), index.view().facts["trained"]) == (end, fitted)


def test_an_index_that_is_too_small_for_codes_is_compared_one_by_one(built, encoder, rows):
    folder = built("ivf_pq")  # of 300 texts; it needs 256
    remove(folder, [f"t{number}" for number in range(100)])
    assert not [*folder.glob("dense-*")]
    with Index.open(folder, encoder) as index:
        left = [*range(100, len(rows.texts))]
        assert pairs(index.search(QUERIES, 5)) == exact(encoder, rows.texts[100:], 5, left)


def test_a_table_of_a_spreadsheet_is_read(tmp_path):
    table = tmp_path / "faq.csv"
    table.write_bytes('编号,问题\n7,"怎么退货,要运费吗"\n8,如何还款\n'.encode("gb18030"))
    read = read_rows(table, text="问题", id_column="编号")
    assert (read.texts, read.ids) == (["怎么退货,要运费吗", "如何还款"], ["7", "8"])


HOLES = [("甲", "a"), ("乙", ""), (" ", "c"), ("丁", 7), ("戊", None)]
NOT_JSON = ("NaN", "Infinity", "-1e400")


def table_of(folder, rows):
    table = folder / "faq.jsonl"
    table.write_text("".join(json.dumps({"text": text, "id": name}) + "\n" for text, name in rows))
    return table


def nested_number(folder, number):
    """A table whose second row has this number among its metadata."""
    table = folder / "faq.jsonl"
    table.write_text(f'{{"text": "甲", "m": NaN}}\n{{"text": "乙", "m": {{"x": [{number}]}}}}\n')
    return table


def test_rows_without_a_text_or_an_id_are_left_out(tmp_path):
    table = table_of(tmp_path, HOLES)
    read = read_rows(table, TableReading(on_bad_row="drop"), id_column="id")
    assert (read.texts, read.ids, read.dropped) == (["甲", "丁"], ["a", "7"], 3)
    read = read_rows(table, TableReading(on_bad_row="drop"), text="text")
    assert (read.texts, read.ids, read.dropped) == (["甲", "乙", "丁", "戊"], None, 1)


@pytest.mark.parametrize("number", NOT_JSON)
def test_metadata_that_no_json_holds_are_left_out(tmp_path, number):
    table = nested_number(tmp_path, number)
    read = read_rows(table, TableReading(on_bad_row="drop"), metadata=["m"])
    assert (read.texts, read.metadata, read.dropped) == (["甲"], [{"m": None}], 1)  # a missing number
    assert read_rows(table).texts == ["甲", "乙"]


def test_a_filter_takes_words_that_json_has_as_texts_alone(encoder, encoder_folder, tmp_path, capsys):
    rows = Rows(["甲", "乙", "丙"], None, [{"tag": "NaN"}, {"tag": "[1]"}, {"tag": 1e3}], ["tag"])
    build(tmp_path / "tags", encoder, rows, name=str(encoder_folder))
    for value, text in (("NaN", "甲"), ("[1]", "乙"), ("1000", "丙")):
        assert main(["index", "search", str(tmp_path / "tags"), "天气", "--filter", f"tag={value}"]) == 0
        (line,) = capsys.readouterr().out.splitlines()
        assert line.endswith(text)


def test_a_list_of_metadata_has_its_items(encoder):
    tags = (["a", "b"], ["b", 1], "a", None, [], [None], 1, True, {"x": "a"}, [["a"]])
    rows = Rows(
        [*"一二三四五六七八九十"],
        None,
        [{"tags": value, "page": {"x": 1}} for value in tags],
        ["tags", "page"],
    )
    index = writing.index_in_memory(encoder, rows)

    def found(**where):
        return {*(hit.text for hit in index.search(["天气"], 10, where=where)[0])}

    assert (found(tags="a"), found(tags=["a", 1]), found(tags="x")) == ({*"一三"}, {*"一三七二"}, set())
    assert (found(tags=1), found(tags=True), found(tags=None)) == ({*"七二"}, {*"八"}, {*"六四"})


def test_bm25_and_hybrid_are_their_formulas(built, encoder, rows):
    with Index.open(built(), encoder) as index:
        lexical = index.search(QUERIES, 20, mode="bm25")
        bm25 = BM25(rows.texts)
        for query, row in zip(QUERIES, lexical, strict=True):
            scores = bm25.scores(query)
            order = np.argsort(-scores, kind="stable")[:20]
            assert pairs([row]) == [[(number, pytest.approx(scores[number])) for number in order]]
        assert index.search(["zzz"], mode="bm25") == [[]]
        lists = [index.search(QUERIES, 100, mode=mode) for mode in ("dense", "bm25")]
        for row, *parts in zip(index.search(QUERIES, 10, mode="hybrid"), *lists, strict=True):
            sums = {}
            for part in parts:
                for rank, hit in enumerate(part, start=1):
                    sums[hit.index] = sums.get(hit.index, 0) + 1 / (60 + rank)
            best = sorted(sums, key=lambda number: (-sums[number], number))[:10]
            assert pairs([row]) == [[(number, pytest.approx(sums[number])) for number in best]]


def test_later_documents_of_bm25_weigh_as_among_the_first(rows):
    first, later = BM25(rows.texts), BM25(rows.texts).extended([rows.texts[7], "火车晚点了 zebra"])
    scores = later.scores(QUERIES[1])
    assert scores[:300].tolist() == first.scores(QUERIES[1]).tolist()
    assert scores[300] == pytest.approx(scores[7])
    assert later.scores("zebra")[301] == later.scores("zebra").max() > 0
    again = BM25.of(later.arrays())
    assert again.scores(QUERIES[1]).tolist() == scores.tolist()


def test_fewer_numbers_and_a_prompt_of_choice(encoder, rows, tmp_path):
    build(tmp_path / "short", encoder, rows, name="small", dim=8, prompt_name="query")
    with Index.open(tmp_path / "short", encoder) as index:
        hits = encoder.search(QUERIES, rows.texts, 10, document_prompt="query", truncate_dim=8)
        expected = [[(hit.document, pytest.approx(hit.score, abs=1e-6)) for hit in row] for row in hits]
        assert pairs(index.search(QUERIES, 10)) == expected


def test_a_build_that_was_cut_off_goes_on(encoder, rows, tmp_path, monkeypatch):
    folder = tmp_path / "index"
    monkeypatch.setattr(writing, "PORTION", 100)
    encode, calls = writing.unit, []

    def cut_off(vectors):
        calls.append(len(vectors))
        if len(calls) == 3:
            raise MemoryError
        return encode(vectors)

    monkeypatch.setattr(writing, "unit", cut_off)
    with pytest.raises(MemoryError):
        build(folder, encoder, rows, name="small")
    with suppress(UserError):  # a refused build changes nothing
        build(folder, encoder, rows.after(1), name="small")
    assert build(folder, encoder, rows, name="small") == 200
    with Index.open(folder, encoder) as index:
        assert pairs(index.search(QUERIES, 10)) == exact(encoder, rows.texts, 10)


def add_until_killed(folder, encoder, kill, told):
    """Adds thirty texts at a time, and writes a line for each time that they are there."""
    for turn in range(10**6):
        name = f"k{kill}-{turn}"
        texts, ids = zip(
            *((f"{name}的第r{number}句", f"{name}-{number}") for number in range(30)), strict=True
        )
        add(folder, encoder, Rows(texts, ids))
        os.write(told, f"{name}\n".encode())


@pytest.mark.slow
def test_twenty_kills_lose_nothing_that_was_said_to_be_there(built, encoder, monkeypatch):
    """Derived files are made anew with nearly each addition, so that kills fall there, too."""
    for name, value in {"LATER": 20, "SHARE": 0, "PORTION": 10}.items():
        monkeypatch.setattr(writing, name, value)
    folder, said, random = built(), 0, np.random.default_rng(0)
    for kill in range(20):
        reading, told = os.pipe()
        if not (child := os.fork()):
            try:
                add_until_killed(folder, encoder, kill, told)
            finally:
                os._exit(1)
        os.close(told)
        with os.fdopen(reading) as lines:
            first = [lines.readline()] if kill else []  # all but once it has begun
            time.sleep(random.random())
            os.kill(child, signal.SIGKILL)
            names = [line.strip() for line in [*first, *lines]]
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
        said += len(names)
        with Index.open(folder, encoder) as index:
            ids = {row.id for row in index.store.rows(index.store.numbers().tolist()).values()}
            assert {f"{name}-{number}" for name in names for number in range(30)} <= ids
            assert len(ids) == len(index)
            assert (len(ids) - 300) % 30 == 0  # all of an addition, or none
            for name in names[-1:]:
                text = f"{name}的第r7句"
                assert index.search([text], 1, mode="bm25")[0][0].text == text
            assert len(index.search(QUERIES, 10)[0]) == 10
    print(f"20 kills; {said} additions were said to be there")
    assert said >= 19


@pytest.mark.slow
def test_the_program_of_the_guide_encodes_files_by_two_processes(tmp_path, monkeypatch):
    (program,) = re.findall(r"```text\n(from datasets.*?)```", page("docs/guides/search.md"), re.S)
    assert program in page("docs/guides/search.zh.md")
    texts = [f"{number} 今天天气很好"[: 3 + number % 9] for number in range(30)]
    (tmp_path / "corpus").mkdir()
    for shard in (0, 1):
        lines = "\n".join(texts[15 * shard : 15 * (shard + 1)])
        (tmp_path / "corpus" / f"{shard}.txt").write_text(lines, encoding="utf-8")
    (tmp_path / "program.py").write_text(program.replace("batch_size=1000", "batch_size=10"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    printed("program.py", cwd=tmp_path)
    table = pandas.read_parquet(tmp_path / "vectors.parquet")
    assert table["text"].tolist() == texts
    expected = SentenceEncoder.load("builtin/mini_zh").encode(texts)
    np.testing.assert_allclose(np.stack(table["vector"]), expected, atol=1e-6)
