"""Embeddings of a server with OpenAI's protocol, such as `juzhen serve`."""

import base64
import json
from collections.abc import Sequence
from http.client import HTTPException, HTTPMessage
from typing import IO, Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

import numpy as np
from jaxtyping import Float
from typing_extensions import TypedDict

from juzhen.core.columns import require_finite
from juzhen.core.errors import UserError
from juzhen.core.safe_open import parse_json
from juzhen.core.schema import Number, Text, Whole, require_form
from juzhen.core.text import counted

SECONDS = 120.0
AT_ONCE = 64
MOST_BYTES = 64 * 2**20
"""Of an answer: 64 embeddings of 16,384 numbers take half of it."""
PATH = "/v1"


class RemoteModel(TypedDict):
    id: Text


class RemoteModels(TypedDict):
    data: list[RemoteModel]


class RemoteEmbedding(TypedDict):
    index: Whole
    embedding: list[Number] | Text


class RemoteEmbeddings(TypedDict):
    data: list[RemoteEmbedding]


class _Stays(HTTPRedirectHandler):
    """Follows no redirect. The next server would receive the key, and the texts would be lost."""

    def redirect_request(
        self, request: Request, file: IO[bytes], code: int, message: str, headers: HTTPMessage, url: str
    ) -> None:
        return None


class RemoteServer:
    """The first model that a server lists.

    Args:
        address: Such as http://127.0.0.1:8000, with or without /v1.
        key: API key of the server. None: no key.

    Raises:
        UserError: It cannot be reached or answers something else.
    """

    def __init__(self, address: str, key: str | None = None) -> None:
        if key is not None and not (key.isascii() and key.isprintable()):
            raise UserError(
                f"{address}: the key holds characters that no header takes. Set the variable again."
            )
        self._base = address.rstrip("/").removesuffix(PATH) + PATH
        self._key = key
        models = self._ask("/models", RemoteModels)["data"]
        if not models:
            raise UserError(f"{address}: the server lists no model. Start it with one.")
        self.model = str(models[0]["id"])

    def encode(self, texts: Sequence[str]) -> Float[np.ndarray, "texts dim"]:
        """Return embeddings in the order of the texts, by several requests.

        Raises UserError as the class does.
        """
        parts: list[np.ndarray] = []
        for start in range(0, len(texts), AT_ONCE):
            batch = list(texts[start : start + AT_ONCE])
            data = self._ask("/embeddings", RemoteEmbeddings, {"model": self.model, "input": batch})["data"]
            data.sort(key=lambda item: item["index"])
            if [item["index"] for item in data] != list(range(len(batch))):
                raise self._odd(
                    f"{counted(len(data), 'embeddings')} for {counted(len(batch), 'texts')}, or numbers of other texts"
                )
            try:
                rows = [_vector(item["embedding"]) for item in data]
            except ValueError as error:
                raise self._odd(f"an embedding in base64 that cannot be read ({error})") from error
            width = len(parts[0]) if parts else len(rows[0])
            if not width or any(len(row) != width for row in rows):
                raise self._odd(f"embeddings of {sorted({len(row) for row in [*parts[:1], *rows]})} numbers")
            require_finite(np.stack(rows), batch, giver=f"{self._base}")
            parts += rows
        return np.stack(parts)

    def _odd(self, problem: str) -> UserError:
        return UserError(f"{self._base}/embeddings: the server gives {problem}. Compare another server.")

    def _ask(self, path: str, kind: Any, body: Any = None) -> Any:
        """Return the answer of the server, checked to be of this type."""
        headers = {"Content-Type": "application/json"}
        headers |= {"Authorization": f"Bearer {self._key}"} if self._key else {}
        data = None if body is None else json.dumps(body).encode()
        try:
            request = Request(self._base + path, data, headers)
            with build_opener(_Stays).open(request, timeout=SECONDS) as answer:
                content = answer.read(MOST_BYTES + 1)
            if len(content) > MOST_BYTES:
                raise ValueError(f"more than {MOST_BYTES // 2**20} MiB")
            value = parse_json(content)
            require_form(value, kind, "its content")
            return value
        except (OSError, ValueError, HTTPException) as error:
            message = _told(error) if isinstance(error, HTTPError) else ""
            raise UserError(
                f"{self._base}{path}: no answer that can be read ({error or type(error).__name__}{message}). "
                "Give the address of a running server that speaks OpenAI's protocol, and its key."
            ) from error


def _vector(embedding: list[float] | str) -> np.ndarray:
    """Read a vector of numbers or of float32 in base64. Raises ValueError for anything else."""
    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4").astype(np.float32)
    with np.errstate(over="ignore"):  # infinity is refused with its text
        return np.array(embedding, dtype=np.float32)


def _told(error: HTTPError) -> str:
    """Return the start of a server's error message."""
    try:
        text = error.read(500).decode(errors="replace")
    except (OSError, ValueError, HTTPException):
        return ""
    return f", {' '.join(text.split())}" if text.strip() else ""
