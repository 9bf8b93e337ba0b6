"""Each pooling against a plain loop, and each sentence as if it were alone."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from juzhen.encoders.packing import pack
from juzhen.encoders.pooling import POOLINGS, READS_FIRST_LAYER


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
        case "weighted":
            weights = range(1, len(last) + 1)
            return sum(w * state for w, state in zip(weights, last, strict=True)) / sum(weights)


@pytest.mark.parametrize("name", POOLINGS)
@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_equals_a_plain_loop_over_each_sentence(name, lengths):
    layers, tokens = layers_and_tokens(lengths)
    pooled = POOLINGS[name](layers, tokens)
    per_layer = [layer.split(tokens.lengths.tolist()) for layer in layers]
    for embedding, first, last in zip(pooled, *per_layer, strict=True):
        torch.testing.assert_close(embedding, expected(name, first, last))


@pytest.mark.parametrize("name", POOLINGS)
def test_half_precision_states_are_summed_in_float32(name):
    layers, tokens = layers_and_tokens([500, 3], dtype=torch.bfloat16)
    pooled = POOLINGS[name](layers, tokens)
    assert pooled.dtype == torch.float32
    torch.testing.assert_close(pooled, POOLINGS[name]([layer.float() for layer in layers], tokens))


def test_only_first_last_sees_the_first_layer():
    layers, tokens = layers_and_tokens([3, 2])
    other = [layers[0] + 1, layers[1]]
    for name, pool in POOLINGS.items():
        assert torch.equal(pool(layers, tokens), pool(other, tokens)) == (name not in READS_FIRST_LAYER)
