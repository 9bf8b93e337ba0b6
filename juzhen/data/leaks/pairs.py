"""Pairs of evaluation sets that training rows hold too, in either order, exactly or nearly."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from juzhen.core.examples import TEXT_COLUMNS, Examples, Kind
from juzhen.data.leaks.near import NEAR, NearIndex
from juzhen.data.leaks.normalize import letters_only, normalize

_COMBINATIONS_AT_ONCE = 4_000_000


@dataclass(frozen=True)
class Hits:
    """What one training set and one evaluation split share.

    train_rows, evaluation_rows  int64 (hits,): rows with the same pair, or with pairs whose sentences are near
    is_exact                     bool (hits,): both sentences equal after normalization
    exact_sentence, near_sentence  bool (evaluation rows,): a sentence of the row, or one near it, is in training
    """

    train_rows: np.ndarray
    evaluation_rows: np.ndarray
    is_exact: np.ndarray
    exact_sentence: np.ndarray
    near_sentence: np.ndarray

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Evaluation rows with an exact pair, and those with a near pair only; both sorted."""
        exact = np.unique(self.evaluation_rows[self.is_exact])
        return exact, np.setdiff1d(self.evaluation_rows, exact)


def pair_columns(examples: Examples) -> list[tuple[np.ndarray, np.ndarray]]:
    """The pairs of every row as sentence numbers; a triplet has one with each of the others, a text none."""
    first, *further = TEXT_COLUMNS[examples.kind]
    if examples.kind is Kind.TRIPLET:
        further = [name for name in examples.columns if name != first]
    return [(examples.columns[first], examples.columns[other]) for other in further]


class PairIndex:
    """The evaluation splits among which pairs of training sets are looked for.

    Sentences are compared after `normalize`; near ones by the trigrams of their letters (see `near`).
    """

    def __init__(self, evaluation: Sequence[Examples], *, threshold: float = NEAR) -> None:
        table: dict[str, int] = {}
        numbers = [
            {position: table.setdefault(text, len(table)) for position, text in _used(examples)}
            for examples in evaluation
        ]
        self._table = table
        self._near = NearIndex([letters_only(text) for text in table], threshold=threshold)
        self._starts = np.cumsum([0, *map(len, evaluation)])
        self._columns = [
            [_mapped(values, numbers_of_set) for values in examples.columns.values()]
            for examples, numbers_of_set in zip(evaluation, numbers, strict=True)
        ]
        keys, rows = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        for one, texts, start in zip(evaluation, numbers, self._starts, strict=False):
            for first, right in pair_columns(one):
                keys.append(self._keys_of(_mapped(first, texts), _mapped(right, texts)))
                rows.append(start + np.arange(len(one)))
        every_key, every_row = np.concatenate(keys), np.concatenate(rows)
        order = np.argsort(every_key, kind="stable")
        self._keys, self._rows = every_key[order], every_row[order]

    def search(self, train: Examples) -> list[Hits]:
        """What `train` shares with each evaluation split, in their order."""
        positions, texts = zip(*_used(train), strict=True) if len(train) else ((), ())
        exact, near = self._neighbours(texts)
        hits = _first_of_each(
            *self._pairs(train, dict(zip(positions, range(len(positions)), strict=True)), near)
        )
        is_exact, is_near = (np.isin(np.arange(len(self._table)), examples) for examples in (exact, near.own))
        return [self._hits_of(position, hits, is_exact, is_near) for position in range(len(self._columns))]

    def _neighbours(self, texts: Sequence[str]) -> tuple[np.ndarray, "_Neighbours"]:
        """Numbers of the evaluation sentences that are among `texts`, and the neighbours of every text."""
        numbers = np.fromiter((self._table.get(text, -1) for text in texts), dtype=np.int64, count=len(texts))
        same = np.flatnonzero(numbers >= 0)
        row, other = self._near.search([letters_only(text) for text in texts])
        differs = numbers[other] != row
        row = np.concatenate([numbers[same], row[differs]])
        other = np.concatenate([same, other[differs]])
        is_exact = np.arange(len(row)) < len(same)
        order = np.argsort(other, kind="stable")
        starts = np.searchsorted(other[order], np.arange(len(texts) + 1))
        return numbers[same], _Neighbours(row[order], is_exact[order], starts)

    def _pairs(
        self, train: Examples, positions: dict[int, int], near: "_Neighbours"
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Training row, evaluation row counted over all splits, and whether exact; with repetitions."""
        hits = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, bool))]
        for left, right in pair_columns(train):
            combinations = near.combinations(_mapped(left, positions), _mapped(right, positions))
            for rows, first, second, is_exact in combinations:
                keys = self._keys_of(first, second)
                low = np.searchsorted(self._keys, keys, side="left")
                counts = np.searchsorted(self._keys, keys, side="right") - low
                source, offset = _expanded(counts)
                hits.append((rows[source], self._rows[low[source] + offset], is_exact[source]))
        train_rows, rows, is_exact = (np.concatenate(parts) for parts in zip(*hits, strict=True))
        return train_rows, rows, is_exact

    def _hits_of(
        self,
        position: int,
        hits: tuple[np.ndarray, np.ndarray, np.ndarray],
        is_exact: np.ndarray,
        is_near: np.ndarray,
    ) -> Hits:
        start, end = self._starts[position], self._starts[position + 1]
        train_rows, rows, exact_pairs = hits
        is_here = (rows >= start) & (rows < end)
        columns = self._columns[position]
        exact_sentence = np.logical_or.reduce([is_exact[column] for column in columns])
        near_sentence = np.logical_or.reduce([is_near[column] for column in columns])
        return Hits(
            train_rows[is_here],
            rows[is_here] - start,
            exact_pairs[is_here],
            exact_sentence,
            exact_sentence | near_sentence,
        )

    def _keys_of(self, first: np.ndarray, right: np.ndarray) -> np.ndarray:
        """One number per unordered pair of sentence numbers."""
        return np.minimum(first, right) * len(self._table) + np.maximum(first, right)


@dataclass(frozen=True)
class _Neighbours:
    """Per text, from `starts[i]` to `starts[i + 1]`: numbers of equal and near evaluation sentences."""

    own: np.ndarray
    is_exact: np.ndarray
    starts: np.ndarray

    def combinations(
        self, left: np.ndarray, right: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """Row, neighbour of its left text, neighbour of its right one, and whether both are equal to theirs."""
        degree = np.diff(self.starts)
        counts = degree[left] * degree[right]
        rows = np.flatnonzero(counts)
        if not len(rows):
            return
        pieces = np.cumsum(counts[rows]) // _COMBINATIONS_AT_ONCE
        for piece in np.split(rows, np.flatnonzero(np.diff(pieces)) + 1):
            source, offset = _expanded(counts[piece])
            is_here = piece[source]
            first = self.starts[left[is_here]] + offset // degree[right[is_here]]
            second = self.starts[right[is_here]] + offset % degree[right[is_here]]
            yield is_here, self.own[first], self.own[second], self.is_exact[first] & self.is_exact[second]


def _used(examples: Examples) -> list[tuple[int, str]]:
    """Number and normalized text of every sentence that the rows use; a cut set keeps the table of the whole."""
    positions = np.unique(np.concatenate(list(examples.columns.values()))).tolist()
    return [(position, normalize(examples.sentences[position])) for position in positions]


def _mapped(values: np.ndarray, numbers: dict[int, int]) -> np.ndarray:
    return np.fromiter(map(numbers.__getitem__, values.tolist()), dtype=np.int64, count=len(values))


def _expanded(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Position i repeated counts[i] times, and 0, 1, … within each repetition."""
    source = np.repeat(np.arange(len(counts)), counts)
    return source, np.arange(len(source)) - np.repeat(np.cumsum(counts) - counts, counts)


def _first_of_each(
    train_rows: np.ndarray, rows: np.ndarray, is_exact: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each pair of rows once, exact if it is so in any order of its sentences."""
    order = np.lexsort((~is_exact, rows, train_rows))
    train_rows, rows, is_exact = train_rows[order], rows[order], is_exact[order]
    new = (np.diff(train_rows, prepend=-1) != 0) | (np.diff(rows, prepend=-1) != 0)
    return train_rows[new], rows[new], is_exact[new]
