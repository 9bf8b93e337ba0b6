"""Changed sentences: what each view does to words, what is drawn for it, and what the files must look like."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from juzhen.core.examples import Examples, Kind
from juzhen.encoders.augmentation import (
    LEXICON,
    TOKEN_VIEWS,
    SentenceChanges,
    Synonyms,
    TextViews,
    TokenViews,
    Views,
    builtin_synonyms,
    cutoff,
    delete,
    repeat,
    shuffle,
)
from juzhen.encoders.collate import ViewCollator
from juzhen.encoders.forward import pack

LINES = ["一二三四五六七八九十", "buy the iphone 16 天地玄黄", "今天天气非常好", "好"]
NUMBERS = {"delete": 0.3, "repeat": 0.3, "cutoff": 0.4, "shuffle": 3, "synonym": 0.5, "translations": None}


def views(*names, **numbers):
    return Views(names, **(NUMBERS | numbers))


def generators(count):
    return [np.random.default_rng(number) for number in range(count)]


def examples(sentences=LINES):
    rows = np.arange(len(sentences), dtype=np.int32)
    return Examples("some", "train", Kind.SENTENCE, list(sentences), {"text": rows}, None)


@pytest.fixture
def collator(tokenizer):
    def build(*names, seed=1, changes_anchor=False, max_length=64, **numbers):
        def tokenize(texts):
            return tokenizer(list(texts), truncation=True, max_length=max_length)["input_ids"]

        chosen = views(*names, **numbers)
        return ViewCollator(
            tokenize,
            pack,
            changes=SentenceChanges(
                tokenize,
                text_views=TextViews(chosen),
                token_views=TokenViews(chosen, tokenizer, max_length=max_length),
            ),
            changes_anchor=changes_anchor,
            seed=seed,
        )

    return build


def pairs(batch, tokenizer):
    """(anchors, positives), each sentence as its list of tokens without the special ones."""
    parts = batch.tokens.input_ids.split(batch.tokens.lengths.tolist())
    texts = []
    for place in batch.tokens.inverse_permutation.tolist():
        first, *words, last = tokenizer.convert_ids_to_tokens(parts[place].tolist())
        assert (first, last) == ("[CLS]", "[SEP]")
        texts.append(words)
    return tuple([texts[row] for row in batch.columns[name].tolist()] for name in ("anchor", "positive"))


words_of_any_size = st.integers(1, 30).map(np.arange)


@given(words=words_of_any_size, seed=st.integers(0, 1000), name=st.sampled_from(sorted(TOKEN_VIEWS)))
@settings(max_examples=200)
def test_what_a_view_keeps_of_the_words(words, seed, name):
    kept = TOKEN_VIEWS[name](words, NUMBERS[name], np.random.default_rng(seed))
    assert len(kept)
    assert set(kept.tolist()) <= set(words.tolist())
    if name == "shuffle":
        assert sorted(kept.tolist()) == words.tolist()
        # A word stays in its window: it moves by less than the window's size.
        assert np.abs(kept - np.arange(len(kept))).max() < NUMBERS["shuffle"]
    else:
        assert (np.diff(kept) >= 0).all()
    if name == "repeat":
        assert set(kept.tolist()) == set(words.tolist())
        assert max(Counter(kept.tolist()).values()) <= 2
    if name == "cutoff":
        assert (np.diff(kept) > 1).sum() <= 1  # one gap at most
        assert len(words) - len(kept) == min(round(0.4 * len(words)), len(words) - 1)


def test_shares_are_what_was_asked_for():
    words = np.arange(20)
    lengths = {
        view: np.mean([len(view(words, 0.3, one)) for one in generators(500)]) / 20
        for view in (delete, repeat, cutoff)
    }
    assert lengths[delete] == pytest.approx(0.7, abs=0.02)
    assert lengths[repeat] == pytest.approx(1.3, abs=0.02)
    assert lengths[cutoff] == pytest.approx(0.7)
    first = Counter(int(cutoff(words, 0.3, one)[0]) for one in generators(500))
    assert 0.02 < first[6] / 500 < 0.12  # the run lies at the front in one of 15 draws
    moved = np.mean([shuffle(words, 4, one) != words for one in generators(500)])
    assert 0.5 < moved < 0.75  # 3/4 of the words of a whole window


def test_words_stay_whole(tokenizer):
    change = TokenViews(views("repeat", repeat=0.5), tokenizer, max_length=64)
    ids = np.asarray(tokenizer("iphone天16")["input_ids"])
    seen = {"".join(tokenizer.convert_ids_to_tokens(change(ids, one))) for one in generators(60)}
    parts = ["i##p##h##o##n##e", "天", "1##6"]
    doubled = {
        "[CLS]" + "".join(part * (1 + (mask >> place & 1)) for place, part in enumerate(parts)) + "[SEP]"
        for mask in range(8)
    }
    assert seen == doubled


def test_views_come_one_after_another_and_never_beyond_the_longest_sentence(tokenizer):
    ids = np.asarray(tokenizer("一二三四五六七八九十")["input_ids"])
    both = TokenViews(views("cutoff", "repeat", cutoff=0.5, repeat=0.999999), tokenizer, max_length=64)
    for one in generators(20):
        assert len(both(ids, one)) == 2 + 2 * 5
    short = TokenViews(views("repeat", repeat=0.999999), tokenizer, max_length=12)
    changed = short(ids, np.random.default_rng(0))
    assert tokenizer.convert_ids_to_tokens(changed) == ["[CLS]", *"一一二二三三四四五五", "[SEP]"]


def test_an_empty_body_is_left_alone(tokenizer):
    ids = np.asarray(tokenizer("")["input_ids"])
    assert TokenViews(views("delete"), tokenizer, max_length=64)(ids, np.random.default_rng(0)).tolist() == (
        ids.tolist()
    )


def test_a_batch_pairs_sentences_with_their_views(collator, tokenizer):
    batch = collator("delete").training_batch(examples(), np.array([2, 0]), index=3)
    assert batch.kind is Kind.POSITIVE_PAIR
    assert batch.rows.tolist() == [2, 0]
    assert batch.sentence_ids.tolist() == [4, 0, 5, 1]
    anchors, positives = pairs(batch, tokenizer)
    assert ["".join(words) for words in anchors] == [LINES[2], LINES[0]]
    for anchor, positive in zip(anchors, positives, strict=True):
        letters = iter(anchor)
        assert all(letter in letters for letter in positive)


def test_without_views_a_sentence_comes_twice_as_it_is(collator, tokenizer):
    anchors, positives = pairs(collator().training_batch(examples(), np.arange(4), index=0), tokenizer)
    assert anchors == positives


def test_both_sides_have_draws_of_their_own(collator, tokenizer):
    collate = collator("delete", changes_anchor=True)
    differ = 0
    for index in range(30):
        anchors, positives = pairs(collate.training_batch(examples(), np.array([0]), index=index), tokenizer)
        differ += anchors != positives
        assert len(anchors[0]) <= 10
    assert differ > 20


@pytest.mark.parametrize("names", [("delete", "shuffle"), ("synonym", "repeat"), ("synonym",)])
def test_views_depend_on_seed_batch_and_sentence_and_on_nothing_else(names, collator, tokenizer):
    rows = examples([*LINES, "今天早上为什么非常高兴，担心什么"])
    numbers = {"synonym": 0.8}

    def made(chosen, *, index=7, seed=1):
        return pairs(
            collator(*names, seed=seed, **numbers).training_batch(rows, chosen, index=index), tokenizer
        )

    first, again = made(np.array([0, 1, 4])), made(np.array([4, 0]))
    assert [column[0] for column in first] == [column[1] for column in again]
    assert [column[2] for column in first] == [column[0] for column in again]
    assert first not in [made(np.array([0, 1, 4]), index=8), made(np.array([0, 1, 4]), seed=2)]


def test_evaluation_reads_sentences_as_they_are(collator):
    batch = collator("delete", "shuffle", delete=0.9)(examples(), np.array([0, 2]))
    assert batch.kind is Kind.SENTENCE
    assert batch.tokens.lengths.tolist() == [7 + 2, 10 + 2]


def test_the_lexicon_is_clean_and_large():
    for name, least in (("zh", 300), ("en", 150)):
        lines = (LEXICON / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
        groups = [line.split("\t") for line in lines if not line.startswith("#")]
        assert len(groups) >= least
        assert all(word == word.strip() and word for group in groups for word in group)
        assert all(word.isascii() and word.islower() for group in groups for word in group) == (name == "en")
    assert len(builtin_synonyms()) > 1000


def test_synonyms_are_found_as_words():
    synonyms = Synonyms(
        [["孩子", "小孩", "小孩子"], ["以前", "从前"], ["big", "large"], ["car", "automobile"]]
    )

    def every(text, share=1.0):
        return {synonyms.replaced(text, one, share) for one in generators(40)}

    assert every("小孩子，以前") == {"孩子，从前", "小孩，从前"}  # the longest word, and not 孩子子
    assert every("Big cars; BIG car, bigger") == {"Large cars; Large automobile, bigger"}
    assert every("无关的话 other words 123") == {"无关的话 other words 123"}
    assert every("以前", share=0.5) == {"以前", "从前"}
    assert every("以前", share=1e-9) == {"以前"}


def test_a_replacement_is_tokenised_and_cut(collator, tokenizer):
    rows = examples(["今天" * 5])
    _, (words,) = pairs(
        collator("synonym", synonym=0.999, max_length=6).training_batch(rows, np.array([0]), index=0),
        tokenizer,
    )
    assert words == list("今日今日")


def test_translations_stand_for_their_sentence(tmp_path, collator, tokenizer):
    path = tmp_path / "round_trip.tsv"
    path.write_text(f"\ufeff{LINES[2]}\t今日天气很好\t今天天儿不错\n\n{LINES[0]}\t一到十\n", encoding="utf-8")
    collate = collator("translation", translations=str(path))
    seen = {place: set() for place in range(4)}
    for index in range(30):
        anchors, positives = pairs(collate.training_batch(examples(), np.arange(4), index=index), tokenizer)
        for place, words in enumerate(positives):
            seen[place].add("".join(words))
        assert "".join(anchors[2]) == LINES[2]
    assert seen[2] == {"今日天气很好", "今天天儿不错"}
    assert seen[0] == {"一到十"}
    assert seen[3] == {"好"}  # not in the file: as it is
