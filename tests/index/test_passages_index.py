"""Indexes of long texts: by their passages, or by the mean of their chunks."""

import json
import sqlite3
from contextlib import closing, suppress

import numpy as np
import pytest

from juzhen.cli.main import main
from juzhen.core.errors import UserError
from juzhen.index import Index, PassageSettings, Rows, add, build, remove, writing
from juzhen.index.index import facts_of
from juzhen.index.store import DATABASE

TEXTS = [
    "今天天气很好。" * 3 + "我们坐火车去北京。" + "明天还要下雨。" * 3,
    "怎么退货？" + "联系客服，把商品寄回。" * 4,
    "苹果",
]
SETTINGS = PassageSettings(chunk_tokens=12, overlap=2)


@pytest.fixture(params=[False, True], ids=["alone", "late"])
def settings(request):
    return PassageSettings(chunk_tokens=12, overlap=2, late=request.param)


def rows_of(texts, ids=None):
    metadata = [{"page": number} for number in range(len(texts))]
    return Rows(texts, ids, metadata, ["page"])


def test_hits_name_the_document_the_span_and_the_passage(encoder, tmp_path, settings):
    folder = tmp_path / "laws"
    build(folder, encoder, rows_of(TEXTS, ["a", "b", "c"]), name="small", passages=settings)
    passages = encoder.reading(2).encode_chunks(
        TEXTS, chunk_tokens=12, overlap=2, late=settings.late, prompt_name="document"
    )
    vectors = passages.vectors / np.linalg.norm(passages.vectors, axis=1, keepdims=True)
    query = encoder.encode_query("坐火车", normalize=True)
    with Index.open(folder, encoder) as index:
        hits = index.search(["坐火车"], len(passages))[0]
        assert len(hits) == len(passages) > 8
        best = index.search(["坐火车"], 3, per_document=True)[0]
        assert facts_of(index)["documents"].startswith("3,")
    scores = dict(zip([*range(len(vectors))], vectors @ query, strict=True))
    names = ["a", "b", "c"]
    for hit in hits:
        first, last = hit.span
        assert hit.text == TEXTS[names.index(hit.document)][first:last]
        assert hit.metadata == {"page": names.index(hit.document)}
        assert hit.score == pytest.approx(scores[hit.index], abs=1e-5)
        assert hit.id == f"{hit.document}#{[*passages.texts[: hit.index]].count(names.index(hit.document))}"
    assert [hit.document for hit in best] == [*dict.fromkeys(hit.document for hit in hits)]
    assert best == [next(hit for hit in hits if hit.document == each.document) for each in best]


def test_documents_are_replaced_and_removed_with_all_their_passages(encoder, tmp_path):
    folder = tmp_path / "laws"
    build(folder, encoder, rows_of(TEXTS, ["a", "b", "c"]), name="small", passages=SETTINGS)
    assert add(folder, encoder, rows_of(["苹果手机。" * 9, "梨"], ["b", "d"])) == 1
    remove(folder, ["a"])
    with Index.open(folder, encoder) as index:
        hits = index.search(["苹果"], 100)[0]
        assert {hit.document for hit in hits} == {"b", "c", "d"}
        assert "".join(hit.text for hit in hits).count("退货") == 0
        assert len(index.search(["手机"], 1, mode="hybrid", per_document=True)[0]) == 1


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE passages SET document = 'b' WHERE number = 0",
        "UPDATE passages SET last = 'x' WHERE number = 0",
        "DELETE FROM passages WHERE number = 0",
    ],
)
def test_a_passage_with_another_document_or_span_than_was_stored_is_refused(encoder, tmp_path, change):
    build(tmp_path / "laws", encoder, rows_of(TEXTS, ["a", "b", "c"]), name="small", passages=SETTINGS)
    with closing(sqlite3.connect(tmp_path / "laws" / DATABASE)) as database, database:
        database.execute(change)
    damaged = pytest.raises(UserError, match=rf"{DATABASE}: damaged.*passage 0 .*index build")
    with Index.open(tmp_path / "laws", encoder) as index, damaged:
        index.search(["苹果"], 50)


def test_documents_without_ids_are_numbered_on(encoder, tmp_path):
    folder = tmp_path / "laws"
    build(folder, encoder, rows_of(TEXTS), name="small", passages=SETTINGS)
    add(folder, encoder, rows_of(["梨", "桃"]))
    with Index.open(folder, encoder) as index:
        found = {hit.document: hit.text for hit in index.search(["苹果"], 100, per_document=True)[0]}
    assert sorted(found) == ["0", "1", "2", "3", "4"]
    assert [found[name] for name in ("2", "3", "4")] == [TEXTS[2], "梨", "桃"]


def test_a_build_goes_on_where_it_was_cut_off(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "PORTION", 1)
    folder, encode, calls = tmp_path / "laws", type(encoder).encode_chunks, []

    def breaks(self, *arguments, **options):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return encode(self, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(type(encoder), "encode_chunks", breaks)
        with pytest.raises(KeyboardInterrupt):
            build(folder, encoder, rows_of(TEXTS), name="small", passages=SETTINGS)
    with suppress(UserError):  # a refused build changes nothing
        build(folder, encoder, rows_of(TEXTS), name="small", passages=PassageSettings(13))
    assert build(folder, encoder, rows_of(TEXTS), name="small", passages=SETTINGS) == 2
    with Index.open(folder, encoder) as index:
        assert {hit.document for hit in index.search(["苹果"], 100)[0]} == {"0", "1", "2"}


def test_an_index_of_means_is_searched_and_added_to_with_means(encoder, tmp_path):
    folder, short = tmp_path / "laws", encoder.with_prompt()
    short.max_length = 16
    build(folder, short.with_long_texts("chunk", 3), rows_of(TEXTS), name="small")
    add(folder, short, rows_of([TEXTS[0] + TEXTS[1]]))
    expected = short.encode_document(
        [*TEXTS, TEXTS[0] + TEXTS[1]], long_texts="chunk", overlap=3, normalize=True
    )
    query = TEXTS[1] * 2
    with Index.open(folder, short) as index:
        hits = index.search([query], 4)[0]
        assert "document" not in hits[0].as_dict()
    scores = expected @ short.encode_query(query, long_texts="chunk", overlap=3, normalize=True)
    assert [hit.index for hit in hits] == np.argsort(-scores).tolist()
    assert np.allclose([hit.score for hit in hits], np.sort(scores)[::-1], atol=1e-5)


@pytest.mark.slow
def test_the_command_line(encoder_folder, tmp_path, capsys):
    table, place = tmp_path / "laws.jsonl", str(tmp_path / "laws")
    lines = [
        json.dumps({"text": text, "name": f"n{number}"}) for number, text in enumerate([*TEXTS, "长" * 90])
    ]
    table.write_text("\n".join(lines), encoding="utf-8")
    start = ["index", "build", place, str(encoder_folder), str(table), "--text", "text", "--id", "name"]
    for options, message in (
        (["--late"], "--late needs --chunk-tokens N"),
        (["--overlap", "2"], "--overlap needs --chunk-tokens N"),
        (["--chunk-tokens", "12", "--long-texts", "chunk"], "exclude each other"),
        (["--chunk-tokens", "12", "--late", "--backend", "onnx"], "Leave them out"),
        (["--chunk-tokens", "12", "--cache", str(tmp_path)], "--cache"),
    ):
        assert main([*start, *options]) == 2
        assert message in capsys.readouterr().err
    assert main([*start, "--chunk-tokens", "12", "--late"]) == 0
    capsys.readouterr()
    assert main(["index", "search", place, "坐火车", "--per-document", "--top-k", "2", "--json"]) == 0
    hits = json.loads(capsys.readouterr().out)["hits"]
    assert len({hit["document"] for hit in hits}) == 2
    assert all(hit["span"][1] - hit["span"][0] == len(hit["text"]) for hit in hits)
    assert main([*start[:2], str(tmp_path / "cut"), *start[3:]]) == 0
    assert "3 of 4 texts are longer than" in capsys.readouterr().err
