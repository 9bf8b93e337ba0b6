"""The memory of a step by its estimate: of what is known in closed form, and of a step that is really taken."""

import pytest
import torch
from transformers import BertConfig

from juzhen.encoders.backbone_config import AdapterConfig
from juzhen.encoders.forward import pack
from juzhen.training import memory
from juzhen.training.memory import Living, StepPlan, largest_micro_batch, random_encoder, step_memory

LENGTHS = [6, 6, 9, 12, 12]


def architecture(layers=5, **sizes):
    sizes = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64, "vocab_size": 100} | sizes
    return BertConfig(num_hidden_layers=layers, max_position_embeddings=64, **sizes)


SETTINGS = [{}, {"checkpointing": True}, {"micro_batch_tokens": 24}, {"sparse": "max"}, {"sparse": "sum"}]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.sampled(3)
def test_it_is_what_a_step_on_the_processor_takes(settings, monkeypatch):
    """The same count of the bytes of a real step, of all layers."""
    monkeypatch.setattr(memory, "SLACK", 0.0)  # the allocator's
    plan = StepPlan(**settings)
    encoder = random_encoder(architecture(), plan)
    tokens = pack(
        [torch.ones(length).long().numpy() for length in LENGTHS], max_group_tokens=plan.micro_batch_tokens
    )
    with Living(encoder) as living:
        loss = memory._cost(encoder(tokens), plan)
        forward = living.most
        loss.backward()
    bytes_of_weights = 4 * sum(values.numel() for values in encoder.parameters())
    found = step_memory(architecture(), LENGTHS, plan)
    assert found.weights == found.gradients == found.optimizer / 2 == bytes_of_weights
    peak = 3 * bytes_of_weights + max(forward + bytes_of_weights, living.most)
    assert found.peak == pytest.approx(peak, rel=0.15)


@pytest.mark.slow
@pytest.mark.parametrize(("pooling", "kept"), [("max", 8 + 3 * 4), ("sum", 3 * 4)])
def test_each_text_and_token_of_the_vocabulary_counts(pooling, kept, monkeypatch):
    """For the way back: the places of the largest logits, these above 0, the weights, and their rows by column."""
    monkeypatch.setattr(memory, "SLACK", 0.0)
    texts, size = 16, 20_000
    wide, plan = architecture(vocab_size=size), StepPlan(sparse=pooling)
    sparse, dense = step_memory(wide, [2] * texts, plan), step_memory(wide, [2] * texts, StepPlan())
    further = (sparse.activations - dense.activations) / (4 * texts * size)
    assert (
        kept / 4 < further < kept / 4 + 9
    )  # beside logits of two tokens, their gradients, and of the vectors
    assert sparse.weights - dense.weights == pytest.approx(4 * size, rel=0.2)  # the bias; the table is tied


@pytest.mark.slow
def test_less_is_kept_in_each_way(monkeypatch):
    monkeypatch.setattr(memory, "SLACK", 0.0)  # the allocator's, which is that of the plain step
    wide = architecture(hidden_size=64, intermediate_size=256)
    lengths = [30] * 16
    whole = step_memory(wide, lengths, StepPlan())
    pieces = step_memory(wide, lengths, StepPlan(micro_batch_tokens=60))
    again = step_memory(wide, lengths, StepPlan(checkpointing=True))
    assert pieces.activations < whole.activations / 3
    assert again.activations < whole.activations / 2
    assert step_memory(wide, lengths, StepPlan(on_cuda=True)).activations < whole.activations
    pytest.importorskip("peft")
    few = step_memory(wide, lengths, StepPlan(adapter=AdapterConfig(rank=2)))
    assert few.gradients < whole.gradients / 20
    assert few.peak < whole.peak
    half = step_memory(wide, lengths, StepPlan(adapter=AdapterConfig(rank=2, base="bfloat16")))
    assert half.weights < 0.6 * few.weights


@pytest.mark.slow
def test_what_two_processes_share_out():
    """On CUDA: half of all, and two of five equal layers with what lies outside of them put together."""
    encoder = random_encoder(architecture(), StepPlan())
    sizes = {name: 4 * values.numel() for name, values in encoder.named_parameters()}
    layers = sum(size for name, size in sizes.items() if ".layer." in name)
    total = sum(sizes.values())
    together = total - layers + layers * 2 / 5
    shared = step_memory(architecture(), LENGTHS, StepPlan(on_cuda=True, sharing=2))
    assert (shared.weights, shared.gradients) == (total / 2 + together,) * 2
    assert shared.optimizer == total
    assert shared.activations == step_memory(architecture(), LENGTHS, StepPlan(on_cuda=True)).activations
    on_processor = step_memory(architecture(), LENGTHS, StepPlan(sharing=2))
    assert on_processor.weights == shared.weights + total  # the whole model lies beside its copy


def test_the_largest_micro_batch_that_fits(monkeypatch):
    taken = {None: 900, 32: 50, 64: 100, 128: 200, 256: 400}
    monkeypatch.setattr(
        memory,
        "step_memory",
        lambda architecture, lengths, plan: memory.StepMemory(0, 0, 0, taken[plan.micro_batch_tokens]),
    )
    lengths = [30] * 16
    sizes = {
        free: largest_micro_batch(None, lengths, StepPlan(), free=free)[0] for free in (1000, 250, 100, 10)
    }
    assert sizes == {1000: None, 250: 128, 100: 64, 10: 32}
