"""Queries and documents by encoders of their own: the numbers of each, in use and in an evaluation."""

import json
import shutil

import numpy as np
import pytest
from refusals import rows

from juzhen import QueryDocumentEncoder
from juzhen.core.errors import UserError
from juzhen.core.examples import Examples, Kind
from juzhen.encoders import SentenceEncoder, load_backbone
from juzhen.encoders.backbone_config import BackboneConfig
from juzhen.encoders.layout import modules_of
from juzhen.evaluation import evaluate
from juzhen.families.registry import FAMILIES, PairScorer, find_family

TEXTS = ["今天天气很好", "我", "ab cd 你们", "的在不了 ab"]
PROMPTS = {"query": "ab ", "document": "今天", "other": "我 "}


def module(kind):
    return f"sentence_transformers.models.{kind}"


def write(folder, routes, *, behind=(), **parameters):
    """A folder with a Router: route → (folder of a transformer, mode of pooling)."""
    folder.mkdir()
    types, structure = {}, {}
    for route, (source, mode) in routes.items():
        names = [f"{route}_0_Transformer", f"{route}_1_Pooling"]
        shutil.copytree(source, folder / names[0])
        (folder / names[1]).mkdir()
        (folder / names[1] / "config.json").write_text(
            json.dumps({"embedding_dimension": 32, "pooling_mode": mode})
        )
        types |= {name: module(name.rpartition("_")[2]) for name in names}
        structure[route] = names
    router = {"types": types, "structure": structure, "parameters": parameters}
    (folder / "router_config.json").write_text(json.dumps(router))
    listed = [{"idx": 0, "name": "0", "path": "", "type": module("Router")}]
    for number, kind in enumerate(behind, start=1):
        listed.append({"idx": number, "name": str(number), "path": f"{number}_{kind}", "type": module(kind)})
    (folder / "modules.json").write_text(json.dumps(listed))
    about = {"model_type": "SentenceTransformer", "prompts": PROMPTS, "default_prompt_name": "other"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(about))
    return folder


@pytest.fixture(scope="module")
def folder(bert_folder, distilbert_folder, tmp_path_factory):
    routes = {"query": (bert_folder, "cls"), "document": (distilbert_folder, "mean")}
    place = tmp_path_factory.mktemp("routes") / "encoder"
    return write(place, routes, behind=["Normalize"], default_route="document")


@pytest.fixture(scope="module")
def alone(bert_folder, distilbert_folder):
    """The two encoders by themselves."""
    return [
        load_backbone(
            BackboneConfig(path=str(place), pooling=mode, normalize=True, prompts=PROMPTS), seed=0
        ).eval()
        for place, mode in ((bert_folder, "cls"), (distilbert_folder, "mean"))
    ]


def test_each_side_is_read_by_its_own_encoder(folder, alone):
    encoder = QueryDocumentEncoder.load(folder)
    queries = alone[0].encode(TEXTS, prompt_name="query")
    documents = alone[1].encode(TEXTS, prompt_name="document")
    assert np.array_equal(encoder.encode_query(TEXTS), queries)
    assert np.array_equal(encoder.encode_document(TEXTS), documents)
    assert np.array_equal(encoder.encode(TEXTS), alone[1].encode(TEXTS, prompt_name="other"))
    np.testing.assert_allclose(encoder.similarity(TEXTS, TEXTS), queries @ documents.T, atol=1e-6)
    np.testing.assert_allclose(
        encoder.score(TEXTS[:2], TEXTS[2:]), np.diag(queries[:2] @ documents[2:].T), atol=1e-6
    )
    hits = encoder.search(TEXTS[0], TEXTS, 2)
    assert [hit.corpus_id for hit in hits] == np.argsort(-(queries[0] @ documents.T))[:2].tolist()


def test_an_evaluation_reads_first_texts_as_queries(folder):
    encoder = QueryDocumentEncoder.load(folder)
    assert find_family(folder) is FAMILIES["query_document"]
    texts = {"text_a": TEXTS[:3], "text_b": TEXTS[1:]}
    rows = Examples.from_texts(
        "rows", "test", kind=Kind.SCORED_PAIR, texts=texts, targets=np.array([0.0, 0.5, 1.0])
    )
    expected = np.diag(encoder.similarity(*texts.values()))
    np.testing.assert_allclose(evaluate(encoder, [rows]).per_row["test/rows"], expected, atol=1e-6)
    found = PairScorer(folder)(*texts.values(), batch_tokens=64, show_progress=False)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    long = Examples.from_texts(
        "long", "test", kind=Kind.SCORED_PAIR, texts={"text_a": ["今" * 99], "text_b": ["我"]}
    )
    cut = FAMILIES["query_document"].cut(encoder, long)
    assert (cut.looked_at, cut.cut, cut.max_length) == (2, 1, 32)


def test_a_router_whose_sides_are_alike_is_an_encoder_of_sentences(bert_folder, tmp_path):
    folder = write(tmp_path / "alike", {"text": (bert_folder, "cls")})
    encoder = SentenceEncoder.load(folder)
    assert (encoder.pooling, find_family(folder)) == ("cls", FAMILIES["bi_encoder"])


def changed(f, **settings):
    copied = shutil.copytree(f.folder, f.tmp_path / "copied")
    path = copied / "router_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))
    return copied


def without_its_prompt(f):
    copied = changed(f)
    path = copied / "query_1_Pooling" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"include_prompt": False}))
    return copied


NOT_READ = [
    (lambda f: SentenceEncoder.load(f.folder), r"QueryDocumentEncoder\.load"),
    (lambda f: QueryDocumentEncoder.load(f.folder).save(f.tmp_path / "saved"), "Copy the folder"),
    (
        lambda f: QueryDocumentEncoder.load(write(f.tmp_path / "alike", {"text": (f.bert_folder, "cls")})),
        r"SentenceEncoder\.load",
    ),
    (lambda f: SentenceEncoder.load(changed(f, parameters={"later": 1})), "later=1"),
    (
        lambda f: SentenceEncoder.load(changed(f, structure={"query": [], "doc": []})),
        "no route for a document",
    ),
    (lambda f: SentenceEncoder.load(changed(f, types={})), "no settings of a Router"),
    (
        lambda f: SentenceEncoder.load(
            changed(f, parameters={"route_mappings": {"__import__('os')": "query"}})
        ),
        "no settings of a Router",
    ),
    (
        lambda f: SentenceEncoder.load(changed(f, parameters={"route_mappings": {"('query',)": "doc"}})),
        "no settings of a Router",
    ),
    (lambda f: QueryDocumentEncoder.load(without_its_prompt(f)), "include_prompt=false"),
]


@pytest.mark.parametrize(("call", "words"), rows({"a router": NOT_READ}))
def test_what_is_not_read_is_named(f, call, words):
    with pytest.raises(UserError, match=words):
        call(f)


def test_routes_are_found_in_their_order(tmp_path):
    def route(side, names, **parameters):
        settings = {"structure": {name: [name] for name in names}, "parameters": parameters}
        found = modules_of(settings | {"types": dict.fromkeys(names, "x")}, "r", tmp_path)
        return found[side][0]["path"]

    sides = ["query", "document"]
    assert [route(side, sides) for side in (*sides, None)] == ["r/query", "r/document", "r/query"]
    assert route(None, sides, default_route="document") == "r/document"
    assert route(None, sides, allow_empty_key=False) == "r/document"
    assert route("query", [*sides, "text"], route_mappings={"(None, 'text')": "text"}) == "r/text"
    rules = {"('query', 'text')": "a", "('query', None)": "b", "(None, None)": "b"}
    assert [route(side, ["a", "b"], route_mappings=rules) for side in (*sides, None)] == ["r/a", "r/b", "r/b"]


@pytest.mark.oracle
def test_sentence_transformers_gives_the_same(folder, tmp_path):
    theirs = pytest.importorskip("sentence_transformers", minversion="6")
    from sentence_transformers.base.modules import Router
    from sentence_transformers.sentence_transformer import modules

    opened = theirs.SentenceTransformer(str(folder), device="cpu")
    transformer = modules.Transformer(str(folder / "query_0_Transformer"))
    sides = {name: [modules.Dense(32, 8)] for name in ("query", "document")}
    late = theirs.SentenceTransformer(modules=[transformer, modules.Pooling(32), Router(sides)], device="cpu")
    late.save(str(tmp_path / "late"))
    for place, model in ((folder, opened), (tmp_path / "late", late)):
        ours = QueryDocumentEncoder.load(place)
        for name in ("encode", "encode_query", "encode_document"):
            np.testing.assert_allclose(getattr(ours, name)(TEXTS), getattr(model, name)(TEXTS), atol=1e-5)
