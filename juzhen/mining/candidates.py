"""Candidates for negatives: documents found by encoders and BM25, and random documents."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float, Int

from juzhen.core.errors import UserError
from juzhen.core.examples import Side, sides_of
from juzhen.data.rankings import RankingSet
from juzhen.encoders.asymmetric import AsymmetricEncoder
from juzhen.encoders.embedding_cache import EmbeddingCache, encoder_digest
from juzhen.encoders.pooling import sides, unit
from juzhen.encoders.resolve_path import locate_folder
from juzhen.encoders.search import ApproximateIndex, Best, exact_search, pair_products, recall
from juzhen.encoders.sentence_encoder import BY_ITSELF, SentenceEncoder
from juzhen.encoders.tokens import BATCH_TOKENS
from juzhen.families.family import AskingEncoders
from juzhen.families.registry import family_in
from juzhen.metrics.lexical import BM25

RANDOM = "random"
SAMPLE = 200
"""Queries by which the recall of an approximate index is measured."""

QUERIES_AT_ONCE = 32
"""Whose scores of all documents are held at a time."""

Advance = Callable[[int], None]
Numbers = Int[np.ndarray, "pairs"]
Scores = Float[np.ndarray, "pairs"]
Found = tuple[Int[np.ndarray, "queries k"], Float[np.ndarray, "queries k"]]


class Retriever(Protocol):
    """Finds and scores documents. Queries and documents are numbers, higher scores are closer.

    Attributes:
        name: Name in the column `source`.
        digest: Digest of the settings and weights that decide the results.
    """

    name: str
    digest: str

    def search(self, queries: Int[np.ndarray, "queries"], k: int, advance: Advance) -> Found:
        """Return documents and scores, best first, padded with −1 and −inf.

        Args:
            queries: Numbers of the queries.
            k: Documents for each query.
            advance: Receives the number of finished queries.

        Returns:
            Numbers of the documents and their scores, (queries, k) each.
        """

    def score(self, queries: Numbers, documents: Numbers) -> Scores:
        """Score pairs.

        Args:
            queries, documents: Numbers of both texts of each pair.

        Returns:
            float32 (pairs,).
        """


class DenseRetriever(Retriever):
    """Documents by the score of an encoder: the cosine, or its learnt form.

    Queries and corpus are encoded at the first use, which takes (queries + documents) × dim × 4 bytes.

    Args:
        encoder: The encoder.
        ranking: Queries and corpus.
        index: exact, or an index of FAISS.
        query_prompt, document_prompt: Names of the encoder's prompts. Default: its prompts for queries and documents of
            such a ranking (`RankingSet.symmetric`), else its default prompt.
        batch_tokens: Tokens of a batch.
        cache: Folder of cached embeddings. None: no cache.
        progress: Show a progress bar. None: on a terminal.

    Raises:
        UserError: As `SentenceEncoder.encode`.
    """

    def __init__(
        self,
        encoder: SentenceEncoder,
        ranking: RankingSet,
        *,
        name: str = "encoder",
        index: str = "exact",
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        batch_tokens: int = BATCH_TOKENS,
        cache: EmbeddingCache | None = None,
        progress: bool | None = None,
    ) -> None:
        self.name = name
        self._readers = [
            encoder.reading(side) if prompt is None else encoder.with_prompt(prompt, None)
            for prompt, side in zip((query_prompt, document_prompt), sides_of(ranking.symmetric), strict=True)
        ]
        self.prompts = [reader.prompt for reader in self._readers]
        self._texts = ranking.queries, ranking.corpus
        self._how: dict[str, Any] = {"batch_tokens": batch_tokens, "cache": cache, "show_progress": progress}
        self._kind, self.indexed = index, index != "exact"
        # Without prompts both readers are the encoder itself.
        different = dict.fromkeys(self._readers)
        self.digest = " ".join(dict.fromkeys(encoder_digest(reader, BY_ITSELF) for reader in different))

    @cached_property
    def _vectors(self) -> tuple[Float[np.ndarray, "queries dim"], Float[np.ndarray, "documents dim"]]:
        embeddings = [
            reader.encode(texts, **self._how)
            for reader, texts in zip(self._readers, self._texts, strict=True)
        ]
        return sides(embeddings[0], self._readers[0].score_head)[0], unit(embeddings[1])

    @cached_property
    def _index(self) -> ApproximateIndex | None:
        return None if self._kind == "exact" else ApproximateIndex(self._vectors[1], self._kind)

    def search(self, queries: Int[np.ndarray, "queries"], k: int, advance: Advance) -> Found:
        if self._index is not None:
            return self._index.search(self._vectors[0][queries], k, advance=advance)
        return exact_search(self._vectors[0][queries], self._vectors[1], k, advance=advance)

    def score(self, queries: Numbers, documents: Numbers) -> Scores:
        return pair_products(*self._vectors, queries, documents)

    def recall(self, k: int, *, seed: int) -> float:
        """Measure the share of the `k` nearest documents that the index finds, over SAMPLE queries.

        Args:
            k: Number of documents of a query.
            seed: Of the sample.

        Returns:
            From 0 to 1.
        """
        first, second = self._vectors
        sample = np.random.default_rng(seed).permutation(len(first))[:SAMPLE]
        documents = self.search(sample, k, lambda count: None)[0]
        return recall(first[sample], second, found=documents, exact=exact_search(first[sample], second, k)[0])


def _best_of_all(
    queries: Int[np.ndarray, "queries"],
    k: int,
    score: Callable[[Int[np.ndarray, "some"]], Float[np.ndarray, "some documents"]],
    advance: Advance,
    *,
    lowest: float = -np.inf,
) -> Found:
    """The `k` best documents of each query, of which every document is scored."""
    lists = []
    for start in range(0, len(queries), QUERIES_AT_ONCE):
        batch = queries[start : start + QUERIES_AT_ONCE]
        best = Best(len(batch), k, lowest=lowest)
        best.add(score(batch), 0)
        lists.append(best.lists())
        advance(len(batch))
    documents, scores = zip(*lists, strict=True)
    return np.concatenate(documents), np.concatenate(scores)


class BM25Retriever(Retriever):
    """Documents by BM25 (`juzhen.metrics.lexical`). Only documents that share a term with the query are found.

    Args:
        ranking: Queries and corpus.
    """

    name = digest = "bm25"

    def __init__(self, ranking: RankingSet) -> None:
        self._texts, self._documents = ranking.queries, ranking.corpus

    @cached_property
    def _bm25(self) -> BM25:
        return BM25(self._documents)

    def search(self, queries: Int[np.ndarray, "queries"], k: int, advance: Advance) -> Found:
        def score(batch: Int[np.ndarray, "queries"]) -> np.ndarray:
            return np.stack([self._bm25.scores(self._texts[query]) for query in batch])

        return _best_of_all(queries, k, score, advance, lowest=0)

    def score(self, queries: Numbers, documents: Numbers) -> Scores:
        return self._bm25.pair_scores([self._texts[query] for query in queries], documents)


@dataclass(frozen=True)
class Pool:
    """Candidates of some queries, one row each: ordered by query, retrieved before random, best score first.

    Args:
        query, document: Numbers, int64.
        rank: Best rank in any source, from 1. 0 marks random documents.
        score: Score of the first source, float32.
        source: Names of the sources that found it, joined by +.
    """

    query: Int[np.ndarray, "candidates"]
    document: Int[np.ndarray, "candidates"]
    rank: Int[np.ndarray, "candidates"]
    score: Float[np.ndarray, "candidates"]
    source: np.ndarray


def pooled(
    sources: Sequence[Retriever],
    queries: Int[np.ndarray, "queries"],
    *,
    depth: int,
    num_documents: int,
    num_random: int,
    seed: int,
    advance: Advance,
) -> Pool:
    """Collect the results of all sources, and random documents, for each query. The first source scores all.

    Candidates found by several sources occur once. Random documents depend on the seed and the queries alone.

    Args:
        sources: Retrievers. The first one gives the score of all candidates.
        queries: Numbers of neighbouring queries, rising.
        depth: Documents of each source for a query.
        num_documents: Size of the corpus.
        num_random: Random documents for a query.
        seed: Of the random documents.
        advance: Called with the number of finished queries.

    Returns:
        Candidates by query, the best first. Random ones have rank 0.
    """
    columns, last = [], depth + 1
    for number, source in enumerate(sources):
        documents, scores = source.search(queries, depth, advance)
        rows, ranks = np.divmod(np.flatnonzero(documents >= 0), documents.shape[1])  # nonzero is slower
        known_scores = scores[rows, ranks] if number == 0 else np.full(len(rows), np.nan, dtype=np.float32)
        bits = np.full(len(rows), 1 << number)
        rank_in_list = np.minimum(ranks + 1, depth)  # negatives in force may be more than the depth
        columns.append((queries[rows], documents[rows, ranks], rank_in_list, known_scores, bits))
    if len(columns) == 1 and not num_random:
        query, document, rank, score, _ = columns[0]
        return _ordered(
            Pool(query, document, rank, score, np.full(len(query), sources[0].name, dtype=object))
        )
    random_documents = np.random.default_rng([seed, int(queries[0])]).integers(
        num_documents, size=(len(queries), num_random)
    )
    nothing = np.full(random_documents.size, np.nan, dtype=np.float32)
    of_drawn = np.repeat(queries, num_random), random_documents.ravel(), np.full(random_documents.size, last)
    columns.append((*of_drawn, nothing, np.zeros(random_documents.size, dtype=np.int64)))
    query, document, rank, score, bits = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    order = np.lexsort((rank, np.isnan(score), document, query))  # the score that is known comes first
    query, document, rank, score, bits = (column[order] for column in (query, document, rank, score, bits))
    starts = np.flatnonzero(np.diff(query, prepend=-1) | np.diff(document, prepend=-1))
    rank, bits = np.minimum.reduceat(rank, starts), np.bitwise_or.reduceat(bits, starts)
    query, document, score = query[starts], document[starts], score[starts]
    unknown = np.isnan(score)
    score[unknown] = sources[0].score(query[unknown], document[unknown])
    rank[rank == last] = 0
    found_by = [
        [source.name for number, source in enumerate(sources) if mask >> number & 1]
        for mask in range(1 << len(sources))
    ]
    names = np.array(["+".join(finders) or RANDOM for finders in found_by], dtype=object)
    return _ordered(Pool(query, document, rank, score, names[bits]))


def _ordered(pool: Pool) -> Pool:
    """Order candidates as `Pool` says. The list of a single source is in order already, which is seen quickly."""
    keys = pool.query, pool.rank == 0, -pool.score, pool.document
    is_in_order = np.ones(max(len(pool.query) - 1, 0), dtype=bool)
    for key in reversed(keys):
        before, after = key[:-1], key[1:]
        is_in_order = (before < after) | ((before == after) & is_in_order)
    if is_in_order.all():
        return pool
    order = np.lexsort(tuple(reversed(keys)))
    return Pool(**{name: column[order] for name, column in vars(pool).items()})


class AsymmetricRetriever(Retriever):
    """Documents by the exact scores of an `AsymmetricEncoder`. Every document is scored.

    Queries and corpus are encoded at the first use: dim × 4 bytes for each token, or 8 bytes for each nonzero number
    of a sparse encoder.

    Args:
        encoder, ranking, name, batch_tokens, progress: As of `DenseRetriever`.
        index, query_prompt, document_prompt: Only their defaults.
        cache: Not used.

    Raises:
        UserError: An index other than exact, or a prompt by name.
    """

    def __init__(
        self,
        encoder: Any,
        ranking: RankingSet,
        *,
        name: str = "encoder",
        index: str = "exact",
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        batch_tokens: int = BATCH_TOKENS,
        cache: Any = None,
        progress: bool | None = None,
    ) -> None:
        if index != "exact":
            has = {"multi_vector": "one per token", "sparse": "sparse ones"}
            other = has.get(encoder.family, "other weights for queries")
            raise UserError(
                f"index={index}: holds one vector per text, and this encoder has {other}. Type index=exact"
            )
        if query_prompt is not None or document_prompt is not None:
            raise UserError(
                "query_prompt, document_prompt: this encoder reads queries and documents in the one way it has learnt"
            )
        self.name, self._encoder, self._ranking = name, encoder, ranking
        self._how = batch_tokens, progress
        self.prompts = [encoder.reading(side).prompt for side in (Side.QUERY, Side.DOCUMENT)]
        self.digest = encoder_digest(encoder, encoder.facts)

    @cached_property
    def _vectors(self) -> tuple[Any, Any]:
        return (
            self._encoder.vectors(self._ranking.queries, Side.QUERY, *self._how),
            self._encoder.vectors(self._ranking.corpus, Side.DOCUMENT, *self._how),
        )

    def search(self, queries: Int[np.ndarray, "queries"], k: int, advance: Advance) -> Found:
        asking, answers = self._vectors
        numbers = np.arange(len(answers))
        return _best_of_all(queries, k, lambda batch: asking.matrix(answers, batch, numbers), advance)

    def score(self, queries: Numbers, documents: Numbers) -> Scores:
        asking, answers = self._vectors
        return asking.pairs(answers, queries, documents)


def load_source(source: str | Path) -> SentenceEncoder | AsymmetricEncoder:
    """Load the encoder of a run or a folder that finds documents.

    Args:
        source: As `SentenceEncoder.load` takes it. Multi-vector and sparse encoders work too.

    Returns:
        The encoder, of one or of two sides.

    Raises:
        UserError: As of `SentenceEncoder.load`.
    """
    folder = locate_folder(str(source))
    family = None if folder is None else family_in(folder)
    load = family.load if isinstance(family, AskingEncoders) else SentenceEncoder.load
    encoder: SentenceEncoder | AsymmetricEncoder = load(source)
    return encoder
