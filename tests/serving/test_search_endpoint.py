"""/search over an index on disk and over a file: modes, filters, reranking, limits, and what is refused."""

import json

import httpx
import pytest

from juzhen.encoders import SentenceEncoder
from juzhen.index import Index, Rows, add, build

for package in ("fastapi", "uvicorn", "httptools", "prometheus_client"):
    pytest.importorskip(package)
from running import serving  # noqa: E402  # needs those packages

TEXTS = ["今天天气很好", "怎么退货", "什么时候发货", "东西想退掉怎么办", "明天天气怎么样"]


@pytest.fixture(scope="module")
def encoder(prompted_folder):
    return SentenceEncoder.load(prompted_folder)


@pytest.fixture(scope="module")
def folder(encoder, tmp_path_factory):
    metadata = [{"topic": "天气" if "天气" in text else "购物", "page": len(text)} for text in TEXTS]
    rows = Rows(TEXTS, [f"t{number}" for number in range(5)], metadata, ["topic", "page"])
    build(place := tmp_path_factory.mktemp("served") / "faq", encoder, rows, name="small")
    return place


@pytest.fixture(scope="module")
def client(prompted_folder, cross_folder, folder):
    with (
        serving(prompted_folder, cross_folder, folder, texts=100) as address,
        httpx.Client(base_url=address, timeout=30) as opened,
    ):
        yield opened


def search(client, **body):
    reply = client.post("/search", json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


@pytest.mark.parametrize("mode", ["dense", "bm25", "hybrid"])
def test_the_server_finds_what_the_index_finds(client, encoder, folder, mode):
    reply = search(client, query=["怎么退货", "天气"], top_k=3, mode=mode)
    with Index.open(folder, encoder) as index:
        found = index.search(["怎么退货", "天气"], 3, mode=mode)
    assert (reply["model"], reply["mode"], reply["reranker"]) == ("small", mode, None)
    for hits, expected in zip(reply["results"], found, strict=True):
        assert hits == [hit.as_dict() | {"score": pytest.approx(hit.score, abs=1e-6)} for hit in expected]


def test_filters_and_reranking(client):
    hits = search(client, query="天气", filter={"topic": "天气", "page": [6, 7, None]})["results"][0]
    assert {hit["id"] for hit in hits} == {"t0", "t4"}
    reply = search(client, query="怎么退货", top_k=2, rerank=True)
    documents = {"query": "怎么退货", "documents": TEXTS, "top_n": 2}
    ranked = client.post("/v1/rerank", json=documents).json()["results"]
    assert [hit["index"] for hit in reply["results"][0]] == [hit["index"] for hit in ranked]
    assert [hit["score"] for hit in reply["results"][0]] == pytest.approx(
        [hit["relevance_score"] for hit in ranked]
    )
    assert reply["reranker"] == "judge"


def test_the_index_says_what_it_is_and_what_is_added_is_found_at_once(client, encoder, folder):
    facts = client.get("/index").json()
    about = {"name": "faq", "kind": "flat", "fields": ["topic", "page"], "reranks": True}
    assert facts.items() >= about.items()
    assert facts["modes"] == ["dense", "bm25", "hybrid"]
    assert facts["bytes_per_vector"] == 4 * facts["dimension"]
    add(folder, encoder, Rows(["发票怎么开"], ["new"]))
    assert client.get("/index").json()["texts"] == facts["texts"] + 1
    assert search(client, query="发票怎么开", top_k=1, mode="hybrid")["results"][0][0]["id"] == "new"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"filter": {"topik": "x"}}, "filter"),
        ({"filter": {"page": {"gt": 3}}}, "filter"),
        ({"filter": {"page": []}}, "filter"),
        ({"filter": {"page": 10**30}}, "filter"),
        ({"filter": {"page": float("nan")}}, "filter"),
        ({"filter": {"page": [1, float("-inf")]}}, "filter"),
        ({"filter": {"page": [*range(2000)]}}, "filter"),
        ({"filter": {"page": [[1]]}}, "filter"),
        ({"filter": [1]}, "filter"),
        ({"mode": "sparse"}, "mode"),
        ({"query": " ", "mode": "bm25"}, "query"),
        ({"query": ["a"] * 100, "top_k": 1000}, "query"),
        ({"query": ["a"] * 3, "rerank": True}, "query"),
        ({"rerank": 1}, "rerank"),
    ],
)
def test_what_cannot_be_searched_is_refused_with_the_field(client, body, param):
    reply = client.post(
        "/search", content=json.dumps({"query": "a"} | body), headers={"content-type": "application/json"}
    )
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)


def test_a_second_run_searches_the_same_texts(prompted_folder, encoder, tiny_backbone, tmp_path):
    from jobs import tiny_encoder

    from juzhen.encoders import save_encoder

    other = tiny_encoder(tiny_backbone)
    other.pooling = "max"
    save_encoder(other, tmp_path / "second", card={})
    lines = tmp_path / "texts.txt"
    lines.write_text("\n".join(TEXTS), encoding="utf-8")
    with (
        serving(prompted_folder, None, lines, compare=tmp_path / "second") as address,
        httpx.Client(base_url=address) as client,
    ):
        assert client.get("/index").json()["models"] == ["small", "second"]
        for name, searching in (("small", encoder), ("second", SentenceEncoder.load(tmp_path / "second"))):
            hits = search(client, query="怎么退货", model=name, top_k=5)["results"][0]
            expected = searching.search(["怎么退货"], TEXTS, 5)[0]
            assert [hit["index"] for hit in hits] == [hit.document for hit in expected]
            assert hits[1]["score"] == pytest.approx(expected[1].score, abs=1e-6)


@pytest.mark.slow
def test_without_a_cross_encoder(prompted_folder, tmp_path):
    lines = tmp_path / "texts.txt"
    lines.write_text("\n".join(TEXTS), encoding="utf-8")
    with serving(prompted_folder, None, lines) as address:
        refused = httpx.post(f"{address}/search", json={"query": "a", "rerank": True})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "rerank")
        reply = httpx.post(f"{address}/search", json={"query": "怎么退货", "mode": "bm25", "top_k": 1}).json()
        assert reply["results"][0][0]["text"] == "怎么退货"
    with serving(prompted_folder) as address:
        assert httpx.get(f"{address}/index").json()["error"]["code"] == "no_index"
