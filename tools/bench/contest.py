"""Both sides training one model in every precision, taking turns, and what each turn showed."""

import statistics
from collections.abc import Callable, Sequence

import numpy as np

from juzhen.encoders import load_backbone
from tools.bench.device import WARM_UP_STEPS, device, typical
from tools.bench.flops import linear_weights, training_flops
from tools.bench.machine import matrix_gflops
from tools.bench.options import SIZES
from tools.bench.ours import tokenise, train_ours
from tools.bench.report import Value
from tools.bench.rounds import alternate, compare
from tools.bench.steps import Steps
from tools.bench.theirs import train_theirs
from tools.bench.work import Work, order_of, sentence_lengths

PEAK_SECONDS = 0.3
OURS, COMPILED, THEIRS = "ours", "ours compiled", "theirs"
DEFAULT = (THEIRS, "fp32")
"""What a user of the other side gets who sets nothing."""

Key = tuple[str, str]
"""Side and precision."""


class Contest:
    """The contestants on one model; `run`, then ask for rows and curves."""

    def __init__(self, work: Work, size: str, precisions: Sequence[str], *, with_compiled: bool) -> None:
        self.work, self.size = work, size
        self.keys: list[Key] = [
            (side, precision)
            for precision in precisions
            for side in (OURS, COMPILED, THEIRS)
            if side != COMPILED or with_compiled
        ]
        self.turns: dict[Key, list[Steps]] = {key: [] for key in self.keys}
        self.peaks: dict[Key, list[float]] = {key: [] for key in self.keys}
        self.tokenised = tokenise(work)
        self.lengths = sentence_lengths(work, self.tokenised.lengths)
        self.num_steps = len(work.batches())
        self.weights = linear_weights(load_backbone(work.job.backbone, seed=0).backbone)

    def run(self, rounds: int) -> None:
        """`rounds` turns of each; a turn starts from the same weights, with the round as seed of dropout."""

        def measure_peak(key: Key) -> None:
            self.peaks[key].append(matrix_gflops(key[1], seconds=PEAK_SECONDS, device=device()))

        turns = {key: self._turn(key) for key in self.keys}
        self.seconds = alternate(turns, rounds=rounds, before_turn=measure_peak)

    def _turn(self, key: Key) -> Callable[[int], float]:
        side, precision = key
        work = self.work.at(precision, compiled=side == COMPILED)
        order = order_of(work)

        def play(number: int) -> float:
            steps = train_theirs(order, seed=number) if side == THEIRS else train_ours(work, seed=number)
            self.turns[key].append(steps)
            return typical(steps.seconds)

        return play

    def row(self, key: Key) -> dict[str, Value]:
        """The numbers of one contestant; see the notes of tools.bench.training."""
        side, precision = key
        seconds, theirs = self.seconds[key], self.seconds[THEIRS, precision]
        ratio = compare(theirs, seconds)
        per_row = 0.0 if side == THEIRS else self.tokenised.seconds_per_row
        charged = [one + per_row * self.work.job.training.batch_size for one in seconds]
        lengths = self.lengths.every if side == THEIRS else self.lengths.distinct
        layers, width, _ = SIZES[self.size]
        flops = training_flops(lengths, weights=self.weights, layers=layers, width=width) / self.num_steps
        shares = [flops / one / 1e9 / peak for one, peak in zip(seconds, self.peaks[key], strict=True)]
        return {
            "size": self.size,
            "side": side,
            "precision": precision,
            "seconds_per_step": statistics.median(seconds),
            "ratio": ratio.median,
            "ratio_low": ratio.low,
            "ratio_high": ratio.high,
            "ratio_with_tokenising": compare(theirs, charged).median,
            "vs_default": compare(self.seconds[DEFAULT], seconds).median if DEFAULT in self.seconds else None,
            "tokens_per_second": float(
                np.sum(self.lengths.every) / self.num_steps / statistics.median(seconds)
            ),
            "distinct_token_share": float(np.sum(lengths) / np.sum(self.lengths.every)),
            "peak_share": statistics.median(shares),
            "peak_gflops": statistics.median(self.peaks[key]),
            "compile_seconds": self._compile_seconds(key),
            "break_even_steps": self._break_even(key),
        }

    def _compile_seconds(self, key: Key) -> float | None:
        """What the warm-up steps of the first turn took beyond their usual time."""
        if key[0] != COMPILED:
            return None
        first = self.turns[key][0]
        return sum(first.seconds[:WARM_UP_STEPS]) - WARM_UP_STEPS * typical(first.seconds)

    def _break_even(self, key: Key) -> float | None:
        """Steps after which compiling has paid for itself; None when it never does."""
        cost = self._compile_seconds(key)
        if cost is None:
            return None
        gain = statistics.median(self.seconds[OURS, key[1]]) - statistics.median(self.seconds[key])
        return cost / gain if gain > 0 else None

    def curves(self) -> dict[str, list[float]]:
        """`<size> <precision> <side>` → loss per step, averaged over turns, which differ in their dropout."""
        return {
            f"{self.size} {precision} {side}": np.mean([one.losses for one in turns], axis=0).tolist()
            for (side, precision), turns in self.turns.items()
        }
