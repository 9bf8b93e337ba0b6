"""Augmented batches of labelled rows: what is changed, what stays, and on what a draw depends."""

from collections import Counter
from typing import get_args

import numpy as np
import pytest

from conf.job import View
from juzhen.core.batch import Sharing
from juzhen.core.examples import Examples, Kind
from juzhen.encoders.augmentation import (
    VIEWS,
    Augmentation,
    SentenceChanges,
    TextViews,
    TokenViews,
    Views,
    reordered,
    sentences_of,
)
from juzhen.encoders.collate import SentenceCollator
from juzhen.encoders.forward import pack
from juzhen.encoders.pair_encoder import CrossEncoderCollator, PairTemplate, pack_joint

FIRST = ["一二三四五六七八", "甲乙丙丁戊己庚辛", "一二三四五六七八"]
SECOND = ["天地玄黄宇宙洪荒", "一二三四五六七八", "春夏秋冬东西南北"]


@pytest.fixture
def augmentation(tokenizer):
    def build(*names, probability=1.0, sets=None, seed=5, **numbers):
        shares = {"delete": 0.5, "repeat": 0.5, "cutoff": 0.5, "synonym": 0.9, "translations": None}
        views = Views(names, **(shares | {"shuffle": 4} | numbers), group="augmentation")
        changes = SentenceChanges(
            lambda texts: tokenizer(list(texts))["input_ids"],
            text_views=TextViews(views),
            token_views=TokenViews(views, tokenizer, max_length=64),
        )
        return Augmentation(changes, probability=probability, sets=sets, seed=seed)

    return build


@pytest.fixture
def collator(tokenizer):
    def build(augmentation, sharing=Sharing.BATCH):
        def tokenize(texts):
            return tokenizer(list(texts))["input_ids"]

        return SentenceCollator(tokenize, pack, sharing={"some": sharing}, augmentation=augmentation)

    return build


def rows(kind=Kind.LABELLED_PAIR, name="some"):
    texts = {"text_a": FIRST, "text_b": SECOND}
    return Examples.from_texts(name, "train", kind=kind, texts=texts, targets=np.array([1, 0, 1]))


def sentences(batch, tokenizer):
    """Text column → its sentences as they are encoded, row by row."""
    parts = batch.tokens.input_ids.split(batch.tokens.lengths.tolist())
    texts = [
        tokenizer.decode(parts[place], skip_special_tokens=True).replace(" ", "")
        for place in batch.tokens.inverse_permutation
    ]
    return {name: [texts[row] for row in places] for name, places in batch.columns.items()}


def test_sentences_change_and_labels_rows_and_numbers_stay(augmentation, collator, tokenizer):
    changed = collator(augmentation("delete")).training_batch(rows(), np.array([2, 0]), index=0)
    plain = collator(None).training_batch(rows(), np.array([2, 0]), index=0)
    assert (changed.kind, changed.task) == (Kind.LABELLED_PAIR, "some")
    assert changed.tensors["targets"].tolist() == [1, 1]
    assert changed.rows.tolist() == [2, 0]
    assert changed.sentence_ids.tolist() == plain.sentence_ids.tolist()
    found, before = sentences(changed, tokenizer), sentences(plain, tokenizer)
    assert before == {"text_a": [FIRST[2], FIRST[0]], "text_b": [SECOND[2], SECOND[0]]}
    for name in before:
        for text, whole in zip(found[name], before[name], strict=True):
            letters = iter(whole)
            assert len(text) < len(whole)
            assert all(letter in letters for letter in text)
    assert found["text_a"][0] == found["text_a"][1]  # the same sentence twice in the batch is changed alike


def test_evaluation_reads_sentences_as_they_are(augmentation, collator, tokenizer):
    batch = collator(augmentation("delete"))(rows(), np.arange(3))
    assert sentences(batch, tokenizer) == {"text_a": FIRST, "text_b": SECOND}


def test_so_many_sentences_are_changed_as_was_asked_for(augmentation, collator, tokenizer):
    collate = collator(augmentation("repeat", probability=0.3, repeat=0.9999))
    counts = Counter(
        len(text)
        for index in range(200)
        for texts in sentences(collate.training_batch(rows(), np.array([1]), index=index), tokenizer).values()
        for text in texts
    )
    assert set(counts) == {8, 16}
    assert counts[16] / 400 == pytest.approx(0.3, abs=0.06)


@pytest.mark.parametrize("names", [("delete", "shuffle"), ("synonym",)])
@pytest.mark.parametrize("sharing", [Sharing.BATCH, Sharing.NONE])
def test_a_draw_depends_on_seed_batch_and_sentence_alone(names, sharing, augmentation, collator, tokenizer):
    """So a batch that two processes share is the one that one process has."""
    table = {"text_a": ["今天早上为什么非常高兴，担心什么", *FIRST], "text_b": ["以前的孩子", *SECOND]}
    examples = Examples.from_texts("some", "train", kind=Kind.SCORED_PAIR, texts=table, targets=np.zeros(4))

    def made(chosen, *, index=3, seed=5):
        collate = collator(augmentation(*names, seed=seed, probability=0.8), sharing)
        return sentences(collate.training_batch(examples, np.array(chosen), index=index), tokenizer)

    whole, halves = made([0, 1, 2, 3]), [made([0, 2]), made([1, 3])]
    for name, texts in whole.items():
        assert [texts[0::2], texts[1::2]] == [half[name] for half in halves]
    assert whole == made([0, 1, 2, 3])
    others = [made([0, 1, 2, 3], index=index, seed=seed) for index, seed in ((4, 5), (5, 5), (3, 6), (3, 7))]
    assert any(other != whole for other in others)


def test_only_the_sets_that_are_named_are_changed(augmentation, collator, tokenizer):
    collate = collator(augmentation("delete", sets=["other"]))
    assert sentences(collate.training_batch(rows(), np.arange(3), index=0), tokenizer)["text_a"] == FIRST
    changed = sentences(collate.training_batch(rows(name="other"), np.arange(3), index=0), tokenizer)
    assert changed["text_a"] != FIRST


def test_joint_inputs_have_the_same_changed_sentences_in_both_orders(augmentation, tokenizer):
    template = PairTemplate.of(tokenizer)
    collate = CrossEncoderCollator(
        lambda texts: tokenizer(list(texts))["input_ids"],
        join=lambda first, second: pack_joint(
            *template.join(first, second, max_length=64), max_group_tokens=None
        ),
        room=lambda first, second: first + second,
        both_in_training=True,
        both_in_evaluation=False,
        augmentation=augmentation("delete"),
    )
    found = sentences(collate.training_batch(rows(), np.arange(3), index=1), tokenizer)
    for pair, swapped, first, second in zip(found["pair"], found["swapped"], FIRST, SECOND, strict=True):
        assert len(pair) == len(swapped) < len(first + second)
        places = [place for place in range(len(pair)) if pair[place:] + pair[:place] == swapped]
        assert places, (pair, swapped)
        assert set(pair[: places[0]]) <= set(first)
        assert set(pair[places[0] :]) <= set(second)
    told = sentences(collate(rows(), np.arange(3)), tokenizer)
    assert told == {"pair": [first + second for first, second in zip(FIRST, SECOND, strict=True)]}


def test_texts_of_a_class_are_changed_too(augmentation, collator, tokenizer):
    texts = Examples.from_texts(
        "some", "train", kind=Kind.LABELLED_TEXT, texts={"text": FIRST[:2]}, targets=np.array([0, 4])
    )
    batch = collator(augmentation("cutoff")).training_batch(texts, np.arange(2), index=0)
    assert batch.tensors["targets"].tolist() == [0, 4]
    assert [len(text) for text in sentences(batch, tokenizer)["text"]] == [4, 4]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("今天下雨。“走吧！”他说……我们走了", ["今天下雨。", "“走吧！”", "他说……", "我们走了"]),
        ('Dr. Li came. "Go!" We left; he did too', ["Dr. Li came.", '"Go!"', "We left;", "he did too"]),
        ("版本 3.14 发布；v2.0 停用。", ["版本 3.14 发布；", "v2.0 停用。"]),
        ("first line\nsecond line", ["first line", "second line"]),
        ("只有一句话", ["只有一句话"]),
        ("", []),
    ],
)
def test_where_sentences_end(text, expected):
    assert sentences_of(text) == expected


def test_sentences_change_places_and_stay_apart():
    def every(text):
        return {reordered(text, np.random.default_rng(number)) for number in range(40)}

    assert every("今天下雨。我们走了") == {"今天下雨。我们走了。", "我们走了。今天下雨。"}
    assert every("It rained. We left") == {"It rained. We left.", "We left. It rained."}
    assert len(every("一。二。三。四。")) > 10
    assert every("只有一句话") == {"只有一句话"}


def test_the_names_that_are_checked_before_torch_are_those_that_there_are():
    assert set(get_args(View)) == set(VIEWS)
