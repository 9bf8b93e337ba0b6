import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from encoders.pooling import POOLINGS, READS_FIRST_LAYER, check_pooling
from schema.errors import UserError


def layers_and_mask(lengths: list[int], *, width: int, filling: float, dtype=torch.float32):
    """Two layers of random states, `filling` on the padding. Equal lengths draw equal states."""
    generator = torch.Generator().manual_seed(sum(lengths))
    mask = torch.zeros(len(lengths), width, dtype=torch.long)
    layers = [torch.full((len(lengths), width, 5), filling) for _ in range(2)]
    for row, length in enumerate(lengths):
        mask[row, :length] = 1
        for layer in layers:
            layer[row, :length] = torch.randn(length, 5, generator=generator)
    return [layer.to(dtype) for layer in layers], mask


@pytest.mark.parametrize("name", POOLINGS)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    extra=st.integers(0, 5),
    filling=st.sampled_from([0.0, 1e4, float("nan"), float("inf")]),
)
def test_padding_changes_nothing(name, lengths, extra, filling):
    plain = POOLINGS[name](*layers_and_mask(lengths, width=max(lengths), filling=0.0))
    padded = POOLINGS[name](*layers_and_mask(lengths, width=max(lengths) + extra, filling=filling))
    torch.testing.assert_close(padded, plain, rtol=1e-5, atol=1e-6)


def expected(name: str, first, last):
    """One sentence without padding, spelt out; first, last: (length, dim)."""
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
def test_equals_a_plain_loop(name):
    lengths = [3, 1, 4]
    layers, mask = layers_and_mask(lengths, width=4, filling=7.0)
    pooled = POOLINGS[name](layers, mask)
    for row, length in enumerate(lengths):
        torch.testing.assert_close(
            pooled[row], expected(name, layers[0][row, :length], layers[1][row, :length])
        )


@pytest.mark.parametrize("name", POOLINGS)
def test_half_precision_states_are_summed_in_float32(name):
    layers, mask = layers_and_mask([500], width=500, filling=0.0, dtype=torch.bfloat16)
    pooled = POOLINGS[name](layers, mask)
    assert pooled.dtype == torch.float32
    torch.testing.assert_close(pooled, POOLINGS[name]([layer.float() for layer in layers], mask))


def test_only_first_last_sees_the_first_layer():
    layers, mask = layers_and_mask([3, 2], width=3, filling=0.0)
    other = [layers[0] + 1, layers[1]]
    for name, pool in POOLINGS.items():
        assert torch.equal(pool(layers, mask), pool(other, mask)) == (name not in READS_FIRST_LAYER)


def test_an_unknown_name_gets_the_nearest_one():
    with pytest.raises(UserError, match=r"backbone.pooling=maen: .*did you mean mean\?"):
        check_pooling("maen")
