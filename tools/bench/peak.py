"""Peak memory of training, each side in a process of its own that loads its own libraries only."""

import statistics
import tempfile
from pathlib import Path
from typing import Any

from tools.bench.child import in_child
from tools.bench.device import held_mib
from tools.bench.steps import Order, Steps


def peak_of_ours(folder: Path, **work: Any) -> dict[str, float]:
    """peak_mib, before_mib (libraries and rows, no model yet) and seconds_per_step without the first step.

    work  as `train_ours_here` takes it
    """
    return in_child("tools.bench.peak:train_ours_here", folder=str(folder), **work)


def peak_of_theirs(order: Order) -> dict[str, float]:
    """The same of the other side."""
    with tempfile.TemporaryDirectory() as folder:
        path = order.write(Path(folder) / "order.json")
        return in_child("tools.bench.peak:train_theirs_here", path=str(path))


def train_ours_here(
    *,
    folder: str,
    precision: str = "fp32",
    loss: str = "cosent",
    micro_rows: int | None = None,
    **options: Any,
) -> dict[str, float]:
    """Trains in this process; the caller reads its peak memory. `options` are those of `training_work`."""
    import numpy as np

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
