"""State machine of an index: additions, replacements and removals in any order. A search equals a scan of a dict."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from juzhen.core.errors import UserError
from juzhen.encoders.pooling import unit
from juzhen.index import Index, Rows, add, build, remove, writing
from juzhen.index import index as searching
from juzhen.metrics.lexical import BM25

TEXTS = ["怎么退货", "火车晚点了", "火车票退票", "苹果", "天气很好", "zebra 火车"]
QUERIES = ["火车退票", "苹果", "天气"]
IDS = ["a", "b", "c", "d", "e", "f", "g", "h"]
VALUES = [1, 1.0, 0, True, False, "1", "", None, ["1", 1], [], [None, True]]
LATER, SHARE, REMOVED = 2, 0.5, 0.25
VECTORS = unit(np.random.default_rng(0).normal(size=(len(TEXTS) + len(QUERIES), 32)).astype(np.float32))

records = st.dictionaries(st.sampled_from(["page", "tag"]), st.sampled_from(VALUES))
additions = st.dictionaries(st.sampled_from(IDS), st.tuples(st.sampled_from(TEXTS), records), min_size=1)
choices = st.sampled_from([value for value in VALUES if not isinstance(value, list)])
filters = st.none() | st.tuples(st.sampled_from(["page", "tag"]), st.lists(choices, min_size=1, max_size=2))

top_k = st.integers(1, 9)


def rows_of(added):
    texts, metadata = zip(*added.values(), strict=True)
    return Rows([*texts], [*added], [*metadata], sorted({name for record in metadata for name in record}))


def is_one_of(value, wanted):
    """As JSON has it: 1 equals 1.0, and neither true nor "1"."""
    return any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in wanted)


def fits(record, where):
    if where is None:
        return True
    name, wanted = where
    if name not in record:
        return False
    items = record[name] if isinstance(record[name], list) else [record[name]]
    return any(is_one_of(item, wanted) for item in items)


class States(RuleBasedStateMachine):
    def __init__(self, encoder, folder):
        super().__init__()
        self.encoder, self.folder = encoder, folder
        self.queries = VECTORS[len(TEXTS) :]
        self.scores = dict(zip(TEXTS, VECTORS[: len(TEXTS)] @ self.queries.T, strict=True))
        self.stored, self.fields, self.covered, self.next = {}, set(), [], 0

    def teardown(self):
        if hasattr(self, "index"):
            self.index.store.close()

    def put(self, added):
        """Number → id, text and metadata of all that is stored."""
        self.stored = {number: row for number, row in self.stored.items() if row[0] not in added}
        for name, (text, record) in added.items():
            self.stored[self.next] = (name, text, record)
            self.fields |= {*record}
            self.next += 1

    def derive_if_due(self):
        gone = len({*self.covered} - {*self.stored})
        later = len({*self.stored} - {*self.covered})
        if later > max(LATER, SHARE * len(self.stored)) or gone > REMOVED * len(self.covered):
            self.covered = sorted(self.stored)

    @initialize(added=additions)
    def build(self, added):
        build(self.folder, self.encoder, rows_of(added), name="small")
        self.put(added)
        self.covered = sorted(self.stored)
        self.index = Index.open(self.folder, self.encoder)

    @rule(added=additions, where=filters, top_k=top_k)
    def add(self, added, where, top_k):
        replaced = sum(row[0] in added for row in self.stored.values())
        assert add(self.folder, self.encoder, rows_of(added)) == replaced
        self.put(added)
        self.derive_if_due()
        self.search(where, top_k)

    @rule(names=st.sets(st.sampled_from(IDS), min_size=1), where=filters, top_k=top_k)
    def remove(self, names, where, top_k):
        if names - {row[0] for row in self.stored.values()}:
            with pytest.raises(UserError):
                remove(self.folder, sorted(names))
            return
        remove(self.folder, sorted(names))
        self.stored = {number: row for number, row in self.stored.items() if row[0] not in names}
        self.derive_if_due()
        self.search(where, top_k)

    def search(self, where, top_k):
        filter_ = {} if where is None else {where[0]: where[1][0] if len(where[1]) == 1 else where[1]}
        options = {"where": filter_, "vectors": self.queries}
        if where is not None and where[0] not in self.fields:
            with pytest.raises(UserError):
                self.index.search(QUERIES, top_k, **options)
            return
        allowed = {number: row for number, row in self.stored.items() if fits(row[2], where)}
        for query, hits in enumerate(self.index.search(QUERIES, top_k, **options)):
            expected = sorted((self.scores[row[1]][query] for row in allowed.values()), reverse=True)
            assert [hit.score for hit in hits] == pytest.approx(expected[:top_k], abs=1e-5)
            for hit in hits:
                assert (hit.id, hit.text, hit.metadata) == allowed[hit.index]
                assert hit.score == pytest.approx(self.scores[hit.text][query], abs=1e-5)
            assert len({hit.index for hit in hits}) == len(hits)
            assert [hit.ranks for hit in hits] == [{"dense": rank} for rank in range(1, len(hits) + 1)]
        lexical = self.index.search(QUERIES, 100, mode="bm25", where=filter_)
        for query, hits in zip(QUERIES, lexical, strict=True):
            share = BM25(TEXTS).scores(query) > 0
            named = {text for text, has_term in zip(TEXTS, share, strict=True) if has_term}
            assert {hit.index for hit in hits} == {n for n, row in allowed.items() if row[1] in named}

    @invariant()
    def counts(self):
        if hasattr(self, "index"):
            view = self.index.view()
            assert len(self.index) == len(self.stored)
            assert view.numbers[: view.covered].tolist() == self.covered
            assert view.numbers[view.alive].tolist() == sorted(self.stored)


def test_a_search_equals_a_scan_after_any_changes(encoder, tmp_path_factory, monkeypatch):
    def looked_up(self, texts, **options):
        return VECTORS[[TEXTS.index(text) for text in texts]]

    monkeypatch.setattr(type(encoder), "encode", looked_up)
    for module in (writing, searching):  # it reads all weights
        monkeypatch.setattr(module, "index_digest", lambda reader: "some")
    for name, value in {"LATER": LATER, "SHARE": SHARE, "REMOVED": REMOVED}.items():
        monkeypatch.setattr(writing, name, value)
    some = settings(max_examples=settings().max_examples // 15, stateful_step_count=8, deadline=None)
    run_state_machine_as_test(
        lambda: States(encoder, tmp_path_factory.mktemp("states") / "index"), settings=some
    )


@pytest.mark.parametrize("mode", ["dense", "bm25", "hybrid"])
def test_an_index_whose_texts_are_all_removed_finds_none(encoder, tmp_path, mode):
    build(tmp_path / "index", encoder, Rows(["苹果"], ["a"]), name="small")
    remove(tmp_path / "index", ["a"])
    with Index.open(tmp_path / "index", encoder) as index:
        assert index.search(["苹果", "梨"], mode=mode) == [[], []]
