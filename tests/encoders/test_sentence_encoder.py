from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from juzhen.core import progress
from juzhen.encoders.pooling import POOLINGS
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.tokens import batches_by_length

TEXTS = ["今天天气很好吗", "我", "你他们是的在不了有和人这中大", "今天", "我", "ab cd"]


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.sampled(3)
def test_a_sentence_does_not_depend_on_its_neighbours(any_folder, load, pooling):
    encoder = load(any_folder, pooling=pooling).eval()
    together = encoder(encoder.collate(encoder.tokenize(TEXTS)))
    assert together.shape == (len(TEXTS), encoder.dim) == (len(TEXTS), 32)
    assert together.dtype == torch.float32
    for text, embedding in zip(TEXTS, together, strict=True):
        alone = encoder(encoder.collate(encoder.tokenize([text])))[0]
        torch.testing.assert_close(alone, embedding, rtol=1e-4, atol=1e-5)


def test_first_last_reads_the_first_block_not_the_embeddings(bert_folder, load):
    encoder = load(bert_folder, pooling="first_last").eval()
    tokens = encoder.collate(encoder.tokenize(["今天天气很好吗"]))
    input_ids = tokens.input_ids.unsqueeze(0)
    states = encoder.backbone(input_ids=input_ids, output_hidden_states=True).hidden_states
    torch.testing.assert_close(encoder(tokens), (states[1].mean(dim=1) + states[2].mean(dim=1)) / 2)


def test_tokenize_adds_special_tokens_and_cuts(bert_folder, load):
    encoder = load(bert_folder, max_length=6)
    short, long = encoder.tokenize(["今天", "今" * 50])
    cls, sep = encoder.tokenizer.cls_token_id, encoder.tokenizer.sep_token_id
    assert (short[0], short[-1], len(short)) == (cls, sep, 4)
    assert (long[0], long[-1], len(long)) == (cls, sep, 6)
    assert encoder.tokenize([]).tolist() == []


def test_tokenize_in_portions_equals_one_call(bert_folder, load, monkeypatch):
    encoder = load(bert_folder)
    whole = encoder.tokenize(TEXTS)
    monkeypatch.setattr("juzhen.encoders.tokens.TEXTS_PER_CALL", 2)
    assert encoder.tokenize(TEXTS) == whole


@pytest.mark.parametrize(
    ("shown", "is_terminal", "patience", "started"),
    [(True, False, 9, 1), (False, True, 0, 0), (None, True, 0, 1), (None, True, 9, 0), (None, False, 0, 0)],
)
def test_a_bar_is_shown_on_demand_or_on_a_terminal_for_long_work(
    bert_folder, load, monkeypatch, shown, is_terminal, patience, started
):
    lines = []
    monkeypatch.setattr(
        progress, "ProgressLine", lambda *names, **options: lines.append(names) or MagicMock()
    )
    monkeypatch.setattr(progress, "is_live", lambda: is_terminal)
    monkeypatch.setattr(progress, "PATIENCE", patience)
    monkeypatch.setattr("juzhen.encoders.tokens.TEXTS_PER_CALL", 2)
    load(bert_folder).tokenize(["今天"] * 5, progress=shown)
    assert len(lines) == started


@given(
    order=st.lists(st.integers(0, len(TEXTS) - 1), min_size=1, max_size=12), batch_tokens=st.integers(1, 80)
)
def test_embed_keeps_the_order_whatever_the_batches(shared_encoder, order, batch_tokens):
    encoder, single = shared_encoder
    embeddings = encoder.encode([TEXTS[i] for i in order], batch_tokens=batch_tokens, show_progress=False)
    np.testing.assert_allclose(embeddings, single[order], rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def shared_encoder(bert_folder):
    from juzhen.encoders import load_encoder

    encoder = load_encoder(bert_folder)
    single = [encoder.encode([text], batch_tokens=100, show_progress=False)[0] for text in TEXTS]
    return encoder, np.stack(single)


def test_embed_encodes_equal_texts_once(bert_folder, load, monkeypatch):
    encoder = load(bert_folder)
    sizes = []
    plain = encoder.forward
    monkeypatch.setattr(encoder, "forward", lambda tokens: sizes.append(len(tokens)) or plain(tokens))
    embeddings = encoder.encode(["今天", "我", "今天", "今天"], batch_tokens=1000, show_progress=False)
    assert sum(sizes) == 2
    assert np.array_equal(embeddings[0], embeddings[2])
    assert embeddings.dtype == np.float32
    assert not np.allclose(embeddings[0], embeddings[1])


def test_embed_drops_nothing_and_leaves_the_mode_as_it_was(bert_folder, load):
    encoder = load(bert_folder, dropout=0.5)
    for training in (True, False):
        encoder.train(training)
        once = encoder.encode(TEXTS, batch_tokens=64, show_progress=True)
        assert np.array_equal(once, encoder.encode(TEXTS, batch_tokens=64, show_progress=False))
        assert encoder.training is training
        assert encoder.backbone.training is training
    tokens = encoder.train().collate(encoder.tokenize(TEXTS))
    assert not torch.equal(encoder(tokens), encoder(tokens)), "dropout is off in training"


def test_embed_restores_the_mode_after_an_error(bert_folder, load, monkeypatch):
    encoder = load(bert_folder)
    monkeypatch.setattr(encoder, "collate", lambda lists: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        encoder.encode(TEXTS, batch_tokens=64, show_progress=False)
    assert encoder.training


def test_normalized_embeddings_have_length_1(bert_folder, load):
    plain = load(bert_folder).encode(TEXTS, batch_tokens=64, show_progress=False)
    unit = load(bert_folder, normalize=True).encode(TEXTS, batch_tokens=64, show_progress=False)
    assert not np.allclose(np.linalg.norm(plain, axis=1), 1)
    np.testing.assert_allclose(
        unit, plain / np.linalg.norm(plain, axis=1, keepdims=True), rtol=1e-5, atol=1e-6
    )


def test_embeddings_stay_float32_under_autocast(bert_folder, load):
    encoder = load(bert_folder).eval()
    tokens = encoder.collate(encoder.tokenize(TEXTS))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        embeddings = encoder(tokens)
    assert embeddings.dtype == torch.float32
    torch.testing.assert_close(embeddings, encoder(tokens), rtol=0.1, atol=0.1)


@given(lengths=st.lists(st.integers(1, 50), max_size=40), batch_tokens=st.integers(1, 120))
def test_batches_cover_every_row_once_within_the_budget(lengths, batch_tokens):
    batches = [batch.tolist() for batch in batches_by_length(lengths, batch_tokens=batch_tokens)]
    assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[row] for row in batch) <= batch_tokens
    longest = [max(lengths[row] for row in batch) for batch in batches]
    assert longest == sorted(longest, reverse=True)


def test_an_own_subclass_loads_and_decides_how_texts_are_encoded(bert_folder):
    class Doubled(SentenceEncoder):
        def encode(self, texts, **options):
            return 2 * super().encode(texts, **options)

    own = Doubled.load(bert_folder)
    assert type(own) is Doubled
    np.testing.assert_array_equal(
        own.encode("怎么退货"), 2 * SentenceEncoder.load(bert_folder).encode("怎么退货")
    )
