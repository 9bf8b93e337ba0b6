"""What the planner makes of a runner where cells run, and what each runner is asked for, without a cluster."""

import fcntl
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_cells import FAKE, SLURM, plan, wait_for
from forks import python

from juzhen.core.errors import UserError
from juzhen.core.result import Result
from sweeps.ledger import Event, Ledger, SweepCell, is_at_work
from sweeps.runners import ClusterAttempt, Ended, RayRunner, SlurmRunner
from sweeps.status import State, read_status


class PaperRunner:
    """A cluster that exists on paper: what is submitted ends at the third look, as its kind says."""

    begins = Event.SUBMITTED
    poll_seconds = 0.0

    def __init__(self, *, refuses=(), room=2, keeps=False):
        self.refuses = refuses
        self.room = room
        self.keeps = keeps
        self.submitted = []
        self.most = self.active = 0

    def capacity(self):
        return self.room

    def describe(self):
        return "on paper"

    def start(self, cell, log):
        if cell.name in self.refuses:
            raise UserError("no such partition")
        self.submitted.append(cell.name)
        self.active += 1
        self.most = max(self.most, self.active)
        looks = iter([None, None])

        def poll():
            for look in looks:
                return look
            self.active -= 1
            if cell.name.endswith("fails"):
                return Ended(1, "its node is gone")
            os.makedirs(cell.run_dir, exist_ok=True)
            (Path(cell.run_dir) / "result.json").touch()
            return Ended(0)

        return SimpleNamespace(facts={"job": "7"}, poll=poll, since=0.0)

    def stop(self, works, report):
        return not self.keeps

    def close(self):
        self.closed = True


def sweep(folder, kinds, runner):
    planner, cells = plan(folder, kinds, runner=runner)
    return planner, cells, Ledger(folder)


def test_a_cell_that_is_at_work_elsewhere_is_waited_for_and_costs_no_attempt(tmp_path):
    runner = PaperRunner()
    planner, cells, _ = sweep(tmp_path / "runs", ["fine", "fails"], runner)
    folder = Path(cells[0].run_dir)
    folder.mkdir()
    with (folder / ".lock").open("a+") as lock:  # a job that a killed sweep had left
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert is_at_work(cells[0])
        planner._plan()
        for _ in range(20):
            planner._start_next()
            planner._reap()
        assert runner.submitted == ["1-fails", "1-fails"]
        turn = planner.waiting[0]
        planner._begin(turn, planner.ledger.claim(turn.cell))
        planner.waiting.clear()
        planner._end(turn, Ended(2, "another process is running this very job"))
        assert (turn.attempts, planner.waiting) == (0, [turn])
    assert not is_at_work(cells[0])
    assert planner.summary.failed == {cells[1]: "its node is gone"}


def test_room_is_asked_for_again_and_again(tmp_path):
    runner = PaperRunner(room=1)
    planner, _, _ = sweep(tmp_path / "runs", ["fine"] * 3, runner)
    grow = planner._reap
    planner._reap = lambda: (grow(), setattr(runner, "room", 1 + len(planner.summary.finished)))
    planner.run()
    assert runner.most == 2  # never more than there was room for, and more once there was
    assert runner.closed


def test_a_refused_start_ends_the_sweep_and_holds_nothing(tmp_path):
    planner, cells, ledger = sweep(
        tmp_path / "runs", ["fine", "fine"], PaperRunner(refuses={"1-fine"}, keeps=True)
    )
    with suppress(UserError):
        planner.run()
    assert not any(ledger.is_claimed(cell) for cell in cells)
    assert [event["event"] for event in ledger.events()].count(Event.STOPPED) == 0


@pytest.mark.parametrize(("keeps", "state"), [(True, State.QUEUED), (False, State.INTERRUPTED)])
def test_a_sweep_that_ends_early_says_what_becomes_of_its_cells(tmp_path, keeps, state):
    planner, _, _ = sweep(tmp_path / "runs", ["fine"], PaperRunner(keeps=keeps))
    planner._reap = lambda: (_ for _ in ()).throw(KeyboardInterrupt) if planner.running else None
    with pytest.raises(KeyboardInterrupt):
        planner.run()
    assert read_status(tmp_path / "runs").count(state) == 1


NODE = """
import os, sys
from sweeps.node import NodeCell
NodeCell(sys.argv[4:], {"OMP_NUM_THREADS": "3"}, os.getcwd(), *sys.argv[1:3], requeues=False)()
"""


def on_a_node(tmp_path, project_root, **environment):
    (tmp_path / "train.py").write_text(FAKE)
    words = [
        tmp_path / "log",
        tmp_path / "state",
        "--",
        sys.executable,
        tmp_path / "train.py",
        tmp_path / "a",
        "fine",
    ]
    told = {"PYTHONPATH": str(project_root), **environment}
    return subprocess.Popen([sys.executable, "-c", NODE, *map(str, words)], env=os.environ | told)


@pytest.mark.slow
def test_a_cell_on_a_node_sees_no_cluster_and_tells_how_it_goes(tmp_path, project_root):
    node = on_a_node(tmp_path, project_root, STEP_SECONDS="0.1", SLURM_NTASKS="1")
    wait_for((tmp_path / "state").exists, "the cell has not begun")
    process = json.loads((tmp_path / "state").read_text())["process"]
    assert b"SLURM_NTASKS" not in Path(f"/proc/{process}/environ").read_bytes()
    assert node.wait(60) == 0
    assert json.loads((tmp_path / "state").read_text()) == {"status": 0}
    assert json.loads((tmp_path / "a" / "starts").read_text())["OMP_NUM_THREADS"] == "3"


def test_a_killed_node_takes_its_cell_along_and_the_cell_is_at_work_until_then(tmp_path, project_root):
    node = on_a_node(tmp_path, project_root, STEP_SECONDS="30")
    cell = SweepCell(str(tmp_path / "a"), ())
    wait_for((tmp_path / "a" / "starts").exists, "the cell has not begun")
    process = json.loads((tmp_path / "state").read_text())["process"]
    os.kill(process, signal.SIGSTOP)  # it takes its time to save
    stat = Path(f"/proc/{process}/stat")
    wait_for(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "it was not stopped")
    node.kill()
    node.wait()
    assert is_at_work(cell)
    os.kill(process, signal.SIGCONT)
    wait_for(lambda: not is_at_work(cell), "the cell went on")


def test_a_cell_of_a_cluster_has_ended_when_it_says_so_or_when_its_job_is_over(tmp_path, monkeypatch):
    is_over, ledger, state = [False], Ledger(tmp_path), tmp_path / "state"
    work = ClusterAttempt(ledger, SweepCell("runs/a", ()), state, "12", lambda: is_over[0])
    assert work.poll() is None
    for _ in range(2):
        state.write_text('{"process": 7}')
        assert work.poll() is None
    assert [(event["event"], event["process"]) for event in ledger.events()] == [(Event.STARTED, 7)]
    is_over[0] = True
    assert work.poll() is None  # a shared disk may be late
    monkeypatch.setattr("sweeps.runners.SHARED_DISK_SECONDS", 0.0)
    assert "job 12 is gone" in work.poll().error
    state.write_text('{"status": 3}')
    assert work.poll() == Ended(3)


def test_slurm_is_asked_for_what_a_cell_needs():
    pytest.importorskip("submitit")

    def asked(devices, **changes):
        runner = SlurmRunner([], Ledger("runs"), 5, **SLURM | changes)
        assert runner.capacity() == 5
        return runner.parameters(SweepCell("runs/a", (), devices=devices))

    one = asked(2, memory_gb=1.5, partition="short", options={"mail-type": "FAIL"})
    assert (one["gpus_per_node"], one["cpus_per_task"], one["mem_gb"], one["slurm_partition"]) == (
        2,
        1,
        1.5,
        "short",
    )
    assert one["slurm_additional_parameters"] == {"requeue": True, "mail-type": "FAIL"}
    assert not {"gpus_per_node", "mem_gb", "slurm_account"} & {*asked(0)}
    fixed = asked(2, requeues=0, gpus=1)
    assert (fixed["slurm_additional_parameters"], fixed["gpus_per_node"]) == ({"no-requeue": True}, 1)


def ray_runner(monkeypatch, *nodes, devices=0, **resources):
    entries = [{"Alive": alive, "Resources": {"CPU": cpus, "GPU": gpus}} for alive, cpus, gpus in nodes]
    cloudpickle = SimpleNamespace(register_pickle_by_value=lambda module: None)
    calls = {"nodes": lambda: entries, "init": lambda **_: None, "shutdown": lambda: None}
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(cloudpickle=cloudpickle, **calls))
    resources = {"address": "auto", "jobs": None, "cpus": 4, "gpus": None} | resources
    return RayRunner([], Ledger("runs"), devices, **resources)


def test_ray_takes_as_many_cells_as_nodes_that_live_have_room_for(monkeypatch):
    nodes = [(True, 16, 2), (True, 6, 1), (False, 64, 8)]
    for resources, room in (
        ({}, 5),
        ({"devices": 1}, 3),
        ({"devices": 1, "gpus": 0.5, "cpus": 1}, 6),
        ({"jobs": 2}, 2),
    ):
        assert ray_runner(monkeypatch, *nodes, **resources).capacity() == room


LAUNCHERS = {
    "basic": None,
    "joblib": "hydra_plugins.hydra_joblib_launcher",
    "submitit_local": "hydra_plugins.hydra_submitit_launcher",
    "slurm": "submitit",
    "ray": "ray",
}
WORDS = {
    "joblib": ["hydra.launcher.n_jobs=2"],
    "slurm": ["hydra.launcher.cluster=local", "hydra.launcher.cpus=1"],
    "ray": ["hydra.launcher.address=null", "hydra.launcher.cpus=1"],
}


@pytest.mark.slow
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_every_launcher_runs_two_cells(launcher, tmp_path):
    if LAUNCHERS[launcher]:
        pytest.importorskip(LAUNCHERS[launcher])
    done = python(
        *("train.py", "-m", f"hydra/launcher={launcher}", *WORDS.get(launcher, [])),
        *("model=lexical", "dataset=[]", "benchmark=demo", "debug_rows=24", "seed=1,2", "logger=csv"),
        *("evaluation.bootstrap_samples=0", "hardware.threads=1", f"output_dir={tmp_path}"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert {Result.read(path).seed for path in tmp_path.glob("*/result.json")} == {1, 2}
    if launcher in ("slurm", "ray"):
        events = [event["event"] for event in Ledger(tmp_path).events()]
        assert [events.count(one) for one in (Event.SUBMITTED, Event.STARTED, Event.FINISHED)] == [2, 2, 2]
