"""An export computes what its encoder does, or is not written; other programs open it as its card says."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from jobs import tiny_encoder
from safetensors.numpy import load_file, save_file

from juzhen import CrossEncoder, SentenceEncoder
from juzhen.cli.main import main
from juzhen.core.errors import UserError
from juzhen.data.spec import configured_set
from juzhen.encoders import save_encoder
from juzhen.encoders.pooling import unit
from juzhen.export import folder as folder_module
from juzhen.export.folder import RARITY, export_encoder, token_vectors
from juzhen.export.formats import PARITY, Format
from juzhen.export.loaders import Graph, open_export
from juzhen.export.verification import Correlation, ExportReport, proof_texts

TEXTS = ["今天天气很好", "今天是个好天气", "怎么还花呗"]
SETS = [configured_set("demo_sts")]


@pytest.fixture(scope="module")
def encoder(tiny_backbone):
    encoder = tiny_encoder(tiny_backbone).eval()
    encoder.prompts, encoder.default_prompt_name = {"query": "问题：", "passage": "段落："}, "query"
    return encoder


@pytest.fixture(scope="module")
def judge(tiny_backbone):
    inner = tiny_encoder(tiny_backbone)
    return CrossEncoder(inner, outputs=3, segments=False, symmetric=False, seed=0).eval()


def test_a_cut_encoder_as_a_folder_of_sentence_transformers(encoder, tmp_path):
    proof = export_encoder(
        encoder, tmp_path / "out", Format.SENTENCE_TRANSFORMERS, dim=8, sets=SETS, limit=30
    )
    assert proof.fault() is None
    assert {"batches of 1", "batches of 64", "special tokens"} == proof.differences.keys()
    assert max(proof.differences.values()) < 1e-6
    assert proof.correlations["demo_sts"].loss == pytest.approx(0, abs=1e-3)
    again = SentenceEncoder.load(tmp_path / "out")
    np.testing.assert_allclose(again.encode(TEXTS), unit(encoder.encode(TEXTS)[:, :8]), atol=1e-6)
    assert json.loads((tmp_path / "out" / PARITY).read_text())["format"] == "sentence-transformers"
    assert "## Parity" in (tmp_path / "out" / "README.md").read_text()


def test_lengths_of_a_proof_go_from_one_token_to_more_than_is_read(encoder):
    lengths = encoder.tokenize(proof_texts(encoder)).lengths
    least = encoder.with_prompt(prompt="").tokenize(["今"]).lengths[0]
    assert lengths.min() <= least + encoder.tokenize(["今"]).lengths[0]
    assert lengths.max() == encoder.max_length


PROOF = ExportReport(Format.ONNX, "onnxruntime", (3, 9), 2, {"batches of 1": 9e-6}, "text", {}, {})


def test_what_a_format_promises():
    assert PROOF.fault() is None
    assert "by 2.0e-05" in replace(PROOF, differences={"a": 2e-5, "b": 0.0}).fault()
    assert "differs" in replace(PROOF, differences={"a": float("nan")}).fault()
    losses = {"near": Correlation(9, 80.0, 79.71), "far": Correlation(9, 80.0, 79.69)}
    eight = replace(PROOF, format=Format.ONNX_INT8, differences={"a": 0.1}, correlations=losses)
    assert "loses 0.31 points of Spearman on far" in eight.fault()
    assert replace(eight, correlations={"near": losses["near"]}).fault() is None
    assert replace(eight, format=Format.STATIC).fault() is None


def test_beyond_the_bound_it_is_written_where_that_is_told(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(
        folder_module,
        "prove",
        lambda *given, **options: replace(PROOF, differences={"a": 1.0}, speed={"before": 1, "after": 1}),
    )
    export_encoder(encoder, tmp_path / "out", Format.SENTENCE_TRANSFORMERS, allow_difference=True)
    assert (tmp_path / "out" / PARITY).is_file()


def test_a_cross_encoder_as_a_folder_of_sentence_transformers(judge, tmp_path):
    proof = export_encoder(judge, tmp_path / "out", Format.SENTENCE_TRANSFORMERS)
    assert max(proof.differences.values()) < 1e-6


def test_a_table_of_tokens_is_read_by_all_who_know_it(encoder, tmp_path):
    static = pytest.importorskip("model2vec").StaticModel
    theirs = pytest.importorskip("sentence_transformers").SentenceTransformer
    proof = export_encoder(encoder, tmp_path / "out", Format.STATIC, dim=6, sets=SETS, limit=30)
    assert proof.correlations["demo_sts"].before != proof.correlations["demo_sts"].after
    vectors = static.from_pretrained(tmp_path / "out", force_download=False).encode(TEXTS)
    np.testing.assert_allclose(vectors, theirs(str(tmp_path / "out"), device="cpu").encode(TEXTS), atol=1e-5)
    table = load_file(tmp_path / "out" / "model.safetensors")["embeddings"]
    ids = encoder.tokenizer(TEXTS[0], add_special_tokens=False)["input_ids"]
    np.testing.assert_allclose(vectors[0], unit(table[ids].mean(0, keepdims=True))[0], atol=1e-5)


def test_rare_tokens_weigh_more_and_special_ones_nothing(encoder):
    size = encoder.tokenizer.backend_tokenizer.get_vocab_size()
    table = token_vectors(encoder, size, 4)
    assert not table[encoder.tokenizer.all_special_ids].any()
    # What stands before the weights are taken has uncorrelated columns of mean 0.
    share = 1 / np.arange(1, size + 1)
    plain = np.setdiff1d(np.arange(size), encoder.tokenizer.all_special_ids)
    turned = (table / (RARITY / (RARITY + share / share.sum()))[:, None])[plain]
    np.testing.assert_allclose(turned.mean(0), 0, atol=1e-4)
    products = np.corrcoef(turned.T) - np.eye(4)
    np.testing.assert_allclose(products, 0, atol=1e-3)


def run_card(folder, names):
    """What the program in a card computes."""
    (code,) = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), flags=re.DOTALL)
    assert code.count("\n") <= 16
    space = {}
    exec(code.replace("<this folder>", str(folder)), space)
    return space[names]


@pytest.mark.slow
@pytest.mark.parametrize("format", ["onnx", "onnx-int8", "openvino", "openvino-int8"])
def test_the_program_of_a_card_gives_the_embeddings(encoder, tmp_path, format):
    needs(format)
    format = Format(format)
    options = {"dim": 16, "sets": SETS, "limit": 100, "allow_difference": format.is_quantised}
    proof = export_encoder(encoder, tmp_path / "out", format, **options)
    assert format.is_quantised or proof.fault() is None
    expected = unit(encoder.encode(TEXTS[:2])[:, :16])
    found = run_card(tmp_path / "out", "embeddings")
    np.testing.assert_allclose(found, expected, atol=0.1 if format.is_quantised else 1e-5)
    opened = Graph(tmp_path / "out")
    np.testing.assert_allclose(opened.encode(TEXTS[:2], batch_size=1), found, atol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("format", ["onnx", "openvino"])
def test_the_graph_of_a_cross_encoder_gives_its_scores(judge, tmp_path, format):
    needs(format)
    proof = export_encoder(judge, tmp_path / "out", Format(format), sets=SETS, limit=40)
    assert proof.fault() is None
    found = run_card(tmp_path / "out", "scores")
    np.testing.assert_allclose(found, judge.score([tuple(TEXTS[:2])]), atol=1e-5)


def needs(format):
    for package in ("onnx", "onnxscript", "onnxruntime", *(["openvino"] if "openvino" in format else [])):
        pytest.importorskip(package)
    if format == "openvino-int8":
        pytest.importorskip("nncf")


def test_verbs_write_and_list(encoder, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    save_encoder(encoder, tmp_path / "encoder", card={})
    words = ["--format", "sentence-transformers", "--limit", "20"]
    assert main(["export", str(tmp_path / "encoder"), str(tmp_path / "out"), *words]) == 0
    assert "largest difference, batches of 64" in capsys.readouterr().out
    for folder, file in (("encoder", "config.json"), ("out", PARITY)):
        assert main(["push", str(tmp_path / folder), "me/faq"]) == 0
        told = capsys.readouterr().out
        assert f"  {file}\n" in told
        assert "nothing was uploaded to me/faq: no token of the hub" in told
    assert open_export(tmp_path / "out").encode(TEXTS).shape == (3, encoder.dim)
    weights = load_file(tmp_path / "out" / "model.safetensors")
    weights[max(name for name in weights if name.endswith("LayerNorm.weight"))][:] = 3e38  # finite
    save_file(weights, tmp_path / "out" / "model.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match="NaN"):
        open_export(tmp_path / "out").encode(TEXTS)
