"""A batch in micro-batches: what is freed goes back, so that memory follows the micro-batch and not the batch."""

import sys

import pytest
import torch
from forks import python

from juzhen.encoders import forward
from juzhen.encoders.forward import FreedMemory, in_micro_batches, pack

CHILD = """
import sys, numpy as np, torch
torch.set_num_threads(2)
from transformers import AutoTokenizer, BertConfig, BertModel
from juzhen.core.machine import peak_mib
from juzhen.encoders.sentence_encoder import SentenceEncoder
backbone = BertModel(BertConfig.from_pretrained("juzhen/builtin/encoder"), add_pooling_layer=False)
tokenizer = AutoTokenizer.from_pretrained("juzhen/builtin/encoder")
encoder = SentenceEncoder(backbone, tokenizer, pooling="mean", normalize=False, max_length=128, projections=[])
encoder.micro_batch_tokens = 1100
encoder.train()
draws = np.random.default_rng(0)
for step in range(2):
    lengths = np.clip(draws.normal(17, 7, int(sys.argv[1])).astype(int), 5, 64)
    encoder(encoder.collate([draws.integers(10, 7000, length).tolist() for length in lengths])).pow(2).mean().backward()
print("peak", peak_mib())
"""


def tokens():
    return pack([[1, 2], [3, 4, 5], [6] * 7, [8] * 9], max_group_tokens=9)


def test_pieces_give_the_rows_and_the_gradient_of_the_whole():
    table = torch.randn(10, 3, dtype=torch.float64, requires_grad=True)

    def sums(part):
        return torch.stack([table[ids].sum(0) for ids in part.input_ids.split(part.lengths.tolist())]).exp()

    whole = sums(tokens())
    (expected,) = torch.autograd.grad(whole.prod(), table)
    split = list(tokens().micro_batches(9))
    assert len(split) == 3
    found = in_micro_batches(sums, split)
    torch.testing.assert_close(found, whole, rtol=0, atol=0)
    (gradient,) = torch.autograd.grad(found.prod(), table)
    torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=0)


def test_a_piece_shows_its_device_to_what_keeps_the_generators(monkeypatch):
    """`checkpoint` keeps those of the tensors it is given; a GPU would drop something else the second time."""
    shown = []

    def keeps(function, *arguments, **how):
        shown.extend(one for one in arguments if isinstance(one, torch.Tensor))
        assert how == {"use_reentrant": False}  # generators are kept by default
        return function(*arguments)

    monkeypatch.setattr(forward, "checkpoint", keeps)
    split = list(tokens().micro_batches(9))
    in_micro_batches(lambda piece: piece.lengths.float().requires_grad_(), split)
    assert [id(one) for one in shown] == [id(piece.input_ids) for piece in split]


@pytest.mark.gpu
def test_a_gpu_drops_the_same_the_second_time():
    weight = torch.ones(1, device="cuda", requires_grad=True)
    split = list(tokens().to("cuda").micro_batches(9))
    found = in_micro_batches(
        lambda piece: torch.nn.functional.dropout(weight * torch.ones(64, device="cuda"), 0.5), split
    )
    # Entries are weight times what is kept: with another mask the second time the two sums would differ.
    (gradient,) = torch.autograd.grad(found.square().sum() / 2, weight)
    assert gradient.item() == found.square().sum().item()


def test_a_mac_draws_the_same_numbers_the_second_time(monkeypatch):
    class OnMac(torch.Tensor):
        device = torch.device("mps")

    place = [0]  # the generator's state: how many numbers it has given
    monkeypatch.setattr(torch.mps, "get_rng_state", lambda: list(place))
    monkeypatch.setattr(torch.mps, "set_rng_state", lambda state: place.__setitem__(0, state[0]))

    def draw(piece):
        place[0] += 1
        return place[0]

    numbers = torch.zeros(1).as_subclass(OnMac)
    first, second = forward._alike(draw), forward._alike(draw)
    assert [first(numbers, None), second(numbers, None)] == [1, 2]
    assert [second(numbers, None), first(numbers, None)] == [2, 1]
    assert place == [2]  # what comes after goes on as if nothing had been drawn again


def test_memory_is_given_back_once_enough_has_piled_up(monkeypatch):
    calls, slack = [], forward.SLACK_BYTES
    sizes = iter([100, 100 + slack, 101 + slack, 120, 90, 91 + slack, 95])
    monkeypatch.setattr(forward, "_malloc_trim", lambda: calls.append)
    monkeypatch.setattr(forward, "_resident_bytes", lambda: next(sizes))
    freed = FreedMemory()
    freed.give_back()
    assert calls == []
    freed.give_back()
    assert len(calls) == 1
    freed.give_back()  # now 90: the least so far
    freed.give_back()
    assert len(calls) == 2


def test_what_cannot_be_given_back_is_not_asked_for_again_and_again(monkeypatch):
    calls = []
    held = 10 * forward.SLACK_BYTES
    sizes = iter([0, held, held, held, held])
    monkeypatch.setattr(forward, "_malloc_trim", lambda: calls.append)
    monkeypatch.setattr(forward, "_resident_bytes", lambda: next(sizes))
    freed = FreedMemory()
    for _ in range(3):
        freed.give_back()
    assert len(calls) == 1


def test_without_such_an_allocator_nothing_is_done(monkeypatch):
    monkeypatch.setattr(forward, "_malloc_trim", lambda: None)
    monkeypatch.setattr(forward, "_resident_bytes", lambda: pytest.fail("not asked for"))
    FreedMemory().give_back()


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is given back on Linux only")
def test_eight_times_the_batch_needs_hardly_more_memory():
    peaks = []
    for sentences in (512, 4096):
        done = python("-c", CHILD, sentences, check=True)
        peaks.append(float(done.stdout.split("peak ")[1]))
    assert peaks[1] - peaks[0] < 128, peaks
