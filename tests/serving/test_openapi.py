"""The OpenAPI document: what it says of the models that are served, and schemathesis over all of its paths."""

import subprocess
import sys
from importlib.util import find_spec

import httpx
import pytest

for package in ("fastapi", "uvicorn", "httptools", "prometheus_client"):
    pytest.importorskip(package)
from running import serving  # noqa: E402  # needs those packages

from juzhen.encoders import SentenceEncoder  # noqa: E402
from juzhen.index import Rows, build  # noqa: E402


@pytest.fixture(scope="module")
def indexed(prompted_folder, cross_folder, tmp_path_factory):
    rows = Rows(["今天天气很好", "怎么退货"], ["a", "b"], [{"topic": "天气"}, {"topic": "购物"}], ["topic"])
    build(
        place := tmp_path_factory.mktemp("described") / "faq",
        SentenceEncoder.load(prompted_folder),
        rows,
        name="small",
    )
    with serving(prompted_folder, cross_folder, place) as address:
        yield address


def fields(address, body):
    schemas = httpx.get(f"{address}/openapi.json").json()["components"]["schemas"]
    return schemas[body]["properties"]


@pytest.mark.slow
def test_the_document_names_prompts_metadata_and_modes(indexed, prompted_folder):
    asked = fields(indexed, "SearchBody")
    assert asked["prompt_name"]["anyOf"] == [
        {"type": "string", "enum": ["document", "query"]},
        {"type": "null"},
    ]
    assert asked["filter"]["anyOf"][0]["propertyNames"] == {"enum": ["topic"]}
    assert asked["mode"]["enum"] == ["dense", "bm25", "hybrid"]
    assert asked["per_document"]["const"] is False
    assert "const" not in asked["rerank"]
    assert (asked["top_k"]["minimum"], asked["top_k"]["maximum"]) == (1, 1000)
    with serving(prompted_folder) as address:
        alone = fields(address, "SearchBody")
    assert alone["filter"]["anyOf"] == [{"type": "null"}]
    assert alone["rerank"]["const"] is False


def test_numbers_may_end_in_a_zero_and_the_field_at_fault_is_named(indexed):
    reply = httpx.post(f"{indexed}/search", json={"query": "天气", "top_k": 1.0})
    assert len(reply.json()["results"][0]) == 1
    for path, body, param in (
        ("/search", {"query": "天气", "top_k": 1.5}, "top_k"),
        ("/embed", {"texts": ["好", " "]}, "texts"),
    ):
        refused = httpx.post(f"{indexed}{path}", json=body)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("schemathesis") is None, reason="needs the extra `schemathesis`")
def test_schemathesis_finds_no_error_of_the_server_and_no_answer_beside_the_document(indexed, tmp_path):
    """Without the check that all is taken which the schema takes: no schema says how many tokens a text may have."""
    words = "--seed=1 --max-examples=8 --continue-on-failure --exclude-checks=positive_data_acceptance"
    program = "import sys; from schemathesis.cli import schemathesis as run; sys.argv[0] = 'st'; run()"
    command = [sys.executable, "-c", program, "run", f"{indexed}/openapi.json", *words.split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-500:]
    document = httpx.get(f"{indexed}/openapi.json").json()
    operations = sum(len(methods) for methods in document["paths"].values())
    assert f"{operations} selected / {operations} total" in done.stdout
