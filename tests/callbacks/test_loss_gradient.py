"""The length of the gradient by what a loss reads: equation 45 of the notes on CoSENT, and when a warning is given."""

import logging

import pytest
import torch
from jobs import logged, module_of, run_job, weights

from callbacks.health import READINGS, LossGradient, _square
from juzhen.losses.pairwise_ranking import cosent

QUICK = (
    "training.duration=1 epochs",
    "evaluation.splits=[dev]",
    "backbone.dropout=0.0",
    "logger.every_steps=1",
)
KEY = "train/demo_sts/loss_gradient"


def test_of_embeddings_it_is_the_gradient_by_unit_vectors():
    """By hand with autograd: the loss as a function of vectors of length 1, which the model's only point along."""
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(10, 6, generator=generator) * torch.linspace(0.1, 9, 10)[:, None]
    targets = torch.arange(5) / 4

    def loss(embeddings):
        scores = torch.cosine_similarity(embeddings[:5], embeddings[5:])
        return cosent(scores, targets, temperature=0.05)

    unit = torch.nn.functional.normalize(vectors, dim=1).requires_grad_()
    loss(unit).backward()
    vectors.requires_grad_()
    loss(vectors).backward()
    assert _square(vectors, True).sqrt().item() == pytest.approx(unit.grad.norm().item(), rel=1e-5)
    assert _square(vectors, False).sqrt().item() == pytest.approx(vectors.grad.norm().item(), rel=1e-5)


def test_a_sentence_of_several_rows_counts_once(tiny_backbone):
    module = module_of(tiny_backbone, "dataset=[demo_sts]")
    module.watched = []
    texts = ["今天", "天气", "很好"]
    tokens = module.encoder.collate(module.encoder.tokenize(texts))
    embeddings = module.encoder(tokens)
    module.watch(embeddings, are_embeddings=True)
    (embeddings[[0, 0, 1]] * embeddings[[1, 2, 2]]).sum().backward()
    ((kept, are_embeddings),) = module.watched
    assert are_embeddings
    assert kept.grad.shape == (3, 32)
    torch.testing.assert_close(kept.grad[0], (kept[1] + kept[2]).detach())


@pytest.mark.slow
def test_it_is_logged_and_changes_nothing(tmp_path, tiny_backbone):
    watched = run_job(tmp_path / "a", tiny_backbone, *QUICK)
    alone = run_job(tmp_path / "b", tiny_backbone, *QUICK, "callbacks.loss_gradient=null")
    lengths = logged(watched, KEY)
    assert len(lengths) == 6
    assert min(lengths) > 0
    assert KEY not in (alone / "metrics" / "0" / "metrics.csv").read_text()
    assert weights(watched) == weights(alone)
    assert watched.name == alone.name


@pytest.mark.slow
def test_accumulation_and_pieces_leave_it_as_it_is(tmp_path, tiny_backbone):
    # The last batch of a step is the one that is logged: two of one batch each, or the second of two.
    plain, gathered, pieces = (
        logged(run_job(tmp_path / name, tiny_backbone, *QUICK, "optimizer.lr=1e-12", *words), KEY)
        for name, words in (
            ("plain", ()),
            ("gathered", ("training.accumulate=2",)),
            ("pieces", ("hardware.micro_batch_tokens=40",)),
        )
    )
    assert gathered == pytest.approx(plain[1::2], rel=1e-4)
    assert pieces == pytest.approx(plain, rel=1e-4)


@pytest.mark.parametrize(
    ("loss", "dataset"),
    [("bce", "demo_qmc"), ("ce", "demo_nli"), pytest.param("cosent", "demo_sts", marks=pytest.mark.slow)],
)
@pytest.mark.sampled(2)
def test_of_a_cross_encoder_it_is_the_gradient_by_scores_or_logits(loss, dataset, tmp_path, tiny_backbone):
    """A fresh head gives next to nothing: p is 1/2 or 1/3 for all rows, and the gradient of their mean is known."""
    run = run_job(
        tmp_path, tiny_backbone, "model=crossencoder", f"dataset=[{dataset}]", f"loss={loss}", *QUICK
    )
    first = logged(run, f"train/{dataset}/loss_gradient")[0]
    expected = {"bce": 0.5 / 8**0.5, "ce": ((2 / 3) ** 2 + 2 / 9) ** 0.5 / 8**0.5}
    if loss in expected:
        assert first == pytest.approx(expected[loss], rel=0.02)
    else:
        assert first > 0


def warned(caplog, lengths, low=0.1, high=10):
    caplog.clear()
    callback = LossGradient(low=low, high=high)
    with caplog.at_level(logging.WARNING):
        for step, length in enumerate(lengths):
            callback._judge("csts", length, step)
    return [record.getMessage() for record in caplog.records]


def test_a_warning_comes_once_and_says_which_way(caplog):
    assert warned(caplog, [0.5] * 9) == []
    assert warned(caplog, [0.01] * (READINGS - 1)) == []
    (message,) = warned(caplog, [0.01] * 20)
    assert "csts: the gradient of the loss" in message
    assert "in order already, or loss.temperature is too high" in message
    (message,) = warned(caplog, [50] * 20)
    assert "loss.temperature is too low" in message
    assert warned(caplog, [40, *[1] * 20]) == []


RANGE = ("callbacks.loss_gradient.low=1000", "callbacks.loss_gradient.high=2000")


@pytest.mark.parametrize(("words", "told"), [(("loss=cosent",), True), (("loss=cosine",), False)])
@pytest.mark.slow
def test_only_losses_of_comparisons_have_a_range(words, told, tmp_path, tiny_backbone, caplog):
    with caplog.at_level(logging.WARNING):
        run_job(tmp_path, tiny_backbone, *QUICK, *words, *RANGE)
    assert ("callbacks.loss_gradient.low=1000 and high=2000" in caplog.text) is told
