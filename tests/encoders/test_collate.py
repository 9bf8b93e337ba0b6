"""Batches: which sentences are encoded, how often, and that rows find their own again."""

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from juzhen.core.batch import Sharing
from juzhen.core.examples import Examples, Kind
from juzhen.encoders.collate import SentenceCollator
from juzhen.encoders.forward import pack
from juzhen.losses import InfoNCE, SimCSE
from juzhen.losses.loss import Loss

TEXTS = list("abcdef")


def spell(texts):
    return [[ord(sign) for sign in text] for text in texts]


def pairs(first, second):
    return Examples.from_texts(
        "set", "train", kind=Kind.POSITIVE_PAIR, texts={"anchor": first, "positive": second}
    )


def encoded(batch):
    """The sentences that the encoder gets to see, in the order in which their embeddings come back."""
    packed = batch.tokens.input_ids.split(batch.tokens.lengths.tolist())
    return ["".join(map(chr, packed[place].tolist())) for place in batch.tokens.inverse_permutation]


@pytest.mark.parametrize(
    ("sharing", "expected"),
    [
        (Sharing.BATCH, ["a", "b", "c"]),
        (Sharing.COLUMN, ["a", "b", "a", "c"]),
        (Sharing.NONE, ["a", "b", "a", "a", "c", "a"]),
    ],
)
def test_who_shares(sharing, expected):
    collate = SentenceCollator(spell, pack, sharing={"set": sharing})
    batch = collate.training_batch(pairs(["a", "b", "a"], ["a", "c", "a"]), np.arange(3), index=0)
    assert encoded(batch) == expected


@given(
    rows=st.lists(st.tuples(st.sampled_from(TEXTS), st.sampled_from(TEXTS)), min_size=1, max_size=12),
    sharing=st.sampled_from(Sharing),
    data=st.data(),
)
def test_rows_find_their_texts_and_numbers_however_they_share(rows, sharing, data):
    examples = pairs(*zip(*rows, strict=True))
    chosen = np.array(data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=12)))
    batch = SentenceCollator(spell, pack, sharing={"set": sharing}).training_batch(examples, chosen, index=0)
    texts = encoded(batch)
    assert len(texts) == len(batch.sentence_ids)
    for place, number in enumerate(batch.sentence_ids.tolist()):
        assert examples.sentences[number] == texts[place], "equal numbers must mean equal texts"
    for column, places in batch.columns.items():
        assert [texts[place] for place in places] == [examples.texts(column)[row] for row in chosen]
    first, second = (set(places.tolist()) for places in batch.columns.values())
    if sharing is not Sharing.BATCH:
        assert not first & second, "no encoding serves two columns"
    if sharing is not Sharing.NONE:
        for places in (first, second):
            assert len({texts[place] for place in places}) == len(places), "once per column"


def test_a_sentence_is_trained_on_twice_and_evaluated_once():
    examples = Examples.from_texts("set", "train", kind=Kind.SENTENCE, texts={"text": list("abca")})
    collate = SentenceCollator(spell, pack, sharing={"set": Sharing.COLUMN})
    batch = collate.training_batch(examples, np.array([0, 3, 2]), index=0)
    assert encoded(batch) == ["a", "c", "a", "c"]
    first, second = batch.columns.values()
    assert (first.tolist(), second.tolist()) == ([0, 0, 1], [2, 2, 3])
    assert list(collate(examples, np.array([0, 3, 2])).columns) == ["text"]


def test_evaluation_always_shares():
    collate = SentenceCollator(spell, pack, sharing={"set": Sharing.NONE})
    assert encoded(collate(pairs(["a", "b"], ["a", "a"]), np.arange(2))) == ["a", "b"]


def test_a_table_is_tokenised_once_even_in_another_process():
    calls = []

    def counted(texts):
        calls.append(len(texts))
        return spell(texts)

    collate, examples = SentenceCollator(counted, pack), pairs(["a", "b"], ["a", "c"])
    assert collate.lengths(examples).tolist() == [1, 1, 1]
    collate(examples, np.arange(2))
    collate(examples.select(np.array([1])), np.arange(1))  # over the same sentences
    assert calls == [3]
    collate._tokenize = spell  # what a test counts with cannot travel
    collate, examples = pickle.loads(pickle.dumps((collate, examples)))
    collate._tokenize = None
    assert encoded(collate(examples, np.arange(2))) == ["a", "b", "c"]


def test_two_views_differ_under_dropout_and_only_there(bert_folder, load):
    encoder = load(bert_folder, dropout=0.3)
    examples = pairs(["今天天气很好", "我"], ["今天天气很好", "我"])
    found = {}
    for training in (True, False):
        encoder.train(training)
        for sharing in (Sharing.BATCH, Sharing.COLUMN):
            collate = SentenceCollator(encoder.tokenize, encoder.collate, sharing={"set": sharing})
            batch = collate.training_batch(examples, np.arange(2), index=0)
            embeddings = encoder(batch.tokens).detach()
            anchors, positives = (embeddings[places] for places in batch.columns.values())
            found[training, sharing] = (anchors - positives).abs().max(dim=1).values
    assert (found[True, Sharing.COLUMN] > 1e-2).all(), "dropout gives two views of each sentence"
    assert not found[True, Sharing.BATCH].any(), "one encoding is one view"
    assert (found[False, Sharing.COLUMN] < 1e-5).all(), "without dropout the views are one"


def test_losses_share_unless_they_say_so():
    assert not Loss.needs_two_views
    assert not InfoNCE.needs_two_views
    assert SimCSE.needs_two_views


@pytest.mark.parametrize(
    ("needs", "share_sentences", "expected"),
    [
        (False, "true", Sharing.BATCH),
        (True, "true", Sharing.COLUMN),
        (False, "false", Sharing.NONE),
        (True, "false", Sharing.NONE),
    ],
)
def test_the_loss_and_the_configuration_decide(tiny_backbone, needs, share_sentences, expected):
    from jobs import typed_job

    from juzhen.encoders import load_backbone
    from lightning_modules.biencoder import BiEncoder

    class TwoViews(InfoNCE):
        needs_two_views = needs

    words = ("loss=info_nce", f"training.share_sentences={share_sentences}")
    job = typed_job("backbone=random_small", f"backbone.path={tiny_backbone}", *words)
    losses = torch.nn.ModuleDict({"set": TwoViews(temperature=0.05, symmetric=False)})
    encoder = load_backbone(job.backbone, seed=0)
    module = BiEncoder(encoder=encoder, losses=losses, job=job, total_steps=1, warmup_steps=0)
    examples = pairs(["今天", "我", "今天"], ["今天", "我", "今天"])
    batch = module.collate.training_batch(examples, np.arange(3), index=0)
    assert module.sharing == {"set": expected}
    assert len(batch.tokens) == {Sharing.BATCH: 2, Sharing.COLUMN: 4, Sharing.NONE: 6}[expected]
    scores = module.train().encode(batch)["scores"]
    assert bool((scores > 1 - 1e-6).all()) is (expected is Sharing.BATCH)
