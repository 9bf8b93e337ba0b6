"""The union of several sets: every sentence once, every row found again."""

import numpy as np

from juzhen.core.examples import Examples, Kind, SentenceUnion


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
