"""JSON answers, and errors in the form of OpenAI's API."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.responses import Response, StreamingResponse

from juzhen.core.errors import UserError

PIECE_BYTES = 65_536
"""Of an answer that are written at a time; other requests have their turn between them."""

STREAMED_BYTES = 2**20
"""An answer of more is sent while it is written, and no faster than its client reads."""

TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


class RequestError(Exception):
    """An answer other than 200.

    Args:
        status: HTTP status.
        message: The message.
        param: Wrong field of the request.
        code: Error code for programs, such as model_not_found.
        retry_after: Seconds until another try may succeed. 0: not stated.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after: int = 0,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code
        self.retry_after = retry_after

    @property
    def response(self) -> Response:
        kind = TYPES.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        headers = {"Retry-After": str(self.retry_after)} if self.retry_after else {}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return json_response({"error": error}, self.status, headers)


def wrong_field(param: str, problem: str, *, code: str | None = None) -> RequestError:
    """Return the refusal of a request with a wrong field.

    Args:
        param: Name of the field.
        problem: Rest of the message.
        code: Code for programs, such as model_not_found. None for no code.

    Returns:
        An error of status 400 to raise.
    """
    return RequestError(400, f"{param}: {problem}", param=param, code=code)


class Problem(BaseModel):
    message: str
    type: str
    param: str | None
    code: str | None


class ErrorReply(BaseModel):
    """The answer to a request that is refused."""

    error: Problem


def too_busy(seconds: int) -> RequestError:
    """Return the refusal of a request for which the queue has no room.

    Args:
        seconds: Time after which the client may try again.

    Returns:
        An error of status 429 to raise.
    """
    return RequestError(
        429, f"too much waits already. Try again in {seconds} s", code="busy", retry_after=seconds
    )


def json_response(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a response with JSON.

    Args:
        content: Plain data, in which lists of numbers may be arrays.
        status: Status of HTTP.
        headers: Further headers.

    Returns:
        The response in one piece.
    """
    return Response(to_json(content), status, headers, "application/json")


async def written(content: Any) -> Response:
    """Return a response of any size.

    Args:
        content: Plain data, in which lists may be iterators and lists of numbers arrays.

    Returns:
        A response in one piece, or a stream above STREAMED_BYTES.
    """
    pieces, begun, size = _in_pieces(content), list[bytes](), 0
    for piece in pieces:
        begun.append(piece)
        size += len(piece)
        if size > STREAMED_BYTES:
            break
        await asyncio.sleep(0)
    else:
        return Response(b"".join(begun), media_type="application/json")

    async def flowing() -> AsyncIterator[bytes]:
        for piece in chain(begun, pieces):
            yield piece
            await asyncio.sleep(0)

    return StreamingResponse(flowing(), media_type="application/json")


def _in_pieces(content: Any) -> Iterator[bytes]:
    piece = bytearray()
    for part in _parts(content):
        piece += part
        if len(piece) > PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece)


def _parts(value: Any) -> Iterator[bytes]:
    """JSON of a value: of a dict by its keys, of a list by its items."""
    if isinstance(value, dict) and value:
        for number, (key, inner) in enumerate(value.items()):
            yield (b"," if number else b"{") + to_json(key) + b":"
            yield from _parts(inner)
        yield b"}"
    elif isinstance(value, list | Iterator) or (isinstance(value, np.ndarray) and value.ndim > 1):
        yield b"["
        for number, item in enumerate(value):
            yield (b"," if number else b"") + to_json(item, fallback=np.ndarray.tolist)
        yield b"]"
    else:
        yield to_json(value, fallback=np.ndarray.tolist)


@contextmanager
def naming(*params: str) -> Iterator[None]:
    """Turn a UserError of the block into a refusal of the request.

    Args:
        *params: Fields that may be wrong. The message begins with one of them, or the first is named.

    Raises:
        RequestError: A UserError was raised. Its status is 400.
    """
    try:
        yield
    except UserError as error:
        param = next((param for param in params if str(error).startswith(param)), params[0])
        raise RequestError(400, str(error), param=param) from error
