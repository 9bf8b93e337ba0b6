"""Token numbers of many texts in flat arrays, without a Python object per text or token."""

from collections.abc import Iterator, Sequence

import numpy as np


class TokenTable(Sequence):
    """Token numbers of texts, one text after another; read-only, and possibly mapped from a file.

    ids     int32 (tokens,)
    starts  int64 (texts,), where each text begins in `ids`
    ends    int64 (texts,), where it ends

    `table[3]` is one text, a view of `ids`. `table[1:4]` and `table[[5, 2]]` are tables over the same `ids`:
    choosing texts copies no token.

    >>> table = TokenTable.of([[2, 7, 3], [2, 3]])
    >>> table.lengths.tolist(), table[[1, 0]].tolist(), table[0].tolist()
    ([3, 2], [[2, 3], [2, 7, 3]], [2, 7, 3])
    """

    def __init__(self, ids: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> None:
        self.ids = ids
        self.starts = starts
        self.ends = ends

    @classmethod
    def of(cls, token_lists: "Sequence[Sequence[int]] | TokenTable") -> "TokenTable":
        """The table of some lists of numbers; a table is given back as it is."""
        if isinstance(token_lists, TokenTable):
            return token_lists
        arrays = [np.asarray(one, dtype=np.int32) for one in token_lists]
        offsets = np.zeros(len(arrays) + 1, dtype=np.int64)
        np.cumsum([len(one) for one in arrays], out=offsets[1:])
        ids = np.concatenate(arrays) if arrays else np.empty(0, dtype=np.int32)
        return cls(ids, offsets[:-1], offsets[1:])

    @classmethod
    def joined(cls, tables: "Sequence[TokenTable]") -> "TokenTable":
        """The texts of several tables in order; their tokens are copied together."""
        lengths = np.concatenate([np.empty(0, dtype=np.int64), *(table.lengths for table in tables)])
        ids = np.concatenate([np.empty(0, dtype=np.int32), *(table.flat() for table in tables)])
        ends = np.cumsum(lengths)
        return cls(ids, ends - lengths, ends)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens per text, int64 (texts,)."""
        return self.ends - self.starts

    def flat(self) -> np.ndarray:
        """The tokens of all texts in the order of this table, int32."""
        lengths = self.lengths
        ends = np.cumsum(lengths)
        if not len(lengths) or (self.starts[1:] == self.ends[:-1]).all():
            return self.ids[self.starts[0] : self.ends[-1]] if len(lengths) else self.ids[:0]
        # A token's place: its place in the result, plus how far its text lies from its place in the result.
        places = np.repeat(self.starts - (ends - lengths), lengths)
        places += np.arange(len(places))
        return self.ids[places]

    def tolist(self) -> list[list[int]]:
        return [one.tolist() for one in self]

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, chosen: "int | slice | Sequence[int] | np.ndarray") -> "np.ndarray | TokenTable":
        starts, ends = self.starts[chosen], self.ends[chosen]
        if starts.ndim:
            return TokenTable(self.ids, starts, ends)
        return self.ids[starts:ends]

    def __iter__(self) -> Iterator[np.ndarray]:
        for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True):
            yield self.ids[start:end]

    def __eq__(self, other: object) -> bool:
        """The same texts in the same order; where they lie does not matter."""
        if not isinstance(other, TokenTable):
            return NotImplemented
        return np.array_equal(self.lengths, other.lengths) and np.array_equal(self.flat(), other.flat())

    __hash__ = None
