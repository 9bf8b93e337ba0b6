"""What clients of other servers send and read: Cohere's embeddings, text-embeddings-inference, Infinity."""

import os
import time
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, BaseModel, Field

from juzhen.serving.errors import RequestError
from juzhen.serving.schemas import (
    WHOLE,
    Body,
    Document,
    EmbeddingsBody,
    EmbeddingsReply,
    InputType,
    ReadBody,
    RerankBody,
    Text,
    TruncationDirection,
    Usage,
)
from juzhen.serving.service import RequestLog, Service, packed
from juzhen.serving.settings import MOST_TEXTS

ANY_MODEL = "default/not-specified"
"""What Infinity's client sends where its user names no model."""

EmbeddingTypes = Annotated[
    list[Literal["float", "base64", "int8", "uint8", "binary", "ubinary"]],
    Field(max_length=12, fail_fast=True),
]

InfinityModel = Annotated[str | None, AfterValidator(lambda name: None if name == ANY_MODEL else name)]
Texts = Annotated[list[Text], Field(min_length=1, max_length=MOST_TEXTS, fail_fast=True)]
Matrix = list[list[float]]
Documents = Annotated[list[Text | Document], Field(min_length=1, max_length=MOST_TEXTS, fail_fast=True)]


class CohereEmbedBody(Body):
    """As Cohere has it, without images. Embeddings are of length 1, so their numbers are from -1 to 1."""

    texts: Texts
    input_type: InputType | None = Field(
        default=None, description="the prompt by the use: for queries, for documents, or the default"
    )
    embedding_types: EmbeddingTypes | None = Field(
        default=None,
        description="int8: each number times 127, rounded · uint8: the same plus 128 · ubinary: the signs of eight "
        "numbers in a byte; binary: the same less 128; null: float",
    )
    output_dimension: Annotated[int, Field(ge=1), WHOLE] | None = Field(
        default=None, description="the first so many numbers, again of length 1"
    )
    truncate: Literal["NONE", "END"] | None = Field(
        default="END", description="cut what is longer than the encoder reads, and say so · NONE: refuse it"
    )
    priority: Annotated[int, WHOLE] | None = Field(default=None, description="taken, and without effect")


class EmbeddingsByType(BaseModel):
    float: Matrix | None = None
    base64: list[str] | None = None
    int8: list[list[int]] | None = None
    uint8: list[list[int]] | None = None
    binary: list[list[int]] | None = None
    ubinary: list[list[int]] | None = None


class CohereEmbedReply(BaseModel):
    """`embeddings` by type, or a plain matrix for /v1/embed without `embedding_types`."""

    response_type: Literal["embeddings_by_type", "embeddings_floats"]
    id: str
    embeddings: EmbeddingsByType | Matrix
    texts: list[str]
    meta: dict[str, Any]


class InfinityEmbeddingsBody(EmbeddingsBody):
    """As Infinity has it: texts that are too long are cut."""

    model: InfinityModel = None
    dimensions: Annotated[int, Field(ge=0), WHOLE] | None = Field(
        default=None, description="the first so many numbers, again of length 1 · 0: all"
    )
    truncate: bool | Literal["NONE", "END"] | None = True
    modality: Literal["text"] = "text"


class InfinityEmbeddingsReply(EmbeddingsReply):
    """`meta.warnings` counts truncated texts."""

    id: str
    created: int
    meta: dict[str, Any]


class ListRerankBody(Body):
    """`texts`, as text-embeddings-inference has them, or `documents`, as Infinity has them."""

    model: InfinityModel = None
    query: Text
    texts: Texts | None = None
    documents: Documents | None = None
    top_n: Annotated[int, Field(ge=1), WHOLE] | None = Field(
        default=None, description="how many are given · null: all"
    )
    raw_scores: bool = Field(default=False, description="as the model gives them, not from 0 to 1")
    return_text: bool = False
    return_documents: bool = False
    truncate: bool | None = Field(
        default=None, description="cut what is longer than the model reads · null: documents alone are cut"
    )
    truncation_direction: TruncationDirection = "Right"


class Rank(BaseModel):
    index: int
    score: float
    text: str | None = None


class InfinityRanked(BaseModel):
    index: int
    relevance_score: float
    document: str | None = None


class InfinityRerankReply(BaseModel):
    """Best first. `meta.warnings` counts truncated texts and notes a missing cross-encoder."""

    object: Literal["rerank"]
    results: list[InfinityRanked]
    model: str
    usage: Usage
    id: str
    created: int
    meta: dict[str, Any]


class InfinityStats(BaseModel):
    queue_fraction: float
    queue_absolute: int
    results_pending: int
    batch_size: int


class InfinityModelCard(BaseModel):
    id: str
    stats: InfinityStats
    object: Literal["model"]
    owned_by: Literal["infinity"]
    created: int
    backend: str
    capabilities: list[str]


class InfinityModelsReply(BaseModel):
    object: Literal["list"]
    data: list[InfinityModelCard]


class Clients:
    """Answers of a service in the forms of other servers."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def embed_v1(self, body: CohereEmbedBody, facts: RequestLog) -> dict[str, Any]:
        return await self._embed(body, facts, version="1")

    async def embed_v2(self, body: CohereEmbedBody, facts: RequestLog) -> dict[str, Any]:
        return await self._embed(body, facts, version="2")

    async def _embed(self, body: CohereEmbedBody, facts: RequestLog, *, version: str) -> dict[str, Any]:
        types = body.embedding_types or ["float"]
        reading = ReadBody(model=body.model, input_type=body.input_type, truncate=body.truncate)
        vectors, _ = await self._service.vectors_of(
            body.texts,
            reading,
            facts,
            param="texts",
            dimensions=body.output_dimension,
            dimensions_param="output_dimension",
            copies=len(types),
        )
        is_plain = version == "1" and not body.embedding_types
        units = {"input_tokens": facts.tokens}
        return {
            "response_type": "embeddings_floats" if is_plain else "embeddings_by_type",
            "id": os.urandom(8).hex(),
            "embeddings": vectors if is_plain else {name: _as_type(vectors, name) for name in types},
            "texts": body.texts,
            "meta": {"api_version": {"version": version}, "billed_units": units, **_warnings(facts)},
        }

    async def embeddings(self, body: InfinityEmbeddingsBody, facts: RequestLog) -> dict[str, Any]:
        body.dimensions = body.dimensions or None
        return await self._service.embeddings(body, facts) | self._identity() | {"meta": _warnings(facts)}

    async def rerank(self, body: ListRerankBody, facts: RequestLog) -> Any:
        if body.texts is None:
            return await self._rerank_documents(body, facts)
        if body.documents is not None:
            raise RequestError(400, "texts, documents: give one of the two", param="texts")
        if self._service.models.reranker is None:
            message = "texts: no cross-encoder is served. Start the server with --rerank"
            raise RequestError(400, message, param="texts")
        asked = self._asked(body, body.texts, truncate=bool(body.truncate))
        ranking = await self._service.ranking(asked, facts)
        texts = body.texts
        return [
            {"index": place, "score": score} | ({"text": texts[place]} if body.return_text else {})
            for place, score in ranking.hits(raw=body.raw_scores)
        ]

    async def _rerank_documents(self, body: ListRerankBody, facts: RequestLog) -> dict[str, Any]:
        if body.documents is None:
            raise RequestError(400, "documents: expected documents, or texts", param="documents")
        asked = self._asked(body, body.documents, truncate=body.truncate is not False)
        ranking = await self._service.ranking(asked, facts)
        texts = ranking.texts
        results = [
            {"index": place, "relevance_score": score}
            | ({"document": texts[place]} if body.return_documents else {})
            for place, score in ranking.hits(raw=body.raw_scores)
        ]
        usage = {"prompt_tokens": facts.tokens, "total_tokens": facts.tokens}
        reply = {"object": "rerank", "results": results, "model": ranking.judge.name, "usage": usage}
        return reply | self._identity() | {"meta": {"warnings": ranking.warnings}}

    def models(self) -> dict[str, Any]:
        service = self._service
        stats = {
            "queue_fraction": service.batcher.tokens / service.limits.queue_tokens,
            "queue_absolute": service.batcher.tokens,
            "results_pending": service.batcher.tokens,
            "batch_size": service.limits.texts,
        }
        card = {"stats": stats, "object": "model", "owned_by": "infinity", "backend": "torch"}
        data = [
            {
                **card,
                "id": each["id"],
                "created": each["created"],
                "capabilities": ["rerank" if each["task"] == "rerank" else "embed"],
            }
            for each in service.listed()["data"]
        ]
        return {"object": "list", "data": data}

    def _asked(self, body: ListRerankBody, documents: list[Any], *, truncate: bool) -> RerankBody:
        return RerankBody.model_construct(
            model=body.model, query=body.query, documents=documents, top_n=body.top_n, truncate=truncate
        )

    def _identity(self) -> dict[str, Any]:
        return {"id": os.urandom(8).hex(), "created": int(time.time())}


def _as_type(vectors: np.ndarray, name: str) -> Any:
    """Embeddings of length 1 as a type of Cohere's: numbers, their bytes, steps of 1/127, or their signs, eight in a
    byte.

    One step for all numbers and encoders: scores of int8 are those of the embeddings times 127², and texts that are
    encoded apart can be compared. No number of a unit vector is cut.
    """
    if name == "float":
        return vectors
    if name == "base64":
        return map(packed, vectors)
    if name in ("int8", "uint8"):
        steps = np.rint(vectors * 127).astype(np.int16)
        return steps.astype(np.int8) if name == "int8" else (steps + 128).astype(np.uint8)
    signs = np.packbits(vectors > 0, axis=1)
    return signs if name == "ubinary" else (signs.astype(np.int16) - 128).astype(np.int8)


def _warnings(facts: RequestLog) -> dict[str, list[str]]:
    return {"warnings": [f"{facts.cut:,} of {facts.texts:,} texts were cut"] if facts.cut else []}
