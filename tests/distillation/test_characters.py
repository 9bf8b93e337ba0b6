"""A vocabulary that knows every character: nothing is unknown, and texts that differ stay different."""

import random
import sys
import unicodedata

import numpy as np
import pytest

from juzhen import SentenceEncoder
from juzhen.core.text import script_table
from juzhen.distillation.student import common_characters, complete_tokenizer, grown

TEXTS = ["怎么退货", "我想知道花呗怎么还款", "今天天气很好"]


@pytest.fixture(scope="module")
def encoder():
    return SentenceEncoder.load("builtin/mini_zh")


@pytest.fixture(scope="module")
def complete(encoder):
    return complete_tokenizer(encoder.tokenizer, TEXTS, 9_500)


def test_scripts_fold_in_the_tokenizer(complete):
    for form, plain in [
        ("我養貓", "我养猫"),
        ("頭髮發現", "头发发现"),
        ("ＡＢＣ１２", "ABC12"),
        (" 好 ", "好"),
    ]:
        assert complete(form)["input_ids"] == complete(plain)["input_ids"]
    assert complete("我養馬")["input_ids"] != complete("我養貓")["input_ids"]


def test_rare_characters_are_spelt_by_bytes_and_their_names_are_not(complete):
    assert complete.tokenize("𪚥")[-4:] == ["<0xF0>", "<0xAA>", "<0x9A>", "<0xA5>"]
    assert complete.unk_token_id not in complete("<0x41> ▁ 皖滇 😀 ñ")["input_ids"]
    assert complete("<0x41>")["input_ids"] != complete("A")["input_ids"]
    assert complete("a▁b")["input_ids"] != complete("a b")["input_ids"]


def test_texts_that_differ_after_folding_have_different_tokens(complete):
    assigned = [
        chr(number)
        for number in range(sys.maxunicode + 1)
        if unicodedata.category(chr(number)) not in ("Cn", "Cs", "Co")
    ]
    draw = random.Random(0)
    special = [*script_table(), "\u0301", "\u200d", "\ufe0f", "養", " ", "a"]
    texts = [
        "".join(draw.choices(draw.choice([assigned, special]), k=draw.randint(1, 4))) for _ in range(4_000)
    ]
    normalized = [complete.backend_tokenizer.normalizer.normalize_str(text) for text in texts]
    ids = [tuple(row) for row in complete(texts)["input_ids"]]
    assert len(set(zip(normalized, ids, strict=True))) == len(set(normalized)) == len(set(ids))
    assert all(complete.unk_token_id not in row for row in ids)


def test_characters_that_are_always_there_are_folded_ones(complete):
    characters = common_characters()
    assert len(characters) > 8_000
    assert {"皖", "滇", "兑", "缴", "あ", "é", "😀"} <= {*characters}
    assert not {"養", "Ａ"} & {*characters}
    assert {*characters} <= complete.get_vocab().keys()


@pytest.mark.slow
def test_a_grown_student_keeps_what_it_has_learnt(encoder):
    student = grown(encoder, encoder, vocabulary=9_500, texts=TEXTS, seed=0).eval()
    old, new = encoder.encode(TEXTS, normalize=True), student.encode(TEXTS, normalize=True)
    assert (old * new).sum(axis=1).min() > 0.9
    scores = student.score([("我養貓", "我养猫"), ("皖是哪个省会的简称", "滇是哪个省会的简称")])
    assert scores[0] == pytest.approx(1, abs=1e-6)
    assert scores[1] < 0.9999
    assert np.isfinite(student.encode(["𪚥龘靐"])).all()
