"""Whatever is written is whole or not there, and nothing that somebody has planted beside it is ever followed."""

import os
import re
import shutil
import signal
import stat
from pathlib import Path

import pytest
import torch
from forks import in_a_fork
from safetensors.torch import save_file

from juzhen.core import atomic_write as module
from juzhen.core.atomic_write import (
    atomic_write,
    atomic_write_dir,
    clear_leftovers,
    new_link,
    write_json,
    write_text,
)
from juzhen.core.file_guard import LIST


def names(folder: Path) -> list[str]:
    """All but the lists of what was written."""
    return sorted(one.name for one in folder.iterdir() if one.name != LIST)


def test_an_error_leaves_the_old_file(tmp_path):
    path = tmp_path / "a"
    write_text(path, "old")
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"half": [1, 2, float("nan")]})
    with pytest.raises(TypeError), atomic_write(path) as file:
        file.write(b"no text")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("planted", ["a.part", ".a.part", "a.json.part", "a"])
def test_a_planted_link_is_not_followed(tmp_path, planted):
    precious, folder = tmp_path / "precious", tmp_path / "folder"
    precious.write_text("mine")
    folder.mkdir()
    (folder / planted).symlink_to(precious)
    write_text(folder / "a", "new", in_own_folder=True)
    assert precious.read_text() == "mine"
    assert (folder / "a").read_text() == "new"
    assert not (folder / "a").is_symlink()


def test_the_name_of_an_unfinished_file_cannot_be_foreseen_and_is_made_exclusively(tmp_path, monkeypatch):
    """Even with the name known, a link or a file there is an error, never opened."""
    seen = set()
    for _ in range(20):
        with atomic_write(tmp_path / "a", "wb"):
            (part,) = [one for one in names(tmp_path) if one != "a"]
            seen.add(part)
    assert len(seen) == 20
    assert all(re.fullmatch(r"\.a\.[0-9a-f]{16}\.part", one) for one in seen)
    monkeypatch.setattr(module.secrets, "token_hex", lambda count: "0" * 2 * count)
    precious = tmp_path / "precious"
    (tmp_path / f".b.{'0' * 16}.part").symlink_to(precious)
    with pytest.raises(FileExistsError):
        write_text(tmp_path / "b", "new")
    assert not precious.exists()


def test_permissions_are_those_of_any_new_file(tmp_path):
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "a", "x")
        with atomic_write_dir(tmp_path / "b"):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o750


def test_a_long_name_has_room_for_what_is_added_to_it(tmp_path):
    path = tmp_path / ("句" * 84)  # 252 bytes, of 255
    write_text(path, "x")
    assert names(tmp_path) == [path.name]


def be_killed(path, write):
    with write(path) as unfinished:
        if isinstance(unfinished, Path):
            (unfinished / "inside").write_text("half")
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("write", [atomic_write, atomic_write_dir])
def test_what_a_kill_leaves_goes_at_the_next_write_and_what_is_being_written_stays(tmp_path, write):
    assert in_a_fork(be_killed, tmp_path / "a", write) == -signal.SIGKILL
    assert len(names(tmp_path)) == 1
    with atomic_write(tmp_path / "b", "wb"):
        assert len(names(tmp_path)) == 2
    assert len(names(tmp_path)) == 2  # that of another file is left alone
    with atomic_write(tmp_path / "a") as other:
        other.write("slow")
        with write(tmp_path / "a"):
            pass
        assert len(names(tmp_path)) == 3  # a, b and the one that is still being written
        shutil.rmtree(tmp_path / "a") if write is atomic_write_dir else None
    assert names(tmp_path) == ["a", "b"]
    assert (tmp_path / "a").read_text() == "slow"


def test_all_leftovers_of_a_folder_are_cleared(tmp_path):
    left = [
        ".encoder.0123456789abcdef.part",
        "stages/0-a/.encoder.0123456789abcdef.part",
    ]
    kept = [".hidden", "part", "my.part", "previous/1/.encoder.0123456789abcdef.part", ".lock"]
    for name in [*left, *kept]:
        (tmp_path / name).mkdir(parents=True)
    outside = tmp_path.parent / "outside"
    outside.mkdir()
    (tmp_path / ".x.0123456789abcdef.part").symlink_to(outside)
    clear_leftovers(tmp_path)
    assert not any((tmp_path / name).exists() for name in left)
    assert all((tmp_path / name).exists() for name in kept)
    assert outside.exists()


def test_another_name_of_a_file_takes_the_place_of_an_equal_one_and_of_itself(tmp_path):
    write_text(tmp_path / "a", "same")
    write_text(tmp_path / "b", "same")
    for _ in range(2):
        new_link(tmp_path / "a", tmp_path / "b")
        assert (tmp_path / "a").samefile(tmp_path / "b")
        assert names(tmp_path) == ["a", "b"]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
def test_weights_are_read_by_whom_the_umask_lets(tmp_path, umask, mode):
    """safetensors writes through a temporary file of its own, which is 0600."""

    def save() -> None:
        os.umask(umask)
        with atomic_write_dir(tmp_path / "encoder") as folder:
            save_file({"weights": torch.zeros(2)}, folder / "model.safetensors")
            write_text(folder / "config.json", "{}")
            (folder / "1_Pooling").mkdir()
            write_text(folder / "1_Pooling" / "config.json", "{}")

    assert in_a_fork(save) == 0
    files = [path for path in (tmp_path / "encoder").rglob("*") if path.is_file()]
    assert {path.name: path.stat().st_mode & 0o777 for path in files if path.name != LIST} == {
        "model.safetensors": mode,
        "config.json": mode,
    }
