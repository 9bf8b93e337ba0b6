"""A collection of Qdrant, in its local mode, gives what the index that was pushed into it gives."""

import pytest
from jobs import tiny_encoder

from juzhen.core.errors import UserError
from juzhen.index import Index, Rows, add, remove
from juzhen.serving.models import open_corpus

QUERIES = ["怎么退货", "火车的第8个问题"]


def plain(found):
    return [[hit._replace(score=pytest.approx(hit.score, abs=1e-5)) for hit in row] for row in found]


@pytest.mark.slow  # the client alone takes seconds to load
def test_a_collection_follows_its_index(built, encoder, tmp_path, tiny_backbone):
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
        for act in (
            lambda: collection.search(QUERIES, mode="bm25"),
            lambda: collection.search(QUERIES, where={"topik": 1}),
        ):
            with pytest.raises(UserError, match=r"mode=|Did you mean topic"):
                act()
    corpus = open_corpus(address, encoder)
    assert corpus.facts(reranks=False).items() >= {"name": "faq", "texts": 298, "modes": ["dense"]}.items()
    corpus.index.__exit__()
    with pytest.raises(UserError, match="other weights or settings"):
        QdrantIndex.open(address, tiny_encoder(tiny_backbone, pooling="cls"))
    with pytest.raises(UserError, match=r"no collection of juzhen .* juzhen index push"):
        QdrantIndex.open(f"qdrant:{tmp_path}/store/none", encoder)
