"""Batches of sentences of like length, without giving up the shuffle or the balance of labels.

Rows are shuffled first. Then, within each window of several batches, rows are put in order of length, so that a
batch holds rows of like length and little of it is padding. The batches are shuffled again afterwards.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

MOST_CLASSES = 10
"""Targets with more distinct values are graded: they are balanced by fifths."""


@dataclass(frozen=True)
class Shape:
    """What decides where a row goes inside a window.

    lengths  tokens of the longest text of each row
    strata   number of the class, or of the fifth of the grades, that each row is in
    """

    lengths: Int[np.ndarray, "rows"]
    strata: Int[np.ndarray, "rows"]


def strata(targets: Float[np.ndarray, "rows"] | None, num_rows: int) -> Int[np.ndarray, "rows"]:
    """Groups of rows that every batch should hold its share of: classes, or fifths of a graded score."""
    if targets is None:
        return np.zeros(num_rows, dtype=np.int64)
    values, classes = np.unique(targets, return_inverse=True)
    if len(values) <= MOST_CLASSES:
        return classes
    return np.searchsorted(np.quantile(targets, [0.2, 0.4, 0.6, 0.8]), targets, side="right")


def arrange(order: Int[np.ndarray, "rows"], shape: Shape, *, window_rows: int) -> Int[np.ndarray, "rows"]:
    """`order` with each window of `window_rows` put in order of length; a permutation of it.

    A row's place is its rank by length among the rows of its own stratum, as a share of them. So neighbours have
    like length, and any stretch holds the strata in the proportions of the window: a coupled loss still finds
    positives and negatives in each batch, even where one class has the longer sentences.
    """
    windows = np.split(order, range(window_rows, len(order), window_rows))
    return np.concatenate([_arranged(rows, shape) for rows in windows])


def _arranged(rows: Int[np.ndarray, "rows"], shape: Shape) -> Int[np.ndarray, "rows"]:
    lengths, classes = shape.lengths[rows], shape.strata[rows]
    shares = np.empty(len(rows))
    for number in np.unique(classes):
        (places,) = np.nonzero(classes == number)
        by_length = places[np.argsort(lengths[places], kind="stable")]
        shares[by_length] = (np.arange(len(places)) + 0.5) / len(places)
    return rows[np.argsort(shares, kind="stable")]
