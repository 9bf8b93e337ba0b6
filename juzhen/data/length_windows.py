"""What batches hold beside chance: sentences of like length, or every label and every length in its proportion.

Rows are shuffled first. Then, within each window of several batches, rows are put in order of length, so that a
batch holds rows of like length and little of it is padding. The batches are shuffled again afterwards. Where all
lengths count as one, what is left of it is the balance: each batch holds its share of every stratum.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

MOST_CLASSES = 10
"""Targets with more distinct values are graded: they are balanced by fifths."""


GOLDEN = (5**0.5 - 1) / 2
"""Multiples of it, without their whole part, lie evenly between 0 and 1, however many there are."""


@dataclass(frozen=True)
class Shape:
    """What decides where a row goes inside a window.

    lengths    tokens of the longest text of each row
    strata     number of the class, or of the fifth of the grades, that each row is in
    staggered  each stratum begins at another place, so that many small ones do not come up together
    """

    lengths: Int[np.ndarray, "rows"]
    strata: Int[np.ndarray, "rows"]
    staggered: bool = False


def strata(targets: Float[np.ndarray, "rows"] | None, num_rows: int) -> Int[np.ndarray, "rows"]:
    """Groups of rows that every batch should hold its share of: classes, or fifths of a graded score."""
    if targets is None:
        return np.zeros(num_rows, dtype=np.int64)
    values, classes = np.unique(targets, return_inverse=True)
    if len(values) <= MOST_CLASSES:
        return classes
    return fifths(targets)


def fifths(values: Float[np.ndarray, "rows"] | Int[np.ndarray, "rows"]) -> Int[np.ndarray, "rows"]:
    """Number of the fifth, from 0, that each value is in; equal values are in one."""
    return np.searchsorted(np.quantile(values, [0.2, 0.4, 0.6, 0.8]), values, side="right")


def stratified(
    by: str,
    targets: Float[np.ndarray, "rows"] | None,
    lengths: Callable[[], Int[np.ndarray, "rows"]],
    num_rows: int,
) -> Shape:
    """What puts the strata of `training.stratify_by` in every batch: labels, fifths of the lengths, or both at once.

    lengths  gives the lengths of the rows; not asked where they are of no use
    """
    groups = strata(targets, num_rows) if "label" in by else np.zeros(num_rows, dtype=np.int64)
    if "length" in by:
        groups = 5 * groups + fifths(lengths())
    return Shape(np.zeros(num_rows, dtype=np.int64), groups, staggered=True)


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
        (members,) = np.nonzero(classes == number)
        by_length = members[np.argsort(lengths[members], kind="stable")]
        first = number * GOLDEN % 1 if shape.staggered else 0.5
        shares[by_length] = (np.arange(len(members)) + first) / len(members)
    return rows[np.argsort(shares, kind="stable")]
