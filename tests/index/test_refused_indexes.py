"""What an index cannot take, find or be opened with is refused by what was given, with the way out."""

import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest
from jobs import tiny_encoder
from refusals import each, rows, typed
from test_index import HOLES, NOT_JSON, QUERIES, nested_number, table_of
from test_passages_index import SETTINGS, TEXTS, rows_of
from test_qdrant import DAMAGES, pushed  # noqa: F401, a fixture

from juzhen.core.errors import UserError
from juzhen.index import Index, PassageSettings, Rows, add, build, read_rows, remove, writing
from juzhen.index.index import IndexHit, reranked
from juzhen.index.store import DATABASE

pytest.importorskip("faiss")

LINE_2 = r"FOLDER/faq\.jsonl:2: .*on_bad_row='drop'"
ROWS = [
    (lambda f: read_rows(table_of(f.tmp_path, HOLES), id_column="id"), LINE_2),
    (
        lambda f: read_rows(table_of(f.tmp_path, [("甲", 7), ("乙", "7")]), id_column="id"),
        r"7 .*Give each text another id",
    ),
    *(
        (lambda f, number=number: read_rows(nested_number(f.tmp_path, number), metadata=["m"]), LINE_2)
        for number in NOT_JSON
    ),
]


def of_others(f):
    return tiny_encoder(f.tiny_backbone, pooling="cls")


def before_encoding(f, act):
    """Metadata of a program that no JSON holds, for an encoder that must not be asked."""
    wrong = Rows(["甲", "乙"], ["a", "b"], [{"page": 1}, {"page": {"x": float("nan")}}], ["page"])
    folder = f.built()
    f.monkeypatch.setattr(type(f.encoder), "encode", lambda *texts, **options: pytest.fail("encoded"))
    act(folder, wrong)


def numbered_on(f, more):
    """An index without ids, one of whose texts is removed by its number."""
    folder = f.tmp_path / "numbered"
    build(folder, f.encoder, Rows(["一", "二", "三", "四"]), name="small")
    try:
        add(folder, f.encoder, more)
    finally:
        remove(folder, np.array(["0"]))
        with Index.open(folder, f.encoder) as index:
            assert len(index) == 3


CHANGES = [
    *(
        (
            lambda f, act=act: before_encoding(f, lambda folder, wrong: act(f, folder, wrong)),
            "metadata of text b",
        )
        for act in (
            lambda f, folder, wrong: build(f.tmp_path / "new", f.encoder, wrong, name="small"),
            lambda f, folder, wrong: add(folder, f.encoder, wrong),
            lambda f, folder, wrong: writing.index_in_memory(f.encoder, wrong),
        )
    ),
    (lambda f: Index.open(f.built(), of_others(f)), "other weights or settings"),
    (lambda f: add(f.built(), of_others(f), f.rows), "other weights or settings"),
    (lambda f: build(f.built(), f.encoder, f.rows, name="small"), "holds an index already"),
    (lambda f: add(f.built(), f.encoder, Rows(["无编号"])), "ids of its own"),
    (lambda f: numbered_on(f, Rows(["五"], ["e"])), r"^ids: .*has no ids"),
    (lambda f: remove(f.built(), ["t1", "t999", "x"]), "no text has the id t999, nor have 1 more"),
]


def searched(f, **options):
    with Index.open(f.built(), f.encoder) as index:
        index.search(QUERIES[:2], **options)


def of_four(f, num_queries, **options):
    if "vectors" in options:
        options["vectors"] = f.encoder.encode_query(QUERIES[:num_queries])
    index = writing.index_in_memory(f.encoder, Rows(list("甲乙丙丁"), metadata=[{"page": 1}] * 4))
    index.search(QUERIES[:num_queries], **options)


SEARCHES = [
    *((lambda f, k=k: searched(f, top_k=k), "top_k=") for k in ("x", 1.5, True, None, float("nan"), 0)),
    (lambda f: searched(f, rescore=1.5), "rescore"),
    *(
        (
            lambda f, n=n: searched(f, vectors=f.encoder.encode_query([*QUERIES] * 2)[:n]),
            f"vectors: {n} .*2 queries",
        )
        for n in (0, 1, 3)
    ),
    *((lambda f, given=given: searched(f, vectors=given), "vectors: ") for given in ("x", [[0.1, 0.2]])),
    (lambda f: searched(f, vectors=f.encoder.encode_query(QUERIES[:2]), prompt="x"), "prompt: "),
    (lambda f: searched(f, mode="bm25", prompt="x"), "prompt: "),
    (lambda f: Rows(["甲", "乙"], ["a"]), "ids: 1 for 2 texts"),
    (lambda f: Rows(["甲", "乙"], None, [{}] * 3), "metadata: 3 for 2 texts"),
    *each(
        lambda f, ids: Rows(list("甲乙丙丁"), ids),
        [(ids, "^ids: ") for ids in ("abcd", [*"abca"], ["a", "", "c", "d"], ["a", None, "c", "d"], ["a"])],
    ),
    (lambda f: Rows(list("甲乙丙丁"), metadata=[*"xyzu"]), "^metadata: "),
    *(
        (lambda f, given=given, n=n: of_four(f, n, **given), f"^{key}")
        for given, key in (
            ({"mode": "bm25", "vectors": True}, "vectors"),
            ({"mode": "bm25", "prompt_name": "query"}, "prompt_name"),
            ({"fuzzy": 1}, "search: no option fuzzy"),
            ({"wher": {}}, "search: no option wher. Did you mean where"),
            ({"where": {"nope": 1}}, "filter"),
            ({"per_document": True}, "per_document"),
        )
        for n in (0, 2)
    ),
    (
        lambda f: writing.index_in_memory(f.encoder, Rows(["甲"])).search(["甲"], filter={"a": 1}),
        "no metadata",
    ),
]


def test_an_index_that_was_opened_or_refused_has_no_files_besides_its_own(f):
    folder = f.built()
    own = sorted(path.name for path in folder.iterdir())
    with pytest.raises(UserError) as refused:
        Index.open(folder, of_others(f))
    assert refused
    assert sorted(path.name for path in folder.iterdir()) == own
    with Index.open(folder, f.encoder) as index, Index.open(folder, f.encoder) as other:
        other.search(QUERIES)
        other.store.close()
        assert index.search(QUERIES)[0][0].id
    assert sorted(path.name for path in folder.iterdir()) == own


def test_logits_that_the_sigmoid_rounds_to_1_keep_their_order():
    class Reranker:
        def score(self, pairs):
            return np.array([20, 30, 40, -800], dtype=np.float32)

    hits = [IndexHit(number, str(number), "甲", {}, 0.5, {}) for number in range(4)]
    (found,) = reranked(Reranker(), ["乙"], [hits], 4)
    assert [hit.index for hit in found] == [2, 1, 0, 3]
    assert all(0 <= hit.score <= 1 for hit in found)


def test_metadata_can_be_filtered_by_without_a_list_of_its_names(f):
    index = writing.index_in_memory(f.encoder, Rows(["甲", "乙"], None, [{"page": 1}, {"page": 2}]))
    assert [hit.text for hit in index.search(["甲"], filter={"page": 2})[0]] == ["乙"]


def damaged(f):
    folder = f.built()
    with closing(sqlite3.connect(folder / DATABASE, isolation_level=None)) as connection:
        connection.execute("""UPDATE texts SET metadata = '{"page": {"x": NaN}}' WHERE number = 3""")
    return folder


def filtered(f, folder, **where):
    with Index.open(folder, f.encoder) as index:
        index.search(QUERIES, where=where)


def nested(f):
    rows = Rows(["一", "二"], None, [{"tags": "a", "page": {"x": 1}}] * 2, ["tags", "page"])
    return writing.index_in_memory(f.encoder, rows)


def of_a_lost_encoder(f):
    folder = f.built()
    with closing(sqlite3.connect(folder / DATABASE, isolation_level=None)) as connection:
        connection.execute("""UPDATE facts SET value = '"/nowhere/run"' WHERE name = 'encoder'""")
    typed(f, "index", "search", folder, "怎么退货")


FILTERS = [
    (lambda f: filtered(f, damaged(f), page=1), "juzhen index build"),
    (lambda f: filtered(f, damaged(f), page=float("nan")), r"filter: page: expected .* finite"),
    (lambda f: nested(f).search(["天气"], 10, where={"page": 1}), r"filter: page: .* Build the index"),
    (lambda f: filtered(f, f.built(), topik=1), "Did you mean topic"),
]
DOORS = [
    *(
        (lambda f, given=given: nested(f).search(*given[0], **given[1]), words)
        for given, words in (
            (("天气",), "queries: got one text"),
            ((["天气"], 1.5), "top_k=1.5"),
            ((["天气"], 0), "top_k=0"),
            ((["天气"], 1, "fuzzy"), "Name the others: mode=…"),
        )
        for given in [(given, {})]
    ),
    *(
        (lambda f, options=options: nested(f).search(["天气"], **options), words)
        for options, words in (
            ({"mode": "fuzzy"}, "mode=fuzzy: .*hybrid"),
            ({"where": "a=1"}, "where='a=1': .*dict"),
            ({"vectors": np.ones((1, 3))}, "vectors: got the shape .*encode_query"),
            ({"vectors": np.full((1, 400), np.nan)}, "vectors: .*NaN"),
            ({"rerank": 1}, "no option rerank"),
        )
    ),
    (lambda f: Index.open(None), "folder: got a NoneType .*path"),
    (lambda f: Index.open(f.built(), "builtin/mini_zh"), r"encoder: got a str .*SentenceEncoder\.load"),
    (
        lambda f: build(f.tmp_path / "new", f.encoder, ["天气"], name="small"),
        r"rows: got a list .*read_rows\(",
    ),
    (lambda f: build(f.tmp_path / "new", f.encoder, f.rows, name="x", kind="hnsw2"), "kind=hnsw2: .*hnsw"),
    (lambda f: build(f.tmp_path / "new", f.encoder, f.rows), "name is missing"),
    (lambda f: remove(f.built(), "t1"), "ids: got one text"),
    (lambda f: remove(f.built(), [1]), "ids: text 0 is an int"),
]


def cut_off(f, texts=None, **options):
    """The folder of a build that ended after some of its texts."""
    given, folder = texts or f.rows, f.tmp_path / "index"
    with f.monkeypatch.context() as patch:
        patch.setattr(writing, "PORTION", 1 if texts else 100)
        calls, called = [], type(f.encoder).encode_chunks if options else writing.unit

        def breaks(*arguments, **named):
            calls.append(1)
            if len(calls) == 3:
                raise MemoryError
            return called(*arguments, **named)

        patch.setattr(*((type(f.encoder), "encode_chunks") if options else (writing, "unit")), breaks)
        with suppress(MemoryError):
            build(folder, f.encoder, given, name="small", **options)
    return folder


def passages(f):
    folder = f.tmp_path / "laws"
    build(folder, f.encoder, rows_of(TEXTS, ["a", "b", "c"]), name="small", passages=SETTINGS)
    return folder


def means(f, name, *long_texts):
    """The folder of an index of long texts by an encoder of 16 tokens, and that encoder."""
    short = f.encoder.with_prompt()
    short.max_length = 16
    reading = short.with_long_texts(*long_texts) if long_texts else short
    build(f.tmp_path / name, reading, rows_of(TEXTS), name="small")
    return f.tmp_path / name, short


def searched_by_document(f):
    with Index.open(*means(f, "laws", "chunk", 3)) as index:
        index.search([TEXTS[1] * 2], 4, per_document=True)


def opened_with(f, overlap, *built_with):
    folder, short = means(f, "laws", *built_with)
    Index.open(folder, short.with_long_texts("chunk", overlap))


BUILDS = [
    (lambda f: Index.open(cut_off(f), f.encoder), "its build has not ended"),
    (
        lambda f: build(cut_off(f), f.encoder, f.rows.after(1), name="small"),
        "unfinished index of other texts",
    ),
    (
        lambda f: build(
            cut_off(f, rows_of(TEXTS), passages=SETTINGS),
            f.encoder,
            rows_of(TEXTS),
            name="small",
            passages=PassageSettings(13),
        ),
        "other texts or settings",
    ),
    (lambda f: [remove(folder, ["a"]) for folder in [passages(f)] * 2], "no text has the id a"),
    (searched_by_document, "--chunk-tokens N"),
    (of_a_lost_encoder, "(?=.*FOLDER/flat)(?=.*/nowhere/run).*--encoder"),
    (lambda f: opened_with(f, 4, "chunk", 3), "other weights or settings"),
    (lambda f: opened_with(f, 3), "other weights or settings"),
]


def collection(f, name="faq", encoder=None, **search):
    """Opens a collection that an index was pushed into, and searches it."""
    pytest.importorskip("qdrant_client")
    from juzhen.index.qdrant import QdrantIndex, push

    push(f.built(), f"qdrant:{f.tmp_path}/store/faq")
    with QdrantIndex.open(f"qdrant:{f.tmp_path}/store/{name}", encoder or f.encoder) as opened:
        opened.search(QUERIES, **search)


def in_use(f):
    pytest.importorskip("qdrant_client")
    from juzhen.index.qdrant import QdrantIndex, push

    address = f"qdrant:{f.tmp_path}/store/faq"
    push(f.built(), address)
    with QdrantIndex.open(address, f.encoder):
        QdrantIndex.open(address, f.encoder)


def of_a_server(f):
    pytest.importorskip("qdrant_client")
    from juzhen.index.qdrant import QdrantIndex

    QdrantIndex.open("http://127.0.0.1:9/faq", f.encoder)


def a_damaged_collection(f, damage, *, pushes):
    """No code in it runs."""
    pytest.importorskip("qdrant_client")
    from juzhen.index.qdrant import QdrantIndex, push

    f.monkeypatch.chdir(f.tmp_path)
    shutil.copytree(f.pushed / "store", f.tmp_path / "store")
    damage(f.tmp_path / "store")
    address = f"qdrant:{f.tmp_path}/store/faq"
    try:
        push(f.pushed / "index", address) if pushes else QdrantIndex.open(address, f.encoder)
    finally:
        assert not Path("sprung").exists()


def connected(address):
    pytest.importorskip("qdrant_client")
    from juzhen.index.qdrant import connect

    connect(address)


def into_itself(f):
    pytest.importorskip("qdrant_client")
    from juzhen.index.qdrant import push

    push(folder := f.built(), f"qdrant:{folder}/faq")


DAMAGED = [
    (
        lambda f, damage=damage, pushes=pushes: a_damaged_collection(f, damage, pushes=pushes),
        "^qdrant:FOLDER/store/faq.*juzhen index push",
    )
    for damage in DAMAGES.values()
    for pushes in (False, True)
]
COLLECTIONS = [
    (lambda f: collection(f, mode="bm25"), "mode="),
    (lambda f: collection(f, where={"topik": 1}), "Did you mean topic"),
    (lambda f: collection(f, encoder=of_others(f)), "other weights or settings"),
    (lambda f: collection(f, "none"), r"no collection of juzhen .* juzhen index push"),
    (in_use, "another process"),
    (of_a_server, r"^http://127\.0\.0\.1:9/faq: "),
]
HOSTS = ("http://127.0.0.1:6333", "ftp://a/b")
ADDRESSES = [
    *(
        (lambda f, address=address: connected(address), "expected http")
        for address in ("qdrant:faq", "qdrant:/faq", "qdrant:folder/", "faq/", "/faq", "a/b", *HOSTS)
    ),
    (into_itself, "inside"),
]
REFUSED = {
    "rows": ROWS,
    "a change": CHANGES,
    "a search": SEARCHES,
    "a filter": FILTERS,
    "a door": DOORS,
    "a build": BUILDS,
    "damage": DAMAGED,
    "a collection": COLLECTIONS,
    "an address": ADDRESSES,
}


@pytest.mark.parametrize(("call", "told"), rows(REFUSED, slow=["a collection"]))
@pytest.mark.sampled(3)
def test_what_an_index_cannot_do_is_refused_by_what_was_given(call, told, f):
    with pytest.raises(UserError, match=told.replace("FOLDER", str(f.tmp_path))):
        call(f)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"encoding": writing.Encoding({}, workers=0)}, "workers=0"),
        ({"encoding": writing.Encoding({"batch_tokens": 0})}, "batch_tokens=0"),
        ({"encoding": writing.Encoding({"truncate_dim": 8})}, "truncate_dim=8: .*dim"),
        ({"encoding": writing.Encoding({"nope": 1})}, "nope"),
        ({"name": None}, "name=None: expected a text"),
        (
            {"rows": Rows(["甲", "乙"], ["a", "b"], [{"page": 1}, {0: "x"}])},
            r"metadata of text b: .* no text\. ",
        ),
    ],
)
def test_a_refused_build_leaves_no_folder_that_blocks_the_next(options, told, encoder, tmp_path):
    folder, texts = tmp_path / "new", Rows(["甲", "乙"])
    with pytest.raises(UserError, match=told):
        build(folder, encoder, **{"name": "small", "rows": texts} | options)
    assert not folder.exists()
    assert build(folder, encoder, texts, name="small") == 0
