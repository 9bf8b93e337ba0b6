"""Among which texts the anchor of a positive pair looks for its own, and which of them are no wrong answer."""

import numpy as np

from juzhen.core.errors import UserError

NUM_CANDIDATES = 32
"""Texts among which the anchor of a positive pair looks for its own, that one included."""


def neighbours_in_batches(num_rows: int) -> np.ndarray:
    """(rows, candidates): of each row those of its batch, itself first; NUM_CANDIDATES, or all where there are fewer.

    Rows are dealt into batches by a fixed shuffle, whatever a job's seed; the last batch is filled up from the one
    before it, so that every row has as many candidates.
    """
    size = min(NUM_CANDIDATES, num_rows)
    shuffled = np.random.default_rng(0).permutation(num_rows)
    positions = np.arange(num_rows)
    starts = np.minimum(positions // max(size, 1) * size, num_rows - size)
    turns = (positions - starts)[:, None] + np.arange(size)
    candidates = np.empty((num_rows, size), dtype=np.int64)
    candidates[shuffled] = shuffled[starts[:, None] + turns % max(size, 1)]
    return candidates


def known_answers(
    anchors: np.ndarray,
    positives: np.ndarray,
    candidates: np.ndarray,
) -> np.ndarray:
    """Candidates, (rows, candidates), that are the anchor's own text, or a positive of the same anchor in any row.

    The rule of `juzhen.losses.false_negatives`, over the whole set. A row's own, the first, is never marked.
    """
    span = 1 + int(positives.max(initial=0))
    pairs = anchors.astype(np.int64) * span + positives
    marked = np.isin(anchors[:, None].astype(np.int64) * span + candidates, pairs)
    marked |= candidates == anchors[:, None]
    marked[:, :1] = False
    return marked


class DrawnDocuments:
    """Draws positives of other rows of a set for its rows.

    Args:
        anchors: Number of the anchor's text in each row.
        positives: Number of the positive's text in each row.
    """

    def __init__(self, anchors: np.ndarray, positives: np.ndarray) -> None:
        order = np.argsort(anchors, kind="stable")
        self._anchors, self._sorted, self._positives = anchors, anchors[order], positives[order]
        self._documents = np.unique(positives)

    def draw(self, rows: np.ndarray, count: int, *, seed: tuple[int, ...]) -> np.ndarray:
        """Return `count` documents for each of some rows, int64 (len(rows), count).

        The draw of a row depends on the seed and the row alone, not on the rows next to it. A known answer of its
        anchor (`known_answers`) is never drawn. Where the set has too few documents, some are drawn twice.

        Args:
            rows: Rows of the set.
            count: Documents of each row.
            seed: Numbers from 0, such as the job's seed and the number of the batch.

        Raises:
            UserError: Every document of the set answers the anchor of one of the rows.
        """
        drawn = np.empty((len(rows), count), dtype=np.int64)
        for place, row in enumerate(rows.tolist()):
            anchor = self._anchors[row]
            start, end = np.searchsorted(self._sorted, [anchor, anchor + 1])
            known = np.append(self._positives[start:end], anchor)
            size = min(count + len(known), len(self._documents))
            tried = np.random.default_rng((*seed, row)).choice(self._documents, size=size, replace=False)
            fitting = tried[~np.isin(tried, known)]
            if not len(fitting):
                raise UserError(
                    "num_drawn: all documents of the set answer one of its rows, and none is left to draw. "
                    "Train on a set with more distinct documents"
                )
            drawn[place] = np.resize(fitting, count)
        return drawn
