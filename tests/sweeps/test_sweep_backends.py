"""What the planner makes of a place where cells run, and what each place refuses, without a cluster."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from cluster_cells import SLURM
from fake_cells import FAKE, plan

from juzhen.core.errors import UserError
from sweeps.backends import ray_cluster, remote
from sweeps.backends.interface import Backend, Ended
from sweeps.backends.ray_cluster import RayBackend, RayResources
from sweeps.backends.slurm import SlurmResources, SlurmWork
from sweeps.backends.worker import command_for
from sweeps.ledger import Cell, Event, Ledger
from sweeps.status import State, read_status


class Place(Backend):
    """A cluster that exists on paper: what is submitted ends at the third look, as its kind says."""

    begins = Event.SUBMITTED
    poll_seconds = 0.0

    def __init__(self, *, left=(), refuses=(), room=2, keeps=False):
        self.left = set(left)
        self.refuses = refuses
        self.room = room
        self.keeps = keeps
        self.submitted = []
        self.most = 0
        self.active = 0

    def capacity(self):
        return self.room

    def describe(self):
        return "on paper"

    def start(self, cell, log):
        if cell.name in self.refuses:
            raise UserError("no such partition")
        self.submitted.append(cell.name)
        return self._work(cell)

    def adopt(self, cell):
        return self._work(cell) if cell.name in self.left else None

    def stop(self, works, report):
        return not self.keeps

    def close(self):
        self.closed = True

    def _work(self, cell):
        self.active += 1
        self.most = max(self.most, self.active)

        looks = iter([None, None])

        def poll():
            for look in looks:
                return look
            self.active -= 1
            self.left.discard(cell.name)
            if cell.name.endswith("fails"):
                return Ended(1, "its node is gone")
            os.makedirs(cell.run_dir, exist_ok=True)
            (Path(cell.run_dir) / "result.json").touch()
            return Ended(0)

        return SimpleNamespace(facts={"job": "7"}, poll=poll)


def sweep(folder, kinds, place, **options):
    lines = []
    planner, cells = plan(folder, kinds, backend=lambda *_: place, report=lines.append, **options)
    return planner, cells, lines


def test_what_an_earlier_sweep_left_is_waited_for_and_not_submitted_again(tmp_path):
    place = Place(left={"1-fine"})
    planner, cells, lines = sweep(tmp_path / "runs", ["fine", "fine", "fails"], place)
    ended = planner.run()
    assert place.submitted == ["0-fine", "2-fails", "2-fails"]
    assert {cell.name for cell in ended.finished} == {"0-fine", "1-fine"}
    assert ended.failed == {cells[2]: "its node is gone"}
    assert "[0/3] 1-fine: is at work already, and is waited for" in lines
    assert place.closed


def test_room_is_asked_for_again_and_again(tmp_path):
    place = Place(room=1)
    planner, _, _ = sweep(tmp_path / "runs", ["fine"] * 3, place)
    grow = planner._reap
    planner._reap = lambda: (grow(), setattr(place, "room", 1 + len(planner.finished)))
    planner.run()
    assert place.most == 2  # never more than there was room for, and more once there was


def test_a_refused_start_ends_the_sweep_and_holds_nothing(tmp_path):
    place = Place(refuses={"1-fine"}, keeps=True)
    planner, cells, _ = sweep(tmp_path / "runs", ["fine", "fine"], place)
    with pytest.raises(UserError, match="no such partition"):
        planner.run()
    ledger = Ledger(tmp_path / "runs")
    assert not any(ledger.is_claimed(cell) for cell in cells)
    assert [event["event"] for event in ledger.events()].count(Event.STOPPED) == 0


@pytest.mark.parametrize(("keeps", "state"), [(True, State.QUEUED), (False, State.INTERRUPTED)])
def test_a_sweep_that_ends_early_says_what_becomes_of_its_cells(tmp_path, keeps, state):
    place = Place(keeps=keeps)
    planner, _, _ = sweep(tmp_path / "runs", ["fine"], place)
    planner._reap = lambda: (_ for _ in ()).throw(KeyboardInterrupt) if planner.running else None
    with pytest.raises(KeyboardInterrupt):
        planner.run()
    assert read_status(tmp_path / "runs").count(state) == 1


def worker(folder, cell, project_root, **environment):
    program = folder.parent / "train.py"
    program.write_text(FAKE)
    command = command_for(Ledger(folder), cell, [sys.executable, str(program), cell.run_dir, "fine"])
    told = {"PYTHONPATH": str(project_root), "ATTENDED_BY": str(os.getpid()), **environment}
    return subprocess.Popen(command, env=os.environ | told)


def started_in(folder):
    """The process of the cell that was started first; waits for it."""
    while not (started := [event for event in Ledger(folder).events() if event["event"] == Event.STARTED]):
        time.sleep(0.02)
    return started[0]["process"]


@pytest.mark.slow
def test_a_cell_has_one_worker_and_sees_no_cluster(tmp_path, project_root):
    folder = tmp_path / "runs"
    cell = Cell(str(folder / "0-fine"), ())
    steps = {"STEP_SECONDS": "0.2", "SLURM_NTASKS": "1", "OMP_NUM_THREADS": "3"}
    both = [worker(folder, cell, project_root, **steps) for _ in range(2)]
    process = started_in(folder)
    assert Ledger(folder).is_at_work(cell)
    assert b"SLURM_NTASKS" not in Path(f"/proc/{process}/environ").read_bytes()
    assert [one.wait(60) for one in both] == [0, 0]
    assert json.loads((folder / "0-fine" / "starts").read_text())["OMP_NUM_THREADS"] == "3"  # and one line
    assert not Ledger(folder).is_at_work(cell)


def test_a_killed_worker_takes_its_cell_along_and_the_cell_is_busy_until_then(tmp_path, project_root):
    folder = tmp_path / "runs"
    cell = Cell(str(folder / "0-fine"), ())
    one = worker(folder, cell, project_root, STEP_SECONDS="30")
    process = started_in(folder)
    os.kill(process, signal.SIGSTOP)  # it takes its time to save
    while Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        time.sleep(0.02)
    one.kill()
    one.wait()
    assert Ledger(folder).is_at_work(cell)
    os.kill(process, signal.SIGCONT)
    deadline = time.monotonic() + 60
    while Ledger(folder).is_at_work(cell):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_job_of_slurm_has_ended_when_it_says_so_or_when_the_queue_has_lost_it(tmp_path):
    queue = SimpleNamespace(grace_seconds=0.0, has=lambda job: True)
    work = SlurmWork(tmp_path, "12", queue)
    assert work.poll() is None
    queue.has, queue.grace_seconds = lambda job: False, 1e6
    assert work.poll() is None  # a queue may be late
    queue.grace_seconds = 0.0
    assert "job 12 left the queue" in work.poll().error
    work.result.write_bytes(b"a pickle of submitit, which nobody reads")
    work.log.write_text("Traceback\nJob not requeued because: time\n")
    assert work.poll() == Ended(1, "its job ended: Job not requeued because: time")
    remote.tell(str(work.ending), 3)
    assert work.poll() == Ended(3)
    assert sorted(one.suffix for one in tmp_path.iterdir()) == [".json", ".out", ".pkl"]


def test_slurm_is_asked_for_what_a_cell_needs():
    resources = SlurmResources(
        **SLURM | {"memory_gb": 1.5, "partition": "short", "options": {"mail-type": "FAIL"}}
    )
    asked = resources.sbatch(Cell("runs/a", (), devices=2))
    assert (asked["gpus_per_node"], asked["cpus_per_task"], asked["mem"]) == (2, 1, "1536MB")
    assert asked["additional_parameters"] == {"requeue": True, "mail-type": "FAIL"}
    assert "gpus_per_node" not in resources.sbatch(Cell("runs/a", ()))
    none = SlurmResources(**SLURM | {"requeues": 0, "gpus": 1}).sbatch(Cell("runs/a", (), devices=2))
    assert none["additional_parameters"] == {"no-requeue": True}
    assert none["gpus_per_node"] == 1


@pytest.mark.parametrize(
    ("asked_for", "told"),
    [
        ({"cluster": "slrum"}, "hydra.launcher.cluster=slrum: expected slurm or local"),
        ({"cpus": 0}, "hydra.launcher.cpus=0: expected a whole number of at least 1"),
        ({"time_minutes": 1, "signal_seconds": 60}, "a job has only hydra.launcher.time_minutes=1"),
    ],
)
def test_slurm_resources_that_cannot_be(asked_for, told):
    with pytest.raises(UserError, match=told):
        SlurmResources(**SLURM | asked_for)


def ray_on_paper(monkeypatch, *nodes):
    found = [{"Alive": alive, "Resources": {"CPU": cpus, "GPU": gpus}} for alive, cpus, gpus in nodes]
    ray = SimpleNamespace(nodes=lambda: found, init=lambda **_: None, shutdown=lambda: None)
    monkeypatch.setattr(ray_cluster, "_ray", lambda: ray)


def backend(devices=0, **resources):
    given = RayResources(**{"address": "auto", "jobs": None, "cpus": 4, "gpus": None} | resources)
    return RayBackend(["train.py"], Ledger("runs"), [Cell("runs/a", (), devices=devices)], given)


def test_ray_takes_as_many_cells_as_nodes_that_live_have_room_for(monkeypatch):
    ray_on_paper(monkeypatch, (True, 16, 2), (True, 6, 1), (False, 64, 8))
    assert backend().capacity() == 5
    assert backend(devices=1).capacity() == 3
    assert backend(devices=1, gpus=0.5, cpus=1).capacity() == 6
    assert backend(jobs=2).capacity() == 2


def test_ray_refuses_what_no_node_has(monkeypatch):
    ray_on_paper(monkeypatch, (True, 16, 2), (True, 32, 0), (False, 64, 8))
    with pytest.raises(UserError, match="4 CPUs and 4 GPUs, and no node") as refused:
        backend(devices=4)
    assert "they have 16 CPUs and 2 GPUs; 32 CPUs and 0 GPUs" in str(refused.value)
    with pytest.raises(UserError, match="no node of the Ray cluster"):
        backend(devices=1, cpus=32)  # the one has the cores, the other the GPU


def test_ray_that_is_not_there_is_said_at_once(monkeypatch):
    ray_on_paper(monkeypatch, (True, 16, 0))
    with pytest.raises(UserError, match=r"no Ray cluster there .*ray start --head"):
        backend(address="127.0.0.1:1")
    with pytest.raises(UserError, match="expected auto, null or host:port"):
        backend(address="ray://somewhere")


@pytest.mark.parametrize("name", ["ray", "submitit"])
def test_a_package_that_is_missing_is_named_with_the_way_to_it(monkeypatch, name):
    from sweeps.backends import slurm

    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=r"pip install -e '\.\[(ray|launchers)\]'"):
        ray_cluster._ray() if name == "ray" else slurm._submitit()
