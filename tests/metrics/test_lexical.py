import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from juzhen.evaluation import evaluate
from juzhen.evaluation.evaluators import LexicalEvaluator
from juzhen.evaluation.settings import EvaluationSettings
from juzhen.metrics.lexical import METHODS, lexical_scores, terms

pairs = st.lists(
    st.tuples(*[st.text(alphabet="今天气很好不AB ", min_size=1, max_size=8)] * 2), min_size=1, max_size=10
)


def tf_idf_cosine(texts_a: list[str], texts_b: list[str]) -> list[float]:
    """The definition in plain loops."""

    def counts(text: str) -> dict[str, int]:
        text = text.lower()
        terms = [*text, *(text[place : place + 2] for place in range(len(text) - 1))]
        return {term: terms.count(term) for term in terms}

    documents = [counts(text) for text in [*texts_a, *texts_b]]

    def weights(found: dict[str, int]) -> dict[str, float]:
        frequency = {term: sum(term in document for document in documents) for term in found}
        idf = {term: 1 + np.log((1 + len(documents)) / (1 + frequency[term])) for term in found}
        return {term: (1 + np.log(count)) * idf[term] for term, count in found.items()}

    def cosine(a: dict[str, float], b: dict[str, float]) -> float:
        dot = sum(weight * b.get(term, 0) for term, weight in a.items())
        return dot / np.sqrt(sum(w * w for w in a.values()) * sum(w * w for w in b.values()))

    return [cosine(weights(counts(a)), weights(counts(b))) for a, b in zip(texts_a, texts_b, strict=True)]


def test_equals_the_definition():
    texts_a = ["今天天气很好", "怎么办理信用卡", "北京到上海", "ABC是什么"]
    texts_b = ["今天天气不错", "信用卡怎么办理", "上海到北京", "什么是abc"]
    scores = lexical_scores(texts_a, texts_b)
    assert scores.dtype == np.float32
    assert scores == pytest.approx(tf_idf_cosine(texts_a, texts_b), abs=1e-6)
    assert 0 < min(scores) < max(scores) < 1


def test_characters_that_every_row_has_count_less():
    texts_a = ["怎么还款", "怎么还款", "怎么退货", "怎么登录"]
    texts_b = ["怎么开户", "如何还款", "怎么付钱", "怎么上网"]
    shared_filler, shared_content, *_ = lexical_scores(texts_a, texts_b)
    assert shared_filler < shared_content


@given(pairs)
def test_is_symmetric_and_within_zero_and_one(rows):
    texts_a, texts_b = [list(column) for column in zip(*rows, strict=True)]
    scores = lexical_scores(texts_a, texts_b)
    assert scores.shape == (len(rows),)
    assert np.all((scores >= 0) & (scores <= 1))
    np.testing.assert_array_equal(scores, lexical_scores(texts_b, texts_a))
    same = np.array([a == b for a, b in rows])
    assert np.all(scores[same] == 1)


def overlap_of(method: str, text_a: str, text_b: str) -> float:
    """The definition, on Python's sets."""
    first, second = set(terms(text_a)), set(terms(text_b))
    of = {"jaccard": len(first | second), "dice": (len(first) + len(second)) / 2}[method]
    return len(first & second) / of if of else 0.0


@pytest.mark.parametrize("method", ["jaccard", "dice"])
@settings(max_examples=20)
@given(rows=pairs)
def test_word_overlap_equals_that_of_sets(method, rows):
    texts_a, texts_b = [list(column) for column in zip(*rows, strict=True)]
    scores = lexical_scores(texts_a, texts_b, method=method)
    assert scores.dtype == np.float32
    assert scores.tolist() == pytest.approx([overlap_of(method, *row) for row in rows])
    alone = [lexical_scores([a], [b], method=method).item() for a, b in rows]
    np.testing.assert_array_equal(scores, np.float32(alone))  # other rows do not count, as they do for TF-IDF


@pytest.mark.slow
def test_word_overlap_by_words_of_jieba():
    pytest.importorskip("jieba")
    texts = ["怎么办理信用卡"], ["信用卡怎么办理"]
    assert lexical_scores(*texts, method="jaccard", tokens="jieba").item() == 1  # the words in another order
    assert lexical_scores(*texts, method="jaccard").item() < 1  # 理信 and 卡怎 are of one text each
    assert lexical_scores(["？！"], ["？！"], method="dice").item() == 0


@pytest.mark.slow
def test_word_overlap_scores_pairs_and_rankings():
    how = EvaluationSettings()
    how.evaluation.bootstrap_samples, how.evaluation.splits = 0, ["test"]
    found = {
        method: evaluate(LexicalEvaluator(method=method), ["demo_sts", "demo_retrieval"], settings=how).scores
        for method in METHODS
    }
    for key in ("test/demo_sts/spearman", "test/demo_retrieval/ndcg_at_10"):
        tf_idf, jaccard, dice = (found[method][key].value for method in METHODS)
        assert 0.2 < jaccard < 1
        assert jaccard == pytest.approx(dice)  # one order
        assert jaccard != pytest.approx(tf_idf)
    _, jaccard, dice = (found[method]["test/demo_sts/pearson"].value for method in METHODS)
    assert jaccard != pytest.approx(dice)
