"""Halved encoders: half the bytes, nearly the same embeddings, and the one given is left alone."""

import json

import numpy as np
import torch
from safetensors.torch import load_file

from juzhen.encoders import load_encoder
from tools.halve import main, save_halved

TEXTS = ["今天天气很好", "你好吗", "我们在中国"]


def embeddings(encoder):
    return encoder.encode(TEXTS, batch_tokens=100, show_progress=False)


def test_half_the_bytes_and_nearly_the_same_embeddings(bert_folder, load, tmp_path, capsys):
    encoder = load(bert_folder)
    assert main([str(bert_folder), str(tmp_path / "half"), "--name", "small"]) == 0
    weights = load_file(tmp_path / "half" / "model.safetensors")
    assert {weight.dtype for weight in weights.values()} == {torch.float16}
    again = load_encoder(tmp_path / "half")
    assert {weight.dtype for weight in again.parameters()} == {torch.float32}
    np.testing.assert_allclose(embeddings(again), embeddings(encoder), atol=1e-2)
    assert not np.array_equal(embeddings(again), embeddings(encoder))
    assert "moved by at most" in capsys.readouterr().out
    # sentence-transformers would else compute in the precision of the file.
    about = json.loads((tmp_path / "half" / "sentence_bert_config.json").read_text())
    assert about["model_args"] == {"torch_dtype": "float32"}
    assert (tmp_path / "half" / "README.md").read_text(encoding="utf-8").count("# small") == 1


def test_the_one_given_is_left_alone(bert_folder, load, tmp_path):
    encoder = load(bert_folder)
    save_halved(encoder, tmp_path / "half", card={"name": "x"})
    assert {weight.dtype for weight in encoder.parameters()} == {torch.float32}
