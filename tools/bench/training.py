"""Training steps: the same weights, rows, order, optimizer, schedule and precision on both sides."""

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from juzhen.encoders import load_backbone
from tools.bench.child import peak_of_ours, peak_of_theirs
from tools.bench.contest import COMPILED, OURS, THEIRS, Contest, Key, agree
from tools.bench.device import WARM_UP_STEPS, matrix_gflops, typical
from tools.bench.options import SIZES
from tools.bench.ours import tokenise, train_ours
from tools.bench.report import Value
from tools.bench.rounds import compare
from tools.bench.steps import Steps
from tools.bench.theirs import train_theirs
from tools.bench.work import (
    Work,
    linear_weights,
    order_of,
    random_bert,
    sentence_lengths,
    training_flops,
    training_sets,
    training_work,
)

DEFAULT = (THEIRS, "fp32")
"""What a user of the other side gets who sets nothing."""

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
    rows, curves = [], {}
    options = {"datasets": training_sets(datasets), "batch_size": batch_size}
    for size in sizes:
        with random_bert(size) as folder:
            work = training_work(folder, **options, steps=steps)
            contest = TrainingContest(work, size, precisions, with_compiled=compile)
            contest.run(rounds, before_turn=contest.measure_peak)
            for key in contest.keys:
                rows.append(contest.row(key) | memory_of(key, work, options["datasets"], steps=memory_steps))
            curves |= contest.curves()
    with random_bert(sizes[0], dropout=0.0) as folder:
        plain = training_work(folder, **options, steps=agreement_steps)
        found, agreement = agree(plain, sizes[0], turn)
    peaks = {(row["size"], row["precision"], row["side"]): row["mib_peak"] for row in rows}
    ours = [(size, precision) for size, precision, side in peaks if side == OURS]
    no_higher = all(peaks[*key, OURS] <= peaks[*key, THEIRS] for key in ours)
    checks = found | {"ours_peaks_no_higher": no_higher}
    return {"rows": rows, "curves": curves | agreement, "checks": checks, "notes": NOTES}


def turn(work: Work, side: str, *, seed: int) -> Steps:
    return train_theirs(order_of(work), seed=seed) if side == THEIRS else train_ours(work, seed=seed)


class TrainingContest(Contest):
    """With what a step costs beside what the device could do."""

    def __init__(self, work: Work, size: str, precisions: Sequence[str], *, with_compiled: bool) -> None:
        sides = (OURS, COMPILED, THEIRS) if with_compiled else (OURS, THEIRS)
        super().__init__(work, size, precisions, turn, sides=sides)
        self.peaks: dict[Key, list[float]] = {key: [] for key in self.keys}
        lengths, self.tokenising_per_row = tokenise(work)
        self.every, self.distinct = sentence_lengths(work, lengths)
        self.num_steps = len(work.batches())
        self.weights = linear_weights(load_backbone(work.job.backbone, seed=0).backbone)

    def measure_peak(self, key: Key) -> None:
        """Before the turn of a contestant: what plain matrix products reach at this moment."""
        self.peaks[key].append(matrix_gflops(key[1]))

    def row(self, key: Key) -> dict[str, Value]:
        side, precision = key
        seconds, theirs = self.seconds[key], self.seconds[THEIRS, precision]
        per_row = 0.0 if side == THEIRS else self.tokenising_per_row
        charged = [one + per_row * self.work.job.training.batch_size for one in seconds]
        lengths = self.every if side == THEIRS else self.distinct
        layers, width, _ = SIZES[self.size]
        flops = training_flops(lengths, weights=self.weights, layers=layers, width=width) / self.num_steps
        shares = [flops / one / 1e9 / peak for one, peak in zip(seconds, self.peaks[key], strict=True)]
        tokens = np.sum(self.every)
        return super().row(key) | {
            "ratio_with_tokenising": compare(theirs, charged).median,
            "vs_default": compare(self.seconds[DEFAULT], seconds).median if DEFAULT in self.seconds else None,
            "tokens_per_second": float(tokens / self.num_steps / statistics.median(seconds)),
            "distinct_token_share": float(np.sum(lengths) / tokens),
            "peak_share": statistics.median(shares),
            "peak_gflops": statistics.median(self.peaks[key]),
            **self._compiling(key),
        }

    def _compiling(self, key: Key) -> dict[str, float | None]:
        """What the warm-up steps of the first turn took beyond their usual time, and after how many steps compiling
        has paid for itself; None when it never does.
        """
        if key[0] != COMPILED:
            return {"compile_seconds": None, "break_even_steps": None}
        first = self.turns[key][0].seconds
        cost = sum(first[:WARM_UP_STEPS]) - WARM_UP_STEPS * typical(first)
        gain = statistics.median(self.seconds[OURS, key[1]]) - statistics.median(self.seconds[key])
        return {"compile_seconds": cost, "break_even_steps": cost / gain if gain > 0 else None}


def memory_of(key: Key, work: Work, sets: Sequence[str], *, steps: int) -> dict[str, float | None]:
    """Peak memory of a process that trains; not for compiled code, where the compiler's own memory would count."""
    side, precision = key
    if side == COMPILED:
        return {"mib_peak": None, "mib_before": None}
    batch_size = work.job.training.batch_size
    if side == OURS:
        options = {"datasets": sets, "batch_size": batch_size, "steps": steps}
        found = peak_of_ours(work.folder, **options, precision=precision)
    else:
        order = order_of(work.at(precision))
        rows = {column: values[: steps * batch_size] for column, values in order.rows.items()}
        found = peak_of_theirs(replace(order, rows=rows))
    return {"mib_peak": found["peak_mib"], "mib_before": found["before_mib"]}
