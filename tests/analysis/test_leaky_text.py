"""Evaluation sentences in running text: what a plain loop over lines and sentences finds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from juzhen.data.leaks import matching as text_module
from juzhen.data.leaks.matching import LEAST_INSIDE, SentenceSearch, normalize, weight, without_end_marks

SENTENCE = "今天晚上花呗怎么还款"


def lines_with(lines, sentences):
    return SentenceSearch(sentences).search(lines)[0]


def by_plain_loop(lines, sentences):
    found = set()
    for position, line in enumerate(map(normalize, lines)):
        for number, sentence in enumerate(sentences):
            core = without_end_marks(normalize(sentence))
            if without_end_marks(line) == core:
                found.add((position, number, True))
            elif min(len(core), weight(core)) >= LEAST_INSIDE and any(
                line.startswith(core, place) and stands_alone(line, place, place + len(core))
                for place in range(len(line))
            ):
                found.add((position, number, False))
    return found


def stands_alone(line, start, end):
    def spelt(character):
        return character.isalnum() and character < "\u2e80"

    before = start > 0 and spelt(line[start - 1]) and spelt(line[start])
    after = end < len(line) and spelt(line[end - 1]) and spelt(line[end])
    return not before and not after


PIECES = st.lists(
    st.sampled_from(["花呗", "怎么还款", "a b ", "is he", "，", "3", "。", " "]), max_size=7
).map("".join)


@given(lines=st.lists(PIECES, max_size=6), sentences=st.lists(PIECES.filter(str.strip), max_size=6))
def test_finds_what_a_plain_loop_finds(lines, sentences):
    found = SentenceSearch(sentences).search(lines)
    assert set(zip(*(part.tolist() for part in found), strict=True)) == by_plain_loop(lines, sentences)


@pytest.mark.parametrize(
    ("line", "sentence", "found"),
    [
        (f"他问：“{SENTENCE}？”我说不知道。", SENTENCE, [1]),
        ("他问今天晚上 花呗怎么还款", SENTENCE + "？", [1]),
        ("Well, HE IS LATE again today.", "he is late again", [1]),
        ("花呗！", "花呗", [1]),
        ("我的花呗", "花呗", []),
        ("She is late again today.", "he is late again", []),
        ("he is late against", "he is late again", []),
        ("the knowledge of photoshop", "knowledge", []),
        ("今天晚上花呗怎么还", SENTENCE, []),
    ],
)
def test_a_planted_sentence_is_found_and_what_only_looks_alike_is_not(line, sentence, found):
    assert lines_with(["没有", line], [sentence]).tolist() == found


def test_blocks_change_nothing(monkeypatch):
    lines = [f"第{number}行{SENTENCE * (number % 3 == 0)}" for number in range(30)]
    done = []
    monkeypatch.setattr(text_module, "_BLOCK_CHARACTERS", 40)
    found, _, _ = SentenceSearch([SENTENCE]).search(lines, advance=done.append)
    assert found.tolist() == list(range(0, 30, 3))
    assert sum(done) == 30
    assert len(done) > 3


def test_a_sentence_never_spans_two_lines():
    assert not len(lines_with([SENTENCE[:5], SENTENCE[5:]], [SENTENCE]))
