"""Two processes train and score as one does: same whole batches, same weights, same scores."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import rerankers
import torch
from jobs import SMALL, logged, ranked_rows
from safetensors.torch import load_file

from callbacks.resume import saved_state

pytestmark = pytest.mark.slow  # every case starts three programs

TWO = ("hardware.devices=2", "hardware.strategy=ddp")
SHARDED = ("hardware.devices=2", "hardware.strategy=fsdp")
STEPS = ("training.duration=6 steps", "training.checkpoint_every=100 steps")
# With its usual eps Adam makes a whole step of a gradient that is nearly 0, which is rounding.
ALIKE = ("backbone.dropout=0.0", "logger.every_steps=1", "optimizer.eps=1e-3")


def begin(project_root: Path, output_dir: Path, backbone: Path, *overrides: str) -> subprocess.Popen:
    """`python train.py …` and the processes that it starts, in a group of their own."""
    groups = {word.partition("=")[0] for word in overrides}
    small = [word for word in (*SMALL, *ALIKE, *STEPS) if word.partition("=")[0] not in groups]
    if "dataset=[]" in overrides:  # what only learning reads is refused
        small = [
            word
            for word in small
            if not word.startswith(("training.", "optimizer.", "logger.", "backbone.dropout"))
        ]
    words = [*small, f"output_dir={output_dir}", f"backbone.path={backbone}", *overrides]
    return subprocess.Popen(
        [sys.executable, "train.py", *words],
        cwd=project_root,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def start(project_root: Path, output_dir: Path, backbone: Path, *overrides: str) -> tuple[Path, str]:
    """The run folder that `python train.py …` leaves, and all that it printed."""
    program = begin(project_root, output_dir, backbone, *overrides)
    try:
        printed, _ = program.communicate(timeout=300)
    finally:
        if program.poll() is None:
            os.killpg(program.pid, signal.SIGKILL)
    assert program.returncode == 0, printed[-3000:]
    (run,) = (folder for folder in output_dir.iterdir() if not folder.name.startswith("."))
    return run, printed


def kill_after(program: subprocess.Popen, output_dir: Path, *, steps: int) -> int:
    """Kills all processes once so many optimizer steps are kept; how many are in the end."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and program.poll() is None:
        found = [saved_state(folder) for folder in output_dir.glob("*/checkpoints")]
        if found and found[0] is not None and found[0].steps >= steps:
            break
        time.sleep(0.02)
    os.killpg(program.pid, signal.SIGKILL)
    printed, _ = program.communicate()
    assert program.returncode == -signal.SIGKILL, printed[-3000:]
    (folder,) = output_dir.glob("*/checkpoints")
    return saved_state(folder).steps


def scores(run: Path) -> dict[str, float]:
    return {key: one["value"] for key, one in json.loads((run / "result.json").read_text())["scores"].items()}


@pytest.mark.parametrize(
    "overrides",
    [
        ("loss=cosent",),
        ("loss=cosent_layers",),
        ("dataset=[demo_qmc]", "loss=info_nce"),
        ("model=mlm",),
        ("model=views", "loss=info_nce", "model.views=[synonym,delete,shuffle]"),
        ("model=distill", "loss=distill", "model.teacher=builtin/mini_zh@2"),
        ("model=crossencoder", "loss=bce", "dataset=[demo_qmc]"),
        ("model=crossencoder", "loss=cosent"),
        # One set's head is unused in a step of the other, and one process has no batch to score.
        ("dataset=[demo_sts,demo_nli]", "loss=by_kind", "hardware.eval_batch_tokens=100000"),
        ("model=colbert", "loss=cosent", "model.dim=8", "model.query_length=12"),
        ("model=splade", "loss=cosent", "model.flops_warmup_percent=0"),
        # An odd number of evaluation batches, a short last batch, and one program for two stages.
        ("dataset=[demo_sts,demo_qmc]", "schedule=serial", "debug_rows=27", "hardware.eval_batch_tokens=400"),
    ],
    ids=[
        "cosent",
        "cosent_layers",
        "info_nce",
        "mlm",
        "views",
        "a student",
        "crossencoder",
        "crossencoder and cosent",
        "mixture with a head",
        "colbert",
        "splade",
        "two stages",
    ],
)
def test_two_processes_equal_one(tmp_path, project_root, tiny_backbone, overrides):
    one, _ = start(project_root, tmp_path / "one", tiny_backbone, *overrides)
    two, printed = start(project_root, tmp_path / "two", tiny_backbone, *overrides, *TWO)
    assert one.name == two.name
    assert len(logged(one)) == 6
    assert logged(two) == pytest.approx(logged(one), rel=1e-5)
    weights = [load_file(run / "encoder" / "model.safetensors") for run in (one, two)]
    assert weights[0].keys() == weights[1].keys()
    torch.testing.assert_close(weights[1], weights[0], rtol=1e-5, atol=1e-6)
    assert scores(two) == pytest.approx(scores(one), abs=2e-4)
    assert printed.count("evaluated on") == 1
    if "model=crossencoder" in overrides:
        key = f"train/{'demo_qmc' if 'dataset=[demo_qmc]' in overrides else 'demo_sts'}/loss_gradient"
        assert logged(two, key) == pytest.approx(logged(one, key), rel=1e-4)


def test_two_processes_learn_the_adapter_of_one(tmp_path, project_root, encoder_folder):
    overrides = ("adapter=lora", "backbone.initialize=pretrained", "hardware.micro_batch_tokens=60")
    one, _ = start(project_root, tmp_path / "one", encoder_folder, *overrides)
    two, _ = start(project_root, tmp_path / "two", encoder_folder, *overrides, *TWO)
    assert logged(two) == pytest.approx(logged(one), rel=1e-5)
    learnt = [load_file(run / "encoder" / "adapter_model.safetensors") for run in (one, two)]
    torch.testing.assert_close(learnt[1], learnt[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("rows", ["pairs", "lists"])
def test_two_processes_learn_the_reranker_of_one(tmp_path, project_root, rows):
    backbone = rerankers.write("qwen3", tmp_path / "lm", tied=False, by_bytes=False)
    words = {
        "pairs": ("dataset=[demo_qmc]", "loss=bce"),
        "lists": (*ranked_rows(tmp_path / "rows"), "loss=list_kl"),
    }[rows]
    one, _ = start(project_root, tmp_path / "one", backbone, *rerankers.JOB, *words)
    two, _ = start(project_root, tmp_path / "two", backbone, *rerankers.JOB, *words, *TWO)
    assert len(logged(one)) > 1
    assert logged(two) == pytest.approx(logged(one), rel=1e-5)
    learnt = [load_file(run / "encoder" / "model.safetensors") for run in (one, two)]
    torch.testing.assert_close(learnt[1], learnt[0], rtol=1e-4, atol=1e-6)
    assert scores(two) == pytest.approx(scores(one), abs=2e-4)


@pytest.mark.parametrize(
    "overrides",
    [
        ("model=crossencoder", "loss=cosent", "hardware.micro_batch_tokens=40"),
        ("dataset=[demo_sts,demo_nli]", "loss=by_kind", "hardware.eval_batch_tokens=100000"),
        ("adapter=lora", "backbone.initialize=pretrained", "hardware.gradient_checkpointing=true"),
    ],
    ids=["micro-batches", "mixture with a head", "adapter"],
)
def test_weights_in_parts_learn_what_whole_ones_do(tmp_path, project_root, encoder_folder, overrides):
    one, _ = start(project_root, tmp_path / "one", encoder_folder, *overrides)
    two, printed = start(project_root, tmp_path / "two", encoder_folder, *overrides, *SHARDED)
    assert one.name == two.name
    assert logged(two) == pytest.approx(logged(one), rel=1e-5)
    name = "adapter_model" if "adapter=lora" in overrides else "model"
    weights = [load_file(run / "encoder" / f"{name}.safetensors") for run in (one, two)]
    assert weights[0].keys() == weights[1].keys()
    torch.testing.assert_close(weights[1], weights[0], rtol=1e-4, atol=1e-6)
    assert scores(two) == pytest.approx(scores(one), abs=2e-4)
    assert printed.count("evaluated on") == 1


def test_two_processes_in_pieces_equal_one_whole(tmp_path, project_root, tiny_backbone):
    overrides = ("loss=cosent", "training.accumulate=2")
    one, _ = start(project_root, tmp_path / "one", tiny_backbone, *overrides)
    two, _ = start(
        project_root, tmp_path / "two", tiny_backbone, *overrides, *TWO, "hardware.micro_batch_tokens=40"
    )
    assert logged(two) == pytest.approx(logged(one), rel=1e-5)
    weights = [load_file(run / "encoder" / "model.safetensors") for run in (one, two)]
    torch.testing.assert_close(weights[1], weights[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "overrides",
    [TWO, (*TWO, "training.accumulate=2", "loss=cosent_sampled"), SHARDED],
    ids=["plain", "accumulate", "sharded"],
)
def test_two_processes_that_are_killed_end_with_the_weights_of_two_that_are_not(
    tmp_path, project_root, tiny_backbone, overrides
):
    words = (
        "backbone.dropout=0.1",
        "training.duration=300 steps",
        "training.validate_every=1000 steps",
        "training.checkpoint_every=10 steps",
        *overrides,
        "resume=auto",
    )
    whole, _ = start(project_root, tmp_path / "whole", tiny_backbone, *words)
    kept = 0
    for steps in (20, 150):
        program = begin(project_root, tmp_path / "cut", tiny_backbone, *words)
        kept = kill_after(program, tmp_path / "cut", steps=max(steps, kept + 1))
        assert steps <= kept < 300
    finished, printed = start(project_root, tmp_path / "cut", tiny_backbone, *words)
    assert f"goes on after step {kept}" in printed
    weights = [run / "encoder" / "model.safetensors" for run in (whole, finished)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
