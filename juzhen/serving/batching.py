"""Work of all requests in one thread: a round takes texts from the clients by turns, up to a budget of tokens.

A round is cut into batches of like length, the short ones first. A request is answered when its last text is done.
"""

import asyncio
import math
import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from juzhen.encoders.forward import FreedMemory
from juzhen.encoders.tokens import batches_by_length
from juzhen.serving.errors import RequestError, too_busy

SMOOTHING = 0.2
"""Weight of the last large round in the speed by which waiting is estimated."""

LONGEST_RETRY = 60


class Compute(Protocol):
    """Computes one vector or score per input."""

    def compute(self, inputs: Sequence[Any]) -> np.ndarray:
        """Compute a vector or a score for each input.

        Args:
            inputs: Inputs of one batch, of one or several requests.

        Returns:
            Array whose first axis has the inputs, in order.
        """


@dataclass(eq=False)
class Ticket:
    """The inputs of one request.

    Args:
        client: Key by which requests take turns.
        engine: Function that computes the inputs.
        inputs: The inputs.
        lengths: Tokens of each input.
        answer: Gets the rows of all inputs.
        next: Index of the first input that no batch has taken.
    """

    client: str
    engine: Compute
    inputs: Sequence[Any]
    lengths: Sequence[int]
    answer: "asyncio.Future[list[np.ndarray]]"
    rows: list[Any] = field(init=False)
    pending: int = field(init=False)
    next: int = 0

    def __post_init__(self) -> None:
        self.pending = len(self.inputs)
        self.rows = [None] * self.pending

    @property
    def is_taken(self) -> bool:
        return self.next == len(self.inputs)


Item = tuple[Ticket, int]
"""A job, and which of its inputs."""


class Batcher:
    """The queue and its thread. `submit` belongs to the event loop that it was made in.

    Args:
        batch_tokens: Tokens of a round, and of a batch with padding.
        queue_tokens: Tokens that may wait or be computed.
        seconds: Longest time of a request.
        watch: Called with the texts and tokens of each batch.
    """

    def __init__(
        self,
        *,
        batch_tokens: int,
        queue_tokens: int,
        seconds: float,
        watch: Callable[[int, int], None] = lambda texts, tokens: None,
    ) -> None:
        self.batch_tokens, self.queue_tokens, self.seconds = batch_tokens, queue_tokens, seconds
        self.tokens = 0
        self._watch = watch
        self._clients: OrderedDict[str, deque[Ticket]] = OrderedDict()
        self._change = threading.Condition()
        self._speed: float | None = None
        self._is_closing = False
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._work, name="juzhen-batches", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def submit(
        self, client: str, engine: Compute, inputs: Sequence[Any], lengths: Sequence[int]
    ) -> "asyncio.Future[list[np.ndarray]]":
        """Queue the inputs of a request. A cancelled request is dropped.

        Args:
            client: Key by which requests take turns.
            engine: Computes the inputs.
            inputs: Inputs of the request.
            lengths: Tokens of each input.

        Returns:
            Future of one result per input, in order.

        Raises:
            RequestError: The queue is full, or the request has more tokens than it can hold.
        """
        tokens = int(sum(lengths))
        if tokens > self.queue_tokens:
            raise RequestError(
                413,
                f"{tokens:,} tokens in one request; at most {self.queue_tokens:,}: send fewer texts at a time",
            )
        job = Ticket(client, engine, inputs, lengths, self._loop.create_future())
        with self._change:
            waiting = self.tokens
            is_late = self._speed is not None and (waiting + tokens) / self._speed > self.seconds
            if waiting and (waiting + tokens > self.queue_tokens or is_late):
                raise too_busy(self.retry_after())
            self.tokens += tokens
            self._clients.setdefault(client, deque()).append(job)
            self._change.notify()
        return job.answer

    def retry_after(self) -> int:
        """Estimate seconds until the queue is empty.

        Returns:
            Whole seconds, from 1 to LONGEST_RETRY.
        """
        seconds = self.tokens / self._speed if self._speed else 1.0
        return max(1, min(math.ceil(seconds), LONGEST_RETRY))

    def close(self) -> None:
        """End the thread after the queued work."""
        with self._change:
            self._is_closing = True
            self._change.notify()
        self._thread.join()

    def _take(self) -> list[Item]:
        """Inputs up to the budget: an input of a client's first request, then one of the next client's."""
        taken: list[Item] = []
        tokens = 0
        while self._clients and tokens < self.batch_tokens:
            client, jobs = self._clients.popitem(last=False)
            job = jobs.popleft()
            if job.answer.done():  # its client has gone, or its time is over
                self.tokens -= int(sum(job.lengths[job.next :]))
            else:
                taken.append((job, job.next))
                tokens += job.lengths[job.next]
                job.next += 1
                if not job.is_taken:
                    jobs.append(job)
            if jobs:
                self._clients[client] = jobs
        return taken

    def _work(self) -> None:
        torch.set_num_threads(torch.get_num_threads())  # OpenMP counts for each thread apart
        memory = FreedMemory()
        while True:
            with self._change:
                while not self._clients and not self._is_closing:
                    self._change.wait()
                if not self._clients:
                    return
                taken = self._take()
            start, tokens = time.perf_counter(), 0
            for engine in dict.fromkeys(job.engine for job, _ in taken):
                items = [item for item in taken if item[0].engine is engine]
                lengths = [job.lengths[position] for job, position in items]
                for rows in reversed(list(batches_by_length(lengths, batch_tokens=self.batch_tokens))):
                    self._compute(engine, [items[row] for row in rows.tolist()])
                tokens += sum(lengths)
            if tokens >= self.batch_tokens / 4:
                speed = tokens / (time.perf_counter() - start)
                self._speed = (
                    speed if self._speed is None else self._speed + SMOOTHING * (speed - self._speed)
                )
                memory.give_back()

    def _compute(self, engine: Compute, items: list[Item]) -> None:
        """A batch. Where it fails, each request is computed alone: one must not spoil the others."""
        tokens = sum(job.lengths[position] for job, position in items)
        rows: Any
        try:
            rows = engine.compute([job.inputs[position] for job, position in items])
            self._watch(len(items), tokens)
        except Exception as error:
            jobs = list(dict.fromkeys(job for job, _ in items))
            if len(jobs) > 1:
                for job in jobs:
                    self._compute(engine, [item for item in items if item[0] is job])
                return
            rows = error
        self._loop.call_soon_threadsafe(self._deliver, items, rows, tokens)

    def _deliver(self, items: list[Item], rows: Any, tokens: int) -> None:
        with self._change:
            self.tokens -= tokens
        for number, (job, position) in enumerate(items):
            if job.answer.done():
                continue
            if isinstance(rows, Exception):
                job.answer.set_exception(rows)
                continue
            job.rows[position] = rows[number]
            job.pending -= 1
            if not job.pending:
                job.answer.set_result(job.rows)


COUNTS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""The folder in which several processes leave their counts, as prometheus_client reads it when it is imported."""

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
TOKENS = tuple(16 * 2**power for power in range(12))


class Metrics:
    """Metrics of one server over all its processes, without texts or client names.

    Args:
        waiting: Returns the tokens queued or in work in this process.
    """

    def __init__(self, waiting: Callable[[], int]) -> None:
        registry = self._registry = CollectorRegistry()
        self._waiting = waiting
        if COUNTS_VARIABLE in os.environ:
            self._registry = CollectorRegistry()
            MultiProcessCollector(self._registry)  # type: ignore[no-untyped-call]
        else:
            ProcessCollector(registry=registry)
        self.requests = Counter("juzhen_requests", "answers", ["path", "status"], registry=registry)
        self.seconds = Histogram(
            "juzhen_request_seconds", "from the first byte to the last", ["path"], registry=registry
        )
        self.texts = Counter("juzhen_texts", "texts or pairs that were computed", registry=registry)
        self.unknown = Counter(
            "juzhen_unknown_texts",
            "texts that hold characters the model does not know",
            registry=registry,
        )
        self.tokens = Counter("juzhen_tokens", "tokens that were computed", registry=registry)
        self.batch_texts = Histogram(
            "juzhen_batch_texts", "texts of a batch", buckets=SIZES, registry=registry
        )
        self.batch_tokens = Histogram(
            "juzhen_batch_tokens", "tokens of a batch", buckets=TOKENS, registry=registry
        )
        self._queue = Gauge(
            "juzhen_queue_tokens",
            "tokens that wait or are in work",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.loads = Counter("juzhen_loads", "models that were put in the place of others", registry=registry)

    def batch(self, texts: int, tokens: int) -> None:
        """Count a computed batch.

        Args:
            texts: Number of its inputs.
            tokens: Number of their tokens.
        """
        self.texts.inc(texts)
        self.tokens.inc(tokens)
        self.batch_texts.observe(texts)
        self.batch_tokens.observe(tokens)

    def answer(self, path: str, status: int, seconds: float) -> None:
        """Count an answered request.

        Args:
            path: Path of the request.
            status: Status of HTTP.
            seconds: Time from the request to the answer.
        """
        self.requests.labels(path, str(status)).inc()
        self.seconds.labels(path).observe(seconds)
        self._queue.set(self._waiting())

    def page(self) -> bytes:
        """Format the metrics for Prometheus.

        Returns:
            Text in UTF-8.
        """
        self._queue.set(self._waiting())
        return generate_latest(self._registry)
