"""More and fewer layers: what stays the same, and what can be learnt afterwards."""

import numpy as np
import pytest
import torch

from juzhen.encoders.sentence_encoder import with_layers

TEXTS = ["今天天气很好", "我们在中国", "你好吗"]


def embeddings(encoder):
    return encoder.encode(TEXTS, batch_tokens=100, show_progress=False)


def unsettled(encoder):
    """The encoder with normalizations that are not the fresh ones, which would hide where they belong."""
    for name, weight in encoder.backbone.named_parameters():
        if "LayerNorm" in name:
            torch.nn.init.normal_(weight, mean=float(name.endswith("weight")), std=0.3)
    return encoder


@pytest.mark.parametrize("before", [0, 1, 2])
def test_new_layers_change_nothing_until_they_have_learnt(bert_folder, load, before):
    encoder = unsettled(load(bert_folder, initialize="random", layers=before, dropout=0.0))
    grown = with_layers(encoder, before + 2, seed=1)
    assert len(grown.backbone.encoder.layer) == before + 2
    assert grown.backbone.config.num_hidden_layers == before + 2
    np.testing.assert_allclose(embeddings(grown), embeddings(encoder), atol=2e-6)
    grown(grown.collate([[2, 9, 10, 3], [2, 11, 3]])).pow(3).sum().backward()
    matrices = [layer.output.dense.weight.grad for layer in grown.backbone.encoder.layer]
    assert all(gradient.abs().sum() > 0 for gradient in matrices)


def test_tables_that_were_learnt_alone_come_down_to_the_size_of_fresh_ones(bert_folder, load):
    encoder = load(bert_folder, initialize="random", layers=0)
    with torch.no_grad():
        encoder.backbone.embeddings.word_embeddings.weight.mul_(100)
    grown = with_layers(encoder, 1, seed=1).backbone
    std = grown.embeddings.word_embeddings.weight.std().item()
    assert std == pytest.approx(2 * grown.config.initializer_range, rel=1e-4)


def test_fewer_layers_are_the_first_ones(bert_folder, load):
    encoder = load(bert_folder)
    cut = load(bert_folder, layers=1)
    assert len(cut.backbone.encoder.layer) == 1
    first = encoder.backbone.encoder.layer[0].output.dense.weight
    torch.testing.assert_close(cut.backbone.encoder.layer[0].output.dense.weight, first, rtol=0, atol=0)
    assert with_layers(encoder, 2, seed=0) is encoder


def test_random_weights_of_another_depth_are_just_random(bert_folder, load):
    encoder = load(bert_folder, initialize="random", layers=3)
    assert encoder.backbone.encoder.layer[2].output.dense.weight.abs().sum() > 0
