"""A collection of Qdrant, in its local mode, gives what the index that was pushed into it gives."""

import json
import pickle
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from juzhen.core.errors import UserError
from juzhen.index import Index, Rows, add, remove
from juzhen.index.index import IndexHit
from juzhen.index.store import Store
from juzhen.serving.models import open_corpus

QUERIES = ["怎么退货", "火车的第8个问题"]


def plain(found):
    return [[hit._replace(score=pytest.approx(hit.score, abs=1e-5)) for hit in row] for row in found]


def test_a_collection_follows_its_index(built, encoder, tmp_path):
    pytest.importorskip("qdrant_client")
    from juzhen.index.qdrant import QdrantIndex, push

    folder, address = built(), f"qdrant:{tmp_path}/store/faq"
    remove(folder, ["t299"])  # the text of t0 again, of which either may stand first
    assert push(folder, address) == (299, 0)
    add(folder, encoder, Rows(["怎么退货"], ["t1"], [{"topic": "退货", "page": None}], ["topic", "page"]))
    remove(folder, ["t2"])
    assert push(folder, address) == (1, 2)
    assert push(folder, address) == (0, 0)
    filters = (None, {"topic": "退货"}, {"topic": ["火车", "天气"], "page": 3}, {"page": [None, 2.0]})
    with QdrantIndex.open(address, encoder) as collection, Index.open(folder, encoder) as index:
        assert len(collection) == len(index) == 298
        for where in filters:
            found, expected = (one.search(QUERIES, 8, where=where) for one in (collection, index))
            assert found == plain(expected)
        assert collection.search(QUERIES[:1], 1)[0][0].text == "怎么退货"
        one = encoder.encode_query(QUERIES[:1])
        for key, options in (
            ("vectors", {"vectors": one}),
            ("prompt_name", {"vectors": one, "prompt_name": "query"}),
            ("where", {"where": ["topic"]}),
            ("search: no option fuzzy", {"fuzzy": 1}),
            ("top_k", {"top_k": 1.5}),
        ):
            with pytest.raises(UserError, match=f"^{key}"):
                collection.search(QUERIES, **options)
    corpus = open_corpus(address, encoder)
    assert corpus.facts(reranks=False).items() >= {"name": "faq", "texts": 298, "modes": ["dense"]}.items()
    corpus.index.__exit__()


def test_a_text_that_is_removed_while_it_is_sent_is_left_out(built, tmp_path, monkeypatch):
    pytest.importorskip("qdrant_client")
    from juzhen.index.qdrant import connect, push

    removed, read = 7, Store.vectors

    def vectors(store, numbers):
        return np.where((numbers == removed)[:, None], np.nan, read(store, numbers))

    monkeypatch.setattr(Store, "vectors", vectors)
    address = f"qdrant:{tmp_path}/store/faq"
    push(built(), address)
    client, name = connect(address)
    assert client.count(name).count == 299
    assert client.retrieve(name, [removed]) == []
    client.close()


def test_a_hit_of_a_passage_has_its_document_and_span(encoder):
    pytest.importorskip("qdrant_client")
    from juzhen.index.qdrant import QdrantIndex

    passage = {"id": "d0 1", "text": "退货", "metadata": {"page": 2}, "document": "d0", "span": [3, 9]}
    points = [SimpleNamespace(id=4, score=0.5, payload=passage)]
    client = SimpleNamespace(query_batch_points=lambda name, requests: [SimpleNamespace(points=points)])
    index = QdrantIndex(client, "faq", {"dim": encoder.dim, "fields": []}, encoder, "qdrant:store/faq")
    hit = IndexHit(4, "d0 1", "退货", {"page": 2}, 0.5, {"dense": 1}, "d0", (3, 9))
    assert index.search(QUERIES[:1], 1) == [[hit]]


def _facts_changed(change):
    def damage(store):
        meta = json.loads((store / "meta.json").read_text(encoding="utf-8"))
        change(meta["collections"]["faq"]["metadata"]["juzhen"])
        (store / "meta.json").write_text(json.dumps(meta), encoding="utf-8")

    return damage


def _point_changed(content):
    def damage(store):
        (path,) = store.rglob("storage.sqlite")
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE points SET point = ? WHERE rowid = 1", (content,))

    return damage


class Trap:
    """A point of a stranger, which makes a file when it is unpickled."""

    def __reduce__(self):
        return Path.touch, (Path("sprung"),)


DAMAGES = {
    "cut": lambda store: (store / "meta.json").write_text('{"collections": {'),
    "another form": lambda store: (store / "meta.json").write_text("[]"),
    "no digest": _facts_changed(lambda facts: facts.pop("digest")),
    "dim of text": _facts_changed(lambda facts: facts.update(dim="x")),
    "no database": lambda store: next(store.rglob("storage.sqlite")).write_bytes(b"x" * 100),
    "no pickle": _point_changed(b"x"),
    "code": _point_changed(pickle.dumps(Trap())),
}


@pytest.fixture(scope="module")
def pushed(tmp_path_factory, built_once):
    pytest.importorskip("qdrant_client")
    from juzhen.index.qdrant import push

    folder = tmp_path_factory.mktemp("qdrant")
    shutil.copytree(built_once("flat"), folder / "index")
    push(folder / "index", f"qdrant:{folder}/store/faq")
    return folder
