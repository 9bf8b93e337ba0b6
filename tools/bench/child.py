"""Work in a process of its own, to measure memory; of a training, each side loads its own libraries only.

python -m tools.bench.child <function, its arguments and the number of threads, as JSON>
"""

import importlib
import json
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from juzhen.core.places import ROOT
from tools.bench.device import held_mib, most_mib
from tools.bench.steps import Order, Steps

MARK = "result of the child: "


def in_child(
    function: str, *, environment: Mapping[str, str] | None = None, **arguments: Any
) -> dict[str, Any]:
    """What `function` ("bench.module:name") returns in a fresh process, with `peak_mib` of that process added.

    environment  all of it that the process has; None: what this one has

    Arguments and return value pass as JSON. Raises MemoryError when the system killed the process, which it does
    where memory runs out, and RuntimeError with its last words when it failed otherwise.
    """
    arguments = {"threads": torch.get_num_threads(), "function": function, "arguments": arguments}
    done = subprocess.run(
        [sys.executable, "-m", "tools.bench.child", json.dumps(arguments)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == -signal.SIGKILL:
        raise MemoryError(f"{function} was killed")
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if done.returncode or not lines:
        raise RuntimeError(f"{function} in a process of its own: {done.stderr[-2000:]}")
    return json.loads(lines[-1].removeprefix(MARK))


def peak_of_ours(folder: Path, **work: Any) -> dict[str, float]:
    """peak_mib, before_mib (libraries and rows, no model yet) and seconds_per_step without the first step.

    work  as `train_ours_here` takes it
    """
    return in_child("tools.bench.child:train_ours_here", folder=str(folder), **work)


def peak_of_theirs(order: Order) -> dict[str, float]:
    """The same of the other side."""
    with tempfile.TemporaryDirectory() as folder:
        path = order.write(Path(folder) / "order.json")
        return in_child("tools.bench.child:train_theirs_here", path=str(path))


def train_ours_here(
    *,
    folder: str,
    precision: str = "fp32",
    loss: str = "cosent",
    micro_rows: int | None = None,
    **options: Any,
) -> dict[str, float]:
    """Trains in this process; the caller reads its peak memory. `options` are those of `training_work`."""
    from tools.bench.ours import tokenise, train_ours
    from tools.bench.work import training_work

    work = training_work(Path(folder), **options, overrides=[f"loss={loss}"]).at(precision)
    before = held_mib()
    if micro_rows is not None:
        lengths, _ = tokenise(work)
        mean = float(np.concatenate(list(lengths.values())).mean())  # tokens per distinct sentence
        work.job.hardware.micro_batch_tokens = max(1, round(micro_rows * mean))
    return _told(before, train_ours(work, seed=0))


def train_theirs_here(*, path: str) -> dict[str, float]:
    """The same on the other side."""
    from tools.bench.theirs import train_theirs

    order = Order.read(path)
    return _told(held_mib(), train_theirs(order, seed=0))


def _told(before: float, found: Steps) -> dict[str, float]:
    return {"before_mib": round(before, 1), "seconds_per_step": statistics.median(found.seconds[1:])}


def main() -> None:
    order = json.loads(sys.argv[1])
    torch.set_num_threads(order["threads"])
    module, name = order["function"].split(":")
    found = getattr(importlib.import_module(module), name)(**order["arguments"])
    print(MARK + json.dumps(found | {"peak_mib": round(most_mib(), 1)}))


if __name__ == "__main__":
    main()
