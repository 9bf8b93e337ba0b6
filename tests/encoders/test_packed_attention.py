"""Attention in groups of like length is attention of each sentence to itself, in outputs and in gradients."""

import pytest
import torch

from juzhen.encoders.packing import _by_groups, pack

LENGTHS = [3, 9, 4, 4, 12, 1, 30, 31, 7, 2]


def states(dtype):
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(sum(LENGTHS), 2, 16, generator=generator, dtype=dtype).requires_grad_() for _ in range(3)
    ]


def sentence_by_sentence(query, key, value, *, scale):
    """The definition, one sentence at a time, in packed order."""
    parts, start = [], 0
    for length in sorted(LENGTHS):
        q, k, v = (one[start : start + length].transpose(0, 1) for one in (query, key, value))
        parts.append(((q @ k.transpose(1, 2) * scale).softmax(-1) @ v).transpose(0, 1))
        start += length
    return torch.cat(parts)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_groups_equal_the_definition(dtype):
    tokens = pack([[5] * length for length in LENGTHS])
    direction = torch.randn(sum(LENGTHS), 2, 16, generator=torch.Generator().manual_seed(1), dtype=dtype)
    outcomes = []
    for forward in (
        lambda *columns: _by_groups(*columns, tokens, scale=0.3, rate=0.0),
        lambda *columns: sentence_by_sentence(*columns, scale=0.3),
    ):
        columns = states(dtype)
        output = forward(*columns)
        (output * direction).sum().backward()
        outcomes.append([output.detach(), *(one.grad for one in columns)])
    tolerance = 1e-12 if dtype is torch.float64 else 1e-5
    for found, expected in zip(*outcomes, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)


def test_attention_is_dropped_at_the_rate_and_rescaled():
    tokens = pack([[5] * length for length in LENGTHS])
    query, key, _ = states(torch.float32)
    torch.manual_seed(0)
    ones = torch.ones(sum(LENGTHS), 2, 16)
    outputs = torch.stack([_by_groups(query, key, ones, tokens, scale=0.01, rate=0.4) for _ in range(300)])
    assert outputs.mean().item() == pytest.approx(1, abs=0.02)
    single = outputs[:, 0, :, 0].flatten()  # the sentence of one token: its weight is kept whole or dropped
    assert (single == 0).float().mean().item() == pytest.approx(0.4, abs=0.1)
    assert sorted(single.unique().tolist()) == pytest.approx([0.0, 1 / 0.6], rel=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_bf16_backward_pass_is_that_of_fp32_within_its_precision(dtype):
    tokens = pack([[5] * length for length in LENGTHS])
    gradients = []
    for one in (torch.float32, dtype):
        columns = [state.detach().to(one).requires_grad_() for state in states(torch.float32)]
        _by_groups(*columns, tokens, scale=0.3, rate=0.0).float().pow(2).sum().backward()
        gradients.append(torch.cat([column.grad.float().flatten() for column in columns]))
    difference = (gradients[0] - gradients[1]).norm() / gradients[0].norm()
    assert difference < (0.02 if dtype is torch.bfloat16 else 1e-6)
