"""Packed and padded forwards are the same function: outputs and gradients, for each family that packs."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from encoders.packing import PACKED, pack, padded_inputs

TEXTS = ["今天天气很好", "我", "你好吗，我的朋友，今天一起去吃饭吗", "天气", "今天天气很好吗"] * 3


@given(st.lists(st.lists(st.integers(5, 90), min_size=1, max_size=40), min_size=1, max_size=30))
@settings(max_examples=60, deadline=None)
def test_packing_loses_nothing(token_lists):
    tokens = pack(token_lists)
    packed = list(tokens.input_ids.split(tokens.lengths.tolist()))
    assert [packed[place].tolist() for place in tokens.restored.tolist()] == token_lists
    assert sum(group.num_sentences for group in tokens.groups) == len(token_lists)
    assert sum(group.num_tokens for group in tokens.groups) == tokens.input_ids.numel()
    positions = tokens.positions.split(tokens.lengths.tolist())
    assert all(one.tolist() == list(range(len(one))) for one in positions)
    input_ids, mask = padded_inputs(tokens, pad=0)
    assert torch.equal(input_ids[mask.bool()], tokens.input_ids)
    assert mask.sum(1).tolist() == tokens.lengths.tolist()


@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "first_last", "weighted"])
def test_packed_equals_padded(any_folder, load, pooling):
    encoder = load(any_folder, pooling=pooling, dropout=0.0)
    if not encoder._packs:
        pytest.skip(f"{encoder.backbone.config.model_type} is padded, as it always was")
    assert encoder.backbone.config._attn_implementation == PACKED
    tokens = encoder.collate(encoder.tokenize(TEXTS))
    directions = torch.randn(len(TEXTS), encoder.dim, generator=torch.Generator().manual_seed(0))
    directions /= directions.norm(dim=-1, keepdim=True)  # the size of gradients that a cosine sends back

    def run(*, packs):
        encoder._packs = packs
        encoder.zero_grad()
        embeddings = encoder(tokens)
        (embeddings * directions).sum(-1).mean().backward()  # a mean over rows, as losses are
        return embeddings.detach(), {name: one.grad.clone() for name, one in encoder.named_parameters()}

    packed, packed_gradients = run(packs=True)
    encoder.backbone.set_attn_implementation("sdpa")
    padded, padded_gradients = run(packs=False)
    torch.testing.assert_close(packed, padded, rtol=0, atol=1e-5)
    for name, gradient in padded_gradients.items():
        torch.testing.assert_close(packed_gradients[name], gradient, rtol=0, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}")


def test_dropout_differs_between_sentences_and_steps(bert_folder, load):
    encoder = load(bert_folder, dropout=0.5).train()
    tokens = encoder.collate(encoder.tokenize(["今天天气很好", "今天天气很好"]))
    first, second = encoder(tokens)
    assert not torch.equal(first, second), "two views of a sentence must see different dropout"
    assert not torch.equal(encoder(tokens)[0], first)


def test_the_backbone_alone_still_takes_padded_input(bert_folder, load):
    encoder = load(bert_folder).eval()
    tokens = encoder.collate(encoder.tokenize(TEXTS))
    input_ids, mask = padded_inputs(tokens, pad=0)
    alone = encoder.backbone(input_ids=input_ids, attention_mask=mask).last_hidden_state[:, 0]
    encoder.pooling = "cls"
    torch.testing.assert_close(alone[tokens.restored], encoder(tokens), rtol=0, atol=1e-5)
