"""Schemas of requests and answers, from which the OpenAPI document is generated."""

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import ErrorDetails

from juzhen.core.errors import nearest
from juzhen.core.text import short
from juzhen.serving.errors import RequestError, wrong_field
from juzhen.serving.settings import MOST_PARTS, MOST_TEXTS, MOST_VALUES

TEXT: dict[str, Any] = {"type": "string", "pattern": r"^[^\x00]*[^\s\x00-\x1f\x7f-\x9f][^\x00]*$"}
"""With a character that can be seen, and without NUL: nearly what `text_fault` takes."""

NUMBERS: dict[str, Any] = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}
TEXTS: dict[str, Any] = {"type": "array", "items": TEXT, "minItems": 1}


def _whole(value: Any) -> Any:
    """54 for 54.0, which JSON Schema calls an integer, as some clients write it."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE = BeforeValidator(_whole)

Text = Annotated[str, WithJsonSchema(TEXT)]

OneOrMore = Annotated[Any, WithJsonSchema({"anyOf": [TEXT, TEXTS]})]
"""A text, or a list of texts."""

Input = Annotated[
    Any, WithJsonSchema({"anyOf": [TEXT, TEXTS, NUMBERS, {"type": "array", "items": NUMBERS, "minItems": 1}]})
]
"""Texts, or token numbers as the encoder's tokenizer gives them. A union of pydantic would try each for each item."""

TruncationDirection = Literal["Right", "right"]
"""As text-embeddings-inference has it; a text is cut at its end alone."""

InputType = Annotated[
    Literal["query", "search_query", "document", "passage", "search_document", "classification", "clustering"]
    | None,
    Field(description="the prompt by the use: for queries, for documents, or the default"),
]
Dimensions = Annotated[
    Annotated[int, Field(ge=1), WHOLE] | None,
    Field(description="the first so many numbers, again of length 1"),
]
TopN = Annotated[
    Annotated[int, Field(ge=1), WHOLE] | None, Field(description="how many are given · null: all")
]
Unused = Annotated[Annotated[int, WHOLE] | None, Field(description="taken, and without effect")]

MinScore = (
    Annotated[float, Field(allow_inf_nan=False, description="scores below it are left out · null: none is")]
    | None
)

Threshold = Annotated[float | None, Field(description="the score from which two texts are the same")]


class Body(BaseModel):
    """A request. `parsed` refuses unknown fields."""

    # "forbid" makes an error of each unknown field: 13 µs each, and a body of 4 MiB holds 300,000.
    model_config = ConfigDict(extra="allow", strict=True, json_schema_extra={"additionalProperties": False})

    model: str | None = Field(
        default=None, description="as /v1/models lists it · null: the one that is served"
    )


class ReadBody(Body):
    """A request whose texts are read behind a prompt."""

    prompt_name: str | None = Field(default=None, description="a prompt of the encoder · null: its default")
    input_type: InputType = None
    truncate: bool | Literal["NONE", "END"] | None = Field(
        default=False, description="cut texts that are longer than the encoder reads · false: refuse them"
    )


class EmbeddingsBody(ReadBody):
    """OpenAI's request, with prompts and `truncate`. Embeddings have length 1."""

    input: Input
    encoding_format: Literal["float", "base64"] | None = Field(default="float", description="null: float")
    dimensions: Dimensions = None
    user: str | None = None


class EmbedBody(ReadBody):
    """`texts`, or `inputs` as text-embeddings-inference has them, which are answered with the matrix alone."""

    texts: OneOrMore | None = None
    inputs: OneOrMore | None = None
    dimensions: Annotated[int, Field(ge=1), WHOLE] | None = Field(
        default=None, description="the first so many numbers"
    )
    truncation_direction: TruncationDirection = "Right"
    normalize: bool = Field(
        default=True, description="of length 1 · false: of the length that the encoder gives"
    )


class SimilarityBody(ReadBody):
    first: OneOrMore
    second: OneOrMore
    min_score: MinScore = None


class ScoreBody(ReadBody):
    """Pairs of texts. `model` may be the cross-encoder, which has no prompts."""

    pairs: Annotated[list[tuple[Text, Text]], FailFast(), Field(min_length=1, max_length=MOST_TEXTS)]
    min_score: MinScore = None


class WordsBody(ReadBody):
    first: Text
    second: Text


VALUE: dict[str, Any] = {"type": ["string", "number", "boolean", "null"]}
Filter = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": {"anyOf": [VALUE, {"type": "array", "items": VALUE, "minItems": 1}]},
        }
    ),
]


class SearchBody(ReadBody):
    query: OneOrMore
    top_k: Annotated[int, Field(ge=1, le=1000), WHOLE] = 10
    mode: Literal["dense", "bm25", "hybrid"] = Field(
        default="dense", description="by vectors, by shared terms, or by the ranks of both"
    )
    rerank: bool = Field(default=False, description="the best are put in order by the cross-encoder")
    per_document: bool = Field(
        default=False,
        description="of the passages of a document the best one alone · an index of passages has them",
    )
    filter: Filter | None = Field(
        default=None,
        description="metadata that a text must have · a list: any of its values · a text with a list has its items",
    )
    input_type: InputType = "query"
    min_score: MinScore = None


class Document(BaseModel):
    model_config = ConfigDict(extra="ignore")

    text: Text


class RerankBody(Body):
    """As Cohere and Jina have it."""

    query: Text
    documents: Annotated[list[Text | Document], FailFast(), Field(min_length=1, max_length=MOST_TEXTS)]
    top_n: TopN = None
    return_documents: bool = False
    min_score: MinScore = None
    truncate: bool | Literal["NONE", "END"] = Field(
        default=True, description="cut what is longer than the model reads, and say so · false: refuse it"
    )
    max_tokens_per_doc: Annotated[int, WHOLE] | None = Field(
        default=None, description="taken, and without effect: the model's own limit holds"
    )
    max_chunks_per_doc: Unused = None
    priority: Unused = None
    user: str | None = None


class Usage(BaseModel):
    prompt_tokens: int
    total_tokens: int


class Embedding(BaseModel):
    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingsReply(BaseModel):
    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: Usage


class EmbedReply(BaseModel):
    embeddings: list[list[float]]
    model: str
    dimension: int


class SimilarityReply(BaseModel):
    """One row of scores per first text, null below `min_score`. `same` if the threshold is known."""

    scores: list[list[float | None]]
    same: list[list[bool]] | None = None
    threshold: Threshold = None
    model: str


class ScoreReply(BaseModel):
    """One score per pair, null below `min_score`. `same` if the threshold is known."""

    scores: list[float | None]
    same: list[bool] | None = None
    threshold: Threshold = None
    model: str


class Part(BaseModel):
    """A part of a text. `weight` is the drop of the score without it, null outside words."""

    text: str
    weight: float | None


class WordsReply(BaseModel):
    """Parts in order. Together they are the text."""

    score: float
    first: list[Part]
    second: list[Part]
    model: str


class SearchHit(BaseModel):
    """A text of the index. `ranks` are its ranks in each list, from 1. Passages have a document and a span in it.
    `same` as the query if the threshold is known.
    """

    index: int
    id: str
    text: str
    metadata: dict[str, Any]
    score: float
    ranks: dict[str, int]
    same: bool | None = None
    document: str | None = None
    span: tuple[int, int] | None = None


class SearchReply(BaseModel):
    """Nearest texts of each query, best first. `reranker` is the cross-encoder that gave the scores, if any."""

    results: list[list[SearchHit]]
    model: str
    mode: str
    reranker: str | None
    threshold: Threshold = None


class IndexReply(BaseModel):
    """Facts of the index. A search may name any of `models`."""

    name: str
    texts: int
    kind: str
    dimension: int
    fields: list[str]
    modes: list[str]
    passages: bool
    reranks: bool
    models: list[str]
    bytes_per_vector: float


class Ranked(BaseModel):
    index: int
    relevance_score: float = Field(ge=0, le=1)
    same: bool | None = None
    document: Document | None = None


class RerankReply(BaseModel):
    """Best first. `meta.warnings` counts truncated texts and notes a missing cross-encoder. `meta.threshold` is
    the score from which a document means the same.
    """

    id: str
    results: list[Ranked]
    model: str
    usage: Usage
    meta: dict[str, Any]


class ModelCard(BaseModel):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    task: Literal["embeddings", "rerank"]
    dimension: int | None = None
    max_tokens: int
    prompts: list[str]
    threshold: Threshold = None


class ModelsReply(BaseModel):
    object: Literal["list"]
    data: list[ModelCard]


class ModelThreshold(BaseModel):
    """Decision threshold of a model, and the set whose dev split it was fitted on."""

    threshold: float | None
    set: str | None


class InfoReply(BaseModel):
    """As text-embeddings-inference has it, with the thresholds of all models."""

    model_id: str
    model_sha: str | None
    model_dtype: str
    model_type: dict[str, dict[str, str]]
    max_concurrent_requests: int
    max_input_length: int
    max_batch_tokens: int
    max_batch_requests: int | None
    max_client_batch_size: int
    auto_truncate: bool
    tokenization_workers: int
    version: str
    sha: str | None
    docker_label: str | None
    thresholds: dict[str, ModelThreshold]


class StateReply(BaseModel):
    status: str


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
    input_type: InputType = None
    embedding_types: EmbeddingTypes | None = Field(
        default=None,
        description="int8: each number times 127, rounded · uint8: the same plus 128 · ubinary: the signs of eight "
        "numbers in a byte; binary: the same less 128; null: float",
    )
    output_dimension: Dimensions = None
    truncate: Literal["NONE", "END"] | None = Field(
        default="END", description="cut what is longer than the encoder reads, and say so · NONE: refuse it"
    )
    priority: Unused = None


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
    top_n: TopN = None
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


def parsed(kind: type[Any], content: bytes, *, most_values: int = MOST_VALUES) -> Any:
    """Parse and check the body of a request.

    Parsing holds the interpreter, so values are counted first: a million short lists would take seconds.

    Args:
        kind: Model of the body.
        content: Body as received, JSON in UTF-8.
        most_values: Largest number of commas outside texts, which divide values.

    Returns:
        An object of the model.

    Raises:
        RequestError: Names the first wrong field.
    """
    _require_few(content, most_values)
    try:
        body = kind.model_validate_json(content)
    except ValidationError as error:
        raise _refused(error.errors(include_url=False, include_context=False)[0]) from None
    for name in body.model_extra or ():
        known = nearest(short(name), kind.model_fields)
        raise wrong_field(short(name), f"no such field. {known}")
    return body


def _require_few(content: bytes, most_values: int) -> None:
    """Refuse more than MOST_PARTS strings, lists and objects, or more than `most_values` values."""
    if len(content) <= MOST_PARTS:
        return
    if b"\\" in content:  # then a quote always begins or ends a text
        content = content.replace(b"\\\\", b"").replace(b'\\"', b"")
    texts = content.count(b'"') // 2
    outside = b"" if texts > MOST_PARTS else b"".join(content.split(b'"')[::2])
    if texts + outside.count(b"[") + outside.count(b"{") > MOST_PARTS:
        raise RequestError(
            413, f"the body holds more than {MOST_PARTS:,} texts, lists and objects. Send fewer"
        )
    if outside.count(b",") > most_values:
        raise RequestError(413, f"the body holds more than {most_values:,} values. Send fewer")


def _refused(detail: ErrorDetails) -> RequestError:
    # Without the branches of a union, such as bool and literal['NONE'].
    parts = [part for part in map(str, detail["loc"]) if part.islower() or part.isdigit()]
    path = ".".join(part for part in parts if part not in ("bool", "str")) or None
    message = detail["msg"][:1].lower() + detail["msg"][1:]
    if "hex escape" in message or "unicode code point" in message:
        message = "a text holds half a surrogate pair, which is no character"
    if detail["type"] == "json_invalid":
        return RequestError(400, f"the body is no JSON: {short(message, 200)}", code="invalid_json")
    return RequestError(400, f"{path or 'body'}: {short(message, 200)}", param=path)
