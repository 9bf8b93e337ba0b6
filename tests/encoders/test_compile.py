"""A compiled encoder is the same function with the same names of weights."""

import pytest
import torch

from juzhen.encoders import compile_layers

pytestmark = pytest.mark.slow  # a C++ compiler is at work
TEXTS = ["今天天气很好", "我", "你好吗，我的朋友，今天一起去吃饭吗", "天气"]


def test_outputs_and_gradients_are_those_of_the_eager_encoder(bert_folder, load):
    encoder = load(bert_folder, dropout=0.0).train()
    names = list(encoder.state_dict())
    outcomes = []
    for compiled in (False, True):
        if compiled:
            compile_layers(encoder.backbone)
        encoder.zero_grad()
        embeddings = encoder(encoder.collate(encoder.tokenize(TEXTS)))
        embeddings.pow(2).mean().backward()
        outcomes.append(
            (embeddings.detach(), torch.cat([one.grad.flatten() for one in encoder.parameters()]))
        )
    torch.testing.assert_close(*[one[0] for one in outcomes], rtol=0, atol=1e-5)
    torch.testing.assert_close(*[one[1] for one in outcomes], rtol=0, atol=1e-5)
    assert list(encoder.state_dict()) == names
