"""Several worker processes that share an address, and the parent that starts and ends them."""

import asyncio
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess

from juzhen.core.errors import UserError
from juzhen.core.machine import limit_threads, num_cores
from juzhen.serving.batching import COUNTS_VARIABLE
from juzhen.serving.middleware import log_event
from juzhen.serving.models import ServedModels
from juzhen.serving.server import bind, run
from juzhen.serving.settings import Keys, Limits


def bind_workers(host: str, port: int, processes: int) -> list[socket.socket]:
    """Listening sockets of one address, among which Linux spreads connections.

    Raises UserError where the address cannot be had, and on other systems.
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
    """Serve with one process per socket. Each loads the models for itself.

    SIGTERM, Ctrl-C and SIGHUP are passed to all of them. If one ends by itself, the others finish their requests and
    end.

    Raises:
        UserError: A process has ended by itself.
    """
    context, stopped = get_context("spawn"), False
    processes: list[BaseProcess] = []

    def pass_on(number: int, _: object) -> None:
        nonlocal stopped
        stopped = stopped or number != signal.SIGHUP
        for process in processes:
            if process.pid is not None and process.is_alive():
                os.kill(process.pid, number)

    with ExitStack() as stack:
        counts = stack.enter_context(tempfile.TemporaryDirectory(prefix="juzhen-serve-"))
        threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, num_cores() // len(sockets)))
        stack.enter_context(patched({COUNTS_VARIABLE: counts, "OMP_NUM_THREADS": threads}))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            stack.callback(signal.signal, number, signal.signal(number, pass_on))
        for bound in sockets:
            processes.append(context.Process(target=_serve, args=(load, bound, limits, keys)))
            processes[-1].start()
            bound.close()
        wait([process.sentinel for process in processes])
        if not (was_stopped := stopped):  # who is asked twice ends at once
            pass_on(signal.SIGTERM, None)
        for process in processes:
            process.join()
    if not was_stopped:
        raise UserError(
            "a process of the server has ended by itself, and the others with it. See the lines above"
        )


@contextmanager
def patched(variables: dict[str, str]) -> Iterator[None]:
    """Environment variables, for the processes that are started in the block."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name)
        os.environ.update(before)


def _serve(load: Callable[[], ServedModels], bound: socket.socket, limits: Limits, keys: Keys) -> None:
    """One of the processes. Ctrl-C in a terminal comes from the first process alone."""
    os.setpgrp()
    limit_threads()
    try:
        models = load()
    except UserError as error:
        log_event("not loaded", error=str(error))
        sys.exit(1)
    run(load, models, bound, limits=limits, keys=keys, until=_first_has_ended)


async def _first_has_ended() -> None:
    """Ends when the process that started this one does, whatever has killed it."""
    first = parent_process()
    assert first is not None
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(first.sentinel, ended.set)
    await ended.wait()
