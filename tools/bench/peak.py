"""Peak memory of training, each side in a process of its own that loads its own libraries only."""

import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.bench.child import in_child
from tools.bench.device import held_mib
from tools.bench.steps import Order


def peak_of_ours(
    folder: str,
    *,
    datasets: Sequence[str],
    batch_size: int,
    steps: int,
    precision: str = "fp32",
    loss: str = "cosent",
    micro_rows: int | None = None,
) -> dict[str, float]:
    """peak_mib, before_mib (libraries and rows, no model yet) and seconds_per_step without the first step."""
    return in_child(
        "tools.bench.peak:train_ours_here", folder=folder, datasets=list(datasets), batch_size=batch_size,
        steps=steps, precision=precision, loss=loss, micro_rows=micro_rows,
    )  # fmt: skip


def peak_of_theirs(order: Order) -> dict[str, float]:
    """The same of the other side."""
    with tempfile.TemporaryDirectory() as folder:
        path = order.write(Path(folder) / "order.json")
        return in_child("tools.bench.peak:train_theirs_here", path=str(path))


def train_ours_here(
    *,
    folder: str,
    datasets: Sequence[str],
    batch_size: int,
    steps: int,
    precision: str,
    loss: str,
    micro_rows: int | None,
) -> dict[str, float]:
    """Trains in this process; the caller reads its peak memory."""
    from tools.bench.ours import tokenise, train_ours
    from tools.bench.work import training_work

    work = training_work(
        Path(folder), datasets=datasets, batch_size=batch_size, steps=steps, overrides=[f"loss={loss}"]
    ).at(precision)
    before = held_mib()
    if micro_rows is not None:
        mean = tokenise(work).mean_length
        work.job.hardware.train_piece_tokens = max(1, round(micro_rows * mean))
    found = train_ours(work, seed=0)
    return {"before_mib": round(before, 1), "seconds_per_step": statistics.median(found.seconds[1:])}


def train_theirs_here(*, path: str) -> dict[str, float]:
    """Trains in this process; the caller reads its peak memory."""
    from tools.bench.theirs import train_theirs

    order = Order.read(path)
    before = held_mib()
    found = train_theirs(order, seed=0)
    return {"before_mib": round(before, 1), "seconds_per_step": statistics.median(found.seconds[1:])}
