"""Both sides training one model in every precision, taking turns, and both loss curves without dropout."""

import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tools.bench.contest import OURS, THEIRS, Key
from tools.bench.device import typical
from tools.bench.report import Value
from tools.bench.rounds import alternate, compare
from tools.bench.steps import Steps
from tools.bench.work import Work

DROPOUT = 0.1


class TwoSides:
    """A training benchmark of ours and theirs.

    make        folder, size, `dropout` and `steps` → the work
    turn        work, side and `seed` → all its steps on that side
    per_second  what the rows of a batch are called
    """

    def __init__(self, make: Callable[..., Work], turn: Callable[..., Steps], *, per_second: str) -> None:
        self.make, self.turn, self.per_second = make, turn, per_second

    def measure(
        self,
        sizes: Sequence[str],
        precisions: Sequence[str],
        *,
        steps: int,
        rounds: int,
        agreement_steps: int,
    ) -> dict[str, Any]:
        """Rows, curves and checks of a Report."""
        rows: list[dict[str, Value]] = []
        curves: dict[str, list[float]] = {}
        for size in sizes:
            with tempfile.TemporaryDirectory() as folder:
                work = self.make(Path(folder), size, dropout=DROPOUT, steps=steps)
                turns: dict[Key, list[Steps]] = {
                    (side, precision): [] for precision in precisions for side in (OURS, THEIRS)
                }
                players = {key: self._player(work, key, turns[key]) for key in turns}
                seconds = alternate(players, rounds=rounds)
            rows += [self._row(key, seconds, size, work.job.training.batch_size) for key in turns]
            curves |= {
                f"{size} {precision} {side}": np.mean([one.losses for one in done], axis=0).tolist()
                for (side, precision), done in turns.items()
            }
        with tempfile.TemporaryDirectory() as folder:
            work = self.make(Path(folder), sizes[0], dropout=0.0, steps=agreement_steps)
            plain = {
                f"{sizes[0]} without dropout {side}": self.turn(work, side, seed=0).losses
                for side in (OURS, THEIRS)
            }
        ours, theirs = (np.array(values) for values in plain.values())
        largest = float(np.max(np.abs(ours - theirs) / np.abs(theirs)))
        checks = {"largest_relative_difference_of_losses_without_dropout": largest}
        return {"rows": rows, "curves": curves | plain, "checks": checks}

    def _player(self, work: Work, key: Key, done: list[Steps]) -> Callable[[int], float]:
        side, precision = key

        def play(number: int) -> float:
            done.append(self.turn(work.at(precision), side, seed=number))
            return typical(done[-1].seconds)

        return play

    def _row(self, key: Key, seconds: dict[Key, list[float]], size: str, batch_size: int) -> dict[str, Value]:
        side, precision = key
        ratio = compare(seconds[THEIRS, precision], seconds[key])
        median = statistics.median(seconds[key])
        return {
            "size": size,
            "side": side,
            "precision": precision,
            "seconds_per_step": median,
            "ratio": ratio.median,
            "ratio_low": ratio.low,
            "ratio_high": ratio.high,
            f"{self.per_second}_per_second": batch_size / median,
        }
