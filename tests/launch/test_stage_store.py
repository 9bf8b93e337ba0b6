"""The store of stages: one run at a time has an entry, a record finishes it, and equal files share the disk."""

import threading
from dataclasses import replace

import numpy as np
import pytest
from filelock import FileLock, Timeout
from jobs import typed_job
from test_own_loss import TARGET, package  # noqa: F401  # a fixture
from test_stage_digest import digest

from juzhen.core.file_guard import claim_dir
from juzhen.core.result import Score
from juzhen.core.row_scores import RowScores, SetRows
from launch import stage_store
from launch.stage_store import LARGE_BYTES, StageEntry, StageStore, share_files

DIGEST = "0123456789abcdef" * 4
RECORD = {"training": {"seconds": 3.0, "selected_on": None}}
SCORES = {name: np.linspace(0, 1, 3, dtype=np.float32) for name in ("score", "gold")}
ROWS = RowScores("w", {"dev/a": SetRows("scored_pair", "f", {"row": np.arange(3, dtype=np.int32), **SCORES})})


def finished(store, folder, **how):
    with store.entry(DIGEST, folder, name="a", is_helper=False, **how) as entry:
        if found := entry.finished:
            return entry, found
        claim_dir(entry.checkpoints)
        (entry.checkpoints / "resume.ckpt").write_bytes(b"x")
        entry.finish(RECORD)
        return entry, found


def test_without_a_store_a_stage_is_kept_in_its_own_folder(tmp_path):
    with StageStore(None).entry(DIGEST, tmp_path / "stage", name="a", is_helper=False) as entry:
        assert (entry.path, entry.shared) == (tmp_path / "stage", False)
        (tmp_path / "stage").mkdir()
        entry._write(stage_store.RECORD, RECORD)
        assert not entry.finished


def test_an_entry_is_finished_by_its_record_for_all_later_runs_of_one_digest(tmp_path):
    store = StageStore(str(tmp_path / "store"))
    first, was_there = finished(store, tmp_path / "one")
    assert (first.path, first.shared, was_there) == (tmp_path / "store" / DIGEST[:16], True, False)
    assert not first.checkpoints.exists()
    again, was_there = finished(store, tmp_path / "two")
    assert was_there
    assert again.record() == RECORD
    with store.entry("f" * 64, tmp_path / "two", name="b", is_helper=False) as other:
        assert not other.finished


def test_checkpoints_that_a_kill_has_left_in_a_finished_entry_go(tmp_path):
    store = StageStore(tmp_path / "store")
    entry, _ = finished(store, tmp_path / "one")
    claim_dir(entry.checkpoints)
    (entry.checkpoints / "resume.ckpt").write_bytes(b"x")
    finished(store, tmp_path / "two")
    assert not entry.checkpoints.exists()


def test_one_process_has_an_entry_and_another_waits_and_says_so(tmp_path, capsys):
    store, order = StageStore(tmp_path / "store"), []

    def second():
        order.append(finished(store, tmp_path / "two")[1])

    with store.entry(DIGEST, tmp_path / "one", name="a", is_helper=False) as entry:
        with pytest.raises(Timeout):
            FileLock(entry.path / ".lock").acquire(timeout=0)
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
        order.append("first")
        entry.finish(RECORD)
    thread.join(20)
    assert order == ["first", True]
    assert "stage a: another run trains it" in capsys.readouterr().err


@pytest.mark.parametrize("run", ["one", "two"])
def test_a_helper_waits_until_its_own_run_has_the_entry_or_the_entry_is_finished(tmp_path, monkeypatch, run):
    monkeypatch.setattr(stage_store, "POLL_SECONDS", 0.01)
    store, seen = StageStore(tmp_path / "store"), threading.Event()

    def helper():
        with store.entry(DIGEST, tmp_path / run, name="a", is_helper=True):
            seen.set()

    thread = threading.Thread(target=helper)
    thread.start()
    assert not seen.wait(0.1)
    with store.entry(DIGEST, tmp_path / "one", name="a", is_helper=False) as entry:
        assert seen.wait(20 if run == "one" else 0.1) == (run == "one")
        entry.finish(RECORD)
    assert seen.wait(20)
    thread.join(20)


def test_scores_are_kept_under_their_digest_and_damaged_ones_are_computed_again(tmp_path):
    entry = StageEntry(tmp_path, shared=True)
    scores = {"dev/a/spearman": Score(0.5, low=0.4, high=0.6, count=3), "dev/b/f1": Score(None, why="none")}
    entry.keep_measured(DIGEST, scores, ROWS)
    found, rows = entry.measured(DIGEST)
    assert found == scores
    assert (rows.weights, rows.sets["dev/a"]["row"].tolist()) == ("w", [0, 1, 2])
    assert entry.measured("f" * 64) is None
    assert entry.measured(DIGEST[:16] + "f" * 48) is not None
    (file,) = tmp_path.glob("scores-*.parquet")
    file.write_bytes(file.read_bytes()[:-9])
    assert entry.measured(DIGEST) is None


def test_large_equal_files_are_one_on_the_disk_and_others_stay(tmp_path):
    contents = {
        "encoder/equal": b"a" * LARGE_BYTES,
        "small": b"a" * (LARGE_BYTES - 1),
        "other": b"b" * LARGE_BYTES,
        "alone": b"c" * LARGE_BYTES,
    }
    for folder in ("source", "copy"):
        for name, content in contents.items():
            path = tmp_path / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    (tmp_path / "source" / "other").write_bytes(b"d" * LARGE_BYTES)
    (tmp_path / "source" / "alone").unlink()
    for _ in range(2):
        share_files(tmp_path / "source", tmp_path / "copy")
        linked = {name: (tmp_path / "copy" / name).stat().st_nlink for name in contents}
        assert linked == {"encoder/equal": 2, "small": 1, "other": 1, "alone": 1}
        assert {name: (tmp_path / "copy" / name).read_bytes() for name in contents} == contents


def test_the_source_of_a_loss_of_ones_own_is_part_of_the_digest(package, monkeypatch):  # noqa: F811
    alone = typed_job("dataset=[demo_sts]", "benchmark=none")
    own = replace(alone, loss={"_target_": TARGET, "name": "absolute", "power": 1.5})
    before, ours = (digest(job, sets=["demo_sts"]) for job in (own, alone))
    assert digest(own, sets=["demo_sts"]) == before != ours
    monkeypatch.setattr(stage_store.inspect, "getsource", lambda module: f"another {module.__name__}")
    assert digest(own, sets=["demo_sts"]) != before
    assert digest(alone, sets=["demo_sts"]) == ours
