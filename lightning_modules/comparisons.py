"""Batches in which a loss finds nothing to compare: how many there are, and which, before a step is taken."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from datamodules.datamodule import SentenceDataModule
from juzhen.core.examples import Examples
from juzhen.core.text import percent
from juzhen.data.sampler import BatchStream, stratified
from juzhen.losses.loss import Contrast, Loss
from juzhen.training.comparing import compares, differ

Comparison = Callable[[np.ndarray], bool]
"""Row numbers of a batch → whether its rows differ in what a loss compares."""

LOOKED_AT = 1000
"""Batches of a set that are looked at before training."""

FEW = 0.01
"""Share of empty batches that needs no line."""


def compares_rows(examples: Examples, rows: np.ndarray, loss: Loss) -> bool:
    """As `compares`, of the part of a loss that compares rows, where a part of it does not."""
    has_part = (
        loss.is_batchwise
        and loss.contrast in (Contrast.CLASSES, Contrast.VALUES)
        and examples.targets is not None
    )
    return differ(examples.targets[rows]) if has_part else compares(examples, rows, loss)


def comparisons(rows: SentenceDataModule, losses: Mapping[str, Loss]) -> dict[str, Comparison]:
    """Dataset key → `compares` for rows of its set as they are when a batch is drawn: mining changes them."""
    return {
        name: lambda chosen, name=name, loss=losses[name]: compares(rows.train[name], chosen, loss)
        for name in rows.train
        if name in losses
    }


def empty_batches(
    rows: SentenceDataModule, name: str, loss: Loss, *, size_key: str, told_as: str
) -> Iterator[str]:
    """A line where more than a few batches of a set compare nothing; it says what balanced batches would do."""
    examples, by = rows.train[name], rows.job.training.stratify_by
    num_empty, looked_at = _count(rows, name, loss, balanced=by == "label")
    if num_empty <= FEW * looked_at:
        return
    is_empty = not all(
        compares(examples, chosen, loss) for chosen in _drawn(rows, name, balanced=by == "label")
    )
    reason = (
        f"{told_as} compares nothing there, and such steps leave the weights as they are"
        if is_empty
        else f"the part of {told_as} that compares rows has nothing to compare there"
    )
    advice = f"raise {size_key}={rows.stream.batch_sizes[name]}"
    if examples.targets is not None and by == "none":
        balanced, _ = _count(rows, name, loss, balanced=True)
        by_label = f"training.stratify_by=label ({percent(balanced, looked_at)})"
        advice = (
            f"type {by_label}, or {advice}" if balanced < num_empty else f"{by_label} cannot help; {advice}"
        )
    yield (
        f"{name}/train: {num_empty:,} of {looked_at:,} batches ({percent(num_empty, looked_at)}) hold rows that do not "
        f"differ: {reason}; {advice}"
    )


def _count(rows: SentenceDataModule, name: str, loss: Loss, *, balanced: bool) -> tuple[int, int]:
    """Batches that compare no rows, and all that were looked at."""
    batches = _drawn(rows, name, balanced=balanced)
    return sum(not compares_rows(rows.train[name], batch, loss) for batch in batches), len(batches)


def _drawn(rows: SentenceDataModule, name: str, *, balanced: bool) -> list[np.ndarray]:
    """The first batches of a set; `balanced`: with its labels in proportion."""
    examples, size = rows.train[name], rows.stream.batch_sizes[name]
    stream = BatchStream({name: len(examples)}, batch_size=size, num_batches=0, seed=rows.job.seed)
    if balanced:
        stream.window = stream.batches_of[name]
        stream.shapes = {name: stratified("label", examples.targets, lambda: examples.targets, len(examples))}
    return [chosen for _, chosen in stream.epoch(0)[:LOOKED_AT]]
