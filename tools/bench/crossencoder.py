"""Training steps of a cross-encoder: the same weights, head, rows, order, optimizer and precision on both sides."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lightning_modules.crossencoder import CrossEncoder
from tools.bench.contest import OURS, contests
from tools.bench.ours import train_ours
from tools.bench.steps import Steps
from tools.bench.theirs_joint import train_joint_theirs
from tools.bench.work import Work, has_real_data, order_of, training_work, write_bert

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
    sets = list(datasets) or (["lcqmc"] if has_real_data() else ["demo_qmc"])
    make = partial(joint_work, sets=sets, batch_size=batch_size)
    found = contests(
        make,
        turn,
        sizes=sizes,
        precisions=precisions,
        steps=steps,
        rounds=rounds,
        agreement_steps=agreement_steps,
        per_second="pairs",
    )
    return found | {"notes": NOTES}


def joint_work(
    folder: Path, size: str, sets: Sequence[str], *, dropout: float, batch_size: int, steps: int
) -> Work:
    """A cross-encoder with binary cross-entropy of its logit, on labelled pairs."""
    write_bert(folder, size, dropout=dropout)
    words = ["model=crossencoder", "loss=bce"]
    return training_work(folder, datasets=sets, batch_size=batch_size, steps=steps, overrides=words)


def turn(work: Work, side: str, *, seed: int) -> Steps:
    if side == OURS:
        return train_ours(work, seed=seed)
    head = CrossEncoder.load_encoder(work.job).head.state_dict()
    return train_joint_theirs(order_of(work), head=head, seed=seed)
