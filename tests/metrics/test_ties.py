"""Documents of equal scores: measures are the mean over all their orders, with the worst and the best beside it."""

from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pytest

from juzhen.core.kinds import RANKINGS
from juzhen.core.result import Score
from juzhen.data.rankings import RankingSet
from juzhen.encoders.search import ApproximateIndex, exact_search, recall
from juzhen.evaluation.encoding_plan import ranked_lists
from juzhen.metrics import ranking
from juzhen.metrics.ranking import order_numbers, query_numbers
from launch.console import tie_lines

MEASURES = [
    "ndcg_at_1",
    "ndcg_at_2",
    "precision_at_3",
    "hit_rate_at_2",
    "ndcg_at_4",
    "mrr_at_1",
    "mrr_at_3",
    "recall_at_2",
    "map_at_2",
    "map_at_5",
    "map_at_10",
]


@pytest.mark.parametrize("answer", [0, 7, 19])
def test_twenty_equal_documents_score_the_same_wherever_the_answer_stands(answer):
    one = RankingSet("some", "dev", ["q"], ["d"] * 20, [{answer: 1.0}])
    lists = ranked_lists(one, lambda some, others: np.ones((1, 20)), depth=100)
    found = query_numbers(lists, one.judged, ["ndcg_at_10", "mrr_at_10", "recall_at_10", "map_at_100"])
    assert {name: round(float(values[0]), 4) for name, values in found.items()} == {
        "ndcg_at_10": 0.2272,
        "mrr_at_10": 0.1464,
        "recall_at_10": 0.5,
        "map_at_100": 0.1799,
    }


def test_an_answer_and_a_wrong_document_that_no_sign_tells_apart():
    found = query_numbers(
        ranked_lists(
            RankingSet("some", "dev", ["q"], ["a", "b"], [{0: 1.0}]), lambda *_: np.zeros((1, 2)), depth=10
        ),
        [{0: 1.0}],
        ["ndcg_at_10", "mrr_at_10", "map_at_100"],
    )
    assert [round(float(values[0]), 4) for values in found.values()] == [0.8155, 0.75, 0.75]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("depth", [1, 3, 5, 7])
@pytest.mark.sampled(2)
def test_the_mean_over_all_orders_of_equals(seed, depth):
    draw = np.random.default_rng(seed)
    scores = draw.integers(0, 2 + seed % 2, 7).astype(np.float32)
    relevant = {int(one): float(draw.integers(1, 4)) for one in draw.choice(7, 3, replace=False)}
    measures = [name for name in MEASURES if int(name.rpartition("_")[2]) <= depth or depth == 7]
    one = RankingSet("some", "dev", ["q"], ["d"] * 7, [relevant])
    found = order_numbers(ranked_lists(one, lambda *_: scores[None], depth=depth), [relevant], measures)
    orders = {
        tuple(sorted(range(7), key=lambda document: (-scores[document], order[document])))
        for order in permutations(range(7))
    }
    every = query_numbers(np.array(sorted(orders)), [relevant] * len(orders), measures)
    for name in measures:
        expected = every[name].mean(), every[name].min(), every[name].max()
        np.testing.assert_allclose(found[name][:, 0], expected, atol=1e-12, err_msg=name)


def test_queries_in_parts_have_the_numbers_of_each_alone(monkeypatch):
    draw = np.random.default_rng(8)
    scores = draw.integers(0, 3, size=(9, 12)).astype(np.float32)
    relevant = [{int(one): 1.0 for one in draw.choice(12, 4, replace=False)} for _ in scores]
    several = RankingSet("some", "dev", [f"q{row}" for row in range(9)], ["d"] * 12, relevant)
    lists = ranked_lists(several, lambda queries, _: scores[queries], depth=5)
    assert lists.answers.shape[1] > 5  # answers beyond the lists, with the score of their last document
    alone = [
        order_numbers(
            ranked_lists(
                RankingSet("some", "dev", ["q"], ["d"] * 12, [relevant[row]]),
                lambda *_, row=row: scores[[row]],
                depth=5,
            ),
            [relevant[row]],
            MEASURES,
        )
        for row in range(9)
    ]
    monkeypatch.setattr(ranking, "CELLS_AT_ONCE", 20)
    found = order_numbers(lists, relevant, MEASURES)
    for name in MEASURES:
        np.testing.assert_allclose(
            found[name], np.hstack([one[name] for one in alone]), atol=1e-12, err_msg=name
        )


def test_answers_that_are_not_in_the_corpus_stay_in_the_ideal():
    one = RankingSet("some", "dev", ["q", "r"], ["a", "b"], [{0: 1.0}, {}], unreachable=[[2.0], [1.0]])
    lists = ranked_lists(one, lambda some, others: np.array([[2.0, 1.0], [1.0, 2.0]])[some], depth=10)
    found = query_numbers(lists, one.judged, ["ndcg_at_10", "recall_at_10"])
    assert found["recall_at_10"].tolist() == [0.5, 0.0]
    np.testing.assert_allclose(found["ndcg_at_10"], [1 / (2 + 1 / np.log2(3)), 0.0])


def test_equal_texts_come_in_the_order_of_the_corpus():
    draw = np.random.default_rng(0)
    vector, query = draw.normal(size=(2, 1, 257)).astype(np.float32)
    corpus = np.repeat(vector, 1003, axis=0)
    places, scores = exact_search(query, corpus, 3)
    assert places.tolist() == [[0, 1, 2]]
    assert len(np.unique(scores)) == 1


def test_an_index_that_finds_one_of_equal_documents_has_found_as_good_a_one():
    pytest.importorskip("faiss")
    draw = np.random.default_rng(0)
    half = draw.normal(size=(60, 16)).astype(np.float32)
    corpus, queries = np.concatenate([half, half]), draw.normal(size=(20, 16)).astype(np.float32)
    exact = exact_search(queries, corpus, 5)[0]
    assert (
        recall(queries, corpus, found=ApproximateIndex(corpus, "flat").search(queries, 5)[0], exact=exact)
        == 1.0
    )
    others = exact_search(queries, corpus[::-1], 5)[0]
    assert recall(queries, corpus, found=119 - others, exact=exact) == 1.0
    assert recall(queries, corpus, found=np.zeros_like(exact), exact=exact) < 0.5


def test_without_ties_nothing_is_added():
    scores = np.random.default_rng(0).permutation(50).astype(np.float32)[None]
    one = RankingSet("some", "dev", ["q"], ["d"] * 50, [{3: 1.0, 9: 2.0}])
    found = order_numbers(ranked_lists(one, lambda *_: scores, depth=100), one.judged, list(RANKINGS))
    assert all(len(np.unique(values)) == 1 for values in found.values())


def test_a_run_says_what_the_order_of_equals_would_make_of_its_score():
    result = SimpleNamespace(
        scores={
            "dev/faq/ndcg_at_10": Score(0.2272, worst=0.0, best=1.0),
            "dev/other/ndcg_at_10": Score(0.5, worst=0.499, best=0.501),
        },
        data={"dev/faq": {"kind": "retrieval"}, "dev/other": {"kind": "retrieval"}},
    )
    (line,) = tie_lines(result)
    assert line.startswith("dev/faq ")
    assert "22.7 on average" in line
    assert "0.0 in the worst and 100.0 in the best" in line
