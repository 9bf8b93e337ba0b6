"""Input that no client of ours sends: each is answered in time and never with a failure of the server."""

import gzip
import json
import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

for package in ("fastapi", "uvicorn", "httptools", "prometheus_client"):
    pytest.importorskip(package)
from juzhen.serving import schemas  # noqa: E402  # needs those packages

SECONDS = 20.0
"""In which each of these is answered. A hang would take the limit of a request, 60 seconds."""

BODIES = {
    "/v1/embeddings": (schemas.EmbeddingsBody, {"input": "好"}),
    "/v2/rerank": (schemas.RerankBody, {"query": "好", "documents": ["好", "天"]}),
    "/v2/embed": (schemas.CohereEmbedBody, {"texts": ["好"], "input_type": "search_query"}),
    "/embed": (schemas.EmbedBody, {"texts": ["好"]}),
    "/embeddings": (schemas.InfinityEmbeddingsBody, {"input": ["好"]}),
    "/rerank": (schemas.ListRerankBody, {"query": "好", "texts": ["好", "天"]}),
    "/similarity": (schemas.SimilarityBody, {"first": "好", "second": ["天"]}),
    "/score": (schemas.ScoreBody, {"pairs": [["好", "天"]]}),
    "/words": (schemas.WordsBody, {"first": "好", "second": "天"}),
    "/search": (schemas.SearchBody, {"query": "好"}),
}
VALUES = [
    *(None, True, -1, 0, 7, 10**30, 1.5, 1e308, "", " ", "\x00", "x", "\ud800", "\uffff", "a\u202eb"),
    *(
        [],
        {},
        [None],
        [[]],
        [[1.5]],
        [[10**30]],
        [[-1]],
        [True],
        ["好", 1],
        [["好"]],
        [{"text": 1}],
        {"a": {"b": 1}},
    ),
]


def said(port, content, *, silence, wait=SECONDS):
    """What the server answers to these bytes until it closes or is silent for some seconds."""
    found, end = b"", time.monotonic() + wait
    with socket.create_connection(("127.0.0.1", port), timeout=wait) as own:
        try:
            own.sendall(content)
            own.settimeout(silence)
            while time.monotonic() < end:
                try:
                    part = own.recv(2**20)
                except TimeoutError:
                    if found:
                        break
                    continue
                if not part:
                    break
                found += part
        except ConnectionError:
            pass
    assert time.monotonic() < end, "no answer in time"
    return found


def statuses(answer):
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", answer)]


def request(body, *headers, path="/embed", length=True):
    sizes = (f"Content-Length: {len(body)}",) if length else ()
    lines = (f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *sizes, *headers)
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def chunked(*parts):
    sizes = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    return request(sizes + b"0\r\n\r\n", "Transfer-Encoding: chunked", length=False)


@pytest.fixture(scope="module")
def port(address):
    return int(address.rpartition(":")[2])


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.sampled(4)
def test_a_value_of_any_type_in_any_field_is_answered(client, path):
    kind, body = BODIES[path]

    def failure(given):
        content = json.dumps(body | dict([given]))
        answer = client.post(path, content=content, headers={"Content-Type": "application/json"})
        if answer.status_code >= 500 or (answer.status_code >= 400 and not answer.json()["error"]["message"]):
            return *given, answer.status_code, answer.text[:200]
        return None

    with ThreadPoolExecutor(8) as threads:
        failures = threads.map(failure, [(field, value) for field in kind.model_fields for value in VALUES])
        wrong = [one for one in failures if one]
    assert not wrong
    assert client.get("/health").status_code == 200


ONE = b'{"texts": ["a"]}'
DEEP = 100_000
RAW = {
    "brackets in brackets": (request(b'{"texts": ' + b"[" * DEEP + b"]" * DEEP + b"}"), {400, 413}),
    "objects in objects": (request(b'{"texts":' * 20_000 + b"1" + b"}" * 20_000), {400}),
    "brackets in a field that is not there": (
        request(b'{"texts": ["a"], "x": ' + b"[" * 50_000 + b"]" * 50_000 + b"}"),
        {400, 413},
    ),
    "a key twice": (request(b'{"texts": ["a"], "texts": ["b"]}'), {200, 400}),
    "NaN": (request(b'{"first": "a", "second": "b", "min_score": NaN}', path="/similarity"), {400}),
    "infinity": (
        request(b'{"first": "a", "second": "b", "min_score": -Infinity}', path="/similarity"),
        {400},
    ),
    "a number beyond all floats": (
        request(b'{"first": "a", "second": "b", "min_score": 1e999}', path="/similarity"),
        {400},
    ),
    "a number of 5,000 digits": (request(b'{"texts": ["a"], "dimensions": ' + b"9" * 5000 + b"}"), {400}),
    "NaN for a text": (request(b'{"texts": [NaN]}'), {400}),
    "half a surrogate pair": (request(b'{"texts": ["\\ud800"]}'), {400}),
    "half a surrogate pair as a key": (request(b'{"texts": ["a"], "\\udc00": 1}'), {400}),
    "half a surrogate pair as a model": (request(b'{"texts": ["a"], "model": "\\ud800"}'), {400, 404}),
    "a text of 7 million characters": (request(b'{"texts": ["' + b"a" * 7_000_000 + b'"]}'), {413}),
    "a text of 4 million characters": (request(b'{"texts": ["' + b"a" * 4_000_000 + b'"]}'), {400, 413}),
    "a text of a million characters that shall be cut": (
        request(json.dumps({"texts": ["天" * 1_000_000], "truncate": True}).encode()),
        {200, 400, 413},
    ),
    "5,000 texts": (request(json.dumps({"texts": ["a"] * 5000}).encode()), {400, 413}),
    "5,000 pairs": (request(json.dumps({"pairs": [["a", "b"]] * 5000}).encode(), path="/score"), {400, 413}),
    "a filter of 5,000 values": (
        request(json.dumps({"query": "a", "filter": {"a": [*range(5000)]}}).encode(), path="/search"),
        {400, 404},
    ),
    "in chunks, without a length": (chunked(ONE[:5], ONE[5:]), {200}),
    "in chunks of one byte": (chunked(*(bytes([byte]) for byte in ONE)), {200}),
    "in chunks, too large": (chunked(*[b"a" * 65_536] * 100), {413}),
    "a chunk of a size that is none": (
        request(b"xyz\r\n{}\r\n0\r\n\r\n", "Transfer-Encoding: chunked", length=False),
        {400},
    ),
    "a chunk longer than memory": (
        request(b"fffffffffffffffff\r\n{}", "Transfer-Encoding: chunked", length=False),
        {400},
    ),
    "two lengths": (request(ONE, "Content-Length: 1"), {400}),
    "a length and chunks": (request(ONE, "Transfer-Encoding: chunked"), {400}),
    "a length below zero": (request(ONE, "Content-Length: -1", length=False), {400}),
    "gzip": (request(gzip.compress(ONE), "Content-Encoding: gzip"), {415}),
    "gzip by name alone": (request(ONE, "Content-Encoding: br, gzip"), {415}),
    "identity": (request(ONE, "Content-Encoding: identity"), {200}),
    "a transfer encoding that nobody knows": (
        request(ONE, "Transfer-Encoding: zip", length=False),
        {400, 501},
    ),
    "UTF-16": (request('{"texts": ["好"]}'.encode("utf-16")), {400}),
    "bytes that are no UTF-8": (request(b'{"texts": ["\xff\xfe"]}'), {400}),
    "a mark of the order of bytes": (request(b"\xef\xbb\xbf" + ONE), {200, 400}),
    "no body": (request(b""), {400}),
    "a list": (request(b"[1, 2]"), {400}),
    "two documents": (request(ONE + ONE), {400}),
    "NUL": (request(b'{"texts": ["a\\u0000b"]}'), {200, 400}),
    "expects to be asked for": (request(ONE, "Expect: 100-continue"), {100, 200}),
    "a method that nobody knows": (b"BREW /embed HTTP/1.1\r\nHost: localhost\r\n\r\n", {400, 405}),
    "HTTP/1.0": (b"GET /health HTTP/1.0\r\n\r\n", {200}),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 404, 405, 505}),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(300), {400}),
    "a path of 60,000 characters": (
        b"GET /" + b"a" * 60_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        {400, 404, 414},
    ),
    "a path with NUL and dots": (b"GET /..%00/%2e%2e/etc HTTP/1.1\r\nHost: localhost\r\n\r\n", {404}),
    "a header of 200,000 bytes": (request(ONE, "X: " + "a" * 200_000), {400, 413, 431}),
    "2,000 headers": (request(ONE, *(f"X{number}: a" for number in range(2000))), {200, 400, 431}),
    "a header with a line in it": (request(ONE, "X: a\r\n\tb\rHost: c"), {200, 400, 403}),
    "50 requests at once": (request(ONE) * 50, {200}),
    "right and wrong requests at once": ((request(ONE) + request(b"{")) * 10, {200, 400}),
}
"""Name → what is sent, and the statuses that it may be answered with; a closed connection is an answer too."""

MAY_CLOSE = {
    "a text of 7 million characters", "in chunks, too large", "a header of 200,000 bytes", "HTTP/2", "TLS",
    "a chunk longer than memory", "a method that nobody knows", "2,000 headers",
}  # fmt: skip
"""Where the connection may end before the answer is read."""


HALF = {"query": "今天", "documents": ["\ud800"]}
BOTH = {"query": "今天", "texts": ["天气"]}


@pytest.mark.parametrize(
    ("path", "body", "param", "told"),
    [
        ("/v1/embeddings", {"input": "今天", "truncate": "yes"}, "truncate", ""),
        ("/v2/rerank", {"query": "今天", "documents": ["天", {"txt": "气"}]}, "documents.1", ""),
        ("/v2/rerank", HALF, None, "surrogate"),
        ("/embed", {"texts": ["今天"], "inputs": ["今天"]}, "texts", "not both"),
        ("/embed", {"texts": ["今天"], "model": ""}, "model", "(empty)"),
        ("/rerank", BOTH | {"return_documents": True}, "return_documents", "return_text"),
        (
            "/rerank",
            {"query": "今天", "documents": ["气"], "return_text": True},
            "return_text",
            "return_documents",
        ),
        ("/rerank", BOTH | {"texts": ["天气", ""]}, "texts", "texts: text"),
        (
            "/search",
            {"query": "今天", "prompt_name": "query", "input_type": "query"},
            "prompt_name",
            "input_type",
        ),
        ("/search", {"query": "今天", "prompt_name": "query", "mode": "bm25"}, "prompt_name", "mode=bm25"),
    ],
)
def test_a_wrong_field_is_named_as_the_request_has_it(client, path, body, param, told):
    answer = client.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})
    error = answer.json()["error"]
    assert answer.status_code == (404 if param == "model" else 400)
    assert error["param"] == param
    assert told in error["message"]


@pytest.mark.parametrize("name", RAW)
@pytest.mark.sampled(3)
def test_strange_bytes_are_answered_in_time(client, port, name):
    content, expected = RAW[name]
    found = statuses(said(port, content, silence=0.5 if name.endswith("at once") else 0.1))
    assert {*found} <= expected, found
    assert found or name in MAY_CLOSE
    if name.endswith("at once"):
        assert found == {"50 requests at once": [200] * 50}.get(name, [200, 400] * 10)
    assert client.get("/health").status_code == 200


def test_all_paths_with_a_body_are_tried(client):
    document = client.get("/openapi.json").json()
    posts = {path for path, methods in document["paths"].items() if "post" in methods}
    assert posts - {"/v1/rerank", "/v1/embed"} == {*BODIES}
