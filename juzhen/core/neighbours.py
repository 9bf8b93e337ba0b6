"""Among which texts the anchor of a positive pair looks for its own, and which of them are no wrong answer."""

import numpy as np

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

    The rule of juzhen.losses.contrast.false_negatives, over the whole set; a row's own, the first, is never marked.
    """
    span = 1 + int(positives.max(initial=0))
    pairs = anchors.astype(np.int64) * span + positives
    marked = np.isin(anchors[:, None].astype(np.int64) * span + candidates, pairs)
    marked |= candidates == anchors[:, None]
    marked[:, :1] = False
    return marked
