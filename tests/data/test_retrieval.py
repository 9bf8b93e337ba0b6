"""Pairs as a ranking: what label 1 joins is found, what label 0 parts is known, and nobody finds himself."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juzhen.core.errors import UserError
from juzhen.core.examples import Examples, Kind
from juzhen.data.rankings import as_ranking


def labelled(rows):
    first, second, labels = zip(*rows, strict=True)
    texts = {"text_a": first, "text_b": second}
    return Examples.from_texts("some", "dev", kind=Kind.LABELLED_PAIR, texts=texts, targets=np.array(labels))


def by_text(ranking):
    """query → texts that answer it, texts that are known not to, its own text."""
    return {
        query: (
            {ranking.corpus[document] for document in ranking.relevant[number]},
            {ranking.corpus[document] for document in ranking.irrelevant[number]},
            None if ranking.own[number] < 0 else ranking.corpus[ranking.own[number]],
        )
        for number, query in enumerate(ranking.queries)
    }


def test_duplicates_are_the_closure_of_label_1():
    found = as_ranking(
        labelled([("a", "b", 1), ("c", "b", 1), ("d", "e", 1), ("a", "d", 0), ("a", "c", 0), ("f", "f", 1)])
    )
    assert sorted(found.corpus) == ["a", "b", "c", "d", "e", "f"], "a sentence without a duplicate stays"
    assert by_text(found) == {
        "a": ({"b", "c"}, {"d"}, "a"),  # a–c is labelled 0, and the group of b says otherwise
        "b": ({"a", "c"}, set(), "b"),
        "c": ({"a", "b"}, set(), "c"),
        "d": ({"e"}, {"a"}, "d"),
        "e": ({"d"}, set(), "e"),
    }


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans()), min_size=1, max_size=25))
def test_duplicates_are_those_of_a_plain_loop(rows):
    texts = list(dict.fromkeys(str(one) for row in rows for one in row[:2]))
    group = {text: {text} for text in texts}
    for first, second, same in rows:
        if same:
            joined = group[str(first)] | group[str(second)]
            group |= dict.fromkeys(joined, joined)
    apart = {text: set() for text in texts}
    for first, second, same in rows:
        if not same and str(second) not in group[str(first)]:
            apart[str(first)].add(str(second))
            apart[str(second)].add(str(first))
    expected = {one: (group[one] - {one}, apart[one], one) for one in texts if len(group[one]) > 1}
    given_rows = labelled([(str(first), str(second), int(same)) for first, second, same in rows])
    if not expected:
        with pytest.raises(UserError, match="dev/some: no text has a positive"):
            as_ranking(given_rows)
        return
    found = as_ranking(given_rows)
    assert sorted(found.corpus) == sorted(texts)
    assert by_text(found) == expected


def test_sentences_of_rows_that_were_left_out_are_no_documents():
    pairs = labelled([("a", "b", 1), ("c", "d", 1)])
    assert as_ranking(pairs.select(np.array([1]))).corpus == ["c", "d"]


def test_a_question_looks_for_its_passages():
    texts = {"anchor": ["q", "r", "q", "P"], "positive": ["P", "P", "Q", "P"]}
    found = as_ranking(Examples.from_texts("some", "dev", kind=Kind.POSITIVE_PAIR, texts=texts))
    assert found.corpus == ["P", "Q"]
    assert by_text(found) == {"q": ({"P", "Q"}, set(), None), "r": ({"P"}, set(), None)}


def test_negatives_of_triplets_are_known_not_to_answer():
    texts = {"anchor": ["q", "q", "P"], "positive": ["P", "Q", "R"], "negative": ["Q", "R", "P"]}
    found = as_ranking(Examples.from_texts("some", "dev", kind=Kind.TRIPLET, texts=texts))
    assert sorted(found.corpus) == ["P", "Q", "R"]
    assert by_text(found) == {"q": ({"P", "Q"}, {"R"}, None), "P": ({"R"}, set(), "P")}


@pytest.mark.slow
def test_a_quarter_of_a_million_sentences_take_seconds():
    draw, sentences = np.random.default_rng(0), [f"sentence {number}" for number in range(250_000)]
    ends = draw.integers(0, len(sentences), (2, 240_000)).astype(np.int32)
    ends[1, ::2] = ends[0, ::2] ^ 1  # every other pair joins two neighbours
    labels = np.tile(np.array([1, 0], dtype=np.float32), 120_000)
    pairs = Examples(
        "big",
        "train",
        Kind.LABELLED_PAIR,
        sentences,
        dict(zip(("text_a", "text_b"), ends, strict=True)),
        labels,
    )
    start = time.process_time()
    assert len(as_ranking(pairs).queries) > 100_000
    assert time.process_time() - start < 30
