"""The nearest documents of many queries, by products of blocks, in memory that does not grow with their number."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Shaped

from juzhen.core.columns import as_vectors
from juzhen.core.errors import UserError, check_count, require_choice, require_packages
from juzhen.core.machine import num_cores
from juzhen.core.text import counted
from juzhen.encoders.embedding_cache import encoder_digest
from juzhen.encoders.peer_options import takes_peer_options
from juzhen.encoders.pooled_encoder import PooledEncoder
from juzhen.encoders.pooling import require_finite_vectors, unit

LISTS = {"ivf": "IVF{lists},Flat", "ivf_pq": "IVF{lists},PQ{codes}np"}
MADE_OF = {"flat": "Flat", "hnsw": "HNSW32", "int8": "SQ8", **LISTS}
"""FAISS factory strings. Without `np`, FAISS spends minutes on an order of codes that nothing uses."""

QUERIES_AT_ONCE = 256
DOCUMENTS_AT_ONCE = 32_768
"""Their product is the largest block of scores, 34 MB."""

PART = 4096
"""Documents whose k-th best score is the least that others of the first block must reach."""


def made_of(kind: str, dim: int, count: int) -> str:
    """Return the text for FAISS's factory: √count lists, and codes of a byte for some four numbers of an embedding.

    Args:
        kind: `hnsw`, `ivf_pq` and others of MADE_OF.
        dim: Dimensions of an embedding.
        count: Number of documents.

    Returns:
        Text for `faiss.index_factory`.
    """
    codes = max(size for size in range(1, max(dim // 4, 1) + 1) if dim % size == 0)
    return MADE_OF[kind].format(lists=int(np.sqrt(count)), codes=codes)


class Hit(NamedTuple):
    """A document that was found.

    Args:
        corpus_id: Position in the corpus, from 0.
        score: Higher is closer.

    Example:
        >>> hit = Hit(3, 0.9)
        >>> hit.corpus_id, hit.document
        (3, 3)
    """

    corpus_id: int
    score: float

    @property
    def document(self) -> int:
        """The earlier name of `corpus_id`, until 0.4."""
        return self.corpus_id


def as_hits(
    documents: Int[np.ndarray, "queries k"], scores: Float[np.ndarray, "queries k"]
) -> list[list[Hit]]:
    """Convert numbers and scores to `Hit`s. The number −1 is skipped.

    Args:
        documents: Numbers of documents, best first.
        scores: Their scores.

    Returns:
        One list for each query.
    """
    return [
        [Hit(number, score) for number, score in zip(*row, strict=True) if number >= 0]
        for row in zip(documents.tolist(), scores.tolist(), strict=True)
    ]


def check_top_k(top_k: int, number: int) -> None:
    """Check that `top_k` is a number of documents that exist.

    Args:
        top_k: Number of hits.
        number: Size of the corpus.

    Raises:
        UserError: Not a whole number from 1 to the size of the corpus, or no documents.
    """
    if not number:
        raise UserError("documents: there are no documents. Give at least one")
    is_number = isinstance(top_k, int | np.integer) and not isinstance(top_k, bool)
    if not is_number or not 1 <= top_k <= number:
        there = counted(number, "documents")
        raise UserError(f"top_k={top_k!r}: not a number that fits {there}. Type 1 to {number}")


class Best:
    """The best documents of each query so far. For equal scores the lower number wins.

    Args:
        num_queries: Number of queries.
        k: Most documents of a query.
        lowest: Documents count only above this score.
    """

    def __init__(self, num_queries: int, k: int, *, lowest: float = -np.inf) -> None:
        self.k = k
        self.documents = np.empty((num_queries, 0), dtype=np.int64)
        self.scores = np.empty((num_queries, 0), dtype=np.float32)
        self._least = np.full(num_queries, lowest, dtype=np.float32)

    def add(self, scores: Float[np.ndarray, "queries block"], first: int) -> None:
        """Add a block of documents. Blocks must come in order.

        Args:
            scores: Of each query with each document of the block, higher is closer.
            first: Number of the first document of the block.
        """
        width, block, least = self.documents.shape[1], scores.shape[1], self._least
        if width < self.k < block:
            # What is below the k-th of a part need not be sorted.
            part = scores[:, : max(PART, self.k, block // 2)]
            kth = np.partition(part, -self.k, axis=1)[:, -self.k]
            least = np.maximum(least, np.nextafter(kth, np.float32(-np.inf)))
        # nonzero of a matrix is five times slower
        rows, columns = np.divmod(np.flatnonzero(scores > least[:, None]), block)
        counts = np.bincount(rows, minlength=len(scores))
        places = np.arange(width, width + len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        shape = len(scores), width + int(counts.max(initial=0))
        documents, values = np.full(shape, -1), np.full(shape, -np.inf, dtype=np.float32)
        documents[:, :width], values[:, :width] = self.documents, self.scores
        documents[rows, places], values[rows, places] = columns + first, scores[rows, columns]
        ends = min(int((documents >= 0).sum(axis=1).max(initial=0)), self.k)
        order = np.argsort(-values, axis=1, kind="stable")[:, :ends]  # the lower number of equal ones first
        self.documents = np.take_along_axis(documents, order, axis=1)
        self.scores = np.take_along_axis(values, order, axis=1)
        if ends == self.k:
            self._least = np.maximum(self._least, self.scores[:, -1])

    def lists(self) -> tuple[Int[np.ndarray, "queries k"], Float[np.ndarray, "queries k"]]:
        """Numbers and scores, best first. Missing entries are −1 and −inf.

        Returns:
            Numbers and scores.
        """
        missing = ((0, 0), (0, self.k - self.documents.shape[1]))
        documents = np.pad(self.documents, missing, constant_values=-1)
        return documents, np.pad(self.scores, missing, constant_values=-np.inf)


def exact_search(
    queries: Float[np.ndarray, "queries dim"],
    documents: Float[np.ndarray, "documents dim"],
    k: int,
    *,
    advance: Callable[[int], None] = lambda count: None,
) -> tuple[Int[np.ndarray, "queries k"], Float[np.ndarray, "queries k"]]:
    """Find the `k` documents with the largest inner products.

    For equal products the lower number comes first. Equal documents have equal products.

    Args:
        queries: Query embeddings.
        documents: Document embeddings.
        k: Documents per query.
        advance: Callback with the number of finished queries.

    Returns:
        Numbers and float32 products, best first. Missing entries are −1 and −inf.
    """
    require_finite_vectors(queries, "queries")
    require_finite_vectors(documents, "documents")
    if (equal := EqualRows.of(documents)) is not None:
        documents = documents[equal.first]
    lists = []
    for start in range(0, len(queries), QUERIES_AT_ONCE):
        portion = queries[start : start + QUERIES_AT_ONCE]
        best = Best(len(portion), k)
        for first in range(0, len(documents), DOCUMENTS_AT_ONCE):
            best.add(portion @ documents[first : first + DOCUMENTS_AT_ONCE].T, first)
        lists.append(best.lists())
        advance(len(portion))
    if not lists:
        return np.empty((0, k), dtype=np.int64), np.empty((0, k), dtype=np.float32)
    numbers, products = (np.concatenate(parts) for parts in zip(*lists, strict=True))
    return (numbers, products) if equal is None else equal.spread(numbers, products, k)


@dataclass(frozen=True)
class EqualRows:
    """Distinct documents of a table with duplicates. A float product depends on the position in a block, so each
    distinct document is multiplied once.

    Attributes:
        first: Number of the first document of each group.
        members: Numbers of all documents, group by group, ascending.
        starts: Start of each group, and the end of the last.
    """

    first: Int[np.ndarray, "distinct"]
    members: Int[np.ndarray, "documents"]
    starts: Int[np.ndarray, "distinct_and_end"]

    @classmethod
    def of(cls, documents: Float[np.ndarray, "documents dim"]) -> "EqualRows | None":
        """Find duplicates. Two dimensions distinguish most rows.

        Args:
            documents: Embeddings.

        Returns:
            None without duplicates.
        """
        count = len(documents)
        heads = documents[:, 0] * np.float32(0.731)
        heads += documents[:, -1]
        rising = np.sort(heads)
        likely = np.flatnonzero(np.isin(heads, rising[1:][rising[1:] == rising[:-1]]))
        del heads, rising
        hashes = _row_hashes(documents, likely)
        _, firsts, groups_of = np.unique(hashes, return_index=True, return_inverse=True)
        if len(firsts) == len(likely):
            return None
        groups = np.arange(count, dtype=np.int32)
        groups[likely] = likely[firsts][groups_of]
        del hashes, groups_of
        first, numbers = np.unique(groups, return_inverse=True)
        starts = np.concatenate([[0], np.cumsum(np.bincount(numbers))])
        return cls(first, np.argsort(numbers, kind="stable"), starts)

    def spread(
        self, ranked: Int[np.ndarray, "queries some"], scores: Float[np.ndarray, "queries some"], k: int
    ) -> tuple[Int[np.ndarray, "queries k"], Float[np.ndarray, "queries k"]]:
        """Replace distinct documents in ranked lists by all of their duplicates.

        Args:
            ranked: Numbers of distinct documents, best first, −1 after the end of a list.
            scores: Their scores.
            k: Length of the result.

        Returns:
            Numbers of documents and scores, best first, −1 after the end of a list.
        """
        sizes = np.where(ranked < 0, 0, np.diff(self.starts)[ranked])
        lists, of_lists = np.where(ranked < 0, -1, self.first[ranked].astype(np.int64)), scores.copy()
        several = np.flatnonzero((sizes > 1).any(axis=1))  # rows with a document that is there several times
        rows, ranks = np.nonzero(ranked[several] >= 0)
        hits = ranked[several][rows, ranks]
        counts = np.minimum(sizes[several][rows, ranks], k)
        turns = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        queries = np.repeat(rows, counts)
        documents = self.members[np.repeat(self.starts[hits], counts) + turns]
        values = np.repeat(scores[several][rows, ranks], counts)
        order = np.lexsort((documents, -values, queries))
        queries, documents, values = queries[order], documents[order], values[order]
        rank = np.arange(len(queries)) - np.searchsorted(queries, queries)
        stays = rank < k
        lists[several], of_lists[several] = -1, -np.inf
        places = several[queries[stays]], rank[stays]
        lists[places], of_lists[places] = documents[stays], values[stays]
        return lists, of_lists


def _row_hashes(
    documents: Float[np.ndarray, "documents dim"], rows: Int[np.ndarray, "some"]
) -> Int[np.ndarray, "some"]:
    """64-bit hash of each row. Two of a million distinct rows collide with probability 1e-7."""
    weights = np.random.default_rng(0).integers(
        0, 2**64, (2, documents.shape[1]), dtype=np.uint64
    ) | np.uint64(1)
    hashes = np.empty(len(rows), dtype=np.uint64)
    for start in range(0, len(rows), DOCUMENTS_AT_ONCE):
        bits = np.ascontiguousarray(documents[rows[start : start + DOCUMENTS_AT_ONCE]], dtype=np.float32)
        sums = [
            (bits.view(np.uint32) * factors).sum(axis=1, dtype=np.uint64) >> np.uint64(32)
            for factors in weights
        ]
        hashes[start : start + DOCUMENTS_AT_ONCE] = sums[0] << np.uint64(32) | sums[1]
    return hashes


@contextmanager
def _on_one_thread(faiss: Any) -> Iterator[None]:
    """Make FAISS build deterministically."""
    threads = min(faiss.omp_get_max_threads(), num_cores())  # FAISS knows no CPU quota
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(threads)


class ApproximateIndex:
    """Documents in a FAISS index, which searches a part of them. Hits have exact scores.

    One thread builds the index, so equal documents give an equal index. FAISS must be installed.

    Args:
        documents: Document embeddings.
        kind: flat: exact search of FAISS · hnsw: neighbour graph (Malkov and Yashunin 2016,
            https://arxiv.org/abs/1603.09320) · ivf: vectors in lists, of which a search reads an eighth · ivf_pq: the
            same lists with one byte for about four dimensions (Jégou et al. 2011,
            https://doi.org/10.1109/TPAMI.2010.57).
        encoder: Encoder of the embeddings. A search with another one is an error. None checks only the size.

    Raises:
        UserError: Documents that are no matrix, or an unknown kind.
    """

    def __init__(
        self,
        documents: Float[np.ndarray, "documents dim"],
        kind: str,
        *,
        encoder: PooledEncoder | None = None,
    ) -> None:
        require_choice("kind", kind, MADE_OF)
        require_packages(f"index={kind}", "faiss", extra="search")
        import faiss

        if np.ndim(documents) != 2 or not len(documents):
            raise UserError("documents: expected a matrix (texts, dim), as encoder.encode(texts) gives it")
        self.shape = _, self.dim = _, dim = documents.shape
        self._digest = None if encoder is None else encoder_digest(encoder, kind)
        require_finite_vectors(documents, "documents")
        self.documents, self._kind = documents, kind
        self._equal = EqualRows.of(documents)
        indexed = documents if self._equal is None else documents[self._equal.first]
        self._lists = int(np.sqrt(len(indexed)))
        with _on_one_thread(faiss):
            self._index: Any = faiss.index_factory(
                dim, made_of(kind, dim, len(indexed)), faiss.METRIC_INNER_PRODUCT
            )
            self._index.train(indexed)
            self._index.add(indexed)

    @property
    def size_in_bytes(self) -> int:
        """Size of the index as FAISS writes it, without the embeddings for exact scores."""
        import faiss

        return int(faiss.serialize_index(self._index).nbytes)

    def check(self, encoder: PooledEncoder) -> None:
        """Check that the embeddings belong to an encoder.

        Args:
            encoder: With the prompt for documents.

        Raises:
            UserError: Other weights or another prompt.
        """
        if self._digest is not None and self._digest != encoder_digest(encoder, self._kind):
            raise UserError(
                "corpus: the index was built with an encoder of other weights or settings. Build it again with this one"
            )

    def search(
        self,
        queries: Float[np.ndarray, "queries dim"],
        k: int,
        *,
        advance: Callable[[int], None] = lambda count: None,
    ) -> tuple[Int[np.ndarray, "queries k"], Float[np.ndarray, "queries k"]]:
        """As `exact_search`, among the documents that the index looks at.

        Args:
            queries: Query embeddings.
            k: Documents per query.
            advance: Callback with the number of finished queries.

        Returns:
            As of `exact_search`.
        """
        require_finite_vectors(queries, "queries")
        if self._kind == "hnsw":
            self._index.hnsw.efSearch = 2 * k
        elif self._kind in LISTS:
            self._index.nprobe = max(self._lists // 8, 1)
        distinct, numbers = self._index.search(queries, k)
        if self._equal is not None:
            distinct = np.where(numbers < 0, -np.inf, distinct)
            numbers = self._equal.spread(numbers, distinct, k)[0]
        rows = np.repeat(np.arange(len(queries)), k)
        scores = pair_products(queries, self.documents, rows, numbers.ravel()).reshape(numbers.shape)
        advance(len(queries))
        return in_order(numbers, scores)


def in_order(
    documents: Int[np.ndarray, "queries k"], scores: Float[np.ndarray, "queries k"]
) -> tuple[Int[np.ndarray, "queries k"], Float[np.ndarray, "queries k"]]:
    """Sort lists by score, best first, then by number. −1 with the score −inf comes last.

    Args:
        documents: Numbers, −1 for none.
        scores: Their scores.

    Returns:
        Both, sorted.
    """
    scores = np.where(documents < 0, -np.inf, scores)
    order = np.lexsort((documents, -scores))
    return np.take_along_axis(documents, order, axis=1), np.take_along_axis(scores, order, axis=1)


def recall(
    queries: Float[np.ndarray, "queries dim"],
    documents: Float[np.ndarray, "documents dim"],
    *,
    found: Int[np.ndarray, "queries k"],
    exact: Int[np.ndarray, "queries k"],
) -> float:
    """Share of the places of `exact` for which a document as good was found, from 0 to 1.

    One as good has a product at least as large as the last of `exact`, so that it does not matter which of some equal
    documents are in the lists.

    Args:
        queries: Embeddings.
        documents: Embeddings.
        found: Numbers of the documents that were found, −1 for none.
        exact: Numbers of the nearest documents.

    Returns:
        Mean over all places of all queries.
    """
    rows = np.repeat(np.arange(len(queries)), exact.shape[1])
    scores = [
        pair_products(queries, documents, rows, lists.ravel()).reshape(lists.shape)
        for lists in (found, exact)
    ]
    return float(((found >= 0) & (scores[0] >= scores[1].min(axis=1, keepdims=True))).mean())


def pair_products(
    first: Float[np.ndarray, "some dim"],
    second: Float[np.ndarray, "others dim"],
    rows: Int[np.ndarray, "pairs"],
    columns: Int[np.ndarray, "pairs"],
) -> Float[np.ndarray, "pairs"]:
    """Compute the dot product of pairs, in float64 rounded to float32, some at a time.

    Args:
        first: Embeddings.
        second: Embeddings.
        rows: Row of `first` of each pair.
        columns: Row of `second` of each pair.

    Returns:
        float32 products, in the order of the pairs.
    """
    products = np.empty(len(rows), dtype=np.float32)
    for start in range(0, len(rows), DOCUMENTS_AT_ONCE):
        portion = slice(start, start + DOCUMENTS_AT_ONCE)
        firsts, right = (
            vectors.astype(np.float64) for vectors in (first[rows[portion]], second[columns[portion]])
        )
        products[portion] = np.einsum("rd,rd->r", firsts, right)
    return products


Precision = Literal["int8", "binary"]
PRECISIONS = ("int8", "binary")
STEPS = 255


def byte_ranges(vectors: Float[np.ndarray, "rows dim"]) -> Float[np.ndarray, "2 dim"]:
    """Return the smallest and the largest number of each dimension, between which bytes are spread.

    Args:
        vectors: Embeddings, such as a sample of the corpus.

    Returns:
        float32: smallest numbers in row 0, largest in row 1.
    """
    return np.stack([vectors.min(axis=0), vectors.max(axis=0)]).astype(np.float32)


@dataclass(frozen=True)
class Quantized:
    """Documents of `quantize`, a corpus for `SentenceEncoder.search`.

    Attributes:
        codes: int8, or bits packed in bytes, 1 for a number above 0.
        dim: Dimensions of an embedding.
        ranges: Ranges of int8 codes, as in `byte_ranges`.
        whole: Original embeddings, possibly on disk (`numpy.memmap`). A search scores its best `rescore` × k documents
            with them. None scores the decoded codes.
        rescore: Number of candidates per hit that are compared again with `whole`.
    """

    codes: Shaped[np.ndarray, "rows bytes"]
    dim: int
    ranges: Float[np.ndarray, "2 dim"] | None = None
    whole: Float[np.ndarray, "rows dim"] | None = None
    rescore: int = 4

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Int[np.ndarray, "some"] | slice) -> Float[np.ndarray, "some dim"]:
        """Decode rows: the middle of each int8 step, −1 and 1 for bits."""
        if self.ranges is None:
            return np.unpackbits(self.codes[rows], axis=-1)[:, : self.dim].astype(np.float32) * 2 - 1
        return (self.codes[rows].astype(np.float32) + 128.5) * steps_of(self.ranges) + self.ranges[0]

    def check(self, encoder: Any) -> None:
        """Accept any encoder. Nothing is known of the one that gave the embeddings but their size.

        Args:
            encoder: Not read.
        """

    @property
    def documents(self) -> "Float[np.ndarray, 'rows dim'] | Quantized":
        """Vectors for the final scores."""
        return self if self.whole is None else self.whole

    @property
    def size_in_bytes(self) -> int:
        """Size of the codes, without `whole`."""
        return self.codes.nbytes

    def search(
        self,
        queries: Float[np.ndarray, "queries dim"],
        k: int,
        *,
        advance: Callable[[int], None] = lambda count: None,
    ) -> tuple[Int[np.ndarray, "queries k"], Float[np.ndarray, "queries k"]]:
        """Search as `exact_search`: the best rescore × k documents by codes, then the k best of these by `whole`.

        Queries are not quantized. Decoded documents are normalized.

        Args:
            queries: Query embeddings.
            k: Documents per query.
            advance: Callback with the number of finished queries.

        Returns:
            As of `exact_search`.
        """
        require_finite_vectors(queries, "queries")
        depth = min(k * self.rescore, len(self)) if self.whole is not None else k
        lists = [
            Best(len(queries[start : start + QUERIES_AT_ONCE]), depth)
            for start in range(0, len(queries), QUERIES_AT_ONCE)
        ]
        for first in range(0, len(self), DOCUMENTS_AT_ONCE):
            block = unit(self[slice(first, first + DOCUMENTS_AT_ONCE)])
            for number, best in enumerate(lists):
                portion = queries[number * QUERIES_AT_ONCE : (number + 1) * QUERIES_AT_ONCE]
                best.add(portion @ block.T, first)
        advance(len(queries))
        numbers = np.concatenate([best.lists()[0] for best in lists])
        if self.whole is None:
            return numbers, np.concatenate([best.lists()[1] for best in lists])
        rows = np.repeat(np.arange(len(queries)), depth)
        documents = unit(np.asarray(self.whole[numbers.ravel()]))
        scores = pair_products(queries, documents, rows, np.arange(len(rows))).reshape(numbers.shape)
        numbers, scores = in_order(numbers, scores)
        return numbers[:, :k], scores[:, :k]


def steps_of(ranges: Float[np.ndarray, "2 dim"]) -> Float[np.ndarray, "dim"]:
    """Compute the step between neighbouring codes of each dimension.

    Args:
        ranges: Output of `byte_ranges`.

    Returns:
        1 for a constant dimension.
    """
    steps = (ranges[1] - ranges[0]) / STEPS
    return np.where(steps == 0, np.float32(1), steps)


@takes_peer_options
def quantize(
    vectors: Float[np.ndarray, "rows dim"],
    precision: Precision = "int8",
    *,
    ranges: Float[np.ndarray, "2 dim"] | None = None,
    whole: Float[np.ndarray, "rows dim"] | None = None,
    rescore: int = 4,
) -> Quantized:
    """Quantize embeddings to bytes (`int8`) or bits (`binary`).

    The codes equal those of sentence-transformers' `quantize_embeddings`, int8 and ubinary.

    Args:
        vectors: Embeddings.
        precision: int8 or binary.
        ranges: `byte_ranges` of similar embeddings, such as a corpus, for int8. None takes those of `vectors`. Values
            beyond the range are clipped.
        whole: Original embeddings. A search compares its best candidates with them again. None: scores are those of
            the codes. `whole=vectors` keeps them.
        rescore: Number of candidates per hit that are compared again with `whole`.

    Returns:
        Corpus for `SentenceEncoder.search`.

    Raises:
        UserError: The precision is unknown, a value is NaN, or ranges or whole do not fit the vectors.

    Example:
        >>> quantize(np.array([[0.1, -0.2, 0.3, 0.4]]), "binary").codes.tolist()
        [[176]]
    """
    require_choice("precision", precision, PRECISIONS)
    given: tuple[Any, Any] = (vectors, whole)
    vectors, whole = (
        each if isinstance(each, np.ndarray) or (read := as_vectors(each)) is None else read for each in given
    )
    vectors = np.asarray(vectors)
    if vectors.ndim != 2 or not vectors.size or vectors.dtype.kind not in "fiu":
        raise UserError(
            "vectors: expected a matrix (texts, dim), as encoder.encode(texts) gives it. One vector is vectors[None]"
        )
    require_finite_vectors(vectors, "vectors")
    check_count("rescore", rescore)
    dim = vectors.shape[1]
    if whole is not None and (np.shape(whole) != vectors.shape or np.asarray(whole).dtype.kind not in "fiu"):
        found = f"{np.asarray(whole).dtype} of the shape {np.shape(whole)}"
        raise UserError(f"whole: {found}, and the vectors {vectors.shape}. Give the vectors themselves")
    if whole is not None:
        require_finite_vectors(whole, "whole")
    if precision == "binary":
        if ranges is not None:
            raise UserError(
                "ranges: bits are signs, so no range is read. Leave it out, or take precision='int8'"
            )
        return Quantized(np.packbits(vectors > 0, axis=-1), dim, None, whole, rescore)
    spread = byte_ranges(vectors) if ranges is None else np.asarray(ranges, dtype=np.float32)
    if spread.shape != (2, dim) or not (spread[0] <= spread[1]).all():
        raise UserError(
            f"ranges: expected the lowest and the highest of {dim} numbers. Take byte_ranges(vectors)"
        )
    codes = np.clip(np.floor((vectors - spread[0]) / steps_of(spread)), 0, STEPS) - 128
    return Quantized(codes.astype(np.int8), dim, spread, whole, rescore)
