"""`SentenceEncoder.search` and `CrossEncoder.rank`: by plain sorting, and what they refuse."""

import numpy as np
import pytest
from jobs import tiny_encoder

from juzhen.encoders.cross_encoder import CrossEncoder
from juzhen.encoders.projection import BilinearScore
from juzhen.encoders.search import ApproximateIndex

CORPUS = ["怎么还花呗", "今天天气很好", "花呗如何还款", "明天下雨吗", "python怎么学", "今天天气很好"]
QUERIES = ["怎样还花呗", "今天是个好天气"]


@pytest.fixture(scope="module")
def encoder(tiny_backbone):
    return tiny_encoder(tiny_backbone)


@pytest.fixture(scope="module")
def reader(tiny_backbone):
    return CrossEncoder(tiny_encoder(tiny_backbone), outputs=1, segments=True, symmetric=False, seed=0).eval()


def numbers(found):
    return [[hit.corpus_id for hit in hits] for hits in found]


@pytest.mark.parametrize("learnt", [False, True])
def test_the_best_are_those_of_all_scores(encoder, learnt, monkeypatch):
    if learnt:
        head = BilinearScore(encoder.dim)
        head.form.data.copy_(head.form.data.flip(0))
        monkeypatch.setattr(encoder, "score_head", head)
    scores = encoder.similarity(QUERIES, CORPUS)
    order = np.argsort(-scores.round(6), axis=1, kind="stable")
    found = encoder.search(QUERIES, CORPUS, 4)
    assert numbers(found) == order[:, :4].tolist()
    for row, hits in zip(scores, found, strict=True):
        np.testing.assert_allclose(
            [hit.score for hit in hits], row[[hit.corpus_id for hit in hits]], atol=1e-6
        )
    for again in (
        [found[0], encoder.search(QUERIES[1], CORPUS, top_k=4)],
        encoder.search(QUERIES, encoder.encode(CORPUS), 4),
        encoder.search(
            encoder.encode_query(QUERIES, convert_to_tensor=True), list(encoder.encode(CORPUS)), 4
        ),
        [encoder.search(vector, CORPUS, 4) for vector in encoder.encode_query(QUERIES)],
    ):
        assert numbers(again) == numbers(found)
    assert encoder.search(QUERIES, CORPUS) == encoder.search(QUERIES, CORPUS, len(CORPUS))
    np.testing.assert_array_equal(encoder.similarity(encoder.encode(QUERIES), CORPUS), scores)
    assert [len(row) for row in encoder.search(QUERIES, CORPUS, len(CORPUS))] == [6, 6]


def test_an_index_is_searched_in_the_place_of_texts(encoder):
    pytest.importorskip("faiss")
    for known in (None, encoder):
        index = ApproximateIndex(encoder.encode(CORPUS, normalize=True), "flat", encoder=known)
        assert numbers(encoder.search(QUERIES, index, 3)) == numbers(encoder.search(QUERIES, CORPUS, 3))


def test_queries_and_documents_have_prompts_of_their_own(tiny_backbone, encoder):
    prompts = {"query": "问：", "passage": "答："}
    own = tiny_encoder(tiny_backbone, prompts=prompts, default_prompt_name="query")
    found = own.search(QUERIES, CORPUS, 3, document_prompt="passage")
    wanted = own.search(QUERIES, own.encode(CORPUS, prompt_name="passage"), 3, prompt_name="query")
    assert found == wanted
    assert found == own.search(QUERIES, CORPUS, 3)
    assert found != own.search(QUERIES, CORPUS, 3, document_prompt="query")
    for given in (own.with_prompt("query"), tiny_encoder(tiny_backbone)):  # one prompt for all, or none
        assert given.search(QUERIES, CORPUS, 3) == given.search(QUERIES, given.encode(CORPUS), 3)


def test_what_was_found_is_put_in_order(encoder, reader):
    found = encoder.search(QUERIES[0], CORPUS, 4)
    among = [hit.corpus_id for hit in found]
    scores = reader.score([(QUERIES[0], text) for text in CORPUS])
    best = reader.rank(QUERIES[0], CORPUS, 2, among=among)
    assert [hit.corpus_id for hit in best] == sorted(among, key=lambda one: (-scores[one].round(6), one))[:2]
    assert best == reader.rank(QUERIES[0], CORPUS, among=among)[:2]
    assert [hit.score for hit in best] == pytest.approx(
        scores[[hit.corpus_id for hit in best]].tolist(), abs=1e-6
    )
    assert len(reader.rank(QUERIES[0], CORPUS)) == len(CORPUS)
