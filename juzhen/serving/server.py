"""A server in one process or several workers that share an address.

Its socket and connections, what each request passes first (host check, API keys, limits, log and metrics), its signals,
and how it stops.
"""

import asyncio
import errno
import json
import logging
import math
import os
import resource
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Iterator, MutableMapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from juzhen.core.errors import UserError
from juzhen.core.machine import freeze_objects, limit_threads, num_cores
from juzhen.core.secrets import redacted
from juzhen.serving.app import PAGE_FILES, make_app
from juzhen.serving.batching import COUNTS_VARIABLE
from juzhen.serving.errors import RequestError, too_busy
from juzhen.serving.models import ServedModels
from juzhen.serving.service import RequestLog, Service
from juzhen.serving.settings import MOST_CONNECTIONS, Keys, Limits, is_loopback

KEPT_ALIVE = 75
"""Seconds that a connection may be idle after an answer, more than those of most clients' pools."""

HEAD_SECONDS = 10.0
"""In which the head of a request must have come, or the limit of a request where that is less."""

LINGERING_SECONDS = 2.0
"""In which a refused client may still send its body. Closed at once, its system would drop the answer unread."""

LONGEST_HEAD = 65_536
"""Bytes that a client may send without a whole head, and without a byte of a body."""

SPARE_FILES = 64
"""Files that are left to models, indexes and the log."""


@dataclass
class Connections:
    """State shared by all connections of a server.

    Args:
        seconds: Limit of a request, and again of reading its answer.
        most: Maximal number of open connections.
        turned_away: Number of connections closed to keep this limit.
    """

    seconds: float
    most: int
    turned_away: int = 0

    @property
    def head_seconds(self) -> float:
        return min(HEAD_SECONDS, max(1.0, self.seconds))


def most_connections() -> int:
    """Return the system's limit of open files minus files in use and SPARE_FILES.

    Returns:
        From 1 to MOST_CONNECTIONS.
    """
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    left = limit - len(os.listdir("/dev/fd")) - SPARE_FILES
    return min(MOST_CONNECTIONS, max(left, limit // 8, 1))


class Connection(HttpToolsProtocol):
    """A connection with a deadline. uvicorn has none before the first answer, nor for an unread answer.

    `close_if_late` is called periodically. It closes clients that send nothing or a byte now and then. Clients
    that send much without a request are closed too, because httptools would keep all of it.

    Args:
        config, server_state, app_state: As of uvicorn's protocol.
    """

    shared: Connections
    waiting_since: float | None = None
    _deadline = _read_by = math.inf
    _part: str | None = None
    _barren_bytes = 0
    _is_fruitful = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()
        self._deadline = time.monotonic() + self.shared.head_seconds
        if len(self.connections) > self.shared.most:
            self._make_room()

    def _make_room(self) -> None:
        """Close the connection that has been idle longest, or this one if none is idle."""
        others: list[Any] = [each for each in self.connections if not each.transport.is_closing()]
        if len(others) <= self.shared.most:
            return
        self.shared.turned_away += 1
        idle = [each for each in others if each is not self and each.waiting_since is not None]
        if idle:
            min(idle, key=lambda each: each.waiting_since).transport.abort()
            return
        body = RequestError(503, "all connections are in use. Try again", code="busy").response.body
        head = f"HTTP/1.1 503 Service Unavailable\r\ncontent-length: {len(body)}\r\nretry-after: 1\r\n"
        self.transport.write(
            f"{head}content-type: application/json\r\nconnection: close\r\n\r\n".encode() + bytes(body)
        )
        self.transport.close()

    def close_if_late(self) -> None:
        now = time.monotonic()
        if now > self._deadline or (now > self._read_by and self.transport.get_write_buffer_size()):
            self.transport.abort()

    def _wait(self) -> None:
        """Wait for the next request. uvicorn closes idle connections."""
        self.waiting_since, self._deadline = time.monotonic(), math.inf

    def data_received(self, data: bytes) -> None:
        if self.waiting_since is not None and self._deadline == math.inf:
            self._deadline = time.monotonic() + self.shared.head_seconds
        self._is_fruitful = False
        super().data_received(data)
        self._barren_bytes = 0 if self._is_fruitful else self._barren_bytes + len(data)
        if self._barren_bytes > LONGEST_HEAD:
            self.transport.close()

    def on_message_begin(self) -> None:
        self._part = "head"
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._part, self._is_fruitful = "body", True
        self.waiting_since = None
        self._deadline = time.monotonic() + 2 * self.shared.seconds + 1
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._is_fruitful = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._part = None
        super().on_message_complete()
        if self.cycle.response_complete:
            self._wait()

    def on_response_complete(self) -> None:
        is_last, now = not self.pipeline, time.monotonic()
        super().on_response_complete()
        self._read_by = now + self.shared.seconds
        if not is_last:
            self._deadline = now + 2 * self.shared.seconds + 1
        elif self._part == "body":
            self._deadline = now + LINGERING_SECONDS
        else:
            self._wait()
            if self._part == "head":
                self._deadline = now + self.shared.head_seconds


Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

PROBES = ("/health", "/ready")
"""What watches the process; no line of the log is written of it."""

OPEN_PATHS = (*PROBES, *PAGE_FILES)
"""Answered without a key: a probe has none, and the page, which tells nothing, asks for it."""

UNKNOWN_HEADER = b"x-unknown-texts"
"""How many texts of a request hold characters that the model does not know; absent where it knows all."""

LOGGERS = ("uvicorn", "asyncio", "py.warnings")


def _log_event(event: str, **facts: Any) -> None:
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
        _log_event("log", **facts)


def _log_settings() -> dict[str, Any]:
    """Settings for `logging.config.dictConfig`: one JSON line for each record."""
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
        app, service: The ASGI application, and the service behind it.
        keys: API keys. Without any, every client is served.
        paths: Paths that the application answers.
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
                raise RequestError(413, f"a body of over {limits.body_bytes:,} bytes. Send less at a time")
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
            _log_event("failure", id=number, **_failure(error))
        finally:
            self._body_bytes -= held
            path = scope["path"] if scope["path"] in self._paths else "other"
            seconds = time.perf_counter() - start
            self._service.metrics.answer(path, status, seconds)
            if path not in PROBES:
                _log_event(
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
        if self._is_local and not self._keys and host and not is_loopback(name.lower()):
            raise RequestError(403, "without API keys this server answers to 127.0.0.1 and localhost alone")
        is_open = scope["path"] in OPEN_PATHS and scope["method"] in ("GET", "HEAD")
        if self._keys and not is_open:
            number = self._keys.number(headers.get(b"authorization", b"").decode("latin-1"))
            if number is None:
                raise RequestError(
                    401, "a valid API key is needed: Authorization: Bearer KEY", code="invalid_api_key"
                )
            facts.client = f"key {number}"


LAST_SECONDS = 1.0
"""For requests of connections that were taken at the very end."""

SO_BINDTOIFINDEX, NO_DEVICE = 62, 2**31 - 1
"""Of Linux's asm-generic/socket.h."""


def bind(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """Open a listening socket.

    Args:
        host: Address or name of this machine. One with a colon is of IPv6.
        port: From 0 to 65535. 0 takes any free one.
        shared: True lets other sockets listen at the same address.

    Returns:
        The socket, which listens already.

    Raises:
        UserError: The address is not available.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048, reuse_port=shared)
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while")[0]
        way_out = "Choose another port, or 0 for any"
        if (error.errno or 0) < 0 or error.errno == errno.EADDRNOTAVAIL:  # < 0: an unknown name
            way_out = "Give an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all"
        raise UserError(f"--host {host} --port {port}: {reason}. {way_out}") from error


def refuse_new_connections(listening: socket.socket) -> None:
    """Make Linux refuse new connections. Connections already accepted by the kernel can still be served.

    Closing a listening socket resets connections in its queue. So it is bound to a device that does not exist,
    which needs no rights since Linux 5.7. Does nothing on other systems.

    Args:
        listening: Socket that listens.
    """
    if sys.platform == "linux":
        with suppress(OSError):
            listening.setsockopt(socket.SOL_SOCKET, SO_BINDTOIFINDEX, NO_DEVICE)


class Server(uvicorn.Server):
    """The server of a socket. Create it in a running event loop.

    Args:
        load: Loads the models, also for each reload.
        models: Models of the start.
        bound: Bound socket.
        limits, keys: Limits of requests, and API keys.
        when_ready: Called when requests are answered.
    """

    def __init__(
        self,
        load: Callable[[], ServedModels],
        models: ServedModels,
        bound: socket.socket,
        *,
        limits: Limits,
        keys: Keys,
        when_ready: Callable[[], None] = lambda: None,
    ) -> None:
        self.service, self._when_ready = Service(load, models, limits), when_ready
        self._bound, self._limits = bound, limits
        self._tasks: set[asyncio.Task[None]] = set()
        app = make_app(self.service)
        self._host, self._port = bound.getsockname()[:2]
        paths = {str(getattr(route, "path", "")) for route in app.routes}
        middleware = RequestMiddleware(app, self.service, keys, paths=paths, is_local=is_loopback(self._host))
        self.shared = Connections(limits.seconds, min(limits.connections, most_connections()))
        super().__init__(
            uvicorn.Config(
                middleware,
                http=type("SharedConnection", (Connection,), {"shared": self.shared}),
                ws="none",  # an upgrade would leave our deadlines
                log_config=_log_settings(),
                access_log=False,
                proxy_headers=bool(limits.proxies),
                forwarded_allow_ips=list(limits.proxies),
                server_header=False,
                lifespan="off",
                timeout_keep_alive=KEPT_ALIVE,
                timeout_graceful_shutdown=int(limits.seconds) + 5,
            )
        )

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Does nothing. `run` installs the signal handlers."""
        yield

    async def on_tick(self, counter: int) -> bool:
        """As uvicorn calls it, ten times a second."""
        for connection in list(self.server_state.connections):
            if isinstance(connection, Connection):
                connection.close_if_late()
        if counter % 10 == 0:
            self._log_turned_away()
        return await super().on_tick(counter)

    def _log_turned_away(self) -> None:
        if number := self.shared.turned_away:
            _log_event("connections", most=self.shared.most, turned_away=number)
            self.shared.turned_away = 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn calls it. The line is written when requests are answered."""
        await super().startup(sockets)
        host = f"[{self._host}]" if ":" in self._host else self._host
        _log_event(
            "serving",
            address=f"http://{host}:{self._port}",
            models=self._names,
            thresholds=self._thresholds,
            connections=self.shared.most,
        )
        self._when_ready()

    async def run_to_end(self) -> None:
        """Serve until `stop`. Accepted requests are answered first."""
        try:
            await self.serve(sockets=[self._bound])
        finally:
            self._log_turned_away()
            await asyncio.to_thread(self.service.batcher.close)
            _log_event("stopped")

    def stop(self) -> None:
        """Answer accepted requests, then end. A second call ends at once."""
        if self.service.is_draining:
            self.force_exit = self.should_exit = True
        self.service.is_draining = True
        self._start(self._drain())

    def reload(self) -> None:
        """Reload the models while the current ones are served."""
        self._start(self._load())

    @property
    def _names(self) -> list[str]:
        return [card["id"] for card in self.service.listed()["data"]]

    @property
    def _thresholds(self) -> dict[str, Any]:
        """Return the decision threshold of each model, and why one is missing."""
        named = self.service.models.thresholds.items()
        return {name: each.facts() | ({"reason": each.reason} if each.reason else {}) for name, each in named}

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _drain(self) -> None:
        """Each answer closes its connection for a while. Then new connections are refused, and open ones end."""
        try:
            await self._until_none_is_open(self._limits.drain_seconds)
            refuse_new_connections(self._bound)
            await self._until_none_is_open(LAST_SECONDS)
        finally:
            self.should_exit = True

    async def _until_none_is_open(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        await asyncio.sleep(0.1)  # those that the system has taken come in
        while self.server_state.connections and time.monotonic() < end:
            await asyncio.sleep(0.02)

    async def _load(self) -> None:
        try:
            await self.service.reload()
            freeze_objects()
            _log_event("loaded", models=self._names, thresholds=self._thresholds)
        except Exception as error:
            _log_event("not loaded", error=str(error))


def run(
    load: Callable[[], ServedModels],
    models: ServedModels,
    bound: socket.socket,
    *,
    limits: Limits,
    keys: Keys,
    until: Callable[[], Awaitable[None]] | None = None,
    when_ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGTERM, Ctrl-C or the end of `until`. SIGHUP reloads the models.

    Args:
        load: Loads the models again.
        models: The loaded models.
        bound: Socket that listens.
        limits: Largest request and queue.
        keys: Accepted API keys.
        until: Ends the server when it returns. None: never.
        when_ready: Called when requests are answered.
    """

    async def served() -> None:
        server = Server(load, models, bound, limits=limits, keys=keys, when_ready=when_ready)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, server.stop)
        loop.add_signal_handler(signal.SIGHUP, server.reload)

        async def watch() -> None:
            if until is not None:
                await until()
                server.stop()

        watching = asyncio.ensure_future(watch())
        await server.run_to_end()
        watching.cancel()

    freeze_objects()
    logging.captureWarnings(True)
    logging.getLogger().addHandler(JsonLines())
    sys.setswitchinterval(0.001)  # the thread of batches asks for the interpreter after each operation
    with asyncio.Runner(loop_factory=uvicorn.Config(lambda: None).get_loop_factory()) as runner:
        runner.run(served())


def bind_workers(host: str, port: int, processes: int) -> list[socket.socket]:
    """Open listening sockets of one address, among which Linux spreads connections.

    Args:
        host: As in `bind`.
        port: As in `bind`. All sockets have the same one.
        processes: Number of sockets.

    Returns:
        The sockets.

    Raises:
        UserError: The address is not available, or the system is not Linux.
    """
    if sys.platform != "linux":
        raise UserError(
            "--processes: only Linux spreads the connections of a port over processes. Leave it out"
        )
    with bind(host, port) as alone:  # fails where another program has the address, which sharing would hide
        port = alone.getsockname()[1]
    return [bind(host, port, shared=True) for _ in range(processes)]


def serve_workers(
    load: Callable[[], ServedModels], sockets: list[socket.socket], *, limits: Limits, keys: Keys
) -> None:
    """Serve with one process per socket. Each loads the models for itself. A line says when all of them answer.

    SIGTERM, Ctrl-C and SIGHUP are passed to all of them. If one ends by itself, the others finish their requests and
    end.

    Args:
        load: Loads the models, in each process. It can be pickled.
        sockets: A socket for each process. They are closed here.
        limits: Limits of each process.
        keys: Keys of clients.

    Raises:
        UserError: A process has ended by itself, or could not load the models.
    """
    context, stopped = get_context("spawn"), False
    processes: list[BaseProcess] = []
    reports: list[Any] = []

    def pass_on(number: int, _: object) -> None:
        nonlocal stopped
        stopped = stopped or number != signal.SIGHUP
        for process in processes:
            if process.pid is not None and process.is_alive():
                # Ctrl-C would print where Python is, in a process that loads.
                os.kill(process.pid, signal.SIGTERM if number == signal.SIGINT else number)

    with ExitStack() as stack:
        counts = stack.enter_context(tempfile.TemporaryDirectory(prefix="juzhen-serve-"))
        threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, num_cores() // len(sockets)))
        stack.enter_context(_patched({COUNTS_VARIABLE: counts, "OMP_NUM_THREADS": threads}))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            stack.callback(signal.signal, number, signal.signal(number, pass_on))
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # they inherit it
        for bound in sockets:
            receiver, report = context.Pipe(duplex=False)
            processes.append(context.Process(target=_serve, args=(load, bound, limits, keys, report)))
            processes[-1].start()
            reports.append(receiver)
            bound.close()
            report.close()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        if (problem := _first_problem(reports)) is None:
            _log_event("ready", processes=len(processes))
            wait([process.sentinel for process in processes])
        if not (was_stopped := stopped):  # who is asked twice ends at once
            pass_on(signal.SIGTERM, None)
        for process in processes:
            process.join()
    if not was_stopped:
        raise problem or UserError(ENDED)


ENDED = "a process of the server has ended by itself, and the others with it. See the lines above"


def _first_problem(reports: list[Any]) -> Exception | None:
    """Wait until all processes answer. Return None, or why the first one that fails does not."""
    waiting = [*reports]
    while waiting:
        for report in list[Any](wait(waiting)):
            waiting.remove(report)
            try:
                problem = report.recv()
            except EOFError:
                problem = UserError(ENDED)
            if problem is not None:
                return problem
    return None


@contextmanager
def _patched(variables: dict[str, str]) -> Iterator[None]:
    """Environment variables, for the processes that are started in the block."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name)
        os.environ.update(before)


def _serve(
    load: Callable[[], ServedModels], bound: socket.socket, limits: Limits, keys: Keys, report: Any
) -> None:
    """One of the processes. Ctrl-C in a terminal comes from the first process alone."""
    os.setpgrp()
    limit_threads()
    try:
        models = load()
    except (UserError, OSError, MemoryError) as error:
        report.send(UserError(str(error)) if isinstance(error, UserError) else error)
        return
    except Exception as error:
        _log_event("not loaded", **_failure(error))
        report.send(RuntimeError(f"{type(error).__name__}: {error}"))
        return
    ready = partial(report.send, None)
    run(load, models, bound, limits=limits, keys=keys, until=_first_has_ended, when_ready=ready)


async def _first_has_ended() -> None:
    """Ends when the process that started this one does, whatever has killed it."""
    first = parent_process()
    assert first is not None
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(first.sentinel, ended.set)
    await ended.wait()
