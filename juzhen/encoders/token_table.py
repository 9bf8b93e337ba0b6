"""Token numbers of many texts in flat arrays, without a Python object per text or token."""

import copy
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol, Self, overload

import numpy as np
from transformers import PreTrainedTokenizerBase

from juzhen.core.array_cache import ArrayCache, Stored
from juzhen.core.examples import Side
from juzhen.encoders.special_tokens import tokenizer_digest


class TokenTable(Sequence[np.ndarray]):
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
    def of(cls, token_lists: Sequence[Sequence[int] | np.ndarray]) -> "TokenTable":
        """The table of some lists of numbers; a table is given back as it is."""
        if isinstance(token_lists, TokenTable):
            return token_lists
        arrays = [np.asarray(tokens, dtype=np.int32) for tokens in token_lists]
        offsets = np.zeros(len(arrays) + 1, dtype=np.int64)
        np.cumsum([len(tokens) for tokens in arrays], out=offsets[1:])
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
        if not len(self):
            return self.ids[:0]
        if (self.starts[1:] == self.ends[:-1]).all():
            return self.ids[self.starts[0] : self.ends[-1]]
        return self.ids[runs(self.starts, self.lengths)]

    def tolist(self) -> list[list[int]]:
        return [tokens.tolist() for tokens in self]

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, chosen: int) -> np.ndarray: ...

    @overload
    def __getitem__(self, chosen: "slice | Sequence[int] | np.ndarray") -> "TokenTable": ...

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


def runs(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """start, start + 1, … of each run, one run after another.

    >>> runs(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    # A place: that in the result, plus how far its run begins from where it begins in the result.
    indices = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    indices += np.arange(len(indices))
    return indices


MIN_TEXTS = 2_000
"""Fewer are tokenised each time, which takes up to 50 ms. A file is written in 2 to 20 ms, where the disk is quick."""

MAX_BYTES = 4 * 2**30

TEXTS_PER_CALL = 4096


class MappedTable(TokenTable):
    """A token table in a file. Another process gets the path and maps the file itself."""

    def __init__(self, stored: Stored) -> None:
        super().__init__(stored["ids"], stored["offsets"][:-1], stored["offsets"][1:])
        self.stored = stored

    def __reduce__(self) -> tuple[object, ...]:
        return MappedTable, (self.stored,)


class Tokenizing(Protocol):
    """Of an encoder what decides its token numbers, and gives them."""

    tokenizer: PreTrainedTokenizerBase
    max_length: int
    prompt: str

    @property
    def sides(self) -> np.ndarray: ...

    @property
    def unpooled(self) -> int: ...

    def reading(self, side: Side) -> Self: ...

    def tokenize(self, texts: Sequence[str], *, progress: bool | None = False) -> TokenTable: ...


class CachedTokenizer:
    """`encoder.tokenize`, whose large answers are kept below `folder`.

    folder    None: nothing is kept
    progress  show a bar on a terminal, where many texts are tokenised
    """

    def __init__(self, encoder: Tokenizing, folder: str | Path | None, *, progress: bool) -> None:
        self.encoder = encoder
        self._cache = None
        if folder:
            self._cache = ArrayCache(Path(folder) / "tokens", holds="token tables", max_bytes=MAX_BYTES)
        self._progress = None if progress else False

    def reading(self, side: Side) -> "CachedTokenizer":
        """What tokenises behind the prompt for queries or for documents."""
        other = copy.copy(self)
        other.encoder = self.encoder.reading(side)
        return other

    def __call__(self, texts: Sequence[str]) -> TokenTable:
        if self._cache is None or len(texts) < MIN_TEXTS:
            return self._tokenize(texts)
        key = _key(self.encoder, texts)
        if (stored := self._cache.read(key)) is not None:
            return MappedTable(stored)
        table = self._tokenize(texts)
        offsets = np.concatenate([[0], np.cumsum(table.lengths)])
        stored = self._cache.write(key, {"ids": table.flat(), "offsets": offsets})
        return table if stored is None else MappedTable(stored)

    def _tokenize(self, texts: Sequence[str]) -> TokenTable:
        return self.encoder.tokenize(texts, progress=self._progress)


def _key(encoder: Tokenizing, texts: Sequence[str]) -> str:
    """Digest of all that decides the token numbers of `texts`."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(f"{encoder.max_length} {len(texts)} {encoder.prompt}".encode())
    if filled_up := getattr(encoder, "expanded_to", 0):
        digest.update(f" filled up to {filled_up}".encode())
    digest.update(tokenizer_digest(encoder.tokenizer))
    for start in range(0, len(texts), TEXTS_PER_CALL):
        portion = texts[start : start + TEXTS_PER_CALL]
        # With their lengths, since no sign is known that no text has.
        digest.update(np.fromiter(map(len, portion), dtype=np.int64).data)
        digest.update("".join(portion).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
