"""A ranking goes through the same evaluator as pairs: with them, in one pass, and by other people's definitions."""

import sys

import numpy as np
import pytest
import torch
from jobs import tiny_encoder, typed_job
from torchmetrics.functional.retrieval import (
    retrieval_average_precision,
    retrieval_normalized_dcg,
    retrieval_recall,
    retrieval_reciprocal_rank,
)

from juzhen.core.errors import UserError
from juzhen.data.leaks import Seen
from juzhen.data.loading import load_job_data
from juzhen.data.rankings import RankingSet
from juzhen.data.spec import configured_set
from juzhen.encoders import SentenceEncoder
from juzhen.encoders.cross_encoder import CrossEncoder
from juzhen.evaluation import evaluate
from juzhen.evaluation.evaluators import BM25Evaluator
from juzhen.evaluation.run import EvaluationRun
from juzhen.evaluation.settings import EvaluationSettings
from juzhen.metrics.lexical import cut_of, terms
from juzhen.metrics.ranking import query_numbers
from lightning_modules.loss_factory import match_losses

METRICS = ("ndcg_at_10", "mrr_at_10", "recall_at_10", "recall_at_100", "map_at_100")
FEW = EvaluationSettings(debug_rows=40)


@pytest.fixture(scope="module")
def pairs():
    """The test rows of a demo set, a few of them."""
    settings = EvaluationSettings(debug_rows=40, evaluate={"demo_sts": configured_set("demo_sts")})
    return load_job_data(settings, {}).evaluation[-1]


@pytest.fixture(scope="module")
def ranking(pairs):
    """Which second sentence goes with a first one, among all second sentences; each query has its close ones."""
    first, corpus = pairs.texts("text_a")[:12], list(dict.fromkeys(pairs.texts("text_b")))
    second = [corpus.index(text) for text in pairs.texts("text_b")[:12]]
    relevant = [{own: 1.0, (own + 1) % len(corpus): 0.5} for own in second]
    return RankingSet("demo_ranking", "test", first, corpus, relevant)


def reranked(ranking: RankingSet) -> RankingSet:
    """The same with a few candidates for each query."""
    some = [np.array([*gains, (min(gains) + 5) % len(ranking.corpus)]) for gains in ranking.relevant]
    return RankingSet("few", "test", ranking.queries, ranking.corpus, ranking.relevant, some)


@pytest.fixture(scope="module")
def encoders(tiny_backbone):
    joint, single = (tiny_encoder(tiny_backbone, max_length=None) for _ in range(2))
    joint = CrossEncoder(joint, outputs=1, segments=True, symmetric=False, seed=0)
    return {"embeddings": single, "pairs": joint, "lexical": "lexical"}


def test_numbers_of_a_query_are_those_of_torchmetrics():
    draw = np.random.default_rng(0)
    for size in (4, 25):
        scores = draw.permuted(np.tile(np.arange(1.0, size + 1), (6, 1)), axis=1)
        gains = np.where(draw.random((6, size)) < 0.3, draw.integers(1, 4, (6, size)), 0)
        gains[:, 2] = 1
        relevant = [{int(place): float(row[place]) for place in np.flatnonzero(row)} for row in gains]
        found = query_numbers(np.argsort(-scores, axis=1), relevant)
        assert tuple(found) == METRICS
        for query in range(6):
            given, gain = torch.from_numpy(scores[query]), torch.from_numpy(gains[query])
            expected = [
                retrieval_normalized_dcg(given, gain, top_k=10),
                retrieval_reciprocal_rank(given, gain > 0, top_k=10),
                retrieval_recall(given, gain > 0, top_k=10),
                1.0,  # the whole corpus is looked at
                retrieval_average_precision(given, gain > 0),
            ]
            np.testing.assert_allclose(
                [found[name][query] for name in METRICS], [float(one) for one in expected], atol=1e-6
            )


def test_bm25_puts_documents_in_the_order_of_bm25s(ranking, pairs):
    bm25s = pytest.importorskip("bm25s")
    theirs = bm25s.BM25(k1=0.9, b=0.4)
    theirs.index([terms(text) for text in ranking.corpus], show_progress=False)
    scores = np.stack([theirs.get_scores(terms(text)) for text in ranking.queries])
    expected = query_numbers(np.argsort(-scores, axis=1, kind="stable"), ranking.relevant)
    few = reranked(ranking)
    found = evaluate(BM25Evaluator(k1=0.9, b=0.4), [ranking, few], settings=FEW)
    for metric in METRICS:
        np.testing.assert_allclose(found.per_query[f"{ranking.column}/{metric}"], expected[metric], atol=1e-6)
    among = np.full_like(scores, -1)
    for query, some in enumerate(few.candidates):
        among[query, some] = scores[query, some]
    expected = query_numbers(np.argsort(-among, axis=1, kind="stable")[:, :3], few.relevant)
    np.testing.assert_allclose(found.per_query["test/few/ndcg_at_10"], expected["ndcg_at_10"], atol=1e-6)


@pytest.mark.slow
def test_bm25_takes_words_where_it_is_told_to(ranking):
    pytest.importorskip("jieba")
    assert terms("我想学习Python编程", cut_of("jieba")) == ["我", "想", "学习", "python", "编程"]
    by_words = evaluate(BM25Evaluator(tokens="jieba"), [ranking], settings=FEW)
    by_characters = evaluate("bm25", [ranking], settings=FEW)
    assert by_words.scores != by_characters.scores


@pytest.mark.parametrize("name", ["embeddings", "pairs", "lexical"])
def test_a_column_is_the_mean_of_one_number_per_query(name, encoders, pairs, ranking):
    few = reranked(ranking)
    every = [pairs, few] if name == "pairs" else [pairs, few, ranking]
    found, alone = (evaluate(encoders[name], sets, settings=FEW) for sets in (every, [pairs]))
    assert alone.scores["test/demo_sts/spearman"].value == pytest.approx(
        found.scores["test/demo_sts/spearman"].value, abs=1e-6
    )
    np.testing.assert_allclose(found.per_row["test/demo_sts"], alone.per_row["test/demo_sts"], atol=1e-5)
    for one in every[1:]:
        for metric in METRICS:
            values, score = (which[f"{one.column}/{metric}"] for which in (found.per_query, found.scores))
            assert values.shape == (len(one.queries),)
            assert score.value == pytest.approx(values.mean())
            assert score.count == len(one.queries)
            assert score.low <= score.value <= score.high
    assert found.scores["test/few/recall_at_10"].value == 1, "three candidates, and ten places"


def test_the_order_is_that_of_the_cosines(encoders, ranking):
    found = evaluate(encoders["embeddings"], [ranking], settings=FEW)
    encoder = encoders["embeddings"]
    texts = [*ranking.queries, *ranking.corpus]
    embeddings = encoder.encode(texts, batch_tokens=999, show_progress=False).astype(np.float64)
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    cosines = embeddings[: len(ranking.queries)] @ embeddings[len(ranking.queries) :].T
    expected = query_numbers(np.argsort(-cosines, axis=1), ranking.relevant)
    for metric in METRICS:
        np.testing.assert_allclose(found.per_query[f"{ranking.column}/{metric}"], expected[metric], atol=1e-6)


def test_sentences_of_pairs_and_rankings_are_encoded_once(encoders, pairs, ranking, monkeypatch):
    counts, plain = [], SentenceEncoder.forward
    monkeypatch.setattr(
        SentenceEncoder, "forward", lambda self, tokens: counts.append(len(tokens)) or plain(self, tokens)
    )
    evaluate(encoders["embeddings"], [pairs, ranking, reranked(ranking)], settings=FEW)
    assert sum(counts) == len({*pairs.texts("text_a"), *pairs.texts("text_b")})


def test_queries_that_training_has_seen_are_left_out_of_a_second_score(encoders, ranking):
    seen = {ranking.column: Seen(np.array([0, 3]), 2 / 12, {"some": 2})}
    found, _ = EvaluationRun(encoders["embeddings"], FEW)([ranking], seen=seen)
    for metric in METRICS:
        values = found.per_query[f"{ranking.column}/{metric}"]
        score = found.scores[f"{ranking.column}/{metric}_without_leaks"]
        assert score.count == 10
        assert score.value == pytest.approx(np.delete(values, [0, 3]).mean())


def empty(corpus):
    return RankingSet("empty", "test", [], corpus, [])


REFUSED = {
    "BM25 of pairs": (
        lambda ranking, pairs, reader: evaluate("bm25", [pairs], settings=FEW),
        "test/demo_sts: BM25",
    ),
    "no documents": (
        lambda *_: evaluate("lexical", [empty([])], settings=FEW),
        "test/empty: 0 queries and 0 documents. Expected one",
    ),
    "no queries": (
        lambda *_: evaluate("lexical", [empty(["今天"])], settings=FEW),
        "test/empty: 0 queries and 1 document. Expected one",
    ),
    "unknown tokens": (lambda *_: BM25Evaluator(tokens="words"), "tokens=words: .*Known: characters, jieba"),
    "no jieba": (lambda *_: BM25Evaluator(tokens="jieba"), r"needs jieba. Type: pip install .*\[search\]"),
    **{
        word: (
            lambda *_, word=word: match_losses(typed_job("model=bm25", "dataset=[]", word)),
            f"{word.partition('=')[0]}=.*: expected a {expected}",
        )
        for word, expected in (
            ("model.k1=-1", "number from 0"),
            ("model.b=2", "number from 0"),
            ("model.b=nan", "finite number"),
        )
    },
    "no candidates": (
        lambda ranking, pairs, reader: evaluate(reader, [ranking]),
        "test/demo_ranking: a cross-encoder .* Give candidates",
    ),
    **{
        f"answers {relevant}, candidates {candidates}": (
            lambda *_, relevant=relevant, candidates=candidates: RankingSet(
                "mine", "dev", ["a"], ["b", "c"], relevant, candidates
            ),
            f"dev/mine: .*{message}",
        )
        for relevant, candidates, message in (
            ([{}], None, "query 0 needs a document"),
            ([{0: 0.0}], None, "query 0 needs a document"),
            ([{2: 1.0}], None, "a document that is not there. Expected 0 to 1"),
            ([{0: 1.0}], [np.array([-1])], "a document that is not there"),
            ([{0: 1.0}, {1: 1.0}], None, "1 query, but answers of 2"),
        )
    },
}
"""What cannot be ranked → a call with a ranking, pairs and a cross-encoder; what is named."""


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_ranked_is_refused(what, ranking, pairs, encoders, monkeypatch):
    monkeypatch.setitem(sys.modules, "jieba", None)
    call, message = REFUSED[what]
    with pytest.raises(UserError, match=message):
        call(ranking, pairs, encoders["pairs"])
