"""Training steps of a cross-encoder: the same weights, head, rows, order, optimiser and precision on both sides."""

import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lightning_modules.crossencoder import CrossEncoder
from tools.bench.contest import OURS, THEIRS, Key
from tools.bench.device import typical
from tools.bench.ours import train_ours
from tools.bench.report import Value
from tools.bench.rounds import alternate, compare
from tools.bench.steps import Steps
from tools.bench.theirs_joint import train_joint_theirs
from tools.bench.work import Work, has_real_data, order_of, training_work, write_bert

DROPOUT = 0.1

NOTES = [
    "ratio: seconds of theirs at the same precision / seconds of this side; median over rounds, lowest, highest",
    "their pooler, a layer that our head does without, is taken out",
    "ours tokenises a set once, before its first step; theirs in every step",
]


def measure(
    *,
    sizes: Sequence[str],
    precisions: Sequence[str],
    batch_size: int,
    steps: int,
    rounds: int,
    agreement_steps: int,
    datasets: Sequence[str],
) -> dict[str, Any]:
    """Rows, curves, checks and notes of a Report."""
    rows, curves = [], {}
    sets = list(datasets) or (["lcqmc"] if has_real_data() else ["demo_qmc"])
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            work = joint_work(Path(folder), size, sets, dropout=DROPOUT, batch_size=batch_size, steps=steps)
            contest = JointContest(work, size, precisions)
            rows += contest.rows(rounds)
            curves |= contest.curves()
    with tempfile.TemporaryDirectory() as folder:
        work = joint_work(
            Path(folder), sizes[0], sets, dropout=0.0, batch_size=batch_size, steps=agreement_steps
        )
        plain = {
            f"{sizes[0]} without dropout {side}": turn(work, side, seed=0).losses for side in (OURS, THEIRS)
        }
    ours, theirs = (np.array(values) for values in plain.values())
    checks = {
        "largest_relative_difference_of_losses_without_dropout": float(
            np.max(np.abs(ours - theirs) / np.abs(theirs))
        )
    }
    return {"rows": rows, "curves": curves | plain, "checks": checks, "notes": NOTES}


def joint_work(
    folder: Path, size: str, sets: Sequence[str], *, dropout: float, batch_size: int, steps: int
) -> Work:
    """A cross-encoder with binary cross-entropy of its logit, on labelled pairs."""
    write_bert(folder, size, dropout=dropout)
    words = ["model=crossencoder", "loss=bce"]
    return training_work(folder, datasets=sets, batch_size=batch_size, steps=steps, overrides=words)


def turn(work: Work, side: str, *, seed: int) -> Steps:
    """All steps of the work on one side."""
    if side == OURS:
        return train_ours(work, seed=seed)
    head = CrossEncoder.load_encoder(work.job).head.state_dict()
    return train_joint_theirs(order_of(work), head=head, seed=seed)


class JointContest:
    """Both sides training one model in every precision, taking turns."""

    def __init__(self, work: Work, size: str, precisions: Sequence[str]) -> None:
        self.work, self.size = work, size
        self.turns: dict[Key, list[Steps]] = {
            (side, precision): [] for precision in precisions for side in (OURS, THEIRS)
        }

    def rows(self, rounds: int) -> list[dict[str, Value]]:
        """The numbers of each contestant after `rounds` turns of each."""
        seconds = alternate({key: self._turn(key) for key in self.turns}, rounds=rounds)
        return [self._row(key, seconds) for key in self.turns]

    def _turn(self, key: Key) -> Callable[[int], float]:
        side, precision = key

        def play(number: int) -> float:
            steps = turn(self.work.at(precision), side, seed=number)
            self.turns[key].append(steps)
            return typical(steps.seconds)

        return play

    def _row(self, key: Key, seconds: dict[Key, list[float]]) -> dict[str, Value]:
        side, precision = key
        ratio = compare(seconds[THEIRS, precision], seconds[key])
        median = statistics.median(seconds[key])
        return {
            "size": self.size,
            "side": side,
            "precision": precision,
            "seconds_per_step": median,
            "ratio": ratio.median,
            "ratio_low": ratio.low,
            "ratio_high": ratio.high,
            "pairs_per_second": self.work.job.training.batch_size / median,
        }

    def curves(self) -> dict[str, list[float]]:
        """`<size> <precision> <side>` → loss per step, averaged over turns, which differ in their dropout."""
        return {
            f"{self.size} {precision} {side}": np.mean([one.losses for one in turns], axis=0).tolist()
            for (side, precision), turns in self.turns.items()
        }
