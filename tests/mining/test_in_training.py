"""Negatives that are mined again: which rows get which, what stays, and that nothing known to answer is among them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_candidates import Table

from callbacks import mining
from callbacks.mining import InForce, MinedRows
from juzhen.core.examples import Examples, Kind
from juzhen.data.convert import convert_rows
from juzhen.data.rankings import as_retrieval
from juzhen.mining import MiningOptions

OPTIONS = MiningOptions(range_max=6, num_negatives=2, hard_share=1.0, relative_margin=None)
TEXTS = {"anchor": ["问一", "问二", "问一", "自己"], "positive": ["答甲", "答乙", "答丙", "自己"]}
"""Two answers to the first question; the last row's anchor is its own positive."""


def rows(texts=TEXTS, kind=Kind.POSITIVE_PAIR, **how):
    return MinedRows(Examples.from_texts("some", "train", kind=kind, texts=texts), **how)


def mine(found, scores, options=OPTIONS, before=None):
    """By a table of scores, queries × corpus, in place of an encoder."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            mining,
            "DenseRetriever",
            lambda table, ranking, **how: Table(np.asarray(table, dtype=np.float32)),
        )
        return found.mined(scores, options, batch_tokens=1, before=before)


def test_each_row_gets_the_negatives_of_its_anchor_and_never_an_answer():
    found = rows({name: [*texts, f"远{name}"] for name, texts in TEXTS.items()})
    assert list(found.ranking.corpus) == ["自己", "答甲", "答乙", "答丙", "远positive"]
    scores = [[0.5, 0.9, 0.2, 0.8, 0.1], [0.3, 0.6, 0.9, 0.7, 0.1], [0.4, 0.1, 0.2, 0.3, 0.9]]
    options = MiningOptions(range_max=5, num_negatives=2, hard_share=1.0)
    triplets = found.with_negatives(mine(found, scores, options))
    assert triplets.kind is Kind.TRIPLET
    assert triplets.texts("negative") == ["自己", "答丙", "自己", "自己", "自己"]
    assert triplets.texts("negative_2") == ["答乙", "答甲", "答乙", "自己", "答丙"]
    assert triplets.sentences is found.examples.sentences  # so that nothing is tokenised again


def test_what_is_missing_is_the_positive_itself():
    found = rows({"anchor": ["问一", "问二"], "positive": ["答甲", "答乙"]})
    mined = mine(found, [[0.9, 0.1], [0.1, 0.9]], MiningOptions(range_max=2, num_negatives=2, hard_share=1.0))
    assert mined.documents.tolist() == [[1, -1], [0, -1]]
    triplets = found.with_negatives(mined)
    assert triplets.texts("negative") == ["答乙", "答甲"]
    assert triplets.texts("negative_2") == triplets.texts("positive")


def test_a_hard_negative_stays_until_it_is_easy():
    """1.15 × score now < score then, and |score now| < 0.8; the score then is that of its first mining."""
    texts = {
        "anchor": ["问"] + [f"又{n}" for n in range(6)],
        "positive": ["答"] + [f"别{n}" for n in range(6)],
    }
    found = rows(texts)
    options = MiningOptions(range_max=4, num_negatives=2, hard_share=1.0, relative_margin=None)

    def scores(first):
        return np.vstack([first, np.eye(7)[1:]])

    before = mine(found, scores([0.99, 0.9, 0.6, 0.5, 0.4, 0.3, 0.2]), options)
    assert before.documents[0].tolist() == [1, 2]
    # 0.53 × 1.15 is above 0.6, and four others are nearer by now; 0.79 × 1.15 is above 0.9.
    later = mine(found, scores([0.99, 0.79, 0.53, 0.9, 0.8, 0.7, 0.6]), options, before)
    assert sorted(later.documents[0].tolist()) == [1, 2]
    assert sorted(later.scores[0].tolist()) == pytest.approx([0.6, 0.9])
    # The first is easy now and makes room, although it is the nearest; the second is compared with its first mining.
    last = mine(found, scores([0.99, 0.7, 0.53, 0.5, 0.4, 0.3, 0.2]), options, later)
    assert sorted(last.documents[0].tolist()) == [2, 3]
    assert dict(zip(last.documents[0].tolist(), last.scores[0], strict=True)) == pytest.approx(
        {2: 0.6, 3: 0.5}
    )
    without = mine(found, scores([0.99, 0.79, 0.53, 0.9, 0.8, 0.7, 0.6]), options)
    assert without.documents[0].tolist() == [3, 4]
    assert found.changed(before, later) == 0.0
    assert found.changed(before, last) == pytest.approx(1 / 7)
    assert found.changed(None, last) == 1.0


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.sampled_from([0.0, 0.5, 1.0]), st.booleans())
def test_nothing_known_to_answer_is_ever_a_negative(seed, negatives, hard_share, again):
    draw = np.random.default_rng(seed)
    names = np.array([f"句{n}" for n in range(12)])
    pairs = names[draw.integers(12, size=(15, 2))]
    pairs = np.vstack([pairs, [["甲", "乙"]]])
    found = rows(dict(zip(("anchor", "positive"), pairs.T.tolist(), strict=True)))
    shape = len(found.ranking.queries), len(found.ranking.corpus)
    options = MiningOptions(range_max=shape[1], num_negatives=negatives, hard_share=hard_share, seed=seed)
    options = options if negatives <= shape[1] else OPTIONS
    mined = mine(found, draw.random(shape), options)
    if again:
        mined = mine(found, draw.random(shape), options, mined)
    triplets = found.with_negatives(mined)
    groups = {name: {name} for name in (*names, "甲", "乙")}
    for first, second in pairs:
        joined = groups[first] | groups[second]
        for one in joined:
            groups[one] = joined
    for name in list(triplets.columns)[2:]:
        for anchor, positive, negative in zip(
            *map(triplets.texts, ("anchor", "positive", name)), strict=True
        ):
            assert negative == positive or negative not in groups[anchor]
    for documents in mined.documents:
        there = documents[documents >= 0].tolist()
        assert len(there) == len(set(there))
    assert mined.is_hard.sum(axis=1).max() <= negatives
    assert not mined.is_hard[mined.documents < 0].any()


def test_all_documents_of_a_retrieval_set_can_be_mined():
    pairs = Examples.from_texts(
        "some",
        "train",
        kind=Kind.LABELLED_PAIR,
        texts={"text_a": ["甲", "丙"], "text_b": ["乙", "丁"]},
        targets=np.array([1, 0]),
    )
    viewed = convert_rows(as_retrieval(pairs), Kind.POSITIVE_PAIR)
    assert sorted(zip(viewed.texts("anchor"), viewed.texts("positive"), strict=True)) == [
        ("乙", "甲"),
        ("甲", "乙"),
    ]
    found = MinedRows(viewed)
    assert sorted(found.ranking.corpus) == sorted("甲乙丙丁")
    scores = [[1, 0.1, 0.9, 0.2], [0.9, 0.1, 1, 0.2]]  # 甲 丙 乙 丁, in order of appearance
    triplets = found.with_negatives(mine(found, scores, MiningOptions(range_max=4, num_negatives=2)))
    assert {*triplets.texts("negative"), *triplets.texts("negative_2")} == {"丙", "丁"}


def test_triplets_bring_their_negatives_as_candidates():
    texts = TEXTS | {"negative": ["非一", "非二", "非三", "非四"]}
    found = rows(texts, Kind.TRIPLET)
    assert len(found.ranking.corpus) == 8
    again = found.with_negatives(
        InForce(*(np.zeros((2, 3), dtype) for dtype in (np.int32, np.float32, bool)))
    )
    assert list(again.columns) == ["anchor", "positive", "negative", "negative_2", "negative_3"]


def test_a_row_may_have_negatives_of_its_own():
    """What is too close for the second answer, at 0.5, may stand beside the first, at 0.9."""
    texts = {"anchor": ["问", "问", "又"], "positive": ["答甲", "答乙", "别的"]}
    extra = {"anchor": [*texts["anchor"], "再"], "positive": [*texts["positive"], "远"]}
    scores = [[0.9, 0.5, 0.7, 0.1], [0.2, 0.3, 0.9, 0.4], [0.4, 0.3, 0.2, 0.9]]
    options = MiningOptions(range_max=4, num_negatives=2, hard_share=1.0)
    found = {}
    for reference in ("lowest", "own"):
        mined = rows(extra, positive_reference=reference)
        in_force = mine(mined, scores, options)
        found[reference] = [mined.with_negatives(in_force).texts(name) for name in ("negative", "negative_2")]
        assert len(in_force.documents) == {"lowest": 3, "own": 4}[reference]
        assert mined.changed(in_force, in_force) == 0.0
    assert found["lowest"][0] == ["远", "远", "远", "答甲"]
    assert found["own"][0] == ["别的", "远", "远", "答甲"]
    assert found["lowest"][1] == ["答甲", "答乙", "答乙", "答乙"]
    assert found["own"][1] == ["远", "答乙", "答乙", "答乙"]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([None, 0.1]), st.booleans())
def test_with_one_positive_each_own_and_lowest_are_the_same(seed, share, again):
    draw = np.random.default_rng(seed)
    texts = {"anchor": [f"问{n}" for n in range(12)], "positive": [f"答{n}" for n in range(12)]}
    options = MiningOptions(range_max=10, num_negatives=3, hard_share=0.5, relative_margin=share, seed=seed)
    first, second = draw.normal(size=(2, 12, 12))
    found = []
    for reference in ("lowest", "own"):
        mined = rows(texts, positive_reference=reference)
        before = mine(mined, first, options) if again else None
        found.append(mine(mined, second, options, before))
    for name, values in vars(found[0]).items():
        assert np.array_equal(values, vars(found[1])[name]), name


def test_hard_negatives_of_a_row_stay_however_many_rows_there_are():
    """Six rows of one anchor have more negatives in force than are looked for."""
    answers = [f"答{n}" for n in range(6)]
    texts = {
        "anchor": ["问"] * 6 + [f"又{n}" for n in range(6)],
        "positive": answers + [f"别{n}" for n in range(6)],
    }
    mined = rows(texts, positive_reference="own")
    options = MiningOptions(range_max=3, num_negatives=2, hard_share=1.0, relative_margin=0.05)
    scores = np.eye(7, 12, k=5)
    scores[0] = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.84, 0.74, 0.64, 0.54, 0.44, 0.34]
    order = [mined.ranking.corpus.index(text) for text in texts["positive"]]
    placed = np.empty_like(scores)
    placed[:, order] = scores
    before = mine(mined, placed, replace(options, range_max=12))
    assert (before.documents[:3] >= 0).all()
    after = mine(mined, placed, options, before)
    kept = before.documents >= 0
    assert np.array_equal(np.sort(after.documents[kept]), np.sort(before.documents[kept]))
