"""Each pooling against a plain loop, and each sentence as if it were alone."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from juzhen.backends.graph_backends import PaddedSentences
from juzhen.encoders import SentenceEncoder, save_encoder
from juzhen.encoders.forward import pack
from juzhen.encoders.pooled_encoder import PackedSentences
from juzhen.encoders.pooling import POOLINGS, Pooling

TEXTS = ["今天天气很好吗", "我", "ab cd"]


def layers_and_tokens(lengths: list[int], *, dtype=torch.float32):
    """Two layers of random states of packed sentences."""
    tokens = pack([[5] * length for length in lengths])
    generator = torch.Generator().manual_seed(sum(lengths))
    layers = [torch.randn(sum(lengths), 5, generator=generator).to(dtype) for _ in range(2)]
    return layers, tokens


def expected(name: str, first, last):
    """One sentence, spelt out; first, last: (length, dim)."""
    match name:
        case "mean":
            return sum(last) / len(last)
        case "cls":
            return last[0]
        case "max":
            return torch.stack([max(column) for column in last.T])
        case "first_last":
            return (sum(first) / len(first) + sum(last) / len(last)) / 2
        case "last":
            return last[-1]
        case "mean_sqrt_len":
            return sum(last) / len(last) ** 0.5
        case "weighted":
            weights = range(1, len(last) + 1)
            return sum(w * state for w, state in zip(weights, last, strict=True)) / sum(weights)


@pytest.mark.parametrize("name", POOLINGS)
@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_equals_a_plain_loop_over_each_sentence(name, lengths):
    layers, tokens = layers_and_tokens(lengths)
    pooled = POOLINGS[name].pool(layers, PackedSentences(tokens))
    per_layer = [layer.split(tokens.lengths.tolist()) for layer in layers]
    for embedding, first, last in zip(pooled, *per_layer, strict=True):
        torch.testing.assert_close(embedding, expected(name, first, last))


@pytest.mark.parametrize("name", POOLINGS)
def test_half_precision_states_are_summed_in_float32(name):
    layers, tokens = layers_and_tokens([500, 3], dtype=torch.bfloat16)
    pooled = POOLINGS[name].pool(layers, PackedSentences(tokens))
    assert pooled.dtype == torch.float32
    torch.testing.assert_close(
        pooled, POOLINGS[name].pool([layer.float() for layer in layers], PackedSentences(tokens))
    )


def test_only_first_last_sees_the_first_layer():
    layers, tokens = layers_and_tokens([3, 2])
    other, sentences = [layers[0] + 1, layers[1]], PackedSentences(tokens)
    for pooling in POOLINGS.values():
        is_same = torch.equal(pooling.pool(layers, sentences), pooling.pool(other, sentences))
        assert is_same == (not pooling.reads_first_layer)


@pytest.mark.parametrize("unpooled", [0, 2])
@pytest.mark.parametrize("name", POOLINGS)
def test_padded_sentences_are_pooled_as_packed_ones(name, unpooled):
    lengths = torch.tensor([1, 2, 4, 6])
    mask = (torch.arange(6) < lengths[:, None]).unsqueeze(-1)
    # Numbers in the padding that no pooling may see.
    layers = [torch.randn(4, 6, 5, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1)]
    tokens = pack([[5] * int(length) for length in lengths])
    tokens.unpooled = unpooled
    pool = POOLINGS[name].pool
    expected = pool([layer[mask.squeeze(-1)] for layer in layers], PackedSentences(tokens))
    padded = pool(layers, PaddedSentences(mask.float(), unpooled))
    torch.testing.assert_close(padded, expected, rtol=0, atol=1e-5)


@pytest.fixture
def cube_root(monkeypatch):
    """A pooling that juzhen lacks: the one entry that it takes to add it."""
    added = Pooling(lambda layers, sentences: sentences.sum(layers[-1]) / sentences.count ** (1 / 3))
    monkeypatch.setitem(POOLINGS, "cube_root", added)


def test_a_new_pooling_is_one_entry(cube_root, bert_folder, load, tmp_path):
    encoder = load(bert_folder, pooling="cube_root")
    tokens = encoder.collate(encoder.tokenize(TEXTS))
    encoder.eval()
    states = encoder.token_states(tokens).split(tokens.lengths.tolist())
    expected = torch.stack([one.sum(0) / len(one) ** (1 / 3) for one in states])[tokens.inverse_permutation]
    torch.testing.assert_close(encoder(tokens), expected)
    encoder(tokens).square().sum().backward()
    assert encoder.backbone.embeddings.word_embeddings.weight.grad.any()
    encoder.micro_batch_tokens = 6
    torch.testing.assert_close(encoder(encoder.collate(encoder.tokenize(TEXTS))), expected)
    encoder.micro_batch_tokens = None
    folder = save_encoder(encoder, tmp_path / "saved", card={})
    again = SentenceEncoder.load(folder)
    assert again.pooling == "cube_root"
    np.testing.assert_array_equal(again.encode(TEXTS), encoder.encode(TEXTS))


@pytest.mark.slow  # an export takes ten seconds; one of each run is in test_backends.py
def test_a_new_pooling_is_exported(cube_root, bert_folder, load, tmp_path):
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package)
    from juzhen.backends.graph_backends import export_onnx

    # It proves itself that the graph computes what the encoder does.
    assert export_onnx(load(bert_folder, pooling="cube_root"), tmp_path / "e.onnx", quantised=False).is_file()
