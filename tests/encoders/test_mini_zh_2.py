"""The built-in encoder with every character: nothing is unknown, scripts are one, known texts keep their vectors."""

import random
import unicodedata

import numpy as np
import pytest
from transformers import AutoModel, AutoTokenizer

from juzhen import SentenceEncoder
from juzhen.core.places import PACKAGE

FOLDER = PACKAGE / "builtin" / "mini_zh@2"


@pytest.fixture(scope="module")
def encoder():
    return SentenceEncoder.load("builtin/mini_zh@2")


def test_it_has_at_most_sixteen_megabytes():
    assert sum(file.stat().st_size for file in FOLDER.rglob("*") if file.is_file()) <= 16e6


def test_both_scripts_and_widths_are_one(encoder):
    pairs = [
        ("我養貓", "我养猫"),
        ("頭髮發現", "头发发现"),
        ("怎麼退貨", "怎么退货"),
        ("ＩＰＨＯＮＥ１５", "IPHONE15"),
    ]
    assert encoder.score(pairs) == pytest.approx(1, abs=1e-6)


def test_other_characters_are_other_vectors(encoder):
    pairs = [("我養貓", "我養馬"), ("怎麼買賣", "怎麼開關"), ("皖是哪个省会的简称", "滇是哪个省会的简称")]
    assert max(encoder.score(pairs)) < 0.999


def test_no_token_of_random_strings_is_unknown_and_none_are_equal(encoder):
    draw = random.Random(0)
    assigned = [
        chr(number) for number in range(0x21, 0x30000) if unicodedata.category(chr(number))[0] not in "CZ"
    ]
    texts = ["".join(draw.choices(assigned, k=draw.randint(1, 6))) for _ in range(3_000)]
    normalize = encoder.tokenizer.backend_tokenizer.normalizer.normalize_str
    distinct = list({normalize(text): text for text in texts if normalize(text)}.values())
    ids = [tuple(row) for row in encoder.tokenizer(distinct)["input_ids"]]
    assert len(set(ids)) == len(distinct) > 2_500
    assert not any(encoder.tokenizer.unk_token_id in row for row in ids)


def test_texts_that_the_first_revision_knows_keep_their_vectors(encoder):
    first = SentenceEncoder.load("builtin/mini_zh")
    texts = ["今天天气很好", "我想知道怎么还款", "一个男人正在弹吉他。", "2024年3月5日"]
    np.testing.assert_allclose(
        encoder.encode(texts, normalize=True), first.encode(texts, normalize=True), atol=1e-5
    )


def test_transformers_alone_gives_the_same_embeddings(encoder):
    tokenizer, model = (
        AutoTokenizer.from_pretrained(FOLDER),
        AutoModel.from_pretrained(FOLDER, dtype="float32"),
    )
    texts = ["我養貓", "ＡＢＣ", "𪚥龘靐", "怎么退货"]
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    states, mask = model(**batch).last_hidden_state, batch["attention_mask"].unsqueeze(-1)
    expected = ((states * mask).sum(1) / mask.sum(1)).detach().numpy()
    np.testing.assert_allclose(encoder.encode(texts), expected, rtol=1e-4, atol=1e-5)
