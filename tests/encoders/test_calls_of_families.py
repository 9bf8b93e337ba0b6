"""Wrong calls of cross-encoders, sparse, token-vector, two-sided and long-text encoders, by what is wrong."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
import rerankers
import torch
from scipy import sparse as tables

from juzhen.core.errors import UserError
from juzhen.encoders import CrossEncoder, PromptEncoder, SentenceEncoder
from juzhen.encoders.peer_options import WAYS_OUT
from juzhen.encoders.prompts import Templates
from juzhen.encoders.search import byte_ranges, quantize
from juzhen.families.answers.encoder import GenerativeReranker
from juzhen.families.late.encoder import MultiVectorEncoder, QueryDocumentEncoder
from juzhen.families.late.folder import MultiVectorSettings
from juzhen.families.sparse.encoder import SparseEncoder
from juzhen.metrics.lexical import BM25, lexical_scores

TEXTS = ["今天天气很好", "我 ab", "cd"]
PAIRS = [(TEXTS[0], TEXTS[1]), (TEXTS[1], TEXTS[2])]
READING = MultiVectorSettings(query_length=16, document_length=30, expand_to=16)
FAMILIES = ("pairs", "sparse", "late", "sides", "sentences")


@pytest.fixture(scope="module")
def encoders(bert_folder, distilbert_folder):
    """One of each family, by name."""
    reads = {"outputs": 1, "segments": False, "symmetric": False, "seed": 0}
    load = SentenceEncoder.load
    sides = [load(folder) for folder in (bert_folder, distilbert_folder)]
    return {
        "pairs": CrossEncoder(load(bert_folder), **reads).eval(),
        "sparse": SparseEncoder.around(load(bert_folder), seed=1).eval(),
        "late": MultiVectorEncoder.around(load(bert_folder), dim=8, reading=READING).eval(),
        "sides": QueryDocumentEncoder(*sides, default=sides[1]).eval(),
        "sentences": load(bert_folder),
    }


def call(encoder, **options):
    return encoder.score(PAIRS, **options)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("value", [5, 0, -1, 1.0, "no", np.int64(1), [], None])
def test_what_is_neither_true_nor_false_is_refused_by_name(encoders, family, value):
    encoder = encoders[family]
    with pytest.raises(UserError, match=r"^strict=.*True or False.*strict=False"):
        call(encoder, strict=value)
    if family != "pairs":
        with pytest.raises(UserError, match=r"^strict="):
            encoder.encode(TEXTS, strict=value)
    if value is not None:
        for name in ("show_progress", "show_progress_bar"):
            with pytest.raises(UserError, match=f"^{name}="):
                call(encoder, **{name: value})


def test_booleans_of_numpy_and_none_where_it_means_something_are_taken(encoders):
    for encoder in encoders.values():
        expected = call(encoder)
        np.testing.assert_array_equal(call(encoder, strict=np.False_, show_progress=None), expected)


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("is_query=7", lambda e: e["sides"].encode(TEXTS, is_query=7)),
        ("is_query='no'", lambda e: e["late"].encode(TEXTS, is_query="no")),
        ("late=5", lambda e: e["sentences"].encode_chunks(TEXTS, late=5)),
        ("normalize='no'", lambda e: e["sentences"].encode_chunks(TEXTS, normalize="no")),
        ("convert_to_tensor=2", lambda e: e["sentences"].encode(TEXTS, convert_to_tensor=2)),
        ("private=3", lambda e: e["sparse"].push_to_hub("a/b", private=3, dry_run=True)),
        ("dry_run=2", lambda e: e["pairs"].push_to_hub("a/b", dry_run=2)),
        ("segments=5", lambda e: CrossEncoder(e["sentences"], outputs=1, segments=5, symmetric=False, seed=0)),
        ("symmetric='no'", lambda e: e["pairs"].set(pooling=None, segments=None, symmetric="no")),
        ("markers=5", lambda e: MultiVectorEncoder.around(e["sentences"], dim=4, reading=READING, markers=5)),
        ("pooling=max", lambda e: e["pairs"].set(pooling="max", segments=None, symmetric=None)),
        ("head_dropout=5", lambda e: e["pairs"].set(pooling=None, segments=None, symmetric=None, head_dropout=5)),
        ("outputs=0", lambda e: CrossEncoder(e["sentences"], outputs=0, segments=False, symmetric=False, seed=0)),
        ("dim=0", lambda e: MultiVectorEncoder.around(e["sentences"], dim=0, reading=READING)),
        ("seed='x'|seed=x", lambda e: SparseEncoder.around(e["sentences"], seed="x")),
        ("strategy=mean.*max", lambda e: SparseEncoder.around(e["sentences"], strategy="mean")),
        ("expand_to=-1", lambda e: MultiVectorEncoder.around(
            e["sentences"], dim=4, reading=MultiVectorSettings(16, 30, expand_to=-1))),
        ("MultiVectorEncoder.load", lambda e: MultiVectorEncoder("some/folder")),
        ("query: got a str.*SentenceEncoder.load", lambda e: QueryDocumentEncoder("some/folder", 5, default=5)),
        ("CrossEncoder.load", lambda e: CrossEncoder()),
        ("load: no option embedding_size", lambda e: QueryDocumentEncoder.load("x", embedding_size=8)),
        ("encode_chunks: no option window", lambda e: e["sentences"].encode_chunks(TEXTS, window=3)),
        ("batch_size=3.*batch_tokens", lambda e: e["sentences"].encode_chunks(TEXTS, batch_size=3)),
        ("backend: got a str", lambda e: e["sentences"].encode_chunks(TEXTS, backend="onnx")),
        ("chunk_tokens=", lambda e: e["sentences"].encode_chunks(TEXTS, chunk_tokens="9")),
        ("device=nonsense|device='nonsense'", lambda e: call(e["late"], device="nonsense")),
        ("device=", lambda e: SparseEncoder.load("x", device=None)),
        ("nonsense = 1", lambda e: setattr(e["sides"], "nonsense", 1)),
        ("not written here", lambda e: e["sides"].save("/tmp/never")),
        ("query=None: expected a text", lambda e: e["pairs"].rank(None, TEXTS)),
        ("query: text 0 is empty", lambda e: e["pairs"].rank("", TEXTS)),
        ("queries: got an int", lambda e: e["late"].similarity(5, TEXTS)),
        ("documents: got a csr_array", lambda e: e["sparse"].similarity(TEXTS, e["sparse"].encode(TEXTS))),
        ("documents: there are no documents", lambda e: e["pairs"].rank(TEXTS[0], TEXTS, among=[])),
        ("document=.*expected a text", lambda e: e["sparse"].words(TEXTS[0], TEXTS)),
        ("document=None: expected a text", lambda e: e["sparse"].words(TEXTS[0], None)),
        ("decode: .*NaN", lambda e: e["sparse"].decode(np.full(e["sparse"].dim, np.nan))),
        ("decode: got", lambda e: e["sparse"].decode(np.zeros((1, 1, e["sparse"].dim)))),
        ("decode: got", lambda e: e["sparse"].decode(np.zeros(e["sparse"].dim).astype(str))),
        ("vectors: expected a matrix", lambda e: quantize(np.ones(4, np.float32), "binary")),
        ("vectors: expected a matrix", lambda e: quantize(np.ones(4), ranges=byte_ranges(np.eye(4)))),
        ("3 and 1 texts", lambda e: lexical_scores(TEXTS, TEXTS[:1])),
        ("3 and 1 texts", lambda e: lexical_scores(TEXTS, TEXTS[:1], method="jaccard")),
        ("k1=nan", lambda e: BM25(TEXTS, k1=float("nan"))),
        ("b=2", lambda e: BM25(TEXTS, b=2)),
        ("query: expected one text", lambda e: BM25(TEXTS).scores(None)),
        ("inner: got", lambda e: GenerativeReranker.around(Path("x"))),
        *(("^similarity_fn_name='cosine'", lambda e, name=name: type(e[name]).load("x", similarity_fn_name="cosine"))
          for name in ("sparse", "pairs", "late")),
    ],
)  # fmt: skip
def test_a_wrong_call_names_its_argument(encoders, words, wrong):
    with pytest.raises(UserError, match=words):
        wrong(encoders)


def state(encoder):
    """Vectors, weights, settings, modes, tokenizer and configuration of an encoder."""
    names = ("pooling", "normalize", "prompts", "prompt", "max_length", "nested_dims", "score_head")
    weights = {name: (values.requires_grad, values.tolist()) for name, values in encoder.named_parameters()}
    layers = [(name, type(part).__name__, part.training) for name, part in encoder.named_modules()]
    tokenizer = encoder.tokenizer
    reads = [
        tokenizer.chat_template,
        sorted(tokenizer.get_vocab()),
        tokenizer("今天 [Q] [IT_SPECIAL_TOKEN]").input_ids,
    ]
    settings = {name: getattr(encoder, name) for name in names}
    return encoder.encode(TEXTS).tolist(), weights, layers, reads, encoder.backbone.config.to_dict(), settings


NEW_HEAD = {"outputs": 1, "segments": False, "symmetric": False, "seed": 0}
WRAPPERS = {
    "pairs": lambda e: CrossEncoder(e, **NEW_HEAD).set(pooling="cls", segments=None, symmetric=None),
    "sparse": lambda e: SparseEncoder.around(e, seed=1).train(),
    "late": lambda e: MultiVectorEncoder.around(e, dim=8, reading=READING).train(),
    "late, refused": lambda e: MultiVectorEncoder.around(e, dim=8, reading=MultiVectorSettings(16, 9999)),
    "template": lambda e: PromptEncoder.around(
        e, Templates("“[X]”，[MASK]", stage_2="“[IT_SPECIAL_TOKEN]”，[MASK]")
    ),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_an_encoder_is_not_changed_by_another_around_it(bert_folder, name):
    encoder = SentenceEncoder.load(bert_folder)
    encoder.normalize = True
    before = state(encoder)
    if name.endswith("refused"):
        with pytest.raises(UserError):
            WRAPPERS[name](encoder)
    else:
        WRAPPERS[name](encoder)
    assert state(encoder) == before


def test_a_language_model_is_not_changed_by_a_reranker_around_it(tmp_path):
    encoder = SentenceEncoder.load(rerankers.write("qwen3", tmp_path / "lm"))
    before = state(encoder)
    reranker = GenerativeReranker.around(encoder)
    reranker.instruction = "another instruction"
    assert state(encoder) == before
    assert (
        reranker.inner.backbone.get_input_embeddings().weight
        is encoder.backbone.get_input_embeddings().weight
    )


def test_no_texts_give_tables_without_rows(encoders):
    for family in ("sparse", "late", "sides"):
        assert encoders[family].similarity([], TEXTS).shape == (0, 3)
        assert encoders[family].similarity(TEXTS, []).shape == (3, 0)
        assert encoders[family].score([]).shape == (0,)
    assert lexical_scores([], []).shape == (0,)


def test_weights_are_decoded_from_any_form_that_holds_them(encoders):
    encoder = encoders["sparse"]
    vectors = encoder.encode(TEXTS)
    whole = encoder.decode(vectors)
    dense = vectors.toarray()
    for form in (dense, torch.from_numpy(dense), [*dense], vectors.tocsc(), tables.coo_array(vectors)):
        assert encoder.decode(form) == whole
    assert encoder.decode(dense[0]) == whole[0]


def test_advice_names_what_the_encoder_has(encoders):
    """Each option of another toolkit, given to each method: no advice to type what is not there."""
    methods = ("load", "encode", "encode_chunks", "score", "rank", "similarity", "search", "logits", "save")
    for encoder in encoders.values():
        for name in methods:
            if not (method := getattr(encoder, name, None)):
                continue
            known = inspect.signature(method).parameters
            passed_to = encoder.score if name == "rank" else getattr(encoder, "encode", method)
            of_parts = SentenceEncoder.encode if "options" in known and name == "encode" else passed_to
            takes = {
                *known,
                *inspect.signature(passed_to).parameters,
                *inspect.signature(of_parts).parameters,
            }
            for option in {*WAYS_OUT} - {*takes} - {"normalize_embeddings"}:
                given = {"rank": ("x", TEXTS), "load": ("x",), "save": ("x",), "score": (PAIRS,)}.get(name)
                given = given or ((TEXTS,) if name.startswith("encode") else (TEXTS, TEXTS))
                with pytest.raises(UserError) as told:
                    method(*given, **{option: "zz"})
                text = str(told.value)
                assert text.startswith(f"{option}=") or "is given twice" in text, text
                assert {*re.findall(r"Type (\w+)=", text)} <= takes, text
                for place, attribute in re.findall(r"encoder\.(inner\.)?(\w+) = ", text):
                    whole = getattr(encoder, "query", encoder)  # its calls end at one of its parts
                    assert attribute in (encoder.inner if place else whole).settable, text
                assert "encode(texts" not in text or hasattr(encoder, "encode"), text
