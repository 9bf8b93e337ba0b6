"""Whole jobs on a GPU: they learn what they learn on a processor. pytest -m gpu -n 10 takes two minutes on an H100."""

import numpy as np
import pytest
import torch
from device_jobs import GROUPS, WAITS, on_their_sets
from jobs import logged, run_job, tiny_encoder

from juzhen.encoders import SentenceEncoder

pytestmark = pytest.mark.gpu

ALIKE = ("backbone.dropout=0.0", "logger.every_steps=1", "training.duration=4 steps", "optimizer.eps=1e-3")
GPU = ("hardware=cuda", "hardware.num_workers=0", "hardware.threads=1")
JOBS = [*(" ".join(job) for group in GROUPS.values() for job in group), *WAITS]
for different in (
    "r_drop",
    "cosent_sampled",
):  # they drop states and draw pairs, which each device does in its own way
    JOBS.remove(f"loss={different}")
"""Every loss, and every model."""


@pytest.mark.parametrize("words", JOBS)
def test_losses_are_those_of_a_processor(tmp_path, tiny_backbone, news, words):
    words = (*on_their_sets(words.split(), news, tmp_path), *ALIKE)
    there = run_job(tmp_path / "there", tiny_backbone, *words, *GPU, "hardware.precision=32-true")
    here = run_job(tmp_path / "here", tiny_backbone, *words)
    assert len(logged(here)) == 4
    assert logged(there) == pytest.approx(logged(here), rel=1e-3)


@pytest.mark.parametrize(
    "words",
    [
        ("loss=cosent",),
        ("loss=cosent", "hardware.micro_batch_tokens=40"),
        ("loss=cosent", "hardware.gradient_checkpointing=true"),
        ("loss=cosent", "hardware.compile=true"),
        ("loss=info_nce", "dataset=[demo_qmc]"),
        ("model=mlm",),
        ("model=crossencoder", "loss=bce", "dataset=[demo_qmc]"),
    ],
    ids=["cosent", "pieces", "recomputed", "compiled", "info_nce", "mlm", "crossencoder"],
)
def test_losses_in_bf16_are_near_those_of_a_processor(tmp_path, tiny_backbone, words):
    there = run_job(tmp_path / "there", tiny_backbone, *words, *ALIKE, *GPU)
    here = run_job(tmp_path / "here", tiny_backbone, *words, *ALIKE)
    assert logged(there) == pytest.approx(logged(here), rel=3e-2)


@pytest.mark.parametrize("weights", ["mean_loss", "loss_ratio", "uncertainty", "gradnorm", "pcgrad", "focal"])
def test_weights_of_sets_follow_on_a_gpu(tmp_path, tiny_backbone, weights):
    words = (
        "loss=cosent",
        "dataset=[demo_sts,demo_qmc]",
        "schedule.sample_by=blend",
        f"weights={weights}",
        *ALIKE,
    )
    there = run_job(tmp_path / "there", tiny_backbone, *words, *GPU, "hardware.precision=32-true")
    here = run_job(tmp_path / "here", tiny_backbone, *words)
    assert logged(there) == pytest.approx(logged(here), rel=1e-3)


def test_pieces_with_dropout_are_the_whole(tmp_path, tiny_backbone):
    """One piece holds everything, so that the same numbers are drawn: twice for it, once for the whole."""
    words = (*ALIKE, *GPU, "backbone.dropout=0.1", "hardware.precision=32-true", "loss=cosent")
    whole, pieces = (
        logged(run_job(tmp_path / name, tiny_backbone, *words, *more))
        for name, more in (("whole", ()), ("pieces", ("hardware.micro_batch_tokens=100000",)))
    )
    assert pieces == pytest.approx(whole, rel=1e-4)


def test_vectors_of_texts_are_those_of_a_processor(tiny_backbone):
    encoder = tiny_encoder(tiny_backbone)
    texts = [f"第{number}句" + "话" * (number % 20) for number in range(200)]
    expected = encoder.encode(texts, show_progress=False)
    found = encoder.to("cuda").encode(texts, show_progress=False)
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_folder_is_opened_on_a_gpu(tmp_path, tiny_backbone):
    tiny_encoder(tiny_backbone).save(tmp_path / "encoder")
    encoder = SentenceEncoder.load(tmp_path / "encoder", device="cuda")
    assert encoder.device == torch.device("cuda", 0)
