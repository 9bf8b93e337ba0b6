"""What a server answers: the vectors of the library, in the forms that clients read, and refusals that say why."""

import asyncio
import base64
import json
import re
import shlex
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import numpy as np
import pytest
from pages import commands, page

from juzhen.encoders import CrossEncoder, SentenceEncoder

httpx = pytest.importorskip("httpx")
for package in ("fastapi", "uvicorn", "httptools", "prometheus_client"):
    pytest.importorskip(package)
from running import serving  # noqa: E402  # needs those packages

TEXTS = ["今天天气很好", "怎么退货", "A man is playing a guitar.", "好", "东西想退掉怎么办呢请问"]
KEY = "k" * 20


@pytest.fixture(scope="module")
def encoder(prompted_folder):
    return SentenceEncoder.load(prompted_folder)


def vectors(reply):
    assert reply.status_code == 200, reply.text
    return np.array([row["embedding"] for row in reply.json()["data"]], dtype=np.float32)


def same(found, expected):
    np.testing.assert_allclose(found, expected, atol=1e-6)


def unit(vectors):
    """Of length 1, as OpenAI's embeddings are."""
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def problem(reply, status):
    """The error of a reply, in the form that OpenAI's clients read."""
    assert reply.status_code == status, reply.text
    error = reply.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert "Traceback" not in reply.text
    return error


@pytest.mark.parametrize(
    ("fields", "side"),
    [
        ({}, "encode"),
        ({"prompt_name": "query"}, "encode_query"),
        ({"input_type": "search_query"}, "encode_query"),
        ({"input_type": "document"}, "encode_document"),
        ({"input_type": "classification"}, "encode"),
    ],
)
def test_vectors_are_those_of_encode_alone_and_in_a_batch(client, encoder, fields, side):
    expected = unit(np.stack([getattr(encoder, side)(text) for text in TEXTS]))
    many = client.post("/v1/embeddings", json={"input": TEXTS, "model": "small"} | fields)
    same(vectors(many), expected)
    same(vectors(client.post("/v1/embeddings", json={"input": TEXTS[1]} | fields)), expected[1:2])
    lengths = encoder.with_prompt(None, "").tokenize(TEXTS).lengths
    assert many.json()["usage"]["total_tokens"] >= lengths.sum()


def test_requests_at_once_get_their_own_vectors(address, encoder):
    expected = {text: encoder.encode(text, normalize=True) for text in TEXTS}

    def ask(number):
        with httpx.Client(base_url=address, timeout=30) as own:
            chosen = [TEXTS[(number + turn) % len(TEXTS)] for turn in range(1 + number % 3)] * 2
            for _ in range(3):
                same(
                    vectors(own.post("/v1/embeddings", json={"input": chosen})),
                    [expected[text] for text in chosen],
                )

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(ask, range(16)))


@pytest.mark.slow
def test_the_client_of_openai(address, encoder):
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0)
    reply = client.embeddings.create(model="small", input=TEXTS)  # asks for base64
    same(np.array([row.embedding for row in reply.data]), encoder.encode(TEXTS, normalize=True))
    assert (reply.model, reply.usage.prompt_tokens) == ("small", int(encoder.tokenize(TEXTS).lengths.sum()))
    short = client.embeddings.create(model="small", input=TEXTS[0], dimensions=8, encoding_format="float")
    same(np.array(short.data[0].embedding), unit(encoder.encode(TEXTS[0])[:8]))
    ids = encoder.tokenizer(TEXTS[:2])["input_ids"]
    same(
        np.array([row.embedding for row in client.embeddings.create(model="small", input=ids).data]),
        encoder.encode(TEXTS[:2], normalize=True),
    )
    assert [model.id for model in client.models.list()] == ["small", "judge"]
    with pytest.raises(openai.NotFoundError) as unknown:
        client.embeddings.create(model="smal", input="a")
    with pytest.raises(openai.BadRequestError) as empty:
        client.embeddings.create(model="small", input=[])
    assert (unknown.value.param, empty.value.param) == ("model", "input")


def test_base64_is_little_endian_float32_and_null_is_float(client, encoder):
    expected = encoder.encode(TEXTS[0], normalize=True)
    reply = client.post("/v1/embeddings", json={"input": TEXTS[0], "encoding_format": "base64"}).json()
    same(np.frombuffer(base64.b64decode(reply["data"][0]["embedding"]), "<f4"), expected)
    same(
        vectors(client.post("/v1/embeddings", json={"input": TEXTS[0], "encoding_format": None})), [expected]
    )


@pytest.mark.parametrize("dimensions", [{}, {"dimensions": 32}, {"dimensions": 8}, {"dimensions": None}])
def test_embeddings_are_of_length_1_as_openai_has_them(client, encoder, dimensions):
    assert np.linalg.norm(encoder.encode(TEXTS), axis=1).min() > 1.5
    found = vectors(client.post("/v1/embeddings", json={"input": TEXTS} | dimensions))
    same(np.linalg.norm(found, axis=1), 1)


def test_embed_similarity_and_search(client, encoder):
    reply = client.post("/embed", json={"texts": TEXTS[:2]}).json()
    raw = encoder.encode(TEXTS[:2])
    same(np.array(reply["embeddings"]), raw / np.linalg.norm(raw, axis=1, keepdims=True))
    assert (reply["model"], reply["dimension"]) == ("small", encoder.dim)
    reply = client.post("/embed", json={"texts": TEXTS[:2], "normalize": False})
    if encoder.normalize:
        assert "length 1" in problem(reply, 400)["message"]
    else:
        same(np.array(reply.json()["embeddings"]), raw)
    scores = client.post("/similarity", json={"first": TEXTS[0], "second": TEXTS[1:]}).json()["scores"]
    same(np.array(scores), encoder.similarity(TEXTS[:1], TEXTS[1:]))
    corpus = ["今天天气很好", "怎么退货", "什么时候发货"]
    results = client.post("/search", json={"query": ["怎么退货", "发货"], "top_k": 2}).json()["results"]
    hits = encoder.search(["怎么退货", "发货"], corpus, 2)
    assert [[hit["index"] for hit in row] for row in results] == [
        [hit.corpus_id for hit in row] for row in hits
    ]
    assert results[0][0]["text"] == corpus[results[0][0]["index"]]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_reranking_by_a_cross_encoder(client, cross_folder, version):
    judge = CrossEncoder.load(cross_folder)
    documents = [TEXTS[1], {"text": TEXTS[4]}, TEXTS[2]]
    logits = judge.score([(TEXTS[0], text) for text in (TEXTS[1], TEXTS[4], TEXTS[2])])
    shares = 1 / (1 + np.exp(-logits))
    order = np.argsort(-shares, kind="stable")[:2]
    body = {"query": TEXTS[0], "documents": documents, "top_n": 2, "return_documents": True, "model": "judge"}
    reply = client.post(f"/{version}/rerank", json=body).json()
    assert [hit["index"] for hit in reply["results"]] == order.tolist()
    same([hit["relevance_score"] for hit in reply["results"]], shares[order])
    assert reply["results"][0]["document"]["text"] in TEXTS
    assert reply["meta"]["warnings"] == []
    long = client.post("/v1/rerank", json={"query": TEXTS[0], "documents": ["长" * 100, "短"]}).json()
    assert long["meta"]["warnings"] == ["1 of 2 documents were cut"]
    assert set(long["results"][0]) == {"index", "relevance_score"}


def test_without_a_cross_encoder_embeddings_rerank_and_say_so(prompted_folder, encoder):
    with serving(prompted_folder) as address:
        reply = httpx.post(f"{address}/v2/rerank", json={"query": TEXTS[0], "documents": TEXTS[1:]}).json()
        cosines = encoder.similarity(encoder.encode_query(TEXTS[0]), encoder.encode_document(TEXTS[1:]))
        same([hit["relevance_score"] for hit in reply["results"]], np.sort((1 + cosines) / 2)[::-1])
        assert "--rerank" in reply["meta"]["warnings"][0]
        nothing = problem(httpx.post(f"{address}/search", json={"query": "a"}), 404)
        assert "--index" in nothing["message"]


BAD = [
    ("/v1/embeddings", {"input": []}, 400, "input: expected a text"),
    ("/v1/embeddings", {}, 400, "input: field required"),
    ("/v1/embeddings", {"input": ""}, 400, "text 0 is empty"),
    ("/v1/embeddings", {"input": ["好", 5]}, 400, "input: text 1 is of the type int"),
    ("/v1/embeddings", {"input": ["好", None]}, 400, "text 1"),
    ("/v1/embeddings", {"input": ["好"] * 101}, 400, "at most 100"),
    ("/v1/embeddings", {"input": "长" * 40}, 400, "more than the 32 tokens"),
    ("/v1/embeddings", {"input": "长" * 70_000}, 400, "70,000 characters"),
    ("/v1/embeddings", {"input": [1, 2, 3]}, 400, "not of this encoder's tokenizer"),
    ("/v1/embeddings", {"input": "好", "dimensions": 1000}, 400, "dimensions: 1000; this encoder gives 32"),
    ("/v1/embeddings", {"input": "好", "dimensions": True}, 400, "dimensions"),
    ("/v1/embeddings", {"input": "好", "model": "gpt"}, 404, "gpt is not served"),
    ("/v1/embeddings", {"input": "好", "model": "smal"}, 404, "Did you mean small"),
    ("/v1/embeddings", {"input": "好", "prompt_nmae": "query"}, 400, "Did you mean prompt_name"),
    ("/v1/embeddings", {"input": "好", "prompt_name": "qury"}, 400, "Did you mean query"),
    ("/v1/embeddings", {"input": "好", "prompt_name": "query", "input_type": "query"}, 400, "one of the two"),
    ("/v1/rerank", {"query": "好", "documents": []}, 400, "documents: "),
    ("/v1/rerank", {"query": "好", "documents": [{"title": "x"}]}, 400, "documents"),
    ("/embed", {"texts": {"a": 1}}, 400, "texts: expected"),
    ("/nowhere", {}, 404, "no such path"),
]


@pytest.mark.parametrize(("path", "body", "status", "says"), BAD, ids=lambda value: str(value)[:30])
def test_what_does_not_fit_is_refused_with_a_reason(client, path, body, status, says):
    assert says in problem(client.post(path, json=body), status)["message"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b'{"input": "\\ud800"}', ""),
        (b'{"input": "a\xff"}', "no JSON"),
        (b"[" * 60_000, "no JSON"),
        (b'{"input": NaN}', ""),
        (b"[1]", "body: "),
    ],
)
def test_bodies_that_are_no_requests(client, content, says):
    reply = client.post("/v1/embeddings", content=content, headers={"Content-Type": "application/json"})
    assert says in problem(reply, 400)["message"]
    assert "JSON" in problem(client.post("/v1/embeddings", content=b"{}"), 415)["message"]


def test_texts_that_are_long_are_cut_where_that_is_asked_for(client, encoder):
    long = "今天" * 40
    for word in (True, "END"):
        same(
            vectors(client.post("/v1/embeddings", json={"input": long, "truncate": word})),
            [encoder.encode(long, normalize=True)],
        )


def test_keys_sizes_names_of_hosts_and_logs(prompted_folder, capfd):
    secret = "一段不该出现在日志里的文字"
    with serving(prompted_folder, keys=[KEY, "o" * 20], body_bytes=10_000) as address:
        own = httpx.Client(base_url=address, headers={"Authorization": f"Bearer {KEY}"})
        assert own.post("/embed", json={"texts": secret}).status_code == 200
        assert problem(httpx.post(f"{address}/embed", json={"texts": "a"}), 401)["code"] == "invalid_api_key"
        wrong = {"Authorization": f"Bearer {KEY}x"}
        assert httpx.get(f"{address}/metrics", headers=wrong).status_code == 401
        assert httpx.get(f"{address}/health").json() == {"status": "ok"}
        message = problem(own.post("/embed", json={"texts": "a" * 20_000}), 413)["message"]
        assert "10,000 bytes" in message
        assert "Send less" in message
        assert problem(own.post("/admin/reload", headers={"Origin": "http://evil.example"}), 403)
        page = own.get("/metrics").text
        assert 'juzhen_requests_total{path="/embed",status="200"} 1.0' in page
        own.get(f"/{KEY}")
    log = capfd.readouterr().err
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    assert secret not in log
    assert KEY not in log
    assert {"client", "ms", "path", "status", "tokens"} <= set(
        next(line for line in lines if line["event"] == "request")
    )


def events(capfd):
    """What a server has written on stderr: each line is JSON."""
    return [json.loads(line) for line in capfd.readouterr().err.splitlines()]


def test_lines_of_libraries_are_json_too_and_without_the_words_of_an_exception(prompted_folder, capfd):
    secret = "一段不该出现在日志里的文字"

    def change(server):
        def failing(*_):
            raise ValueError(secret)

        asyncio.get_running_loop().call_later(0.05, failing)

    with serving(prompted_folder, change=change) as address:
        port = int(address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"no request\r\n\r\n")
            assert b"400" in connection.recv(1000)
        time.sleep(0.1)
    lines = events(capfd)
    by_logger = {line["logger"]: line for line in lines if line["event"] == "log"}
    assert by_logger["uvicorn.error"]["level"] == "warning"
    assert (by_logger["asyncio"]["level"], by_logger["asyncio"]["error"]) == ("error", "ValueError")
    assert "failing" in by_logger["asyncio"]["trace"]
    assert secret not in str(lines)


def test_who_forwards_is_believed_where_it_is_named_alone(prompted_folder, capfd):
    other = {"X-Forwarded-For": "203.0.113.7"}
    for proxies, client in (((), "127.0.0.1"), (("127.0.0.0/8",), "203.0.113.7")):
        with serving(prompted_folder, proxies=proxies) as address:
            assert httpx.post(f"{address}/embed", json={"texts": "a"}, headers=other).status_code == 200
            assert problem(httpx.post(f"{address}/admin/reload", headers=other), 403)
        asked = [line for line in events(capfd) if line["event"] == "request"]
        assert {line["client"] for line in asked} == {client}


@pytest.mark.parametrize(
    "name", ["LOCALHOST", "LocalHost:{port}", "127.0.0.1:{port}", "[::1]:{port}", "[::1]"]
)
def test_this_machine_has_several_names(address, name):
    host = name.format(port=address.rpartition(":")[2])
    assert httpx.get(f"{address}/v1/models", headers={"Host": host}).status_code == 200


def test_strangers_at_the_loopback_are_kept_out(address):
    assert problem(httpx.get(f"{address}/v1/models", headers={"Host": "localhost.evil.example"}), 403)
    assert problem(httpx.get(f"{address}/v1/models", headers={"Host": "evil.example:80"}), 403)
    port = int(address.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
        with pytest.raises(ConnectionError):
            connection.sendall(b"a" * 10**8)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have 127.0.0.1 alone")
def test_every_address_of_the_loopback_keeps_strangers_out(prompted_folder):
    with serving(prompted_folder, host="127.0.0.2") as address:
        for host, status in (("127.0.0.2", 200), ("localhost", 200), ("127.evil.example", 403)):
            assert httpx.get(f"{address}/v1/models", headers={"Host": host}).status_code == status


@pytest.mark.slow
def test_a_full_queue_and_late_answers(prompted_folder, monkeypatch):
    """With the thread of batches held, what comes next is refused, or ends in time."""
    hold, servers = threading.Event(), []

    def held(server):
        servers.append(server)
        compute = server.service.models.embedder.compute
        server.service.models.embedder.compute = lambda inputs: (hold.wait(), compute(inputs))[1]

    with (
        serving(prompted_folder, change=held, queue_tokens=40, seconds=1.0) as address,
        ThreadPoolExecutor(4) as pool,
    ):
        post = lambda text: httpx.post(f"{address}/embed", json={"texts": text}, timeout=30)  # noqa: E731
        first = pool.submit(post, "今天天气很好今天天气很好")
        while servers[0].service.batcher.tokens == 0:
            pass
        busy = httpx.post(f"{address}/embed", json={"texts": ["今天天气很好今天天气很好"] * 2}, timeout=30)
        assert problem(busy, 429)["code"] == "busy"
        assert int(busy.headers["Retry-After"]) >= 1
        large = httpx.post(f"{address}/embed", json={"texts": ["今天天气很好"] * 9}, timeout=30)
        assert "send fewer texts" in problem(large, 413)["message"]
        late = first.result()
        assert problem(late, 503)["code"] == "timeout"
        hold.set()
        assert post("好").status_code == 200
        while servers[0].service.batcher.tokens:
            pass


def test_clients_take_turns_and_a_failure_is_of_its_request_alone(prompted_folder):
    """A long request of one client and a short one of another are in the same round; a poisoned text spoils neither."""
    taken, servers = [], []

    def watched(server):
        servers.append(server)
        embedder = server.service.models.embedder
        compute, poison = (
            embedder.compute,
            embedder.tokens(["毒"], embedder.encoder, param="x", truncate=False)[0],
        )

        def computed(inputs):
            taken.append(len(inputs))
            if any(np.array_equal(ids, poison[0][0]) for ids, _ in inputs):
                raise RuntimeError("poison")
            return compute(inputs)

        embedder.compute = computed

    keys = [KEY, "o" * 20]
    with (
        serving(prompted_folder, keys=keys, change=watched, batch_tokens=64) as address,
        ThreadPoolExecutor() as pool,
    ):

        def post(texts, key):
            headers = {"Authorization": f"Bearer {key}"}
            return httpx.post(f"{address}/embed", json={"texts": texts}, headers=headers, timeout=30)

        many = pool.submit(post, [f"{number} 今天" for number in range(90)], keys[0])
        few = [pool.submit(post, text, keys[1]) for text in ("好", "毒", "天")]
        assert many.result().status_code == 200
        assert sorted(reply.result().status_code for reply in few) == [200, 200, 500]
        assert (
            problem(next(r.result() for r in few if r.result().status_code == 500), 500)["type"]
            == "server_error"
        )
    assert len(taken) > 9


def test_a_new_run_takes_the_place_of_the_old_and_a_broken_one_does_not(
    prompted_folder, tiny_backbone, tmp_path
):
    from jobs import tiny_encoder

    from juzhen.encoders import save_encoder

    link = tmp_path / "current"
    link.symlink_to(prompted_folder)
    other = tiny_encoder(tiny_backbone)
    other.pooling = "max"
    save_encoder(other, tmp_path / "other", card={})
    other = SentenceEncoder.load(tmp_path / "other")
    with serving(link) as address:
        ask = lambda: np.array(httpx.post(f"{address}/embed", json={"texts": "好"}).json()["embeddings"])  # noqa: E731
        old = ask()
        link.unlink()
        link.symlink_to(tmp_path / "other")
        assert httpx.post(f"{address}/admin/reload", timeout=30).status_code == 200
        new = ask()
        link.unlink()
        assert "no such folder" in problem(httpx.post(f"{address}/admin/reload", timeout=30), 500)["message"]
        same(ask(), new)
    expected = other.encode(["好"])
    same(new, expected / np.linalg.norm(expected))
    assert not np.allclose(old, new)


def test_prompts_states_and_the_document(client):
    cards = client.get("/v1/models").json()["data"]
    assert cards[0]["prompts"] == ["document", "query"]
    assert client.get(f"/v1/models/{cards[0]['id']}").json() == cards[0]
    assert problem(client.get("/v1/models/nosuch"), 404)["code"] == "model_not_found"
    assert client.get("/ready").json() == {"status": "ready"}
    document = client.get("/openapi.json").json()
    assert document["info"]["version"] == version("juzhen-embeddings")
    assert {"/v1/embeddings", "/v1/rerank", "/v2/rerank", "/embed", "/similarity", "/search"} <= set(
        document["paths"]
    )
    assert document["components"]["schemas"]["EmbeddingsBody"]["properties"]["dimensions"]
    page = client.get("/docs").text
    assert "/v1/embeddings" in page
    assert "<script" not in page


@pytest.mark.slow
def test_the_lines_of_the_guide_run(tmp_path, capsys):
    curl = [line for line in commands("docs/guides/serving.md") if line.startswith("curl")]
    assert curl == [line for line in commands("docs/guides/serving.zh.md") if line.startswith("curl")]
    assert len(curl) == 7
    with serving("builtin/mini_zh") as address:
        for line in curl:
            words = shlex.split(line.replace("http://127.0.0.1:8000", address))
            reply = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
            assert "error" not in reply
        pytest.importorskip("openai")
        (program,) = re.findall(r"```text\n(from openai.*?)```", page("docs/guides/serving.md"), re.S)
        exec(program.replace("http://127.0.0.1:8000", address), {})
    assert capsys.readouterr().out.startswith("2 128 ")


@pytest.mark.skipif(sys.platform != "linux", reason="the option is Linux's")
def test_at_the_end_new_connections_are_refused_and_those_taken_before_are_answered():
    from juzhen.serving.server import bind, refuse_new_connections

    with bind("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()) as waiting:
        refuse_new_connections(listening)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(listening.getsockname(), timeout=5)
        taken, _ = listening.accept()
        with taken:
            taken.sendall(b"answer")
        assert waiting.recv(9) == b"answer"


def test_unknown_characters_are_a_header_and_a_metric(client):
    def counted():
        page = client.get("/metrics").text
        return float(re.search(r"^juzhen_unknown_texts_total (\S+)", page, re.MULTILINE)[1])

    before = counted()
    known = client.post("/v1/embeddings", json={"input": TEXTS})
    assert "x-unknown-texts" not in known.headers
    reply = client.post("/v1/embeddings", json={"input": [*TEXTS, "𓀀", "𓀁好"]})
    assert reply.headers["x-unknown-texts"] == "2"
    reply = client.post("/rerank", json={"query": TEXTS[0], "texts": ["𓀀", TEXTS[1]]})
    assert reply.headers["x-unknown-texts"] == "1"
    assert counted() - before == 3
