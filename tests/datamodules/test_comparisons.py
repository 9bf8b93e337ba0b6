"""What is compared with what: copies are left out, whatever the seed of a job; and the union of several sets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juzhen.core.examples import (
    NUM_CANDIDATES,
    Comparisons,
    Examples,
    Kind,
    SentenceUnion,
    draw_candidates,
)


@given(st.integers(0, 150))
def test_every_row_meets_its_batch_itself_first(rows):
    found = draw_candidates(rows)
    assert found.shape == (rows, min(rows, NUM_CANDIDATES))
    if rows:
        assert found[:, 0].tolist() == list(range(rows))
        assert all(len(set(row)) == len(row) for row in found.tolist())
    np.testing.assert_array_equal(found, draw_candidates(rows))


def test_batches_are_shared_and_do_not_follow_the_order_of_the_file():
    found = draw_candidates(2 * NUM_CANDIDATES)
    batches = {frozenset(row) for row in found.tolist()}
    assert len(batches) == 2
    assert frozenset(range(NUM_CANDIDATES)) not in batches


def compared(kind, **texts):
    examples = Examples.from_texts("some", "dev", kind=kind, texts=texts)
    one = Comparisons.of(examples)
    spoken = [
        (examples.sentences[a], examples.sentences[b]) for a, b in zip(one.first, one.second, strict=True)
    ]
    return one, spoken


def test_pairs_are_compared_row_by_row():
    one, spoken = compared(Kind.SCORED_PAIR, text_a=["a", "b"], text_b=["c", "a"])
    assert spoken == [("a", "c"), ("b", "a")]
    assert one.shaped(np.array([1.0, 2.0])).tolist() == [1.0, 2.0]


def test_a_triplet_meets_its_own_and_each_negative():
    one, spoken = compared(
        Kind.TRIPLET, anchor=["a", "b"], positive=["p", "q"], negative=["n", "m"], negative_2=["o", "n"]
    )
    assert spoken == [("a", "p"), ("a", "n"), ("a", "o"), ("b", "q"), ("b", "m"), ("b", "n")]
    assert one.shaped(np.arange(6.0)).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_copies_and_other_answers_of_an_anchor_are_no_wrong_answers():
    """Row 0 and 2 share their anchor, rows 1 and 3 their positive; the positive of row 4 is the anchor of row 1."""
    anchors, positives = ["a", "b", "a", "c", "d"], ["p", "q", "r", "q", "b"]
    one, spoken = compared(Kind.POSITIVE_PAIR, anchor=anchors, positive=positives)
    kept = {row: set() for row in range(5)}
    for (row, place), left_out in np.ndenumerate(one.left_out):
        anchor, text = spoken[row * 5 + place]
        assert anchor == anchors[row]
        if not left_out:
            kept[row].add(text)
    assert kept == {
        0: {"p", "q", "b"},
        1: {"q", "p", "r"},  # q of row 3 is its own answer again, and b is itself
        2: {"r", "q", "b"},
        3: {"q", "p", "r", "b"},
        4: {"b", "p", "q", "r"},
    }
    assert not one.left_out[:, 0].any()
    shaped = one.shaped(np.zeros(25))
    assert np.isneginf(shaped[one.left_out]).all()


@pytest.mark.parametrize("count", [3, NUM_CANDIDATES + 5])
def test_scores_are_those_of_each_comparison(count, monkeypatch):
    monkeypatch.setattr("juzhen.core.examples.BLOCK", 7)
    texts = {name: [f"{name}{row}" for row in range(count)] for name in ("anchor", "positive")}
    examples = Examples.from_texts("some", "dev", kind=Kind.POSITIVE_PAIR, texts=texts)
    one = Comparisons.of(examples)
    values = np.random.default_rng(0).normal(size=(2 * count, 3))
    found = one.scored(lambda first, second: np.einsum("rd,rd->r", values[first], values[second]))
    for row, batch in enumerate(draw_candidates(count)):
        expected = [
            values[examples.columns["anchor"][row]] @ values[examples.columns["positive"][other]]
            for other in batch
        ]
        np.testing.assert_allclose(found[row], expected)


def pairs(name, rows):
    left, right = zip(*rows, strict=True)
    return Examples.from_texts(
        name,
        "dev",
        kind=Kind.LABELLED_PAIR,
        texts={"text_a": list(left), "text_b": list(right)},
        targets=np.zeros(len(rows)),
    )


def test_each_sentence_is_listed_once_and_rows_point_to_their_texts():
    first = pairs("one", [("甲", "乙"), ("乙", "丙"), ("甲", "甲")])
    second = pairs("two", [("丙", "丁"), ("甲", "戊")])
    union = SentenceUnion([first, second])
    assert sorted(union.examples.sentences) == sorted("甲乙丙丁戊")
    for position, one in enumerate((first, second)):
        rows = union.rows(position)
        for column in ("text_a", "text_b"):
            spelt = [union.examples.sentences[number] for number in rows[column]]
            assert spelt == one.texts(column)


def test_select_keeps_texts_of_the_chosen_rows():
    first = pairs("one", [("甲", "乙"), ("乙", "丙"), ("甲", "甲")])
    assert first.select(np.array([2, 0])).texts("text_b") == ["甲", "乙"]
