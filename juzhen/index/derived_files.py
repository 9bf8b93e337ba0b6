"""Search structures of an index in files: all vectors, their bits, or an index of FAISS, and arrays of BM25.

They return positions. Scores come from the stored vectors, so more positions are looked up than requested.
"""

import hashlib
import itertools
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from os import stat_result
from pathlib import Path
from types import ModuleType
from typing import IO, Any, Protocol

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from juzhen.core.array_cache import read_arrays, write_arrays
from juzhen.core.atomic_write import atomic_write, clear_leftovers, remove_file
from juzhen.core.errors import UserError, require_packages
from juzhen.core.file_guard import claim_dir
from juzhen.core.machine import num_cores
from juzhen.core.progress import progress_bar
from juzhen.core.safe_open import open_regular_file, require_file
from juzhen.encoders.search import DOCUMENTS_AT_ONCE, LISTS, QUERIES_AT_ONCE, Best, made_of, quantize
from juzhen.index.store import AT_ONCE, DATABASE, Portion, Store
from juzhen.metrics.lexical import BM25

DEPTHS = {"flat": 1, "hnsw": 2, "ivf": 1, "ivf_pq": 10, "int8": 4, "binary": 20}
"""Kind → places that are looked up for each text that is asked for."""

SPARE = 22
"""Places besides: of equal vectors a product may put any one first."""

TRAINED_ON = 100_000
"""Vectors, spread over all, from which lists, codes and ranges are made."""

LEAST = 256
"""Vectors that ivf_pq needs: as many as a code has values."""

EF_SEARCH = 64
PROBED = 8
"""Of the lists of ivf and ivf_pq one in so many is read."""

Portions = Iterable[Portion]


class Dense(Protocol):
    """Vectors by their places."""

    def __len__(self) -> int: ...

    @property
    def size_in_bytes(self) -> int: ...

    def search(
        self,
        queries: Float[np.ndarray, "queries dim"],
        depth: int,
        allowed: Bool[np.ndarray, "places"] | None,
    ) -> Int[np.ndarray, "queries depth"]:
        """Return the nearest allowed places, the best first, filled up with −1.

        Args:
            queries: Embeddings.
            depth: Places for each query.
            allowed: True for the places that may be found. None: all.

        Returns:
            Places in the files.
        """


class Scan:
    """Compares all vectors, or their bits, one by one in blocks of a memory-mapped file.

    Args:
        rows: A vector of each place, or its bits in words of 64.
        is_binary: The rows are bits.
    """

    def __init__(self, rows: Shaped[np.ndarray, "places numbers"], *, is_binary: bool) -> None:
        self.rows, self._is_binary = rows, is_binary

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def size_in_bytes(self) -> int:
        """Size of the file."""
        return self.rows.nbytes

    def search(
        self,
        queries: Float[np.ndarray, "queries dim"],
        depth: int,
        allowed: Bool[np.ndarray, "places"] | None,
    ) -> Int[np.ndarray, "queries depth"]:
        """Return the nearest allowed places by dot product, or by equal bits, the best first, filled up with −1.

        Args:
            queries: Embeddings.
            depth: Places for each query.
            allowed: True for the places that may be found. None: all.

        Returns:
            Positions of rows.
        """
        lists = []
        for start in range(0, len(queries), QUERIES_AT_ONCE):
            portion = queries[start : start + QUERIES_AT_ONCE]
            portion = _as_bits(portion) if self._is_binary else portion
            best = Best(len(portion), depth)
            for first in range(0, len(self.rows), DOCUMENTS_AT_ONCE):
                block = self.rows[first : first + DOCUMENTS_AT_ONCE]
                scores = -_differences(portion, block) if self._is_binary else portion @ block.T
                if allowed is not None:
                    scores[:, ~allowed[first : first + DOCUMENTS_AT_ONCE]] = -np.inf
                best.add(scores, first)
            lists.append(best.lists()[0])
        return np.concatenate(lists)


class _Faiss:
    def __init__(self, index: Any, kind: str) -> None:
        self.index, self._kind = index, kind

    def __len__(self) -> int:
        return int(self.index.ntotal)

    @property
    def size_in_bytes(self) -> int:
        """Size of the file, and of the index in memory."""
        return int(require_faiss(self._kind).serialize_index(self.index).nbytes)

    def search(
        self,
        queries: Float[np.ndarray, "queries dim"],
        depth: int,
        allowed: Bool[np.ndarray, "places"] | None,
    ) -> Int[np.ndarray, "queries depth"]:
        faiss, options = require_faiss(self._kind), dict[str, Any]()
        if allowed is not None:
            bits = np.packbits(allowed, bitorder="little")
            options["sel"] = faiss.IDSelectorBitmap(len(allowed), faiss.swig_ptr(bits))
        if self._kind == "hnsw":
            parameters = faiss.SearchParametersHNSW(efSearch=max(EF_SEARCH, 2 * depth), **options)
        elif self._kind in LISTS:
            parameters = faiss.SearchParametersIVF(nprobe=max(self.index.nlist // PROBED, 1), **options)
        else:
            parameters = faiss.SearchParameters(**options)
        faiss.omp_set_num_threads(min(num_cores(), len(queries)))  # FAISS knows no CPU quota
        return self.index.search(np.ascontiguousarray(queries), depth, params=parameters)[1]


def require_faiss(kind: str) -> ModuleType:
    """Import FAISS.

    Args:
        kind: Kind of the index, for the message.

    Returns:
        The module `faiss`.

    Raises:
        UserError: FAISS is not installed.
    """
    require_packages(f"an index of the kind {kind}", "faiss", extra="search")
    import faiss

    return faiss


def write_dense(
    file: IO[bytes],
    kind: str,
    portions: Callable[[], Portions],
    *,
    count: int,
    dim: int,
    before: Dense | None = None,
    advance: Callable[[int], None],
) -> None:
    """Write the file of vectors that `open_quick_files` opens.

    Args:
        file: File open for writing.
        kind: Kind of the index: flat, binary, hnsw, ivf or ivf_pq.
        portions: Yields all vectors in order, batch by batch. It is called once for each pass.
        count: Number of vectors.
        dim: Dimensions of a vector.
        before: FAISS index of the first vectors, which is extended. None: a new one is built.
        advance: Callback with the number of vectors that were added.
    """
    if kind in ("flat", "binary"):
        shape, dtype = ((count, dim), "<f4") if kind == "flat" else ((count, _num_words(dim)), "<u8")
        header = {"descr": dtype, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for _, vectors in portions():
            file.write((vectors if kind == "flat" else _as_bits(vectors)).tobytes())
            advance(len(vectors))
        return
    faiss, first = require_faiss(kind), 0
    faiss.omp_set_num_threads(1)  # in training they would mostly wait for each other
    if isinstance(before, _Faiss):
        index, first = before.index, len(before)
    else:
        index = faiss.index_factory(dim, made_of(kind, dim, count), faiss.METRIC_INNER_PRODUCT)
    if kind == "hnsw":
        index.hnsw.efConstruction = 100
    if kind in LISTS:  # it would tell on stderr of each of its many small clusterings
        for clustered in (index, getattr(index, "pq", index)):
            clustered.cp.min_points_per_centroid = 1
    if not index.is_trained:
        step = max(count // TRAINED_ON, 1)
        index.train(np.concatenate([vectors[::step] for _, vectors in portions()]))
    done = 0
    faiss.omp_set_num_threads(num_cores())
    for _, vectors in portions():
        index.add(np.ascontiguousarray(vectors[max(first - done, 0) :]))
        done += len(vectors)
        advance(len(vectors))
    faiss.write_index(index, faiss.PyCallbackIOWriter(file.write))


def _open_dense(path: Path, kind: str) -> Dense:
    """Open a file of `write_dense`. Raises OSError if it is missing or broken."""
    if kind in ("flat", "binary"):
        return Scan(
            np.load(require_file(path), mmap_mode="r", allow_pickle=False), is_binary=kind == "binary"
        )
    return _Faiss(require_faiss(kind).read_index(str(require_file(path))), kind)


def _num_words(dim: int) -> int:
    return -(-dim // 64)


def _as_bits(vectors: Float[np.ndarray, "rows dim"]) -> Int[np.ndarray, "rows words"]:
    """A bit of each number, 1 above 0, in words of 64, the last one filled up with zeros."""
    codes = quantize(vectors, "binary").codes
    filled = np.pad(codes, ((0, 0), (0, 8 * _num_words(vectors.shape[1]) - codes.shape[1])))
    return filled.view("<u8")


def _differences(
    queries: Int[np.ndarray, "queries words"], rows: Int[np.ndarray, "rows words"]
) -> Float[np.ndarray, "queries rows"]:
    counts = np.zeros((len(queries), len(rows)), dtype=np.float32)
    for word in range(rows.shape[1]):
        counts += np.bitwise_count(queries[:, word, None] ^ rows[None, :, word])
    return counts


WRITTEN = "quick_files"
"""Fact that has the digest of the numbers of the texts, and size, stamp and digest of each file."""

GROWN = 4
"""Lists and codes of an index of FAISS are made anew when it has so many times the texts that it was trained on."""


class DifferentFilesError(Exception):
    """A derived file differs from its record. The message names it."""


@dataclass(frozen=True)
class QuickFiles:
    """The quick files of an index.

    Args:
        numbers: Numbers of their texts, by position.
        dense: Vectors of the texts. None: there are none.
        lexical: Arrays of BM25.
    """

    numbers: Int[np.ndarray, "texts"]
    dense: Dense | None = None
    lexical: Mapping[str, np.ndarray] | None = None


def _dense_file(folder: Path, generation: str) -> Path:
    return folder / f"dense-{generation}.bin"


def _lexical_file(folder: Path, generation: str) -> Path:
    return folder / f"bm25-{generation}.safetensors"


def open_quick_files(store: Store, folder: Path) -> QuickFiles:
    """Open the files in force, which are mapped, or read by FAISS.

    Args:
        store: Names the files and records their digests.
        folder: Folder of the index.

    Returns:
        The open files. Without a generation they hold no texts.

    Raises:
        DifferentFilesError: The files differ from their record, or cannot be read.
        UserError: FAISS is not installed.
    """
    numbers, generation = covered_numbers(store, folder), store.generation()
    if generation is None:
        return QuickFiles(numbers)
    try:
        dense = _open_dense(_dense_file(folder, generation[0]), store.facts()["kind"])
        return QuickFiles(numbers, dense, read_arrays(_lexical_file(folder, generation[0]), False))
    except (OSError, ValueError, RuntimeError) as error:  # whole, and of another version of FAISS
        raise DifferentFilesError(f"{folder}: its quick files cannot be read ({error})") from error


def covered_numbers(store: Store, folder: Path) -> Int[np.ndarray, "texts"]:
    """Return the numbers of the texts in the current files, by position. Empty without files.

    Args:
        store: Records the digests of the files. A writing store must be within a transaction.
        folder: Folder of the index.

    Returns:
        int64 numbers, or an empty array.

    Raises:
        DifferentFilesError: The files differ from their record.
    """
    generation = store.generation()
    if generation is None:
        return np.empty(0, dtype=np.int64)
    name, numbers = generation
    if (written := store.facts().get(WRITTEN)) is None:
        raise DifferentFilesError(f"{folder}: the digests of its quick files are missing")
    stamps = {}
    try:
        if not name.isdecimal() or hashlib.sha256(numbers).hexdigest() != written["numbers"]:
            raise DifferentFilesError(
                f"{folder / DATABASE}: the numbers of the texts in the quick files are damaged"
            )
        for path in (_dense_file(folder, name), _lexical_file(folder, name)):
            stamps[path.name] = _checked(path, written["files"][path.name])
    except (LookupError, TypeError) as error:
        raise DifferentFilesError(
            f"{folder / DATABASE}: the facts about the quick files are damaged"
        ) from error
    if store.writes and stamps != written["files"]:  # of a copy: the next opening reads no bytes
        store.set_facts(**{WRITTEN: written | {"files": stamps}})
    return np.frombuffer(numbers, "<i8")


def derive(store: Store, folder: Path, *, progress: bool | None = None) -> None:
    """Write the derived files of an index and make them current.

    Args:
        store: Open for writing, within a transaction.
        folder: Folder of the index.
        progress: Show a bar. None: on a terminal only.
    """
    facts, generation, numbers = store.facts(), store.generation(), store.numbers()
    if generation is not None:  # of a first build all rows were written a moment ago
        verify(store)
    if len(numbers) < (LEAST if facts["kind"] == "ivf_pq" else 1):  # so few are compared one by one
        store.drop_generation()
        return
    before: Dense | None = None
    if generation is not None and facts["kind"] not in ("flat", "binary"):
        try:
            earlier = open_quick_files(store, folder)
            is_whole = np.array_equal(earlier.numbers, numbers[: len(earlier.numbers)])
            if is_whole and len(numbers) < GROWN * facts.get("trained", 0):
                before = earlier.dense
        except DifferentFilesError:
            pass
    latest = int(generation[0]) if generation is not None and generation[0].isdecimal() else 0
    name = f"{latest + 1:06d}"
    paths = _dense_file(folder, name), _lexical_file(folder, name)
    with (
        atomic_write(paths[0], "wb", in_own_folder=True) as file,
        progress_bar("building the index", len(numbers), shown=progress) as advance,
    ):
        shape = {"count": len(numbers), "dim": facts["dim"]}
        write_dense(file, facts["kind"], store.portions, **shape, before=before, advance=advance)
    texts = [text for _, text in store.texts()]
    with atomic_write(paths[1], "wb", in_own_folder=True) as file:
        write_arrays(file, BM25(texts, tokens=facts["tokens"]).arrays(), key=paths[1].stem)
    blob = numbers.astype("<i8").tobytes()
    store.set_generation(name, blob)
    written = {
        "numbers": hashlib.sha256(blob).hexdigest(),
        "files": {path.name: _entry(path.stat(), _digest(path)) for path in paths},
    }
    store.set_facts(**{WRITTEN: written})
    if before is None:
        store.set_facts(trained=len(numbers))


def verify(store: Store) -> None:
    """Read all texts and vectors.

    Args:
        store: An open store.

    Raises:
        UserError: One of them differs from what was stored. The message has its number.
    """
    numbers = store.numbers()
    for start in range(0, len(numbers), AT_ONCE):
        portion = numbers[start : start + AT_ONCE]
        store.rows(portion.tolist())
        store.vectors(portion)


def mend(folder: Path, problem: DifferentFilesError) -> bool:
    """Rewrite derived files that differ from their record, and print one line.

    Args:
        folder: Folder of the index.
        problem: The difference, for the line.

    Returns:
        False if the files cannot be rewritten.
    """
    try:
        folder = folder.resolve()  # behind a link to the newest of several indexes
        claim_dir(folder)
        store = Store(folder / DATABASE, writes=True, patience=0)
        try:
            with store.transaction():
                try:
                    open_quick_files(store, folder)  # another process was quicker
                except DifferentFilesError:
                    print(f"{problem}; they are made anew of the database", file=sys.stderr)
                    derive(store, folder)
            tidy(store, folder)
        finally:
            store.close()
    except (OSError, UserError) as error:
        reason = getattr(error, "strerror", None) or error
        _tell_once(f"{problem}; they are not made anew ({reason}), and texts are compared one by one")
        return False
    return True


@cache
def _tell_once(line: str) -> None:
    print(line, file=sys.stderr)


def tidy(store: Store, folder: Path) -> None:
    """Remove outdated derived files, and leftovers of a kill.

    Args:
        store: Open for writing. It names the files in force.
        folder: Folder of the index.
    """
    with store.transaction():  # nobody else is about to put files in force
        generation = store.generation()
        name = "" if generation is None else generation[0]
        current = {_dense_file(folder, name), _lexical_file(folder, name)}
        for path in itertools.chain(folder.glob("dense-*.bin"), folder.glob("bm25-*.safetensors")):
            if path not in current and not path.is_dir():
                remove_file(path)
    clear_leftovers(folder)


def _checked(path: Path, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The entry with the stamp that the file has now. Raises DifferentFilesError for other bytes."""
    try:
        status = require_file(path).stat()
        fresh = _entry(status, entry["sha256"])
        if fresh["bytes"] != entry["bytes"] or (fresh != entry and _digest(path) != entry["sha256"]):
            raise DifferentFilesError(f"{path}: differs from the file that was written")
    except OSError as error:
        raise DifferentFilesError(f"{path}: {error.strerror}") from error
    return fresh


def _entry(status: stat_result, digest: str) -> dict[str, Any]:
    """Size, stamp and digest of a file. A change of content changes the stamp, unless somebody sets the clock back."""
    stamp = [status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
    return {"bytes": status.st_size, "stamp": stamp, "sha256": digest}


def _digest(path: Path) -> str:
    with open_regular_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
