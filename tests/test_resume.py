"""A run that is killed and continued ends with the very weights of a run that was left alone."""

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from jobs import run_job

INTERRUPTED = Path(__file__).with_name("interrupted_job.py")
JOB = (
    "training.duration=4 epochs",
    "training.validate_every=5 steps",
    "training.checkpoint_every=2 steps",
    "training.patience=null",
)


def weights(run: Path) -> bytes:
    return (run / "encoder" / "model.safetensors").read_bytes()


def interrupt(output_dir, backbone, step, name, *overrides):
    command = [sys.executable, INTERRUPTED, output_dir, backbone, step, name, *overrides]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)


def assert_same_weights(tmp_path, backbone, steps, *overrides, name="SIGKILL", status=-signal.SIGKILL):
    whole = run_job(tmp_path / "whole", backbone, *JOB, *overrides)
    for step in steps:
        done = interrupt(tmp_path / "cut", backbone, step, name, *JOB, *overrides, "resume=auto")
        assert done.returncode == status, done.stderr
    finished = run_job(tmp_path / "cut", backbone, *JOB, *overrides, "resume=auto")
    assert finished.name == whole.name
    assert weights(finished) == weights(whole)
    return whole, finished


def test_killed_before_a_validation_and_after_one(tmp_path, tiny_backbone):
    assert_same_weights(tmp_path, tiny_backbone, steps=[5, 13])


def test_sigterm_saves_and_says_so_by_its_status(tmp_path, tiny_backbone):
    _, run = assert_same_weights(
        tmp_path, tiny_backbone, [8], "training.checkpoint_every=1000 steps", name="SIGTERM", status=143
    )
    assert run.exists()


@pytest.mark.slow
def test_a_tie_at_the_last_validation_is_broken_as_without_the_kill(tmp_path, tiny_backbone):
    # Step 10 and step 12 score the same here: the resumed run must remember that step 10 came first.
    assert_same_weights(tmp_path, tiny_backbone, [11], "training.accumulate=2")


@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("training.accumulate=2",),
        ("dataset=[demo_sts,demo_nli]", "loss=by_kind"),
        ("training.patience=1", "training.validate_every=3 steps"),
        ("hardware.precision=bf16-mixed",),
        ("hardware.num_workers=2",),
        ("training.length_window=3",),
        ("hardware.train_piece_tokens=64",),
        ("model=crossencoder", "training.length_window=3"),
    ],
    ids=[
        "plain",
        "accumulate",
        "mixture with a head",
        "early stop",
        "bf16",
        "workers",
        "by length",
        "pieces",
        "crossencoder",
    ],
)
def test_killed_at_five_random_steps(tmp_path, tiny_backbone, overrides):
    steps = sorted(random.Random(str(overrides)).sample(range(1, 12), 5))
    assert_same_weights(tmp_path, tiny_backbone, steps, *overrides)


def test_a_finished_run_is_shown_and_not_repeated(tmp_path, tiny_backbone, capsys):
    first = run_job(tmp_path, tiny_backbone, *JOB)
    before = weights(first), (first / "result.json").stat().st_mtime_ns
    capsys.readouterr()
    run_job(tmp_path, tiny_backbone, *JOB, "resume=auto")
    assert (weights(first), (first / "result.json").stat().st_mtime_ns) == before
    assert "demo_sts" in capsys.readouterr().out
