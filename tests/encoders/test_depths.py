"""Pooled states of inner layers: those of a plain padded forward, in one pass, whole or in pieces."""

import pytest
import torch

from juzhen.encoders.sentence_encoder import layer_at

TEXTS = ["今天天气很好", "我", "你好吗，我的朋友，今天一起去吃饭吗", "天气", "今天天气很好吗"]


@pytest.mark.parametrize(
    ("depth", "count", "layer"),
    [(0.01, 12, 1), (0.5, 12, 6), (0.7, 10, 7), (1, 12, 12), (0.5, 1, 1), (1, 0, 0)],
)
def test_a_share_of_the_depth_is_a_layer(depth, count, layer):
    assert layer_at(depth, count) == layer


def plain_means(encoder):
    """Mean over the tokens after each layer, sentence by sentence, by transformers alone."""
    encoder.backbone.set_attn_implementation("eager")
    found = []
    for text in TEXTS:
        given = encoder.tokenizer(text, return_tensors="pt")
        given = {name: given[name] for name in ("input_ids", "attention_mask")}
        found.append(
            torch.stack(
                [
                    one[0].mean(dim=0)
                    for one in encoder.backbone(**given, output_hidden_states=True).hidden_states
                ]
            )
        )
    return torch.stack(found)


def test_states_are_those_of_a_plain_forward(any_folder, load):
    encoder = load(any_folder, pooling="mean").eval()
    tokens = encoder.collate(encoder.tokenize(TEXTS))
    with torch.no_grad():
        final, layers = encoder.at_depths(tokens, [0.3, 0.5, 1.0])
        torch.testing.assert_close(final, encoder(tokens), rtol=0, atol=0)
        expected = plain_means(encoder)
    assert encoder.backbone.config.num_hidden_layers == 2
    for found, number in zip(layers, (1, 1, 2), strict=True):
        torch.testing.assert_close(found, expected[:, number], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(layers[0], layers[2], atol=0.1)


@pytest.mark.parametrize("pooling", ["mean", "cls", "first_last"])
def test_pieces_give_the_same_states_and_gradients(bert_folder, load, pooling):
    encoder = load(bert_folder, pooling=pooling, dropout=0.0).double()
    encoder.piece_tokens = 10  # groups are cut at collate time
    tokens = encoder.collate(encoder.tokenize(TEXTS))
    assert len(list(tokens.pieces(10))) > 2
    found = []
    for piece_tokens in (None, 10):
        encoder.piece_tokens = piece_tokens
        encoder.zero_grad()
        final, (inner, last) = encoder.at_depths(tokens, [0.5, 1])
        assert last is final
        (inner.pow(3).sum() + final.pow(2).sum()).backward()
        gradient = torch.cat([one.grad.flatten() for one in encoder.parameters() if one.grad is not None])
        found.append((inner.detach(), final.detach(), gradient))
    for whole, pieced in zip(*found, strict=True):
        torch.testing.assert_close(pieced, whole, rtol=1e-5, atol=1e-6)


def test_embeddings_of_length_1_leave_inner_states_as_they_are(bert_folder, load):
    encoder = load(bert_folder, pooling="mean", normalise=True).eval()
    tokens = encoder.collate(encoder.tokenize(TEXTS))
    with torch.no_grad():
        final, (inner, _) = encoder.at_depths(tokens, [0.5, 1])
    torch.testing.assert_close(final.norm(dim=1), torch.ones(len(TEXTS)))
    assert (inner.norm(dim=1) > 1.5).all()
