"""How long threads that wait for others should spin: training alone, and beside a program that takes one core."""

import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from tools.bench.child import in_child
from tools.bench.ours import train_ours
from tools.bench.report import Value
from tools.bench.rounds import alternate, compare
from tools.bench.work import random_bert, training_sets, training_work

OWN = "libgomp's own"
NOTES = [
    "each turn is a process of its own, which trains alone and then beside a busy one; steps per second",
    "ratio: speed alone beside that of libgomp's own spin, median over rounds, lowest, highest",
    "busy_share: speed beside the busy core as a share of the same process's speed alone",
]


def measure(
    *,
    sizes: Sequence[str],
    batch_size: int,
    steps: int,
    busy_steps: int,
    spins: Sequence[str],
    rounds: int,
    datasets: Sequence[str],
) -> dict[str, Any]:
    rows: list[dict[str, Value]] = []
    work = {"datasets": training_sets(datasets), "batch_size": batch_size}
    for size in sizes:
        with random_bert(size) as folder:
            turn = partial(
                in_child, "tools.bench.spin:train_twice",
                folder=str(folder), steps=steps, busy_steps=busy_steps, **work,
            )  # fmt: skip
            contestants = {
                name: lambda _, name=name, turn=turn: turn(environment=environment_with(name))
                for name in (OWN, *spins)
            }
            found = alternate(contestants, rounds=rounds)
        alone = {name: [one["alone"] for one in turns] for name, turns in found.items()}
        for name, turns in found.items():
            rows.append(
                {
                    "size": size,
                    "spins": name,
                    "threads": torch.get_num_threads(),
                    "alone": 1 / statistics.median(alone[name]),
                    **compare(alone[OWN], alone[name]).columns(),
                    "busy": 1 / statistics.median([one["busy"] for one in turns]),
                    "busy_share": statistics.median([one["alone"] / one["busy"] for one in turns]),
                }
            )
    return {"rows": rows, "notes": NOTES}


def environment_with(spins: str) -> Mapping[str, str]:
    """That of this process with another spin; OWN: what libgomp does by itself."""
    kept = {
        key: value for key, value in os.environ.items() if key not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    }
    return kept if spins == OWN else kept | {"GOMP_SPINCOUNT": spins}


def train_twice(*, folder: str, steps: int, busy_steps: int, **work: Any) -> dict[str, float]:
    """Seconds per step of this process alone, and beside one that computes without end."""
    alone = seconds_per_step(folder, steps, work)
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            return {"alone": alone, "busy": seconds_per_step(folder, busy_steps, work)}
        finally:
            busy.kill()


def seconds_per_step(folder: str, steps: int, work: Mapping[str, Any]) -> float:
    found = train_ours(training_work(Path(folder), steps=steps, **work), seed=0)
    return statistics.median(found.seconds[1:])
