"""Which rows a classifier learns from and is judged by. Needs no torch."""

from collections.abc import Mapping, Sized

import numpy as np

from juzhen.core.examples import Kind

KINDS = (Kind.LABELLED_PAIR, Kind.NLI_PAIR, Kind.LABELLED_TEXT)
"""Rows with classes."""


def judged_split(splits: Mapping[str, Sized]) -> tuple[str, bool]:
    """The split that a classifier is judged on, and whether that is in folds of it.

    Beside a train split test, else dev, which then is not used to choose the penalty. Where there is only one side,
    folds of the largest split that there is: no row is judged by a classifier that has seen it.
    """
    held_out = [name for name in ("test", "dev") if name in splits]
    if "train" in splits and held_out:
        return held_out[0], False
    return max(splits, key=lambda name: len(splits[name])), True


def too_few(labels: Mapping[str, np.ndarray]) -> str | None:
    """Why no classifier can be made of splits with these class numbers; None where one can."""
    name, in_folds = judged_split(labels)
    fitted_on = labels[name if in_folds else "train"]
    _, counts = np.unique(fitted_on, return_counts=True)
    if len(counts) < 2:
        return f"all {len(fitted_on):,} rows to learn from are of one class"
    if in_folds and counts.min() < 2:
        return "a class has 1 row only; a classifier needs at least 2 of each"
    return None
