"""Two processes train and score as one does: same whole batches, same weights, same scores."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from jobs import SMALL
from safetensors.torch import load_file

pytestmark = pytest.mark.slow  # every case starts three programs

TWO = ("hardware.devices=2", "hardware.strategy=ddp")
STEPS = ("training.duration=6 steps", "training.checkpoint_every=100 steps")
ALIKE = ("backbone.dropout=0.0", "logger.every_steps=1")


def start(project_root: Path, output_dir: Path, backbone: Path, *overrides: str) -> tuple[Path, str]:
    """The run folder that `python train.py …` leaves, and all that it printed."""
    words = [*SMALL, *ALIKE, *STEPS, f"output_dir={output_dir}", f"backbone.path={backbone}", *overrides]
    told = subprocess.run(
        [sys.executable, "train.py", *words],
        cwd=project_root,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert told.returncode == 0, told.stdout[-3000:]
    (run,) = (folder for folder in output_dir.iterdir() if not folder.name.startswith("."))
    return run, told.stdout


def losses(run: Path) -> list[float]:
    header, *rows = (run / "metrics" / "0" / "metrics.csv").read_text().splitlines()
    column = header.split(",").index("train/loss")
    return [float(row.split(",")[column]) for row in rows if row.split(",")[column]]


def scores(run: Path) -> dict[str, float]:
    return {key: one["value"] for key, one in json.loads((run / "result.json").read_text())["scores"].items()}


@pytest.mark.parametrize(
    "overrides",
    [
        ("loss=cosent",),
        ("loss=cosent_layers",),
        ("dataset=[demo_qmc]", "loss=info_nce"),
        ("model=mlm",),
        ("model=crops", "loss=info_nce"),
        ("model=views", "loss=info_nce", "model.views=[synonym,delete,shuffle]"),
        # Not cosent: a shift of all scores has no gradient there, and Adam makes steps of what is rounding.
        ("model=crossencoder", "loss=bce", "dataset=[demo_qmc]"),
        # One set's head is unused in a step of the other, and one process has no batch to score.
        ("dataset=[demo_sts,demo_nli]", "loss=by_kind", "hardware.eval_batch_tokens=100000"),
        # An odd number of evaluation batches, a short last batch, and one program for two stages.
        (
            "dataset=[demo_sts,demo_qmc]",
            "schedule=serial",
            "debug_rows=27",
            "hardware.eval_batch_tokens=400",
        ),
    ],
    ids=[
        "cosent",
        "cosent_layers",
        "info_nce",
        "mlm",
        "crops",
        "views",
        "crossencoder",
        "mixture with a head",
        "two stages",
    ],
)
def test_two_processes_equal_one(tmp_path, project_root, tiny_backbone, overrides):
    one, _ = start(project_root, tmp_path / "one", tiny_backbone, *overrides)
    two, printed = start(project_root, tmp_path / "two", tiny_backbone, *overrides, *TWO)
    assert one.name == two.name
    assert len(losses(one)) == 6
    assert losses(two) == pytest.approx(losses(one), rel=1e-5)
    weights = [load_file(run / "encoder" / "model.safetensors") for run in (one, two)]
    assert weights[0].keys() == weights[1].keys()
    # Adam divides by the size of a gradient: where it is nearly 0, rounding is seen.
    torch.testing.assert_close(weights[1], weights[0], rtol=1e-4, atol=2e-5)
    assert scores(two) == pytest.approx(scores(one), abs=2e-4)
    assert printed.count("evaluated on") == 1


def test_two_processes_in_pieces_equal_one_whole(tmp_path, project_root, tiny_backbone):
    overrides = ("loss=cosent", "training.accumulate=2")
    one, _ = start(project_root, tmp_path / "one", tiny_backbone, *overrides)
    two, _ = start(
        project_root, tmp_path / "two", tiny_backbone, *overrides, *TWO, "hardware.train_piece_tokens=40"
    )
    assert losses(two) == pytest.approx(losses(one), rel=1e-5)
    weights = [load_file(run / "encoder" / "model.safetensors") for run in (one, two)]
    torch.testing.assert_close(weights[1], weights[0], rtol=1e-4, atol=2e-5)
