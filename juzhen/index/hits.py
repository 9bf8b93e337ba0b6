"""What a search finds, and how lists of it become one."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

RRF = 60
"""Added to each rank (Cormack et al. 2009, https://doi.org/10.1145/1571941.1572114)."""

Lists = tuple[Int[np.ndarray, "queries k"], Float[np.ndarray, "queries k"]]
"""Numbers of texts and their scores, best first; −1 where a list has ended."""


class IndexHit(NamedTuple):
    """A text that was found.

    score  higher = closer; what it is depends on the mode
    ranks  its place in each list that holds it, from 1
    document, span  of a passage: id of its document, and where it begins and ends among the characters of that
    """

    index: int  # type: ignore[assignment]  # as answers over HTTP call it; a tuple's method is not asked
    id: str
    text: str
    metadata: dict[str, Any]
    score: float
    ranks: dict[str, int]
    document: str | None = None
    span: tuple[int, int] | None = None

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it; a text that is whole has no document and no span."""
        return {name: value for name, value in self._asdict().items() if value is not None}


def fused(lists: Sequence[Int[np.ndarray, "queries some"]], k: int) -> Lists:
    """The `k` best by the sum of 1 / (RRF + rank) over the lists."""
    numbers, scores = [], []
    for rows in zip(*lists, strict=True):
        sums: dict[int, float] = {}
        for row in rows:
            for rank, number in enumerate(row[row >= 0].tolist(), start=1):
                sums[number] = sums.get(number, 0) + 1 / (RRF + rank)
        best = sorted(sums, key=lambda number: (-sums[number], number))[:k]
        numbers.append(np.pad(np.array(best, dtype=np.int64), (0, k - len(best)), constant_values=-1))
        scores.append(np.pad([sums[number] for number in best], (0, k - len(best)), constant_values=-np.inf))
    return np.stack(numbers), np.stack(scores)


def best_passages(hits: Sequence[IndexHit]) -> list[IndexHit]:
    """Of each document the passage that stands first."""
    best: dict[str | None, IndexHit] = {}
    for hit in hits:
        best.setdefault(hit.document, hit)
    return list(best.values())
