"""Filter of training rows that contain an evaluation row, and account of evaluation rows that training has seen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from juzhen.core.errors import UserError
from juzhen.core.examples import JUDGED, Examples
from juzhen.data.leaks.matching import PairIndex, SentenceSearch, pair_columns


class LeakFilter:
    """Filter of training rows that would leak rows of `evaluation`.

    A row of pairs leaks if one of its pairs is in an evaluation row, in either order, exactly or nearly. A text leaks
    if it contains a sentence of an evaluation row (see `matching`).
    """

    def __init__(self, evaluation: Sequence[Examples]) -> None:
        self.evaluation = evaluation

    @cached_property
    def _pairs(self) -> PairIndex:
        return PairIndex(self.evaluation)

    @cached_property
    def _sentences(self) -> SentenceSearch:
        return SentenceSearch(
            sentence for examples in self.evaluation for sentence in used_sentences(examples)
        )

    def leaky_rows_of(self, train: Examples) -> np.ndarray:
        """Return the training rows to leave out, int64, sorted. Equal rows give equal results."""
        if not self.evaluation or not len(train):
            return np.empty(0, dtype=np.int64)
        if pair_columns(train):
            return np.unique(np.concatenate([hits.train_rows for hits in self._pairs.search(train)]))
        return np.unique(self._sentences.search(train.texts("text"))[0])

    def without_leaks(self, train: Examples) -> Examples:
        """Return the set without its leaky rows, counted in `num_leaky`. Raises UserError if none is left."""
        leaky = self.leaky_rows_of(train)
        if len(train) and len(leaky) == len(train):
            raise UserError(
                f"{train.name}: all {len(train)} training rows are also in sets that this job evaluates "
                f"on, and filter_leaks=true leaves them out. Evaluate on other sets, or choose filter_leaks=false"
            )
        remaining = train.select(np.setdiff1d(np.arange(len(train)), leaky)) if len(leaky) else train
        return replace(remaining, num_leaky=len(leaky))


def used_sentences(examples: Examples) -> list[str]:
    """Return the sentences of the rows. A sampled set keeps the table of the whole set."""
    positions = np.unique(np.concatenate(list(examples.columns.values())))
    return [examples.sentences[position] for position in positions]


@dataclass(frozen=True)
class Seen:
    """Rows of one evaluation split that training has seen.

    Args:
        rows: Indices of the seen rows, int64, sorted. For judgements those of the queries, from 0.
        share: Their share of the split.
        by_set: Training set → number of these rows in it. Sets without any are left out, and sets may
            overlap.
    """

    rows: np.ndarray
    share: float
    by_set: Mapping[str, int]


class SeenRows:
    """Account of training rows, and of the rows of `evaluation` that they leak.

    A row leaks by the same pair in either order, or by a nearly equal one (see `matching`). Sets without pairs have
    nothing to compare. Nothing is computed before it is requested.
    """

    def __init__(self, evaluation: Sequence[Examples]) -> None:
        self._evaluation = [examples for examples in evaluation if pair_columns(examples)]
        self._learnt: list[Examples] = []
        self._found: list[list[np.ndarray]] = []  # for each of `_learnt`: seen rows of each split

    @cached_property
    def _index(self) -> PairIndex:
        return PairIndex(self._evaluation)

    def learn(self, train: Mapping[str, Examples]) -> None:
        """Add training sets, after conversion and limit."""
        for examples in train.values():
            if (
                pair_columns(examples)
                and len(examples)
                and not any(examples is before for before in self._learnt)
            ):
                self._learnt.append(examples)

    def seen(self) -> dict[str, Seen]:
        """Return `split/dataset` → Seen for every evaluation split with pairs, from all sets so far."""
        if not self._evaluation:
            return {}
        for examples in self._learnt[len(self._found) :]:
            self._found.append([np.unique(hits.evaluation_rows) for hits in self._index.search(examples)])
        return {
            f"{examples.split}/{examples.name}": self._of(number)
            for number, examples in enumerate(self._evaluation)
        }

    def _of(self, position: int) -> Seen:
        by_set: dict[str, np.ndarray] = {}
        for examples, rows_of_split in zip(self._learnt, self._found, strict=True):
            by_set[examples.name] = np.union1d(
                by_set.get(examples.name, rows_of_split[position]), rows_of_split[position]
            )
        evaluated = self._evaluation[position]
        rows = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *by_set.values()]))
        counts = {name: len(rows_of_set) for name, rows_of_set in by_set.items() if len(rows_of_set)}
        scored = len(evaluated)
        if evaluated.kind in JUDGED:
            queries, of_rows = np.unique(evaluated.columns["query"], return_inverse=True)
            rows, scored = np.unique(of_rows[rows]), len(queries)
        return Seen(rows, len(rows) / max(scored, 1), counts)
