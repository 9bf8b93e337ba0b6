"""Cells as tasks of a Ray cluster. Nodes share the disk of the run folders and the path of this Python.

A Ray cluster runs what it is sent, so it has to be one's own. What a task gives back is not read: how it ended is told
in a file of JSON beside the ledger.
"""

import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from juzhen.core.errors import UserError
from juzhen.core.places import ROOT
from juzhen.core.processor import num_cores
from sweeps.backends import remote
from sweeps.backends.interface import Backend, Ended, require_least
from sweeps.backends.local import OF_A_CELL
from sweeps.backends.worker import command_for
from sweeps.ledger import Cell, Event, Ledger
from sweeps.machine import thread_variables, visible_gpus
from sweeps.processes import SECONDS_TO_SAVE, program_environment

STORE_BYTES = 80 * 2**20
"""Object store of a Ray that the sweep starts itself, near the least that Ray takes: cells hand over nothing."""
GRACE_SECONDS = 10.0
SHARED_DISK_SECONDS = 5.0
"""What another node has written may be seen so much later."""


@dataclass(frozen=True)
class RayResources:
    """Where the cluster is and what each cell asks of it; see conf/hydra/launcher/ray.yaml."""

    address: str | None
    jobs: int | None
    cpus: int
    gpus: float | None

    def __post_init__(self) -> None:
        require_least(self, {"jobs": 1, "cpus": 1})
        if self.gpus is not None and not self.gpus >= 0:
            raise UserError(
                f"hydra.launcher.gpus={self.gpus}: expected 0 or more; 0.5 lets two cells share one"
            )

    def asked(self, cell: Cell) -> dict[str, float]:
        return {"CPU": self.cpus, "GPU": cell.devices if self.gpus is None else self.gpus}


class RayWork:
    def __init__(self, ray: Any, task: Any, ending: Path) -> None:
        self.ray = ray
        self.task = task
        self.ending = ending
        self.facts = {"job": task.task_id().hex()}
        self.ready_since: float | None = None

    def poll(self) -> Ended | None:
        ready, _ = self.ray.wait([self.task], timeout=0)
        if not ready:
            return None
        told = Ended.read(self.ending)
        self.ready_since = self.ready_since or time.monotonic()
        if told is None and time.monotonic() - self.ready_since < SHARED_DISK_SECONDS:
            return None
        return told or Ended(1, "its node or its Ray worker ended")


class RayBackend(Backend):
    """One task per cell. A sweep that is killed takes its tasks with it, and they save what they have."""

    begins = Event.SUBMITTED
    poll_seconds = 0.5

    def __init__(
        self, program: Sequence[str], ledger: Ledger, cells: Sequence[Cell], resources: RayResources
    ) -> None:
        self.ray = _ray()
        self.program = list(program)
        self.ledger = ledger
        self.resources = resources
        self.largest = max((resources.asked(cell) for cell in cells), key=lambda asked: asked["GPU"])
        self._connect()
        self._check_room()
        self.counted, self.room = float("-inf"), 1

    def _connect(self) -> None:
        quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            if self.resources.address is None:
                # Of this machine: it is gone when the sweep is.
                self.ray.init(
                    address="local",
                    num_cpus=num_cores(),
                    num_gpus=len(visible_gpus()),
                    object_store_memory=STORE_BYTES,
                    **quiet,
                )
                return
            _require_listener(self.resources.address)
            self.ray.init(address=self.resources.address, **quiet)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise _unreachable(self.resources.address, error) from error

    def _check_room(self) -> None:
        nodes = self._nodes()
        if any(all(node.get(kind, 0) >= number for kind, number in self.largest.items()) for node in nodes):
            return
        had = "; ".join(f"{node.get('CPU', 0):g} CPUs and {node.get('GPU', 0):g} GPUs" for node in nodes)
        self.close()
        raise UserError(
            f"a cell asks for {self.largest['CPU']:g} CPUs and {self.largest['GPU']:g} GPUs, and no node of the Ray "
            f"cluster has that (they have {had}); set hydra.launcher.cpus=, hydra.launcher.gpus= or hardware.devices="
        )

    def _nodes(self) -> list[Mapping[str, float]]:
        return [node["Resources"] for node in self.ray.nodes() if node["Alive"]]

    def capacity(self) -> int:
        """What all nodes that are there now have room for; nodes may come and go."""
        if time.monotonic() - self.counted > self.poll_seconds:
            asked = {kind: number for kind, number in self.largest.items() if number}
            room = [
                int(min(node.get(kind, 0) // number for kind, number in asked.items()))
                for node in self._nodes()
            ]
            self.counted, self.room = time.monotonic(), max(1, sum(room))
        return min(self.room, self.resources.jobs or self.room)

    def describe(self) -> str:
        return f"{self.capacity()} at a time on {len(self._nodes())} Ray nodes, {self.resources.cpus} threads each"

    def start(self, cell: Cell, log: Path) -> RayWork:
        asked = self.resources.asked(cell)
        task = self.ray.remote(remote.run_worker).options(
            num_cpus=asked["CPU"],
            num_gpus=asked["GPU"],
            max_retries=0,  # attempts are counted by the sweep
            name=cell.name,
        )
        command = command_for(self.ledger, cell, [*self.program, *cell.words, *OF_A_CELL])
        told = program_environment() | thread_variables(self.resources.cpus)
        folder = (self.ledger.folder / "jobs" / cell.name).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        ending = folder / f"{secrets.token_hex(8)}_ended.json"
        return RayWork(self.ray, task.remote(command, told, os.getcwd(), str(ROOT), str(ending)), ending)

    def stop(self, works: Sequence[RayWork], report: Callable[[str], None]) -> bool:
        report(f"stopping; {len(works)} cells save what they have")
        for work in works:
            self.ray.cancel(work.task, force=False)
        self.ray.wait(
            [work.task for work in works],
            num_returns=len(works),
            timeout=SECONDS_TO_SAVE + GRACE_SECONDS,
        )
        return True

    def close(self) -> None:
        self.ray.shutdown()


def _ray() -> Any:
    try:
        import ray
        from ray import cloudpickle
    except ImportError:
        raise UserError(
            "hydra/launcher=ray needs Ray, which is not installed: pip install -e '.[ray]' -c constraints.txt"
        ) from None
    cloudpickle.register_pickle_by_value(remote)
    return ray


def _require_listener(address: str) -> None:
    """Ray itself waits for a minute and then ends the program."""
    host, colon, port = address.rpartition(":")
    if address == "auto":
        return
    if not colon or not port.isdigit() or "://" in address:
        raise UserError(f"hydra.launcher.address={address}: expected auto, null or host:port")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError as error:
        raise _unreachable(address, error) from error


def _unreachable(address: str | None, error: Exception) -> UserError:
    reason = str(error).strip().splitlines()[0]
    return UserError(
        f"hydra.launcher.address={address}: no Ray cluster there ({reason}). Start one with "
        "`ray start --head`, give the host:port that this prints, or null for a Ray of this machine alone"
    )
