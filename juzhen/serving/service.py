"""Requests to answers: the models that are served now, the queue, and how new models take their place."""

import asyncio
import base64
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from juzhen.core.errors import require_number
from juzhen.core.machine import package_version
from juzhen.core.paths import DISTRIBUTION
from juzhen.core.text_warnings import collected
from juzhen.encoders.pooling import truncate_vectors
from juzhen.encoders.thresholds import require_reachable
from juzhen.encoders.tokens import TokenTable
from juzhen.index import IndexHit
from juzhen.index.index import in_order_of
from juzhen.serving.batching import Batcher, Metrics
from juzhen.serving.errors import RequestError, naming, wrong_field
from juzhen.serving.models import (
    Embedder,
    Reranker,
    ServedModels,
    depth_of,
    require_corpus,
    require_model,
    weighed,
    words_of,
)
from juzhen.serving.schemas import (
    EmbedBody,
    EmbeddingsBody,
    ReadBody,
    RerankBody,
    ScoreBody,
    SearchBody,
    SimilarityBody,
    WordsBody,
)
from juzhen.serving.settings import Limits

BY_COSINE = (
    "scored by the embeddings of {}, (1 + score) / 2. Start the server with --rerank for a cross-encoder"
)

QUICK_CHARACTERS = 2000
"""Texts of so many characters are tokenised at once; longer ones in a thread, while others are answered."""

SIDES_OF_PAIR = "first", "second"

PATIENCE = 0.5
"""Seconds after which a request looks whether its client is still there: what nobody waits for is not computed."""


@dataclass
class RequestLog:
    """Facts about one request for the log, without its texts.

    Args:
        client: Name of the client.
        gone: Waits until the client has closed its connection, after the body was read.
        texts: Number of texts.
        tokens: Number of tokens.
        cut: Number of truncated texts.
        unknown: Number of texts with unknown characters.
    """

    client: str
    gone: Callable[[], Awaitable[Any]]
    texts: int = 0
    tokens: int = 0
    cut: int = 0
    unknown: int = 0


@dataclass(frozen=True)
class Ranking:
    """Documents ranked by their scores.

    Args:
        judge: The model that scored.
        texts: The documents.
        scores: Scores of all texts, as the model gives them.
        order: Positions of the returned texts, best first.
        warnings: Warnings for the client.
    """

    judge: Embedder | Reranker
    texts: list[str]
    scores: np.ndarray
    order: np.ndarray
    warnings: list[str]

    def hits(self, *, raw: bool) -> Iterator[tuple[int, float]]:
        """Yield positions and scores, best first.

        Args:
            raw: True gives scores as the model gives them, False shares from 0 to 1.

        Yields:
            Position of the text, and its score.
        """
        scores = self.scores[self.order] if raw else self.judge.shares(self.scores[self.order])
        return zip(self.order.tolist(), scores.tolist(), strict=True)


class Service:
    """Answers requests with the models of `load`. Create it in a running event loop.

    Args:
        load: Loads the models, also for each reload.
        models: Models of the start.
        limits: Limits of requests.
    """

    def __init__(self, load: Callable[[], ServedModels], models: ServedModels, limits: Limits) -> None:
        self.models, self.limits = models, limits
        self.is_draining = False
        self.metrics = Metrics(lambda: self.batcher.tokens)
        self.batcher = Batcher(
            batch_tokens=limits.batch_tokens,
            queue_tokens=limits.queue_tokens,
            seconds=limits.seconds,
            watch=self.metrics.batch,
        )
        self._load, self._loading = load, asyncio.Lock()

    async def reload(self) -> None:
        """Puts what `load` gives now in the place of the models; requests that were taken keep theirs."""
        async with self._loading:
            self.models = await asyncio.to_thread(self._load)
            self.metrics.loads.inc()

    async def embeddings(self, body: EmbeddingsBody, facts: RequestLog) -> dict[str, Any]:
        """Answer /v1/embeddings: texts, or lists of token ids.

        Args:
            body, facts: Checked body of the request, and its counts, which are added to.

        Returns:
            The reply in the form of OpenAI. Its data are an iterator.

        Raises:
            RequestError: An unknown model, a wrong field, or a full queue.
        """
        embedder, value = self._models(body.model).embedder, body.input
        lists = [value] if _is_numbers(value) else value
        if isinstance(lists, list) and lists and all(map(_is_numbers, lists)):
            size = _size(embedder, body.dimensions, "dimensions")
            _refuse_prompt(body, "no prompt is put before token numbers", param="input")
            self._check_count(lists, "input")
            self._check_numbers(lists, size, "input")
            read = embedder.checked_ids(lists, param="input")
            vectors = truncate_vectors(await self._computed(embedder, *read, facts), size, normalize=True)
        else:
            vectors, _ = await self.vectors_of(value, body, facts, param="input", dimensions=body.dimensions)
        is_packed = body.encoding_format == "base64"
        data = (
            {"object": "embedding", "index": index, "embedding": packed(row) if is_packed else row}
            for index, row in enumerate(vectors)
        )
        return {"object": "list", "data": data, "model": embedder.name, "usage": _usage(facts)}

    async def embed(self, body: EmbedBody, facts: RequestLog) -> Any:
        """Answer /embed.

        Args:
            body: Checked body of the request, with `texts` or `inputs`.
            facts: Counts of the request, which are added to.

        Returns:
            With `inputs` an array (texts, dim), as text-embeddings-inference has it. With `texts` an object.

        Raises:
            RequestError: None or both are given, or as `vectors_of`.
        """
        if (body.texts is None) == (body.inputs is None):
            problem = "expected texts, or inputs" if body.texts is None else "give inputs or texts, not both"
            raise wrong_field("texts", problem)
        value, param = (body.texts, "texts") if body.inputs is None else (body.inputs, "inputs")
        vectors, embedder = await self.vectors_of(
            value, body, facts, param=param, dimensions=body.dimensions, normalize=body.normalize
        )
        if body.inputs is not None:
            return vectors
        return {"embeddings": vectors, "model": embedder.name, "dimension": vectors.shape[1]}

    async def vectors_of(
        self,
        value: Any,
        body: ReadBody,
        facts: RequestLog,
        *,
        param: str,
        dimensions: int | None = None,
        dimensions_param: str = "dimensions",
        normalize: bool = True,
        copies: int = 1,
    ) -> tuple[np.ndarray, Embedder]:
        """Compute embeddings of texts.

        Args:
            value: A text, or a list of texts.
            body: Chooses the model, the prompt and the truncation.
            facts: Counts of the request, which are added to.
            param: Field of the texts, for messages.
            dimensions: Keep the first dimensions only. None keeps all.
            dimensions_param: Field of the dimensions, for messages.
            normalize: Scale the embeddings to length 1.
            copies: Number of times that they are in the reply, for the limit of its size.

        Returns:
            float32 (texts, dimensions), and the model that computed them.

        Raises:
            RequestError: An unknown model, a wrong field, too many texts, or a full queue.
        """
        models = self._models(body.model)
        size = _size(models.embedder, dimensions, dimensions_param)
        if models.embedder.encoder.normalize and not normalize:
            raise wrong_field("normalize", "this encoder gives embeddings of length 1. Leave it out")
        texts = self._texts(value, param)
        self._check_numbers(texts, size * copies, param)
        vectors = await self._vectors(models, texts, body, facts, param=param)
        return truncate_vectors(vectors, size, normalize=normalize), models.embedder

    async def similarity(self, body: SimilarityBody, facts: RequestLog) -> dict[str, Any]:
        """Answer /similarity: each text of one list with each of another.

        Args:
            body, facts: Checked body of the request, and its counts, which are added to.

        Returns:
            Scores (first, second), null below `min_score`, and decisions if the encoder has a threshold.

        Raises:
            RequestError: Too many scores, or as `vectors_of`.
        """
        models = self._models(body.model)
        first, second = self._texts(body.first, "first"), self._texts(body.second, "second")
        if len(first) * len(second) > self.limits.scores:
            message = f"first, second: {len(first):,} × {len(second):,} scores; at most {self.limits.scores:,} in one "
            raise RequestError(400, f"{message}request: send fewer texts at a time", param="first")
        _require_reachable(body.min_score, models.embedder)
        vectors = await self._vectors(models, [*first, *second], body, facts, param="first and second")
        halves = vectors[: len(first)], vectors[len(first) :]
        scores = await asyncio.to_thread(models.embedder.encoder.similarity, *halves)
        threshold = models.embedder.threshold.value
        return _decided(scores, threshold, body.min_score) | {"model": models.embedder.name}

    async def score(self, body: ScoreBody, facts: RequestLog) -> dict[str, Any]:
        """Answer /score: a score for each pair, of the encoder or of the named cross-encoder.

        Args:
            body, facts: Checked body of the request, and its counts, which are added to.

        Returns:
            Scores (pairs,), null below `min_score`, and decisions if the model has a threshold.

        Raises:
            RequestError: An unknown model, a wrong field, or a full queue.
        """
        models, pairs = self.models, body.pairs
        require_model(body.model, [*models.embedders, *([models.reranker.name] if models.reranker else [])])
        if body.model in models.embedders:
            models = self._models(body.model)
        first, second = ([pair[side] for pair in pairs] for side in (0, 1))
        texts = self._texts([*first, *second], "pairs")
        if (judge := models.reranker) is None or body.model in (None, models.embedder.name):
            _require_reachable(body.min_score, models.embedder)
            vectors = await self._vectors(models, texts, body, facts, param="pairs")
            encoder = models.embedder.encoder
            halves = zip(vectors[: len(pairs)], vectors[len(pairs) :], strict=True)
            scores, threshold = (
                np.array([encoder.similarity(*half) for half in halves]),
                models.embedder.threshold.value,
            )
        else:
            _refuse_prompt(body, "a cross-encoder reads no prompt", param="model")
            _require_reachable(body.min_score)
            inputs, lengths, num_cut = await self._tokenized(
                judge, texts, lambda: judge.pair_tokens(pairs), facts
            )
            _require_whole(num_cut, body, "pairs", judge.encoder.inner.max_length)
            facts.cut += num_cut
            scores = judge.shares(await self._computed(judge, inputs, lengths, facts))
            threshold = _share_of_threshold(judge)
        name = body.model or models.embedder.name
        return _decided(scores, threshold, body.min_score) | {"model": name}

    async def words(self, body: WordsBody, facts: RequestLog) -> dict[str, Any]:
        """Answer /words: the loss of score if a word of either text is left out.

        Args:
            body: Checked body of the request, with two texts.
            facts: Counts of the request, which are added to.

        Returns:
            The score, and the parts of each text with their weights.

        Raises:
            RequestError: Too many words, or as `vectors_of`.
        """
        models, texts = self._models(body.model), self._texts([body.first, body.second], "first and second")
        embedder = models.embedder
        reader = embedder.reader(body.prompt_name, body.input_type)

        def tokenized() -> Any:
            embedder.tokens(texts, reader, param="first and second", truncate=body.truncate in (True, "END"))
            return [
                words_of(reader, text, param=side) for side, text in zip(SIDES_OF_PAIR, texts, strict=True)
            ]

        ids, parts = zip(*await self._tokenized(embedder, texts, tokenized, facts), strict=True)
        # Of each text its tokens, and its tokens without each word.
        inputs = [
            [of_text, *(np.delete(of_text, word.tokens) for word in words)]
            for of_text, words in zip(ids, parts, strict=True)
        ]
        encoded = [(tokens, reader.unpooled) for half in inputs for tokens in half]
        lengths = embedder.encoder.input_lengths(TokenTable.of([tokens for tokens, _ in encoded]))
        vectors = await self._computed(embedder, encoded, lengths, facts)
        first, second = vectors[: len(inputs[0])], vectors[len(inputs[0]) :]
        of_first = embedder.encoder.similarity(first, second[:1])[:, 0]
        of_second = embedder.encoder.similarity(first[:1], second)[0]
        reply: dict[str, Any] = {"score": float(of_first[0]), "model": embedder.name}
        for side, text, half, scores in zip(SIDES_OF_PAIR, texts, parts, (of_first, of_second), strict=True):
            reply[side] = weighed(text, half, (scores[0] - scores[1:]).tolist())
        return reply

    async def search(self, body: SearchBody, facts: RequestLog) -> dict[str, Any]:
        """Answer /search: the nearest texts of the index for each query.

        Args:
            body, facts: Checked body of the request, and its counts, which are added to.

        Returns:
            Hits of each query, best first, as an iterator.

        Raises:
            RequestError: No index or cross-encoder is served, a wrong field, or too many characters were found.
        """
        models = self._models(body.model)
        if models.embedder.name in self.models.corpora:
            models = replace(models, corpus=self.models.corpora[models.embedder.name])
        elif models.embedder is not self.models.embedder:
            message = (
                f"model {models.embedder.name}: what is searched was encoded by {self.models.embedder.name}"
            )
            raise RequestError(400, message, param="model")
        corpus, queries = require_corpus(models.corpus), self._texts(body.query, "query")
        reranker = models.reranker if body.rerank else None
        if body.rerank and reranker is None:
            raise wrong_field("rerank", "no cross-encoder is served. Start the server with --rerank")
        if body.min_score is not None and body.mode == "hybrid" and reranker is None:
            raise wrong_field(
                "min_score", "scores of mode=hybrid are of ranks alone. Use mode=dense, or rerank"
            )
        if body.mode != "bm25" or reranker is not None:
            _require_reachable(body.min_score, None if reranker else models.embedder)
        depth = depth_of(queries, body, most_pairs=self.limits.texts)
        if body.prompt_name is not None:
            if body.mode == "bm25":
                raise wrong_field("prompt_name", "mode=bm25 reads no prompt. Use mode=dense or hybrid")
            if "input_type" not in body.model_fields_set:
                body.input_type = None
        vectors = None
        if body.mode != "bm25":
            vectors = await self._vectors(models, queries, body, facts, param="query")
        found = await asyncio.to_thread(corpus.search, queries, body, depth, vectors)
        if reranker is not None:
            pairs = zip(queries, found, strict=True)
            found = [await self._reranked(reranker, *pair, body.top_k, facts) for pair in pairs]
        if body.min_score is not None:
            found = [[hit for hit in hits if hit.score >= body.min_score] for hits in found]
        threshold = None
        if reranker is not None:
            threshold = _share_of_threshold(reranker)
        elif body.mode == "dense" and corpus.dim == models.embedder.encoder.dim:
            threshold = models.embedder.threshold.value
        characters = sum(len(hit.text) for hits in found for hit in hits)
        if characters > (most := self.limits.characters_found):
            problem = (
                f"the texts that were found have {characters:,} characters; at most {most:,} in one answer"
            )
            raise wrong_field("top_k", f"{problem}: ask for fewer at a time")
        return {
            "results": ([hit.as_dict() | _same(hit.score, threshold) for hit in hits] for hits in found),
            "model": models.embedder.name,
            "mode": body.mode,
            "reranker": None if reranker is None else reranker.name,
            **({} if threshold is None else {"threshold": threshold}),
        }

    def index_facts(self) -> dict[str, Any]:
        """Return the facts of the index.

        Returns:
            Name → value, with the names of the models that search it.

        Raises:
            RequestError: The server has no index.
        """
        models = self.models
        facts = require_corpus(models.corpus).facts(reranks=models.reranker is not None)
        return facts | {"models": [models.embedder.name, *models.corpora]}

    async def _reranked(
        self, reranker: Reranker, query: str, hits: list[IndexHit], top_k: int, facts: RequestLog
    ) -> list[IndexHit]:
        if not hits:
            return []
        texts = [hit.text for hit in hits]
        inputs, lengths, num_cut = await self._tokenized(
            reranker, [query, *texts], lambda: reranker.tokens(query, texts), facts
        )
        facts.cut += num_cut
        scores = await self._computed(reranker, inputs, lengths, facts)
        return in_order_of(hits, reranker.shares(scores), top_k)

    async def ranking(self, body: RerankBody, facts: RequestLog) -> "Ranking":
        """Rank the documents of a request by a cross-encoder, or else by the embeddings.

        Args:
            body, facts: Checked body of the request, and its counts, which are added to.

        Returns:
            At most `top_n` documents, those below `min_score` left out.

        Raises:
            RequestError: An unknown model, a wrong field, or a full queue.
        """
        models = self.models
        texts = [document if isinstance(document, str) else document.text for document in body.documents]
        self._texts([body.query, *texts], "query and documents")
        _require_reachable(body.min_score)
        if (reranker := models.reranker) is None:
            models = self._models(body.model)
            scores, warnings = await self._by_embeddings(models, body, texts, facts)
        else:
            require_model(body.model, [reranker.name])
            inputs, lengths, num_cut = await self._tokenized(
                reranker, [body.query, *texts], lambda: reranker.tokens(body.query, texts), facts
            )
            _require_whole(num_cut, body, "documents", reranker.encoder.inner.max_length)
            scores = await self._computed(reranker, inputs, lengths, facts)
            facts.cut += num_cut
            warnings = [f"{num_cut:,} of {len(texts):,} documents were cut"] if num_cut else []
        judge = reranker or models.embedder
        order = np.argsort(-scores, kind="stable")[: body.top_n]
        if body.min_score is not None:
            order = order[judge.shares(scores[order]) >= body.min_score]
        return Ranking(judge, texts, scores, order, warnings)

    async def rerank(self, body: RerankBody, facts: RequestLog) -> dict[str, Any]:
        """Answer /v1/rerank and /v2/rerank.

        Args:
            body, facts: Checked body of the request, and its counts, which are added to.

        Returns:
            The reply in the form of Cohere and Jina, with shares from 0 to 1 as scores.

        Raises:
            RequestError: As `ranking`.
        """
        ranking = await self.ranking(body, facts)
        threshold = _share_of_threshold(ranking.judge)
        results: list[dict[str, Any]] = [
            {"index": place, "relevance_score": score} | _same(score, threshold)
            for place, score in ranking.hits(raw=False)
        ]
        if body.return_documents:
            results = [hit | {"document": {"text": ranking.texts[hit["index"]]}} for hit in results]
        units = {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}
        meta = (
            units | {"warnings": ranking.warnings} | ({} if threshold is None else {"threshold": threshold})
        )
        return {
            "id": os.urandom(8).hex(),
            "results": results,
            "model": ranking.judge.name,
            "usage": _usage(facts),
            "meta": meta,
        }

    def listed(self) -> dict[str, Any]:
        """Return the models in OpenAI's form."""
        models, data = self.models, []
        card = {"object": "model", "created": models.created, "owned_by": "juzhen"}
        for name, embedder in models.embedders.items():
            encoder = embedder.encoder
            facts = {"task": "embeddings", "dimension": encoder.dim, "max_tokens": encoder.max_length}
            facts |= {"prompts": sorted(encoder.prompts.texts), "threshold": embedder.threshold.value}
            data.append({"id": name, **card, **facts})
        if (reranker := models.reranker) is not None:
            facts = {"task": "rerank", "max_tokens": reranker.encoder.inner.max_length, "prompts": []}
            data.append({"id": reranker.name, **card, **facts, "threshold": _share_of_threshold(reranker)})
        return {"object": "list", "data": data}

    def info(self) -> dict[str, Any]:
        """Return the first model, limits and thresholds in the form of text-embeddings-inference."""
        models, limits = self.models, self.limits
        encoder = models.embedder.encoder
        return {
            "model_id": models.embedder.name,
            "model_sha": None,
            "model_dtype": str(next(encoder.parameters()).dtype).removeprefix("torch."),
            "model_type": {"embedding": {"pooling": encoder.pooling}},
            "max_concurrent_requests": limits.connections,
            "max_input_length": encoder.max_length,
            "max_batch_tokens": limits.batch_tokens,
            "max_batch_requests": None,
            "max_client_batch_size": limits.texts,
            "auto_truncate": False,
            "tokenization_workers": 1,
            "version": package_version(DISTRIBUTION) or "unknown",
            "sha": None,
            "docker_label": None,
            "thresholds": {name: threshold.facts() for name, threshold in models.thresholds.items()},
        }

    async def _by_embeddings(
        self, models: ServedModels, body: RerankBody, texts: list[str], facts: RequestLog
    ) -> tuple[np.ndarray, list[str]]:
        """Scores of documents where there is no cross-encoder, and what is to be said of it."""
        sides = [ReadBody(input_type=side, truncate=body.truncate) for side in ("query", "document")]
        vector = await self._vectors(models, [body.query], sides[0], facts, param="query")
        vectors = await self._vectors(models, texts, sides[1], facts, param="documents")
        scores = models.embedder.encoder.similarity(vector[0], vectors)
        return scores, [BY_COSINE.format(models.embedder.name)]

    async def _vectors(
        self, models: ServedModels, texts: list[str], body: ReadBody, facts: RequestLog, *, param: str
    ) -> np.ndarray:
        embedder, cut = models.embedder, body.truncate in (True, "END")
        reader = embedder.reader(body.prompt_name, body.input_type)
        inputs, lengths, num_cut = await self._tokenized(
            embedder, texts, lambda: embedder.tokens(texts, reader, param=param, truncate=cut), facts
        )
        facts.cut += num_cut
        return await self._computed(embedder, inputs, lengths, facts)

    async def _tokenized(
        self, engine: Any, texts: Sequence[str], work: Callable[[], Any], facts: RequestLog
    ) -> Any:
        """What `work` makes of texts, in a thread if it takes long or the tokenizer is busy. Counts unknown texts."""

        def counted() -> Any:
            with collected() as seen:
                made = work()
            unknown = sum(readings.unknown for readings in seen.readings.values())
            facts.unknown += unknown
            self.metrics.unknown.inc(unknown)
            return made

        def locked() -> Any:
            with engine.lock:
                return counted()

        with naming("inputs", "input", "texts", "pairs", "query", "documents", "first and second"):
            if sum(map(len, texts)) > QUICK_CHARACTERS or not engine.lock.acquire(blocking=False):
                return await asyncio.to_thread(locked)
            try:
                return counted()
            finally:
                engine.lock.release()

    async def _computed(
        self, engine: Any, inputs: Sequence[Any], lengths: np.ndarray, facts: RequestLog
    ) -> np.ndarray:
        counts = lengths.tolist()
        facts.texts += len(counts)
        facts.tokens += sum(counts)
        answer = self.batcher.submit(facts.client, engine, inputs, counts)
        try:
            done, _ = await asyncio.wait([answer], timeout=PATIENCE)
            if not done:
                gone = asyncio.ensure_future(facts.gone())
                try:
                    await asyncio.wait([answer, gone], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    gone.cancel()
            if not answer.done():
                raise RequestError(499, "the client has gone")
            return np.stack(answer.result())
        finally:
            answer.cancel()

    def _models(self, name: str | None) -> ServedModels:
        embedders = self.models.embedders
        require_model(name, [*embedders])
        return self.models if name is None else replace(self.models, embedder=embedders[name])

    def _texts(self, value: Any, param: str) -> list[str]:
        """A text or a list of them. Raises RequestError for all else, and where the limits are passed."""
        texts = [value] if isinstance(value, str) else value
        self._check_count(texts, param)
        for number, text in enumerate(texts):
            if not isinstance(text, str):
                raise wrong_field(
                    param, f"text {number} is of the type {type(text).__name__}. Expected a text"
                )
            if len(text) > (most := self.limits.characters):
                raise wrong_field(param, f"text {number} has {len(text):,} characters; at most {most:,}")
        return texts

    def _check_numbers(self, values: Sequence[Any], size: int, param: str) -> None:
        if len(values) * size > self.limits.numbers:
            raise wrong_field(
                param,
                f"{len(values):,} embeddings of {size:,} numbers; at most {self.limits.numbers:,} numbers in "
                f"one request: send at most {self.limits.numbers // size:,} texts at a time",
            )

    def _check_count(self, values: Any, param: str) -> None:
        if not isinstance(values, list) or not values:
            raise wrong_field(param, "expected a text, or a list of texts that is not empty")
        if len(values) > (most := self.limits.texts):
            raise wrong_field(param, f"{len(values):,} texts in one request; at most {most:,}")


def _size(embedder: Embedder, dimensions: int | None, param: str) -> int:
    """Numbers of an embedding that are given. Raises RequestError for more than there are."""
    size = embedder.encoder.dim
    if dimensions is not None and dimensions > size:
        raise wrong_field(param, f"{dimensions}; this encoder gives {size}")
    return dimensions or size


def _share_of_threshold(judge: Embedder | Reranker) -> float | None:
    value = judge.threshold.value
    return None if value is None else float(judge.shares(value))


def _require_reachable(least: float | None, scores_by: Embedder | None = None) -> None:
    """Raises RequestError for a `min_score` that no score reaches: of an encoder, or without one a share."""
    if least is not None:
        with naming("min_score"):
            if scores_by is None:
                require_number("min_score", least, 0, 1)
            else:
                require_reachable("min_score", least, scores_by.encoder)


def _decided(scores: np.ndarray, threshold: float | None, least: float | None) -> dict[str, Any]:
    """Scores, null for those below the least, and which are at least the threshold, where it is known."""
    wide = scores.astype(np.float64)
    kept = (
        scores
        if least is None
        else np.where(wide >= least, wide.astype(object), np.array(None, dtype=object))
    )
    reply: dict[str, Any] = {"scores": kept}
    return reply if threshold is None else reply | {"same": wide >= threshold, "threshold": threshold}


def _same(score: float, threshold: float | None) -> dict[str, bool]:
    return {} if threshold is None else {"same": bool(score >= threshold)}


def _require_whole(num_cut: int, body: ReadBody | RerankBody | ScoreBody, param: str, most: int) -> None:
    if num_cut and body.truncate in (False, None, "NONE"):
        problem = f"{num_cut:,} are longer than the {most} tokens that the model reads"
        way_out = "send shorter texts, or truncate: true"
        raise wrong_field(param, f"{problem}; {way_out}", code="context_length_exceeded")


def _refuse_prompt(body: ReadBody, reason: str, *, param: str) -> None:
    if body.prompt_name is not None or body.input_type is not None:
        raise RequestError(400, f"prompt_name, input_type: {reason}", param=param)


def _is_numbers(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(type(number) is int and number >= 0 for number in value)
    )


def packed(vector: np.ndarray) -> str:
    """Encode a vector for `encoding_format=base64`.

    Args:
        vector: Any numbers (dim,).

    Returns:
        Base64 of little-endian float32.
    """
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()


def _usage(facts: RequestLog) -> dict[str, int]:
    return {"prompt_tokens": facts.tokens, "total_tokens": facts.tokens}
