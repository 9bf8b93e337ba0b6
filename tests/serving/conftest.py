"""A server over a tiny encoder with prompts and a tiny cross-encoder, which all tests share."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

from jobs import tiny_encoder

from juzhen.encoders import CrossEncoder, save_encoder

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


@pytest.fixture(scope="session")
def address(prompted_folder, cross_folder, tmp_path_factory):
    """Of a server that all tests share; they are skipped where its packages are missing."""
    for package in ("fastapi", "uvicorn", "httptools", "prometheus_client"):
        pytest.importorskip(package)
    from running import serving

    texts = tmp_path_factory.mktemp("index") / "texts.txt"
    texts.write_text("今天天气很好\n怎么退货\n什么时候发货\n", encoding="utf-8")
    with serving(prompted_folder, cross_folder, texts, texts=100) as found:
        yield found


@pytest.fixture(scope="session")
def client(address):
    import httpx

    with httpx.Client(base_url=address, timeout=30) as opened:
        yield opened
