"""Which texts of an evaluation set are compared with one another: two of a row, or an anchor with several.

Many sets are one table of distinct sentences, so that each sentence is encoded once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Int

from juzhen.core.examples import Examples, Kind
from juzhen.core.measures import RANKED

NUM_CANDIDATES = 32
"""Texts among which the anchor of a positive pair looks for its own, that one included."""

BLOCK = 16_384
"""Comparisons that are scored at a time where rows have many."""


@dataclass(frozen=True)
class Comparisons:
    """Pairs of text numbers that a model must score.

    first, second  text numbers, one entry per comparison
    left_out  of a set that ranks, (rows, candidates): candidates that are no wrong answer; a row's own is the first.
              None: one comparison per row
    """

    first: Int[np.ndarray, "comparisons"]
    second: Int[np.ndarray, "comparisons"]
    left_out: Bool[np.ndarray, "rows candidates"] | None = None

    @classmethod
    def of(cls, examples: Examples) -> "Comparisons":
        """The comparisons of a set, by numbers of its own table; none for single texts."""
        first, *others = examples.columns.values()
        if not others:
            return cls(*np.empty((2, 0), dtype=np.int64))
        if examples.kind not in RANKED:
            return cls(first, others[0])
        if examples.kind is Kind.TRIPLET:
            candidates = np.stack(others, axis=1)
            left_out = np.zeros(candidates.shape, dtype=bool)
        else:
            candidates = others[0][neighbours_in_batches(len(examples))]
            left_out = _known_answers(first, others[0], candidates)
        return cls(np.repeat(first, candidates.shape[1]), candidates.ravel(), left_out)

    def renumbered(self, numbers: Int[np.ndarray, "texts"]) -> "Comparisons":
        """The same by other text numbers: `numbers` of the old ones."""
        return replace(self, first=numbers[self.first], second=numbers[self.second])

    def scored(self, score: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
        """What `score` gives for first and second texts, shaped; in blocks where there are many candidates."""
        if self.left_out is None:
            return score(self.first, self.second)
        parts = [
            score(self.first[start : start + BLOCK], self.second[start : start + BLOCK])
            for start in range(0, len(self.first), BLOCK)
        ]
        return self.shaped(np.concatenate(parts))

    def shaped(self, scores: np.ndarray) -> np.ndarray:
        """One score per comparison → (rows,); of a set that ranks (rows, candidates), −inf where one is left out."""
        if self.left_out is None:
            return scores
        return np.where(self.left_out, -np.inf, scores.reshape(self.left_out.shape))


class SentenceUnion:
    """The union of the sentences of several sets.

    examples  the distinct sentences as Examples of kind `sentence`, one row each
    """

    def __init__(self, sets: Sequence[Examples]) -> None:
        table: dict[str, int] = {}
        self._numbers = [
            np.array([table.setdefault(text, len(table)) for text in one.sentences], dtype=np.int64)
            for one in sets
        ]
        self.sets = list(sets)
        columns = {"text": np.arange(len(table), dtype=np.int32)}
        self.examples = Examples("union", "evaluation", Kind.SENTENCE, list(table), columns, None)

    def rows(self, position: int) -> dict[str, np.ndarray]:
        """Text columns of the set at `position` as row numbers of the union."""
        return {
            column: self._numbers[position][values] for column, values in self.sets[position].columns.items()
        }

    def comparisons(self, position: int) -> Comparisons:
        """What is compared in the set at `position`, by numbers of the union."""
        return Comparisons.of(self.sets[position]).renumbered(self._numbers[position])


def neighbours_in_batches(num_rows: int) -> Int[np.ndarray, "rows candidates"]:
    """For each row the rows of its batch, itself first: NUM_CANDIDATES, or all where there are fewer.

    Rows are dealt into batches by a fixed shuffle, whatever a job's seed; the last batch is filled up from the one
    before it, so that every row has as many candidates.
    """
    size = min(NUM_CANDIDATES, num_rows)
    shuffled = np.random.default_rng(0).permutation(num_rows)
    places = np.arange(num_rows)
    starts = np.minimum(places // max(size, 1) * size, num_rows - size)
    turns = (places - starts)[:, None] + np.arange(size)
    found = np.empty((num_rows, size), dtype=np.int64)
    found[shuffled] = shuffled[starts[:, None] + turns % max(size, 1)]
    return found


def _known_answers(
    anchors: Int[np.ndarray, "rows"],
    positives: Int[np.ndarray, "rows"],
    candidates: Int[np.ndarray, "rows candidates"],
) -> Bool[np.ndarray, "rows candidates"]:
    """Candidates that are the anchor's own text, or a positive of the same anchor in any row.

    The rule of juzhen.losses.info_nce.false_negatives, over the whole set; a row's own, the first, is never marked.
    """
    span = 1 + int(positives.max(initial=0))
    known = anchors.astype(np.int64) * span + positives
    marked = np.isin(anchors[:, None].astype(np.int64) * span + candidates, known)
    marked |= candidates == anchors[:, None]
    marked[:, :1] = False
    return marked
