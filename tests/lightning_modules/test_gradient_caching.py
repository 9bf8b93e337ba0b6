"""Micro-batches give the step of the whole batch: every loss, accumulation, and a plain oracle of the cache."""

import numpy as np
import pytest
import torch
from jobs import typed_job

from juzhen.core.examples import Examples, Kind
from juzhen.encoders import load_backbone
from lightning_modules.biencoder import BiEncoder
from lightning_modules.loss_factory import build_losses, match_losses

PIECE = 24
TEXTS = [f"第{number}句说的是{'很' * (number % 7)}好的天气" for number in range(24)]
CASES = [
    ("cosent", Kind.SCORED_PAIR),
    ("cosent", Kind.LABELLED_PAIR),
    ("cosent_layers", Kind.SCORED_PAIR),
    ("cosine", Kind.SCORED_PAIR),
    ("contrastive", Kind.LABELLED_PAIR),
    ("online_contrastive", Kind.LABELLED_PAIR),
    ("info_nce", Kind.POSITIVE_PAIR),
    ("info_nce", Kind.TRIPLET),
    ("info_nce_gte", Kind.TRIPLET),
    ("list_mle", Kind.TRIPLET),
    ("triplet", Kind.TRIPLET),
    ("softmax", Kind.NLI_PAIR),
]


def rows(kind):
    """Eight rows of the kind, all over one small table of sentences."""
    order = np.random.default_rng(0).permutation(24)
    columns = {
        Kind.NLI_PAIR: ("premise", "hypothesis"),
        Kind.POSITIVE_PAIR: ("anchor", "positive"),
        Kind.TRIPLET: ("anchor", "positive", "negative"),
    }.get(kind, ("text_a", "text_b"))
    texts = {name: [TEXTS[place] for place in order[8 * at : 8 * at + 8]] for at, name in enumerate(columns)}
    targets = {
        Kind.SCORED_PAIR: np.arange(8) / 7,
        Kind.LABELLED_PAIR: np.arange(8) % 2,
        Kind.NLI_PAIR: np.arange(8) % 3,
    }.get(kind)
    return Examples.from_texts("set", "train", kind=kind, texts=texts, targets=targets)


def build(backbone, loss, kind, *, dtype):
    """A bi-encoder without dropout whose one loss learns from rows of `kind`."""
    words = (
        f"loss={loss}",
        "backbone=random_small",
        f"backbone.path={backbone}",
        "backbone.dropout=0.0",
        "dataset=[demo_sts]",
    )
    job = typed_job(*words)
    job.dataset["demo_sts"].kind = str(kind)
    losses = build_losses(match_losses(job), dim=32, num_classes={"demo_sts": 3})
    module = BiEncoder(
        encoder=load_backbone(job.backbone, seed=1), losses=losses, job=job, total_steps=1, warmup_steps=0
    )
    module.losses["set"] = losses["demo_sts"]
    return module.to(dtype)


def gradients(module, batch, *, micro_batch_tokens):
    """The loss and the gradient of every weight."""
    module.zero_grad()
    module.encoder.micro_batch_tokens = micro_batch_tokens
    loss, _ = module.objective(batch)
    loss.backward()
    return loss.detach(), {name: one.grad for name, one in module.named_parameters() if one.grad is not None}


@pytest.mark.parametrize(("loss", "kind"), CASES, ids=[f"{loss}-{kind}" for loss, kind in CASES])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])
@pytest.mark.sampled(12)
def test_every_loss_has_the_gradients_of_the_whole_batch(tiny_backbone, loss, kind, dtype):
    module = build(tiny_backbone, loss, kind, dtype=dtype)
    module.encoder.micro_batch_tokens = PIECE  # groups are cut at collate time
    batch = module.collate(rows(kind), np.arange(8))
    assert len(list(batch.tokens.micro_batches(PIECE))) > 3
    whole, expected = gradients(module, batch, micro_batch_tokens=None)
    pieced, found = gradients(module, batch, micro_batch_tokens=PIECE)
    torch.testing.assert_close(pieced, whole, rtol=1e-6, atol=0)
    assert found.keys() == expected.keys()
    length = torch.stack([one.norm() for one in expected.values()]).norm().item()
    assert length > 1e-3
    tolerance = length * (1e-6 if dtype is torch.float32 else 1e-13)
    for name, gradient in expected.items():
        difference = (found[name] - gradient).abs().max().item()
        assert difference <= tolerance, name


def test_labelled_cosent_equals_the_cache_written_out_by_hand(tiny_backbone):
    """Gao et al. 2021, section 3: embed without graph, gradients at the embeddings, then piece by piece."""
    module = build(tiny_backbone, "cosent", Kind.LABELLED_PAIR, dtype=torch.float64)
    module.encoder.micro_batch_tokens = PIECE
    batch = module.collate(rows(Kind.LABELLED_PAIR), np.arange(8))
    _, expected = gradients(module, batch, micro_batch_tokens=PIECE)
    module.zero_grad()
    module.encoder.micro_batch_tokens = None
    with torch.no_grad():
        cached = module.encoder(batch.tokens)
    leaf = cached.clone().requires_grad_()
    module.encoder.forward, forward = (lambda tokens: leaf), module.encoder.forward
    module.objective(batch)[0].backward()
    module.encoder.forward = forward
    at_embeddings = torch.empty_like(leaf.grad)
    at_embeddings[batch.tokens.inverse_permutation] = leaf.grad
    done = 0
    for piece in batch.tokens.micro_batches(PIECE):
        module.encoder(piece).backward(at_embeddings[done : done + len(piece)])
        done += len(piece)
    for name, one in module.named_parameters():
        torch.testing.assert_close(one.grad, expected[name], rtol=0, atol=1e-12)
