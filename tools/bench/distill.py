"""Steps of distillation: the same student, vectors of a teacher, sentences, order and optimizer on both sides."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from juzhen.encoders import SentenceEncoder
from juzhen.encoders.embedding_cache import EmbeddingCache
from juzhen.encoders.kept_vectors import KeptVectors, Targets
from tools.bench.contest import OURS, contests
from tools.bench.ours import train_ours
from tools.bench.steps import Steps
from tools.bench.theirs import train_theirs
from tools.bench.work import Work, order_of, training_sets, training_work, write_bert

NOTES = [
    "ratio: seconds of theirs at the same precision / seconds of this side; median over rounds, lowest, highest",
    "the student of that size and a teacher of random weights have equally many dimensions, as their loss asks for",
    "the teacher's vectors are there before the first step: ours maps them from the disk, theirs has them as a column",
    "ours tokenises a set once, before its first step; theirs in every step",
]


def measure(*, batch_size: int, datasets: Sequence[str], **contest: Any) -> dict[str, Any]:
    """Rows, curves, checks and notes of a Report."""
    make = partial(taught_work, sets=training_sets(datasets), batch_size=batch_size)
    return contests(make, turn, **contest, per_second="sentences") | {"notes": NOTES}


def taught_work(
    folder: Path, size: str, sets: Sequence[str], *, dropout: float, batch_size: int, steps: int
) -> Work:
    """A student on the sentences of the sets, and what the other side is given as `label`."""
    teacher, cache = write_bert(folder / "teacher", size, dropout=0.0), folder / "cache"
    student = write_bert(folder / "student", size, dropout=dropout)
    words = ["model=distill", f"model.teacher={teacher}", "model.projection=pca", "loss=distill_mse"]
    work = training_work(
        student,
        datasets=sets,
        batch_size=batch_size,
        steps=steps,
        overrides=[*words, f"cache_dir={cache}"],
    )
    kept = KeptVectors(SentenceEncoder.load(teacher), EmbeddingCache(cache), precision="32-true")
    found = {}
    for name, examples in work.data.train.items():
        numbers = np.unique(examples.columns["text"])
        kept.fill([examples.sentences[number] for number in numbers], progress=None)
        found[name] = kept.find(examples.sentences, numbers), numbers
    return replace(work, targets=Targets(found, center=1.0, dim=None))


def turn(work: Work, side: str, *, seed: int) -> Steps:
    """All steps of the work on one side."""
    return train_ours(work, seed=seed) if side == OURS else train_theirs(order_of(work), seed=seed)
