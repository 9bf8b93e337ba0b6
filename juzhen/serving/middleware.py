"""Middleware of the server: host check, API keys, size and time limits, log and metrics."""

import asyncio
import json
import logging
import os
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from multiprocessing import parent_process
from typing import Any

from juzhen.core.secrets import redacted
from juzhen.serving.app import PAGE_FILES
from juzhen.serving.errors import RequestError, too_busy
from juzhen.serving.service import RequestLog, Service
from juzhen.serving.settings import Keys

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

PROBES = ("/health", "/ready")
"""What watches the process; no line of the log is written of it."""

OPEN_PATHS = (*PROBES, *PAGE_FILES)
"""Answered without a key: a probe has none, and the page, which tells nothing, asks for it."""

LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")

UNKNOWN_HEADER = b"x-unknown-texts"
"""How many texts of a request hold characters that the model does not know; absent where it knows all."""

LOGGERS = ("uvicorn", "asyncio", "py.warnings")


def log_event(event: str, **facts: Any) -> None:
    """Write one line of JSON to stderr, with the process id if there are several processes."""
    if parent_process() is not None:
        facts["process"] = os.getpid()
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
    line = json.dumps({"time": moment, "event": event, **facts}, ensure_ascii=False)
    sys.stderr.write(f"{line}\n")  # in one piece: several processes may write to one file
    sys.stderr.flush()


class JsonLines(logging.Handler):
    """Writes what libraries log as lines of JSON. Of an exception its kind and place, since its words may be a text."""

    def emit(self, record: logging.LogRecord) -> None:
        facts = {"level": record.levelname.lower(), "logger": record.name}
        facts["message"] = redacted(record.getMessage().partition("\n")[0])
        if record.exc_info and (error := record.exc_info[1]) is not None:
            facts |= _failure(error)
        log_event("log", **facts)


def log_settings() -> dict[str, Any]:
    """As `logging.config` reads them."""
    settings = {"handlers": ["json"], "level": "WARNING", "propagate": False}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "handlers": {"json": {"()": JsonLines}},
        "loggers": dict.fromkeys(LOGGERS, settings),
    }


def _failure(error: BaseException) -> dict[str, str]:
    trace = "".join(traceback.format_tb(error.__traceback__))
    return {"error": type(error).__name__, "trace": redacted(trace)}


class RequestMiddleware:
    """An ASGI middleware.

    Args:
        is_local: The server listens on the loopback only. Without keys it then refuses other host names, because a
            foreign page with such a name could make a browser ask here (DNS rebinding).
    """

    def __init__(self, app: Any, service: Service, keys: Keys, *, paths: set[str], is_local: bool) -> None:
        self._app, self._service, self._keys, self._is_local = app, service, keys, is_local
        self._paths = paths
        self._body_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status, number = time.perf_counter(), 0, os.urandom(8).hex()
        facts = scope["facts"] = RequestLog(scope["client"][0] if scope["client"] else "local", receive)
        held = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", number.encode())]
                if facts.unknown:
                    message["headers"].append((UNKNOWN_HEADER, str(facts.unknown).encode()))
                if self._service.is_draining:
                    message["headers"].append((b"connection", b"close"))
            await send(message)

        async def receiving() -> Message:
            nonlocal held
            message = await receive()
            size = len(message.get("body", b""))
            held += size
            self._body_bytes += size
            if held > limits.body_bytes:
                raise RequestError(413, f"the body has more than {limits.body_bytes:,} bytes")
            if self._body_bytes > limits.bodies_bytes:
                raise too_busy(self._service.batcher.retry_after())
            return message

        limits = self._service.limits
        try:
            async with asyncio.timeout(limits.seconds):
                self._check(scope, facts)
                await self._app(scope, receiving, sending)
        except RequestError as refused:
            await refused.response(scope, receive, sending)
        except TimeoutError:
            if not status:
                wait = self._service.batcher.retry_after()
                late = RequestError(
                    503, f"not done within {limits.seconds:g} s", code="timeout", retry_after=wait
                )
                await late.response(scope, receive, sending)
        except Exception as error:
            log_event("failure", id=number, **_failure(error))
        finally:
            self._body_bytes -= held
            path = scope["path"] if scope["path"] in self._paths else "other"
            seconds = time.perf_counter() - start
            self._service.metrics.answer(path, status, seconds)
            if path not in PROBES:
                log_event(
                    "request",
                    id=number,
                    client=facts.client,
                    method=scope["method"],
                    path=path,
                    status=status,
                    ms=round(1000 * seconds, 1),
                    texts=facts.texts,
                    tokens=facts.tokens,
                    cut=facts.cut,
                    unknown=facts.unknown,
                )

    def _check(self, scope: Scope, facts: RequestLog) -> None:
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1")
        name = host if host.endswith("]") else host.rpartition(":")[0] if ":" in host else host
        if self._is_local and not self._keys and host and name.lower() not in LOCAL_NAMES:
            raise RequestError(403, "without API keys this server answers to 127.0.0.1 and localhost alone")
        is_open = scope["path"] in OPEN_PATHS and scope["method"] in ("GET", "HEAD")
        if self._keys and not is_open:
            number = self._keys.number(headers.get(b"authorization", b"").decode("latin-1"))
            if number is None:
                raise RequestError(
                    401, "a valid API key is needed: Authorization: Bearer KEY", code="invalid_api_key"
                )
            facts.client = f"key {number}"
