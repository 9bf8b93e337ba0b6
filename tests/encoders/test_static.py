"""A table of tokens in the place of a transformer: read from others, learnt, saved for them, and what it has not."""

import json
import shutil

import numpy as np
import pytest
from jobs import run_job
from safetensors.numpy import load_file, save_file
from tokenizers import normalizers
from transformers import AutoTokenizer

from juzhen import SentenceEncoder
from juzhen.cli.main import main
from juzhen.core.errors import UserError
from juzhen.core.paths import PACKAGE
from juzhen.core.result import Result
from juzhen.encoders.components import embedding_size
from juzhen.encoders.layout import is_static
from juzhen.export.folder import write_static

TEXTS = ["怎么退货", "如何申请退款", "今天天气很好 A dog, runs!", "我", "退" * 700]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A table of 16 numbers for each token of the built-in encoder, in the layout of an export."""
    folder = tmp_path_factory.mktemp("static")
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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["backbone.layers=2"], "static_embedding .*Leave it at null"),
        (["backbone.dropout=0.1"], "static_embedding .*Leave it at null"),
        (
            ["model=crossencoder", "loss=bce", "dataset=[demo_qmc]"],
            "puts no special token between two sentences",
        ),
        (["model=colbert"], "has one vector for a token in all texts"),
        (["model=splade"], "static_embedding: has no head over its vocabulary"),
    ],
)
def test_what_it_has_not_is_refused(exported, tmp_path, words, message):
    with pytest.raises(UserError, match=message):
        run_job(tmp_path, exported, "backbone=local", *words)


def test_a_text_without_a_token_has_no_embedding(exported, tmp_path, capsys):
    encoder = SentenceEncoder.load(exported)
    encoder.tokenizer.backend_tokenizer.normalizer = normalizers.Replace("的", "")
    with pytest.raises(UserError, match="the tokenizer knows nothing in this text"):
        encoder.encode(["今天", "的"])
    assert main(["export", str(exported), str(tmp_path / "again"), "--format", "static"]) == 2
    assert "--format sentence-transformers" in capsys.readouterr().err


def test_weights_that_are_no_table_are_no_table(exported, tmp_path):
    for name in ("tokenizer.json", "modules.json"):
        (tmp_path / name).write_bytes((exported / name).read_bytes())
    save_file({"layer": np.ones((2, 2), dtype=np.float32)}, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match=r"config\.json is missing"):
        SentenceEncoder.load(tmp_path)


TABLE = np.ones((4, 2), dtype=np.float32)
BROKEN = {
    "one dimension": ({"embeddings": TABLE[0]}, "embeddings has the shape"),
    "three dimensions": ({"embedding.weight": TABLE[None]}, r"embedding\.weight has the shape"),
    "no rows": ({"embeddings": TABLE[:0]}, "embeddings has the shape"),
    "rows below": ({"embeddings": TABLE, "mapping": np.array([0, -1])}, "mapping names rows from -1"),
    "rows above": ({"embeddings": TABLE, "mapping": np.array([0, 4])}, "mapping names rows from 0 to 4"),
    "halves": ({"embeddings": TABLE, "mapping": np.array([0.5, 1])}, "mapping names rows"),
    "a square": ({"embeddings": TABLE, "mapping": np.zeros((2, 2), dtype=np.int64)}, "mapping has the shape"),
    "few weights": ({"embeddings": TABLE, "weights": np.ones(1)}, "weights has the shape"),
    "wide weights": ({"embeddings": TABLE, "weights": np.ones((4, 2))}, "weights has the shape"),
}


@pytest.mark.parametrize(("tensors", "message"), BROKEN.values(), ids=BROKEN)
def test_a_table_that_is_none_is_refused(exported, tmp_path, tensors, message):
    shutil.copytree(exported, tmp_path, dirs_exist_ok=True)
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match=rf"model\.safetensors: {message}.* Copy the file again"):
        SentenceEncoder.load(tmp_path)


def test_a_folder_of_model2vec_says_whether_embeddings_have_length_1(exported, tmp_path):
    shutil.copytree(exported, tmp_path, dirs_exist_ok=True)
    (tmp_path / "modules.json").unlink()
    for normalize in (True, False):
        (tmp_path / "config.json").write_text(json.dumps({"model_type": "model2vec", "normalize": normalize}))
        lengths = np.linalg.norm(SentenceEncoder.load(tmp_path).encode(TEXTS), axis=1)
        assert np.allclose(lengths, 1) is normalize
