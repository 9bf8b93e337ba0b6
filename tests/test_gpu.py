"""Whole jobs on a GPU: they learn what they learn on a processor."""

import pytest
from jobs import logged, run_job

pytestmark = pytest.mark.gpu

ALIKE = ("backbone.dropout=0.0", "logger.every_steps=1", "training.duration=8 steps", "optimizer.eps=1e-3")
GPU = ("hardware=cuda", "hardware.num_workers=0", "hardware.threads=1")


@pytest.mark.parametrize(
    "words",
    [
        ("loss=cosent",),
        ("loss=cosent", "hardware.micro_batch_tokens=40"),
        ("loss=info_nce", "dataset=[demo_qmc]"),
        ("model=mlm",),
        ("model=crossencoder", "loss=bce", "dataset=[demo_qmc]"),
    ],
    ids=["cosent", "pieces", "info_nce", "mlm", "crossencoder"],
)
@pytest.mark.parametrize(("precision", "tolerance"), [("32-true", 1e-4), ("bf16-mixed", 3e-2)])
def test_losses_are_those_of_a_processor(tmp_path, tiny_backbone, words, precision, tolerance):
    words = (*words, *ALIKE)
    there = run_job(tmp_path / "there", tiny_backbone, *words, *GPU, f"hardware.precision={precision}")
    here = run_job(tmp_path / "here", tiny_backbone, *words)
    assert len(logged(here)) == 8
    assert logged(there) == pytest.approx(logged(here), rel=tolerance)


def test_pieces_with_dropout_are_the_whole(tmp_path, tiny_backbone):
    """One piece holds everything, so that the same numbers are drawn: twice for it, once for the whole."""
    words = (*ALIKE, *GPU, "backbone.dropout=0.1", "hardware.precision=32-true", "loss=cosent")
    whole, pieces = (
        logged(run_job(tmp_path / name, tiny_backbone, *words, *more))
        for name, more in (("whole", ()), ("pieces", ("hardware.micro_batch_tokens=100000",)))
    )
    assert pieces == pytest.approx(whole, rel=1e-4)
