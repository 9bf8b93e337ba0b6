"""Losses of batches with classes and pytorch-metric-learning's own, in float64."""

import pytest
import torch
from loss_cases import gradients

from juzhen import losses

pytestmark = pytest.mark.oracle
theirs = pytest.importorskip("pytorch_metric_learning.losses", reason="needs pytorch-metric-learning")


PAIRS = [
    (losses.SupCon(temperature=0.1), theirs.SupConLoss(temperature=0.1)),
    (
        losses.MultiSimilarity(positive_temperature=1 / 2, negative_temperature=1 / 50, border=0.5),
        theirs.MultiSimilarityLoss(alpha=2, beta=50, base=0.5),
    ),
]


@pytest.mark.parametrize("seed", range(5))
def test_multi_similarity_and_supervised_contrast(seed):
    random = torch.Generator().manual_seed(seed)
    embeddings = torch.randn(24, 5, generator=random, dtype=torch.float64).requires_grad_()
    classes = torch.randint(4, (24,), generator=random)
    for ours, peer in PAIRS:
        value, expected = ours(embeddings, classes.double()), peer(embeddings, classes)
        assert value.item() == pytest.approx(expected.item(), rel=1e-9)
        for own, other in zip(*(gradients(each, [embeddings]) for each in (value, expected)), strict=True):
            torch.testing.assert_close(own, other, rtol=1e-9, atol=1e-12)
