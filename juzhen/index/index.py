"""Search among the texts of an index: by vectors, by BM25, or by both."""

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import expit

from juzhen.core.columns import as_text_list, as_vectors, described
from juzhen.core.errors import UserError, check_count, require_choice
from juzhen.core.examples import Side
from juzhen.core.text import short
from juzhen.encoders.embedding_cache import encoder_digest
from juzhen.encoders.pair_encoder import PairEncoder
from juzhen.encoders.peer_options import takes_peer_options
from juzhen.encoders.pooling import require_finite_vectors, sides, truncate_vectors
from juzhen.encoders.search import Best, in_order, pair_products
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.index.derived_files import (
    DEPTHS,
    SPARE,
    Dense,
    DifferentFilesError,
    QuickFiles,
    Scan,
    mend,
    open_quick_files,
)
from juzhen.index.store import DATABASE, Store, Where, require_complete, require_index
from juzhen.metrics.lexical import BM25

RRF = 60
"""Added to each rank (Cormack et al. 2009, https://doi.org/10.1145/1571941.1572114)."""

Lists = tuple[Int[np.ndarray, "queries k"], Float[np.ndarray, "queries k"]]
"""Numbers of texts and their scores, best first; −1 where a list has ended."""


class IndexHit(NamedTuple):
    """A search result.

    Args:
        index: Number of the text.
        id: Its id.
        text: The text.
        metadata: Its metadata.
        score: Higher is closer. Its meaning depends on the mode.
        ranks: Rank in each list that contains it, from 1.
        document: Id of the document of a passage.
        span: Start and end of a passage in the characters of its document.

    Example:
        >>> IndexHit(0, "a", "怎么退货", {"shop": "A"}, 0.9, {"dense": 1}).as_dict()["metadata"]
        {'shop': 'A'}
    """

    index: int  # type: ignore[assignment]  # as answers over HTTP call it; a tuple's method is not asked
    id: str
    text: str
    metadata: dict[str, Any]
    score: float
    ranks: dict[str, int]
    document: str | None = None
    span: tuple[int, int] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return a dict for JSON. Whole texts have no document and no span.

        Returns:
            The dict.
        """
        return {name: value for name, value in self._asdict().items() if value is not None}


def fused(lists: Sequence[Int[np.ndarray, "queries some"]], k: int) -> Lists:
    """Fuse ranked lists by the sum of 1 / (RRF + rank) over the lists.

    Args:
        lists: Numbers of texts of each query, best first, −1 after the end of a list.
        k: Length of the result.

    Returns:
        Numbers and sums (queries, k). Missing entries are −1 and −inf.
    """
    numbers, scores = [], []
    for rows in zip(*lists, strict=True):
        sums: dict[int, float] = {}
        for row in rows:
            for rank, number in enumerate(row[row >= 0].tolist(), start=1):
                sums[number] = sums.get(number, 0) + 1 / (RRF + rank)
        best = sorted(sums, key=lambda number: (-sums[number], number))[:k]
        numbers.append(np.pad(np.array(best, dtype=np.int64), (0, k - len(best)), constant_values=-1))
        scores.append(np.pad([sums[number] for number in best], (0, k - len(best)), constant_values=-np.inf))
    return np.stack(numbers), np.stack(scores)


def _best_passages(hits: Sequence[IndexHit]) -> list[IndexHit]:
    """Keep the first passage of each document.

    Args:
        hits: Passages of one query, best first.
    """
    best: dict[str | None, IndexHit] = {}
    for hit in hits:
        best.setdefault(hit.document, hit)
    return list(best.values())


Mode = Literal["dense", "bm25", "hybrid"]
MODES: tuple[Mode, ...] = ("dense", "bm25", "hybrid")

FUSED = 100
"""Texts of each list that are fused, or as many as are asked for if that is more."""

PER_DOCUMENT = 4
"""Passages that are looked up for each document that is asked for, and then so many times more, until they do."""

FEW = 5_000
"""So many texts that a filter leaves are all compared."""

ATTEMPTS = 5
"""To open quick files, which a writer replaces meanwhile."""


@dataclass
class View:
    """Snapshot of an index.

    Args:
        version: Changes with every write.
        facts: Facts about the index, such as its encoder.
        numbers: Numbers of the texts by position: covered by derived files first, later ones after.
        covered: How many texts the derived files cover.
        alive: Which texts have not been removed.
        dense: Vectors of the covered texts. None: there are none.
        later: Vectors of the later texts.
        stored: BM25 arrays of the covered texts, or None.
        lexical: BM25 over all texts. None until a search needs it.
    """

    version: tuple[int, ...]
    facts: dict[str, Any]
    numbers: Int[np.ndarray, "places"]
    covered: int
    alive: Bool[np.ndarray, "places"]
    dense: Dense | None
    later: Scan
    stored: Mapping[str, np.ndarray] | None
    lexical: BM25 | None = field(default=None)


def bytes_per_vector(view: View) -> float:
    """Compute the bytes that a search reads for each vector.

    Args:
        view: Snapshot of an index. Without quick files a vector has 4 bytes for each dimension.

    Returns:
        Bytes, a fraction where FAISS adds lists and graphs.
    """
    if view.dense is None or not view.covered:
        return 4.0 * view.facts["dim"]
    return view.dense.size_in_bytes / view.covered


def reader_of(encoder: SentenceEncoder, prompt_name: str | None, prompt: str | None) -> SentenceEncoder:
    """Return the encoder for the texts of an index.

    Args:
        encoder: Not changed.
        prompt_name: Name of one of its prompts, or None.
        prompt: A prompt as text, or None. With neither it is the encoder's prompt for documents.

    Returns:
        A reader that shares the weights.
    """
    chosen = prompt_name is not None or prompt is not None
    return encoder.with_prompt(prompt_name, prompt) if chosen else encoder.reading(Side.DOCUMENT)


def index_digest(reader: SentenceEncoder) -> str:
    """Compute the digest of the weights and settings that decide the vectors, whatever backend computes them.

    Args:
        reader: Output of `reader_of`.

    Returns:
        32 hex digits.
    """
    return encoder_digest(reader, "index")


class Index:
    """A searchable index. Each search sees the changes of other processes. Threads may share it.

    Args:
        store: The stored texts and vectors.
        folder: The folder. None: in memory.
        encoder: Encodes queries. None allows BM25 only.

    Raises:
        UserError: An encoder with other weights or settings than those of the index.

    Example:
        >>> from juzhen import SentenceEncoder
        >>> from juzhen.index import Rows, index_in_memory
        >>> rows = Rows(["怎么退货", "几天发货"], ids=["a", "b"])
        >>> index = index_in_memory(SentenceEncoder.load("builtin/mini_zh"), rows)
        >>> [[hit.id for hit in hits] for hits in index.search(["东西想退掉"], top_k=1)]
        [['a']]
    """

    def __init__(self, store: Store, folder: Path | None, encoder: SentenceEncoder | None) -> None:
        self.store, self.folder, self._encoder = store, folder, encoder
        self._lock = threading.Lock()
        self._state: View | None = None
        try:
            facts = self.view().facts
            if encoder is not None:
                self._encoder = check_encoder(facts, encoder, str(folder))
        except BaseException:
            store.close()
            raise

    @classmethod
    @takes_peer_options
    def open(cls, folder: str | Path, encoder: SentenceEncoder | None = None) -> Self:
        """Open an index in a folder.

        Args:
            folder: The index folder.
            encoder: The encoder that built it. None: loaded from its path in the index.

        Returns:
            The index.

        Raises:
            UserError: The index is missing, or was built with other weights.
        """
        folder = Path(folder)
        require_index(folder)
        return cls(Store(folder / DATABASE), folder, encoder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.store.close()

    def __len__(self) -> int:
        return int(self.view().alive.sum())

    @property
    def modes(self) -> list[Mode]:
        """Those that work here."""
        return [*MODES]

    @takes_peer_options
    def search(
        self,
        queries: Sequence[str],
        top_k: int = 10,
        *,
        mode: Mode = "dense",
        where: Where | None = None,
        vectors: Float[np.ndarray, "queries dim"] | None = None,
        per_document: bool = False,
        **options: Any,
    ) -> list[list[IndexHit]]:
        """Return the `top_k` best texts of each query, best first.

        Lists are shorter if fewer texts exist or share a term. Ties are ordered by the time a text was added.

        Args:
            queries: The queries.
            top_k: Largest number of texts for each query.
            mode: dense: the score of the encoder, as in `SentenceEncoder.search`. bm25: shared terms, as in
                `juzhen.metrics.lexical`. hybrid: Σ 1 / (60 + rank) over both lists, each with its 100 best texts.
            where: Name of metadata → a value that a text must have, or a list of values of which it must have one.
            vectors: Embeddings of the queries from `encode_query`. Default: the queries are encoded with the options.
            per_document: Keep the best passage of each document only.
            options: Of `encode_query`.

        Returns:
            A list of results for each query.

        Raises:
            UserError: Metadata that no text has, or `per_document` in an index of whole texts.

        Example:
            >>> with Index.open("indexes/faq", encoder) as index:  # doctest: +SKIP
            ...     index.search(["东西想退掉"], mode="hybrid", where={"shop": ["A", "B"]})
        """
        view, counts = self.view(), mode == "bm25"
        require_choice("mode", mode, MODES)
        queries = check_search(queries, top_k, where, vectors, options, counts=counts)
        allowed = view.alive
        if where:
            allowed = allowed & np.isin(view.numbers, self.store.matching(where))
        if not counts:
            if vectors is None:
                vectors = self._require_encoder().encode_query(queries, **options)
            vectors = prepare_queries(self._require_encoder(), vectors, view.facts["dim"], len(queries))
        if per_document and not view.facts.get("passages"):
            raise UserError(
                f"per_document: {self.folder or 'this index'} holds whole texts and no passages. Store passages "
                "with build(passages=PassageSettings(…)), or juzhen index build --chunk-tokens N"
            )
        if not queries:
            return []
        if not per_document:
            return self._hits(view, queries, top_k, mode, vectors, allowed)
        most, depth = int(allowed.sum()), PER_DOCUMENT * top_k
        while True:
            answers = [
                _best_passages(hits) for hits in self._hits(view, queries, depth, mode, vectors, allowed)
            ]
            if depth >= most or all(len(hits) >= top_k for hits in answers):
                return [hits[:top_k] for hits in answers]
            depth *= PER_DOCUMENT

    def _hits(
        self,
        view: View,
        queries: Sequence[str],
        top_k: int,
        mode: Mode,
        vectors: Float[np.ndarray, "queries dim"] | None,
        allowed: Bool[np.ndarray, "places"],
    ) -> list[list[IndexHit]]:
        depth = top_k if mode != "hybrid" else max(FUSED, top_k)
        lists: dict[str, Lists] = {}
        if vectors is not None and mode != "bm25":
            lists["dense"] = self._dense(view, vectors, depth, allowed)
        if mode != "dense":
            lists["bm25"] = self._lexical(view, queries, depth, allowed)
        if mode == "hybrid":
            numbers, scores = fused([answers for answers, _ in lists.values()], top_k)
        else:
            numbers, scores = lists[mode]
        rows = self.store.rows(np.unique(numbers[numbers >= 0]).tolist())
        answers = []
        for query, (row, values) in enumerate(zip(numbers.tolist(), scores.tolist(), strict=True)):
            ranks = {
                name: {number: rank for rank, number in enumerate(each[0][query].tolist(), 1)}
                for name, each in lists.items()
            }
            hits = []
            for number, score in zip(row, values, strict=True):
                if number in rows:
                    positions = {name: of[number] for name, of in ranks.items() if number in of}
                    text = rows[number]
                    hits.append(IndexHit(*text[:4], score, positions, text.document, text.span))
            answers.append(hits)
        return answers

    def view(self) -> View:
        """Return the current snapshot.

        Returns:
            The snapshot.
        """
        with self._lock:
            for _ in range(ATTEMPTS):
                version = self.store.version
                if self._state is not None and self._state.version == version:
                    return self._state
                try:
                    self._state = self._read(version)
                    return self._state
                except DifferentFilesError as problem:
                    is_replaced = self.store.version != version  # a writer has just done it
                    if not is_replaced and (self.folder is None or not mend(self.folder, problem)):
                        break
            self._state = self._read(version, with_files=False)
            return self._state

    def facts(self) -> dict[str, Any]:
        """Return texts, kind, dimension, fields, modes, passages and bytes_per_vector.

        Returns:
            A dict for JSON.
        """
        view = self.view()
        return {
            "texts": int(view.alive.sum()),
            "kind": view.facts["kind"],
            "dimension": view.facts["dim"],
            "fields": view.facts["fields"],
            "modes": self.modes,
            "passages": bool(view.facts.get("passages")),
            "bytes_per_vector": bytes_per_vector(view),
        }

    def warm(self) -> None:
        """Load the data and the model for the first search."""
        self._bm25(self.view())

    def _read(self, version: tuple[int, ...], *, with_files: bool = True) -> View:
        files = QuickFiles(np.empty(0, dtype=np.int64))
        with self.store.snapshot():
            facts = self.store.facts()
            require_complete(facts, self.folder)
            if with_files and self.folder is not None:
                files = open_quick_files(self.store, self.folder)
            live = self.store.numbers()
            if len(live) != self.store.num_texts():
                raise self.store.damaged("not every text has one vector")
            covered = files.numbers
            parts = [*self.store.portions(int(covered[-1]) if len(covered) else -1)]
        later = np.concatenate([numbers for numbers, _ in parts]) if parts else np.empty(0, dtype=np.int64)
        vectors = [vectors for _, vectors in parts] or [np.empty((0, facts["dim"]), dtype=np.float32)]
        numbers = np.concatenate([covered, later])
        return View(
            version,
            facts,
            numbers,
            len(covered),
            np.isin(numbers, live, assume_unique=True),
            files.dense,
            Scan(np.concatenate(vectors), is_binary=False),
            files.lexical,
        )

    def _require_encoder(self) -> SentenceEncoder:
        if self._encoder is None:
            raise UserError(f"{self.folder}: searching by vectors needs the encoder. Give it, or choose bm25")
        return self._encoder

    def _dense(self, view: View, queries: np.ndarray, k: int, allowed: Bool[np.ndarray, "places"]) -> Lists:
        depth = k * DEPTHS[view.facts["kind"]] + SPARE
        positions = np.flatnonzero(allowed)
        parts = []
        if len(positions) <= FEW and len(positions) < len(allowed):
            few = Scan(self.store.vectors(view.numbers[positions]), is_binary=False)
            parts.append(_numbers(few.search(queries, k + SPARE, None), view.numbers[positions]))
        else:
            first, second = allowed[: view.covered], allowed[view.covered :]
            if view.dense is not None and view.covered:
                mask = None if first.all() else first
                answers = view.dense.search(queries, min(depth, view.covered), mask)
                parts.append(_numbers(answers, view.numbers[: view.covered]))
            if len(second):
                answers = view.later.search(queries, k + SPARE, None if second.all() else second)
                parts.append(_numbers(answers, view.numbers[view.covered :]))
        candidates = np.concatenate(parts, axis=1) if parts else np.empty((len(queries), 0), dtype=np.int64)
        distinct, inverse = np.unique(candidates, return_inverse=True)
        vectors = self.store.vectors(distinct)
        rows = np.repeat(np.arange(len(queries)), candidates.shape[1])
        scores = pair_products(queries, vectors, rows, inverse.ravel()).reshape(candidates.shape)
        gone = np.isnan(scores)
        numbers, scores = in_order(np.where(gone, -1, candidates), np.where(gone, -np.inf, scores))
        return numbers[:, :k], scores[:, :k]

    def _lexical(
        self, view: View, queries: Sequence[str], k: int, allowed: Bool[np.ndarray, "places"]
    ) -> Lists:
        bm25, lists = self._bm25(view), []
        for query in queries:
            best = Best(1, k, lowest=0)
            best.add(np.where(allowed, bm25.scores(query), 0)[None], 0)
            lists.append(best.lists())
        positions, scores = (np.concatenate(parts) for parts in zip(*lists, strict=True))
        return _numbers(positions, view.numbers), scores

    def _bm25(self, view: View) -> BM25:
        """BM25 over all texts by their places. Later texts have the weights of the first texts."""
        with self._lock:
            if view.lexical is None:
                tokens = view.facts["tokens"]
                start = 0 if view.stored is None else view.covered
                above = -1 if start == 0 else int(view.numbers[start - 1])
                texts = dict(self.store.texts(above))
                later = [texts.get(number, "") for number in view.numbers[start:].tolist()]
                if view.stored is None:
                    view.lexical = BM25(later, tokens=tokens)
                else:
                    base = BM25.of(view.stored, tokens=tokens)
                    view.lexical = base.extended(later) if later else base
            return view.lexical


def check_search(
    queries: Sequence[str],
    top_k: int,
    where: Any,
    vectors: Any,
    options: Collection[str],
    *,
    counts: bool = False,
) -> list[str]:
    """Check the arguments of a search.

    Args:
        queries, top_k, where, vectors, options: Of `Index.search`.
        counts: True if no query is encoded, because terms are counted.

    Returns:
        The queries.

    Raises:
        UserError: One of them is of another kind, or would not be read.
    """
    queries = as_text_list(queries, "queries")
    check_count("top_k", top_k)
    if where is not None and not isinstance(where, Mapping):
        raise UserError(f"where={short(repr(where), 40)}: expected a dict. Type where={{'field': 'value'}}")
    unread = ["vectors"] if counts and vectors is not None else [*options]
    if unread and (vectors is not None or counts):
        said = "mode='bm25' counts terms" if counts else "vectors are given"
        raise UserError(f"{unread[0]}: no query is encoded, because {said}. Leave it out")
    return queries


def prepare_queries(
    encoder: SentenceEncoder, vectors: Float[np.ndarray, "queries dim"], dim: int, count: int
) -> Float[np.ndarray, "queries cut"]:
    """Prepare vectors of queries, whose products with those of texts are the scores.

    Args:
        encoder: Decides about length 1 and a learnt form of scores.
        vectors: Output of `encode_query`.
        dim: First dimensions to keep.
        count: Number of queries.

    Returns:
        float32 vectors of `dim` numbers.

    Raises:
        UserError: Another shape, or NaN or infinity in a row.
    """
    found = as_vectors(vectors)
    if found is None or found.ndim != 2 or found.shape[1] < dim:
        given = described(vectors) if found is None else f"the shape {found.shape}"
        raise UserError(f"vectors: got {given}. Give those of encode_query, (queries, {dim})")
    if len(found) != count:
        raise UserError(
            f"vectors: {len(found):,} rows for {count:,} queries. Give those of encode_query(queries)"
        )
    vectors = found
    require_finite_vectors(vectors, "vectors")
    if dim < vectors.shape[1]:
        vectors = truncate_vectors(vectors, dim, normalize=encoder.normalize)
    return sides(vectors, encoder.score_head)[0]


def check_encoder(facts: dict[str, Any], encoder: SentenceEncoder, place: str) -> SentenceEncoder:
    """Check that an encoder gives the vectors of an index.

    Args:
        facts: Those of the index.
        encoder: Not changed.
        place: Name of the index for the message.

    Returns:
        The encoder, set to read long texts as the index did.

    Raises:
        UserError: Other weights or settings.
    """
    overlap = facts.get("chunk_overlap")
    if overlap is not None and encoder.chunk_overlap is None:
        encoder = encoder.with_long_texts("chunk", overlap)
    if index_digest(reader_of(encoder, facts["prompt_name"], facts["prompt"])) != facts["digest"]:
        raise UserError(
            f"{place}: was built with other weights or settings than this encoder has (it was {facts['encoder']}). "
            "Name that encoder, or build the index again"
        )
    return encoder


def _numbers(positions: Int[np.ndarray, "queries k"], numbers: Int[np.ndarray, "places"]) -> np.ndarray:
    return np.where(positions < 0, -1, numbers[positions]) if len(numbers) else np.full_like(positions, -1)


RERANKED = 50
"""Texts that the cross-encoder reads for each query, or as many as are asked for if that is more."""


def in_order_of(found: Sequence[IndexHit], scores: np.ndarray, top_k: int) -> list[IndexHit]:
    """Sort hits by other scores. Ties keep their order.

    Args:
        found: Hits of one query.
        scores: The new score of each, (hits,).
        top_k: Number of hits to keep.

    Returns:
        Hits with the new scores, best first.
    """
    order = np.argsort(-scores, kind="stable")[:top_k]
    return [found[position]._replace(score=float(scores[position])) for position in order.tolist()]


def reranked(
    encoder: PairEncoder, queries: Sequence[str], found: Sequence[Sequence[IndexHit]], top_k: int
) -> list[list[IndexHit]]:
    """Rerank the hits of each query by a cross-encoder.

    Args:
        encoder: The cross-encoder.
        queries: Texts.
        found: Hits of each query.
        top_k: Number of hits to keep for a query.

    Returns:
        Hits with scores from 0 to 1 (the sigmoid of the logit), best first.
    """
    pairs = [(query, hit.text) for query, hits in zip(queries, found, strict=True) for hit in hits]
    scores = np.asarray(encoder.score(pairs), dtype=np.float64) if pairs else np.empty(0)
    ends = np.cumsum([len(hits) for hits in found])[:-1]
    parts = np.split(scores, ends)
    # Sorted before the sigmoid, which rounds high logits to 1.
    ordered = [in_order_of(hits, part, top_k) for hits, part in zip(found, parts, strict=True)]
    return [[hit._replace(score=float(expit(hit.score))) for hit in hits] for hits in ordered]


def facts_of(index: Index) -> dict[str, Any]:
    """Describe an index on disk for people.

    Args:
        index: Its folder is not None.

    Returns:
        Name → value, in display order.
    """
    view = index.view()
    facts, folder = view.facts, index.folder
    assert folder is not None
    on_disk = sum(path.stat().st_size for path in folder.glob(f"{DATABASE}*"))
    derived = sum(path.stat().st_size for path in folder.glob("*-*.*"))
    split = facts.get("passages")
    passages = (
        {
            "documents": f"{index.store.num_documents():,}, of which these texts are passages",
            "passages": f"{split['chunk_tokens']:,} tokens at most, {split['overlap']:,} shared"
            f"{', pooled of one pass (late)' * split['late']}",
        }
        if split
        else {}
    )
    overlap = facts.get("chunk_overlap")
    long = (
        {} if overlap is None else {"long texts": f"the mean of their chunks, which share {overlap:,} tokens"}
    )
    return {
        "texts": f"{int(view.alive.sum()):,}",
        **passages,
        **long,
        "later": f"{len(view.numbers) - view.covered:,} of them not in the quick files yet, compared one by one",
        "kind": facts["kind"],
        "encoder": f"{facts['encoder']} ({facts['digest']})",
        "numbers": f"{facts['dim']:,} of an embedding",
        "prompt": facts["prompt_name"] or facts["prompt"] or "that for documents",
        "metadata": ", ".join(facts["fields"]) or "none",
        "modes": ", ".join(index.modes),
        "terms": f"{facts['tokens']}, folded by NFKC, lower case, simplified characters",
        "bytes per vector": f"{bytes_per_vector(view):,.0f} that are searched, {4 * facts['dim']:,} beside the text",
        "on disk": f"{(on_disk + derived) / 2**20:,.1f} MiB, {derived / 2**20:,.1f} of them the quick files",
    }
