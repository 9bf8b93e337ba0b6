"""First training losses of tiny runs: a change that is not meant to change numbers keeps them.

After a change that is meant to: `python tests/golden/regenerate.py`, and say so in the commit.
"""

import json
import os
from pathlib import Path

import pytest
from jobs import logged, run_job

CURVES = {
    "biencoder_cosent": ("loss=cosent",),
    "biencoder_info_nce": ("loss=info_nce", "dataset=[demo_qmc]"),
    "biencoder_cosent_without_dropout": ("loss=cosent", "backbone.dropout=0.0"),
    "biencoder_info_nce_without_dropout": ("loss=info_nce", "dataset=[demo_qmc]", "backbone.dropout=0.0"),
    "crossencoder_cosent": ("model=crossencoder", "loss=cosent"),
    "crossencoder_ce_without_dropout": (
        "model=crossencoder",
        "loss=ce",
        "dataset=[demo_nli]",
        "backbone.dropout=0.0",
    ),
    "colbert_info_nce_without_dropout": (
        "model=colbert",
        "loss=info_nce",
        "dataset=[demo_qmc]",
        "backbone.dropout=0.0",
    ),
    "splade_info_nce_without_dropout": (
        "model=splade",
        "loss=info_nce",
        "loss.temperature=20",  # at 1 a loss near 0 has the rounding of large scores
        "dataset=[demo_qmc]",
        "backbone.dropout=0.0",
    ),
}
"""File name → what the run is, besides the small job of tests/jobs.py.

The curves without dropout depend on the maths alone; the others also on the order and kind of random draws.
"""

STEADY = ("training.duration=2 epochs", "logger.every_steps=1", "seed=42", "hardware.precision=32-true")
NUM_LOSSES = 12
REGENERATE = "JUZHEN_REGENERATE_GOLDEN"


@pytest.mark.parametrize("name", CURVES)
def test_first_losses_are_as_before(name, tmp_path, tiny_backbone):
    losses = logged(run_job(tmp_path, tiny_backbone, *STEADY, *CURVES[name]))
    golden = Path(__file__).with_name(f"{name}.json")
    if os.environ.get(REGENERATE):
        golden.write_text(json.dumps(losses[:NUM_LOSSES], indent=1) + "\n")
    expected = json.loads(golden.read_text())
    assert len(expected) >= 6
    assert losses[: len(expected)] == pytest.approx(expected, rel=1e-4)
    assert len(set(expected)) == len(expected)
