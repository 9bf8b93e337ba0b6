"""The HTTP interface: paths, bodies, answers, and the document that describes them."""

import html
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI, Request
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from juzhen.core.machine import package_version
from juzhen.core.paths import DISTRIBUTION
from juzhen.serving import bodies
from juzhen.serving.clients import (
    Clients,
    CohereEmbedBody,
    CohereEmbedReply,
    InfinityEmbeddingsBody,
    InfinityEmbeddingsReply,
    InfinityModelsReply,
    InfinityRerankReply,
    ListRerankBody,
    Rank,
)
from juzhen.serving.document import body_schemas
from juzhen.serving.errors import ErrorReply, RequestError, json_response, written
from juzhen.serving.page import add_page
from juzhen.serving.service import Service
from juzhen.serving.settings import Limits
from juzhen.serving.tables import add_tables

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
LOOPBACK = ("127.0.0.1", "::1", "localhost")
ELSEWHERE = ("origin", "x-forwarded-for", "forwarded", "x-real-ip", "via")
"""Headers of a page, or of a proxy of this machine that passes on what others ask."""


def make_app(service: Service) -> FastAPI:
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

    def post(path: str, body: type[BaseModel], reply: Any, answer: Answer, about: str) -> None:
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

        responses: dict[int | str, dict[str, Any]] = {
            200: {"model": reply},
            401: REFUSALS[401],
            403: REFUSALS[403],
        }
        responses |= {status: {"model": reply, "description": "not now"} for status in statuses}
        responses |= {status: REFUSALS[status] for status in refused}
        app.add_api_route(path, endpoint, methods=["GET"], summary=about, responses=responses)

    post(
        "/v1/embeddings",
        bodies.EmbeddingsBody,
        bodies.EmbeddingsReply,
        service.embeddings,
        "Embeddings, as OpenAI has it",
    )
    for version in ("v1", "v2"):
        post(
            f"/{version}/rerank",
            bodies.RerankBody,
            bodies.RerankReply,
            service.rerank,
            "Documents by their relevance, as Cohere and Jina have it",
        )
    for version, embed in (("v1", clients.embed_v1), ("v2", clients.embed_v2)):
        post(f"/{version}/embed", CohereEmbedBody, CohereEmbedReply, embed, "Embeddings, as Cohere has it")
    post(
        "/embed",
        bodies.EmbedBody,
        bodies.EmbedReply | list[list[float]],
        service.embed,
        "Embeddings as a plain matrix; with inputs as text-embeddings-inference has it",
    )
    post(
        "/embeddings",
        InfinityEmbeddingsBody,
        InfinityEmbeddingsReply,
        clients.embeddings,
        "Embeddings, as Infinity has it",
    )
    post(
        "/rerank",
        ListRerankBody,
        InfinityRerankReply | list[Rank],
        clients.rerank,
        "Texts by their relevance, as text-embeddings-inference and Infinity have it",
    )
    post(
        "/similarity",
        bodies.SimilarityBody,
        bodies.SimilarityReply,
        service.similarity,
        "Each text with each of others",
    )
    post("/score", bodies.ScoreBody, bodies.ScoreReply, service.score, "The score of each pair")
    post(
        "/words",
        bodies.WordsBody,
        bodies.WordsReply,
        service.words,
        "The words of two texts that carry their score",
    )
    post("/search", bodies.SearchBody, bodies.SearchReply, service.search, "The nearest texts of the index")
    get("/index", bodies.IndexReply, lambda: (service.index_facts(),), "What is searched", refused=(404,))
    get("/info", bodies.InfoReply, lambda: (service.info(),), "The model, its limits and its threshold")
    get("/models", InfinityModelsReply, lambda: (clients.models(),), "What is served, as Infinity has it")
    get("/v1/models", bodies.ModelsReply, lambda: (service.listed(),), "What is served")
    get("/health", bodies.StateReply, lambda: _health(service), "Whether the process works", 503)
    get("/ready", bodies.StateReply, lambda: _readiness(service), "Whether requests should be sent here", 503)
    _add_rest(app, service)
    add_page(app)
    add_tables(app)

    def openapi() -> dict[str, Any]:
        document = FastAPI.openapi(app)
        document["components"]["schemas"] |= body_schemas(kinds, service.models)
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
        is_local = request.client is not None and request.client.host in LOOPBACK
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
    return bodies.parsed(kind, await request.body(), most_values=limits.values)


def _health(service: Service) -> tuple[dict[str, str], int]:
    return (
        ({"status": "ok"}, 200)
        if service.batcher.is_alive
        else ({"status": "the thread of batches has ended"}, 503)
    )


def _readiness(service: Service) -> tuple[dict[str, str], int]:
    if service.is_draining:
        return {"status": "stopping"}, 503
    is_full = service.batcher.tokens >= service.limits.queue_tokens
    return ({"status": "full"}, 503) if is_full else ({"status": "ready"}, 200)


async def _refusal(request: Request, error: Exception) -> Response:
    if isinstance(error, RequestError):
        return error.response
    assert isinstance(error, HTTPException)
    messages = {404: "no such path; see /docs", 405: "this path takes another method; see /docs"}
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
