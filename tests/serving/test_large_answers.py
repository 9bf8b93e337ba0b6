"""Large answers: refused where they were cheap to ask for, else sent bit by bit while others are answered."""

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

httpx = pytest.importorskip("httpx")
for package in ("fastapi", "uvicorn", "httptools", "prometheus_client"):
    pytest.importorskip(package)
from running import serving  # noqa: E402  # needs those packages

from juzhen.encoders import SentenceEncoder  # noqa: E402
from juzhen.serving.errors import written  # noqa: E402

TEXTS = [f"第{number}句" for number in range(40)]


@pytest.fixture(scope="module")
def address(prompted_folder, tmp_path_factory):
    (texts := tmp_path_factory.mktemp("found") / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    limits = {"numbers": 32 * 20, "scores": 50, "characters_found": 60}
    with serving(prompted_folder, index=texts, **limits) as found:
        yield found


@pytest.mark.parametrize(
    ("path", "body", "param", "limit"),
    [
        ("/similarity", {"first": TEXTS[:6], "second": TEXTS[:9]}, "first", "50"),
        ("/similarity", {"first": TEXTS[0], "second": TEXTS + TEXTS}, "first", "50"),
        ("/embed", {"texts": TEXTS[:21]}, "texts", "20 texts"),
        ("/v1/embeddings", {"input": TEXTS[:21]}, "input", "20 texts"),
        ("/v1/embeddings", {"input": TEXTS[:21], "encoding_format": "base64"}, "input", "20 texts"),
        ("/v1/embeddings", {"input": [[2, 3]] * 21}, "input", "20 texts"),
        ("/search", {"query": TEXTS[:2], "top_k": 40}, "top_k", "60"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_an_answer_that_would_be_too_large_is_refused_with_its_limit(address, path, body, param, limit):
    reply = httpx.post(f"{address}{path}", json=body)
    assert reply.status_code == 400, reply.text[:300]
    assert reply.json()["error"]["param"] == param
    assert limit in reply.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/similarity", {"first": TEXTS[:5], "second": TEXTS[:10]}),
        ("/embed", {"texts": TEXTS[:20]}),
        ("/v1/embeddings", {"input": TEXTS, "dimensions": 16}),
        ("/search", {"query": TEXTS[:2], "top_k": 5}),
    ],
    ids=lambda value: str(value)[:20],
)
def test_an_answer_at_its_limit_is_given(address, path, body):
    assert httpx.post(f"{address}{path}", json=body).status_code == 200


CONTENTS = [
    {},
    [],
    {"a": {}, "b": [], "c": None, "d": [{}], "e": '\n好"', "f": [[1, 2], [3]], "g": {"h": [1.5, True]}},
    [0.25, "x", [1]],
    {"e": np.arange(6, dtype=np.float32).reshape(2, 3), "r": [{"v": np.arange(2)}], "one": np.arange(3)},
    {"large": np.random.default_rng(0).random((300, 256), dtype=np.float32), "after": 1},
]


@pytest.mark.parametrize("content", CONTENTS, ids=lambda value: str(value)[:20])
def test_what_is_written_in_pieces_is_json(content):
    async def whole():
        response = await written(content)
        if hasattr(response, "body"):
            return response.body
        return b"".join([piece async for piece in response.body_iterator])

    plain = json.loads(json.dumps(content, default=lambda array: array.tolist()))
    assert json.loads(asyncio.run(whole())) == plain


def test_an_iterator_is_written_as_a_list():
    response = asyncio.run(written({"data": ({"index": index} for index in range(3))}))
    assert json.loads(response.body) == {"data": [{"index": 0}, {"index": 1}, {"index": 2}]}


@pytest.mark.slow
def test_large_answers_are_whole_and_others_are_answered_meanwhile(prompted_folder):
    texts = [f"{number}" for number in range(256)]
    encoder = SentenceEncoder.load(prompted_folder)
    with serving(prompted_folder) as address, ThreadPoolExecutor(4) as pool, httpx.Client() as probe:
        body = {"first": texts, "second": texts}
        asked = [pool.submit(httpx.post, f"{address}/similarity", json=body, timeout=60) for _ in range(4)]
        slowest = 0.0
        while not all(each.done() for each in asked):
            start = time.monotonic()
            assert probe.get(f"{address}/health", timeout=30).status_code == 200
            slowest = max(slowest, time.monotonic() - start)
        scores = [np.array(each.result().json()["scores"]) for each in asked]
    expected = encoder.similarity(texts, texts)
    for each in scores:
        np.testing.assert_allclose(each, expected, atol=1e-5)
    print(f"slowest /health: {slowest:.2f} s")
