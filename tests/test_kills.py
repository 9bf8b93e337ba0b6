"""Fifty kills: at random moments, and while results, encoders and checkpoints are being written. Nothing is lost.

After each kill whatever has its name is whole; what the same command ends with is, bit for bit, what a job that was
left alone ends with; and nothing unfinished lies about.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from jobs import SMALL, compose_job
from safetensors.torch import load_file

import train
from juzhen.core import atomic_write
from juzhen.core.result import Result, weights_digest

KILLS = 50
JOBS = {
    "one stage": ("dataset=[demo_sts]",),
    "a curriculum that shares stages": ("dataset=[demo_nli,demo_sts]", "schedule=serial", "loss=by_kind"),
}
WORDS = (
    "training.duration=8 steps",
    "training.validate_every=3 steps",
    "training.checkpoint_every=2 steps",
    "training.patience=null",
    "debug_rows=32",
    "resume=auto",
)
TARGETS = (
    "resume.ckpt",
    "best.ckpt",
    "result.json",
    "stage.json",
    "encoder",
    "model.safetensors",
)
MOMENTS = ("torn", "flushed", "named", "moved aside")
"""A write that is cut in half; whole, but without its name; just named; of a folder: the old one moved aside."""


def run_quietly(config) -> None:
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    train.run_job(config)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def set_trap(target: str, moment: str, nth: int) -> None:
    """Has this process kill itself at the `nth` time that it comes to that moment of writing that target."""
    seen = [0]
    fsync, replace, rename = os.fsync, os.replace, os.rename

    def comes(path: object, *, at: str) -> bool:
        name = Path(path).name
        if at != moment or not (name == target or name.startswith(f".{target}.")):
            return False
        seen[0] += 1
        return seen[0] == nth

    def cut(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if comes(path, at="torn"):
            if Path(path).is_file():
                os.truncate(path, os.path.getsize(path) // 2)
            die()
        fsync(descriptor)
        if comes(path, at="flushed"):
            die()

    def moved(source: object, goal: object, *, by) -> None:
        by(source, goal)
        if comes(goal, at="moved aside" if str(goal).endswith(".old") else "named"):
            die()

    atomic_write.os.fsync = cut
    atomic_write.os.replace = lambda source, goal: moved(source, goal, by=replace)
    atomic_write.os.rename = lambda source, goal: moved(source, goal, by=rename)


def start(config, trap: tuple[str, str, int] | None) -> int:
    """The job in a copy of this process; its number."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        if trap is not None:
            set_trap(*trap)
        run_quietly(config)
        code = 0
    finally:
        sys.stdout.flush()
        os._exit(code)


def ended(process: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def was_killed(config, trap: tuple[str, str, int] | None, seconds: float) -> bool:
    """Runs the job with a trap, or kills it after so many seconds; False where it was faster."""
    process = start(config, trap)
    if trap is None:
        time.sleep(seconds)
        os.kill(process, signal.SIGKILL)
    status = ended(process)
    assert status in (0, -signal.SIGKILL), f"the job failed with status {status}"
    return status != 0


def check_that_all_is_whole(folder: Path) -> None:
    """Every result, record, checkpoint and encoder that has its name."""
    for path in folder.rglob("*"):
        parts = path.relative_to(folder).parts
        if any(atomic_write.LEFT_BEHIND.fullmatch(part) for part in parts):
            continue
        if path.name == "result.json":
            assert Result.read(path).scores
        elif path.name == "stage.json":
            assert json.loads(path.read_text(encoding="utf-8"))
        elif path.suffix == ".ckpt":
            assert torch.load(path, weights_only=True)["state_dict"]
        elif path.name == "encoder":
            assert load_file(path / "model.safetensors")
            assert {"config.json", "tokenizer.json", "modules.json"} <= {one.name for one in path.iterdir()}


def what_counts(run: Path) -> dict:
    """All numbers of all results of a run, and the bytes of its encoders; no times and no paths."""
    found = {}
    for path in sorted(run.rglob("result.json")):
        result = Result.read(path)
        place = str(path.parent.relative_to(run))
        found[place] = {
            name: {key: asdict(one) for key, one in getattr(result, name).items()} for name in ("scores",)
        }
        found[place] |= {"data": result.data, "steps": result.training["steps"], "weights": result.weights}
        assert result.weights == weights_digest(path.parent / "encoder")
    return found


def leftovers(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if atomic_write.LEFT_BEHIND.fullmatch(path.name)]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="only Linux tells which file is flushed")
@pytest.mark.parametrize(("name", "kills"), zip(JOBS, (KILLS // 2, KILLS - KILLS // 2), strict=True))
def test_fifty_kills_change_nothing(tmp_path, tiny_backbone, name, kills):
    words = [word for word in SMALL if word.partition("=")[0] not in ("dataset", "debug_rows")]
    words += [*WORDS, *JOBS[name], f"backbone.path={tiny_backbone}"]
    whole_job, cut_job = (compose_job(*words, f"output_dir={tmp_path / place}") for place in ("whole", "cut"))
    began = time.monotonic()
    assert ended(start(whole_job, None)) == 0
    lasts = time.monotonic() - began
    expected = what_counts(Path(whole_job.run_dir))
    draw = random.Random(name)
    told = {"random": 0, "trap": 0, "finished": 0}
    while told["random"] + told["trap"] < kills:
        at_random = told["random"] * 2 < kills and draw.random() < 0.5
        trap = None if at_random else (draw.choice(TARGETS), draw.choice(MOMENTS), draw.choice((1, 1, 2, 3)))
        if was_killed(cut_job, trap, draw.uniform(0, lasts)):
            told["random" if at_random else "trap"] += 1
            check_that_all_is_whole(tmp_path / "cut")
            continue
        told["finished"] += 1
        check_finished(tmp_path / "cut", Path(cut_job.run_dir), expected)
        shutil.rmtree(tmp_path / "cut")
    assert ended(start(cut_job, None)) == 0
    check_finished(tmp_path / "cut", Path(cut_job.run_dir), expected)
    print(f"{name}: {told}, {time.monotonic() - began:.0f} s")


def check_finished(folder: Path, run: Path, expected: dict) -> None:
    check_that_all_is_whole(folder)
    assert what_counts(run) == expected
    assert not leftovers(folder)
    assert not list(folder.rglob("resume.ckpt"))


def test_a_trap_springs_at_each_moment_of_a_write(tmp_path):
    """That the test above can fail: what has its name is whole at each moment, what has not is cut."""
    for moment, named, kept in (("torn", False, 3), ("flushed", False, 6), ("named", True, 6)):
        process = os.fork()
        if not process:
            set_trap("result.json", moment, 1)
            atomic_write.write_text(tmp_path / "result.json", "whole\n", in_own_folder=True)
            os._exit(0)
        assert ended(process) == -signal.SIGKILL
        (left,) = tmp_path.iterdir()
        assert (left.name == "result.json", left.stat().st_size) == (named, kept)
        left.unlink()
