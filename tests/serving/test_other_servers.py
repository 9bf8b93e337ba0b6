"""Clients of text-embeddings-inference, Infinity and Cohere: their requests, and what they read of the answers."""

import asyncio
import base64

import numpy as np
import pytest

httpx = pytest.importorskip("httpx")
for package in ("fastapi", "uvicorn", "httptools", "prometheus_client"):
    pytest.importorskip(package)
from running import serving  # noqa: E402  # needs those packages

from juzhen.encoders import CrossEncoder, SentenceEncoder  # noqa: E402

TEXTS = ["今天天气很好", "怎么退货", "A man is playing a guitar.", "好"]
LONG = "今天" * 40
KEY = "k" * 20


@pytest.fixture(scope="module")
def encoder(prompted_folder):
    return SentenceEncoder.load(prompted_folder)


@pytest.fixture(scope="module")
def unit(encoder):
    return encoder.encode(TEXTS, normalize=True)


@pytest.fixture(scope="module")
def raw_scores(cross_folder):
    return CrossEncoder.load(cross_folder).score([(TEXTS[0], text) for text in TEXTS[1:]])


def same(found, expected):
    np.testing.assert_allclose(np.array(found), expected, atol=1e-6)


def post(client, path, **body):
    reply = client.post(path, json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


@pytest.mark.parametrize("path", ["/embed", "/"])
def test_inputs_are_answered_with_the_matrix_alone(client, encoder, unit, path):
    same(post(client, path, inputs=TEXTS, normalize=True, truncate=False, truncation_direction="Right"), unit)
    same(post(client, path, inputs=TEXTS[0], truncate=None, prompt_name=None), unit[:1])
    same(post(client, path, inputs=TEXTS, normalize=False), encoder.encode(TEXTS))
    same(post(client, path, inputs=TEXTS, prompt_name="query"), encoder.encode_query(TEXTS, normalize=True))
    cut = encoder.encode(TEXTS)[:, :8]
    same(post(client, path, inputs=TEXTS, dimensions=8), cut / np.linalg.norm(cut, axis=1, keepdims=True))
    same(post(client, path, inputs=TEXTS, dimensions=8, normalize=False), cut)
    same(post(client, path, inputs=[LONG], truncate=True), encoder.encode([LONG], normalize=True))


REFUSED = {
    "/embed": [
        ("inputs", {"inputs": [LONG]}),
        ("inputs", {"inputs": [[2, 17, 3]]}),
        ("inputs", {"inputs": [2, 17, 3]}),
        ("inputs", {"inputs": []}),
        ("inputs", {"inputs": ""}),
        ("truncation_direction", {"inputs": "a", "truncate": True, "truncation_direction": "Left"}),
        ("dimensions", {"inputs": "a", "dimensions": 1000}),
        ("texts", {"inputs": "a", "texts": "a"}),
        ("texts", {}),
        ("prompt_name", {"inputs": "a", "prompt_name": "qury"}),
    ],
    "/rerank": [
        ("texts", {"query": TEXTS[0], "texts": [LONG]}),
        ("documents", {"query": TEXTS[0]}),
        ("texts", {"query": TEXTS[0], "documents": ["a"], "texts": ["a"]}),
    ],
    "/embeddings": [("modality", {"input": "a", "modality": "image"})],
    "/v2/embed": [
        (param, {"texts": TEXTS} | fields)
        for param, fields in (
            ("texts", {"texts": [LONG], "truncate": "NONE"}),
            ("truncate", {"truncate": "START"}),
            ("embedding_types.0", {"embedding_types": ["int4"]}),
            ("embedding_types", {"embedding_types": ["float"] * 13}),
            ("output_dimension", {"output_dimension": 33}),
            ("input_type", {"input_type": "image"}),
            ("images", {"images": ["data:"]}),
            ("max_tokens", {"max_tokens": 3}),
        )
    ],
}
"""Path → the field that is named and the body that was sent."""


@pytest.fixture(scope="module")
def lone_client(prompted_folder):
    """Of a server without a cross-encoder."""
    with serving(prompted_folder) as address, httpx.Client(base_url=address) as client:
        yield client


@pytest.mark.parametrize(
    ("server", "path", "param", "body"),
    [
        *(("client", path, *row) for path, bodies in REFUSED.items() for row in bodies),
        ("lone_client", "/rerank", "texts", {"query": "a", "texts": ["b"]}),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_field(f, server, path, param, body):
    reply = getattr(f, server).post(path, json=body)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, param), reply.text


def test_texts_are_ranked_as_text_embeddings_inference_does(client, raw_scores):
    shares = 1 / (1 + np.exp(-raw_scores))
    order = np.argsort(-raw_scores)
    ranks = post(client, "/rerank", query=TEXTS[0], texts=TEXTS[1:])
    assert [rank["index"] for rank in ranks] == order.tolist()
    assert all(set(rank) == {"index", "score"} for rank in ranks)
    same([rank["score"] for rank in ranks], shares[order])
    ranks = post(client, "/rerank", query=TEXTS[0], texts=TEXTS[1:], raw_scores=True, return_text=True)
    same([rank["score"] for rank in ranks], raw_scores[order])
    assert [rank["text"] for rank in ranks] == [TEXTS[1:][place] for place in order]
    assert len(post(client, "/rerank", query=TEXTS[0], texts=[LONG], truncate=True)) == 1


def test_documents_are_ranked_as_infinity_does(client, raw_scores):
    order = np.argsort(-raw_scores)[:2]
    body = {"query": TEXTS[0], "documents": TEXTS[1:], "top_n": 2, "model": "default/not-specified"}
    reply = post(client, "/rerank", **body, return_documents=True)
    assert reply["object"] == "rerank"
    assert reply["model"] == "judge"
    assert set(reply) >= {"id", "created", "usage"}
    assert [hit["index"] for hit in reply["results"]] == order.tolist()
    assert [hit["document"] for hit in reply["results"]] == [TEXTS[1:][place] for place in order]
    same(
        [hit["relevance_score"] for hit in post(client, "/rerank", **body, raw_scores=True)["results"]],
        raw_scores[order],
    )
    reply = post(client, "/rerank", query=TEXTS[0], documents=[LONG, {"text": "好"}])
    assert reply["meta"]["warnings"] == ["1 of 2 documents were cut"]
    assert "document" not in reply["results"][0]


def test_embeddings_as_infinity_has_them(client, encoder, unit):
    reply = post(
        client, "/embeddings", input=TEXTS, model="default/not-specified", dimensions=0, modality="text"
    )
    same([row["embedding"] for row in reply["data"]], unit)
    assert (reply["object"], reply["model"]) == ("list", "small")
    assert set(reply) >= {"id", "created", "usage"}
    reply = post(client, "/embeddings", input=[LONG, "好"], model="small")
    same(reply["data"][0]["embedding"], encoder.encode(LONG, normalize=True))
    assert reply["meta"]["warnings"] == ["1 of 2 texts were cut"]


def test_models_as_infinity_lists_them(client):
    reply = client.get("/models").json()
    assert reply["object"] == "list"
    assert [(card["id"], card["capabilities"]) for card in reply["data"]] == [
        ("small", ["embed"]),
        ("judge", ["rerank"]),
    ]
    assert {card["owned_by"] for card in reply["data"]} == {"infinity"}
    assert set(reply["data"][0]["stats"]) == {
        "queue_fraction",
        "queue_absolute",
        "results_pending",
        "batch_size",
    }


def test_the_server_tells_of_itself_as_text_embeddings_inference_does(client, encoder):
    info = client.get("/info").json()
    assert (info["model_id"], info["model_dtype"], info["max_input_length"]) == ("small", "float32", 32)
    assert info["model_type"] == {"embedding": {"pooling": encoder.pooling}}
    assert info["auto_truncate"] is False
    assert info["max_client_batch_size"] == 100


@pytest.mark.parametrize(("version", "typed"), [("v1", False), ("v1", True), ("v2", False), ("v2", True)])
def test_embeddings_as_cohere_has_them(client, encoder, version, typed):
    types = ["float", "base64", "int8", "uint8", "binary", "ubinary"] if typed else None
    reply = post(
        client,
        f"/{version}/embed",
        texts=TEXTS,
        model="small",
        input_type="search_query",
        **({"embedding_types": types} if typed else {}),
    )
    expected = encoder.encode_query(TEXTS, normalize=True)
    assert reply["texts"] == TEXTS
    assert reply["meta"]["api_version"] == {"version": version[1:]}
    assert reply["meta"]["billed_units"]["input_tokens"] > 0
    if not typed and version == "v1":
        assert reply["response_type"] == "embeddings_floats"
        same(reply["embeddings"], expected)
        return
    assert reply["response_type"] == "embeddings_by_type"
    assert list(reply["embeddings"]) == (types or ["float"])
    same(reply["embeddings"]["float"], expected)
    if typed:
        same(
            [np.frombuffer(base64.b64decode(each), "<f4") for each in reply["embeddings"]["base64"]], expected
        )
        bits = np.unpackbits(np.array(reply["embeddings"]["ubinary"], dtype=np.uint8), axis=1)
        assert (bits == (expected > 0)).all()
        binary = np.array(reply["embeddings"]["binary"])
        assert (binary + 128 == np.array(reply["embeddings"]["ubinary"])).all()


def test_bytes_of_cohere_are_steps_of_one_size(client, encoder):
    """Texts that are encoded apart, and cut ones, are on one scale: scores of int8 are cosines times 127²."""
    for dimension in (None, 8):
        one, *rest = (
            post(
                client,
                "/v2/embed",
                texts=texts,
                embedding_types=["int8", "uint8"],
                output_dimension=dimension,
            )
            for texts in (TEXTS, TEXTS[:1], TEXTS[1:])
        )
        signed, unsigned = (np.array(one["embeddings"][name]) for name in ("int8", "uint8"))
        assert signed.tolist() == [row for reply in rest for row in reply["embeddings"]["int8"]]
        assert (unsigned == signed + 128).all()
        exact = encoder.encode(TEXTS, normalize=True, truncate_dim=dimension)
        assert np.abs(signed / 127 - exact).max() <= 0.5 / 127 + 1e-6
        assert np.abs(signed @ signed.T / 127**2 - exact @ exact.T).max() < 0.05


def test_what_cohere_cuts(client, encoder):
    reply = post(client, "/v2/embed", texts=[LONG, "好"], input_type="classification")
    same(reply["embeddings"]["float"][0], encoder.encode(LONG, normalize=True))
    assert reply["meta"]["warnings"] == ["1 of 2 texts were cut"]
    reply = post(client, "/v2/embed", texts=TEXTS, output_dimension=8)
    same(np.linalg.norm(reply["embeddings"]["float"], axis=1), 1)
    assert np.shape(reply["embeddings"]["float"]) == (4, 8)


def test_a_key_is_asked_for_where_the_page_is_open(prompted_folder):
    with serving(prompted_folder, keys=[KEY]) as address:
        assert httpx.get(address).status_code == 200
        for path in ("/", "/embed", "/v2/embed", "/embeddings"):
            assert httpx.post(f"{address}{path}", json={"inputs": "a"}).status_code == 401
        headers = {"Authorization": f"Bearer {KEY}"}
        assert httpx.post(address, json={"inputs": "a"}, headers=headers).status_code == 200


def test_without_a_cross_encoder(lone_client):
    reply = post(lone_client, "/rerank", query="怎么退货", documents=TEXTS)
    assert "--rerank" in reply["meta"]["warnings"][0]
    assert reply["results"][0]["relevance_score"] <= 1


@pytest.mark.slow
def test_the_client_of_the_hub(address, unit, monkeypatch):
    hub = pytest.importorskip("huggingface_hub")
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", False)  # it asks this machine alone
    for url in (address, f"{address}/embed"):
        client = hub.InferenceClient(model=url, token="none")
        same(client.feature_extraction(TEXTS, normalize=True, truncate=True), unit)
        same(client.feature_extraction(TEXTS[0], truncation_direction="right"), unit[:1])
        with pytest.raises(hub.errors.HfHubHTTPError, match="prompt_name"):
            client.feature_extraction(TEXTS[0], prompt_name="qury")
    other = hub.AsyncInferenceClient(model=address, token="none")
    same(asyncio.run(other.feature_extraction(TEXTS)), unit)


@pytest.mark.slow
def test_the_client_of_cohere_embeds(address, encoder):
    cohere = pytest.importorskip("cohere")
    expected = encoder.encode_document(TEXTS, normalize=True)
    asked = {"model": "small", "texts": TEXTS, "input_type": "search_document"}
    reply = cohere.ClientV2(api_key="none", base_url=address).embed(
        **asked, embedding_types=["float", "binary"]
    )
    same(reply.embeddings.float_, expected)
    assert np.shape(reply.embeddings.binary) == (4, 4)
    old = cohere.Client(api_key="none", base_url=address)
    same(old.embed(**asked).embeddings, expected)
    same(old.embed(**asked, embedding_types=["float"]).embeddings.float_, expected)
    with pytest.raises(cohere.BadRequestError, match="embedding_types"):
        old.embed(**asked, embedding_types=["int4"])
    bytes_of = old.embed(**asked, embedding_types=["int8"]).embeddings.int8
    assert np.abs(np.array(bytes_of) / 127 - expected).max() <= 0.5 / 127 + 1e-6


@pytest.mark.slow
def test_the_client_of_infinity(address, unit, raw_scores):
    infinity = pytest.importorskip("infinity_client")
    from infinity_client import models
    from infinity_client.api.default import embeddings, rerank
    from infinity_client.api.default import models as listing

    with infinity.Client(base_url=address) as client:
        reply = embeddings.sync(client=client, body=models.OpenAIEmbeddingInputText(input_=TEXTS))
        same([row.embedding for row in reply.data], unit)
        reply = rerank.sync(client=client, body=models.RerankInput(query=TEXTS[0], documents=TEXTS[1:]))
        assert [hit.index for hit in reply.results] == np.argsort(-raw_scores).tolist()
        assert [card.id for card in listing.sync(client=client).data] == ["small", "judge"]
