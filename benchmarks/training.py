"""Training steps of a bi-encoder, a cross-encoder and a student, and the memory of large batches, on both sides."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from benchmarks import ours, theirs
from benchmarks.measure import alternate, apart, matrix_gflops, medians, memory_of, ratio, training_flops
from benchmarks.report import Row
from benchmarks.table import WARM_UP_STEPS
from benchmarks.work import Rows, Work, random_bert

TRAIN = {"ours": ours.train, "theirs": theirs.train}
PREPARE = {"ours": (ours.read,), "theirs": ()}  # its rows are handed over
TOLERANCE = 1e-4
"""Of losses without dropout in fp32, relatively; 4e-7 was measured on a processor."""


def train_both(
    benchmark: str, *, sizes: Sequence[str], datasets: list[str], agreement_steps: int, **options: Any
) -> dict[str, Any]:
    """Rows, curves and checks of a Report: the sides on each model, in turn; and without dropout."""
    make = partial(Work.of, benchmark, datasets=datasets, batch_size=options.pop("batch_size"))
    table, curves, plain = [], {}, {}
    for size in sizes:
        with random_bert(size) as folder:
            contest = Contest(size, make(folder=folder, steps=options["steps"]), **options)
            table += [contest.row(key) for key in contest.numbers]
        curves |= {
            f"{size} {key[1]} {key[0]}": np.mean(runs, axis=0).tolist()
            for key, runs in contest.losses.items()
        }
    with random_bert(sizes[0], dropout=0.0) as folder:
        work = make(folder=folder, steps=agreement_steps)
        for side, train in TRAIN.items():
            plain[side] = train(work, ours.rows_of(work), seed=0).losses
    curves |= {f"{sizes[0]} without dropout {side}": losses for side, losses in plain.items()}
    difference = float(np.abs(np.divide(plain["ours"], plain["theirs"]) - 1).max())
    assert difference <= TOLERANCE, f"without dropout the losses of the sides differ by {difference}"
    checks = {"largest_relative_difference_of_losses_without_dropout": difference}
    return {"rows": table, "curves": curves, "checks": checks}


class Contest:
    """The sides on one model, in every precision, in turn; turns begin at the same weights and differ in dropout."""

    def __init__(
        self, size: str, work: Work, precisions: Sequence[str], steps: int, rounds: int, memory_steps: int
    ) -> None:
        self.size, self.work, self.memory_steps = size, work, memory_steps
        self.rows: Rows = ours.rows_of(work)
        keys = [(side, precision) for precision in precisions for side in TRAIN]
        self.losses: dict[tuple[str, str], list[list[float]]] = {key: [] for key in keys}
        turns = alternate({key: partial(self.turn, *key) for key in keys}, rounds)
        self.seconds = {key: np.array([turn["seconds_per_step"] for turn in turns[key]]) for key in keys}
        self.numbers = medians(turns, "seconds_per_step", lambda key: ("theirs", key[1]))

    def turn(self, side: str, precision: str, number: int) -> dict[str, float]:
        gflops, work = matrix_gflops(precision), self.work._replace(precision=precision)
        clock = TRAIN[side](work, self.rows, seed=number)
        self.losses[side, precision].append(clock.losses)
        return {"seconds_per_step": clock.seconds(skipped=WARM_UP_STEPS), "peak_gflops": gflops}

    def row(self, key: tuple[str, str]) -> Row:
        (side, precision), numbers, seconds = key, self.numbers[key], self.seconds[key]
        tokenising = self.rows.tokenising_seconds * self.work.batch_size if side == "ours" else 0.0
        default, per_second = self.seconds.get(("theirs", "fp32")), 1 / numbers["seconds_per_step"]
        flops = training_flops(self.rows.lengths, self.size) / self.work.steps
        work = self.work._replace(precision=precision, steps=self.memory_steps)
        memory = apart(memory_of, TRAIN[side], work, ours.rows_of(work), *PREPARE[side])
        return {
            "size": self.size, "side": side, "precision": precision, **numbers,
            "ratio_with_tokenising": ratio(self.seconds["theirs", precision], seconds + tokenising)["ratio"],
            "vs_default": None if default is None else ratio(default, seconds)["ratio"],
            "rows_per_second": self.work.batch_size * per_second,
            "peak_share": flops * per_second / 1e9 / numbers["peak_gflops"],
            "mib_peak": memory["mib_peak"], "mib_before": memory["mib_before"],
        }  # fmt: skip


def memory(
    *, sizes: Sequence[str], pairs: Sequence[int], datasets: list[str], memory_steps: int, **limits: int
) -> dict[str, Any]:
    """Rows of a Report: growing batches, with gradient caching and without."""
    table: list[Row] = []
    for size in sizes:
        with random_bert(size) as folder:
            for loss, side, cached in CACHED:
                micro_rows = limits["micro_rows"] if cached == "yes" else None
                work = Work.of("memory", folder, datasets, 0, memory_steps)
                work = work._replace(loss=loss, micro_rows=micro_rows)
                labels = {"size": size, "loss": loss, "side": side, "cached": cached}
                rows = growing(work, side, sorted(pairs), limits["memory_bound_mib"])
                table += [labels | row for row in rows]
    return {"rows": table}


LOSSES = ("cosent", "info_nce")
CACHED = [(loss, side, cached) for loss in LOSSES for side in TRAIN for cached in ("no", "yes")]
CACHED.remove(("cosent", "theirs", "yes"))  # there is no such thing


def growing(work: Work, side: str, batch_sizes: Sequence[int], bound_mib: int) -> Iterator[Row]:
    """One side at growing batch sizes; None where so many rows are expected to need more memory than there may be."""
    peak, rows = 0.0, 1
    for batch_size in batch_sizes:
        numbers: dict[str, float] = {}
        with suppress(MemoryError):
            if peak * batch_size / rows <= bound_mib:  # what is held at any size is taken to grow, too
                sized = work._replace(batch_size=batch_size)
                numbers = apart(memory_of, TRAIN[side], sized, ours.rows_of(sized), *PREPARE[side])
                peak, rows = numbers["mib_peak"], batch_size
        grown = {"mib_for_steps": numbers["mib_peak"] - numbers["mib_before"] if numbers else None}
        grown |= {key: numbers.get(key) for key in ("seconds_per_step", "mib_peak")}
        yield {"batch_size": batch_size} | grown
