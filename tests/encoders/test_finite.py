"""NaN and infinity are refused where they arise, naming the text or the tensor, and nothing of them is kept."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from juzhen.core.columns import sound_rows
from juzhen.encoders import SentenceEncoder
from juzhen.encoders.embedding_cache import EmbeddingCache
from juzhen.export.formats import Format
from juzhen.export.loaders import ExportedModel
from juzhen.export.verification import prove

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


def test_a_foreign_export_that_gives_nan_is_at_fault(encoder):
    assert "by nan" in prove(encoder, BrokenExport(encoder), Format.ONNX).fault()


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
