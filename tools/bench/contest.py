"""Both sides training one model in every precision, taking turns, and what each turn showed."""

import statistics
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tools.bench.device import typical
from tools.bench.report import Value
from tools.bench.rounds import alternate, compare
from tools.bench.steps import Steps
from tools.bench.work import DROPOUT, Work

OURS, COMPILED, THEIRS = "ours", "ours compiled", "theirs"

Key = tuple[str, str]
"""Side and precision."""

Train = Callable[..., Steps]
"""All steps of a work on one side: train(work, side, seed=0)."""


class Contest:
    """The contestants on one model; `run`, then ask for rows and curves."""

    def __init__(
        self, work: Work, size: str, precisions: Sequence[str], train: Train, *, sides: Sequence[str]
    ) -> None:
        self.work, self.size, self.train = work, size, train
        self.keys: list[Key] = [(side, precision) for precision in precisions for side in sides]

    def run(self, rounds: int, *, before_turn: Callable[[Key], None] = lambda key: None) -> None:
        """`rounds` turns of each; a turn starts from the same weights, with the round as seed of dropout."""
        turns = {key: partial(self._play, *key) for key in self.keys}
        self.turns = alternate(turns, rounds=rounds, before_turn=before_turn)
        self.seconds = {key: [typical(one.seconds) for one in taken] for key, taken in self.turns.items()}

    def _play(self, side: str, precision: str, number: int) -> Steps:
        return self.train(self.work.at(precision, compiled=side == COMPILED), side, seed=number)

    def row(self, key: Key) -> dict[str, Value]:
        side, precision = key
        return {
            "size": self.size,
            "side": side,
            "precision": precision,
            "seconds_per_step": statistics.median(self.seconds[key]),
            **compare(self.seconds[THEIRS, precision], self.seconds[key]).columns(),
        }

    def curves(self) -> dict[str, list[float]]:
        """`<size> <precision> <side>` → loss per step, averaged over turns, which differ in their dropout."""
        return {
            f"{self.size} {precision} {side}": np.mean([one.losses for one in turns], axis=0).tolist()
            for (side, precision), turns in self.turns.items()
        }


def agree(work: Work, size: str, train: Train) -> tuple[dict[str, float], dict[str, list[float]]]:
    """Largest relative difference of the two loss curves of a work without dropout, and the curves themselves."""
    curves = {f"{size} without dropout {side}": train(work, side, seed=0).losses for side in (OURS, THEIRS)}
    ours, theirs = (np.array(losses) for losses in curves.values())
    largest = float(np.max(np.abs(ours - theirs) / np.abs(theirs)))
    return {"largest_relative_difference_of_losses_without_dropout": largest}, curves


def contests(
    make: Callable[..., Work],
    train: Train,
    *,
    sizes: Sequence[str],
    precisions: Sequence[str],
    steps: int,
    rounds: int,
    agreement_steps: int,
    per_second: str,
) -> dict[str, Any]:
    """Rows, curves and checks of a Report: a contest of each size, and both curves without dropout.

    make        folder, size, `dropout` and `steps` → the work
    per_second  what the rows of a batch are called
    """
    rows: list[dict[str, Value]] = []
    curves: dict[str, list[float]] = {}
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            work = make(Path(folder), size, dropout=DROPOUT, steps=steps)
            contest = Contest(work, size, precisions, train, sides=(OURS, THEIRS))
            contest.run(rounds)
        for key in contest.keys:
            speed = work.job.training.batch_size / statistics.median(contest.seconds[key])
            rows.append(contest.row(key) | {f"{per_second}_per_second": speed})
        curves |= contest.curves()
    with tempfile.TemporaryDirectory() as folder:
        plain = make(Path(folder), sizes[0], dropout=0.0, steps=agreement_steps)
        checks, agreement = agree(plain, sizes[0], train)
    return {"rows": rows, "curves": curves | agreement, "checks": checks}
