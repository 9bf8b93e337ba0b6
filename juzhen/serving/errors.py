"""What a request is refused with, in the form that OpenAI's clients read."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_json
from starlette.responses import Response

from juzhen.core.errors import UserError

TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


class RequestError(Exception):
    """An answer other than 200.

    param  the field of the request that is wrong
    code   a word for programs, such as model_not_found
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


class Problem(BaseModel):
    message: str
    type: str
    param: str | None
    code: str | None


class ErrorReply(BaseModel):
    """The answer to a request that is refused."""

    error: Problem


def too_busy(seconds: int) -> RequestError:
    return RequestError(
        429, f"too much waits already; try again in {seconds} s", code="busy", retry_after=seconds
    )


def json_response(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(to_json(content), status, headers, "application/json")


@contextmanager
def naming(*params: str) -> Iterator[None]:
    """Answers 400 for a UserError, with the field that the message begins with, else the first of these."""
    try:
        yield
    except UserError as error:
        param = next((param for param in params if str(error).startswith(param)), params[0])
        raise RequestError(400, str(error), param=param) from error
