"""Batches far larger than memory: peak memory and time with and without gradient caching, on both sides."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.bench.peak import peak_of_ours, peak_of_theirs
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
            for contestant in CONTESTANTS:
                series = Series(*contestant, folder, names, micro_rows=micro_rows, steps=steps)
                for batch_size in sorted(batch_sizes):
                    found = series.measure(batch_size, memory_bound_mib)
                    rows.append({"size": size} | series.row(batch_size, found))
    return {"rows": rows, "notes": NOTES}


@dataclass
class Series:
    """One contestant at growing batch sizes; `known` holds batch sizes and the peaks they had."""

    side: str
    loss: str
    cached: bool
    folder: Path
    names: list[str]
    micro_rows: int
    steps: int
    known: list[tuple[int, float]] = field(default_factory=list)

    def measure(self, batch_size: int, bound_mib: int) -> dict[str, float]:
        """Empty where it would need more than the bound, or did need more than there is."""
        if predicted_mib(self.known, batch_size) > bound_mib:
            return {}
        micro_rows = self.micro_rows if self.cached else None
        options = {"datasets": self.names, "batch_size": batch_size, "steps": self.steps + 1}
        try:
            if self.side == "ours":
                found = peak_of_ours(self.folder, **options, loss=self.loss, micro_rows=micro_rows)
            else:
                work = training_work(self.folder, **options, overrides=[f"loss={self.loss}"])
                found = peak_of_theirs(order_of(work, micro_rows=micro_rows))
        except MemoryError:
            return {}
        self.known = [*(self.known or [(0, found["before_mib"])]), (batch_size, found["peak_mib"])]
        return found

    def row(self, batch_size: int, found: dict[str, float]) -> dict[str, Value]:
        return {
            "loss": self.loss,
            "side": self.side,
            "cached": "yes" if self.cached else "no",
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
