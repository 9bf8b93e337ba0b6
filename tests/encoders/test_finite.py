"""NaN and infinity are refused where they arise, naming the text or the tensor, and nothing of them is kept."""

import json
import shutil
from copy import deepcopy

import numpy as np
import pytest
import rerankers
import torch
from safetensors.torch import load_file, save_file

from juzhen.core.columns import require_finite, sound_rows
from juzhen.core.errors import UserError
from juzhen.encoders import CrossEncoder, SentenceEncoder, save_encoder
from juzhen.encoders.embedding_cache import EmbeddingCache
from juzhen.encoders.projection import IDENTITY, BilinearScore, OutputNorm, Projection
from juzhen.export.formats import Format
from juzhen.export.loaders import ExportedModel
from juzhen.export.verification import prove
from juzhen.families.answers.encoder import GenerativeReranker
from juzhen.families.late.encoder import MultiVectorEncoder
from juzhen.families.late.folder import MultiVectorSettings
from juzhen.families.sparse.encoder import SparseEncoder
from juzhen.merging.merge import merge

TEXTS = ["今天天气很好", "我", "ab cd"]
NORM = "encoder.layer.1.output.LayerNorm.weight"


class Broken:
    """A back end in whose numbers one text of three is lost."""

    name = "broken"

    def __init__(self, encoder, value):
        self.encoder, self.value = encoder, value

    def encode(self, tokens):
        vectors = self.encoder.infer(tokens)
        vectors[tokens.lengths[tokens.inverse_permutation].numpy() == 3] = self.value  # [CLS] 我 [SEP]
        return vectors


def scaled(encoder, weight):
    """The encoder with a last normalisation that overflows."""
    for name, values in encoder.named_parameters():
        if name.endswith(NORM):
            values.data.fill_(weight)
    return encoder.eval()


@pytest.fixture
def encoder(bert_folder):
    return SentenceEncoder.load(bert_folder)


def test_which_rows_can_be_compared():
    rows = np.float32([[1, 2], [np.nan, 0], [np.inf, 1], [0, 0], [1e20, 0], [-np.inf, np.inf]])
    assert sound_rows(rows).tolist() == [True, False, False, True, False, False]
    assert not sound_rows(rows, may_be_zero=False)[3]
    assert sound_rows(np.float32([0, -1, np.nan])).tolist() == [True, True, False]
    assert sound_rows(np.empty((0, 2), np.float32)).tolist() == []
    with pytest.raises(UserError, match=r"text='b'.*1 of 3"):
        require_finite(np.float32([[1], [1], [np.inf]]), ["a", "b"], owners=np.array([0, 0, 1]))


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_one_text_of_three_is_named_and_none_is_kept(encoder, value, tmp_path):
    cache, broken = EmbeddingCache(tmp_path), Broken(encoder, value)
    with pytest.raises(UserError, match=r"text='我'.*1 of 3"):
        encoder.encode(TEXTS, backend=broken, cache=cache)
    assert not list(cache.folder.rglob("*.safetensors"))
    for work in (
        lambda: encoder.score(TEXTS[0], TEXTS[1], backend=broken),
        lambda: encoder.similarity(TEXTS, TEXTS, backend=broken),
        lambda: encoder.search("我", TEXTS, backend=broken),
        lambda: encoder.encode_chunks(TEXTS, backend=broken),
        lambda: encoder.encode(TEXTS, backend=broken, long_texts="chunk"),
    ):
        with pytest.raises(UserError, match="text='我'"):
            work()


def test_what_a_cache_holds_of_them_is_encoded_again(encoder, tmp_path, monkeypatch):
    expected = encoder.encode(TEXTS)
    lost = np.where(np.arange(3)[:, None] == 1, np.nan, expected).astype(np.float32)
    with monkeypatch.context() as patch:
        patch.setattr("juzhen.encoders.embedding_cache.require_finite", lambda *_: None)
        EmbeddingCache(tmp_path).partition(encoder, "torch").add(TEXTS, lost)
    found = np.zeros_like(lost)
    assert EmbeddingCache(tmp_path).partition(encoder, "torch").fill(TEXTS, found).tolist() == [1]
    cached = encoder.encode(TEXTS, cache=EmbeddingCache(tmp_path))
    np.testing.assert_allclose(cached, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("weight", [3e38, 1e20])
@pytest.mark.parametrize("normalize", [False, True])
def test_weights_that_overflow(encoder, weight, normalize):
    encoder.normalize = normalize
    with pytest.raises(UserError, match="text="):
        scaled(encoder, weight).encode(TEXTS)


def test_an_encoder_of_nan_is_not_saved_and_its_vectors_are_not_compared(encoder, tmp_path):
    broken = deepcopy(encoder)
    next(broken.backbone.parameters()).data.fill_(float("nan"))
    with pytest.raises(UserError, match="Nothing was saved"):
        broken.save(tmp_path / "saved")
    assert not list(tmp_path.iterdir())
    for value in (np.nan, np.inf):
        with pytest.raises(UserError, match="second: row 0"):
            encoder.similarity("今天", np.full(encoder.dim, value, np.float32))


def test_every_family_refuses_what_overflows(bert_folder, tmp_path):
    cross = CrossEncoder(SentenceEncoder.load(bert_folder), outputs=1, segments=False, symmetric=True, seed=0)
    scaled(cross, 3e38)
    for work in (cross.score, lambda pair: cross.rank(pair[0], [pair[1]])):
        with pytest.raises(UserError, match=r"pair=\('我'"):
            work(("我", "ab"))
    reading = MultiVectorSettings(query_length=16, document_length=30, expand_to=16)
    for other in (
        MultiVectorEncoder.around(SentenceEncoder.load(bert_folder), dim=8, reading=reading),
        SparseEncoder.around(SentenceEncoder.load(bert_folder)),
    ):
        scaled(other, 3e38)
        for work in (other.encode, lambda texts, other=other: other.score([texts[:2]])):
            with pytest.raises(UserError, match="text="):
                work(TEXTS)
    place = rerankers.write("qwen3", tmp_path / "lm")
    asked = GenerativeReranker.around(SentenceEncoder.load(place))
    asked.backbone.norm.weight.data.fill_(3e38)
    with pytest.raises(UserError, match="pair="):
        asked.score("a dog", "x y")


def poisoned(path, name, value=torch.nan):
    tensors = load_file(path)
    tensors[name].view(-1)[-1] = value
    save_file(tensors, path, metadata={"format": "pt"})


@pytest.mark.parametrize("value", [torch.nan, -torch.inf])
@pytest.mark.sampled(3)
def test_tensors_are_named_wherever_they_are_read(bert_folder, tmp_path, value):
    def refused(load, path, name):
        poisoned(path, name, value)
        with pytest.raises(UserError, match=f"{name} holds NaN"):
            load()

    layer = Projection(8, 4, bias=True, activation=IDENTITY)
    for number, made in enumerate((layer, OutputNorm(8))):
        folder = tmp_path / str(number)
        made.save(folder)
        name = "linear.weight" if made is layer else "norm.bias"
        refused(lambda made=made, folder=folder: type(made).load(folder), folder / "model.safetensors", name)
    encoder = SentenceEncoder.load(bert_folder)
    encoder.score_head = BilinearScore(encoder.dim)
    folder = save_encoder(encoder, tmp_path / "form", card={})
    refused(lambda: SentenceEncoder.load(folder), folder / "score.safetensors", "form")
    inner = SentenceEncoder.load(bert_folder)
    pairs = CrossEncoder(inner, outputs=1, segments=False, symmetric=True, seed=0).save(tmp_path / "pairs")
    refused(lambda: CrossEncoder.load(pairs), pairs / "head.safetensors", "weight")
    sparse = SparseEncoder.around(SentenceEncoder.load(bert_folder)).save(tmp_path / "sparse")
    refused(
        lambda: SparseEncoder.load(sparse),
        sparse / "model.safetensors",
        "cls.predictions.transform.dense.bias",
    )
    place = rerankers.write("qwen3", tmp_path / "lm", tied=False)
    asked = GenerativeReranker.around(SentenceEncoder.load(place)).save(tmp_path / "asked")
    refused(lambda: CrossEncoder.load(asked), asked / "model.safetensors", "lm_head.weight")


def test_tensors_of_an_adapter_are_named(bert_folder, tmp_path):
    pytest.importorskip("peft")
    from test_adapters import with_adapter

    folder = with_adapter(bert_folder).save(tmp_path / "adapter")
    name = next(name for name in load_file(folder / "adapter_model.safetensors") if "lora_B" in name)
    poisoned(folder / "adapter_model.safetensors", name)
    with pytest.raises(UserError, match=f"{name} holds NaN"):
        SentenceEncoder.load(folder)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_settings_are_named(folder, bert_folder, tmp_path, number):
    def changed(path, key):
        path.write_text(json.dumps(json.loads(path.read_text()) | {key: number}))

    changed(folder / "config.json", "layer_norm_eps")
    with pytest.raises(UserError, match=r"config\.json: layer_norm_eps"):
        SentenceEncoder.load(folder)
    pytest.importorskip("peft")
    from test_adapters import with_adapter

    adapter = with_adapter(bert_folder).save(tmp_path / "adapter")
    changed(adapter / "adapter_config.json", "lora_alpha")
    with pytest.raises(UserError, match=r"adapter_config\.json: lora_alpha"):
        SentenceEncoder.load(adapter)


def test_a_merge_is_refused_before_it_is_written(bert_folder, folder, tmp_path):
    tensors = load_file(folder / "model.safetensors")
    tensors[NORM] = tensors[NORM] + 1
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    other = shutil.copytree(folder, tmp_path / "other")
    tensors[NORM] = tensors[NORM] + 1
    save_file(tensors, other / "model.safetensors", metadata={"format": "pt"})
    models = [other, folder]
    for scale in (float("nan"), float("inf")):
        with pytest.raises(UserError, match="scale="):
            merge(models, method="task_arithmetic", base=bert_folder, scale=scale)
    with pytest.raises(UserError, match=r"backbone.* holds NaN"):
        merge(models, method="task_arithmetic", base=bert_folder, scale=1e39)


class BrokenExport(ExportedModel):
    by = "nobody"

    def __init__(self, encoder):
        self.encoder = encoder

    def encode(self, texts, *, batch_size=64):
        vectors = self.encoder.encode(texts).copy()
        vectors[len(texts) // 2, 0] = np.nan
        return vectors

    def score(self, pairs, *, batch_size=64):
        return self.encoder.score(pairs)


def test_an_export_is_not_proved_by_them(encoder):
    with pytest.raises(UserError, match="the export gives NaN"):
        prove(encoder, BrokenExport(encoder), Format.ONNX)


def test_a_static_table_may_hold_zeros_and_no_product_that_overflows(tmp_path):
    tokenizer = SentenceEncoder.load("builtin/mini_zh").tokenizer
    (tmp_path / "tokenizer.json").write_text(tokenizer.backend_tokenizer.to_str(), encoding="utf-8")
    kinds = {".": "StaticEmbedding", "1_Normalize": "Normalize"}
    modules = [
        {"name": kind, "path": path, "type": f"sentence_transformers.models.{kind}"}
        for path, kind in kinds.items()
    ]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    table = torch.randn(len(tokenizer), 4)
    for word, value in (("▁今", 0), ("▁你", 1e20)):
        table[tokenizer.convert_tokens_to_ids(word)] = value
    save_file({"embeddings": table}, tmp_path / "model.safetensors")
    encoder = SentenceEncoder.load(tmp_path)
    assert not encoder.encode("今").any()  # of a token that the table lacks
    encoder.normalize = False
    with pytest.raises(UserError, match="text='你'"):
        encoder.encode(["今", "你"])
    save_file(
        {"embeddings": table, "weights": torch.full([len(table)], 1e19)}, tmp_path / "model.safetensors"
    )
    with pytest.raises(UserError, match="holds NaN or infinite"):
        SentenceEncoder.load(tmp_path)


def test_a_server_does_not_start_on_weights_that_overflow(encoder):
    pytest.importorskip("fastapi")
    from juzhen.serving.models import Embedder

    with pytest.raises(UserError, match="mine: the model gave NaN"):
        Embedder(scaled(encoder, 3e38), "mine", "torch")
