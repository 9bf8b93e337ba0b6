"""Packed and padded gradients in double precision, where rounding cannot hide a mistake."""

import pytest
import torch

TEXTS = ["今天天气很好", "我", "你好吗，我的朋友，今天一起去吃饭吗", "天气", "今天天气很好吗"] * 3


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_gradients_of_an_unscaled_sum(any_folder, load, pooling):
    encoder = load(any_folder, pooling=pooling, dropout=0.0).double()
    if not encoder._packs:
        pytest.skip(f"{encoder.backbone.config.model_type} is padded, as it always was")
    tokens = encoder.collate(encoder.tokenize(TEXTS))
    direction = torch.randn(len(TEXTS), encoder.dim, generator=torch.Generator().manual_seed(0))
    gradients = []
    for packs in (True, False):
        encoder._packs = packs
        if not packs:
            encoder.backbone.set_attn_implementation("sdpa")
        encoder.zero_grad()
        (encoder(tokens) * direction).sum().backward()
        gradients.append(torch.cat([one.grad.flatten() for one in encoder.parameters()]))
    # Pooling is in float32 by design: its rounding is the same on both ways, up to the order of a sum.
    difference = (gradients[0] - gradients[1]).norm() / gradients[1].norm()
    assert difference < 1e-6
