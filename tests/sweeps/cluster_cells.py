"""A sweep of stand-ins on a cluster, as a program: cluster_cells.py <slurm | local | host:port> <folder> <kind …>."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from fake_cells import ROOT, plan
from fake_cells import start as start_program

PATIENCE = 500
SLURM = {
    "cluster": "slurm",
    "jobs": None,
    "partition": None,
    "account": None,
    "qos": None,
    "constraint": None,
    "time_minutes": 30,
    "cpus": 1,
    "gpus": None,
    "memory_gb": None,
    "requeues": 3,
    "signal_seconds": 30,
    "setup": [],
    "options": {},
}


def on(place: str, **resources: object):
    """Makes the back end for `fake_cells.plan`."""
    sys.path[:0] = [str(ROOT)] if str(ROOT) not in sys.path else []

    def backend(program, ledger, cells):
        if place in ("slurm", "local"):
            from sweeps.backends.slurm import SlurmBackend, SlurmResources

            return SlurmBackend(
                program, ledger, cells, SlurmResources(**SLURM | {"cluster": place} | resources)
            )
        from sweeps.backends.ray_cluster import RayBackend, RayResources

        given = {"address": place, "jobs": None, "cpus": 1, "gpus": None} | resources
        return RayBackend(program, ledger, cells, RayResources(**given))

    return backend


def start(folder: Path, place: str, *kinds: str, seconds: float) -> subprocess.Popen:
    """This program as a process; each step of a cell takes that many seconds."""
    return start_program(__file__, place, folder, *kinds, STEP_SECONDS=seconds)


def wait_for(fact: Callable[[], object], what: str) -> None:
    """Returns when `fact` holds; fails with `what` after `PATIENCE` seconds."""
    deadline = time.monotonic() + PATIENCE
    while not fact():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


if __name__ == "__main__":
    place, folder, *kinds = sys.argv[1:]
    planner, _ = plan(
        Path(folder),
        kinds,
        attempts=3,
        report=lambda line: print(line, flush=True),
        backend=on(place, gpus=int(os.environ.get("CELL_GPUS", "0"))),
    )
    summary = planner.run()
    print("DONE", len(summary.finished), len(summary.skipped), len(summary.failed))
