"""Sweeps on two Ray nodes of this machine: drivers and nodes are killed, and every cell ends up finished once."""

import json
import os
import random
import time
from pathlib import Path

import pytest
from fake_cells import PATIENCE, done, plan, results, start_sweep, wait_for

from sweeps.ledger import Event, Ledger

pytestmark = pytest.mark.slow
ray = pytest.importorskip("ray", reason="needs the extra `ray`")
CALM = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # nodes are at 127.0.0.1, also where there is a network
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_raylet_start_wait_time_s": "300",  # Ray takes a node that is slow for one that is dead
    "RAY_agent_register_timeout_ms": "300000",
    "RAY_worker_register_timeout_seconds": "300",
    "RAY_health_check_timeout_ms": "120000",
}
NODE = {"object_store_memory": 80 * 2**20, "num_cpus": 2, "num_gpus": 2}


@pytest.fixture
def cluster(monkeypatch):
    """A head that runs nothing, and two nodes with room for two cells each."""
    for name, value in CALM.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("ray._private.ray_constants.ENABLE_RAY_CLUSTER", False)
    from ray.cluster_utils import Cluster

    started = Cluster(initialize_head=True, head_node_args=NODE | {"num_cpus": 0, "include_dashboard": False})
    try:
        started.nodes_of_cells = [started.add_node(**NODE) for _ in range(2)]
        yield started
    finally:
        started.shutdown()


def count(folder: Path, kind: Event) -> int:
    return sum(event["event"] == kind for event in Ledger(folder).events())


def check_each_is_finished_once(folder: Path, kinds: list[str], tmp_path: Path) -> None:
    whole, cells = plan(tmp_path / "whole" / "runs", kinds)
    whole.run()
    assert results(folder) == results(tmp_path / "whole" / "runs")
    for cell in cells:
        steps = (folder / cell.name / "taken").read_text().split()
        again = (folder / cell.name / "starts").read_text().count("\n") - 1
        assert set(steps) == {str(step) for step in range(10)}
        assert len(steps) <= 10 + again, f"{cell.name}: more than one step was lost with a kill: {steps}"


@pytest.mark.parametrize("seed", range(2))
def test_drivers_and_a_node_are_killed_at_random_moments(tmp_path, cluster, seed):
    folder, kinds, draw = (
        tmp_path / "cut" / "runs",
        ["fine", "flaky", "fine", "fine", "fine", "fine"],
        random.Random(seed),
    )
    for number in (1, 2):
        sweep = start_sweep(folder, *kinds, runner=cluster.address, seconds=0.3)
        wait_for(lambda number=number: count(folder, Event.STARTED) >= number, "the cells have not begun")
        time.sleep(draw.uniform(0, 3))
        sweep.kill()
        sweep.wait()
        print("driver killed with", len(results(folder)), "finished")
    before = count(folder, Event.STARTED)
    sweep = start_sweep(folder, *kinds, runner=cluster.address, seconds=0.3)
    wait_for(lambda: count(folder, Event.STARTED) > before, "nothing went on")
    time.sleep(draw.uniform(0, 1))
    cluster.remove_node(draw.choice(cluster.nodes_of_cells), allow_graceful=False)
    print("node killed with", len(results(folder)), "finished")
    told, _ = sweep.communicate(timeout=PATIENCE)
    print(told)
    finished, skipped, failed = done(told)
    assert (finished + skipped, failed) == (6, 0), told
    check_each_is_finished_once(folder, kinds, tmp_path)


def test_cells_have_a_gpu_each_and_end_when_the_sweep_is_asked_to(tmp_path, cluster):
    folder = tmp_path / "runs"
    # GPUs are numbers to Ray, whether there are any or not
    sweep = start_sweep(folder, "fine", "fine", runner=cluster.address, seconds=30, gpus=1)
    wait_for(lambda: len(list(folder.glob("*/starts"))) == 2, "the cells have not begun")
    sweep.terminate()
    told, _ = sweep.communicate(timeout=PATIENCE)
    assert "stopping; 2 runs save what they have" in told
    assert count(folder, Event.STOPPED) == 2
    for name in ("0-fine", "1-fine"):
        told = json.loads((folder / name / "starts").read_text())
        assert told["CUDA_VISIBLE_DEVICES"] in ("0", "1")
        assert told["OMP_NUM_THREADS"] == "1"
    for event in Ledger(folder).events():
        if event["event"] == Event.STARTED:
            with pytest.raises(ProcessLookupError):
                os.kill(event["process"], 0)
