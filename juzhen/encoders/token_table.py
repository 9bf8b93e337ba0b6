"""Token numbers of many texts in flat arrays, without a Python object per text or token."""

import copy
import hashlib
import os
import re
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol, Self, overload

import numpy as np
import pyarrow as pa
from transformers import PreTrainedTokenizerBase

from juzhen.core.errors import UserError
from juzhen.core.examples import Side
from juzhen.core.opened import require_file
from juzhen.core.owned import own_folder
from juzhen.core.whole import clear_leftovers, remove_file, whole_file
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
        if not len(self):
            return self.ids[:0]
        if (self.starts[1:] == self.ends[:-1]).all():
            return self.ids[self.starts[0] : self.ends[-1]]
        return self.ids[runs(self.starts, self.lengths)]

    def tolist(self) -> list[list[int]]:
        return [one.tolist() for one in self]

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
    places = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    places += np.arange(len(places))
    return places


LAYOUT = "1"
"""Version of the files; another one gives other names."""

MIN_TEXTS = 2_000
"""Fewer are tokenised each time, which takes up to 50 ms. A file is written in 2 to 20 ms, where the disk is quick."""

MAX_BYTES = 4 * 2**30
"""Tables that were used longest ago go when those of a cache take more than this."""

TABLE = r"[0-9a-f]{32}\.arrow"
"""Pattern of the name of a table's file: a digest of all that decides it."""

COLUMN = "tokens"
BROKEN = (OSError, ValueError, pa.ArrowException)
"""What reading a file raises that holds no table."""

TEXTS_PER_CALL = 4096


class MappedTable(TokenTable):
    """A token table in a file. Another process gets the path and maps the file itself."""

    def __init__(self, path: Path, *arrays: np.ndarray) -> None:
        super().__init__(*arrays)
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return read_table, (self.path,)


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

    A cache that cannot be read or written is worth a warning and nothing else: the answer is the same.

    folder    None: nothing is kept
    progress  show a bar on a terminal, where many texts are tokenised
    """

    def __init__(self, encoder: Tokenizing, folder: str | Path | None, *, progress: bool) -> None:
        self.encoder = encoder
        self._folder = Path(folder).expanduser() / "tokens" if folder else None
        self._progress = None if progress else False

    def reading(self, side: Side) -> "CachedTokenizer":
        """What tokenises behind the prompt for queries or for documents."""
        other = copy.copy(self)
        other.encoder = self.encoder.reading(side)
        return other

    def __call__(self, texts: Sequence[str]) -> TokenTable:
        if self._folder is None or len(texts) < MIN_TEXTS:
            return self._tokenize(texts)
        path = self._folder / f"{_key(self.encoder, texts)}.arrow"
        try:
            table = self._fitting(path, len(texts))
            with suppress(OSError):  # a folder that is only read
                os.utime(path)  # when it was used last
            return table
        except (FileNotFoundError, NotADirectoryError):
            pass
        except BROKEN as error:
            warnings.warn(
                f"{path}: no token table that can be used ({error}); the texts are tokenised again",
                stacklevel=2,
            )
        return self._kept(path, self._tokenize(texts))

    def _tokenize(self, texts: Sequence[str]) -> TokenTable:
        return self.encoder.tokenize(texts, progress=self._progress)

    def _fitting(self, path: Path, num_texts: int) -> MappedTable:
        """The table in a file. Raises one of BROKEN for one of other texts, or with tokens that there are not."""
        table, tokenizer = read_table(path), self.encoder.tokenizer
        if len(table) != num_texts:
            raise ValueError(f"{len(table):,} texts where {num_texts:,} were expected")
        low, high = (int(one) for one in (table.ids.min(initial=0), table.ids.max(initial=0)))
        if low < 0 or (high >= len(tokenizer) and high > max(tokenizer.get_vocab().values())):
            raise ValueError(f"token {low if low < 0 else high}, which the vocabulary lacks")
        return table

    def _fits(self, path: Path, num_texts: int) -> bool:
        with suppress(*BROKEN):
            self._fitting(path, num_texts)
            return True
        return False

    def _kept(self, path: Path, table: TokenTable) -> TokenTable:
        """The table as it lies on disk; itself where it cannot be put there."""
        try:
            own_folder(path.parent, earlier=TABLE)
            # Of several processes that come here the last ones take the file of the first, so that all map the same.
            with whole_file(
                path, "wb", unless=lambda: self._fits(path, len(table)), in_own_folder=True
            ) as file:
                write_table(file, table, key=path.stem)
            with suppress(FileNotFoundError):  # another process tidies up, too
                limit_size(path.parent, max_bytes=MAX_BYTES, keep=path)
            return self._fitting(path, len(table))
        except (*BROKEN, UserError) as error:
            warnings.warn(
                f"{path.parent}: token tables cannot be kept here ({error}); the job goes on without. "
                "Choose another cache_dir, or null for none",
                stacklevel=2,
            )
            return table


def write_table(file: IO[bytes], table: TokenTable, *, key: str) -> None:
    """Writes the table into a file. Raises OSError where it cannot."""
    ids = np.ascontiguousarray(table.flat())
    offsets = np.concatenate([[0], np.cumsum(table.lengths)])
    column = pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(ids))
    notes = {"key": key, "checksum": str(_checksum(ids, offsets))}
    schema = pa.schema([pa.field(COLUMN, column.type)], metadata=notes)
    with pa.ipc.new_file(file, schema) as writer:
        writer.write_batch(pa.record_batch([column], schema=schema))


def read_table(path: Path) -> MappedTable:
    """The table in a file, mapped. Raises one of BROKEN for anything but a whole one."""
    with pa.memory_map(str(require_file(path))) as file:
        reader = pa.ipc.open_file(file)
        if reader.schema.names != [COLUMN] or reader.schema.field(0).type != pa.large_list(pa.int32()):
            raise ValueError("another kind of table")
        if reader.num_record_batches != 1:
            raise ValueError(f"{reader.num_record_batches} pieces where one was expected")
        batch = reader.get_batch(0)
    batch.validate(full=True)
    column = batch.column(0)
    ids, offsets = column.values.to_numpy(), column.offsets.to_numpy()
    notes = reader.schema.metadata or {}
    if notes.get(b"key") != path.stem.encode():
        raise ValueError("the name of another table")
    if notes.get(b"checksum") != str(_checksum(ids, offsets)).encode():
        raise ValueError("a wrong checksum")
    return MappedTable(path, ids, offsets[:-1], offsets[1:])


def limit_size(folder: Path, *, max_bytes: int, keep: Path) -> None:
    """Removes tables, those used longest ago first, until the rest take `max_bytes`; and what dead writers left."""
    clear_leftovers(folder)
    tables = (path for path in folder.glob("*.arrow") if re.fullmatch(TABLE, path.name))
    facts = [(path.stat(), path) for path in tables if path != keep]
    room = max_bytes - keep.stat().st_size
    for status, path in sorted(facts, key=lambda one: -one[0].st_mtime):
        room -= status.st_size
        if room < 0:
            remove_file(path)


def _checksum(ids: np.ndarray, offsets: np.ndarray) -> int:
    return zlib.crc32(offsets.data, zlib.crc32(ids.data))


def _key(encoder: Tokenizing, texts: Sequence[str]) -> str:
    """Digest of all that decides the token numbers of `texts`."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(f"{LAYOUT} {encoder.max_length} {len(texts)} {encoder.prompt}".encode())
    digest.update(tokenizer_digest(encoder.tokenizer))
    for start in range(0, len(texts), TEXTS_PER_CALL):
        portion = texts[start : start + TEXTS_PER_CALL]
        # With their lengths, since no sign is known that no text has.
        digest.update(np.fromiter(map(len, portion), dtype=np.int64).data)
        digest.update("".join(portion).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
