"""Pairs of training and evaluation: planted leaks are found, others not, and a plain loop agrees."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juzhen.core.examples import TEXT_COLUMNS, Examples, Kind
from juzhen.data.leaks import LeakFilter
from juzhen.data.leaks.audit import repeated_and_contradictory
from juzhen.data.leaks.matching import PairIndex, normalize

LONG = "我想知道花呗分期以后提前还款怎么算利息"
NEARLY = "我想知道花呗分期以后提前还款怎样算利息"


def examples(kind, *rows, targets=None, name="some", split="train"):
    """One row per tuple of texts."""
    columns = [*TEXT_COLUMNS[kind], "negative_2"]
    texts = {column: list(values) for column, values in zip(columns, zip(*rows, strict=True), strict=False)}
    targets = None if targets is None else np.array(targets)
    return Examples.from_texts(name, split, kind=kind, texts=texts, targets=targets)


def pairs(*rows, targets=None):
    return examples(Kind.LABELLED_PAIR, *rows, targets=[0] * len(rows) if targets is None else targets)


EVALUATION = pairs(
    ("花呗怎么还", "怎么还花呗"),
    ("How ARE you?", "什么ＡＢＣ"),
    (LONG, "利息怎么算"),
    ("今天天气", "明天下雨吗"),
)


@pytest.mark.parametrize(
    ("planted", "row", "is_exact"),
    [
        (("花呗怎么还", "怎么还花呗"), 0, True),
        (("怎么还花呗", "花呗怎么还"), 0, True),
        (("how are  you？", "什么abc"), 1, True),
        (("什么 ABC", "how are you?"), 1, True),
        ((NEARLY, "利息怎么算"), 2, False),
        (("利息怎么算？", LONG), 2, False),
    ],
)
def test_a_planted_pair_is_found(planted, row, is_exact):
    train = pairs(("别的问题", "另一个"), planted, (LONG, "今天天气"))
    [hits] = PairIndex([EVALUATION]).search(train)
    assert hits.train_rows.tolist() == [1]
    assert hits.evaluation_rows.tolist() == [row]
    assert hits.is_exact.tolist() == [is_exact]
    exact, near = (rows.tolist() for rows in hits.rows())
    assert (exact, near) == (([row], []) if is_exact else ([], [row]))


def test_nothing_is_found_where_nothing_is():
    train = pairs(("花呗怎么还", "今天天气"), ("怎么还花呗", "怎么还花呗"), ("明天下雨", "今天天气"))
    [hits] = PairIndex([EVALUATION]).search(train)
    assert not len(hits.train_rows)
    assert hits.exact_sentence.tolist() == [True, False, False, True]


def test_a_pair_of_near_duplicates_is_found_once_and_as_exact():
    """Its sentences are equal to those of the evaluation row and, crosswise, near to them."""
    [hits] = PairIndex([pairs((LONG, NEARLY))]).search(pairs((LONG, NEARLY), (NEARLY, NEARLY)))
    assert hits.train_rows.tolist() == [0, 1]
    assert hits.is_exact.tolist() == [True, False]


def test_each_split_gets_its_own_rows():
    first, second = EVALUATION.select(np.array([1, 0])), EVALUATION.select(np.array([3, 0]))
    train = pairs(("怎么还花呗", "花呗怎么还"))
    one, other = PairIndex([first, second]).search(train)
    assert one.evaluation_rows.tolist() == other.evaluation_rows.tolist() == [1]
    assert one.exact_sentence.tolist() == [False, True]


def test_a_triplet_leaks_by_any_of_its_pairs():
    triplets = examples(
        Kind.TRIPLET,
        ("花呗怎么还", "甲", "怎么还花呗", "乙"),
        ("明天下雨吗", "今天天气", "丙", "丁"),
        ("戊", "己", "花呗怎么还", "怎么还花呗"),
    )
    [hits] = PairIndex([EVALUATION]).search(triplets)
    assert hits.train_rows.tolist() == [0, 1]
    assert LeakFilter([EVALUATION]).leaky_rows_of(triplets).tolist() == [0, 1]


TEXT = st.sampled_from(["a", "A ", "b", "ｂ", "c", "c c", "今天", "今 天", "明天"])
ROWS = st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=8)


@given(train=ROWS, evaluation=ROWS)
def test_exact_pairs_are_those_of_a_plain_loop(train, evaluation):
    [hits] = PairIndex([pairs(*evaluation)], threshold=1.0).search(pairs(*train))
    found = set(zip(hits.train_rows.tolist(), hits.evaluation_rows.tolist(), strict=True))
    assert hits.is_exact.all()
    assert found == {
        (row, other)
        for row, pair in enumerate(train)
        for other, its in enumerate(evaluation)
        if sorted(map(normalize, pair)) == sorted(map(normalize, its))
    }
    seen = {normalize(text) for pair in train for text in pair}
    assert hits.exact_sentence.tolist() == [
        any(normalize(text) in seen for text in its) for its in evaluation
    ]


def test_a_filter_drops_the_planted_rows_and_no_other():
    train = pairs(
        ("甲", "乙"), ("怎么还花呗", "花呗怎么还"), (LONG, "丙"), (NEARLY, "利息怎么算"), targets=[0, 1, 0, 1]
    )
    kept = LeakFilter([EVALUATION]).without_leaks(train)
    assert kept.texts("text_a") == ["甲", LONG]
    assert kept.targets.tolist() == [0, 0]
    assert kept.num_leaky == 2
    assert LeakFilter([]).without_leaks(train).num_leaky == 0


def test_a_text_is_dropped_for_a_sentence_it_holds():
    texts = examples(
        Kind.SENTENCE, ("他问我想知道花呗分期以后提前还款怎么算利息吗",), ("今天天气。",), ("今天天气真好",)
    )
    kept = LeakFilter([EVALUATION]).without_leaks(texts)
    assert kept.texts("text") == ["今天天气真好"]


def test_rows_that_were_cut_off_do_not_count():
    """A cut set keeps the sentences of all rows in its table."""
    cut = pairs(("花呗怎么还", "怎么还花呗"), ("甲", "乙")).select(np.array([1]))
    [hits] = PairIndex([EVALUATION]).search(cut)
    assert not hits.exact_sentence.any()


def test_labels_at_odds_are_found_in_either_order_but_nli_has_a_direction():
    rows = [("甲", "乙"), ("丙", "丁"), ("乙 ", "甲"), ("丁", "丙"), ("丙", "丁")]
    repeated, groups = repeated_and_contradictory(pairs(*rows, targets=[0, 1, 1, 1, 1]))
    assert repeated == 3
    assert [group.tolist() for group in groups] == [[0, 2]]
    nli = examples(Kind.NLI_PAIR, *rows, targets=[0, 1, 1, 1, 2])
    repeated, groups = repeated_and_contradictory(nli)
    assert repeated == 1
    assert [group.tolist() for group in groups] == [[1, 4]]
