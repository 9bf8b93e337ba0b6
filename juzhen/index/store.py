"""Texts, ids, metadata and vectors of an index in one database of SQLite, of which all else of it is derived."""

import errno
import json
import math
import os
import sqlite3
import threading
import weakref
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple, NotRequired, get_args

import numpy as np
from jaxtyping import Float, Int
from typing_extensions import TypedDict

from juzhen.core.atomic_write import require_room
from juzhen.core.columns import as_plain
from juzhen.core.errors import UserError, require_choice
from juzhen.core.safe_open import parse_json, require_file
from juzhen.core.schema import require_form
from juzhen.core.text import short
from juzhen.encoders.chunks import Passages
from juzhen.metrics.lexical import TOKENS

Kind = Literal["flat", "hnsw", "ivf", "ivf_pq", "int8", "binary"]
KINDS: tuple[Kind, ...] = get_args(Kind)

DATABASE = "index.sqlite"
APPLICATION = 0x6A757A68
"""In the header of the file, so that no other database is taken for an index."""
FORMAT = 1

SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE texts (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, text TEXT NOT NULL, metadata TEXT NOT NULL);
CREATE TABLE vectors (number INTEGER PRIMARY KEY, vector BLOB NOT NULL);
CREATE TABLE generations (name TEXT PRIMARY KEY, numbers BLOB NOT NULL);
CREATE TABLE passages (number INTEGER PRIMARY KEY, document TEXT NOT NULL, first INTEGER, last INTEGER);
CREATE INDEX documents ON passages (document);
"""
"""Vectors stand apart from texts, so that to look through metadata reads no vector."""

CHECKSUMS = "CREATE TABLE IF NOT EXISTS checksums (number INTEGER PRIMARY KEY, text INTEGER, vector INTEGER)"
"""Texts and vectors of earlier versions have none."""

AT_ONCE = 10_000
"""Rows that are read at a time."""

MOST_VALUES = 500
"""Of a filter."""

REFUSED_WRITES = ("FULL", "IOERR", "READONLY", "CANTOPEN", "PROTOCOL", "PERM")
"""How the names of SQLite's errors begin behind which a full disk or a folder that is only read may be."""

FOREIGN_SCHEMA = """SELECT type, name FROM sqlite_master
WHERE type IN ('view', 'trigger') OR sql LIKE 'CREATE VIRTUAL%' LIMIT 1"""
"""What runs the statements of whoever wrote the file; an index has none of it."""

WAY_OUT = "Name the folder of an index, or build it anew: juzhen index build."

Portion = tuple[Int[np.ndarray, "some"], Float[np.ndarray, "some dim"]]

Where = Mapping[str, Any]
"""Name of metadata → a value, or a list of values of which a text must have one. A text has each item of its lists."""


class IndexFacts(TypedDict):
    """Facts of an index after its build."""

    kind: str
    dim: int
    tokens: str
    fields: list[str]
    has_ids: bool
    encoder: str
    digest: str
    prompt_name: str | None
    prompt: str | None
    state: NotRequired[str]
    next: NotRequired[int]
    documents: NotRequired[int]
    passages: NotRequired[dict[str, Any] | None]
    chunk_overlap: NotRequired[int | None]


class StoredRow(NamedTuple):
    """A text of the database.

    Args:
        number: Never reused for another text.
        id: Its id.
        text: The text.
        metadata: As JSON.
        document: Id of its document, if it is a passage.
        span: Start and end in the document's characters.
    """

    number: int
    id: str
    text: str
    metadata: dict[str, Any]
    document: str | None = None
    span: tuple[int, int] | None = None


class Store:
    """The SQLite database of an index. Threads may share it.

    Args:
        path: The file. None: in memory.
        writes: The file may be changed, and is made if it is missing. Else commits of other processes become visible.
        patience: Seconds to wait for another process that writes.

    Raises:
        UserError: A file that is not an index, is damaged, or has another version.
        OSError: The disk is full or read-only. The error names the path.
    """

    def __init__(self, path: Path | None, *, writes: bool = False, patience: float = 60) -> None:
        self.path, self.writes, self._lock = path, writes, threading.RLock()
        if path is not None and (os.path.lexists(path) or not writes):
            try:
                require_file(path)
            except OSError as why:
                raise UserError(f"{path}: cannot be opened as an index ({why.strerror}). {WAY_OUT}") from why
            # It is not opened to find out: to close a file drops the locks that SQLite holds on it in this process.
            if not os.access(path, os.W_OK if writes else os.R_OK):
                is_fixed = writes and os.statvfs(path).f_flag & os.ST_RDONLY
                code = errno.EROFS if is_fixed else errno.EACCES
                raise OSError(code, os.strerror(code), str(path))
        with self._answered():
            self._connection = _open_database(path, writes=writes, patience=patience)
        self.close = weakref.finalize(self, _close, self._connection, None if writes else path)
        try:
            if path is None or (writes and not self._number("schema_version")):
                with self.transaction():
                    if not self._number("schema_version"):
                        for statement in SCHEMA.split(";"):
                            self._connection.execute(statement)
                        self._connection.execute(f"PRAGMA application_id = {APPLICATION}")
                        self._connection.execute(f"PRAGMA user_version = {FORMAT}")
            is_ours = self._number("application_id") == APPLICATION
            if not is_ours or self._number("user_version") != FORMAT:
                reason = "it is of another version of juzhen" if is_ours else "it is no index of juzhen"
                raise UserError(f"{path}: cannot be opened as an index ({reason}). {WAY_OUT}")
            for kind, name in self._all(FOREIGN_SCHEMA):
                raise self.damaged(f"it holds a {kind} named {short(str(name))}")
        except BaseException:
            self.close()
            raise

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit the block's writes at its end, or none after an error. One process writes at a time."""
        with self._lock, self._answered():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                self._roll_back()
                raise

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All that the block reads is of one moment."""
        with self._lock, self._answered():
            self._connection.execute("BEGIN")
            try:
                yield
            finally:
                self._roll_back()

    def _roll_back(self) -> None:
        if self._connection.in_transaction:  # on a full disk SQLite has already done it
            self._connection.execute("ROLLBACK")

    @contextmanager
    def _answered(self) -> Iterator[None]:
        """Replace errors of SQLite by errors with the file and advice."""
        try:
            yield
        except (sqlite3.IntegrityError, sqlite3.ProgrammingError):
            raise
        except sqlite3.DatabaseError as error:
            raise self._answer(error) from error

    def _answer(self, error: sqlite3.DatabaseError) -> Exception:
        name = getattr(error, "sqlite_errorname", "").removeprefix("SQLITE_")
        if name.startswith(("BUSY", "LOCKED")):
            return UserError(
                f"{self.path}: another process writes to this index ({error}). Try again when it has ended."
            )
        if self.path is not None and name.startswith(REFUSED_WRITES):
            try:
                require_room(self.path.parent)
            except OSError as refused:
                return refused
            if name.startswith("FULL"):
                return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        return self.damaged(str(error))

    def damaged(self, reason: str) -> UserError:
        """Return the error of a damaged database.

        Args:
            reason: Comes in brackets after the path.

        Returns:
            The error, not raised.
        """
        return UserError(f"{self.path}: damaged, or no index ({reason}). {WAY_OUT}")

    @property
    def version(self) -> tuple[int, ...]:
        """Another one as soon as another process has changed something."""
        if self.path is None or os.access(self.path.parent, os.W_OK):
            return (self._number("data_version"),)
        # In a folder that is only read SQLite counts its own looks, too.
        files = (path.stat() for path in sorted(self.path.parent.glob(f"{self.path.name}*")))
        return tuple(number for file in files for number in (file.st_ino, file.st_size, file.st_mtime_ns))

    def facts(self) -> dict[str, Any]:
        """Read the facts of the index.

        Returns:
            Name → value. {} before a build.

        Raises:
            UserError: A fact is missing or invalid.
        """
        facts = {name: self._loaded(value) for name, value in self._all("SELECT name, value FROM facts")}
        if not facts:
            return facts
        try:
            require_form(facts, IndexFacts, "its facts")
        except ValueError as error:
            raise self.damaged(str(error)) from error
        sizes = self._all("SELECT length(vector) FROM vectors LIMIT 1")
        fits = {
            "kind": facts["kind"] in KINDS,
            "tokens": facts["tokens"] in TOKENS,
            "dim": facts["dim"] > 0 and (not sizes or sizes[0][0] == 4 * facts["dim"]),
            "next": 0 <= facts.get("next", 0) < 2**62,
        }
        for name in (name for name, is_fit in fits.items() if not is_fit):
            raise self.damaged(f"{name} {short(str(facts[name]))}")
        return facts

    def _fact(self, name: str) -> Any:
        """Read one fact. None if it is missing. Parsing all of them would take longer than a search."""
        rows = self._all("SELECT value FROM facts WHERE name = ?", name)
        return self._loaded(rows[0][0]) if rows else None

    def set_facts(self, **facts: Any) -> None:
        """Store facts about the index.

        Args:
            **facts: Values for JSON. A known name gets the new value.
        """
        encode = json.JSONEncoder(ensure_ascii=False, default=as_plain).encode
        rows = [(name, encode(value)) for name, value in facts.items()]
        self._connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", rows)

    def add(
        self,
        texts: Sequence[str],
        ids: Sequence[str] | None,
        metadata: Sequence[Mapping[str, Any]] | None,
        vectors: Float[np.ndarray, "texts dim"],
    ) -> int:
        """Add texts within a transaction. A known id replaces its text.

        Args:
            texts: In the order of their numbers.
            ids: One for each text. None: the numbers.
            metadata: One for each text, or None.
            vectors: Stored as float32.

        Returns:
            Number of replaced texts.
        """
        first = int(self.facts().get("next", 0))
        ids = [str(number) for number in range(first, first + len(texts))] if ids is None else ids
        replaced = self.remove(ids)
        self._insert(texts, ids, metadata, vectors)
        return replaced

    def add_passages(
        self,
        documents: Sequence[str],
        ids: Sequence[str] | None,
        metadata: Sequence[Mapping[str, Any]] | None,
        passages: Passages,
    ) -> int:
        """Add documents by their passages within a transaction. The second passage of the document a has the id a#1.

        Args:
            documents: Whole texts.
            ids: One for each document. None: their numbers.
            metadata: One for each document, or None. Its passages share it.
            passages: Vectors, and the place of each passage in its document.

        Returns:
            Number of replaced documents.
        """
        done = int(self.facts().get("documents", 0))
        names = [str(done + number) for number in range(len(documents))] if ids is None else ids
        replaced = self.remove(names)
        owners, spans = passages.texts.tolist(), passages.spans.tolist()
        ordinals = (np.arange(len(owners)) - np.searchsorted(passages.texts, passages.texts)).tolist()
        numbers = self._insert(
            [documents[owner][first:last] for owner, (first, last) in zip(owners, spans, strict=True)],
            [f"{names[owner]}#{position}" for owner, position in zip(owners, ordinals, strict=True)],
            None if metadata is None else [metadata[owner] for owner in owners],
            passages.vectors,
        )
        rows = [
            (number, names[owner], *span) for number, owner, span in zip(numbers, owners, spans, strict=True)
        ]
        self._connection.executemany("INSERT INTO passages VALUES (?, ?, ?, ?)", rows)
        self.set_facts(documents=done + len(documents))
        return replaced

    def _insert(
        self,
        texts: Sequence[str],
        ids: Sequence[str],
        metadata: Sequence[Mapping[str, Any]] | None,
        vectors: Float[np.ndarray, "texts dim"],
    ) -> range:
        """Adds texts whose ids nobody has, and gives their numbers."""
        first = int(self.facts().get("next", 0))
        numbers = range(first, first + len(texts))
        encode = json.JSONEncoder(ensure_ascii=False, default=as_plain, allow_nan=False).encode
        records = [encode(record) for record in metadata or [{}] * len(texts)]
        rows = zip(numbers, ids, texts, records, strict=True)
        self._connection.executemany("INSERT INTO texts VALUES (?, ?, ?, ?)", rows)
        blobs = [vector.tobytes() for vector in vectors.astype("<f4", copy=False)]
        self._connection.executemany("INSERT INTO vectors VALUES (?, ?)", zip(numbers, blobs, strict=True))
        self._connection.execute(CHECKSUMS)
        sums = zip(numbers, map(_checksum, ids, texts, records), map(zlib.crc32, blobs), strict=True)
        self._connection.executemany("INSERT INTO checksums VALUES (?, ?, ?)", sums)
        self.set_facts(next=numbers.stop)
        return numbers

    def remove(self, ids: Sequence[str]) -> int:
        """Remove texts or documents within a transaction.

        Args:
            ids: Of documents if the index holds passages. Unknown ids are ignored.

        Returns:
            How many existed.
        """
        ids = [*dict.fromkeys(ids)]
        count, select = len(ids) - len(self.absent(ids)), f"SELECT number FROM {self._named} = ?"
        self._connection.execute(CHECKSUMS)
        for table in ("checksums", "vectors", "texts", "passages"):
            chosen = f"DELETE FROM {table} WHERE number IN ({select})"
            self._connection.executemany(chosen, [(name,) for name in ids])
        return count

    @property
    def _named(self) -> str:
        return "passages WHERE document" if self._fact("passages") else "texts WHERE id"

    def _check(self, what: Literal["text", "vector"], sums: Mapping[int, int]) -> None:
        """Raise UserError for a text, its id or metadata, or a vector with other bytes than were stored."""
        query = f"SELECT number, {what} FROM checksums"
        is_known = self._all("SELECT 1 FROM sqlite_master WHERE name = 'checksums'")
        for number, stored in self._each(query, [*sums]) if is_known else ():
            if stored != sums[number]:
                raise self.damaged(f"the {what} of number {number} is not the one that was stored")

    def num_documents(self) -> int:
        """Return the number of distinct documents of which it holds passages."""
        return int(self._all("SELECT count(DISTINCT document) FROM passages")[0][0])

    def absent(self, ids: Sequence[str]) -> list[str]:
        """List the ids that no text, or no document, has.

        Args:
            ids: Of documents if the index holds passages.

        Returns:
            The ids without a text, in their order.
        """
        return [name for name in ids if not self._all(f"SELECT 1 FROM {self._named} = ? LIMIT 1", name)]

    def check_ids(self) -> None:
        """Check that ids are texts. A blob equals no text, so a removal or a replacement would miss it.

        Raises:
            UserError: An id that is a blob.
        """
        for table, column in (("texts", "id"), ("passages", "document")):
            if self._all(f"SELECT 1 FROM {table} WHERE typeof({column}) != 'text' LIMIT 1"):
                raise self.damaged(f"{column} in {table} is no text")

    def numbers(self) -> Int[np.ndarray, "texts"]:
        """Return the numbers of all texts, int64 (texts,), rising."""
        rows = self._all("SELECT number FROM vectors ORDER BY number")
        return np.fromiter((number for (number,) in rows), dtype=np.int64, count=len(rows))

    def num_texts(self) -> int:
        """Return the number of texts, or of passages."""
        return int(self._all("SELECT count(*) FROM texts")[0][0])

    def matching(self, where: Where) -> Int[np.ndarray, "some"]:
        """Return the sorted numbers of texts with matching metadata.

        A list of metadata matches if one of its items does. Values are compared by their JSON type.
        Values from a csv file are texts.

        Args:
            where: Name of metadata → a value, or a list of values of which one must match. All names must match.

        Returns:
            int64, rising. Empty if no text matches.

        Raises:
            UserError: A name that no text has, or that holds objects alone, which no value equals.
        """
        fields = self.facts()["fields"]
        conditions, values = [], list[Any]()
        for name, value in where.items():
            values.append(name)
            key, equal = f"?{len(values)}", list[str]()
            for choice in filter_choices(name, value, fields):
                values.append(choice)
                equal.append(f"({{0}}.type IN {_json_types(choice)} AND {{0}}.atom IS ?{len(values)})")
            test = " OR ".join(equal)
            listed = f"SELECT 1 FROM json_each(field.value) AS item WHERE {test.format('item')}"
            conditions.append(
                f"EXISTS (SELECT 1 FROM json_each(metadata) AS field WHERE field.key = {key} AND "
                f"({test.format('field')} OR field.type = 'array' AND EXISTS ({listed})))"
            )
        if len(values) > MOST_VALUES:
            raise UserError(f"filter: {len(values):,} names and values, too many. Give at most {MOST_VALUES}")
        query = f"SELECT number FROM texts WHERE {' AND '.join(conditions)} ORDER BY number"
        rows = self._all(query, *values)
        if not rows:
            self._require_values(where)
        return np.fromiter((number for (number,) in rows), dtype=np.int64, count=len(rows))

    def _require_values(self, names: Iterable[str]) -> None:
        """Raise UserError for a name of metadata that holds objects alone."""
        query = "SELECT max(type='object'), max(type!='object') FROM texts, json_each(metadata) WHERE key = ?"
        for name in names:
            if self._all(query, name) == [(1, 0)]:
                raise UserError(
                    f"filter: {short(name)}: it holds objects, which no value equals. Build the index with the "
                    "parts of the object as metadata of their own"
                )

    def rows(self, numbers: Sequence[int]) -> dict[int, StoredRow]:
        """Return the existing texts with these numbers.

        Args:
            numbers: Removed ones are left out.

        Returns:
            Number → id, text, metadata, and the place in its document for a passage.
        """
        rows, sums = dict[int, StoredRow](), dict[int, int]()
        for number, name, text, record in self._each("SELECT number, id, text, metadata FROM texts", numbers):
            row = StoredRow(number, name, text, self._loaded(record))
            are_texts = all(isinstance(part, str) for part in (name, text, record))
            if not (are_texts and isinstance(row.metadata, dict)):
                raise self.damaged(f"text {number} has no id, no text or no metadata that can be read")
            rows[number], sums[number] = row, _checksum(name, text, record)
        self._check("text", sums)
        if self._fact("passages"):
            query = "SELECT number, document, first, last, last - first FROM passages"
            places = {number: place for number, *place in self._each(query, numbers)}
            for number, row in rows.items():
                document, first, last, length = places.get(number, [None] * 4)
                if (document, length) != (row.id.rpartition("#")[0], len(row.text)):
                    raise self.damaged(f"passage {number} is not at the place that was stored")
                rows[number] = row._replace(document=document, span=(first, last))
        return rows

    def vectors(self, numbers: Int[np.ndarray, "some"]) -> Float[np.ndarray, "some dim"]:
        """Return the vectors of rising numbers, NaN for removed texts.

        Args:
            numbers: Rising, int64.

        Returns:
            float32.
        """
        rows = [*self._each("SELECT number, vector FROM vectors", numbers.tolist())]
        found, stored = self._matrix(rows)
        self._check("vector", {number: zlib.crc32(vector) for number, vector in rows})
        vectors = np.full((len(numbers), stored.shape[1]), np.nan, dtype=np.float32)
        vectors[np.searchsorted(numbers, found)] = stored
        return vectors

    def portions(self, above: int = -1) -> Iterator[Portion]:
        """Yield rising numbers and their vectors, AT_ONCE per batch.

        Args:
            above: The first number is larger.

        Yields:
            int64 numbers, and float32 vectors of the same rows.

        Raises:
            UserError: Vectors of another size or with non-finite numbers.
        """
        query = "SELECT number, vector FROM vectors WHERE number > ? ORDER BY number LIMIT ?"
        while rows := self._all(query, above, AT_ONCE):
            numbers, vectors = self._matrix(rows)
            yield numbers, vectors
            above = int(numbers[-1])

    def _matrix(self, rows: Sequence[tuple[int, bytes]]) -> Portion:
        """Numbers and vectors of rows. Raises UserError for a vector of another size, NaN or infinity."""
        dim = self._fact("dim")
        numbers = np.array([number for number, _ in rows], dtype=np.int64)
        if any(not isinstance(vector, bytes) or len(vector) != 4 * dim for _, vector in rows):
            raise self.damaged(f"a vector that has not {dim} numbers")
        vectors = np.frombuffer(b"".join(vector for _, vector in rows), "<f4").reshape(len(rows), dim)
        if not (finite := np.isfinite(vectors).all(axis=1)).all():
            raise self.damaged(f"the vector of text {numbers[~finite][0]} holds NaN or infinity")
        return numbers, vectors

    def texts(self, above: int = -1) -> Iterator[tuple[int, str]]:
        """Yield the number and text of each, rising.

        Args:
            above: The first number is larger.

        Yields:
            Number and text.

        Raises:
            UserError: A stored text is not a text.
        """
        query = "SELECT number, text FROM texts WHERE number > ? ORDER BY number LIMIT ?"
        while rows := self._all(query, above, AT_ONCE):
            for number, text in rows:
                if not isinstance(text, str):
                    raise self.damaged(f"text {number} is none")
            yield from rows
            above = rows[-1][0]

    def generation(self) -> tuple[str, bytes] | None:
        """Return the name of the quick files in force and their texts' numbers by position, or None without them."""
        return next(iter(self._all("SELECT name, numbers FROM generations")), None)

    def set_generation(self, name: str, numbers: bytes) -> None:
        """Put quick files in force, within a transaction.

        Args:
            name: Part of the names of the files.
            numbers: Numbers of their texts by position, little-endian int64.
        """
        self._connection.execute("DELETE FROM generations")
        self._connection.execute("INSERT INTO generations VALUES (?, ?)", (name, numbers))

    def drop_generation(self) -> None:
        self._connection.execute("DELETE FROM generations")

    def _each(self, query: str, numbers: Sequence[int]) -> Iterator[Any]:
        for start in range(0, len(numbers), AT_ONCE):
            portion = numbers[start : start + AT_ONCE]
            yield from self._all(f"{query} WHERE number IN ({', '.join('?' * len(portion))})", *portion)

    def _number(self, pragma: str) -> int:
        return int(self._all(f"PRAGMA {pragma}")[0][0])

    def _all(self, query: str, *values: Any) -> list[Any]:
        with self._lock, self._answered():
            return self._connection.execute(query, values).fetchall()

    def _loaded(self, text: str) -> Any:
        try:
            return parse_json(text, finite=True)  # earlier versions stored NaN
        except (ValueError, TypeError) as error:
            raise self.damaged(f"no JSON: {short(str(text))}") from error


def _close(connection: sqlite3.Connection, path: Path | None) -> None:
    """Close a database. `path` of one that was only read, whose journal SQLite leaves behind."""
    connection.close()
    with suppress(OSError, sqlite3.Error):
        if path and os.access(path, os.W_OK) and not path.with_name(f"{path.name}-wal").stat().st_size:
            last = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=0)
            last.execute("PRAGMA schema_version")
            last.close()  # the last one that may write removes an empty journal, if nobody else reads


def _checksum(*parts: str) -> int:
    return zlib.crc32("\0".join(parts).encode())


def require_index(folder: Path) -> None:
    """Raise UserError if a folder holds no index.

    Args:
        folder: Folder of an index.

    Raises:
        UserError: The folder has no database of an index.
    """
    if not os.path.lexists(folder / DATABASE):
        raise UserError(f"{folder}: holds no index. Type juzhen index build to make one")


def require_complete(facts: Mapping[str, Any], folder: Path | None) -> None:
    """Raise UserError if the build of an index has not ended.

    Args:
        facts: Facts of the store. `state` decides.
        folder: Folder of the index, for the message.

    Raises:
        UserError: `state` is not `complete`.
    """
    if facts.get("state") != "complete":
        raise UserError(f"{folder}: its build has not ended. Type the same juzhen index build again")


def filter_choices(name: str, value: Any, fields: Sequence[str]) -> list[Any]:
    """List the values that a text may have for a name of metadata.

    Args:
        name: Name of metadata.
        value: A value, or a list of values.
        fields: All names of the index.

    Returns:
        The values, a single one as a list.

    Raises:
        UserError: A name that no text has, or a value of another type.
    """
    if not fields:
        raise UserError(
            f"filter={short(str(name))}: these texts have no metadata. Leave it out, or build the index with some"
        )
    require_choice("filter", name if isinstance(name, str) else repr(name), fields)
    value = as_plain(value) if isinstance(value, np.generic | np.ndarray) else value
    choices = list(value) if isinstance(value, list | tuple) else [value]
    if not choices or not all(map(is_value, choices)):
        raise UserError(
            f"filter: {short(name)}: expected a text, a finite number below 2⁶³, true, false, null, or a list of them"
        )
    return choices


def _json_types(value: Any) -> str:
    """Return the types of JSON that a value of a filter may equal, for SQLite, to which true is 1."""
    if isinstance(value, bool):
        return f"('{json.dumps(value)}')"
    return "('null')" if value is None else "('text')" if isinstance(value, str) else "('integer', 'real')"


def is_value(value: Any) -> bool:
    """True if SQLite can compare a value: 64-bit integers, and no NaN.

    Args:
        value: From JSON.

    Returns:
        True for texts, true, false, null, and such numbers.
    """
    if isinstance(value, int | float):
        return abs(value) < 2**63 if isinstance(value, int) else math.isfinite(value)
    return isinstance(value, str | None)


def _open_database(path: Path | None, *, writes: bool, patience: float) -> sqlite3.Connection:
    """Open a database. Committed transactions are on the disk, also after a kill. Threads must take turns."""
    if path is None:
        return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    address = f"{path.absolute().as_uri()}?mode={'rwc' if writes else 'ro'}"
    options: dict[str, Any] = {"isolation_level": None, "check_same_thread": False, "timeout": patience}
    connection = sqlite3.connect(address, uri=True, **options)
    try:
        connection.execute("PRAGMA schema_version")
    except sqlite3.OperationalError:
        changes = path.with_name(f"{path.name}-wal")
        if writes or (changes.exists() and changes.stat().st_size):
            raise
        # A folder that is only read, and that nobody writes to.
        connection = sqlite3.connect(f"{address}&immutable=1", uri=True, **options)
    connection.execute("PRAGMA trusted_schema = OFF")  # the schema of a stranger's file calls no functions
    if writes:
        connection.execute("PRAGMA journal_mode = WAL")  # readers do not wait
        connection.execute("PRAGMA synchronous = FULL")
    return connection
