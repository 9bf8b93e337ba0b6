"""Batches far larger than memory: peak memory and time with and without gradient caching, on both sides."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from tools.bench.child import peak_of_ours, peak_of_theirs
from tools.bench.report import Value
from tools.bench.work import has_real_data, order_of, random_bert, training_work

CONTESTANTS = tuple(
    (side, loss, cached)
    for loss in ("cosent", "info_nce")
    for side in ("ours", "theirs")
    for cached in (False, True)
    if (side, loss, cached) != ("theirs", "cosent", True)  # there is no such thing
)

NOTES = [
    "every number comes from a process of its own, one after another: read the memory, and the seconds with care; ours "
    "and theirs train on the same rows in the same order",
    "cached: ours encodes micro-batches of micro_batch_tokens, theirs (CachedMultipleNegativesRankingLoss) mini-"
    "batches of micro_rows sentences; a micro-batch holds as many tokens as a mini-batch does on average",
    "ours leaves known positives out of the negatives (false_negatives); theirs counts them as negatives",
    "null: was predicted from the smaller batches to need more than the bound",
    "mib for steps: peak memory less what the process held before its first step",
]


def measure(
    *,
    sizes: Sequence[str],
    batch_sizes: Sequence[int],
    micro_rows: int,
    steps: int,
    datasets: Sequence[str],
    memory_bound_mib: int,
) -> dict[str, Any]:
    names = list(datasets) or (["afqmc"] if has_real_data() else ["demo_qmc"])
    rows: list[dict[str, Value]] = []
    for size in sizes:
        with random_bert(size) as folder:
            for side, loss, cached in CONTESTANTS:
                how = {"loss": loss, "micro_rows": micro_rows if cached else None}
                peak = partial(peak_of, side, folder, **how, datasets=names, steps=steps + 1)
                labels = {"size": size, "loss": loss, "side": side, "cached": "yes" if cached else "no"}
                rows += [labels | row for row in series(peak, sorted(batch_sizes), memory_bound_mib)]
    return {"rows": rows, "notes": NOTES}


def peak_of(
    side: str, folder: Path, *, loss: str, micro_rows: int | None, **options: Any
) -> dict[str, float]:
    """Memory and time of a contestant; `options` are those of `training_work`."""
    if side == "ours":
        return peak_of_ours(folder, **options, loss=loss, micro_rows=micro_rows)
    work = training_work(folder, **options, overrides=[f"loss={loss}"])
    return peak_of_theirs(order_of(work, micro_rows=micro_rows))


def series(
    peak: Callable[..., dict[str, float]], batch_sizes: Sequence[int], bound_mib: int
) -> Iterator[dict[str, Value]]:
    """A contestant at growing batch sizes; None where it would need more than the bound, or did than there is."""
    known: list[tuple[int, float]] = []
    for batch_size in batch_sizes:
        found: dict[str, float] = {}
        if predicted_mib(known, batch_size) <= bound_mib:
            with suppress(MemoryError):
                found = peak(batch_size=batch_size)
                known = [*(known or [(0, found["before_mib"])]), (batch_size, found["peak_mib"])]
        yield {
            "batch_size": batch_size,
            "seconds_per_step": found.get("seconds_per_step"),
            "mib_peak": found.get("peak_mib"),
            "mib_for_steps": found["peak_mib"] - found["before_mib"] if found else None,
        }


def predicted_mib(known: Sequence[tuple[int, float]], batch_size: int) -> float:
    """Peak memory at a larger batch: the last one, and the growth per row between the last two.

    >>> predicted_mib([(0, 500.0), (64, 564.0), (256, 756.0)], 1024)
    1524.0
    >>> predicted_mib([], 64)
    0.0
    """
    if not known:
        return 0.0
    (earlier_rows, earlier), (rows, peak) = known[-2:]
    return peak + (batch_size - rows) * (peak - earlier) / (rows - earlier_rows)
