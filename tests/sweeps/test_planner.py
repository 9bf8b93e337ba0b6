"""Sweeps survive: cells that are killed go on, sweeps that are killed are taken up, and none is run twice."""

import os
import random
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_cells import done, plan, results, start_sweep

from juzhen.core.text import time_in_words
from sweeps.ledger import Event, Ledger
from sweeps.runners import LocalRunner
from sweeps.status import State, read_status, summary, watched


def starts(folder: Path, cell) -> int:
    return (folder / cell.name / "starts").read_text().count("\n")


@pytest.mark.slow
def test_a_failing_cell_is_tried_twice_named_and_stops_no_other(tmp_path):
    lines = []
    planner, cells = plan(tmp_path / "runs", ["fine", "fails", "flaky", "fine"], report=lines.append)
    ended = planner.run()
    assert {cell.name for cell in ended.finished} == {cells[i].name for i in (0, 2, 3)}
    assert ended.failed == {cells[1]: "error: no luck"}
    assert [starts(tmp_path / "runs", cell) for cell in cells] == [1, 2, 2, 1]
    assert any("1-fails: failed (error: no luck); it will be tried again" in line for line in lines)

    again, cells = plan(tmp_path / "runs", ["fine", "fails", "flaky", "fine"])
    ended = again.run()
    assert len(ended.skipped) == 3
    assert [starts(tmp_path / "runs", cell) for cell in cells] == [1, 4, 2, 1]


def test_a_mistake_of_the_user_in_a_cell_is_final(tmp_path):
    lines = []
    planner, cells = plan(tmp_path / "runs", ["refused", "flaky"], attempts=3, report=lines.append)
    ended = planner.run()
    assert ended.failed == {cells[0]: "error: no such set"}
    assert [starts(tmp_path / "runs", cell) for cell in cells] == [1, 2]
    assert "0-refused: failed (error: no such set); the same command would fail again" in lines


def test_a_watched_status_ends_with_the_last_cell(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "runs"
    plan(folder, ["fine"])[0]._plan()
    run = plan(folder, ["fine"])[0].run
    monkeypatch.setattr("sweeps.status.time", SimpleNamespace(sleep=lambda seconds: run()))
    watched(folder)
    assert "1 finished" in capsys.readouterr().out


def test_the_status_tells_states_errors_and_time(tmp_path):
    folder = tmp_path / "runs"
    planner, _ = plan(folder, ["fine", "fails"])
    planner.run()
    more, cells = plan(folder, ["fine", "fails", "fine", "fine"])
    more._plan()
    ledger = Ledger(folder)
    ledger.add(Event.STARTED, cell=cells[2].name, process=1, attempt=1)
    states = {history.cell.name: (state, history.error) for history, state in read_status(folder).cells}
    assert states == {
        "0-fine": (State.FINISHED, ""),
        "1-fails": (State.FAILED, "error: no luck"),
        "2-fine": (State.INTERRUPTED, ""),
        "3-fine": (State.WAITING, ""),
    }
    (took,) = (event["seconds"] for event in ledger.events() if event["event"] == Event.FINISHED)
    status = read_status(folder)
    assert status.seconds_left == pytest.approx(3 * took / 2)
    counts = "4 runs: 1 finished, 1 waiting, 1 interrupted, 1 failed"
    assert summary(status) == f"{counts}; about {time_in_words(3 * took / 2)} left, 2 at a time"
    with ledger.claim(cells[2]):
        assert read_status(folder).count(State.RUNNING) == 1


def test_a_sweep_that_is_killed_is_taken_up_where_it_was(tmp_path):
    kinds = ["fine"] * 4
    whole, _ = plan(tmp_path / "whole" / "runs", kinds)
    whole.run()
    folder = tmp_path / "cut" / "runs"
    for wait in (0.6, 0.9):
        sweep = start_sweep(folder, *kinds)
        time.sleep(wait)
        sweep.kill()
        sweep.wait()
    ended, cells = plan(folder, kinds)
    ended.run()
    assert results(folder) == results(tmp_path / "whole" / "runs")
    taken = [(folder / cell.name / "taken").read_text().split() for cell in cells]
    # Each kill costs a cell at most the step that it was taking.
    assert all(len(set(steps)) == 10 and len(steps) <= 12 for steps in taken)


@pytest.mark.slow
def test_a_killed_cell_goes_on(tmp_path):
    folder = tmp_path / "runs"
    sweep = start_sweep(folder, "fine", "fine", seconds=0.2)
    name = "0-fine"
    while not (folder / name / "taken").exists():
        time.sleep(0.02)
    started = next(event for event in Ledger(folder).events() if event.get("cell") == name)
    os.kill(started["process"], signal.SIGKILL)
    told, _ = sweep.communicate(timeout=60)
    assert f"{name}: failed (ended by signal 9); it will be tried again" in told
    assert "DONE 2 0 0" in told
    assert (folder / name / "starts").read_text().count("\n") == 2
    assert len((folder / name / "taken").read_text().split()) <= 11


@pytest.mark.slow
def test_two_sweeps_share_one_folder(tmp_path):
    folder, kinds = tmp_path / "runs", ["fine"] * 5
    sweeps = [start_sweep(folder, *kinds) for _ in range(2)]
    told = [sweep.communicate(timeout=100)[0] for sweep in sweeps]
    ends = [done(text) for text in told]
    assert sum(finished for finished, _, _ in ends) == 5
    assert all(finished + skipped == 5 and failed == 0 for finished, skipped, failed in ends), told
    for path in folder.rglob("starts"):
        assert path.read_text().count("\n") == 1, f"{path.parent.name} was run twice"
    assert all(isinstance(event, dict) for event in Ledger(folder).events())


@pytest.mark.slow
def test_a_sweep_that_is_asked_to_end_ends_its_cells(tmp_path):
    folder = tmp_path / "runs"
    sweep = start_sweep(folder, "fine", "fine", "fine", seconds=1)
    while len(list(folder.rglob("starts"))) < 2:
        time.sleep(0.05)
    sweep.terminate()
    assert sweep.wait(timeout=60) == 128 + signal.SIGTERM
    events = list(Ledger(folder).events())
    assert [event["event"] for event in events].count(Event.STOPPED) == 2
    for event in events:
        if event["event"] == Event.STARTED:
            with pytest.raises(ProcessLookupError):
                os.kill(event["process"], 0)


def test_a_torn_line_costs_only_itself(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.add(Event.SWEEP, cells=1, jobs=1)
    with ledger.path.open("ab") as file:
        file.write(b'{"event": "plan')
    ledger.add(Event.SWEEP, cells=2, jobs=1)
    assert [event["cells"] for event in ledger.events()] == [1, 2]


def machine(**share):
    return LocalRunner([], **share)


def test_threads_are_shared_out_and_gpus_come_in_turn(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("sweeps.runners.num_cores", lambda: 16)
    assert machine(jobs=None, threads=None, gpus=None, devices=0).jobs == 4
    three = machine(jobs=3, threads=None, gpus=None, devices=0)
    assert three.environment(0)["OMP_NUM_THREADS"] == "5"
    assert "CUDA_VISIBLE_DEVICES" not in three.environment(0)
    two = machine(jobs=None, threads=None, gpus=[0, 1, 2, 3], devices=2)
    assert two.jobs == 2
    assert [two.environment(slot)["CUDA_VISIBLE_DEVICES"] for slot in range(3)] == ["0,1", "2,3", "0,1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    assert machine(jobs=3, threads=1, gpus=None, devices=1).environment(2)["CUDA_VISIBLE_DEVICES"] == "5"
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert machine(jobs=3, threads=None, gpus=None, devices=0).threads == 2


@pytest.mark.slow
def test_a_cell_that_another_sweep_holds_is_left_to_it(tmp_path):
    folder = tmp_path / "runs"
    _, (held, free) = plan(folder, ["fine", "fine"])
    with Ledger(folder).claim(held):
        sweep = start_sweep(folder, "fine", "fine", seconds=0.01)
        while not free.finished:
            time.sleep(0.05)
        time.sleep(0.5)
        assert not (folder / held.name / "starts").exists()
        assert sweep.poll() is None
    assert "DONE 2 0 0" in sweep.communicate(timeout=60)[0]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_sweeps_killed_at_random_moments(tmp_path, seed):
    kinds = ["fine", "flaky", "fine", "fine", "fine"]
    whole, _ = plan(tmp_path / "whole" / "runs", kinds)
    whole.run()
    folder, draw = tmp_path / "cut" / "runs", random.Random(seed)
    for _ in range(6):
        sweeps = [start_sweep(folder, *kinds) for _ in range(2)]
        time.sleep(draw.uniform(0.2, 1.0))
        for sweep in sweeps:
            sweep.kill()
            sweep.wait()
    last, _ = plan(folder, kinds)
    ended = last.run()
    assert not ended.failed
    assert results(folder) == results(tmp_path / "whole" / "runs")
