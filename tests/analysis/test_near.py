"""Near duplicates: exactly the pairs that a plain loop over all of them finds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from juzhen.data.leaks import matching
from juzhen.data.leaks.matching import NearIndex, letters_only, normalize, weight, without_end_marks

SHORT_TEXTS = st.lists(st.text("ab花呗", max_size=9), max_size=12)


def trigrams(text):
    padded = f"\0{text}\0"
    return {padded[place : place + 3] for place in range(len(text))}


def by_plain_loop(texts, others, threshold):
    found = set()
    for position, text in enumerate(texts):
        for other, its in enumerate(others):
            shared, union = len(trigrams(text) & trigrams(its)), len(trigrams(text) | trigrams(its))
            if union and shared / union >= threshold - 1e-9:
                found.add((position, other))
    return found


@given(texts=SHORT_TEXTS, others=SHORT_TEXTS, threshold=st.sampled_from([0.3, 0.5, 0.7, 0.75, 1.0]))
def test_finds_what_a_plain_loop_finds(texts, others, threshold):
    own, other = NearIndex(texts, threshold=threshold).search(others)
    found = list(zip(own.tolist(), other.tolist(), strict=True))
    assert set(found) == by_plain_loop(texts, others, threshold)
    assert len(found) == len(set(found))


def test_blocks_and_pieces_change_nothing(monkeypatch):
    texts = [f"今天第{number}次问花呗怎么还款" for number in range(40)]
    whole = NearIndex(texts).search(texts)
    monkeypatch.setattr(matching, "_BLOCK", 7)
    monkeypatch.setattr(matching, "_PIECE", 3)
    monkeypatch.setattr(matching, "_VERIFIED_AT_ONCE", 5)
    pieces = NearIndex(texts).search(texts)
    assert len(whole[0]) > 40
    assert set(zip(*map(list, whole), strict=True)) == set(zip(*map(list, pieces), strict=True))


def test_one_changed_character_is_near_in_a_text_of_seventeen_and_not_of_sixteen():
    text = "甲乙丙丁戊己庚辛壬癸子丑寅卯辰巳午"
    changed = text.replace("辛", "口")
    assert len(NearIndex([text]).search([changed])[0]) == 1
    assert len(NearIndex([text[:16]]).search([changed[:16]])[0]) == 0


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("ＡＢＣ是什么", "abc是什么", True),
        ("花呗 怎么还", "花呗怎么还", True),
        ("花呗怎么还？", "花呗怎么还?", True),
        ("a  man\tis ", "A man is", True),
        ("使用\u200b花呗", "使用花呗", True),
        ("使用　app　还款", "使用APP还款", True),
        ("a man", "aman", False),
        ("花呗", "借呗", False),
        ("1 000", "1000", False),
    ],
)
def test_what_normalize_takes_for_the_same(one, other, is_same):
    assert (normalize(one) == normalize(other)) is is_same


def test_marks_are_left_off_and_words_are_weighed():
    assert without_end_marks("「花呗,怎么还!」") == "花呗,怎么还"
    assert without_end_marks("...") == "..."
    assert letters_only("花呗,怎么还!") == "花呗怎么还"
    assert [weight(text) for text in ("knowledge", "花呗怎么还", "还款 3 天")] == [2, 5, 5]
