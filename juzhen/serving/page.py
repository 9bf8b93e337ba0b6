"""The page at `/`: files of the package that ask nothing of any other host."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from fastapi import FastAPI
from starlette.responses import Response

from juzhen.core.safe_open import read_bytes

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


def add_page(app: FastAPI) -> None:
    for path, (name, kind) in PAGE_FILES.items():
        content = read_bytes(Path(__file__).parent / "web" / name)
        app.add_api_route(path, _answer(content, kind), methods=["GET"], include_in_schema=False)


def _answer(content: bytes, kind: str) -> Callable[[], Awaitable[Response]]:
    async def answer() -> Response:
        return Response(content, media_type=f"{kind}; charset=utf-8", headers=HEADERS)

    return answer
