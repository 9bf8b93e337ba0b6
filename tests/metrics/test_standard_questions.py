"""Positive pairs among all standard questions of a split, against plain loops over every question and document."""

import numpy as np
import pytest

from juzhen.core.examples import Examples, Kind
from juzhen.core.kinds import main_metric, metric_key, metric_title, speaking
from juzhen.data.rankings import as_standard_questions
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.evaluation import evaluate
from juzhen.evaluation.encoding_plan import first_answers
from juzhen.evaluation.evaluators import CrossEncoderPlan
from juzhen.evaluation.scoring import fitted_thresholds
from juzhen.metrics.ranking import first_answer_numbers

FAQ = {
    "怎么退货": ["东西想退掉", "退货流程是什么", "不想要了怎么办"],
    "多久发货": ["什么时候能寄出", "几天发货", "东西想退掉"],
    "如何修改地址": ["收货地址写错了", "改一下地址", "多久发货"],
    "能开发票吗": ["要发票", "怎么开票"],
    "会员怎么取消": ["关闭会员", "不想续费了"],
}
ROWS = [(standard, variant) for standard, variants in FAQ.items() for variant in variants]


def pairs(rows, *, split="test", first="anchor", **fields):
    names = ("anchor", "positive") if first == "anchor" else ("positive", "anchor")
    texts = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    texts = {name: texts[name] for name in ("anchor", "positive")}
    return Examples.from_texts("faq", split, kind=Kind.POSITIVE_PAIR, texts=texts, **fields)


def by_loop(rows, score):
    """Rank of each row's variant, its score, and that of the nearest standard question that is wrong."""
    corpus = list(dict.fromkeys(standard for standard, _ in rows))
    ranks, own, others = [], [], []
    for _, variant in rows:
        right = {standard for standard, other in rows if variant in (other, standard)}
        best = max(score(variant, standard) for standard in right)
        wrong = [score(variant, standard) for standard in corpus if standard not in right]
        ranks.append(1 + sum(one > best for one in wrong))
        own.append(best)
        others.append(max(wrong))
    return np.array(ranks), own, others


@pytest.fixture(scope="module")
def encoder():
    return SentenceEncoder.load("builtin/mini_zh")


@pytest.fixture(scope="module")
def score(encoder):
    texts = sorted({text for row in ROWS for text in row})
    vectors = encoder.encode(texts)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = dict(zip(texts, vectors @ vectors.T, strict=True))
    return lambda first, second: float(cosines[first][texts.index(second)])


@pytest.mark.parametrize("first", ["anchor", "positive"])
def test_recall_and_mrr_are_over_all_standard_questions_in_either_order_of_columns(encoder, score, first):
    ranks, own, others = by_loop(ROWS, score)
    assert 0 < (ranks == 1).mean() < 1  # neither nothing nor all, or the test would compare little
    found = evaluate(encoder, [pairs(ROWS, first=first)])
    scores = {key.rpartition("/")[2]: score for key, score in found.scores.items()}
    assert scores["recall_at_1"].value == pytest.approx((ranks == 1).mean())
    assert scores["recall_at_10"].value == pytest.approx((ranks <= 10).mean())
    assert scores["mrr"].value == pytest.approx((1 / ranks).mean())
    assert scores["mrr"].count == len(ROWS)
    assert scores["recall_at_1"].low <= scores["recall_at_1"].value <= scores["recall_at_1"].high
    rows = found.rows["test/faq"]
    np.testing.assert_allclose(rows["score"], own, atol=1e-5)
    np.testing.assert_allclose(rows["other"], others, atol=1e-5)
    np.testing.assert_allclose(rows["recall_at_1"], ranks == 1)


def test_what_is_asked_may_be_written_down():
    """Rows of queries and documents are read as they are, though the anchors are fewer."""
    questions = as_standard_questions(pairs(ROWS, symmetric=False))
    assert questions.ranking.queries == [*FAQ]
    assert as_standard_questions(pairs(ROWS)).ranking.corpus == [*FAQ]
    assert len(questions.ranking.corpus) == len({variant for _, variant in ROWS})


def test_of_one_to_one_pairs_the_anchors_are_looked_for_or_answers_which_are_longer():
    rows = [("怎么退货", "东西想退掉"), ("几天发货", "何时寄出")]
    assert as_standard_questions(pairs(rows)).ranking.corpus == ["怎么退货", "几天发货"]
    assert as_standard_questions(pairs(rows)).queries.tolist() == [0, 1]
    answers = [("怎么退货", "收到后七天内在订单页申请"), ("几天发货", "付款后两天之内从仓库发出")]
    assert as_standard_questions(pairs(answers)).ranking.corpus == [answer for _, answer in answers]


def test_equal_scores_are_worth_their_mean_over_all_orders():
    """Every score is the same: of five standard questions one is right, for one variant two are."""
    ranking = as_standard_questions(pairs(ROWS)).ranking
    first = first_answers(ranking, lambda queries, _: np.zeros((len(queries), 5)))
    numbers = first_answer_numbers(first)
    shared = ranking.queries.index("东西想退掉")
    assert numbers["recall_at_1"][0, shared] == pytest.approx(2 / 5)
    others = np.arange(len(ranking.queries)) != shared
    expected = np.mean([1 / rank for rank in range(1, 6)])
    single = [query for query, answers in enumerate(ranking.relevant) if len(answers) == 1]
    assert numbers["recall_at_1"][0, single] == pytest.approx(1 / 5)
    assert numbers["mrr"][0, single] == pytest.approx(expected)
    assert numbers["mrr"][1, single] == pytest.approx(1 / 5)
    assert numbers["mrr"][2, others] == pytest.approx(1)
    # Two of five: the first of them is at rank 1 in 4 of 10 draws, then 3, 2 and 1.
    assert numbers["mrr"][0, shared] == pytest.approx((4 / 1 + 3 / 2 + 2 / 3 + 1 / 4) / 10)


def test_a_split_of_one_standard_question_has_no_number_and_says_why(encoder):
    scores = evaluate(encoder, [pairs(ROWS[:3])]).scores
    assert scores["test/faq/recall_at_1"].value is None
    assert scores["test/faq/recall_at_1"].why == scores["test/faq/ranking_accuracy"].why


def test_the_threshold_is_between_positives_and_their_nearest_others(encoder, score):
    dev, test = pairs(ROWS, split="dev"), pairs(ROWS[:8], split="test")
    rows = evaluate(encoder, [dev, test]).rows
    found = fitted_thresholds(rows)["faq"]
    _, own, others = by_loop(ROWS, score)
    right = max(
        np.mean([*(one >= limit for one in own), *(one < limit for one in others)])
        for limit in [*own, *others, np.inf]
    )
    reached = np.mean([*(one >= found.value for one in own), *(one < found.value for one in others)])
    assert reached == pytest.approx(right)
    assert (found.rows, found.judged_on) == (2 * len(ROWS), "test")
    _, own, others = by_loop(ROWS[:8], score)
    judged = np.mean([*(one >= found.value for one in own), *(one < found.value for one in others)])
    assert found.accuracy == pytest.approx(judged)


def test_a_cross_encoder_ranks_a_few_and_its_set_is_spoken_for_by_that():
    assert CrossEncoderPlan([pairs(ROWS)]).standard_questions == []
    assert main_metric(Kind.POSITIVE_PAIR, [Kind.RETRIEVAL]) == "ranking_accuracy"
    assert main_metric(Kind.POSITIVE_PAIR) == "recall_at_1"
    assert speaking(["ranking_loss", "ranking_accuracy"]) == ["ranking_accuracy"]
    assert speaking(["ndcg_at_10", "recall_at_1"]) == ["ndcg_at_10"]
    assert (metric_title("mrr"), metric_key("MRR")) == ("MRR", "mrr")
