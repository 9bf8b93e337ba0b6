"""Bodies whose reading would hold the server: what they may hold is counted before they are read."""

import json
import threading
import time

import pytest

from juzhen.serving.settings import MOST_PARTS, MOST_TEXTS, MOST_VALUES, Limits

pytest.importorskip("fastapi")
httpx = pytest.importorskip("httpx")

from pydantic import ValidationError  # noqa: E402

from juzhen.serving import schemas  # noqa: E402
from juzhen.serving.errors import RequestError  # noqa: E402

BYTES = Limits().body_bytes - 100


def filled(before, item, after, *, joint=","):
    """A body of nearly as many bytes as a server takes."""
    count = (BYTES - len(before) - len(after)) // (len(item) + len(joint))
    return (before + joint.join([item] * count) + after).encode()


MANY = {
    "texts": (schemas.EmbeddingsBody, filled('{"input":[', '"a"', "]}")),
    "lists": (schemas.EmbeddingsBody, filled('{"input":[', "[1]", "]}")),
    "objects": (schemas.EmbeddingsBody, filled('{"input":[', "{}", "]}")),
    "numbers": (schemas.EmbeddingsBody, filled('{"input":[', "1", "]}")),
    "fields": (schemas.EmbeddingsBody, filled('{"input":"a",', '"k":1', "}")),
    "pairs": (schemas.ScoreBody, filled('{"pairs":[', '["a","b"]', "]}")),
    "documents": (schemas.RerankBody, filled('{"query":"q","documents":[', '{"text":"a"}', "]}")),
    "filters": (schemas.SearchBody, filled('{"query":"q","filter":{', '"k":[1,2]', "}}")),
    "types": (schemas.CohereEmbedBody, filled('{"texts":["a"],"embedding_types":[', '"x"', "]}")),
    "escapes": (schemas.EmbeddingsBody, filled('{"input":["\\\\",', '"\\""', "]}")),
}


@pytest.mark.parametrize("name", MANY)
def test_what_holds_too_many_values_is_refused_unread(name, monkeypatch):
    kind, content = MANY[name]
    monkeypatch.setattr(kind, "model_validate_json", lambda content: pytest.fail("it was read"))
    with pytest.raises(RequestError) as refused:
        schemas.parsed(kind, content)
    assert refused.value.status == 413
    assert "65,536 texts" in str(refused.value) or "262,144 values" in str(refused.value)


def test_signs_within_texts_are_not_counted():
    text = 'a,[{"\\' * 4000
    content = json.dumps({"input": [text] * 20}).encode()
    assert content.count(b",") > MOST_PARTS
    assert schemas.parsed(schemas.EmbeddingsBody, content).input == [text] * 20


def test_all_that_a_server_takes_is_read():
    content = json.dumps({"query": "q", "documents": [{"text": "a", "title": "b", "page": 1}] * MOST_TEXTS})
    assert len(schemas.parsed(schemas.RerankBody, content.encode()).documents) == MOST_TEXTS
    numbers = [[7] * (MOST_VALUES // 1024)] * 1024
    content = json.dumps({"input": numbers}).encode()
    assert schemas.parsed(schemas.EmbeddingsBody, content).input == numbers
    more = json.dumps({"input": [[7] * (MOST_VALUES + 2)]}).encode()
    assert Limits(queue_tokens=10**6).values == 10**6
    assert len(schemas.parsed(schemas.EmbeddingsBody, more, most_values=10**6).input[0]) == MOST_VALUES + 2


UNKNOWN = {"input": "a", "dimension": 3} | {f"k{number}": 1 for number in range(30_000)}
WRONG = {"texts": ["a"], "embedding_types": ["x"] * 60_000}


@pytest.mark.parametrize(
    ("schema", "body", "told"),
    [
        pytest.param(
            schemas.EmbeddingsBody, UNKNOWN, r"dimension: no such field.*dimensions", id="unknown fields"
        ),
        pytest.param(schemas.CohereEmbedBody, WRONG, r"embedding_types", id="wrong items of a list"),
    ],
)
def test_what_is_wrong_is_refused_by_the_first_of_it(schema, body, told):
    content = json.dumps(body).encode()
    with pytest.raises(RequestError, match=told) as refused:
        schemas.parsed(schema, content)
    assert refused.value.status == 400


def test_wrong_items_of_a_list_are_counted_once():
    with pytest.raises(ValidationError) as faults:
        schemas.CohereEmbedBody.model_validate_json(json.dumps(WRONG))
    assert faults.value.error_count() == 1


@pytest.mark.slow
def test_health_is_answered_beside_such_bodies(client):
    waits, is_done = [], threading.Event()

    def watch():
        with httpx.Client(base_url=client.base_url) as own:
            while not is_done.is_set():
                start = time.perf_counter()
                assert own.get("/health").status_code == 200
                waits.append(time.perf_counter() - start)

    watcher = threading.Thread(target=watch)
    watcher.start()
    for path, name in (("/v1/embeddings", "lists"), ("/v1/embeddings", "fields"), ("/v2/embed", "types")):
        answer = client.post(path, content=MANY[name][1], headers={"Content-Type": "application/json"})
        assert answer.status_code == 413
    is_done.set()
    watcher.join()
    assert max(waits) < 1  # 3, 4 and 16 seconds before
