"""Evaluation rows whose pair the training of a stage, or of one before it, has held."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from juzhen.core.examples import JUDGED, Examples
from juzhen.data.leaks.pairs import PairIndex, pair_columns


@dataclass(frozen=True)
class Seen:
    """What training has seen of one evaluation split.

    rows    positions of the seen rows, int64, sorted; of judgements the queries of these, counted from 0
    share   their part of the split, as a fraction
    by_set  training set → how many of these rows it holds; sets without any are left out, sets may overlap
    """

    rows: np.ndarray
    share: float
    by_set: Mapping[str, int]


class SeenRows:
    """Keeps account of what has been learnt from, and tells which rows of `evaluation` that gives away.

    A row is given away by the same pair in either order, or by one that is nearly the same (see `pairs`). Sets
    without pairs, learnt from or scored, have nothing to compare. Nothing is computed before it is asked for.
    """

    def __init__(self, evaluation: Sequence[Examples]) -> None:
        self._evaluation = [one for one in evaluation if pair_columns(one)]
        self._learnt: list[Examples] = []
        self._found: list[list[np.ndarray]] = []  # for each of `_learnt`: seen rows of each split

    @cached_property
    def _index(self) -> PairIndex:
        return PairIndex(self._evaluation)

    def learn(self, train: Mapping[str, Examples]) -> None:
        """Adds sets as they are learnt from: after their view, and after their limit."""
        for one in train.values():
            if pair_columns(one) and len(one) and not any(one is known for known in self._learnt):
                self._learnt.append(one)

    def seen(self) -> dict[str, Seen]:
        """`split/dataset` → Seen, of every evaluation split with pairs; all that was learnt so far counts."""
        if not self._evaluation:
            return {}
        for one in self._learnt[len(self._found) :]:
            self._found.append([np.unique(hits.evaluation_rows) for hits in self._index.search(one)])
        return {f"{one.split}/{one.name}": self._of(place) for place, one in enumerate(self._evaluation)}

    def _of(self, place: int) -> Seen:
        by_set: dict[str, np.ndarray] = {}
        for one, found in zip(self._learnt, self._found, strict=True):
            by_set[one.name] = np.union1d(by_set.get(one.name, found[place]), found[place])
        evaluated = self._evaluation[place]
        rows = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *by_set.values()]))
        counts = {name: len(some) for name, some in by_set.items() if len(some)}
        scored = len(evaluated)
        if evaluated.kind in JUDGED:
            queries, of_rows = np.unique(evaluated.columns["query"], return_inverse=True)
            rows, scored = np.unique(of_rows[rows]), len(queries)
        return Seen(rows, len(rows) / max(scored, 1), counts)
