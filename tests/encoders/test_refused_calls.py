"""What a loaded encoder cannot do is refused in one line, by option, row or text and with the way out."""

import shutil
import sys
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace

import decoders
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import rerankers
import torch
from refusals import each, rows
from safetensors.torch import load_file, save_file
from test_chunks import text_of
from test_finite import Broken, scaled
from tokenizers import normalizers
from transformers import GPT2Config, GPT2Model

from juzhen import (
    analyze_embeddings,
    detect_communities,
    evaluate,
    fit,
    load_ranking,
    mine,
    quantize,
)
from juzhen.backends import Deferred, open_backend, require_packages
from juzhen.backends.names import BackendName
from juzhen.calibration.calibration import fit_temperature
from juzhen.cli.main import main
from juzhen.core.columns import as_column, as_pairs, as_texts, require_finite
from juzhen.core.errors import UserError
from juzhen.core.examples import DrawnDocuments, Examples, Kind
from juzhen.core.file_guard import mark_dir
from juzhen.data.rankings import RankingSet
from juzhen.data.rows import as_examples
from juzhen.encoders import CrossEncoder, PromptEncoder, SentenceEncoder, save_encoder
from juzhen.encoders.augmentation import SentenceChanges, TextViews, TokenViews, Translations, Views
from juzhen.encoders.collate import ViewCollator
from juzhen.encoders.embedding_cache import EmbeddingCache
from juzhen.encoders.forward import pack
from juzhen.encoders.masking import Masking, Vocabulary
from juzhen.encoders.pair_encoder import PairTemplate
from juzhen.encoders.passages import is_causal
from juzhen.encoders.projection import BilinearScore
from juzhen.encoders.prompts import Prompts, Templates
from juzhen.encoders.search import ApproximateIndex, byte_ranges, exact_search
from juzhen.encoders.workers import Workers
from juzhen.evaluation.known_characters import known_characters, known_groups
from juzhen.families.answers.encoder import GenerativeReranker
from juzhen.families.answers.prompt import AnswerPrompt
from juzhen.families.late.encoder import MultiVectorEncoder
from juzhen.families.late.folder import MultiVectorSettings
from juzhen.families.registry import open_encoder
from juzhen.families.sparse.encoder import SparseEncoder
from juzhen.losses import InfoNCE, SpreadOut
from juzhen.merging.merge import merge
from tools.halve import main as halve
from tools.halve import save_halved

TEXTS = ["今天天气很好", "我", "ab cd"]
CORPUS = ["怎么还花呗", "今天天气很好", "花呗如何还款", "明天下雨吗", "python怎么学", "今天天气很好"]
FIRST = ["今天天气很好", "怎么还花呗", "明天会下雨吗", "手机号怎么换绑"]
SECOND = ["天气不错", "花呗还款", "下雨", "换绑"]
FRAME = pd.DataFrame({"a": FIRST, "b": SECOND}, index=[3, 1, 0, 2])
TABLE = pa.table({"a": FIRST, "b": SECOND})
LONG = "今天天气很好" * 20
TEMPLATE = Templates("“[X]”，[MASK]")


@pytest.fixture(scope="module")
def encoder(bert_folder):
    """Reads 32 tokens; no row changes it."""
    return SentenceEncoder.load(bert_folder)


@pytest.fixture(scope="module")
def reader(bert_folder):
    return around(bert_folder)


def around(folder, **options):
    options = {"outputs": 1, "segments": False, "symmetric": False, "seed": 0} | options
    return CrossEncoder(SentenceEncoder.load(folder), **options).eval()


@pytest.fixture(scope="module")
def late(bert_folder):
    reading = MultiVectorSettings(query_length=16, document_length=30, expand_to=16)
    return MultiVectorEncoder.around(SentenceEncoder.load(bert_folder), dim=8, reading=reading).eval()


@pytest.fixture(scope="module")
def sparse(bert_folder):
    return SparseEncoder.around(SentenceEncoder.load(bert_folder), seed=1).eval()


@pytest.fixture
def own(bert_folder):
    """An encoder that a row may change."""
    return SentenceEncoder.load(bert_folder)


def having(value, **attributes):
    """The object with other attributes."""
    for name, content in attributes.items():
        setattr(value, name, content)
    return value


TEXT = [
    *each(
        lambda f, texts: f.encoder.encode(texts, batch_tokens=64, show_progress=False),
        [
            (["今天", ""], "text 1 is empty"),
            (["  \t", "今天"], "text 0 is empty"),
            (["今天", None], r"text 1 is a NoneType \(None\). Expected a string"),
            (["今天", 3], r"text 1 is an int \(3\)"),
            (["今天", "今天".encode()], r"text 1 is a bytes .*Decode it first: text.decode"),
            (b"ab", r"got a bytes .*Expected a list. Decode it first"),
            (None, "got a NoneType .*list"),
            (["今天", "\ud800"], "text 1 holds half a surrogate pair"),
            ({"今天": 1}, "got a dict"),
            (7, r"got an int \(7\)"),
        ],
    ),
    (lambda f: having_no_token(f).encode(["今天", "的"]), "tokenizer knows nothing in this text"),
    *each(
        lambda f, text: as_texts(["好", text]),
        [
            (text, r"text 1 (is empty|holds a NUL)")
            for text in ("\0", "好\0", "\u200b", "\ufeff\u00ad", "\u2028", "\ufe0f", "\u3164 \u2800")
        ],
    ),
]


def having_no_token(f):
    """An encoder by a table of tokens whose tokenizer drops a character."""
    from test_static import write_table

    encoder = SentenceEncoder.load(write_table(f.tmp_path))
    encoder.tokenizer.backend_tokenizer.normalizer = normalizers.Replace("的", "")
    return encoder


PAIR = [
    *each(
        lambda f, pairs: f.encoder.score(pairs),
        [
            ("ab", "pairs: got one text. Expected a list"),
            ([("今天", "明天"), "今天"], r"pair 1 is a str \('今天'\). Expected two texts"),
            ([("今天",)], "pair 0 is a tuple .*Expected two texts"),
            ([("今天", "明天"), ("今天", None)], "second text of pair 1 is a NoneType"),
            ([(" ", "明天")], "first text of pair 0 is empty"),
            (FRAME, "DataFrame"),
            ({"今天": "明天"}, "dict"),
        ],
    ),
    *each(
        lambda f, value: as_pairs(value),
        [
            (FRAME, "DataFrame"),
            (TABLE, "Table"),
            (dict(zip(FIRST, SECOND, strict=True)), "dict"),
            (FRAME["a"], "pair 0 is a str"),
            ("今天", "got one text"),
            ([{"a", "b"}], "pair 0 is a set"),
        ],
    ),
]
COLUMN = [
    *each(
        lambda f, value: as_column(value, "texts"),
        [
            (FRAME, r"texts: got a DataFrame .*a table.*such as table\['a'\]"),
            (TABLE, r"a table.*such as table\['a'\]"),
            (FRAME.to_records(index=False), "a table"),
            ({"a": 1}, "got a dict .*Expected a list"),
            ({"a", "b"}, "got a set .*Expected a list"),
            ("今天", r"got one text. Expected a list: \['今天'\]"),
            (b"ab", "Decode it first"),
            (None, "got a NoneType"),
            (np.zeros((2, 2)), "got a ndarray .*Expected a list"),
        ],
    ),
    (lambda f: f.encoder.encode(FRAME), "a table"),
    (lambda f: f.encoder.similarity(FRAME, FIRST), "a table"),
    (lambda f: f.encoder.search("花呗", FRAME, 1), "a table"),
    (lambda f: f.reader.score(FRAME), "a table"),
    (lambda f: f.reader.rank("花呗", "一个文本"), "got one text"),
    (lambda f: f.reader.rank("花呗", FRAME), "a table"),
    (lambda f: f.reader.rank(FIRST, FIRST), "query"),
    (lambda f: f.reader.rank("花呗", FIRST, among=[True, False]), "among"),
    (lambda f: f.reader.rank("花呗", FIRST, among=[1.5]), "among"),
    (lambda f: f.reader.logits(FIRST, SECOND[:3]), "4 .*3"),
    (lambda f: bm25(FRAME), "a table"),
    (lambda f: RankingSet("some", "dev", FRAME, FRAME, [{0: 1.0}] * 4), "a table"),
    (
        lambda f: Examples.from_texts(
            "some", "dev", kind=Kind.LABELLED_PAIR, texts={"text_a": FIRST, "text_b": SECOND[:2]}
        ),
        r"columns of \[2, 4\] rows",
    ),
]


def bm25(texts):
    from juzhen.metrics.lexical import BM25

    return BM25(texts)


OTHER = np.zeros((3, 33), dtype=np.float32)
SEARCH = [
    (lambda f: f.encoder.search("问", []), "no documents"),
    (lambda f: f.encoder.search("问", CORPUS[:1], 0), "top_k=0: .*1 document. Type 1 to 1"),
    (lambda f: f.encoder.search("问", CORPUS, 10), "top_k=10: .*6 documents. Type 1 to 6"),
    (lambda f: f.encoder.search("问", CORPUS, 0), "top_k=0: "),
    (lambda f: f.encoder.search("问", CORPUS[0], 1), "corpus: got one text. Expected a list"),
    (lambda f: f.encoder.search("问", [*CORPUS, " "], 1), "text 6 is empty"),
    (lambda f: f.encoder.search("", CORPUS, 1), "text 0 is empty"),
    (lambda f: f.encoder.search("问", OTHER, 1), "corpus: .*shape .*Give embeddings of this encoder"),
    (lambda f: f.encoder.search(OTHER, CORPUS), "queries: embeddings"),
    (lambda f: f.encoder.similarity(CORPUS, OTHER), "second: embeddings"),
    (lambda f: f.reader.rank("问", []), "no documents"),
    (lambda f: f.reader.rank("问", CORPUS, 3, among=[0, 1]), "top_k=3: .*2 documents"),
    (lambda f: f.reader.rank("问", CORPUS, among=[0, 6]), "among: 6 .*0 to 5"),
    (lambda f: f.reader.rank("问", CORPUS, among=[-1, 2]), "among: -1 "),
    (lambda f: f.own.search("问", index_of_others(f), 3), "encoder of other weights"),
    (lambda f: quantize(f.encoder.encode(CORPUS), "int4"), "precision=int4"),
    (lambda f: known_groups(open_encoder("bm25")), "lexical"),
    (lambda f: known_characters(f.own, "今天"), "^texts: got one text"),
]


def index_of_others(f):
    pytest.importorskip("faiss")
    index = ApproximateIndex(f.encoder.encode(CORPUS, normalize=True), "flat", encoder=f.encoder)
    with torch.no_grad():
        next(f.own.parameters()).add_(0.01)
    return index


def lost_in(f, value):
    """A back end that loses the numbers of one text of three."""
    return Broken(f.encoder, value)


def nothing_kept(f, value):
    cache = EmbeddingCache(f.tmp_path)
    try:
        f.encoder.encode(TEXTS, backend=lost_in(f, value), cache=cache)
    finally:
        assert not list(cache.folder.rglob("*.safetensors"))


def nothing_saved(f):
    encoder = deepcopy(f.own)
    next(encoder.backbone.parameters()).data.fill_(torch.nan)
    try:
        encoder.save(f.tmp_path / "saved")
    finally:
        assert not (f.tmp_path / "saved").exists()


def spoilt(value):
    vectors = np.eye(4, dtype=np.float32)
    vectors[2, 1] = value
    return vectors


def asked(f):
    encoder = GenerativeReranker.around(SentenceEncoder.load(rerankers.write("qwen3", f.tmp_path / "lm")))
    encoder.backbone.norm.weight.data.fill_(3e38)
    return encoder


def merged(f, scale, step=1.0):
    """Of two encoders whose tasks go the same way."""
    models = [f.folder, shutil.copytree(f.folder, f.tmp_path / "other")]
    for number, model in enumerate(models):
        tensors = load_file(model / "model.safetensors")
        tensors["encoder.layer.1.output.LayerNorm.weight"] += step * (1 + number)
        save_file(tensors, model / "model.safetensors", metadata={"format": "pt"})
    return merge(models, method="task_arithmetic", base=f.bert_folder, scale=scale)


def embedder(f):
    pytest.importorskip("fastapi")
    from juzhen.serving.models import Embedder

    return Embedder(scaled(f.own, 3e38), "mine", "torch")


def overflowing_product(f):
    from test_static import write_table

    tensors = load_file(write_table(f.tmp_path) / "model.safetensors")
    tokenizer = SentenceEncoder.load(f.tmp_path).tokenizer
    tensors["embeddings"][tokenizer.convert_tokens_to_ids("▁你")] = 1e20
    save_file(tensors, f.tmp_path / "model.safetensors")
    return having(SentenceEncoder.load(f.tmp_path), normalize=False)


NOT_FINITE = [
    (
        lambda f: require_finite(np.float32([[1], [1], [np.inf]]), ["a", "b"], owners=np.array([0, 0, 1])),
        "text='b'.*1 of 3",
    ),
    *(
        row
        for value in (np.nan, np.inf, 1e30)
        for row in each(
            lambda f, call: call(f),
            [
                (lambda f, v=value: nothing_kept(f, v), "text='我'.*1 of 3"),
                (lambda f, v=value: f.encoder.score(*TEXTS[:2], backend=lost_in(f, v)), "text='我'"),
                (lambda f, v=value: f.encoder.similarity(TEXTS, TEXTS, backend=lost_in(f, v)), "text='我'"),
                (lambda f, v=value: f.encoder.search("我", TEXTS, backend=lost_in(f, v)), "text='我'"),
                (lambda f, v=value: f.encoder.encode_chunks(TEXTS, backend=lost_in(f, v)), "text='我'"),
                (
                    lambda f, v=value: f.encoder.encode(TEXTS, backend=lost_in(f, v), long_texts="chunk"),
                    "text='我'",
                ),
            ],
        )
    ),
    *each(
        lambda f, given: scaled(having(f.own, normalize=given[0]), given[1]).encode(TEXTS),
        [((normalize, weight), "text=") for normalize in (False, True) for weight in (3e38, 1e20)],
    ),
    (nothing_saved, "Nothing was saved"),
    *(
        row
        for value in (np.nan, np.inf)
        for row in each(
            lambda f, call: call(f),
            [
                (
                    lambda f, v=value: f.encoder.similarity("今天", np.full(f.encoder.dim, v, np.float32)),
                    "second: row 0",
                ),
                (lambda f, v=value: exact_search(spoilt(0), spoilt(v), 2), "documents: row 2"),
                (lambda f, v=value: exact_search(spoilt(v), spoilt(0), 2), "queries: row 2"),
                (lambda f, v=value: ApproximateIndex(spoilt(v), "flat"), "documents: row 2"),
                (
                    lambda f, v=value: ApproximateIndex(spoilt(0), "flat").search(spoilt(v), 2),
                    "queries: row 2",
                ),
            ],
        )
    ),
    (lambda f: scaled(around(f.bert_folder), 3e38).score(("我", "ab")), r"pair=\('我'"),
    (lambda f: scaled(around(f.bert_folder), 3e38).rank("我", ["ab"]), r"pair=\('我'"),
    (lambda f: scaled(deepcopy(f.late), 3e38).encode(TEXTS), "text="),
    (lambda f: scaled(deepcopy(f.late), 3e38).score([TEXTS[:2]]), "text="),
    (lambda f: scaled(deepcopy(f.sparse), 3e38).encode(TEXTS), "text="),
    (lambda f: scaled(deepcopy(f.sparse), 3e38).score([TEXTS[:2]]), "text="),
    (lambda f: asked(f).score("a dog", "x y"), "pair="),
    (lambda f: merged(f, float("nan")), "scale="),
    (lambda f: merged(f, float("inf")), "scale="),
    (lambda f: merged(f, 1e4, step=1e35), "backbone.* holds NaN"),
    (
        lambda f: open_backend(scaled(f.own, 3e38), "onnx"),
        "text=.* encoder gives NaN",
    ),
    (lambda f: overflowing_product(f).encode(["今", "你"]), "text='你'"),
    (embedder, "mine: the model gave NaN"),
]


def templated(f, encoder=None):
    return PromptEncoder.around(encoder or f.own, TEMPLATE)


def causal(f):
    config = GPT2Config(vocab_size=60, n_positions=32, n_embd=16, n_layer=1, n_head=2)
    settings = {"pooling": "mean", "normalize": False, "max_length": 16, "projections": ()}
    encoder = SentenceEncoder(GPT2Model(config), f.encoder.tokenizer, **settings)
    assert is_causal(encoder)
    assert not is_causal(f.encoder)
    return encoder


def slow(f):
    """An encoder whose tokenizer has no offsets."""
    f.monkeypatch.setattr(type(f.encoder.tokenizer), "is_fast", property(lambda self: False))
    return having(f.own, max_length=16)


def decoder(f, pooling):
    return f.load(decoders.write("qwen3", f.tmp_path / "m"), max_length=16, pooling=pooling)


CHUNKS = [
    *each(
        lambda f, options: having(f.own, max_length=16).encode("今天", **options),
        [
            ({"long_texts": "chunks"}, "Did you mean chunk"),
            ({"overlap": 3}, 'Give long_texts="chunk"'),
            ({"long_texts": "chunk", "overlap": 14}, "expected a whole number, 0 to 13"),
        ],
    ),
    *each(
        lambda f, options: having(f.own, max_length=16).encode_chunks("今天", **options),
        [
            ({"chunk_tokens": 15}, "1 to 14"),
            ({"chunk_tokens": 31, "late": True}, "1 to 30"),
            ({"chunk_tokens": 8, "overlap": 5}, "0 to 4"),
            ({"late": True, "workers": 1}, "Leave them out"),
        ],
    ),
    (
        lambda f: f.load(f.bert_folder, pooling="cls").encode_chunks("今天", late=True),
        "pooling=cls.*pooling=mean",
    ),
    (lambda f: templated(f).encode_chunks("今天"), "reads texts through templates"),
    (lambda f: templated(f).encode("今天", long_texts="chunk"), "reads texts through templates"),
    (lambda f: causal(f).encode_chunks("今天", late=True), "late=True.*reads both ways"),
    (lambda f: decoder(f, "last").encode_chunks(text_of(40), late=True), "pooling=last"),
    (lambda f: decoder(f, "mean").encode_chunks(text_of(40), late=True), "late=True"),
    (lambda f: slow(f).encode_chunks("今天"), r"tokenizer.json"),
    (
        lambda f: slow(f).with_long_texts("chunk", 12).encode("今天", prompt="今天很好"),
        "expected a whole number, 0 to",
    ),
]


def computing_nothing(f):
    f.monkeypatch.setattr(SentenceEncoder, "infer", None)
    return f.encoder


STRICT = [
    *each(
        lambda f, call: call(computing_nothing(f)),
        [
            (lambda encoder: encoder.encode(["今天", LONG], strict=True), "text='今天.* 32 tokens"),
            (lambda encoder: encoder.score("我", LONG, strict=True), "text='今天.* 32 tokens"),
            (lambda encoder: encoder.similarity([LONG], ["我"], strict=True), "text='今天.* 32 tokens"),
            (
                lambda encoder: encoder.encode("今天", truncate_dim=8, strict=True),
                "truncate_dim=8.*nested_dims",
            ),
        ],
    ),
    (lambda f: f.encoder.search("我", ["今天", LONG], strict=True), "longer"),
    (lambda f: f.reader.score([("今天", LONG)], strict=True), "pair=.*longer than 32"),
    (lambda f: f.late.encode(["今天", LONG], strict=True), "longer than"),
    (lambda f: f.late.search(LONG, ["我"], strict=True), "longer than"),
    (lambda f: f.sparse.score([("我", LONG)], strict=True), "longer than"),
]


def untouched(f):
    f.monkeypatch.setattr(f.own, "tokenize", lambda texts: pytest.fail("work was done"))
    return f.own


def without_onnxruntime(f):
    require_packages(BackendName.TORCH_BF16)
    missing = lambda name: None if name == "onnxruntime" else Path()  # noqa: E731
    f.monkeypatch.setattr("juzhen.core.errors.find_spec", missing)
    return f.encoder


def graph_of_a_prompt(f):
    pytest.importorskip("onnxruntime")
    encoder = f.load(
        f.bert_folder, prompts={"query": "你是: "}, default_prompt_name="query", include_prompt=False
    )
    return encoder.encode(TEXTS, backend=open_backend(encoder, "onnx"), prompt="")


BACKENDS = [
    (lambda f: open_backend(without_onnxruntime(f), "onnx"), r"onnxruntime. Type: pip install .*\[onnx\]"),
    (lambda f: open_backend(untouched(f), "onnx_int4"), "backend=onnx_int4: .*Did you mean onnx_int8"),
    (lambda f: Deferred(untouched(f), "onnx_int4"), "backend=onnx_int4: .*Did you mean onnx_int8"),
    (lambda f: open_backend(templated(f), "onnx"), "templates"),
    (lambda f: templated(f).token_states(f.encoder.collate(f.encoder.tokenize(TEXTS))), "templates"),
    *each(
        lambda f, workers: f.encoder.encode(TEXTS, workers=workers),
        [
            (0, "workers=0: .*, 1 to"),
            ([], "workers=0: expected"),
            (["cuda:97"], "device=cuda:97: this machine, or this build of torch"),
            (["gpu"], "device=gpu: "),
        ],
    ),
    (lambda f: SentenceEncoder.load(f.bert_folder, device="mps"), "device=mps: .*There is: cpu"),
    (lambda f: SentenceEncoder.load(f.bert_folder, device="gpu"), "^device=gpu: .*cpu, cuda, cuda:1 or mps$"),
]


def held_by_workers(f):
    with Workers(f.own, ["cpu", "cpu"]) as workers:
        with torch.no_grad():
            next(f.own.parameters()).add_(0.1)
        f.own.encode(TEXTS, workers=workers)


SLOW_BACKENDS = [
    (graph_of_a_prompt, "open_backend"),
    (held_by_workers, "workers: they hold another encoder"),
]
PEERS = [
    *(
        row
        for option, way_out in (
            ({"batch_size": 32}, "batch_tokens="),
            ({"convert_to_numpy": False}, "convert_to_tensor=True"),
            ({"device": "meta"}, "encoder.to"),
            ({"output_value": "token_embeddings"}, "MultiVectorEncoder"),
            ({"precision": "int8"}, "juzhen.quantize"),
            ({"max_length": 128}, "encoder.max_length"),
            ({"pool": {"processes": []}}, "workers="),
            ({"show_progress": True, "show_progress_bar": True}, "one of the two"),
            ({"show_progress": "no"}, "='no': expected True or False"),
            ({"show_progress_bar": "yes"}, "='yes': expected True or False"),
        )
        for row in each(
            lambda f, given: given[0](f)(**given[1]),
            [
                (
                    (lambda f: lambda **how: f.encoder.encode(TEXTS, **how), option),
                    rf"{[*option][-1]}.*{way_out}",
                ),
                (
                    (lambda f: lambda **how: f.encoder.encode_query(TEXTS, **how), option),
                    rf"{[*option][-1]}.*{way_out}",
                ),
                (
                    (lambda f: lambda **how: f.encoder.similarity(TEXTS, TEXTS, **how), option),
                    [*option][-1],
                ),
            ],
        )
    ),
    *each(
        lambda f, kind: getattr(f, kind).encode(TEXTS, batch_tokens=-5),
        [(kind, "batch_tokens=-5: expected a number") for kind in ("encoder", "late", "sparse")],
    ),
    (lambda f: f.encoder.encode(TEXTS, dim=8, dims=16), "dims: truncate_dim is given twice"),
    (lambda f: f.encoder.encode(TEXTS, sentences=TEXTS[:1]), "texts is given twice, by its place"),
    (lambda f: f.late.encode(TEXTS, batch_size=8), "batch_tokens="),
    (lambda f: f.late.similarity(TEXTS, TEXTS, batch_size=8), "batch_tokens="),
    (lambda f: f.late.encode(TEXTS, prompt_name="query"), "encode_query"),
    (lambda f: f.sparse.encode(TEXTS, convert_to_sparse_tensor=True), "convert_to_sparse_tensor=True"),
    *each(
        lambda f, option: f.reader.score([TEXTS[:2]], **option),
        [
            ({"activation_fn": torch.nn.Sigmoid()}, "activation_fn"),
            ({"apply_softmax": True}, "apply_softmax"),
            ({"batch_size": 4}, "batch_size"),
        ],
    ),
    (lambda f: SentenceEncoder.load(f.bert_folder, trust_remote_code=True), "trust_remote_code=True"),
]


def unchanged(f, name, value):
    before = f.own.encode(TEXTS)
    try:
        setattr(f.own, name, value)
    finally:
        np.testing.assert_array_equal(f.own.encode(TEXTS), before)


SETTINGS = [
    *each(
        lambda f, given: unchanged(f, *given),
        [
            (("pooling", "nope"), "Did you mean|no such pooling|Known"),
            (("poolings", "cls"), "unknown attribute. Did you mean pooling"),
            (("max_seq_length", 8), "unknown attribute"),
            (("query_prompt", "q"), "unknown attribute"),
            (("max_length", 10_000), "expected a whole number, 3 to 32"),
            (("max_length", True), "expected a whole number"),
            (("normalize", "yes"), "expected True or False"),
            (("micro_batch_tokens", 0), "at least 1"),
            (("prompts", Prompts({"query": "我" * 99}, "query")), "leaves none for the sentence"),
            (
                ("prompts", Prompts({"query": "我"}, "document")),
                "default_prompt_name=document: .*Known: query",
            ),
            (("prompt", "我" * 99), "leaves none for the sentence"),
            (("pad", 7), "follows from the loaded weights"),
            (("dim", 7), "follows from the loaded weights"),
            (("tokenizer", None), "Load another encoder"),
            (("backbone", "bert"), "follows from the loaded weights"),
            (("encode", "fast"), "follows from the loaded weights"),
        ],
    ),
    *each(
        lambda f, given: setattr(f.reader, *given),
        [
            (("symmetric", "yes"), "expected True or False"),
            (("pooling", "mean"), r"encoder\.inner\.pooling"),
            (("outputs", 3), "follows from the loaded weights"),
            (("backbone", torch.nn.Linear(1, 1)), "follows from the loaded weights"),
            (("activation", "sigmoid"), "unknown attribute"),
        ],
    ),
    *each(
        lambda f, given: setattr(f.reader.inner, *given),
        [(("normalize", True), "belongs to a cross-encoder"), (("prompts", {"query": "我"}), "belongs to")],
    ),
    (lambda f: setattr(f.sparse, "truncate_dim", 8), "truncate_dim"),
    (lambda f: f.sparse.decode(np.zeros(7)), "7 numbers"),
    (lambda f: f.encoder.encode(TEXTS, truncate_dim=4096), "truncate_dim=4096: .*1 to 32"),
    (
        lambda f: having(f.own, score_head=BilinearScore(32)).score(*TEXTS[:2], truncate_dim=8),
        "truncate_dim=8: .*learnt form",
    ),
    (
        lambda f: f.load(f.bert_folder, normalize=True).encode(TEXTS, normalize=False),
        "normalize=False: .*length 1",
    ),
    (lambda f: f.encoder.encode(TEXTS, prompt_name="query", prompt="x"), "give one of the two"),
    (
        lambda f: having(f.own, prompts={"passage": "在"}).encode(TEXTS, prompt_name="pasage"),
        "Did you mean passage",
    ),
    (lambda f: templated(f).encode(TEXTS, prompt="x"), "reads sentences through templates"),
    (
        lambda f: around("builtin/mini_zh").set(pooling=None, segments=True, symmetric=None),
        "segments=true: this encoder, or its tokenizer",
    ),
    (
        lambda f: CrossEncoder(
            f.load(f.bert_folder, max_length=4), outputs=1, segments=True, symmetric=False, seed=0
        ),
        "at least 5",
    ),
    (lambda f: PairTemplate.of(without_signs(f.own.tokenizer)), "no special token between two sentences"),
    (
        lambda f: DrawnDocuments(np.array([0, 1]), np.array([2, 2])).draw(np.array([0]), 1, seed=(0, 0)),
        "num_drawn",
    ),
    (lambda f: SpreadOut(of=InfoNCE())(**token_vectors(f)), "anchors has the shape"),
]


def without_signs(tokenizer):
    tokenizer.backend_tokenizer.post_processor = None
    return tokenizer


def token_vectors(f):
    vectors = f.late(f.late.collate(f.late.tokenize(TEXTS)))
    return {"anchors": vectors[:2], "positives": vectors[:2], "embeddings": vectors[:2]}


MASKS = {"rate": 0.3, "strategy": "span", "mean_span": 2.0, "mask_share": 0.8, "random_share": 0.1}
MASKING = [
    *each(
        lambda f, changes: Masking(**(MASKS | changes)),
        [
            ({"strategy": "spans"}, "Did you mean span"),
            ({"rate": 0.0}, "mask_rate=0.0: .*above 0"),
            ({"rate": 1.0}, "mask_rate"),
            ({"mean_span": 0.5}, "mean_span=0.5: .*1 to 10"),
            ({"mean_span": 11.0}, "1 to 10"),
            ({"mask_share": 0.9, "random_share": 0.2}, "random_share=0.2: .*0 to 0.1"),
            ({"mask_share": float("nan")}, "mask_share=nan"),
        ],
    ),
    (lambda f: Vocabulary.of(maskless(), size=7), "no mask token"),
]


def maskless():
    words = {"<s>": 0, "</s>": 1, "Ġthe": 2}
    return SimpleNamespace(
        mask_token_id=None, all_special_ids=[0, 1], name_or_path="some", get_vocab=lambda: words
    )


VIEWS = {"delete": 0.3, "repeat": 0.3, "cutoff": 0.4, "shuffle": 3, "synonym": 0.5, "translations": None}


def translated(f, line):
    f.tmp_path.joinpath("some.tsv").write_text(line, encoding="utf-8")
    return f.tmp_path / "some.tsv"


def of_other_sentences(f):
    chosen = Views(["translation"], **(VIEWS | {"translations": str(translated(f, "别的句子\t其他句子\n"))}))
    tokenize = lambda texts: f.tokenizer(list(texts))["input_ids"]  # noqa: E731
    token_views = TokenViews(chosen, f.tokenizer, max_length=64)
    changes = SentenceChanges(tokenize, text_views=TextViews(chosen), token_views=token_views)
    collate = ViewCollator(tokenize, pack, changes=changes, changes_anchor=False, seed=1)
    rows = {"text": np.arange(2, dtype=np.int32)}
    examples = Examples("some", "train", Kind.SENTENCE, ["一二三四五", "今天天气"], rows, None)
    return collate.training_batch(examples, np.arange(2), index=0)


AUGMENTATION = [
    *each(
        lambda f, given: Views(given[0], **(VIEWS | given[1])),
        [
            ((("deletion",), {}), "model.views=deletion: .*Did you mean delete"),
            ((("delete", "synonym"), {}), r"model.views.*\[synonym,delete\]"),
            (((), {"delete": 1.0}), "model.delete=1.0: .*above 0 and below 1"),
            (((), {"cutoff": 0}), "model.cutoff=0: expected a number"),
            ((("translation",), {}), "model.translations=null: no such file"),
            (
                (("translation",), {"translations": "nowhere.tsv"}),
                "model.translations=nowhere.tsv: no such file",
            ),
        ],
    ),
    *each(
        lambda f, line: Translations(translated(f, f"好\t很好\n{line}\n")),
        [
            (line, "some.tsv:2: .*a tab and its translation")
            for line in ("没有制表符", "一\t", "\t二", "一\t二\t")
        ],
    ),
    (of_other_sentences, "no sentence of some, such as '一二三.*first text is '别的句子'"),
]


def with_a_large_weight(encoder):
    with torch.no_grad():
        encoder.backbone.embeddings.word_embeddings.weight[3, 3] = 1e5
    return encoder


def chat(template):
    tokenizer = rerankers.byte_tokenizer()
    tokenizer.chat_template = template
    return tokenizer


def saved_twice(f):
    folder = f.own.save(f.tmp_path / "texts")
    f.own.save(folder)
    (folder / "README.md").write_text("mine")
    return f.own.save(folder)


def saved_into_a_run(f):
    mark_dir(f.tmp_path / "run")
    save_encoder(f.own, f.tmp_path / "run/encoder", card={})
    return f.own.save(f.tmp_path / "run/encoder")


OTHERS = [
    (
        lambda f: save_halved(with_a_large_weight(f.own), f.tmp_path / "half", card={"name": "x"}),
        "beyond 65504",
    ),
    (saved_twice, r"README\.md, .*not written by juzhen, or has changed"),
    (saved_into_a_run, "run/encoder: .*folder of a run.*another place"),
    (lambda f: having(f.own, normalize=True).encode_chunks(TEXTS, normalize=False), "^normalize=False"),
    *each(
        lambda f, place: f.encoder.save(place),
        [
            (place, f"{Path(place).parent}.*Choose a folder")
            for place in ("/proc/encoder", "/proc/1/deep/er", "/sys/encoder")
            if sys.platform == "linux"
        ],
    ),
    *each(
        lambda f, change: quantize(np.eye(4), ranges=change(byte_ranges(np.eye(4)))),
        [
            (lambda ends: ends[:, 1:], "ranges"),
            (lambda ends: ends[::-1], "ranges"),
            (lambda ends: ends * np.nan, "ranges"),
        ],
    ),
    *each(
        lambda f, options: quantize(**{"vectors": np.eye(3, 4, dtype=np.float32)} | options),
        [
            ({"ranges": np.ones((2, 3))}, "^ranges"),
            ({"ranges": np.full((2, 4), np.nan)}, "^ranges"),
            ({"ranges": np.array([[1.0] * 4, [-1.0] * 4])}, "^ranges"),
            ({"whole": np.ones((2, 4))}, "^whole"),
            ({"rescore": 0}, "^rescore"),
            ({"vectors": np.ones((0, 4))}, "^vectors"),
            ({"vectors": ["今天", "天气"]}, "^vectors"),
            ({"vectors": np.ones((2, 3, 4))}, "^vectors"),
        ],
    ),
    *each(
        lambda f, template: AnswerPrompt.of(chat(template), None),
        [
            (None, "has no chat template"),
            ("{% for m in messages %}{{ m.role }}{% endfor %}", "query and document once"),
            ("{% for m in messages %}{{ m.content | trim }}> {% endfor %}", "changes texts"),
            ("{% for m in messages | reverse %}{{ m.content }}> {% endfor %}", "query before the document"),
            ("{{ nothing.there }}", "cannot be filled in"),
        ],
    ),
    *each(
        lambda f, name: f.encoder.push_to_hub(name, dry_run=True),
        [
            *((name, r"push_to_hub\(.*owner/name") for name in ("", "a/b/c", "我/faq", "me/")),
            (None, "repo_id=None: expected a text. Give owner/name"),
        ],
    ),
]
LABELLED = [("今天", "明天", 1), ("今天", "花呗", 0)]
DOORS = [
    *each(
        lambda f, options: f.encoder.encode(TEXTS, **options),
        [
            ({"backend": "onnx"}, r"backend: got a str .*open_backend\("),
            ({"cache": "x"}, r"cache: got a str .*EmbeddingCache\("),
            ({"instruction": "x"}, "instruction.*prompt="),
            ({"dtype": "float16"}, r"dtype.*juzhen\.quantize"),
            ({"return_sparse": True}, r"return_sparse.*SparseEncoder\.load"),
            ({"norm": True}, "encode: no option norm.*"),
        ],
    ),
    (lambda f: f.encoder.encode(TEXTS, TEXTS), "2 values without a name, where 1.*prompt_name=…"),
    (lambda f: f.encoder.encode(), "texts is missing"),
    (lambda f: f.encoder.search("问", CORPUS, score_threshold=0.5), r"score_threshold.*hit\.score"),
    (lambda f: f.encoder.score(TEXTS, TEXTS, threshold=0.5), "no option threshold|threshold=0.5"),
    *each(
        lambda f, source: SentenceEncoder.load(source), [(s, "source: got .*path") for s in (None, 5, ["x"])]
    ),
    (lambda f: SentenceEncoder.load(f.encoder), r"source: got a SentenceEncoder\. Give a path"),
    (lambda f: SentenceEncoder.load("x", torch_dtype="float16"), "torch_dtype.*Leave it out"),
    (lambda f: SentenceEncoder.load(f.bert_folder, revision="v1"), "revision=v1: .*Leave it out"),
    (lambda f: SentenceEncoder("builtin/mini_zh"), r"SentenceEncoder\.load\("),
    (lambda f: f.encoder.save_pretrained(None), "folder: got a NoneType .*path"),
    (lambda f: f.encoder.save_pretrained(f.tmp_path / "x", card="x"), "card: got a str .*dict"),
    (
        lambda f: f.encoder.save(f.tmp_path / "x", safe_serialization=False),
        "safe_serialization.*Leave it out",
    ),
    (lambda f: f.encoder.push_to_hub("me/x", card="x", dry_run=True), "card: got a str .*dict"),
    *each(
        lambda f, models: merge(models),
        [
            (None, "models: got a NoneType .*list"),
            ("builtin/mini_zh", "models: got one text.*list"),
            ([SentenceEncoder, 5], "not an encoder"),
        ],
    ),
    (lambda f: merge([f.encoder, f.own], weights={"a": 1}), "weights: got a dict .*list"),
    (lambda f: evaluate(f.encoder, f.encoder.encode(TEXTS)), "rows: got a ndarray.*list of tuples"),
    (lambda f: fit(f.own, LABELLED, columns={"text_a": "q"}), r"no column q for text_a.*columns="),
    (lambda f: merge([f.encoder, f.own], alpha=0.5), "alpha.*weights="),
    (lambda f: evaluate(f.encoder, LABELLED, settings={}), r"settings: got a dict .*EvaluationSettings\("),
    (lambda f: evaluate(f.encoder, LABELLED, metrics=["map"]), "metrics.*scores"),
    *each(
        lambda f, given: evaluate(f.encoder, *given[:1], **given[1]),
        [
            (("demo_sts", {"columns": {"text_a": "x"}}), "^columns=.*the set demo_sts.*Leave it out"),
            (("demo_sts", {"score_range": (0, 5)}), "^score_range=.*the set demo_sts.*Leave it out"),
            ((as_examples(LABELLED), {"score_range": (0, 5)}), "^score_range=.*the set rows.*Leave it out"),
            ((load_ranking("demo_qmc", "dev"), {"sheet": "x"}), "^sheet=.*demo_qmc.*Leave it out"),
        ],
    ),
    (lambda f: fit(f.own, as_examples(LABELLED), score_range=(0, 5)), "^score_range=.*Leave it out"),
    *each(
        lambda f, given: mine(*given, folder=f.tmp_path / "mined"),
        [((given, ["bm25"]), r"ranking: got a .*load_ranking\(") for given in (LABELLED, "faq")],
    ),
    (lambda f: mine(load_ranking("demo_qmc", "dev"), [5], folder=f.tmp_path / "x"), "sources: int .*bm25"),
    (lambda f: mine(load_ranking("demo_qmc", "dev"), ["bm25"], num_negatives=2), r"MiningOptions\("),
    (
        lambda f: mine(
            load_ranking("demo_qmc", "dev"), ["bm25"], folder=f.tmp_path / "x", false_negative_rate=0.1
        ),
        "^false_negative_rate=0.1: .*calibrate_on",
    ),
    *each(lambda f, name: load_ranking(name), [(name, f"set={name}: .*name of a set") for name in (None, 5)]),
    *each(
        lambda f, options: fit(f.own, LABELLED, progress=False, **options),
        [
            ({"loss": None}, "loss=None.*info_nce"),
            ({"output_dir": "x"}, r"output_dir.*encoder\.save\("),
            ({"warmup_steps": 10}, "warmup_steps.*warmup=0.1"),
            ({"evaluator": 1}, "evaluator.*dev="),
            ({"fp16": True}, "fp16.*bf16=True"),
            ({"gradient_accumulation_steps": 2}, "training.accumulate=2"),
            ({"adapter": True}, "adapter=True.*lora"),
        ],
    ),
    (lambda f: fit(LABELLED, "builtin/mini_zh"), "encoder: got a list .*path"),
    (lambda f: quantize(f.encoder.encode(TEXTS), calibration_embeddings=1), r"ranges=byte_ranges\("),
    (lambda f: analyze_embeddings(f.encoder, TEXTS), "texts is missing"),
    (lambda f: detect_communities(np.eye(3), min_size="2"), "min_size=2: .*number"),
    (lambda f: f.sparse.decode(TEXTS), "decode: .*encode"),
    (lambda f: setattr(f.sparse, "prompt", 5), "^prompt=5: not a text.*Give the text"),
    (lambda f: setattr(f.encoder, "prompt", None), "^prompt=None: not a text.*Give the text"),
    *each(
        lambda f, given: f.encoder.similarity(np.eye(32), np.eye(32), **given),
        [({"prompt": "x"}, "^prompt='x': .*Leave it out"), ({"foo": 1}, "^foo=1: .*Leave it out")],
    ),
    (
        lambda f: f.encoder.search(np.eye(32), np.eye(32), document_prompt="query"),
        "^document_prompt='query': .*Leave it out",
    ),
    (lambda f: quantize(np.eye(3), whole=np.eye(3) * np.nan), "^whole: row 0 holds NaN"),
    *each(
        lambda f, given: fit_temperature(np.array(given[0]), np.array(given[1])),
        [(([np.nan, 1], [0, 1]), "finite"), (([0.1, 0.2], [1, 2]), "0 and 1")],
    ),
]
REFUSED = {
    "a door": DOORS,
    "a text": TEXT,
    "a pair": PAIR,
    "a column": COLUMN,
    "a search": SEARCH,
    "no number": NOT_FINITE,
    "chunks": CHUNKS,
    "strict": STRICT,
    "a back end": BACKENDS,
    "a slow back end": SLOW_BACKENDS,
    "options of others": PEERS,
    "a setting": SETTINGS,
    "masking": MASKING,
    "augmentation": AUGMENTATION,
    "others": OTHERS,
}


@pytest.mark.parametrize(("call", "words"), rows(REFUSED, slow=["a slow back end"]))
@pytest.mark.sampled(3)
def test_a_call_is_refused_by_what_it_was_given(f, call, words):
    with pytest.raises(UserError, match=words) as caught:
        call(f)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("program", "words", "told"),
    [
        (main, "encode {bert} {lines} --overlap 4", "--long-texts chunk"),
        (main, "export {static} {folder}/again --format static", "--format sentence-transformers"),
        (halve, "{folder}/none {folder}/half", "no such folder"),
        *((main, f"push {{bert}} {name} --dry-run", "owner/name") for name in ("a/b/c", "我/faq", "me/")),
    ],
)
def test_a_verb_refuses_with_status_2(program, words, told, bert_folder, tmp_path, capsys):
    from test_static import write_table

    lines = tmp_path / "lines.txt"
    lines.write_text("今天\n", encoding="utf-8")
    (tmp_path / "static").mkdir()
    static = write_table(tmp_path / "static")
    places = {"bert": bert_folder, "lines": lines, "static": static, "folder": tmp_path}
    assert program([word.format(**places) for word in words.split()]) == 2
    output = capsys.readouterr()
    assert told in output.err
    assert "Traceback" not in output.err
    assert not output.out
    assert not (tmp_path / "again").exists()
