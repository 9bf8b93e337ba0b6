"""Connections of clients: how many there may be, and how long each of them may take."""

import asyncio
import math
import os
import resource
import time
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from juzhen.serving.errors import RequestError
from juzhen.serving.settings import MOST_CONNECTIONS

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
    """What all connections of a server share.

    seconds      that a request may take, and so many again until its answer is read
    most         connections that may be open
    turned_away  those that were closed to stay below that
    """

    seconds: float
    most: int
    turned_away: int = 0

    @property
    def head_seconds(self) -> float:
        return min(HEAD_SECONDS, max(1.0, self.seconds))


def most_connections() -> int:
    """As many as the system lets this process open, less what it has open and needs for other files."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    left = limit - len(os.listdir("/dev/fd")) - SPARE_FILES
    return min(MOST_CONNECTIONS, max(left, limit // 8, 1))


class Connection(HttpToolsProtocol):
    """A connection with a deadline: uvicorn's has none before the first answer, nor for an answer that nobody reads.

    `close_if_late` is called again and again. A client that sends nothing, or a byte now and then, is let go. So is one
    that sends much and no request of it: httptools would keep all of it.
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
        """Closes the connection that has waited longest for a request; where none waits, this one."""
        others: list[Any] = [each for each in self.connections if not each.transport.is_closing()]
        if len(others) <= self.shared.most:
            return
        self.shared.turned_away += 1
        idle = [each for each in others if each is not self and each.waiting_since is not None]
        if idle:
            min(idle, key=lambda each: each.waiting_since).transport.abort()
            return
        body = RequestError(503, "all connections are in use; try again", code="busy").response.body
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
        """For the next request, until uvicorn closes what is idle."""
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
