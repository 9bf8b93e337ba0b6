"""What finds the nearest of many vectors: all of them, their bits, or an index of FAISS; from a file.

It gives places, whose scores the stored vectors give: what is looked at is more than what is asked for.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import IO, Any, Literal, Protocol

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from juzhen.core.errors import require_packages
from juzhen.core.machine import num_cores
from juzhen.core.safe_open import require_file
from juzhen.encoders.quantized import quantize
from juzhen.encoders.search import DOCUMENTS_AT_ONCE, QUERIES_AT_ONCE, Best, made_of

Kind = Literal["flat", "hnsw", "ivf_pq", "int8", "binary"]
KINDS: tuple[Kind, ...] = ("flat", "hnsw", "ivf_pq", "int8", "binary")

DEPTHS = {"flat": 1, "hnsw": 2, "ivf_pq": 10, "int8": 4, "binary": 20}
"""Kind → places that are looked up for each text that is asked for."""

SPARE = 22
"""Places besides: of equal vectors a product may put any one first."""

TRAINED_ON = 100_000
"""Vectors, spread over all, from which lists, codes and ranges are made."""

LEAST = 256
"""Vectors that ivf_pq needs: as many as a code has values."""

EF_SEARCH = 64
PROBED = 8
"""Of the lists of ivf_pq one in so many is read."""

Portions = Iterable[tuple[Int[np.ndarray, "some"], Float[np.ndarray, "some dim"]]]


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
        """The `depth` nearest places among those that are allowed, the best first; −1 where there are no more."""


class Scan:
    """All vectors, or their bits, compared one by one in blocks; read from a file that is mapped."""

    def __init__(self, rows: Shaped[np.ndarray, "places numbers"], *, is_binary: bool) -> None:
        self.rows, self._is_binary = rows, is_binary

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def size_in_bytes(self) -> int:
        """As it lies in a file."""
        return self.rows.nbytes

    def search(
        self,
        queries: Float[np.ndarray, "queries dim"],
        depth: int,
        allowed: Bool[np.ndarray, "places"] | None,
    ) -> Int[np.ndarray, "queries depth"]:
        lists = []
        for start in range(0, len(queries), QUERIES_AT_ONCE):
            portion = queries[start : start + QUERIES_AT_ONCE]
            portion = as_bits(portion) if self._is_binary else portion
            best = Best(len(portion), depth)
            for first in range(0, len(self.rows), DOCUMENTS_AT_ONCE):
                block = self.rows[first : first + DOCUMENTS_AT_ONCE]
                scores = -_differences(portion, block) if self._is_binary else portion @ block.T
                if allowed is not None:
                    scores[:, ~allowed[first : first + DOCUMENTS_AT_ONCE]] = -np.inf
                best.add(scores, first)
            lists.append(best.lists()[0])
        return np.concatenate(lists)


class Faiss:
    """An index of FAISS."""

    def __init__(self, index: Any, kind: str) -> None:
        self.index, self._kind = index, kind

    def __len__(self) -> int:
        return int(self.index.ntotal)

    @property
    def size_in_bytes(self) -> int:
        """As it lies in a file, and in memory."""
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
        elif self._kind == "ivf_pq":
            parameters = faiss.SearchParametersIVF(nprobe=max(self.index.nlist // PROBED, 1), **options)
        else:
            parameters = faiss.SearchParameters(**options)
        faiss.omp_set_num_threads(min(num_cores(), len(queries)))  # FAISS knows no CPU quota
        return self.index.search(np.ascontiguousarray(queries), depth, params=parameters)[1]


def require_faiss(kind: str) -> ModuleType:
    """Raises UserError where it is not installed."""
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
    """Writes what `open_dense` reads.

    portions  all vectors in order, some at a time; it is called once for each time they are read
    before    an index of the first of them, which FAISS extends by the others
    """
    if kind in ("flat", "binary"):
        shape, dtype = ((count, dim), "<f4") if kind == "flat" else ((count, num_words(dim)), "<u8")
        header = {"descr": dtype, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for _, vectors in portions():
            file.write((vectors if kind == "flat" else as_bits(vectors)).tobytes())
            advance(len(vectors))
        return
    faiss, first = require_faiss(kind), 0
    faiss.omp_set_num_threads(1)  # in training they would mostly wait for each other
    if isinstance(before, Faiss):
        index, first = before.index, len(before)
    else:
        index = faiss.index_factory(dim, made_of(kind, dim, count), faiss.METRIC_INNER_PRODUCT)
    if kind == "hnsw":
        index.hnsw.efConstruction = 100
    if kind == "ivf_pq":  # it would tell on stderr of each of its many small clusterings
        index.cp.min_points_per_centroid = index.pq.cp.min_points_per_centroid = 1
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


def open_dense(path: Path, kind: str) -> Dense:
    """Raises OSError for a file that is not there, and for one that is broken whatever its reader raises."""
    if kind in ("flat", "binary"):
        return Scan(
            np.load(require_file(path), mmap_mode="r", allow_pickle=False), is_binary=kind == "binary"
        )
    return Faiss(require_faiss(kind).read_index(str(require_file(path))), kind)


def num_words(dim: int) -> int:
    return -(-dim // 64)


def as_bits(vectors: Float[np.ndarray, "rows dim"]) -> Int[np.ndarray, "rows words"]:
    """A bit of each number, 1 above 0, in words of 64, the last one filled up with zeros."""
    codes = quantize(vectors, "binary").codes
    filled = np.pad(codes, ((0, 0), (0, 8 * num_words(vectors.shape[1]) - codes.shape[1])))
    return filled.view("<u8")


def _differences(
    queries: Int[np.ndarray, "queries words"], rows: Int[np.ndarray, "rows words"]
) -> Float[np.ndarray, "queries rows"]:
    """How many bits differ."""
    counts = np.zeros((len(queries), len(rows)), dtype=np.float32)
    for word in range(rows.shape[1]):
        counts += np.bitwise_count(queries[:, word, None] ^ rows[None, :, word])
    return counts
