"""Worker processes that encode, each with a copy of the encoder on its device."""

import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, nullcontext
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float

from juzhen.core.errors import UserError, check_count
from juzhen.core.machine import limit_threads, open_device
from juzhen.encoders.pooled_encoder import PooledEncoder
from juzhen.encoders.save import write_encoder
from juzhen.encoders.tokens import TokenTable

MOST_WORKERS = 64
"""Most processes on a machine with fewer cores: thousands take all memory before a text is encoded."""

BATCHES_AHEAD = 2
"""Batches that wait for each process."""


class Workers:
    """Processes with a copy of an encoder, for a block: `with Workers(encoder, 4) as workers`.

    Batches and embeddings equal those of one process. Processes are spawned, so a script starts them below
    `if __name__ == "__main__"`.

    Args:
        encoder: The encoder.
        devices: Number of processes that share the CPU threads, or a list of device names.

    Raises:
        UserError: A device is not available.
    """

    def __init__(self, encoder: PooledEncoder, devices: int | Sequence[str | torch.device]) -> None:
        if not isinstance(devices, Sequence) or isinstance(devices, str):
            check_count("workers", devices, most=max(MOST_WORKERS, os.cpu_count() or 1))
        listed = devices if isinstance(devices, Sequence) else ["cpu"] * int(devices)
        names = [str(open_device(device)) for device in listed]
        check_count("workers", len(names))
        self._size = len(names)
        self._state = _state(encoder)
        self._folder = tempfile.TemporaryDirectory(prefix="juzhen-")
        write_encoder(encoder, Path(self._folder.name), {})
        context = get_context("spawn")
        waiting = context.SimpleQueue()
        for name in names:
            waiting.put(name)
        threads = max(torch.get_num_threads() // self._size, 1)
        load = type(encoder).load  # type: ignore[attr-defined]  # of a SentenceEncoder, which imports this file
        begin = (load, self._folder.name, encoder.backbone.dtype, waiting, threads)
        self._pool = ProcessPoolExecutor(self._size, mp_context=context, initializer=_begin, initargs=begin)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._folder.cleanup()

    def check(self, encoder: PooledEncoder) -> None:
        """Raise UserError if the encoder has changed since the start.

        Args:
            encoder: The encoder of the call.

        Raises:
            UserError: Its weights or settings differ.
        """
        if _state(encoder) != self._state:
            raise UserError("workers: they hold another encoder, or other settings of it. Start them again")

    def encode(
        self, batches: Iterable[TokenTable], *, unpooled: int
    ) -> Iterator[Float[np.ndarray, "batch dim"]]:
        """Embeddings of each batch, in order.

        Args:
            batches: Tokens of texts.
            unpooled: Number of first tokens that pooling skips.

        Yields:
            float32 embeddings of one batch.

        Raises:
            UserError: A process ended early.
        """
        pending: deque[Future[np.ndarray]] = deque()
        try:
            for batch in batches:
                pending.append(self._pool.submit(_encode, TokenTable.joined([batch]), unpooled))
                if len(pending) > BATCHES_AHEAD * self._size:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BrokenProcessPool as error:
            raise UserError(
                "workers: a process ended early, for the reason that it printed. Start workers in a script "
                'below `if __name__ == "__main__":`'
            ) from error


def started(
    encoder: PooledEncoder, workers: "int | Sequence[str | torch.device] | Workers | None"
) -> AbstractContextManager["Workers | None"]:
    """Start workers for one block.

    Args:
        encoder: The encoder.
        workers: As the devices of `Workers`. Running workers, or None, are kept.

    Returns:
        A block that ends the workers that it started.
    """
    if workers is None or isinstance(workers, Workers):
        return nullcontext(workers)
    return Workers(encoder, workers)


def _state(encoder: PooledEncoder) -> tuple[Any, ...]:
    """State of an encoder that workers copy. In-place changes of weights, as by optimizers, count."""
    changes = sum(weights._version for weights in encoder.parameters())
    return id(encoder.backbone), encoder.pooling, encoder.normalize, id(encoder.projections), changes


_encoder: Any = None
"""Encoder of a running worker process."""


def _begin(
    load: Callable[..., PooledEncoder], folder: str, dtype: torch.dtype, waiting: Any, threads: int
) -> None:
    global _encoder
    device = waiting.get()
    if device == "cpu":
        limit_threads(threads)
    _encoder = load(folder, device=device).to(dtype)


def _encode(batch: TokenTable, unpooled: int) -> Float[np.ndarray, "batch dim"]:
    tokens = _encoder.collate(batch)
    tokens.unpooled = unpooled
    vectors: np.ndarray = _encoder.infer(tokens)
    return vectors
