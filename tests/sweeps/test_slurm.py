"""Sweeps on Slurm, with submitit and its signals as they are and a Slurm of this machine (`fake_slurm.py`)."""

import random
import subprocess
import threading
import time
from pathlib import Path

import pytest
from fake_cells import PATIENCE, done, plan, start_sweep, wait_for
from fake_slurm import install

from sweeps.ledger import Event, Ledger
from sweeps.status import State, read_status

pytest.importorskip("submitit")
pytestmark = pytest.mark.slow


@pytest.fixture
def slurm(tmp_path, monkeypatch) -> Path:
    """Folder of the jobs; the commands are on the path."""
    for name, value in install(tmp_path / "slurm").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sweeps.runners.SHARED_DISK_SECONDS", 1.0)
    return tmp_path / "slurm" / "jobs"


def submitted(folder: Path, name: str) -> int:
    return len(list((folder / ".sweep" / "jobs" / name).glob("*_submitted.pkl")))


def taken(folder: Path, name: str) -> list[str]:
    return (folder / name / "taken").read_text().split()


def test_a_failing_cell_is_submitted_again_and_named(tmp_path, slurm):
    folder = tmp_path / "runs"
    planner, cells = plan(folder, ["flaky", "fails"], runner="slurm")
    ended = planner.run()
    assert ended.finished == [cells[0]]
    assert ended.failed == {cells[1]: "error: no luck"}
    assert [submitted(folder, cell.name) for cell in cells] == [2, 2]


@pytest.mark.parametrize("seed", range(2))
def test_jobs_outlive_sweeps_that_are_killed_and_are_found_by_their_results(tmp_path, slurm, seed):
    folder, kinds, draw = tmp_path / "runs", ["fine"] * 4, random.Random(seed)
    for _ in range(3):
        sweep = start_sweep(folder, *kinds, runner="slurm", seconds=0.3)
        wait_for(lambda: (folder / ".sweep" / "events.jsonl").exists(), "the sweep has not begun")
        time.sleep(draw.uniform(0.5, 8))
        sweep.kill()
        sweep.wait()
    told, _ = start_sweep(folder, *kinds, runner="slurm", seconds=0.05).communicate(timeout=PATIENCE)
    finished, skipped, failed = done(told)
    assert (finished + skipped, failed) == (4, 0)
    for number in range(4):  # none was taken again
        assert taken(folder, f"{number}-fine") == [str(step) for step in range(10)]


def test_a_cell_whose_job_a_killed_sweep_left_in_the_queue_is_run_once(tmp_path, slurm):
    folder = tmp_path / "runs"
    (slurm / "hold").touch()
    sweep = start_sweep(folder, "fine", runner="slurm")
    wait_for(lambda: read_status(folder).count(State.QUEUED) if (folder / ".sweep").exists() else 0, "no job")
    sweep.kill()
    sweep.wait()
    again = start_sweep(folder, "fine", runner="slurm")
    wait_for(lambda: submitted(folder, "0-fine") == 2, "no second job")
    (slurm / "hold").unlink()
    told, _ = again.communicate(timeout=PATIENCE)
    finished, skipped, failed = done(told)
    assert (finished + skipped, failed) == (1, 0)
    assert taken(folder, "0-fine") == [str(step) for step in range(10)]


def test_a_sweep_that_is_asked_to_end_leaves_its_jobs_and_says_how_to_end_them(tmp_path, slurm):
    folder = tmp_path / "runs"
    sweep = start_sweep(folder, "fine", runner="slurm", seconds=0.3)
    wait_for(lambda: (folder / "0-fine" / "taken").exists(), "the cell has not begun")
    sweep.terminate()
    told, _ = sweep.communicate(timeout=PATIENCE)
    assert "leaving; 1 jobs go on, and the same command finds their results. To end them: scancel 1" in told
    wait_for((folder / "0-fine" / "result.json").exists, "the job did not go on")


def run_and_cancel(planner, folder: Path, *words: str) -> None:
    """Runs the one cell of a planner to its end, and says these words to `scancel` once it has begun."""

    def cancel() -> None:
        wait_for(lambda: (folder / "0-fine" / "taken").exists(), "the cell has not begun")
        subprocess.run(["scancel", *words], check=True)

    hand = threading.Thread(target=cancel)
    hand.start()
    ended = planner.run()
    hand.join()
    assert len(ended.finished) == 1


def test_out_of_time_a_job_saves_and_goes_back_into_the_queue(tmp_path, slurm, monkeypatch):
    folder = tmp_path / "runs"
    monkeypatch.setenv("STEP_SECONDS", "0.3")
    planner, _ = plan(folder, ["fine"], attempts=1, runner="slurm")
    run_and_cancel(planner, folder, "1", "--signal=USR2")
    assert submitted(folder, "0-fine") == 1  # the same job
    events = [event["event"] for event in Ledger(folder).events() if event.get("cell")]
    assert events == [Event.SUBMITTED, Event.STARTED, Event.FINISHED]
    assert len(taken(folder, "0-fine")) <= 11


@pytest.mark.parametrize(("words", "requeues"), [(["1"], 3), (["1", "--signal=USR2"], 0)])
def test_a_job_that_is_gone_costs_an_attempt(tmp_path, slurm, monkeypatch, words, requeues):
    """Cancelled by somebody, or out of time where no job goes back into the queue: the cell goes on in another."""
    folder, lines = tmp_path / "runs", []
    monkeypatch.setenv("STEP_SECONDS", "0.3")
    planner, _ = plan(folder, ["fine"], runner="slurm", requeues=requeues, report=lines.append)
    run_and_cancel(planner, folder, *words)
    assert submitted(folder, "0-fine") == 2
    assert any("0-fine: failed (" in line and "it will be tried again" in line for line in lines)
    assert len(taken(folder, "0-fine")) <= 11


def test_without_slurm_submitit_runs_jobs_here(tmp_path):
    folder = tmp_path / "runs"
    planner, _ = plan(folder, ["fine", "flaky"], runner="local")
    assert len(planner.run().finished) == 2
    assert submitted(folder, "1-flaky") == 2
