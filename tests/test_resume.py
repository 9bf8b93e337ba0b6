"""A run that is killed and continued ends with the very weights of a run that was left alone."""

import os
import random
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
import pytorch_lightning as pl
import rerankers
from forks import ROOT
from jobs import SMALL, Interrupt, as_program, interrupt, run_job, weights

import callbacks.trainer as assembly
from callbacks import resume
from callbacks.resume import ResumePoint, ValidationPoints, saved_state
from juzhen.cli.program import status_of
from juzhen.core.errors import UserError

JOB = (
    "training.duration=4 epochs",
    "training.validate_every=5 steps",
    "training.checkpoint_every=2 steps",
    "training.patience=null",
)


def left_behind(output_dir: Path) -> int:
    """Optimizer steps behind the state that a killed run left."""
    (folder,) = output_dir.glob("*/checkpoints")
    return saved_state(folder).steps


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
    whole=None,
):
    whole = whole or run_job(tmp_path / "whole", backbone, *JOB, *overrides)
    for step in steps:
        assert interrupt(tmp_path / "cut", backbone, step, name, *JOB, *overrides, "resume=auto") == status
    finished = run_job(tmp_path / "cut", backbone, *JOB, *overrides, "resume=auto")
    assert finished.name == whole.name
    assert weights(finished) == weights(whole)
    return whole, finished


def test_killed_after_a_validation(tmp_path, tiny_backbone, whole):
    assert_same_weights(tmp_path, tiny_backbone, steps=[13], whole=whole)


@pytest.fixture
def cut(tmp_path, tiny_backbone):
    """The checkpoints of a run that was killed after a validation."""
    assert interrupt(tmp_path / "cut", tiny_backbone, 13, "SIGKILL", *JOB) == -signal.SIGKILL
    return next((tmp_path / "cut").glob("*/checkpoints"))


def flip(cut):
    path = cut / "resume.ckpt"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [flip, lambda cut: (cut / "best.ckpt").unlink()], ids=["a bit", "best"])
@pytest.mark.slow
def test_damaged_weights_are_not_trained_further(tmp_path, tiny_backbone, cut, damage):
    damage(cut)
    with pytest.raises(UserError, match=f"{cut}.*rm -r"):
        run_job(tmp_path / "cut", tiny_backbone, *JOB, "resume=auto")


@pytest.mark.slow
def test_a_run_goes_on_in_another_place(tmp_path, tiny_backbone, cut, whole):
    (tmp_path / "cut").rename(tmp_path / "moved")
    finished = run_job(tmp_path / "moved", tiny_backbone, *JOB, "resume=auto")
    assert weights(finished) == weights(whole)
    assert not (tmp_path / "cut").exists()


@pytest.mark.slow
def test_the_same_command_gives_the_same_bytes_whatever_runs_beside_it(tmp_path, tiny_backbone):
    own = (
        "dataset=[demo_nli]",
        "loss=softmax",
        "training.duration=8 steps",
        "training.validate_every=4 steps",
    )
    words_of = {word.partition("=")[0]: word for word in (*SMALL, f"backbone.path={tiny_backbone}", *own)}
    job = [*words_of.values(), "training.patience=null"]
    ways = {
        "hash 1": ({"PYTHONHASHSEED": "1"}, ()),
        "hash 7": ({"PYTHONHASHSEED": "7"}, ()),
        "store": ({}, (f"schedule.store={tmp_path / 'store'}",)),
        "store again": ({}, (f"schedule.store={tmp_path / 'store'}",)),
        "no cache": ({}, ("cache_dir=null",)),
    }
    programs = []
    for way, (variables, words) in ways.items():  # all at a time; the second with a store waits for the first
        command = [sys.executable, "train.py", *job, f"output_dir={tmp_path / way}", *words]
        programs.append(subprocess.Popen(command, cwd=ROOT, env={**os.environ, **variables}))
    assert [program.wait() for program in programs] == [0] * len(ways)
    alone = run_job(tmp_path / "alone", tiny_backbone, *job)
    for way in ways:
        (run,) = (tmp_path / way).glob("demo_nli*")
        assert weights(run) == weights(alone), way


@pytest.fixture
def can_interrupt():
    """Python's own answer to SIGINT, and afterwards what the tests had: Lightning leaves it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("SIGINT", "stopped by Ctrl-C; step 8 is saved. "),
        ("SIGTERM", "stopped by SIGTERM; step 8 is saved. "),
    ],
    ids=["SIGINT", "SIGTERM"],
)
@pytest.mark.slow
def test_a_signal_saves_and_says_so_by_its_status(
    tmp_path, tiny_backbone, monkeypatch, capsys, can_interrupt, whole, name, told
):
    job = (*JOB, "training.checkpoint_every=1000 steps", "resume=auto")
    with monkeypatch.context() as patched:
        build = assembly.build_callbacks
        patched.setattr(assembly, "build_callbacks", lambda *given: [Interrupt(8, name), *build(*given)])
        with pytest.raises(SystemExit) as end:
            as_program(run_job, tmp_path / "cut", tiny_backbone, *job)
    assert end.value.code == 128 + getattr(signal, name)
    said = capsys.readouterr().err
    assert f"{told}Continue with resume=auto\n" in said
    assert "Traceback" not in said
    assert left_behind(tmp_path / "cut") == 8
    assert weights(run_job(tmp_path / "cut", tiny_backbone, *job)) == weights(whole)


def test_ctrl_c_in_the_last_step_is_obeyed_too(tmp_path):
    point = ResumePoint(tmp_path, every_steps=100)
    with pytest.raises(KeyboardInterrupt):
        point._on_sigint()  # between two steps: at once
    point.on_train_batch_start(None, None)
    point._on_sigint()
    with pytest.raises(KeyboardInterrupt):
        point._on_sigint()
    with pytest.raises(KeyboardInterrupt):
        point.on_train_end(None, None)


@pytest.fixture
def stepped(tmp_path, monkeypatch):
    """Ends a step of a trainer that counts saves; `between` and `due` stand for what Lightning's loops know."""
    saves, waiting = [], {"between": False, "due": False}
    trainer = SimpleNamespace(
        global_step=0,
        received_sigterm=False,
        should_stop=False,
        sanity_checking=False,
        world_size=2,
        state=SimpleNamespace(fn="fit"),
        val_check_batch=None,
        save_checkpoint=lambda path: saves.append((path.name, trainer.global_step)),
    )
    monkeypatch.setattr(resume, "is_between_steps", lambda trainer: waiting["between"])
    monkeypatch.setattr(resume, "is_validation_due", lambda trainer: waiting["due"])

    def end(callback, step, *, between=False, due=False, **changed):
        waiting.update(between=between, due=due)
        vars(trainer).update(changed, global_step=step)
        callback.on_train_batch_start(trainer, None, None, 0)
        callback.on_train_batch_end(trainer, None, None, None, 0)
        return [number for name, number in saves if name == "resume.ckpt"]

    return trainer, end


def test_a_checkpoint_comes_every_so_many_steps_after_validations_and_at_a_signal(tmp_path, stepped):
    trainer, end = stepped
    point = ResumePoint(tmp_path, every_steps=3)
    point.on_train_start(trainer, None)
    assert [end(point, step) for step in (1, 2)] == [[], []]
    assert end(point, 3, between=True) == end(point, 3, due=True) == []
    assert end(point, 3) == [3]
    assert end(point, 5) == [3]
    point.on_validation_end(trainer, None)
    assert end(point, 7) == [3, 5]  # counted from the one after the validation
    for refusing in ({"should_stop": True}, {"sanity_checking": True}, {"state": SimpleNamespace(fn="test")}):
        kept = {name: vars(trainer)[name] for name in refusing}
        vars(trainer).update(refusing)
        point.on_validation_end(trainer, None)
        vars(trainer).update(kept)
    assert end(point, 7, received_sigterm=True) == [3, 5, 7]
    point.on_train_batch_start(trainer, None)
    point._on_sigint()
    with pytest.raises(KeyboardInterrupt):
        end(point, 8, received_sigterm=False)
    later = ResumePoint(tmp_path, every_steps=3)
    later.on_train_start(trainer, None)
    assert end(later, 10) == [3, 5, 7, 8]
    assert end(later, 11) == [3, 5, 7, 8, 11]


def test_a_validation_comes_every_so_many_steps(stepped):
    trainer, end = stepped
    points, never = ValidationPoints(every_steps=4), float("inf")
    points.on_train_start(trainer, None)
    assert trainer.val_check_batch == never
    for step, between, expected in ((3, False, never), (4, True, never), (4, False, 1), (5, False, never)):
        end(points, step, between=between)
        assert trainer.val_check_batch == expected


@pytest.mark.parametrize("end", ["on_train_end", "on_exception"])
def test_ctrl_c_is_answered_by_the_training_alone_and_given_back(tmp_path, stepped, end):
    trainer, _ = stepped
    point, before = ResumePoint(tmp_path, every_steps=3), signal.getsignal(signal.SIGINT)
    try:
        point.on_train_start(trainer, None)  # of two processes: Lightning's own
        assert signal.getsignal(signal.SIGINT) is before
        trainer.world_size = 1
        with ThreadPoolExecutor(1) as thread:  # signals are set in the main thread alone
            thread.submit(point.on_train_start, trainer, None).result()
        assert signal.getsignal(signal.SIGINT) is before
        point.on_train_start(trainer, None)
        assert signal.getsignal(signal.SIGINT) == point._on_sigint
        getattr(point, end)(trainer, None, *[ValueError()] * (end == "on_exception"))
        assert signal.getsignal(signal.SIGINT) is before
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        point._give_back()  # once only
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_validation_stops_for_ctrl_c_after_its_save(tmp_path, stepped):
    trainer, end = stepped
    point = ResumePoint(tmp_path, every_steps=100)
    point.on_train_start(trainer, None)
    point.on_train_batch_start(trainer, None)
    point._on_sigint()
    assert end(point, 4, due=True) == []
    with pytest.raises(KeyboardInterrupt):
        point.on_validation_end(trainer, None)
    assert end(ResumePoint(tmp_path, every_steps=100), 5) == [4]


def test_numbers_are_drawn_on_from_where_the_checkpoint_was_once(tmp_path, stepped):
    trainer, _ = stepped
    point = ResumePoint(tmp_path, every_steps=3)
    state, expected = point.state_dict(), random.random()
    point.load_state_dict(state)
    assert random.random() != expected  # not yet: setting up draws, too
    point.on_train_start(trainer, None)
    assert random.random() == expected
    point.on_train_start(trainer, None)
    assert random.random() != expected


def test_files_of_a_stage_lie_beside_its_checkpoints(tmp_path):
    trainer = SimpleNamespace(
        callbacks=[ValidationPoints(every_steps=1), ResumePoint(tmp_path / "a/b/c", every_steps=1)]
    )
    assert resume.stage_folder(trainer) == tmp_path / "a/b"
    assert saved_state(tmp_path) is None


def test_ctrl_c_before_the_first_step_and_elsewhere(
    tmp_path, tiny_backbone, monkeypatch, capsys, can_interrupt
):
    def interrupted(*given, **more):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(pl.Trainer, "fit", interrupted)
        with pytest.raises(SystemExit) as end:
            as_program(run_job, tmp_path, tiny_backbone, *JOB)
    assert end.value.code == 130
    assert "stopped by Ctrl-C before anything was saved" in capsys.readouterr().err
    with pytest.raises(SystemExit) as end:
        as_program(interrupted)
    assert end.value.code == status_of(interrupted) == 130
    assert capsys.readouterr().err == "stopped by Ctrl-C\n" * 2


@pytest.mark.slow
def test_killed_before_a_validation_and_after_one(tmp_path, tiny_backbone):
    assert_same_weights(tmp_path, tiny_backbone, steps=[5, 13])


@pytest.mark.slow
def test_sigterm_ends_a_program(tmp_path, tiny_backbone):
    words = ("training.checkpoint_every=1000 steps",)
    assert_same_weights(tmp_path, tiny_backbone, [8], *words, name="SIGTERM", status=143)


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
        ("model=distill", "loss=distill", "model.teacher=builtin/mini_zh@2"),
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


@pytest.mark.slow
def test_a_reranker_killed_at_random_steps(tmp_path):
    backbone = rerankers.write("qwen3", tmp_path / "lm", tied=False, by_bytes=False)
    words = (*rerankers.JOB, "dataset=[demo_qmc]", "loss=bce", "backbone.dropout=0.1")
    assert_same_weights(tmp_path, backbone, [3, 4, 11], *words)


def test_a_finished_run_is_shown_and_not_repeated(whole, tiny_backbone, capsys):
    before = weights(whole), (whole / "result.json").stat().st_mtime_ns
    run_job(whole.parent, tiny_backbone, *JOB, "resume=auto")
    assert (weights(whole), (whole / "result.json").stat().st_mtime_ns) == before
    assert "demo_sts" in capsys.readouterr().out
