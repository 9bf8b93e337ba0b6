"""Measures of rankings equal those of trec_eval, with cut-offs beyond the corpus, and over all orders of ties."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from juzhen.core.kinds import RANKINGS, metric_key, metric_title
from juzhen.data.rankings import RankingSet
from juzhen.evaluation.encoding_plan import ranked_lists
from juzhen.metrics.ranking import query_numbers

OFFICIAL = {"ndcg": "ndcg_cut_{}", "recall": "recall_{}", "map": "map_cut_{}", "mrr": "recip_rank"}
OFFICIAL |= {"precision": "P_{}", "hit_rate": "success_{}"}


def trec_eval(scores, relevant, measures):
    """The same from trec_eval's own code, by names of documents of which the last comes first where scores tie."""
    pytrec_eval = pytest.importorskip("pytrec_eval")
    names = [f"{len(scores[0]) - number:06d}" for number in range(len(scores[0]))]
    judged = {
        str(query): {names[one]: int(gain) for one, gain in known.items()}
        for query, known in enumerate(relevant)
    }
    found = {}
    for measure in measures:
        kind, _, cutoff = measure.partition("_at_")
        official = OFFICIAL[kind].format(cutoff)
        run = {str(query): dict(zip(names, row.tolist(), strict=True)) for query, row in enumerate(scores)}
        if kind == "mrr":  # it knows no cut-off: it is given the first documents alone
            run = {
                query: dict(sorted(row.items(), key=lambda one: (-one[1], -int(one[0])))[: int(cutoff)])
                for query, row in run.items()
            }
        results = pytrec_eval.RelevanceEvaluator(
            judged,
            {official if kind == "mrr" else ".".join(official.rsplit("_", 1))},
        ).evaluate(run)
        found[measure] = [results[str(query)][official] for query in range(len(scores))]
    return found


MEASURES = [*RANKINGS, "ndcg_at_3", "mrr_at_2", "recall_at_1", "map_at_5", "map_at_1000"]
MEASURES += ["precision_at_3", "precision_at_50", "hit_rate_at_1", "hit_rate_at_5"]


def judged_by_chance(draw, queries, documents):
    gains = np.where(draw.random((queries, documents)) < 0.3, draw.integers(1, 4, (queries, documents)), 0)
    gains[:, 0] = 1
    return [{int(one): float(row[one]) for one in np.flatnonzero(row)} for row in gains]


def our_numbers(scores, relevant):
    one = RankingSet("some", "dev", ["q"] * len(scores), ["d"] * len(scores[0]), relevant)
    return query_numbers(ranked_lists(one, lambda some, others: scores[some], depth=1000), relevant, MEASURES)


@settings(max_examples=60)
@given(st.integers(1, 40), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_measures_are_those_of_trec_eval(documents, queries, seed):
    draw = np.random.default_rng(seed)
    scores = draw.permuted(np.tile(np.arange(documents, dtype=np.float32), (queries, 1)), axis=1)
    relevant = judged_by_chance(draw, queries, documents)
    found = our_numbers(scores, relevant)
    for measure, expected in trec_eval(scores, relevant, MEASURES).items():
        np.testing.assert_allclose(found[measure], expected, atol=1e-6, err_msg=measure)


@settings(max_examples=20)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_of_tied_documents_they_are_the_mean_over_all_orders(documents, levels, seed):
    draw = np.random.default_rng(seed)
    scores = draw.integers(0, levels, (3, documents)).astype(np.float32)
    relevant = judged_by_chance(draw, 3, documents)
    found = our_numbers(scores, relevant)
    orders = [scores + np.float32(0.1) * np.array(order) for order in permutations(range(documents))]
    theirs = [trec_eval(broken, relevant, MEASURES) for broken in orders]
    for measure in MEASURES:
        expected = np.mean([numbers[measure] for numbers in theirs], axis=0)
        np.testing.assert_allclose(found[measure], expected, atol=1e-6, err_msg=measure)


def test_no_query_finds_its_own_text():
    one = RankingSet("some", "dev", ["q"], ["q", "a", "b"], [{2: 1.0}], own=np.array([0]))
    assert ranked_lists(
        one, lambda some, others: np.array([[9.0, 1.0, 2.0]]), depth=2
    ).documents.tolist() == [[2, 1]]
    assert ranked_lists(
        one, lambda some, others: np.array([[9.0, 1.0, 2.0]]), depth=9
    ).documents.tolist() == [[2, 1, -1]]


def test_a_measure_may_be_spelled_as_ir_measures_does():
    lists, relevant = np.array([[2, 0, 1]]), [{0: 1.0}]
    spellings = ["nDCG@10", "RR@10", "R@2", "AP@3", "P@2", "Success@1", "mrr@10"]
    found = query_numbers(lists, relevant, spellings)
    keys = [
        "ndcg_at_10",
        "mrr_at_10",
        "recall_at_2",
        "map_at_3",
        "precision_at_2",
        "hit_rate_at_1",
        "mrr_at_10",
    ]
    assert [metric_key(name) for name in spellings] == keys
    assert [metric_title(key) for key in keys] == [*spellings[:6], "RR@10"]
    expected = query_numbers(lists, relevant, keys)
    assert {metric_key(name): values for name, values in found.items()} == expected
