"""Training steps of a bi-encoder, a cross-encoder and a student, and the memory of large batches, on both sides."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from benchmarks import ours, theirs
from benchmarks.measure import alternate, apart, matrix_gflops, medians, trained, training_flops
from benchmarks.report import Row
from benchmarks.table import WARM_UP_STEPS
from benchmarks.work import Work, random_bert

TRAIN = {"ours": ours.train, "theirs": theirs.train}
TOLERANCE = 1e-4
"""Of losses without dropout in fp32, relatively; 4e-7 was measured on a processor."""


def train_both(
    benchmark: str, *, sizes: Sequence[str], datasets: list[str], agreement_steps: int, **options: Any
) -> dict[str, Any]:
    """Rows, curves and checks of a Report: the sides on each model, in turn; and without dropout."""
    make = partial(Work.of, benchmark, datasets=datasets, batch_size=options.pop("batch_size"))
    steps, table, curves, plain = options.pop("steps"), [], {}, {}
    for size in sizes:
        with random_bert(size) as folder:
            rows, losses = contest(size, make(folder=folder, steps=steps), **options)
        table += rows
        curves |= {f"{size} {name}": np.mean(runs, axis=0).tolist() for name, runs in losses.items()}
    with random_bert(sizes[0], dropout=0.0) as folder:
        work = make(folder=folder, steps=agreement_steps)
        for side, train in TRAIN.items():
            plain[side] = train(work, ours.rows_of(work), seed=0).losses
    curves |= {f"{sizes[0]} without dropout {side}": losses for side, losses in plain.items()}
    difference = float(np.abs(np.divide(plain["ours"], plain["theirs"]) - 1).max())
    assert difference <= TOLERANCE, f"without dropout the losses of the sides differ by {difference}"
    checks = {"largest_relative_difference_of_losses_without_dropout": difference}
    return {"rows": table, "curves": curves, "checks": checks}


def contest(
    size: str, work: Work, precisions: Sequence[str], rounds: int, memory_steps: int
) -> tuple[list[Row], dict[str, list[list[float]]]]:
    """Rows, and the losses of each turn; turns begin at the same weights and differ in their dropout."""
    rows, losses = ours.rows_of(work), {}
    flops = training_flops(rows.lengths, size) / work.steps
    tokenising = {"ours": rows.tokenising_seconds * work.batch_size, "theirs": 0.0}

    def turn(side: str, precision: str, number: int) -> dict[str, float]:
        gflops = matrix_gflops(precision)
        clock = TRAIN[side](work._replace(precision=precision), rows, seed=number)
        losses.setdefault(f"{precision} {side}", []).append(clock.losses)
        seconds = clock.seconds(skipped=WARM_UP_STEPS)
        shares = {"peak_share": flops / seconds / 1e9 / gflops, "rows_per_second": work.batch_size / seconds}
        return {"seconds_per_step": seconds, "with_tokenising": seconds + tokenising[side], **shares}

    keys = [(side, precision) for precision in precisions for side in TRAIN]
    turns = alternate({key: partial(turn, *key) for key in keys}, rounds)
    numbers = medians(turns, "seconds_per_step", lambda key: ("theirs", key[1]))
    tokenised = medians(turns, "with_tokenising", lambda key: ("theirs", key[1]))
    default = (
        medians(turns, "seconds_per_step", lambda key: ("theirs", "fp32")) if "fp32" in precisions else {}
    )
    table = []
    for side, precision in keys:
        few = work._replace(precision=precision, steps=memory_steps)
        memory = apart(trained, TRAIN[side], few, ours.rows_of(few)) | numbers[side, precision]
        memory["ratio_with_tokenising"] = tokenised[side, precision]["ratio"]
        memory["vs_default"] = default.get((side, precision), {}).get("ratio")
        table.append({"size": size, "side": side, "precision": precision, **memory})
    return table, losses


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
                numbers = apart(trained, TRAIN[side], sized, ours.rows_of(sized))
                peak, rows = numbers["mib_peak"], batch_size
        grown = {"mib_for_steps": numbers["mib_peak"] - numbers["mib_before"] if numbers else None}
        grown |= {key: numbers.get(key) for key in ("seconds_per_step", "mib_peak")}
        yield {"batch_size": batch_size} | grown
