"""What is written to shared memory comes back whole, from the same machine, to the training that wrote it."""

import json
import os
import signal
import time
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from callbacks import snapshot, snapshot_file
from callbacks import snapshots as kept
from callbacks.snapshot import Snapshots
from callbacks.snapshot_file import NoRoomError, put_together, read_snapshot, take_apart
from callbacks.snapshots import POINTER, clear_away, find_snapshot, forget_snapshot, private_folder
from juzhen.cli.main import main as sweeps_main

pytestmark = pytest.mark.skipif(kept.boot_id() is None, reason="only Linux tells one start from another")

ALWAYS = 1e9


def state(step: int) -> dict:
    generator = torch.Generator().manual_seed(step)
    weight = torch.randn(37, 5, generator=generator)
    return {
        "global_step": step,
        "state_dict": {"weight": weight, "half": weight.bfloat16(), "empty": torch.empty(0, 3)},
        "optimizer_states": [{"state": {0: {"step": torch.tensor(float(step)), "exp_avg": weight.T}}}],
        "callbacks": {"seen": [1, (2, "三")], "bytes": torch.arange(7, dtype=torch.uint8), "flag": None},
    }


def same(one, other) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return one == other


@pytest.fixture
def checkpoints(tmp_path) -> Path:
    return tmp_path / "run" / "checkpoints"


@pytest.fixture
def shared(tmp_path) -> Path:
    folder = tmp_path / "memory"
    folder.mkdir()
    return folder


@pytest.fixture
def snapshots(checkpoints, shared) -> Snapshots:
    return Snapshots(checkpoints, shared, share=ALWAYS)


def write(snapshots: Snapshots, *steps: int) -> None:
    for step in steps:
        snapshots.write(lambda step=step: state(step), steps=step)


def let_go(snapshots: Snapshots) -> None:
    """Leaves the file as the end of its process would."""
    snapshots._file._views.clear()
    snapshots._file._map.close()
    snapshots._file._file.close()


def test_a_state_is_taken_apart_and_put_together():
    tensors, remainder = take_apart(state(3))
    assert len(tensors) == 6
    assert same(put_together(remainder, tensors), state(3))


def test_the_last_of_many_writes_is_what_is_read(snapshots, checkpoints):
    for last in range(1, 6):
        write(snapshots, last)
        found = find_snapshot(checkpoints)
        assert found.steps == last
        assert same(read_snapshot(found.path), state(last))
    assert snapshots.written == 5


def test_what_was_read_does_not_change_with_the_next_writes(snapshots, checkpoints):
    write(snapshots, 1)
    kept = read_snapshot(find_snapshot(checkpoints).path)
    write(snapshots, 2, 3, 4)
    assert same(kept, state(1))


def test_a_write_that_breaks_off_leaves_the_state_before_it(snapshots, checkpoints, monkeypatch):
    write(snapshots, 1, 2)
    whole = snapshot_file.WHOLE

    class Broken:
        size = whole.size

        def pack(self, *_):
            raise KeyboardInterrupt

        def unpack_from(self, *given):
            return whole.unpack_from(*given)

    monkeypatch.setattr(snapshot_file, "WHOLE", Broken())
    with pytest.raises(KeyboardInterrupt):
        write(snapshots, 3)
    assert same(read_snapshot(find_snapshot(checkpoints).path), state(2))


def test_of_a_large_state_there_is_one_copy_and_none_while_it_is_written(checkpoints, shared, monkeypatch):
    monkeypatch.setattr(snapshot_file, "LARGE_BYTES", 0)
    snapshots = Snapshots(checkpoints, shared, share=ALWAYS)
    for step in (1, 2, 3):
        write(snapshots, step)
        assert same(read_snapshot(find_snapshot(checkpoints).path), state(step))
    size = find_snapshot(checkpoints).path.stat().st_size
    assert size < 2 * snapshot_file.REMAINDER_BYTES
    monkeypatch.setattr(snapshot_file, "TOLD", None)
    with pytest.raises(AttributeError):
        write(snapshots, 4)
    monkeypatch.undo()
    assert find_snapshot(checkpoints) is None


def test_closing_gives_the_memory_back(snapshots, checkpoints, shared):
    write(snapshots, 1)
    snapshots.close()
    assert find_snapshot(checkpoints) is None
    assert not list(private_folder(shared).iterdir())
    assert not (checkpoints / POINTER).exists()


def test_a_training_that_continues_replaces_what_it_continues(checkpoints, shared):
    write(Snapshots(checkpoints, shared, share=ALWAYS), 1)
    before = find_snapshot(checkpoints).path
    write(Snapshots(checkpoints, shared, share=ALWAYS), 2)
    assert find_snapshot(checkpoints).steps == 2
    assert not before.exists()


def test_other_tensors_get_another_file(snapshots, checkpoints, shared):
    write(snapshots, 1)
    grown = state(2) | {"more": torch.ones(9)}
    snapshots.write(lambda: grown, steps=2)
    assert same(read_snapshot(find_snapshot(checkpoints).path), grown)
    assert len(list(private_folder(shared).iterdir())) == 1


def test_a_run_folder_that_was_made_anew_has_no_snapshot(checkpoints, shared):
    write(Snapshots(checkpoints, shared, share=ALWAYS), 1)
    checkpoints.rename(checkpoints.with_name("previous"))
    checkpoints.mkdir()
    assert find_snapshot(checkpoints) is None
    assert find_snapshot(checkpoints.with_name("previous")) is None  # another place, perhaps another run


def test_a_snapshot_of_another_start_of_the_system_is_not_trusted(checkpoints, shared, monkeypatch):
    write(Snapshots(checkpoints, shared, share=ALWAYS), 1)
    monkeypatch.setattr(kept, "boot_id", lambda: "another")
    assert find_snapshot(checkpoints) is None


@pytest.mark.parametrize(
    "words",
    ["", "{", "[]", '{"path": 3}', '{"path": "/nowhere"}', '{"path": "here"}'],
    ids=["empty", "broken", "list", "number", "nowhere", "no snapshot"],
)
def test_a_pointer_that_leads_nowhere_is_no_snapshot(checkpoints, words, monkeypatch, tmp_path):
    checkpoints.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    Path("here").write_bytes(os.urandom(3 * kept.HEADER_BYTES))
    (checkpoints / POINTER).write_text(words)
    assert find_snapshot(checkpoints) is None
    forget_snapshot(checkpoints)
    assert not (checkpoints / POINTER).exists()
    assert Path("here").exists()


def test_snapshots_that_nobody_will_ask_for_are_cleared_away(checkpoints, shared, tmp_path):
    wanted, live, gone, old = (tmp_path / name for name in ("wanted", "live", "gone", "old"))
    held = [Snapshots(one, shared, share=ALWAYS) for one in (wanted, live, gone, old)]
    for one in held:
        write(one, 1)
    paths = [find_snapshot(one).path for one in (wanted, live, gone, old)]
    for one in (held[0], held[2], held[3]):
        let_go(one)
    (gone / POINTER).unlink()
    os.utime(paths[3], (time.time() - 8 * 86400,) * 2)
    clear_away(private_folder(shared))
    assert [path.exists() for path in paths] == [True, True, False, False]


def test_too_little_room_is_said_and_not_asked_for_again(checkpoints, shared, monkeypatch):
    monkeypatch.setattr(snapshot_file, "_free_bytes", lambda folder: 1000)
    snapshots = Snapshots(checkpoints, shared, share=ALWAYS)
    assert snapshots.due
    with pytest.raises(NoRoomError, match="may be taken"):
        write(snapshots, 1)
    assert not snapshots.due
    assert not list(private_folder(shared).iterdir())


def test_a_remainder_that_is_too_large_is_refused(snapshots, shared):
    with pytest.raises(NoRoomError, match="bytes beside the tensors"):
        snapshots.write(lambda: {"words": "x" * snapshot_file.REMAINDER_BYTES}, steps=1)
    assert not list(private_folder(shared).iterdir())


def test_nothing_is_kept_where_there_is_no_such_folder(checkpoints, tmp_path):
    assert not Snapshots(checkpoints, tmp_path / "none", share=ALWAYS).due


def test_a_folder_that_others_can_read_is_not_used(shared):
    folder = private_folder(shared)
    folder.chmod(0o755)
    assert private_folder(shared) is None
    folder.rmdir()
    folder.symlink_to(shared)
    assert private_folder(shared) is None


def test_it_takes_no_more_than_its_share_of_the_time(checkpoints, shared, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(snapshot.time, "perf_counter", lambda: now[0])
    snapshots = Snapshots(checkpoints, shared, share=0.1)

    def slow(step):
        now[0] += 2.0
        return state(step)

    written = []
    for step in range(1, 101):
        now[0] += 5.0  # the step itself
        if snapshots.due:
            snapshots.write(lambda step=step: slow(step), steps=step)
            written.append(step)
    assert written[:2] == [1, 2]  # nothing is known of the cost before the second: the first makes the file
    assert {later - earlier for earlier, later in pairwise(written[1:])} == {4}


def write_on_and_on(checkpoints, shared, pipe):
    snapshots = Snapshots(checkpoints, shared, share=ALWAYS)
    for step in range(1, 10**9):
        number = torch.full((300_000,), float(step))
        told = {"step": step, "one": number, "other": [number[:1000].clone()]}
        snapshots.write(lambda told=told: told, steps=step)
        os.write(pipe, f"{step}\n".encode())


@pytest.mark.parametrize(
    "wait", [0.011, *(pytest.param(wait, marks=pytest.mark.slow) for wait in (0.0, 0.002, 0.005, 0.019))]
)
def test_killed_while_it_writes_it_leaves_one_whole_state(checkpoints, shared, wait):
    end, pipe = os.pipe()
    if not (process := os.fork()):
        try:
            write_on_and_on(checkpoints, shared, pipe)
        finally:
            os._exit(1)
    os.close(pipe)
    with open(end) as told:
        for line in told:
            if int(line) >= 20:
                break
        time.sleep(wait)
        os.kill(process, signal.SIGKILL)
        said = told.read().split()
    os.waitpid(process, 0)
    found = find_snapshot(checkpoints)
    kept = read_snapshot(found.path)
    assert kept["step"] == found.steps
    assert found.steps - int(said[-1] if said else 20) in (0, 1)
    for tensor in (kept["one"], *kept["other"]):
        assert tensor.eq(found.steps).all()


def test_the_pointer_names_the_file(checkpoints, shared):
    write(Snapshots(checkpoints, shared, share=ALWAYS), 1)
    told = json.loads((checkpoints / POINTER).read_text())
    assert told == {"path": str(find_snapshot(checkpoints).path)}


def test_the_state_is_told_without_memory_for_a_copy(snapshots, checkpoints, shared):
    write(snapshots, 1, 2, 3)
    told, found = snapshots.state(), read_snapshot(find_snapshot(checkpoints).path)
    assert same(told, state(3))
    assert same(found, told)
    weight = told["state_dict"]["weight"]
    assert any(weight.data_ptr() == view.data_ptr() for views in snapshots._file._views for view in views)
    # Another process, which has written nothing yet, finds the same.
    later = Snapshots(checkpoints, shared, share=ALWAYS)
    assert same(later.state(), state(3))
    del told, weight
    snapshots.close()
    assert not list(shared.rglob("*.snapshot"))


def left_by_killed_runs(tmp_path, shared, *names: str) -> list[Path]:
    """Snapshots that dead processes have left, the first one written first."""
    paths = []
    for number, name in enumerate(names):
        snapshots = Snapshots(tmp_path / name / "checkpoints", shared, share=ALWAYS)
        write(snapshots, 1 + number)
        paths.append(find_snapshot(tmp_path / name / "checkpoints").path)
        let_go(snapshots)
        os.utime(paths[-1], (time.time() - 1000 + number,) * 2)
    return paths


def test_the_snapshot_of_a_run_that_is_finished_is_cleared_away(tmp_path, shared):
    done, killed = left_by_killed_runs(tmp_path, shared, "done", "killed")
    (tmp_path / "done" / "result.json").touch()
    clear_away(private_folder(shared))
    assert (done.exists(), killed.exists()) == (False, True)


def test_all_of_them_together_are_bounded_and_the_oldest_go_first(tmp_path, shared):
    paths = left_by_killed_runs(tmp_path, shared, "a", "b", "c")
    size = kept.snapshots(private_folder(shared))[0].num_bytes
    assert size > 2 * snapshot_file.REMAINDER_BYTES  # what it takes, not what it says
    clear_away(private_folder(shared), keep_bytes=2 * size)
    assert [path.exists() for path in paths] == [False, True, True]
    held = Snapshots(tmp_path / "d" / "checkpoints", shared, share=ALWAYS, keep_bytes=size)
    write(held, 1)
    clear_away(private_folder(shared), keep_bytes=0)
    assert not any(path.exists() for path in paths)
    assert find_snapshot(tmp_path / "d" / "checkpoints") is not None  # its training lives


def test_a_command_lists_them_with_their_owners_and_clears_them(tmp_path, shared, capsys):
    killed, gone = left_by_killed_runs(tmp_path, shared, "killed", "gone")
    live = Snapshots(tmp_path / "live" / "checkpoints", shared, share=ALWAYS)
    write(live, 7)
    (tmp_path / "gone" / "checkpoints" / POINTER).unlink()
    assert sweeps_main(["snapshots", "--memory", str(shared)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "3 states of training, " in said
    for use in ("at work", "kept", "abandoned"):
        assert use in said
    assert killed.exists()
    assert gone.exists()
    assert sweeps_main(["snapshots", "--memory", str(shared), "--clear"]) == 0
    assert "2 deleted, " in capsys.readouterr().out
    assert [path.exists() for path in (killed, gone)] == [False, False]
    assert find_snapshot(tmp_path / "live" / "checkpoints").steps == 7
    (tmp_path / "empty").mkdir()
    assert sweeps_main(["snapshots", "--memory", str(tmp_path / "empty")]) == 0
    assert "0 states of training, 0 MiB" in " ".join(capsys.readouterr().out.split())
    assert sweeps_main(["snapshots", "--memory", str(tmp_path / "nowhere")]) == 2
    assert "no such folder" in capsys.readouterr().err
