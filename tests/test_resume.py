"""A run that is killed and continued ends with the very weights of a run that was left alone."""

import random
import signal
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from jobs import Interrupt, in_memory, interrupt, run_job, weights

import callbacks.trainer as assembly
from callbacks import snapshot_file
from callbacks.resume import newest_state
from callbacks.snapshot import Snapshots
from callbacks.snapshots import boot_id, find_snapshot
from juzhen.cli.program import status_of
from juzhen.core.owned import own_folder
from launch import run_cli

JOB = (
    "hardware.snapshot_share=1e9",  # after every step, however small the steps are here
    "training.duration=4 epochs",
    "training.validate_every=5 steps",
    "training.checkpoint_every=2 steps",
    "training.patience=null",
)


def left_behind(output_dir: Path) -> int:
    """Optimizer steps behind the newest state that a killed run left, in memory or on disk."""
    (folder,) = output_dir.glob("*/checkpoints")
    return newest_state(folder).steps


@pytest.fixture(scope="module")
def whole(tmp_path_factory, tiny_backbone):
    """The run that is left alone."""
    return run_job(tmp_path_factory.mktemp("whole"), tiny_backbone, *JOB)


def assert_same_weights(
    tmp_path,
    backbone,
    steps,
    *overrides,
    name="SIGKILL",
    status=-signal.SIGKILL,
    costs_a_step=False,
    whole=None,
):
    whole = whole or run_job(tmp_path / "whole", backbone, *JOB, *overrides)
    for step in steps:
        assert interrupt(tmp_path / "cut", backbone, step, name, *JOB, *overrides, "resume=auto") == status
        if costs_a_step:
            assert left_behind(tmp_path / "cut") == step - 1  # the signal comes before the step is over
    finished = run_job(tmp_path / "cut", backbone, *JOB, *overrides, "resume=auto")
    assert not list(finished.rglob("snapshot.json"))
    assert finished.name == whole.name
    assert weights(finished) == weights(whole)
    return whole, finished


def test_killed_after_a_validation(tmp_path, tiny_backbone, whole):
    in_memory = boot_id() is not None
    assert_same_weights(tmp_path, tiny_backbone, steps=[13], costs_a_step=in_memory, whole=whole)


@pytest.fixture
def can_interrupt():
    """Python's own answer to SIGINT, and afterwards what the tests had: Lightning leaves it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


ON_DISK = ("hardware.snapshot_folder=null",)


@pytest.mark.parametrize(
    ("name", "overrides", "saved", "told"),
    [
        ("SIGTERM", ("training.checkpoint_every=1000 steps", *ON_DISK), 8, "stopped by SIGTERM; "),
        ("SIGINT", (), 7, "stopped by Ctrl-C; step 7 is saved; "),
        pytest.param(*("SIGINT", ON_DISK, 7, "stopped by Ctrl-C; step 7 is saved; "), marks=pytest.mark.slow),
    ],
    ids=["SIGTERM", "in memory", "on disk"],
)
@pytest.mark.sampled(2)
def test_a_signal_saves_and_says_so_by_its_status(
    tmp_path, tiny_backbone, monkeypatch, capsys, can_interrupt, whole, name, overrides, saved, told
):
    job = (*JOB, *overrides, "resume=auto")
    with monkeypatch.context() as patched:
        build = assembly.build_callbacks
        patched.setattr(assembly, "build_callbacks", lambda *given: [Interrupt(8, name), *build(*given)])
        with pytest.raises(SystemExit) as end:
            run_cli(run_job)(tmp_path / "cut", tiny_backbone, *job)
    assert end.value.code == 128 + getattr(signal, name)
    said = capsys.readouterr().err
    assert f"{told}continue with resume=auto\n" in said
    assert "Traceback" not in said
    assert left_behind(tmp_path / "cut") == saved
    assert weights(run_job(tmp_path / "cut", tiny_backbone, *job)) == weights(whole)


def test_ctrl_c_before_the_first_step_and_elsewhere(
    tmp_path, tiny_backbone, monkeypatch, capsys, can_interrupt
):
    def interrupted(*given, **more):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(pl.Trainer, "fit", interrupted)
        with pytest.raises(SystemExit) as end:
            run_cli(run_job)(tmp_path, tiny_backbone, *JOB)
    assert end.value.code == 130
    assert "stopped by Ctrl-C before anything was saved" in capsys.readouterr().err
    with pytest.raises(SystemExit) as end:
        run_cli(interrupted)()
    assert end.value.code == status_of(interrupted) == 130
    assert capsys.readouterr().err == "stopped by Ctrl-C\n" * 2


@pytest.mark.slow
def test_killed_before_a_validation_and_after_one(tmp_path, tiny_backbone):
    assert_same_weights(tmp_path, tiny_backbone, steps=[5, 13], costs_a_step=boot_id() is not None)


@pytest.mark.slow
def test_sigterm_ends_a_program(tmp_path, tiny_backbone):
    words = ("training.checkpoint_every=1000 steps",)
    assert_same_weights(tmp_path, tiny_backbone, [8], *words, name="SIGTERM", status=143)


ONLY_SNAPSHOTS = ("training.validate_every=1000 steps", "training.checkpoint_every=1000 steps")


@in_memory
@pytest.mark.slow
@pytest.mark.parametrize("overrides", [(), ("training.accumulate=2",)], ids=["plain", "accumulate"])
def test_a_kill_costs_a_step_where_nothing_is_on_disk(tmp_path, tiny_backbone, overrides):
    words = (*ONLY_SNAPSHOTS, *overrides)
    assert_same_weights(tmp_path, tiny_backbone, [2, 7, 9], *words, costs_a_step=True)


@in_memory
@pytest.mark.slow
def test_a_run_that_is_interrupted_leaves_its_last_step_on_disk(tmp_path, tiny_backbone):
    interrupt(tmp_path, tiny_backbone, 7, "SIGINT", *JOB, *ONLY_SNAPSHOTS)
    (folder,) = tmp_path.glob("*/checkpoints")
    assert torch.load(folder / "resume.ckpt", weights_only=True)["global_step"] == 6
    assert find_snapshot(folder) is None


@in_memory
@pytest.mark.parametrize(("on_disk", "taken"), [(5, "memory"), (6, "disk"), (7, "disk")])
def test_the_state_that_is_ahead_is_taken_and_the_disk_at_the_same_step(tmp_path, on_disk, taken):
    assert newest_state(tmp_path) is None
    own_folder(tmp_path)
    Snapshots(tmp_path, tmp_path, share=1).write(lambda: {"global_step": 6}, steps=6)
    in_memory = find_snapshot(tmp_path).path
    assert newest_state(tmp_path) == (in_memory, 6)
    torch.save({"global_step": on_disk}, tmp_path / "resume.ckpt")
    places = {"memory": (in_memory, 6), "disk": (tmp_path / "resume.ckpt", on_disk)}
    assert newest_state(tmp_path) == places[taken]


@in_memory
def test_too_little_memory_is_said_once_and_training_goes_on(tmp_path, tiny_backbone, capfd, monkeypatch):
    monkeypatch.setattr(snapshot_file, "_free_bytes", lambda folder: 1000)
    run_job(tmp_path, tiny_backbone, *JOB, "training.duration=6 steps")
    said = capfd.readouterr().err
    assert said.count("is not kept in /dev/shm") == 1
    assert "training.checkpoint_every, 2 steps" in said


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
        ("training.stratify_by=label_length",),
        ("model.score=bilinear", "backbone.layer_norm=true"),
        ("hardware.micro_batch_tokens=64",),
        ("model=crossencoder", "training.length_window=3"),
        ("augmentation=noise",),
        ("model=distill", "loss=distill", "model.teacher=builtin/mini_zh"),
    ],
    ids=[
        "plain",
        "accumulate",
        "mixture with a head",
        "early stop",
        "bf16",
        "workers",
        "by length",
        "stratified",
        "bilinear score",
        "pieces",
        "crossencoder",
        "augmentation",
        "a student",
    ],
)
def test_killed_at_five_random_steps(tmp_path, tiny_backbone, overrides):
    steps = sorted(random.Random(str(overrides)).sample(range(1, 12), 5))
    assert_same_weights(tmp_path, tiny_backbone, steps, *overrides)


def test_a_finished_run_is_shown_and_not_repeated(whole, tiny_backbone, capsys):
    before = weights(whole), (whole / "result.json").stat().st_mtime_ns
    run_job(whole.parent, tiny_backbone, *JOB, "resume=auto")
    assert (weights(whole), (whole / "result.json").stat().st_mtime_ns) == before
    assert "demo_sts" in capsys.readouterr().out
