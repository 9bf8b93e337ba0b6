import os
import signal

import pytest
import torch
from forks import in_a_fork

from callbacks import checkpoint_io
from callbacks.checkpoint_io import AtomicCheckpointIO
from schema import whole
from schema.errors import UserError


def save_and_be_killed_before_the_rename(path):
    whole.os.replace = lambda *names: os.kill(os.getpid(), signal.SIGKILL)
    AtomicCheckpointIO().save_checkpoint({"step": 2}, path)


def step_in(path):
    return torch.load(path, weights_only=True)["step"]


def test_a_kill_before_the_rename_leaves_the_old_checkpoint(tmp_path):
    path = tmp_path / "resume.ckpt"
    AtomicCheckpointIO().save_checkpoint({"step": 1}, path)
    assert in_a_fork(save_and_be_killed_before_the_rename, path) == -signal.SIGKILL
    left, kept = sorted(one.name for one in tmp_path.iterdir())
    assert (left.startswith(".resume.ckpt."), kept) == (True, "resume.ckpt")
    assert step_in(path) == 1
    # What the kill has left lying about is gone after the next save.
    AtomicCheckpointIO().save_checkpoint({"step": 3}, path)
    assert [one.name for one in tmp_path.iterdir()] == ["resume.ckpt"]
    assert step_in(path) == 3


def test_it_is_on_the_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    order = []
    monkeypatch.setattr(whole.os, "fsync", lambda number: order.append("flush"))
    replace = os.replace
    monkeypatch.setattr(whole.os, "replace", lambda *names: order.append("rename") or replace(*names))
    AtomicCheckpointIO().save_checkpoint({"step": 1}, tmp_path / "new" / "a.ckpt")
    assert order == ["flush", "rename"]
    assert step_in(tmp_path / "new" / "a.ckpt") == 1


def test_a_failed_save_leaves_nothing_half_done(tmp_path, monkeypatch):
    path = tmp_path / "a.ckpt"
    AtomicCheckpointIO().save_checkpoint({"step": 1}, path)

    def fail(checkpoint, file):
        file.write(b"half")
        raise RuntimeError("unexpected pos 64 vs 0")

    monkeypatch.setattr(checkpoint_io.torch, "save", fail)
    with pytest.raises(UserError, match=r"a.ckpt: .*unexpected pos.* resume=auto"):
        AtomicCheckpointIO().save_checkpoint({"step": 2}, path)
    assert [one.name for one in tmp_path.iterdir()] == ["a.ckpt"]
    assert step_in(path) == 1


def test_a_checkpoint_runs_no_code(tmp_path):
    torch.save({"state": slice}, tmp_path / "odd.ckpt")
    with pytest.raises(Exception, match="weights_only"):
        AtomicCheckpointIO().load_checkpoint(tmp_path / "odd.ckpt", weights_only=False)
