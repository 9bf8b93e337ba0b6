"""A real server in a thread of the test's process, over a tiny encoder with prompts and a tiny cross-encoder."""

import asyncio
import threading
from contextlib import contextmanager

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")

import httpx
from jobs import tiny_encoder

from juzhen.encoders import CrossEncoder, save_encoder
from juzhen.serving.loading import load_models
from juzhen.serving.server import Server, bind
from juzhen.serving.settings import Keys, Limits

PROMPTS = {"query": "问题：", "document": "段落："}


@pytest.fixture(scope="session")
def prompted_folder(tiny_backbone, tmp_path_factory):
    encoder = tiny_encoder(tiny_backbone)
    encoder.prompts = PROMPTS
    return save_encoder(encoder, tmp_path_factory.mktemp("served") / "small", card={})


@pytest.fixture(scope="session")
def cross_folder(tiny_backbone, tmp_path_factory):
    inner = tiny_encoder(tiny_backbone)
    inner.pooling = "cls"
    encoder = CrossEncoder(inner, outputs=1, segments=False, symmetric=False, seed=0)
    return save_encoder(encoder, tmp_path_factory.mktemp("served") / "judge", card={})


@contextmanager
def serving(encoder, rerank=None, index=None, *, keys=(), change=lambda server: None, **limits):
    """The address of a server that runs while the block does; `change` sees it before it starts."""
    bound, started, servers = bind("127.0.0.1", 0), threading.Event(), []

    def load():
        return load_models(
            str(encoder), rerank and str(rerank), index, name=None, device="cpu", backend="torch"
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
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server, loop = servers[0]
        loop.call_soon_threadsafe(server.stop)
        thread.join()


@pytest.fixture(scope="session")
def address(prompted_folder, cross_folder, tmp_path_factory):
    """Of a server that all tests share."""
    texts = tmp_path_factory.mktemp("index") / "texts.txt"
    texts.write_text("今天天气很好\n怎么退货\n什么时候发货\n", encoding="utf-8")
    with serving(prompted_folder, cross_folder, texts, texts=100) as found:
        yield found


@pytest.fixture(scope="session")
def client(address):
    with httpx.Client(base_url=address, timeout=30) as opened:
        yield opened
