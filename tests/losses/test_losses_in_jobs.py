"""Whole jobs with losses that are fed in ways of their own: one text a row, one sentence twice, a head."""

import pytest
from expected_losses import EXPECTED
from jobs import logged, run_job

from juzhen.core.examples import Kind
from juzhen.core.result import Result
from lightning_modules.loss_factory import declared_loss
from tools.loss_table import options

FIRST = {Kind.SCORED_PAIR: "demo_sts", Kind.NLI_PAIR: "demo_nli"}
"""Set of the kind that a loss names first; others are made of 0/1 pairs."""

STEADY = ("logger.every_steps=1", "seed=42", "hardware.precision=32-true", "training.duration=4 epochs")


@pytest.mark.parametrize(
    "loss", ["by_kind", *(name for name, one in EXPECTED.items() if one.kinds == "classes")]
)
@pytest.mark.slow
def test_classes_of_texts_are_learnt(loss, news, tmp_path, tiny_backbone):
    """by_kind takes prototypes for them."""
    words = (*STEADY, *news, f"loss={loss}", "training.patience=null")
    run = run_job(tmp_path, tiny_backbone, *words)
    assert Result.read(run).training["chosen_by"] == "the best dev class_mean_accuracy of tnews"
    values = logged(run)
    assert len(values) == 24
    assert sum(values[-6:]) < 0.7 * sum(values[:6])


@pytest.mark.parametrize(
    ("loss", "dropout", "is_itself"),
    [("simcse", 0.0, True), ("simcse", 0.3, False), ("simcse_nt_xent", 0.3, False)],
)
@pytest.mark.slow
def test_simcse_sees_two_views(loss, dropout, is_itself, tmp_path, tiny_backbone):
    """Without dropout a sentence is itself, with a cosine of 1; with dropout it is only near itself."""
    words = (f"loss={loss}", "dataset=[demo_sts]", f"backbone.dropout={dropout}")
    run = run_job(tmp_path, tiny_backbone, *STEADY, *words)
    cosines, values = logged(run, "train/demo_sts/positive_score"), logged(run)
    assert all((cosine > 0.9999) == is_itself for cosine in cosines)
    assert values[-1] < values[0]


@pytest.mark.slow
@pytest.mark.parametrize("loss", [name for name, one in EXPECTED.items() if one.sets])
def test_the_loss_falls(loss, tmp_path, tiny_backbone):
    kind = declared_loss(options("loss")[loss]).input_kinds[0]
    words = [f"loss={loss}", f"dataset=[{FIRST.get(kind, 'demo_qmc')}]", "training.patience=null"]
    words += ["model=crossencoder"] * (loss == "ce")
    # Full after a step: each further text makes its loss larger.
    words += ["loss.size=8"] * (loss == "info_nce_queue")
    values = logged(run_job(tmp_path, tiny_backbone, *STEADY, *words))
    count = len(values) // 4
    assert sum(values[-count:]) < sum(values[:count])
