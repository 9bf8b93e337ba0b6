"""The HTTP interface: paths, bodies, answers, and the OpenAPI document.

Clients of other servers are answered in their forms: Cohere, text-embeddings-inference, Infinity.
"""

import asyncio
import html
import inspect
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from fastapi import FastAPI, Request
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from juzhen.core.errors import UserError
from juzhen.core.machine import package_version
from juzhen.core.paths import DISTRIBUTION
from juzhen.core.safe_open import read_bytes
from juzhen.core.text import short
from juzhen.data.excel import EXCEL
from juzhen.data.row_kinds import find_columns, pair_columns, text_cells
from juzhen.data.tables import DELIMITERS, JSON, TableReading, read_own_table
from juzhen.serving import schemas
from juzhen.serving.errors import ErrorReply, RequestError, json_response, naming, written, wrong_field
from juzhen.serving.models import ServedModels, require_model
from juzhen.serving.service import RequestLog, Service, packed
from juzhen.serving.settings import Limits, is_loopback


def _body_schemas(kinds: Sequence[type[BaseModel]], models: ServedModels) -> dict[str, Any]:
    """Return the schema of each body by name.

    `prompt_name` lists the served prompts and `filter` the metadata of the index. Options that this server lacks
    are fixed at their default.
    """
    _, schemas = models_json_schema(
        [(kind, "validation") for kind in kinds], ref_template="#/components/schemas/{model}"
    )
    prompts = sorted({name for each in models.embedders.values() for name in each.encoder.prompts.texts})
    facts: dict[str, Any] = {"fields": [], "modes": [], "passages": False}
    if models.corpus is not None:
        facts = models.corpus.index.facts()
    fields, can = facts["fields"], {"rerank": models.reranker is not None, "per_document": facts["passages"]}
    for schema in schemas["$defs"].values():
        properties = schema.get("properties", {})
        if "prompt_name" in properties:
            _narrow(properties["prompt_name"], {"type": "string", "enum": prompts} if prompts else None)
        if "filter" in properties:
            (values,) = (option for option in properties["filter"]["anyOf"] if option["type"] == "object")
            names = {"propertyNames": {"enum": list(fields)}}
            _narrow(properties["filter"], {**values, **names} if fields else None)
        for name in properties.keys() & {"dimensions", "output_dimension"}:
            most = max(each.encoder.dim for each in models.embedders.values())
            properties[name]["anyOf"][0]["maximum"] = most
        for name in properties.keys() & can:
            properties[name] |= {} if can[name] else {"const": False}
        if "mode" in properties and facts["modes"]:
            properties["mode"]["enum"] = list(facts["modes"])
    return dict(schemas["$defs"])


def _narrow(field: dict[str, Any], option: dict[str, Any] | None) -> None:
    """Allow only `option` or null for a field."""
    field["anyOf"] = [*([option] if option else []), {"type": "null"}]


PAGE_FILES = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/pairs.js": ("pairs.js", "text/javascript"),
    "/parts.js": ("parts.js", "text/javascript"),
    "/words.js": ("words.js", "text/javascript"),
}
"""Path → file and its kind."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Only these files run, they make no markup of a text, and they ask this server alone."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def _add_page(app: FastAPI) -> None:
    for path, (name, kind) in PAGE_FILES.items():
        content = read_bytes(Path(__file__).parent / "web" / name)
        app.add_api_route(path, _answer(content, kind), methods=["GET"], include_in_schema=False)


def _answer(content: bytes, kind: str) -> Callable[[], Awaitable[Response]]:
    async def answer() -> Response:
        return Response(content, media_type=f"{kind}; charset=utf-8", headers=HEADERS)

    return answer


CONTENT_TYPE = "application/octet-stream"
"""No form of a foreign page can send it without being allowed to."""

FORMATS = (*DELIMITERS, *JSON, EXCEL)
MOST_ROWS = 20_000
MOST_CHARACTERS = 2**23
"""Of all cells together."""
MOST_BYTES = 2**26
"""That a file of Excel may unpack to, whatever its size."""

READERS = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tables")
"""One file at a time: others wait."""


def _add_tables(app: FastAPI) -> None:
    """The path /table, which the page alone asks."""

    @app.post("/table", include_in_schema=False)
    async def table(request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != CONTENT_TYPE:
            raise RequestError(415, f"expected the bytes of a file: Content-Type: {CONTENT_TYPE}")
        asked, content = request.query_params, await request.body()
        if (given := asked.get("header", "")) not in ("", "0", "1"):
            raise wrong_field("header", "expected 0 or 1")
        header = {"0": False, "1": True}.get(given)
        read = asyncio.get_running_loop().run_in_executor(
            READERS, _read_pairs, asked.get("name", ""), content, header, asked.get("sheet") or None
        )
        return await written(await read)


def _read_pairs(name: str, content: bytes, header: bool | None, sheet: str | None) -> dict[str, Any]:
    """What the page shows of a file: names, cells, and which columns are the two texts and the label.

    Raises RequestError for a file that cannot be read, or that has too many rows.
    """
    path: Any = PurePosixPath(name.replace("\\", "/").rpartition("/")[2])
    if path.suffix.lower() not in FORMATS:
        expected = ", ".join(FORMATS)
        raise RequestError(
            400, f"{path.name or 'name'}: this format is not read here. Expected {expected}", param="name"
        )
    reading = TableReading(header=header, sheet=sheet, spell=lambda _, value: f"choosing {value}")
    with naming("name"):
        table = read_own_table(path, reading, content=content, most_bytes=MOST_BYTES)
        if len(table.lines) > MOST_ROWS:
            raise UserError(
                f"{path}: {len(table.lines):,} rows, and {MOST_ROWS:,} at most are scored here. Type juzhen score "
                "--file"
            )
        raw = text_cells(table, reading)
        if (size := sum(int(raw.cells[name].str.len().sum()) for name in raw.names)) > MOST_CHARACTERS:
            raise UserError(
                f"{path}: {size:,} characters, and {MOST_CHARACTERS:,} at most are scored here. Type juzhen "
                "score --file"
            )
    try:
        chosen, unclear = [raw.names.index(name) for name in pair_columns(raw)], None
    except UserError as error:
        chosen, unclear = [0, min(1, len(raw.names) - 1)], str(error)
    gold = find_columns(raw)[1]
    line, fault = min(raw.faults.items(), default=(0, ""))
    return {
        "name": path.name,
        "format": table.format,
        "header": None if path.suffix.lower() in JSON else bool(table.names),
        "names": raw.names if table.names else [""] * len(raw.names),
        "rows": raw.cells.to_numpy().tolist(),
        "columns": {"a": chosen[0], "b": chosen[1], "gold": -1 if gold is None else raw.names.index(gold)},
        "unclear": unclear,
        "sheets": [*table.sheets],
        "left_out": {"rows": len(raw.faults), "first": f"{table.at(line)}: {fault}" if fault else ""},
    }


class Clients:
    """Answers of a service in the forms of other servers.

    Args:
        service: The service.
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    async def embed_v1(self, body: schemas.CohereEmbedBody, facts: RequestLog) -> dict[str, Any]:
        """Answer /v1/embed of Cohere.

        Args:
            body: Checked body of the request.
            facts: Counts of the request, which are added to.

        Returns:
            The reply: a plain matrix, or a matrix a type if types were requested.

        Raises:
            RequestError: As `Service.vectors_of`.
        """
        return await self._embed(body, facts, version="1")

    async def embed_v2(self, body: schemas.CohereEmbedBody, facts: RequestLog) -> dict[str, Any]:
        """Answer /v2/embed of Cohere.

        Args:
            body: Checked body of the request.
            facts: Counts of the request, which are added to.

        Returns:
            The reply, with a matrix a type.

        Raises:
            RequestError: As `Service.vectors_of`.
        """
        return await self._embed(body, facts, version="2")

    async def _embed(
        self, body: schemas.CohereEmbedBody, facts: RequestLog, *, version: str
    ) -> dict[str, Any]:
        types = body.embedding_types or ["float"]
        reading = schemas.ReadBody(model=body.model, input_type=body.input_type, truncate=body.truncate)
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

    async def embeddings(self, body: schemas.InfinityEmbeddingsBody, facts: RequestLog) -> dict[str, Any]:
        """Answer /embeddings of Infinity.

        Args:
            body: Checked body of the request. 0 dimensions mean all.
            facts: Counts of the request, which are added to.

        Returns:
            The reply of `Service.embeddings`, with warnings.

        Raises:
            RequestError: As `Service.embeddings`.
        """
        body.dimensions = body.dimensions or None
        return await self._service.embeddings(body, facts) | self._identity() | {"meta": _warnings(facts)}

    async def rerank(self, body: schemas.ListRerankBody, facts: RequestLog) -> Any:
        """Answer /rerank of text-embeddings-inference and of Infinity.

        Args:
            body: Checked body of the request, with `texts` or `documents`.
            facts: Counts of the request, which are added to.

        Returns:
            With `texts` a list of positions and scores, best first. With `documents` the reply of Infinity.

        Raises:
            RequestError: Both are given, or a cross-encoder is needed and missing.
        """
        if body.texts is None:
            return await self._rerank_documents(body, facts)
        if body.documents is not None:
            raise RequestError(400, "texts, documents: give one of the two", param="texts")
        if self._service.models.reranker is None:
            raise wrong_field("texts", "no cross-encoder is served. Start the server with --rerank")
        if body.return_documents:
            raise wrong_field("return_documents", "with texts it is return_text")
        asked, texts = self._asked(body, body.texts, truncate=bool(body.truncate)), body.texts
        try:
            ranking = await self._service.ranking(asked, facts)
        except RequestError as error:  # which names the field of the other form
            error.message = error.message.replace("documents", "texts", 1)
            error.param = (error.param or "").replace("documents", "texts") or None
            raise
        return [
            {"index": place, "score": score} | ({"text": texts[place]} if body.return_text else {})
            for place, score in ranking.hits(raw=body.raw_scores)
        ]

    async def _rerank_documents(self, body: schemas.ListRerankBody, facts: RequestLog) -> dict[str, Any]:
        if body.documents is None:
            raise wrong_field("documents", "expected documents, or texts")
        if body.return_text:
            raise wrong_field("return_text", "with documents it is return_documents")
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
        """List the models in the form of Infinity.

        Returns:
            `object` and `data`, one entry for each model.
        """
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

    def _asked(
        self, body: schemas.ListRerankBody, documents: list[Any], *, truncate: bool
    ) -> schemas.RerankBody:
        return schemas.RerankBody.model_construct(
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


Answer = Callable[[Any, Any], Awaitable[Any]]

REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorReply, "description": "a field that does not fit; the message names it"},
    401: {"model": ErrorReply, "description": "no API key, or a wrong one"},
    403: {"model": ErrorReply, "description": "not allowed from where the request comes from"},
    404: {"model": ErrorReply, "description": "a model that is not served, or nothing to search"},
    413: {"model": ErrorReply, "description": "too large"},
    415: {"model": ErrorReply, "description": "a body that is not application/json"},
    429: {"model": ErrorReply, "description": "too much waits; Retry-After says how long"},
    500: {"model": ErrorReply, "description": "the server has failed"},
    503: {"model": ErrorReply, "description": "not answered in time, or the server stops"},
}
ELSEWHERE = ("origin", "x-forwarded-for", "forwarded", "x-real-ip", "via")
"""Headers of a page, or of a proxy of this machine that passes on what others ask."""


def make_app(service: Service) -> FastAPI:
    """Make the application with all paths of a service.

    Args:
        service: Answers the requests.

    Returns:
        An application of FastAPI, with an OpenAPI document.
    """
    app = FastAPI(
        title="juzhen",
        version=package_version(DISTRIBUTION) or "unknown",
        summary="Sentence embeddings, similarity, search and reranking",
        docs_url=None,  # Swagger's page asks another host for its scripts
        redoc_url=None,
        separate_input_output_schemas=False,
    )
    kinds: list[type[BaseModel]] = []
    clients = Clients(service)

    def post(path: str, reply: Any, answer: Answer, about: str) -> None:
        """Add a path. Its body is what `answer` declares."""
        body = inspect.signature(answer).parameters["body"].annotation

        async def endpoint(request: Request) -> Response:
            return await written(
                await answer(await _body(request, body, service.limits), request.scope["facts"])
            )

        kinds.append(body)
        reference = {"schema": {"$ref": f"#/components/schemas/{body.__name__}"}}
        content = {"required": True, "content": {"application/json": reference}}
        app.add_api_route(
            path,
            endpoint,
            methods=["POST"],
            summary=about,
            operation_id=path.strip("/").replace("/", "_"),
            responses={200: {"model": reply}, **REFUSALS},
            openapi_extra={"requestBody": content},
        )
        if path == "/embed":  # where clients of the hub ask a server of embeddings
            app.add_api_route("/", endpoint, methods=["POST"], include_in_schema=False)

    def get(
        path: str,
        reply: type[BaseModel],
        answer: Callable[[], Any],
        about: str,
        *statuses: int,
        refused: tuple[int, ...] = (),
    ) -> None:
        async def endpoint() -> Response:
            return json_response(*answer())

        responses: dict[int | str, dict[str, Any]] = {200: {"model": reply}}
        responses |= {status: REFUSALS[status] for status in (401, 403, *refused)}
        responses |= {status: {"model": reply, "description": "not now"} for status in statuses}
        app.add_api_route(path, endpoint, methods=["GET"], summary=about, responses=responses)

    post("/v1/embeddings", schemas.EmbeddingsReply, service.embeddings, "Embeddings, as OpenAI has it")
    about = "Documents by their relevance, as Cohere and Jina have it"
    post("/v1/rerank", schemas.RerankReply, service.rerank, about)
    post("/v2/rerank", schemas.RerankReply, service.rerank, about)
    post("/v1/embed", schemas.CohereEmbedReply, clients.embed_v1, "Embeddings, as Cohere has it")
    post("/v2/embed", schemas.CohereEmbedReply, clients.embed_v2, "Embeddings, as Cohere has it")
    about = "Embeddings as a plain matrix; with inputs as text-embeddings-inference has it"
    post("/embed", schemas.EmbedReply | schemas.Matrix, service.embed, about)
    post("/embeddings", schemas.InfinityEmbeddingsReply, clients.embeddings, "Embeddings, as Infinity has it")
    about = "Texts by their relevance, as text-embeddings-inference and Infinity have it"
    post("/rerank", schemas.InfinityRerankReply | list[schemas.Rank], clients.rerank, about)
    post("/similarity", schemas.SimilarityReply, service.similarity, "Each text with each of others")
    post("/score", schemas.ScoreReply, service.score, "The score of each pair")
    post("/words", schemas.WordsReply, service.words, "The words of two texts that carry their score")
    post("/search", schemas.SearchReply, service.search, "The nearest texts of the index")
    get("/index", schemas.IndexReply, lambda: (service.index_facts(),), "What is searched", refused=(404,))
    get("/info", schemas.InfoReply, lambda: (service.info(),), "The model, its limits and its threshold")
    about = "What is served, as Infinity has it"
    get("/models", schemas.InfinityModelsReply, lambda: (clients.models(),), about)
    get("/v1/models", schemas.ModelsReply, lambda: (service.listed(),), "What is served")

    @app.get(
        "/v1/models/{model:path}",
        summary="One served model",
        responses={
            200: {"model": schemas.ModelCard},
            **{status: REFUSALS[status] for status in (401, 403, 404)},
        },
    )
    async def card(model: str) -> Response:
        cards = {each["id"]: each for each in service.listed()["data"]}
        require_model(model, [*cards])
        return json_response(cards[model])

    get("/health", schemas.StateReply, lambda: _health(service), "Whether the process works", 503)
    about = "Whether requests should be sent here"
    get("/ready", schemas.StateReply, lambda: _readiness(service), about, 503)
    _add_rest(app, service)
    _add_page(app)
    _add_tables(app)

    def openapi() -> dict[str, Any]:
        document = FastAPI.openapi(app)
        document["components"]["schemas"] |= _body_schemas(kinds, service.models)
        return document

    app.openapi = openapi  # type: ignore[method-assign]
    app.add_exception_handler(RequestError, _refusal)
    app.add_exception_handler(HTTPException, _refusal)
    app.add_exception_handler(Exception, _failure)
    return app


def _add_rest(app: FastAPI, service: Service) -> None:
    """Paths whose answers are no JSON, or that no client asks for."""

    @app.get(
        "/metrics",
        summary="For Prometheus",
        response_class=Response,
        responses={200: {"content": {"text/plain": {}}}},
    )
    async def metrics() -> Response:
        return Response(service.metrics.page(), media_type="text/plain; version=0.0.4")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(_page(app.openapi()))

    @app.post("/admin/reload", include_in_schema=False)
    async def reload(request: Request) -> Response:
        is_local = request.client is not None and is_loopback(request.client.host)
        if not is_local or any(name in request.headers for name in ELSEWHERE):
            raise RequestError(403, "only a program of this machine may load a model")
        if service.limits.processes > 1:
            raise RequestError(409, "one of several processes has read this; SIGHUP loads the models in all")
        try:
            await service.reload()
        except Exception as error:
            raise RequestError(500, f"the models before it are served on: {error}") from error
        return json_response(service.listed())


async def _body(request: Request, kind: type[BaseModel], limits: Limits) -> Any:
    sort = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if sort != "application/json" and not sort.endswith("+json"):
        raise RequestError(415, "expected a body of JSON: Content-Type: application/json")
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise RequestError(415, f"Content-Encoding: {short(encoding)} is not read. Send the body as it is")
    return schemas.parsed(kind, await request.body(), most_values=limits.values)


def _health(service: Service) -> tuple[dict[str, str], int]:
    if service.batcher.is_alive:
        return {"status": "ok"}, 200
    return {"status": "the thread of batches has ended"}, 503


def _readiness(service: Service) -> tuple[dict[str, str], int]:
    if service.is_draining:
        return {"status": "stopping"}, 503
    is_full = service.batcher.tokens >= service.limits.queue_tokens
    return ({"status": "full"}, 503) if is_full else ({"status": "ready"}, 200)


async def _refusal(request: Request, error: Exception) -> Response:
    if isinstance(error, RequestError):
        return error.response
    assert isinstance(error, HTTPException)
    messages = {404: "no such path. See /docs", 405: "this path takes another method. See /docs"}
    response = RequestError(error.status_code, messages.get(error.status_code, str(error.detail))).response
    response.headers.update(error.headers or {})
    return response


async def _failure(request: Request, error: Exception) -> Response:
    return RequestError(500, f"the server has failed ({type(error).__name__}); its log says more").response


def _page(document: dict[str, Any]) -> str:
    """The document as a page without scripts: paths, and the fields of their bodies."""
    schemas, parts = document["components"]["schemas"], []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts.append(f"<h2><code>{method.upper()} {html.escape(path)}</code></h2>")
            parts.append(f"<p>{html.escape(operation.get('summary', ''))}</p>")
            content = operation.get("requestBody", {}).get("content", {})
            for media in content.values():
                schema = schemas[media["schema"]["$ref"].rpartition("/")[2]]
                for name, field in schema["properties"].items():
                    note = "" if name in schema.get("required", ()) else f"default {field.get('default')!r}"
                    description = ", ".join(filter(None, (note, field.get("description", ""))))
                    parts.append(f"<li><code>{name}</code> {html.escape(description)}</li>")
    style = (
        "body{font:16px/1.5 system-ui;max-width:50em;margin:2em auto;padding:0 1em;color-scheme:light dark}"
    )
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>juzhen</title><style>{style}</style>'
    return f'{head}<h1>juzhen</h1><p><a href="openapi.json">OpenAPI</a></p>{"".join(parts)}</html>'
