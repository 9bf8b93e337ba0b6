"""Each back end computes the embeddings of the encoder: exactly, or as near as its precision allows."""

import shutil

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from juzhen.backends import Deferred, open_backend, torch_backend
from juzhen.backends.names import BackendName
from juzhen.core import machine
from juzhen.core.errors import UserError
from juzhen.encoders import SentenceEncoder
from juzhen.encoders.forward import PACKED
from juzhen.encoders.pooling import POOLINGS
from juzhen.encoders.projection import Projection

TEXTS = ["今天天气很好吗", "我", "你他们是的在不了有和人这中大", "今天", "我", "ab cd", "今" * 50]
ONNX = (BackendName.ONNX, BackendName.ONNX_INT8)


def embed(encoder, backend, texts=TEXTS, **how) -> np.ndarray:
    backend = open_backend(encoder, backend) if isinstance(backend, str) else backend
    return encoder.encode(texts, batch_tokens=64, backend=backend, **how)


def unit(embeddings):
    return embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)


def require(backend):
    for package in ("onnx", "onnxscript", "onnxruntime") if backend in ONNX else ():
        pytest.importorskip(package)


def projected(encoder: SentenceEncoder) -> SentenceEncoder:
    torch.manual_seed(3)
    for inner, outer in ((encoder.dim, 16), (16, 8)):
        layer = Projection(inner, outer, bias=outer == 16, activation="torch.nn.modules.activation.Tanh")
        encoder.projections.append(layer)
    return encoder


@pytest.fixture(scope="module")
def graph(bert_folder, tmp_path_factory):
    """A small encoder with projections, and its graph in float32, ready for 8 bits; an export takes seconds."""
    require(BackendName.ONNX)
    from juzhen.backends import graph_backends
    from juzhen.encoders import load_encoder

    encoder, folder, export = (
        projected(load_encoder(bert_folder)),
        tmp_path_factory.mktemp("graph"),
        graph_backends._export,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            graph_backends,
            "_export",
            lambda *words, **more: export(*words, **more) or shutil.copy(words[1], folder / "plain.onnx"),
        )
        graph_backends.export_onnx(encoder, folder / "int8.onnx", quantised=True)
    return encoder, folder / "plain.onnx"


@pytest.fixture
def opened(graph, monkeypatch):
    """Opens ONNX back ends for the encoder of `graph`, without exporting it again."""
    from juzhen.backends import graph_backends

    monkeypatch.setattr(
        graph_backends, "_export", lambda module, path, outputs, **more: shutil.copy(graph[1], path)
    )
    return lambda name, encoder=graph[0]: open_backend(encoder, name)


@pytest.mark.slow
def test_a_graph_with_projections_is_the_encoder(graph, opened):
    computed = embed(graph[0], opened("onnx"))
    assert (computed.shape, computed.dtype) == ((len(TEXTS), 8), np.float32)
    np.testing.assert_allclose(computed, embed(graph[0], "torch"), rtol=0, atol=1e-5)


@pytest.mark.slow
def test_sentences_one_by_one_are_those_of_a_batch(graph, opened):
    backend = opened("onnx")
    alone = np.concatenate([embed(graph[0], backend, [text]) for text in TEXTS])
    np.testing.assert_allclose(alone, embed(graph[0], backend), rtol=0, atol=1e-5)


@pytest.mark.parametrize("backend", ["torch", "onnx", "onnx_int8"])
@pytest.mark.slow
def test_an_embedding_does_not_depend_on_the_texts_beside_it(graph, opened, backend):
    backend = opened(backend)
    texts = [
        "".join(("今天气很好吗我你他们" * 4)[start : start + length])
        for length in range(1, 31)
        for start in (0, 3)
    ]
    beside = unit(embed(graph[0], backend, texts).astype(np.float64))
    alone = unit(np.concatenate([embed(graph[0], backend, [text]) for text in texts]).astype(np.float64))
    assert (alone * beside).sum(1).min() > 1 - 1e-9


def check_export(encoder):
    np.testing.assert_allclose(unit(embed(encoder, "onnx")), unit(embed(encoder, "torch")), rtol=0, atol=1e-5)


@pytest.mark.slow
def test_a_layer_norm_is_exported(bert_folder, load):
    require(BackendName.ONNX)
    encoder = load(bert_folder, layer_norm=True, normalize=True)
    with torch.no_grad():
        encoder.projections[0].norm.bias.copy_(torch.linspace(-1, 1, 32))
    check_export(encoder)


@pytest.mark.slow
def test_a_padded_architecture_is_exported(distilbert_folder, load):
    require(BackendName.ONNX)
    encoder = load(distilbert_folder, pooling="weighted", normalize=True)
    assert not encoder._packs
    check_export(encoder)


@pytest.mark.slow
@pytest.mark.parametrize("pooling", POOLINGS)
def test_every_architecture_and_pooling_is_exported(any_folder, load, pooling):
    require(BackendName.ONNX)
    check_export(load(any_folder, pooling=pooling))


def test_bf16_rounds(any_folder, load):
    encoder = load(any_folder)
    expected, computed = embed(encoder, "torch"), embed(encoder, "torch_bf16")
    assert computed.dtype == np.float32
    assert not np.array_equal(computed, expected), "nothing was rounded"
    assert (unit(computed) * unit(expected)).sum(1).min() > 0.99
    assert encoder.training


@pytest.mark.parametrize("backend", ["torch_bf16", pytest.param("onnx_int8", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_rounding_hardly_changes_a_correlation(project_root, load, backend):
    require(backend)
    encoder = load(project_root / "juzhen" / "builtin" / "mini_zh@2")
    lines = (
        (project_root / "juzhen" / "builtin" / "data" / "demo_sts" / "dev.tsv")
        .read_text(encoding="utf-8")
        .splitlines()
    )
    rows = [line.split("\t") for line in lines[1:81]]
    names = lines[0].split("\t")
    first, second = ([row[names.index(name)] for row in rows] for name in ("sentence1", "sentence2"))
    gold = [float(row[names.index("label")]) for row in rows]

    def cosines(name):
        both = unit(encoder.encode([*first, *second], backend=open_backend(encoder, name)))
        return both, (both[: len(rows)] * both[len(rows) :]).sum(1)

    (expected, plain), (computed, rounded) = cosines("torch"), cosines(backend)
    assert (expected * computed).sum(1).min() > 0.99
    assert not np.array_equal(expected, computed), "nothing was rounded"
    assert abs(spearmanr(plain, gold).statistic - spearmanr(rounded, gold).statistic) < 0.002


@pytest.mark.slow
def test_an_embedding_does_not_depend_on_the_calls(graph, opened, monkeypatch):
    from juzhen.backends import graph_backends

    encoder, backend = graph[0], opened("onnx")
    expected = embed(encoder, "torch")
    for most in (1, 20, 10_000):
        monkeypatch.setattr(graph_backends, "CALL_TOKENS", most)
        np.testing.assert_allclose(embed(encoder, backend), expected, rtol=0, atol=1e-5)
    assert encoder.backbone.config._attn_implementation == PACKED, "the encoder itself was changed"
    assert encoder.training


def test_rows_are_scaled_one_by_one():
    from juzhen.backends.graph_backends import RowScaledLinear

    linear = torch.nn.Linear(6, 3)
    states = torch.randn(2, 4, 6) * torch.logspace(-4, 4, 4)[None, :, None]
    states[0, 0] = 0
    torch.testing.assert_close(RowScaledLinear(linear)(states), linear(states), rtol=1e-5, atol=1e-6)


def too_coarse(f):
    """Weights that do not bear 8 bits."""
    from juzhen.backends import graph_backends

    f.monkeypatch.setattr(graph_backends, "LEAST_COSINE", 1.001)
    return open_backend(f.load(f.bert_folder), "onnx_int8")


def of_another(f):
    """A graph that computes something else."""
    return f.opened("onnx", projected(f.load(f.bert_folder, pooling="cls")))


def unexportable(f):
    """An architecture whose numbers decide what is computed, which no graph may."""
    encoder = f.load(f.bert_folder)
    plain = type(encoder.backbone).forward

    def forward(input_ids, attention_mask, output_hidden_states, token_type_ids):
        if input_ids.float().mean() > 1:
            return None
        raise AssertionError

    def either(self, input_ids, **more):
        return forward(input_ids, **more) if "attention_mask" in more else plain(self, input_ids, **more)

    f.monkeypatch.setattr(type(encoder.backbone), "forward", either)
    return open_backend(encoder, "onnx")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (too_coarse, "onnx_int8: .*Use the back end onnx"),
        (of_another, "bert: .*Use backend torch"),
        (unexportable, "bert: .*cannot be exported to ONNX"),
    ],
)
def test_what_a_graph_cannot_compute_is_refused(f, graph, call, words):
    with pytest.raises(UserError, match=words):
        call(f)


def test_a_deferred_back_end_is_opened_by_the_first_text(bert_folder, load):
    encoder = load(bert_folder)
    deferred = Deferred(encoder, "torch_bf16")
    np.testing.assert_array_equal(embed(encoder, deferred), embed(encoder, "torch_bf16"))


def test_bf16_without_instructions_for_it_is_warned_of_once(load, bert_folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "cpuinfo")
    machine.CPUINFO.write_text("flags\t\t: fpu avx2\n")
    torch_backend._say_once.cache_clear()
    encoder = load(bert_folder)
    for name in ("torch_bf16", "torch_bf16", "torch"):
        open_backend(encoder, name)
    assert capsys.readouterr().err.count("backend torch_bf16: this processor has no") == 1
