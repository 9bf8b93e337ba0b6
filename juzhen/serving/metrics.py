"""What a server counts, as Prometheus reads it."""

import os
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

COUNTS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""The folder in which several processes leave their counts, as prometheus_client reads it when it is imported."""

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
TOKENS = tuple(16 * 2**power for power in range(12))


class Metrics:
    """Of one server, all of its processes together; no text and no name of a client is in them.

    waiting  tokens that wait or are in work in this process
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
        self.texts.inc(texts)
        self.tokens.inc(tokens)
        self.batch_texts.observe(texts)
        self.batch_tokens.observe(tokens)

    def answer(self, path: str, status: int, seconds: float) -> None:
        self.requests.labels(path, str(status)).inc()
        self.seconds.labels(path).observe(seconds)
        self._queue.set(self._waiting())

    def page(self) -> bytes:
        self._queue.set(self._waiting())
        return generate_latest(self._registry)
