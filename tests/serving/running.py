"""A real server in a thread of the test's process."""

import asyncio
import threading
from contextlib import contextmanager

from juzhen.serving.models import load_models
from juzhen.serving.server import Server, bind
from juzhen.serving.settings import Keys, Limits


@contextmanager
def serving(
    encoder,
    rerank=None,
    index=None,
    *,
    adapters=(),
    compare=None,
    host="127.0.0.1",
    keys=(),
    change=lambda server: None,
    **limits,
):
    """The address of a server that runs while the block does; `change` sees it before it starts."""
    bound, started, servers = bind(host, 0), threading.Event(), []

    def load():
        return load_models(
            str(encoder),
            rerank and str(rerank),
            index,
            adapters=[*map(str, adapters)],
            compare=compare and str(compare),
            name=None,
            device="cpu",
            backend="torch",
        )

    models = load()

    async def main():
        options = {"limits": Limits(drain_seconds=0.2, **limits), "keys": Keys(list(keys))}
        server = Server(load, models, bound, **options)
        change(server)
        servers.append((server, asyncio.get_running_loop()))
        started.set()
        await server.run_to_end()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    started.wait()
    try:
        yield f"http://{host}:{bound.getsockname()[1]}"
    finally:
        server, loop = servers[0]
        loop.call_soon_threadsafe(server.stop)
        thread.join()
