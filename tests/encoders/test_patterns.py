"""Causal attention, windows and shared heads of packed sentences: each kernel against the definition."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch

from juzhen.encoders import forward
from juzhen.encoders.forward import (
    Pattern,
    _by_groups,
    flash,
    memory_efficient,
    pack,
    pattern_of,
    ragged_kernel,
)

LENGTHS = [7, 1, 12, 3, 12, 5]
PATTERNS = [
    Pattern(),
    Pattern(True),
    Pattern(False, 2),
    Pattern(True, 2),
    Pattern(True, 0),
    Pattern(False, 40),
]
SCALE = 0.3


def columns(*, key_heads: int, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(sum(LENGTHS), heads, 8, generator=generator, dtype=torch.float64)
        .to(dtype)
        .requires_grad_()
        for heads in (4, key_heads, key_heads)
    ]


def defined(query, key, value, ends, scale, pattern):
    """Attention by the definition, token by token."""
    rows, share = [], query.shape[1] // key.shape[1]
    for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        for place in range(start, end):
            last = place if pattern.causal else end - 1
            reach = end if pattern.reach is None else pattern.reach
            seen = [other for other in range(start, last + 1) if abs(place - other) <= reach]
            heads = [
                (key[seen, head // share] @ query[place, head] * scale).softmax(0)
                @ value[seen, head // share]
                for head in range(query.shape[1])
            ]
            rows.append(torch.stack(heads))
    return torch.stack(rows)


def gradients(forward, states):
    weights = torch.linspace(-1, 1, states[0].numel(), dtype=states[0].dtype).view_as(states[0])
    output = forward(*states)
    return [output.detach(), *torch.autograd.grad((output * weights).sum(), states)]


@pytest.mark.parametrize("key_heads", [4, 2, 1])
@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
@pytest.mark.sampled(2)
def test_groups_equal_the_definition(pattern, key_heads):
    tokens = pack([[5] * length for length in LENGTHS])
    states = columns(key_heads=key_heads)
    groups = partial(_by_groups, tokens=tokens, scale=SCALE, pattern=pattern)
    expected = gradients(
        lambda *those: defined(*those, tokens.boundaries, SCALE, pattern), columns(key_heads=key_heads)
    )
    torch.testing.assert_close(gradients(partial(groups, rate=0.0), states), expected, rtol=0, atol=1e-12)
    # A rate that is dropped to 0 of 65,536 levels: plain products, nothing dropped.
    torch.testing.assert_close(gradients(partial(groups, rate=1e-9), states), expected, rtol=0, atol=1e-12)


@pytest.fixture
def asked(monkeypatch):
    """The arguments with which the kernels of a GPU are called; each gives its queries back."""
    calls = []

    def kernel(name, query, *arguments, **options):
        calls.append((name, arguments, options))
        return (query,)

    operators = SimpleNamespace(
        _flash_attention_forward=partial(kernel, "flash"),
        _efficient_attention_forward=partial(kernel, "efficient"),
    )
    monkeypatch.setattr(forward.torch, "ops", SimpleNamespace(aten=operators))
    return calls


@pytest.mark.parametrize("pattern", PATTERNS[:-1], ids=str)
def test_flash_is_told_of_causality_and_window(asked, pattern):
    flash(
        *columns(key_heads=2),
        pack([[5] * length for length in LENGTHS]),
        scale=SCALE,
        rate=0.0,
        pattern=pattern,
    )
    ((_, arguments, options),) = asked
    assert arguments[0].shape[1] == 2, "this kernel shares heads of keys by itself"
    assert arguments[7] is pattern.causal
    window = (options.get("window_size_left"), options.get("window_size_right"))
    reach = pattern.reach
    assert window == ((None, None) if reach is None else (reach, 0 if pattern.causal else reach))


@pytest.mark.parametrize("causal", [True, False])
def test_the_memory_efficient_kernel_is_told_of_causality(asked, causal):
    tokens = pack([[5] * length for length in LENGTHS])
    memory_efficient(*columns(key_heads=2), tokens, scale=SCALE, rate=0.0, pattern=Pattern(causal))
    ((_, arguments, _),) = asked
    assert arguments[0].shape[2] == 4, "this one wants a head of keys for each of queries"
    assert arguments[8] == int(causal)  # 1: from the top left corner


def test_a_window_in_float32_has_no_kernel(monkeypatch):
    query, key = (SimpleNamespace(device=torch.device("cuda"), shape=(1, heads, 9, 8)) for heads in (4, 2))
    monkeypatch.setattr(forward, "SDPAParams", lambda *what: what)
    monkeypatch.setattr(forward, "can_use_efficient_attention", lambda what: True)
    for is_half in (True, False):
        monkeypatch.setattr(forward, "can_use_flash_attention", lambda what, half=is_half: half)
        for pattern in PATTERNS:
            expected = flash if is_half else memory_efficient if pattern.reach is None else None
            assert ragged_kernel(query, key, key, rate=0.0, pattern=pattern) is expected


def test_a_window_counts_as_transformers_counts():
    causal, both = torch.nn.Module(), torch.nn.Module()
    causal.is_causal, both.is_causal = True, False
    assert pattern_of(causal, is_causal=None, sliding_window=4) == Pattern(True, 3)
    assert pattern_of(both, is_causal=None, sliding_window=4) == Pattern(False, 3)
    assert pattern_of(causal, is_causal=False, sliding_window=4) == Pattern(False, 4)
    assert pattern_of(both, is_causal=False, sliding_window=None) == Pattern()
    assert Pattern(True, 3).within(4) == Pattern(True)
    assert Pattern(True, 3).within(5) == Pattern(True, 3)
