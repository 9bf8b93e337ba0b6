"""Reasons, what is chosen, thresholds: each rule on a few candidates, and properties over random ones."""

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_candidates import Table

from juzhen.core.examples import Examples, Kind
from juzhen.data.leaks.matching import letters_only, normalize
from juzhen.data.rankings import RankingSet
from juzhen.mining import MiningOptions
from juzhen.mining.candidates import Pool
from juzhen.mining.filters import COUNTS, REASONS, Known, Miner, Reason, _letters, _places, chosen, refused
from juzhen.mining.negatives import MiningResult, fit_false_negatives

CORPUS = ["答案一", "答案 二！", "同组", "请问", "别的", "评测", "答案一？", "远", "更远", "最远"]


def ranking(**changed):
    """The first query has two answers, and shares the first of them with the second query."""
    fields = {"queries": ["请问", "问二"], "relevant": [{0: 1.0, 1: 1.0}, {0: 1.0, 2: 1.0}]}
    fields |= {"irrelevant": [np.array([4, 7]), np.array([], dtype=int)]} | changed
    return RankingSet("some", "train", corpus=CORPUS, **fields)


def counted(table):
    return json.loads(table.schema.metadata[COUNTS])


def mined(ranking, scores, options, *, evaluation=(), judge=None):
    miner = Miner(ranking, [Table(scores)], Known(ranking, evaluation), options, judge)
    return miner.shard(np.arange(len(ranking.queries)), lambda count: None)


def reasons(table, query=0):
    rows = [row for row in table.to_pylist() if row["query"] == query]
    return {row["document"]: row["reason"] for row in rows}


SCORES = [0.9, 0.8, 0.1, 1.0, 0.79, 0.2, 0.95, 0.5, 0.4, 0.3]
PLAIN = {"range_max": 10, "num_negatives": 2, "hard_share": 1.0}


NEIGHBOURS = "ΑΣσaA e\u0301\u1100\u1161가ｶﾞ訂單订 　？_-\n\r\u0085\u2028\u200b\u200dﷺ１"
"""Characters that change with those next to them, and what ends a line."""


@settings(deadline=None, max_examples=200)
@given(st.lists(st.text(st.sampled_from(NEIGHBOURS) | st.characters())))
def test_texts_are_reduced_to_letters_together_as_each_by_itself(texts):
    assert _letters(texts) == [letters_only(normalize(text)) for text in texts]


def test_the_place_of_a_positive_is_that_in_the_list_of_all():
    """Queries of several positives, in no order; others have none."""
    relevant = [{7: 1.0, 2: 1.0}, {9: 1.0}, {5: 1.0, 0: 1.0, 4: 1.0}]
    known = Known(ranking(queries=["请问", "问二", "问三"], relevant=relevant, irrelevant=None))
    listed = [(query, document) for query, documents in enumerate(relevant) for document in documents]
    asked = [(query, document) for query in range(3) for document in range(len(CORPUS))]
    expected = [listed.index(one) if one in listed else -1 for one in asked]
    assert known.place(*np.array(asked).T).tolist() == expected


def test_every_candidate_has_its_reason():
    evaluation = Examples.from_texts("bq", "test", kind=Kind.SENTENCE, texts={"text": ["评 测。", "没有"]})
    table = mined(ranking(), [SCORES, SCORES], MiningOptions(**PLAIN), evaluation=[evaluation])
    expected = {0: "is_positive", 1: "is_positive", 2: "positive_cluster", 3: "near_copy", 6: "near_copy"}
    expected |= {5: "evaluation_row", 4: "above_share", 7: "kept", 8: "kept", 9: "kept"}
    assert reasons(table) == expected
    assert [row["document"] for row in table.to_pylist() if row["query"] == 0 and row["chosen"]] == [7, 8]
    labels = {row["document"]: row["label"] for row in table.to_pylist() if row["query"] == 0}
    assert labels == {**dict.fromkeys(range(10)), 0: 1, 1: 1, 2: 1, 6: 1, 4: 0, 7: 0}


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ({"relative_margin": None}, {}),
        ({"relative_margin": 0.4}, {4: "above_share", 7: "above_share"}),
        ({"relative_margin": None, "absolute_margin": 0.35}, {4: "above_margin", 7: "above_margin"}),
        ({"relative_margin": None, "max_score": 0.4}, dict.fromkeys((4, 7, 8), "above_threshold")),
        ({"relative_margin": None, "min_score": 0.4}, dict.fromkeys((5, 9), "below_min_score")),
        ({"relative_margin": None, "range_min": 6}, dict.fromkeys((4, 7), "outside_window")),
    ],
    ids=lambda value: " ".join(map(str, value)),
)
def test_rules_about_scores(options, refused):
    found = reasons(mined(ranking(), [SCORES, SCORES], MiningOptions(**PLAIN | options)))
    expected = dict.fromkeys((4, 5, 7, 8, 9), "kept") | refused
    assert {one: found[one] for one in expected} == expected


SIZES = st.sampled_from(
    [-0.5, 0.0, 0.25, 0.5, 0.75, 1.0]
)  # exact in float32, and equal to bounds now and then
MARGINS = st.sampled_from([None, 0.0, 0.5])


@given(
    st.lists(st.tuples(st.sampled_from([0, 7, 8]), st.integers(0, 3), SIZES, SIZES), min_size=1),
    st.integers(0, 2),
    st.tuples(MARGINS, MARGINS, st.none() | SIZES, st.none() | SIZES),
    st.booleans(),
)
def test_the_first_rule_that_applies_is_the_reason(rows, range_min, numbers, by_judge):
    document, rank, score, lowest = (np.array(part) for part in zip(*rows, strict=True))
    share, margin, most, least = numbers
    options = MiningOptions(
        range_min=range_min, relative_margin=share, absolute_margin=margin, max_score=most, min_score=least
    )
    pool = Pool(np.zeros(len(rows), dtype=np.int64), document, rank, score, document)
    found = refused(pool, Known(ranking()), lowest, options, by_judge=by_judge)
    for (number, place, value, bar), code in zip(rows, found.tolist(), strict=True):
        rules = {
            Reason.IS_POSITIVE: number == 0,
            Reason.OUTSIDE_WINDOW: 0 < place <= range_min,
            Reason.ABOVE_SHARE: share is not None and value > bar - share * abs(bar),
            Reason.ABOVE_MARGIN: margin is not None and value > bar - margin,
            Reason.ABOVE_THRESHOLD: most is not None and not by_judge and value >= most,
            Reason.BELOW_MIN_SCORE: least is not None and place > 0 and value < least,
            Reason.KEPT: True,
        }
        assert REASONS[code] == next(reason for reason, applies in rules.items() if applies)


def test_a_judge_scores_what_is_left_and_what_is_known():
    asked = []

    def judge(queries, documents):
        asked.extend(zip(queries, documents, strict=True))
        return np.array([3.0 if one == "远" else -3.0 for one in documents])

    options = MiningOptions(**PLAIN | {"relative_margin": None, "max_score": 0.0})
    table = mined(ranking(), [SCORES, SCORES], options, judge=judge)
    assert reasons(table)[7] == "judged"
    # Of the first query: what may be a negative, and its answers, which tell how good the judge is.
    own = {document for query, document in asked if query == "请问"}
    assert own == {CORPUS[one] for one in (0, 1, 2, 4, 5, 6, 7, 8, 9)}


def test_known_labels_measure_the_rules_that_know_none():
    """Each answer is compared with the other one of its query, as if it were a candidate like others."""
    counts = counted(mined(ranking(), [SCORES, SCORES], MiningOptions(**PLAIN)))
    # First query: answers 0, 1, 2 (joined), 6 (a copy), others 4, 7. Above 95 % of 0.8 are 0, 6 and, wrongly, 4;
    # not above are 1, whose limit is 95 % of 0.9, 2 and 7. Second: answers 0, 1, 2, 3, 6, of which 2 is not above.
    assert counts["known"] == [11, 9, 4, 3]
    one_answer = ranking(relevant=[{0: 1.0}, {2: 1.0}])
    assert counted(mined(one_answer, [SCORES] * 2, MiningOptions(**PLAIN)))["known"] == [0] * 4


def rows_of(set_, table, options, tmp_path):
    pq.write_table(table, tmp_path / "0.parquet")
    return list(MiningResult(set_, options, [tmp_path / "0.parquet"], {}, {}).rows())


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("drop", [("答案一", "远", "更远"), ("答案 二！", "远", "更远")]),
        ("relabel", [("答案一", "远", "更远"), ("答案 二！", "远", "更远"), ("别的", "远", "更远")]),
        ("mask", [("答案一", "答案一", "远"), ("答案 二！", "答案 二！", "远")]),
    ],
)
def test_what_becomes_of_suspected_answers(how, expected, tmp_path):
    options = MiningOptions(**PLAIN | {"false_negatives": how})
    table = mined(ranking(), [SCORES, SCORES], options)
    rows = [tuple(row[1:]) for row in rows_of(ranking(), table, options, tmp_path) if row[0] == "请问"]
    assert rows == expected


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**16),
    margin=st.sampled_from([None, 0.5, 0.05]),
    hard_share=st.sampled_from([0.0, 0.5, 1.0]),
    temperature=st.sampled_from([None, 0.1]),
    how=st.sampled_from(["drop", "relabel", "mask"]),
    range_min=st.integers(0, 3),
)
@pytest.mark.slow
def test_no_answer_and_nothing_refused_is_a_negative(
    tmp_path_factory, seed, margin, hard_share, temperature, how, range_min
):
    draw = np.random.default_rng(seed)
    corpus = [f"文{number}" for number in range(30)]
    answers = [draw.choice(30, draw.integers(1, 4), replace=False) for _ in range(7)]
    relevant = [dict.fromkeys(one.tolist(), 1.0) for one in answers]
    set_ = RankingSet("some", "train", [f"问{n}" for n in range(7)], corpus, relevant)
    drawn = {"hard_share": hard_share, "temperature": temperature, "num_negatives": 4, "seed": seed}
    options = MiningOptions(
        range_max=12, relative_margin=margin, false_negatives=how, range_min=range_min, **drawn
    )
    scores = draw.normal(size=(7, 30))
    table = mined(set_, scores, options)
    refused = {(row["query"], row["document"]) for row in table.to_pylist() if not row["kept"]}
    places = {text: number for number, text in enumerate(corpus)}
    for query, positive, *negatives in rows_of(set_, table, options, tmp_path_factory.mktemp("rows")):
        number = int(query[1:])
        real = [places[one] for one in negatives if how != "mask" or one != positive]
        assert len(negatives) == 4
        assert len(set(real)) == len(real)
        assert not set(real) & {*answers[number].tolist()}
        assert not {(number, one) for one in real} & refused
        lowest = scores[number, answers[number]].min()
        assert margin is None or all(
            scores[number, one] <= lowest - margin * abs(lowest) + 1e-6 for one in real
        )
    again = mined(set_, scores, options)
    assert again.equals(table, check_metadata=True)


def test_the_best_are_chosen_or_drawn_by_their_score():
    set_ = RankingSet("some", "train", ["问"], [f"文{n}" for n in range(40)], [{39: 1.0}])
    scores = np.linspace(1, 0.6, 40)[None]
    taken = {}
    for temperature in (None, 0.01, 100.0):
        options = MiningOptions(
            range_max=30,
            relative_margin=None,
            hard_share=1.0,
            temperature=temperature,
            num_negatives=5,
            seed=3,
        )
        table = mined(set_, scores, options).to_pylist()
        taken[temperature] = [row["document"] for row in table if row["chosen"]]
    assert taken[None] == [0, 1, 2, 3, 4]
    assert max(taken[0.01]) < max(taken[100.0])
    assert len(set(taken[100.0])) == 5


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), st.booleans()), min_size=1, max_size=9))
def test_the_place_of_a_candidate_is_that_among_the_usable_ones_of_its_query(rows):
    rows.sort(key=lambda row: row[0])
    places = _places(*(np.array(part) for part in zip(*rows, strict=True)))
    for number, (query, wish, usable) in enumerate(rows):
        before = [place for place, row in enumerate(rows) if row[0] == query and row[2]]
        expected = sorted(before, key=lambda place: rows[place][1]).index(number) if usable else 2**63 - 1
        assert places[number] == expected, wish


CANDIDATES = st.tuples(
    st.sampled_from([3, 4, 6]),  # query
    st.booleans(),  # retrieved, not drawn
    st.sampled_from([0.0, 0.5, 0.9]),
    st.sampled_from([Reason.KEPT, Reason.KEPT, Reason.IS_POSITIVE, Reason.ABOVE_SHARE]),
    st.booleans(),  # stays
)


@given(
    st.lists(CANDIDATES, max_size=12),
    st.integers(1, 4),
    st.sampled_from([0.0, 0.3, 0.5, 1.0]),
    st.sampled_from(["drop", "mask"]),
    st.sampled_from([None, 1e-6]),
)
def test_the_best_usable_ones_of_each_query_are_chosen_and_the_other_kind_fills_up(
    rows, most, hard_share, false_negatives, temperature
):
    rows.sort(key=lambda row: (row[0], not row[1], -row[2]))
    query, is_hard, score, reason, staying = (
        (np.array(part) for part in zip(*rows, strict=True)) if rows else [np.empty(0)] * 5
    )
    pool = Pool(query, np.arange(len(rows)), is_hard * 1, score, query)
    options = MiningOptions(
        num_negatives=most, hard_share=hard_share, false_negatives=false_negatives, temperature=temperature
    )
    codes = np.array([REASONS.index(one) for one in reason], dtype=np.int8)
    found = chosen(pool, codes, options, staying=is_hard.astype(bool) & staying.astype(bool))
    usable = {Reason.KEPT, *[Reason.ABOVE_SHARE] * (false_negatives == "mask")}
    for each in {*query.tolist()}:
        mine = [place for place, row in enumerate(rows) if row[0] == each and row[3] in usable]
        hard, random = [one for one in mine if rows[one][1]], [one for one in mine if not rows[one][1]]
        wanted = min(int(most * hard_share + 0.5), len(hard))
        num_random = min(most - wanted, len(random))
        taken = {place for place in np.flatnonzero(found).tolist() if rows[place][0] == each}
        assert taken <= {*mine}
        assert len(taken & {*random}) == num_random
        wish = sorted((not rows[one][4], -rows[one][2]) for one in hard)[: most - num_random]
        assert sorted((not rows[one][4], -rows[one][2]) for one in taken & {*hard}) == wish


def test_negatives_are_drawn_by_a_softmax_of_their_scores():
    count, weights = 20_000, np.array([1.0, 1.0, 4.0])
    query, score = np.repeat(np.arange(count), 3), np.tile(np.log(weights) / 2, count)
    pool = Pool(query, query, np.ones_like(query), score, query)
    options = MiningOptions(num_negatives=1, hard_share=1.0, temperature=0.5)
    shares = chosen(pool, np.zeros(len(query), dtype=np.int8), options).reshape(-1, 3).mean(axis=0)
    assert shares == pytest.approx(weights / 6, abs=0.015)  # four deviations


def test_half_are_hard_and_the_rest_fills_up():
    set_ = RankingSet("some", "train", ["问"], [f"文{n}" for n in range(60)], [{59: 1.0}])
    scores = np.linspace(1, 0.6, 60)[None]
    ranks = {}
    for range_min in (0, 9):  # in the second case a single hard one is in the window
        options = MiningOptions(range_max=10, relative_margin=None, num_negatives=6, range_min=range_min)
        rows = mined(set_, scores, options).to_pylist()
        ranks[range_min] = [row["rank"] for row in rows if row["chosen"]]
    assert ranks == {0: [1, 2, 3, None, None, None], 9: [10, None, None, None, None, None]}


def test_a_threshold_lets_the_stated_reference_answers_through():
    draw = np.random.default_rng(0)
    scores = np.concatenate([draw.normal(1, 1, 500), draw.normal(-1, 1, 300)])
    labels = np.repeat([1, 0], [500, 300])
    fitted = fit_false_negatives(scores, labels, rate=0.05)
    assert (fitted.positives, fitted.negatives) == (500, 300)
    assert np.mean(scores[:500] < fitted.value) == fitted.kept_positives == 0.05
    assert np.mean(scores[500:] >= fitted.value) == fitted.refused_negatives
    ties = fit_false_negatives(np.ones(4), np.array([1, 1, 0, 0]), rate=0.5)
    assert ties.kept_positives == 0  # they are refused


def test_rows_may_be_compared_with_their_own_positive(tmp_path):
    """The first answer scores 0.9 and the second 0.5: 0.79 and 0.5 may stand in the row of the first alone."""
    scores = [[0.9, 0.5, 0.1, 1.0, 0.79, 0.2, 0.95, 0.49, 0.4, 0.3], SCORES]
    options = MiningOptions(**PLAIN | {"num_negatives": 3}, relative_margin=0.05)
    set_ = ranking(irrelevant=None)
    for reference, expected in {
        "lowest": {"答案一": ["评测", "更远", "最远"], "答案 二！": ["评测", "更远", "最远"]},
        "own": {"答案一": ["别的", "远", "更远"], "答案 二！": ["更远", "最远", "评测"]},
    }.items():
        own = replace(options, positive_reference=reference)
        table = mined(set_, scores, own)
        found = [row for row in rows_of(set_, table, own, tmp_path) if row[0] == "请问"]
        assert {row[1]: sorted(row[2:]) for row in found} == {
            positive: sorted(texts) for positive, texts in expected.items()
        }
        assert ("chosen_for" in table.column_names) is (reference == "own")
    shares = {row["document"]: row for row in table.to_pylist() if row["query"] == 0}
    assert (shares[4]["reason"], shares[4]["chosen_for"], shares[8]["chosen_for"]) == ("kept", [0], [0, 1])
    assert shares[4]["positive_score"] == pytest.approx(0.5)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([None, 0.4, 0.05, 0.0]),
    st.sampled_from([None, 0.3]),
    st.sampled_from([None, 0.5]),
    st.sampled_from(["drop", "mask"]),
)
@pytest.mark.slow
def test_no_negative_of_a_row_is_refused_by_its_own_positive(
    tmp_path_factory, seed, relative, margin, max_score, how
):
    """And each row for which there are enough is there, with those that a plain loop finds."""
    draw = np.random.default_rng(seed)
    relevant = [{int(one): 1.0 for one in draw.permutation(24)[: draw.integers(1, 5)]} for _ in range(5)]
    set_ = RankingSet(
        "some", "train", [f"问{n}" for n in range(5)], [f"文{n}号" for n in range(24)], relevant
    )
    scores = draw.normal(size=(5, 24)).astype(np.float32)
    rules = {
        "relative_margin": relative,
        "absolute_margin": margin,
        "max_score": max_score,
        "false_negatives": how,
    }
    options = MiningOptions(range_max=24, num_negatives=4, hard_share=1.0, positive_reference="own", **rules)
    known = Known(set_)
    table = mined(set_, scores, options)
    expected = []
    for query, answers in enumerate(relevant):
        for positive in answers:
            bar = scores[query, positive]
            usable = []
            for document in np.argsort(-scores[query]).tolist():
                label = known.labels(np.array([query]), np.array([document]))[0]
                score, refused = scores[query, document], False
                refused |= relative is not None and score > bar - np.float32(relative) * abs(bar)
                refused |= margin is not None and score > bar - np.float32(margin)
                refused |= max_score is not None and score >= max_score
                if label != 1 and (how == "mask" or not refused):
                    usable.append(positive if refused else document)
            if len(usable) >= 4:
                texts = [f"文{one}号" for one in usable[:4]]
                expected.append([f"问{query}", f"文{positive}号", *texts])
    found = list(rows_of(set_, table, options, tmp_path_factory.mktemp("rows")))
    assert sorted(found) == sorted(expected)
    assert counted(table)["left"]["rows"] == len(expected)


def test_each_rule_is_measured_alone_and_the_judge_on_what_is_left():
    set_ = ranking(relevant=[{0: 1.0, 1: 1.0, 9: 1.0}, {0: 1.0, 2: 1.0}])
    options = MiningOptions(**PLAIN, relative_margin=0.05, absolute_margin=0.5)
    counts = counted(mined(set_, [SCORES, SCORES], options))
    for rule, rules in {
        "above_share": {},
        "above_margin": {"relative_margin": None, "absolute_margin": 0.5},
    }.items():
        found = counted(mined(set_, [SCORES, SCORES], MiningOptions(**PLAIN | rules)))
        assert counts["rules"][rule] == found["rules"][rule]
        before, wrong, after, left = found["known"]
        assert found["rules"] == {rule: [wrong, left, before - wrong, before - wrong - (after - left)]}

    def judge(first, second):
        return np.array([1.0 if text == "远" else -1.0 for text in second])

    none = MiningOptions(**PLAIN, relative_margin=None, max_score=0.0)
    counts = counted(mined(set_, [SCORES, SCORES], none, judge=judge))
    assert list(counts["rules"]) == ["judged"]
    answers, through, others, refused = counts["rules"]["judged"]
    assert (through, others, refused) == (answers, 2, 1)


def test_rows_are_measured_one_by_one_where_each_has_its_bar():
    """Answers at 0.9, 0.8, 0.5 and, a copy of the first, 0.95: 0.5 passes in two rows, 0.8 in that of 0.9."""
    scores = [0.9, 0.8, 0.1, 1.0, 0.79, 0.2, 0.95, 0.5, 0.4, 0.3]
    set_ = ranking(queries=["请问"], relevant=[{0: 1.0, 1: 1.0, 7: 1.0}], irrelevant=[np.array([4])])
    for reference, known in {"lowest": [5, 4, 1, 1], "own": [12, 9, 4, 3]}.items():
        options = MiningOptions(**PLAIN, relative_margin=0.05, positive_reference=reference)
        counts = counted(mined(set_, [scores], options))
        assert counts["known"] == known, reference
        before, wrong, after, left = known
        others = before - wrong
        assert counts["rules"]["above_share"] == [wrong, left, others, others - (after - left)]
