"""Candidates: exact search against a plain loop, ties, memory, BM25 against bm25s, indexes of FAISS, pooling."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from juzhen.encoders import search
from juzhen.encoders.search import ApproximateIndex, Best, exact_search
from juzhen.metrics.lexical import BM25, terms
from juzhen.mining.candidates import pooled


class Table:
    """A source whose scores are a matrix (queries, documents)."""

    digest = "some"

    def __init__(self, scores, name="table"):
        self.scores, self.name = np.asarray(scores, dtype=np.float32), name

    def search(self, queries, k, advance):
        best = Best(len(queries), k)
        best.add(self.scores[queries], 0)
        return best.lists()

    def score(self, queries, documents):
        return self.scores[queries, documents]


def pool_of(sources, queries, depth, num_random=0, seed=0):
    size = sources[0].scores.shape[1]
    return pooled(
        sources,
        np.asarray(queries),
        depth=depth,
        num_documents=size,
        num_random=num_random,
        seed=seed,
        advance=lambda count: None,
    )


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**16), documents=st.integers(1, 70), k=st.integers(1, 20), levels=st.integers(1, 50)
)
def test_exact_search_is_a_plain_sort(seed, documents, k, levels):
    """Few levels mean many ties, in which the lower number comes first."""
    draw = np.random.default_rng(seed)
    queries, corpus = draw.integers(-levels, levels + 1, (9, 3)), draw.integers(-1, 2, (documents, 3))
    queries, corpus = queries.astype(np.float32), corpus.astype(np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "DOCUMENTS_AT_ONCE", 16)
        patch.setattr(search, "QUERIES_AT_ONCE", 4)
        patch.setattr(search, "PART", 8)
        found, scores = exact_search(queries, corpus, k)
    products = queries @ corpus.T
    order = np.argsort(-products, axis=1, kind="stable")[:, :k]
    ends = order.shape[1]
    assert np.array_equal(found[:, :ends], order)
    assert np.array_equal(scores[:, :ends], np.take_along_axis(products, order, axis=1))
    assert (found[:, ends:] == -1).all()
    assert np.isneginf(scores[:, ends:]).all()


@settings(deadline=None, max_examples=30)
@given(order=st.permutations(range(40)), k=st.integers(1, 40))
def test_the_order_of_the_corpus_changes_nothing_without_ties(order, k):
    corpus = np.linspace(-1, 1, 40, dtype=np.float32)[:, None]
    queries = np.array([[1.0], [-2.0]], dtype=np.float32)
    found, shuffled = exact_search(queries, corpus, k)[0], exact_search(queries, corpus[list(order)], k)[0]
    assert np.array_equal(found, np.array(order)[shuffled])


def test_exact_search_takes_memory_for_a_block_and_not_for_the_corpus(monkeypatch):
    monkeypatch.setattr(search, "QUERIES_AT_ONCE", 32)
    monkeypatch.setattr(search, "DOCUMENTS_AT_ONCE", 1024)
    block = 32 * 1024 * 4
    draw = np.random.default_rng(0)
    queries, corpus = (draw.normal(size=(size, 8)).astype(np.float32) for size in (128, 40_000))
    tracemalloc.start()
    exact_search(queries, corpus, 20)
    peak = tracemalloc.get_traced_memory()[1]
    same = np.ones_like(corpus)  # the worst case: all scores are equal
    tracemalloc.reset_peak()
    exact_search(queries, same, 20)
    worst = tracemalloc.get_traced_memory()[1] - same.nbytes
    tracemalloc.stop()
    assert peak < 4 * block < queries.shape[0] * len(corpus) * 4 / 20
    assert worst < 24 * block  # of 34 MB: 0.8 GiB


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**16),
    depth=st.integers(1, 12),
    num_random=st.integers(0, 3),
    sources=st.integers(1, 2),
)
def test_a_pool_is_that_of_plain_loops(seed, depth, num_random, sources):
    draw = np.random.default_rng(seed)
    tables = [Table(draw.integers(0, 6, (5, 12)), name) for name in ("first", "second")[:sources]]
    queries, pool = [1, 2, 3], pool_of(tables[:sources], [1, 2, 3], depth, num_random, seed)
    drawn = np.random.default_rng([seed, 1]).integers(12, size=(3, num_random))
    expected = []
    for query in queries:
        found = {int(document): [0, []] for document in drawn[queries.index(query)]}
        for table in tables:
            lists = np.lexsort((np.arange(12), -table.scores[query]))[:depth].tolist()
            for rank, document in enumerate(lists, start=1):
                best, names = found.get(document, [0, []])
                found[document] = [min(best or rank, rank), [*names, table.name]]
        rows = [
            (query, document, rank, tables[0].scores[query, document], "+".join(names) or "random")
            for document, (rank, names) in found.items()
        ]
        expected += sorted(rows, key=lambda row: (row[2] == 0, -row[3], row[1]))
    columns = (pool.query, pool.document, pool.rank, pool.score, pool.source)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected


def test_terms_are_characters_their_pairs_and_words():
    assert terms("Python怎么学? 3天") == ["python", "怎", "么", "学", "怎么", "么学", "3", "天"]


def test_bm25_is_that_of_bm25s():
    bm25s = pytest.importorskip("bm25s")
    corpus = ["今天天气好", "明天天气不好", "你好 Python", "???", "python is good good"]
    theirs = bm25s.BM25(k1=1.5, b=0.75)
    theirs.index([terms(text) for text in corpus], show_progress=False)
    ours = BM25(corpus)
    for query in ("天气", "天天天气 python", "good 今天", "没有"):
        found = ours.scores(query)
        known = [term for term in terms(query) if term in theirs.vocab_dict]
        np.testing.assert_allclose(found, theirs.get_scores(known) if known else np.zeros(5), rtol=1e-6)
        np.testing.assert_allclose(ours.pair_scores([query] * 5, np.arange(5)), found, rtol=1e-5)


@pytest.mark.parametrize(("kind", "least"), [("flat", 0.95), ("hnsw", 0.95), ("ivf", 0.5)])
def test_an_index_finds_nearly_what_exact_search_finds(kind, least):
    pytest.importorskip("faiss")
    corpus = np.random.default_rng(0).normal(size=(2000, 16)).astype(np.float32)
    corpus /= np.linalg.norm(corpus, axis=1, keepdims=True)
    exact, scores = exact_search(corpus[:50], corpus, 10)
    found, products = ApproximateIndex(corpus, kind).search(corpus[:50], 10)
    assert np.mean([len(np.intersect1d(*pair)) / 10 for pair in zip(exact, found, strict=True)]) > least
    same = exact == found
    np.testing.assert_allclose(products[same], scores[same], rtol=1e-5)
    assert np.array_equal(ApproximateIndex(corpus, kind).search(corpus[:50], 10)[0], found)


def test_a_candidate_of_several_sources_is_there_once_with_its_best_rank():
    first = Table([[0.9, 0.8, 0.7, 0.1]], "first")
    second = Table([[0.0, 3.0, 1.0, 2.0]], "second")
    pool = pool_of([first, second], [0], depth=2)
    assert pool.document.tolist() == [0, 1, 3]
    assert pool.rank.tolist() == [1, 1, 2]
    assert pool.source.tolist() == ["first", "first+second", "second"]
    np.testing.assert_allclose(pool.score, [0.9, 0.8, 0.1])  # the first one's, also of what it has not found


def test_what_is_drawn_depends_on_the_seed_and_comes_last():
    source = Table(np.random.default_rng(0).normal(size=(6, 300)))
    pools = [pool_of([source], [3, 4], depth=5, num_random=8, seed=seed) for seed in (0, 0, 1)]
    assert np.array_equal(pools[0].document, pools[1].document)
    assert not np.array_equal(pools[0].document, pools[2].document)
    for query in (3, 4):
        ranks = pools[0].rank[pools[0].query == query]
        assert ranks.tolist() == [1, 2, 3, 4, 5] + [0] * (len(ranks) - 5)
        assert 5 < len(ranks) <= 13
    assert set(pools[0].source[pools[0].rank == 0]) == {"random"}
