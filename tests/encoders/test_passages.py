"""Passages of long texts: their spans cover the text, and late chunking is the mean of states of one pass."""

import numpy as np
import pytest
from test_chunks import text_of

TEXTS = [text_of(3), text_of(26, 5), "今天很好。" * 5, "abc abd  abe a b c d e f g 今天", "  今天 "]


def covered(text: str, spans: np.ndarray, overlap: int) -> None:
    """Passages begin and end where the text does, and none begins behind the end of the one before."""
    assert spans[0, 0] == 0
    assert spans[-1, 1] == len(text)
    assert (spans[1:, 0] <= spans[:-1, 1]).all()
    assert (spans[:, 0] < spans[:, 1]).all()
    if not overlap:
        assert "".join(text[start:end] for start, end in spans) == text


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("overlap", [0, 3])
@pytest.mark.sampled(2)
def test_spans_cover_each_text(any_folder, load, late, overlap):
    encoder = load(any_folder, max_length=16).eval()
    passages = encoder.encode_chunks(TEXTS, chunk_tokens=8, overlap=overlap, late=late)
    assert passages.texts.tolist() == sorted(passages.texts.tolist())
    assert len(passages) == len(passages.spans) == len(passages.vectors)
    for number, text in enumerate(TEXTS):
        covered(text, passages.spans[passages.texts == number], overlap)
    assert (passages.texts == 1).sum() == {0: 4, 3: 5}[overlap]


def test_a_passage_ends_behind_a_sentence_or_else_a_space(bert_folder, load):
    encoder = load(bert_folder).eval()
    ends = [
        [text[start:end] for start, end in encoder.encode_chunks(text, chunk_tokens=6).spans]
        for text in TEXTS
    ]
    assert ends[2] == ["今天很好。"] * 5
    assert ends[3][0] == "abc abd  "


def test_passages_alone_are_what_encode_gives_for_their_texts(any_folder, load):
    encoder = load(any_folder, max_length=16, normalize=True, prompts={"query": "问："}).eval()
    text = text_of(30)
    passages = encoder.encode_chunks(text, chunk_tokens=9, overlap=2, prompt_name="query", batch_tokens=20)
    pieces = [text[start:end] for start, end in passages.spans]
    assert np.allclose(passages.vectors, encoder.encode(pieces, prompt_name="query"), atol=1e-6)
    whole = encoder.encode_chunks(text_of(10), truncate_dim=8)
    assert np.allclose(whole.vectors[0], encoder.encode(text_of(10), truncate_dim=8), atol=1e-6)


@pytest.mark.parametrize("include", [True, False])
def test_late_with_one_passage_is_the_encoder_itself(any_folder, load, include):
    settings = {"prompts": {"query": "问："}, "include_prompt": include, "normalize": True}
    encoder = load(any_folder, max_length=30, **settings).eval()
    texts = [text_of(count, count) for count in (1, 7, 26)]
    passages = encoder.encode_chunks(texts, late=True, prompt_name="query")
    assert passages.texts.tolist() == [0, 1, 2]
    assert np.allclose(passages.vectors, encoder.encode(texts, prompt_name="query"), atol=1e-6)


def test_late_passages_are_means_of_one_pass(any_folder, load):
    encoder = load(any_folder, max_length=16).eval()
    text = text_of(27)  # two special tokens make 29 of 32 positions, beyond max_length
    passages = encoder.encode_chunks([text, text_of(5)], chunk_tokens=10, overlap=2, late=True)
    encoder.max_length = 32
    tokens = encoder.collate(encoder.tokenize([text]))
    states = encoder.token_states(tokens).detach().numpy()
    expected = [states[0:11], states[9:19], states[17:27], states[25:29]]
    for vector, part in zip(passages.vectors, expected, strict=False):
        assert np.allclose(vector, part.mean(0), atol=1e-5)
    # Their weighted sum is the whole: late chunking loses nothing.
    parts = encoder.encode_chunks(text, chunk_tokens=10, late=True)
    weights = np.array([11, 10, 8])
    assert np.allclose(weights @ parts.vectors / 29, encoder.encode(text), atol=1e-5)


def test_a_text_beyond_all_positions_takes_several_passes(bert_folder, load):
    encoder = load(bert_folder).eval()
    text = text_of(70)
    passages = encoder.encode_chunks(text, chunk_tokens=10, late=True)
    covered(text, passages.spans, 0)
    # 30 tokens are read at a time. The second pass begins three tokens before its first passage.
    states = encoder.token_states(encoder.collate(encoder.tokenize([text[27:50]]))).detach().numpy()
    assert np.allclose(passages.vectors[3], states[4:14].mean(0), atol=1e-5)
    assert np.allclose(passages.vectors[4], states[14:24].mean(0), atol=1e-5)


def test_a_slow_tokenizer_has_chunks_and_no_passages(bert_folder, load, monkeypatch):
    encoder = load(bert_folder, max_length=16).eval()
    expected = encoder.encode(text_of(40), long_texts="chunk")
    monkeypatch.setattr(type(encoder.tokenizer), "is_fast", property(lambda self: False))
    assert np.array_equal(encoder.encode(text_of(40), long_texts="chunk"), expected)
