"""A table of tokens in the place of a transformer: read from others, learnt, saved for them, and what it has not."""

import json
import shutil

import numpy as np
import pytest
from jobs import run_job
from safetensors.numpy import load_file, save_file
from transformers import AutoTokenizer

from juzhen import SentenceEncoder
from juzhen.core.paths import PACKAGE
from juzhen.core.result import Result
from juzhen.encoders.components import embedding_size
from juzhen.encoders.layout import is_static
from juzhen.export.folder import write_static

TEXTS = ["怎么退货", "如何申请退款", "今天天气很好 A dog, runs!", "我", "退" * 700]


def write_table(folder):
    """A table of 16 numbers for each token of the built-in encoder, in the layout of an export."""
    tokenizer = AutoTokenizer.from_pretrained(PACKAGE / "builtin" / "mini_zh@2")
    (folder / "tokenizer.json").write_text(tokenizer.backend_tokenizer.to_str(), encoding="utf-8")
    table = np.random.default_rng(0).normal(size=(len(tokenizer), 16)).astype(np.float32)
    save_file({"embeddings": table}, folder / "model.safetensors")
    kinds = {".": "StaticEmbedding", "1_Normalize": "Normalize"}
    modules = [
        {"name": kind, "path": path, "type": f"sentence_transformers.models.{kind}"}
        for path, kind in kinds.items()
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    return folder


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    return write_table(tmp_path_factory.mktemp("static"))


@pytest.mark.slow
def test_an_export_is_read_as_it_was_written(tmp_path):
    write_static(SentenceEncoder.load("builtin/mini_zh"), tmp_path, dim=32)
    assert embedding_size(tmp_path) == 32
    np.testing.assert_allclose(
        SentenceEncoder.load(tmp_path).encode(TEXTS), means(tmp_path, TEXTS), atol=1e-5
    )


def means(folder, texts, *, length=512):
    """Mean rows of the table, of length 1, by the tokenizer alone."""
    from tokenizers import Tokenizer

    tokenizer, tensors = (
        Tokenizer.from_file(str(folder / "tokenizer.json")),
        load_file(folder / "model.safetensors"),
    )
    (table,) = tensors.values()
    tokenizer.no_truncation()
    rows = [tokenizer.encode(text, add_special_tokens=False).ids[:length] for text in texts]
    vectors = np.stack([table[numbers].astype(np.float64).mean(axis=0) for numbers in rows])
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_a_text_is_the_mean_of_its_tokens_up_to_a_length(exported):
    assert is_static(exported)
    assert embedding_size(exported) == 16
    encoder = SentenceEncoder.load(exported)
    np.testing.assert_allclose(encoder.encode(TEXTS), means(exported, TEXTS), atol=1e-5)
    assert "up to token 512" in " ".join(encoder.load_warnings)
    encoder.max_length = 1000
    np.testing.assert_allclose(encoder.encode(TEXTS), means(exported, TEXTS, length=1000), atol=1e-5)


def test_a_table_whose_rows_are_shared_and_weighted_is_put_together(exported, tmp_path):
    shutil.copytree(exported, tmp_path, dirs_exist_ok=True)
    table = load_file(exported / "model.safetensors")["embeddings"]
    factors = np.linspace(0.5, 2, len(table), dtype=np.float64)
    mapping = np.arange(len(table)) // 2
    save_file({"embeddings": table, "mapping": mapping, "weights": factors}, tmp_path / "model.safetensors")
    encoder = SentenceEncoder.load(tmp_path)
    expected = (table[mapping] * factors[:, None]).astype(np.float32)
    np.testing.assert_allclose(encoder.backbone.embedding.weight.detach(), expected, rtol=1e-6)


@pytest.fixture(scope="module")
def run(exported, tmp_path_factory):
    words = ("dataset=[demo_sts]", "backbone=local", "optimizer.lr=1e-2", "evaluation.splits=[dev]")
    return run_job(tmp_path_factory.mktemp("runs"), exported, *words)


@pytest.mark.slow
def test_it_learns_and_what_is_saved_is_what_was_scored(run, exported):
    assert Result.read(run).scores["dev/demo_sts/spearman"].value is not None
    encoder, before = SentenceEncoder.load(run), SentenceEncoder.load(exported)
    assert not np.allclose(encoder.encode(TEXTS), before.encode(TEXTS), atol=1e-3)
    folder = run / "encoder"
    kinds = [
        module["type"].rpartition(".")[2] for module in json.loads((folder / "modules.json").read_text())
    ]
    assert kinds == ["StaticEmbedding", "Normalize"]
    np.testing.assert_allclose(encoder.encode(TEXTS), means(folder, TEXTS), atol=1e-5)
    assert not encoder.load_warnings  # its tokenizer cuts for all who read it


@pytest.mark.oracle
def test_sentence_transformers_gives_the_same(run, exported):
    theirs = pytest.importorskip("sentence_transformers").SentenceTransformer
    for folder, texts in ((exported, TEXTS[:-1]), (run / "encoder", TEXTS)):
        expected = theirs(str(folder), device="cpu").encode(texts)
        np.testing.assert_allclose(SentenceEncoder.load(folder).encode(texts), expected, atol=1e-5)


def test_a_folder_of_model2vec_says_whether_embeddings_have_length_1(exported, tmp_path):
    shutil.copytree(exported, tmp_path, dirs_exist_ok=True)
    (tmp_path / "modules.json").unlink()
    for normalize in (True, False):
        (tmp_path / "config.json").write_text(json.dumps({"model_type": "model2vec", "normalize": normalize}))
        lengths = np.linalg.norm(SentenceEncoder.load(tmp_path).encode(TEXTS), axis=1)
        assert np.allclose(lengths, 1) is normalize
