"""Attention of each sentence to itself, in outputs and in gradients: in groups of like length, and by the kernels of a
GPU: what they are handed is right, and, where there is a GPU, what they give back."""

from functools import partial
from itertools import pairwise

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from juzhen.encoders import forward
from juzhen.encoders.forward import _by_groups, flash, memory_efficient, pack, ragged_kernel

LENGTHS = [3, 9, 4, 4, 12, 1, 30, 31, 7, 2]
HEADS, WIDTH, SCALE = 2, 16, 0.3


def states(dtype=torch.float32, *, device="cpu", width=WIDTH):
    generator, drawn = torch.Generator().manual_seed(0), torch.float64 if dtype is torch.float64 else None
    return [
        torch.randn(sum(LENGTHS), HEADS, width, generator=generator, dtype=drawn)
        .to(device, dtype)
        .requires_grad_()
        for _ in range(3)
    ]


def packed_sentences():
    return pack([[5] * length for length in LENGTHS])


def by_sentence(ends, *columns):
    """The (heads, length, head_dim) of each sentence, from packed columns."""
    edges = ends.tolist()
    for start, end in pairwise(edges):
        yield [one[start:end].transpose(0, 1) for one in columns]


def defined(query, key, value, ends, scale):
    """Attention of each sentence to itself by the definition."""
    parts = [
        (q @ k.transpose(1, 2) * scale).softmax(-1) @ v for q, k, v in by_sentence(ends, query, key, value)
    ]
    return torch.cat(parts, dim=1).transpose(0, 1)


def gradients_of(query, key, value, ends, scale, gradient):
    """Its gradients by the rule for a softmax: below autograd, where an operator's kernel runs, none are recorded."""
    parts = []
    for q, k, v, g in by_sentence(ends, query, key, value, gradient):
        weights = (q @ k.transpose(1, 2) * scale).softmax(-1)
        of_weights = g @ v.transpose(1, 2)
        of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdim=True))
        parts.append(
            (of_scores @ k * scale, of_scores.transpose(1, 2) @ q * scale, weights.transpose(1, 2) @ g)
        )
    return [torch.cat(column, dim=1).transpose(0, 1) for column in zip(*parts, strict=True)]


def outcome(columns, forward, weigh=torch.square):
    """What `forward` gives for the columns, and the gradients of all that it gives, weighed and summed."""
    output = forward(*columns)
    weigh(output if output.dtype is torch.float64 else output.float()).sum().backward()
    return [output.detach(), *(one.grad for one in columns)]


def checked(query, key, value, ends, also_ends, longest, also_longest):
    """What a kernel demands of a caller, and of which it says nothing when it is not so."""
    assert ends.dtype is also_ends.dtype is torch.int32
    assert ends.tolist() == also_ends.tolist()
    assert ends[0] == 0
    assert ends[-1] == len(query) == len(key) == len(value)
    assert longest == also_longest == ends.diff().max()
    assert all(one.stride(-1) == 1 for one in (query, key, value))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_groups_equal_the_definition(dtype):
    tokens = packed_sentences()
    ends = torch.tensor([0, *sorted(LENGTHS)]).cumsum(0)
    direction = torch.randn(
        sum(LENGTHS), HEADS, WIDTH, generator=torch.Generator().manual_seed(1), dtype=dtype
    )
    found, expected = (
        outcome(states(dtype), forward, lambda output: output * direction)
        for forward in (
            lambda *columns: _by_groups(*columns, tokens, scale=SCALE, rate=0.0),
            lambda *columns: defined(*columns, ends, SCALE),
        )
    )
    tolerance = 1e-12 if dtype is torch.float64 else 1e-5
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)


@pytest.mark.slow
def test_attention_is_dropped_at_the_rate_and_rescaled():
    tokens = packed_sentences()
    query, key, _ = states()
    torch.manual_seed(0)
    ones = torch.ones_like(query)
    outputs = torch.stack([_by_groups(query, key, ones, tokens, scale=0.01, rate=0.4) for _ in range(300)])
    assert outputs.mean().item() == pytest.approx(1, abs=0.02)
    single = outputs[:, 0, :, 0].flatten()  # the sentence of one token: its weight is kept whole or dropped
    assert (single == 0).float().mean().item() == pytest.approx(0.4, abs=0.1)
    assert sorted(single.unique().tolist()) == pytest.approx([0.0, 1 / 0.6], rel=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_bf16_backward_pass_is_that_of_fp32_within_its_precision(dtype):
    tokens, gradients = packed_sentences(), []
    for one in (torch.float32, dtype):
        columns = states(one)
        _by_groups(*columns, tokens, scale=SCALE, rate=0.0).float().pow(2).sum().backward()
        gradients.append(torch.cat([column.grad.float().flatten() for column in columns]))
    difference = (gradients[0] - gradients[1]).norm() / gradients[0].norm()
    assert difference < (0.02 if dtype is torch.bfloat16 else 1e-6)


@pytest.fixture
def kernels_on_cpu():
    """The two operators as a CPU would have them: by the definition. Yields their names as they are called."""
    called = []

    def flash_forward(q, k, v, ends, ends_k, longest, longest_k, rate, causal, debug, *, scale=None, **_):
        called.append("flash")
        checked(q, k, v, ends, ends_k, longest, longest_k)
        assert (rate, causal, debug) == (0.0, False, False)
        state = torch.zeros(2, dtype=torch.uint64)
        sums = q.new_zeros(q.shape[1], len(q), dtype=torch.float32)
        return defined(q, k, v, ends, scale), sums, state, state.clone(), q.new_zeros(0)

    def flash_backward(gradient, q, k, v, out, sums, ends, *_, scale=None, **__):
        return tuple(gradients_of(q, k, v, ends, scale, gradient))

    def efficient_forward(
        q, k, v, bias, ends, ends_k, longest, longest_k, rate, mask, learns=False, *, scale=None, **_
    ):
        called.append("memory_efficient")
        checked(q[0], k[0], v[0], ends, ends_k, longest, longest_k)
        assert (bias, rate, mask) == (None, 0.0, 0)
        assert learns == (q.requires_grad or k.requires_grad or v.requires_grad)
        sums, place = q.new_zeros(0), torch.zeros((), dtype=torch.int64)
        return (
            defined(q[0], k[0], v[0], ends, scale).unsqueeze(0),
            sums,
            place,
            place.clone(),
            longest,
            longest,
        )

    def efficient_backward(gradient, q, k, v, bias, out, ends, *_, scale=None, **__):
        found = gradients_of(q[0], k[0], v[0], ends, scale, gradient[0])
        return *(one.unsqueeze(0) for one in found), None

    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("_flash_attention_forward", flash_forward, "CPU")
        library.impl("_flash_attention_backward", flash_backward, "CPU")
        library.impl("_efficient_attention_forward", efficient_forward, "CPU")
        library.impl("_efficient_attention_backward", efficient_backward, "CPU")
        yield called


@pytest.mark.parametrize("kernel", [flash, memory_efficient])
def test_outputs_and_gradients_equal_those_of_groups(kernels_on_cpu, kernel):
    tokens = packed_sentences()
    found, expected = (
        outcome(states(), partial(attend, tokens=tokens, scale=SCALE, rate=0.0))
        for attend in (kernel, _by_groups)
    )
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    assert kernels_on_cpu == [kernel.__name__]


@pytest.mark.parametrize("kernel", [flash, memory_efficient])
def test_an_encoder_gives_the_same_embeddings_and_gradients(
    kernels_on_cpu, monkeypatch, any_folder, load, kernel
):
    encoder = load(any_folder, pooling="mean", dropout=0.0)
    if not encoder._packs:
        pytest.skip(f"{encoder.backbone.config.model_type} is padded, as it always was")
    tokens = encoder.collate(encoder.tokenize(["今天天气很好", "我", "你好吗，我的朋友，今天一起去吃饭吗"]))
    encoder.double()
    outcomes = []
    for chosen in (kernel, None):
        monkeypatch.setattr(forward, "ragged_kernel", lambda *states, chosen=chosen, **how: chosen)
        encoder.zero_grad()
        embeddings = encoder(tokens)
        embeddings.square().sum().backward()
        gradient = torch.cat([one.grad.flatten() for one in encoder.parameters()])
        outcomes.append((embeddings.detach(), gradient))
    for found, expected in zip(*outcomes, strict=True):
        assert (found - expected).norm() / expected.norm() < 1e-6  # pooling is in float32 by design
    assert set(kernels_on_cpu) == {kernel.__name__}


class Waits(TorchDispatchMode):
    """Refuses what would make a processor wait for its GPU: fetching a number."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        assert function is not torch.ops.aten._local_scalar_dense.default
        return function(*args, **(kwargs or {}))


def test_nothing_is_fetched_and_boundaries_are_made_once(kernels_on_cpu, monkeypatch):
    tokens = packed_sentences()
    monkeypatch.setitem(globals(), "checked", lambda *what: None)  # it does fetch
    monkeypatch.setitem(globals(), "defined", lambda query, *what: query.clone())
    with Waits():
        for _ in range(2):
            flash(*states(), tokens, scale=SCALE, rate=0.0)
    assert tokens.boundaries is tokens.boundaries


def test_other_devices_and_odd_widths_have_no_kernel():
    on_cpu = [torch.zeros(1, HEADS, 5, WIDTH) for _ in range(3)]
    assert ragged_kernel(*on_cpu, rate=0.0) is None
    odd = [torch.zeros(1, HEADS, 5, 12, device="meta") for _ in range(3)]
    assert ragged_kernel(*odd, rate=0.0) is None


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_kernel_of_a_gpu_equals_groups(dtype):
    tokens = packed_sentences().to("cuda")
    outcomes = []
    for way in ("kernel", "groups"):
        columns = states(dtype, device="cuda")
        asked = [one.transpose(0, 1).unsqueeze(0) for one in columns]
        kernel = ragged_kernel(*asked, rate=0.0)
        assert kernel is (flash if dtype is torch.bfloat16 else memory_efficient)
        attend = kernel if way == "kernel" else _by_groups
        outcomes.append(outcome(columns, partial(attend, tokens=tokens, scale=SCALE, rate=0.0)))
    # bf16 has 8 bits: outputs are below 4 and gradients below 16, each a sum of rounded products.
    tolerance = 1e-5 if dtype is torch.float32 else 6e-2
    torch.testing.assert_close(*outcomes, rtol=0.02, atol=tolerance)


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", [flash, memory_efficient])
def test_the_kernel_of_a_gpu_drops_at_the_rate_and_rescales(kernel):
    tokens = packed_sentences().to("cuda")
    query, key, _ = states(torch.bfloat16, device="cuda")
    ones = torch.ones_like(query)
    outputs = torch.stack([kernel(query, key, ones, tokens, scale=0.01, rate=0.4) for _ in range(300)])
    assert outputs.float().mean().item() == pytest.approx(1, abs=0.02)
