"""Training steps: the same weights, rows, order, optimiser, schedule and precision on both sides."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tools.bench.contest import COMPILED, OURS, THEIRS, Contest, Key
from tools.bench.ours import train_ours
from tools.bench.peak import peak_of_ours, peak_of_theirs
from tools.bench.report import Value
from tools.bench.steps import Steps
from tools.bench.theirs import train_theirs
from tools.bench.work import Work, order_of, training_sets, training_work, write_bert

DROPOUT = 0.1

NOTES = [
    "ratio: seconds of theirs at the same precision / seconds of this side; median over rounds, lowest, highest",
    "ratio with tokenising: ours tokenises a set once, before its first step; here that cost per row is added to "
    "ours as if there were one epoch only. Theirs tokenises in every step",
    "vs default: seconds of theirs in fp32, which it does unless told otherwise / seconds of this side",
    "tokens per second: tokens of every sentence of every pair, without padding",
    "distinct token share: tokens that are encoded, of those of every sentence of every pair",
    "peak share: operations on tokens that are really computed (ours: distinct sentences only) as a share of plain "
    "matrix products in that precision, which are measured before each turn",
    "mib peak, mib before: the most memory of a process that trains some steps, and what it held with its libraries "
    "and rows loaded, but no model; such a process loads the libraries of one side only",
]


def measure(
    *,
    sizes: Sequence[str],
    precisions: Sequence[str],
    batch_size: int,
    steps: int,
    rounds: int,
    agreement_steps: int,
    memory_steps: int,
    datasets: Sequence[str],
    compile: bool,
) -> dict[str, Any]:
    """Rows, curves, checks and notes of a Report."""
    rows, curves = [], {}
    sets = training_sets(datasets)
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            write_bert(Path(folder), size, dropout=DROPOUT)
            work = training_work(Path(folder), datasets=sets, batch_size=batch_size, steps=steps)
            contest = Contest(work, size, precisions, with_compiled=compile)
            contest.run(rounds)
            rows += [
                contest.row(key) | memory_of(key, work, sets, steps=memory_steps) for key in contest.keys
            ]
            curves |= contest.curves()
    found, agreement = agree(sizes[0], sets, batch_size=batch_size, steps=agreement_steps)
    checks = found | {"ours_peaks_no_higher": peaks_no_higher(rows)}
    return {"rows": rows, "curves": curves | agreement, "checks": checks, "notes": NOTES}


def peaks_no_higher(rows: Sequence[dict[str, Value]]) -> bool:
    """Whether ours needs at most the memory of theirs, in every size and precision."""
    peaks = {(row["size"], row["precision"], row["side"]): row["mib_peak"] for row in rows}
    return all(
        peak <= peaks[size, precision, THEIRS]
        for (size, precision, side), peak in peaks.items() if side == OURS
    )  # fmt: skip


def memory_of(key: Key, work: Work, sets: Sequence[str], *, steps: int) -> dict[str, float | None]:
    """Peak memory of a process that trains; not for compiled code, where the compiler's own memory would count."""
    side, precision = key
    if side == COMPILED:
        return {"mib_peak": None, "mib_before": None}
    batch_size = work.job.training.batch_size
    if side == OURS:
        options = {"datasets": sets, "batch_size": batch_size, "steps": steps}
        found = peak_of_ours(str(work.folder), **options, precision=precision)
    else:
        order = order_of(work.at(precision))
        rows = {column: values[: steps * batch_size] for column, values in order.rows.items()}
        found = peak_of_theirs(replace(order, rows=rows))
    return {"mib_peak": found["peak_mib"], "mib_before": found["before_mib"]}


def agree(
    size: str, sets: Sequence[str], *, batch_size: int, steps: int
) -> tuple[dict[str, float], dict[str, list[float]]]:
    """Largest relative difference of the two loss curves without dropout in fp32, and the curves themselves."""
    with tempfile.TemporaryDirectory() as folder:
        write_bert(Path(folder), size, dropout=0.0)
        work = training_work(Path(folder), datasets=sets, batch_size=batch_size, steps=steps)
        found: dict[str, Steps] = {
            OURS: train_ours(work, seed=0),
            THEIRS: train_theirs(order_of(work), seed=0),
        }
    ours, theirs = (np.array(found[side].losses) for side in (OURS, THEIRS))
    largest = float(np.max(np.abs(ours - theirs) / np.abs(theirs)))
    curves = {f"{size} without dropout {side}": steps.losses for side, steps in found.items()}
    return {"largest_relative_difference_of_losses_without_dropout": largest}, curves
