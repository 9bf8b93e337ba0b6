"""Views against plain loops over the texts."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from juzhen.core.errors import UserError
from juzhen.core.examples import TARGET_COLUMN, TEXT_COLUMNS, Examples, Kind
from juzhen.core.kinds import CONVERSIONS
from juzhen.data.convert import convert_rows

PAIRED = {Kind.NLI_PAIR: (0, 2), Kind.LABELLED_PAIR: (1, 0)}  # class of a positive, class of a negative
WORDS = st.sampled_from("甲乙丙丁戊")


def examples_of(kind, rows, targets=None):
    """Examples from rows of texts; the line of row n is n + 2."""
    columns = [*TEXT_COLUMNS[kind], *(["negative_2"] if kind is Kind.TRIPLET else [])]
    texts = {column: [row[place] for row in rows] for place, column in enumerate(columns)}
    lines = np.arange(2, len(rows) + 2, dtype=np.int32)
    return Examples.from_texts(
        "toy", "train", kind=kind, texts=texts, targets=targets, lines=lines, fingerprint="f", num_dropped=3
    )


def rows_of(examples):
    return list(zip(*(examples.texts(column) for column in examples.columns), strict=True))


@st.composite
def paired(draw):
    """A kind with positives and negatives, its rows and its targets."""
    kind = draw(st.sampled_from(list(PAIRED)))
    classes = [0, 1, 2] if kind is Kind.NLI_PAIR else [0, 1]
    row = st.tuples(WORDS, WORDS, st.sampled_from(classes))
    drawn = draw(st.lists(row, min_size=1, max_size=25))
    return kind, [pair[:2] for pair in drawn], [pair[2] for pair in drawn]


def triplets_by_loop(rows, targets, positive, negative):
    """Per positive, in order: the next negative of its first sentence, from the start again when used up."""
    found, turn = [], {}
    for (anchor, text), target in zip(rows, targets, strict=True):
        pool = [
            other[1] for other, t in zip(rows, targets, strict=True) if t == negative and other[0] == anchor
        ]
        if target == positive:
            if pool:
                found.append((anchor, text, pool[turn.get(anchor, 0) % len(pool)]))
            turn[anchor] = turn.get(anchor, 0) + 1
    return found


@pytest.mark.parametrize("wanted", [Kind.TRIPLET, Kind.POSITIVE_PAIR])
@pytest.mark.parametrize("kind", PAIRED)
def test_pairs_without_a_positive_become_nothing(kind, wanted):
    with pytest.raises(UserError, match=f"toy/train: no .* Choose a loss that takes a {kind}"):
        convert_rows(examples_of(kind, [("甲", "乙")], [PAIRED[kind][1]]), wanted)


@given(paired())
def test_pairs_become_triplets_as_the_loop_says(drawn):
    kind, rows, targets = drawn
    examples, expected = examples_of(kind, rows, targets), triplets_by_loop(rows, targets, *PAIRED[kind])
    assume(expected)
    viewed = convert_rows(examples, Kind.TRIPLET)
    assert rows_of(viewed) == expected
    assert viewed.targets is None
    assert [rows[line - 2] for line in viewed.lines] == [row[:2] for row in expected]


@given(paired())
def test_pairs_become_their_positives(drawn):
    kind, rows, targets = drawn
    expected = [row for row, target in zip(rows, targets, strict=True) if target == PAIRED[kind][0]]
    assume(expected)
    examples = examples_of(kind, rows, targets)
    assert rows_of(convert_rows(examples, Kind.POSITIVE_PAIR)) == expected


def test_triplets_become_positives_and_labelled_pairs():
    examples = examples_of(Kind.TRIPLET, [("问", "正", "反", "另"), ("二", "好", "坏", "差")])
    assert rows_of(convert_rows(examples, Kind.POSITIVE_PAIR)) == [("问", "正"), ("二", "好")]
    pairs = convert_rows(examples, Kind.LABELLED_PAIR)
    assert rows_of(pairs) == [
        ("问", "正"),
        ("问", "反"),
        ("问", "另"),
        ("二", "好"),
        ("二", "坏"),
        ("二", "差"),
    ]
    assert pairs.targets.tolist() == [1, 0, 0, 1, 0, 0]
    assert pairs.targets.dtype == np.float32
    assert (pairs.num_classes, pairs.lines.tolist()) == (2, [2, 2, 2, 3, 3, 3])


@given(paired(), st.data())
def test_sentences_are_the_distinct_ones_of_the_rows_by_first_occurrence(drawn, data):
    kind, rows, targets = drawn
    examples = examples_of(kind, rows, targets)
    kept = np.asarray(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))), dtype=bool)
    kept[0] = True
    viewed = convert_rows(examples.select(kept), Kind.SENTENCE)
    expected = list(dict.fromkeys(text for row, keep in zip(rows, kept, strict=True) if keep for text in row))
    assert viewed.texts("text") == expected
    assert viewed.sentences is examples.sentences
    assert all(text in rows[line - 2] for text, line in zip(expected, viewed.lines, strict=True))


@pytest.mark.parametrize(("kind", "wanted"), [(kind, to) for kind in CONVERSIONS for to in CONVERSIONS[kind]])
def test_every_view_of_the_contract_exists_and_keeps_table_and_origin(kind, wanted):
    width = len(TEXT_COLUMNS[kind]) + (kind is Kind.TRIPLET)
    rows = [("一", "二", "三", "四")[:width], ("一", "五", "六", "七")[:width]]
    targets = None if kind not in TARGET_COLUMN else [0, 2] if kind is Kind.NLI_PAIR else [1, 0]
    examples = examples_of(kind, rows, targets)
    viewed = convert_rows(examples, wanted)
    assert viewed.kind is wanted
    assert viewed.sentences is examples.sentences
    assert (viewed.fingerprint, viewed.num_dropped, viewed.name) == ("f", 3, "toy")
    assert all(len(values) == len(viewed) == len(viewed.lines) for values in viewed.columns.values())


def test_own_kind_is_no_view_and_a_view_that_guesses_does_not_exist():
    examples = examples_of(Kind.SCORED_PAIR, [("一", "二")], [0.9])
    assert convert_rows(examples, Kind.SCORED_PAIR) is examples
    with pytest.raises(KeyError):
        convert_rows(examples, Kind.POSITIVE_PAIR)


def test_judgements_of_reranking_become_triplets():
    rows = [("q", "a"), ("q", "b"), ("q", "c"), ("p", "d")]
    judged = examples_of(Kind.RERANKING, rows, targets=np.array([2, 0, 1, 1], dtype=np.float32))
    assert rows_of(convert_rows(judged, Kind.TRIPLET)) == [("q", "a", "b"), ("q", "c", "b")]
