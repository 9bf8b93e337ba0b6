import io
import os
import signal
from contextlib import suppress

import pytest
import torch
from forks import in_a_fork

from callbacks import resume
from callbacks.resume import AtomicCheckpointIO
from juzhen.core import atomic_write
from juzhen.core.errors import UserError
from juzhen.core.file_guard import MARKER, claim_dir


def save_and_be_killed_before_the_rename(path):
    atomic_write.os.replace = lambda *names: os.kill(os.getpid(), signal.SIGKILL)
    AtomicCheckpointIO().save_checkpoint({"step": 2}, path)


def step_in(path):
    return torch.load(path, weights_only=True)["step"]


def test_a_kill_before_the_rename_leaves_the_old_checkpoint(tmp_path):
    path = tmp_path / "resume.ckpt"
    claim_dir(tmp_path)
    AtomicCheckpointIO().save_checkpoint({"step": 1}, path)
    assert in_a_fork(save_and_be_killed_before_the_rename, path) == -signal.SIGKILL
    _, left, kept = sorted(one.name for one in tmp_path.iterdir())
    assert (left.startswith(".resume.ckpt."), kept) == (True, "resume.ckpt")
    assert step_in(path) == 1
    # What the kill has left lying about is gone after the next save.
    AtomicCheckpointIO().save_checkpoint({"step": 3}, path)
    assert {one.name for one in tmp_path.iterdir()} == {MARKER, "resume.ckpt"}
    assert step_in(path) == 3


def test_it_is_on_the_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    order = []
    monkeypatch.setattr(atomic_write.os, "fsync", lambda number: order.append("flush"))
    replace = os.replace
    monkeypatch.setattr(atomic_write.os, "replace", lambda *names: order.append("rename") or replace(*names))
    AtomicCheckpointIO().save_checkpoint({"step": 1}, tmp_path / "new" / "a.ckpt")
    assert order == ["flush", "rename"]
    assert step_in(tmp_path / "new" / "a.ckpt") == 1


def failing(checkpoint, file):
    file.write(b"half")
    raise RuntimeError("unexpected pos 64 vs 0")


def test_a_failed_save_leaves_nothing_half_done(tmp_path, monkeypatch):
    path = tmp_path / "a.ckpt"
    AtomicCheckpointIO().save_checkpoint({"step": 1}, path)

    monkeypatch.setattr(resume.torch, "save", failing)
    with suppress(UserError):
        AtomicCheckpointIO().save_checkpoint({"step": 2}, path)
    assert {one.name for one in tmp_path.iterdir()} == {MARKER, "a.ckpt"}
    assert step_in(path) == 1


def test_ctrl_c_in_a_save_is_ctrl_c(tmp_path, monkeypatch):
    def interrupted(checkpoint, file):
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("unexpected pos 64 vs 0")

    monkeypatch.setattr(resume.torch, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        AtomicCheckpointIO().save_checkpoint({"step": 2}, tmp_path / "a.ckpt")


DAMAGES = {
    "empty": lambda whole: b"",
    "cut": lambda whole: whole[: len(whole) // 2],
    "its end": lambda whole: whole[-40:],
    "zeros": lambda whole: bytes(len(whole)),
    "words": lambda whole: b"not a checkpoint",
    "a flipped head": lambda whole: b"XX" + whole[2:],
    "code": lambda whole: saved({"state": slice}),
    "no state of ours": lambda whole: saved({"other": 1}),
}


def saved(content):
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


def test_only_a_checkpoint_of_this_training_is_ever_removed(tmp_path):
    """A checkpoint of a stranger names the one before it, which Lightning removes with all that is below it."""
    mine, other = tmp_path / "checkpoints", tmp_path / "other"
    store = AtomicCheckpointIO(mine)
    for folder in (mine, other):
        store.save_checkpoint({"step": 1}, folder / "best.ckpt")
    (mine / "precious").mkdir()
    for path in (mine / "precious", "memory://precious", mine / "absent.ckpt", other / "best.ckpt"):
        store.remove_checkpoint(path)
    AtomicCheckpointIO().remove_checkpoint(mine / "best.ckpt")
    assert (mine / "precious").is_dir()
    assert (other / "best.ckpt").is_file()
    assert (mine / "best.ckpt").is_file()
    store.remove_checkpoint(str(mine / "best.ckpt"))
    assert {one.name for one in mine.iterdir()} == {MARKER, "precious"}
