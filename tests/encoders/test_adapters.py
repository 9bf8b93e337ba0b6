"""Adapters: they change nothing at first, learn alone, are saved alone, and merge into the same embeddings."""

import json

import numpy as np
import pytest
import torch
from decoders import write
from families import TOKENS, config_of, made

from juzhen.encoders import CrossEncoder, SentenceEncoder, load_backbone, save_encoder
from juzhen.encoders.backbone_config import AdapterConfig, BackboneConfig
from juzhen.encoders.base_weights import base_weights, has_adapter, merged, parameter_counts
from juzhen.export import export_encoder
from juzhen.export.formats import Format
from juzhen.merging.merge import Models
from juzhen.training.fit import fit
from tools.build_vocabulary import tokenizer, tokenizer_config

pytest.importorskip("peft")

TEXTS = ["今天天气很好", "ab cd", "我"]
KINDS = ["lora", "dora"]


@pytest.fixture(autouse=True)
def drawn_alike():
    """Weights and dropout of each test are those of seed 0: how far rounding goes depends on them."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def with_adapter(folder, seed=3, *, learns=True, **settings):
    """An encoder whose adapter has learnt something, in evaluation mode."""
    config = {"rank": 4} | settings
    backbone = BackboneConfig(path=str(folder), adapter=AdapterConfig(**config))
    encoder = load_backbone(backbone, seed=seed)
    if learns:
        learn(encoder)
    return encoder.eval()


def learn(encoder, steps=3):
    encoder.train()
    optimizer = torch.optim.SGD([values for values in encoder.parameters() if values.requires_grad], lr=0.5)
    for _ in range(steps):
        vectors = encoder(encoder.collate(encoder.tokenize(TEXTS)))
        torch.nn.functional.normalize(vectors).std(dim=0).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def assert_close(found, expected, tolerance=1e-6):
    """Relative to the length of the rows."""
    scale = np.linalg.norm(expected, axis=-1).max()
    np.testing.assert_allclose(found / scale, expected / scale, rtol=0, atol=tolerance)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sampled(3)
def test_it_starts_as_the_base_learns_alone_and_merges(any_folder, tmp_path, kind):
    plain = SentenceEncoder.load(any_folder).encode(TEXTS)
    new = with_adapter(any_folder, kind=kind, learns=False)
    assert_close(new.encode(TEXTS), plain)
    encoder = with_adapter(any_folder, kind=kind)
    vectors = encoder.encode(TEXTS)
    assert np.abs(vectors - plain).max() > 1e-3
    for name, values in base_weights(encoder.backbone):
        stored = dict(base_weights(new.backbone))[name]
        assert torch.equal(values, stored), name
    whole = merged(encoder)
    assert not has_adapter(whole.backbone)
    assert_close(whole.encode(TEXTS), vectors)
    assert whole.backbone.state_dict().keys() == SentenceEncoder.load(any_folder).backbone.state_dict().keys()
    counts = parameter_counts(encoder.parameters())
    assert 0 < counts["learnt"] < counts["all"] / 3
    folder = save_encoder(encoder, tmp_path / "adapter", card={})
    assert not (folder / "model.safetensors").exists()
    assert (folder / "adapter_model.safetensors").stat().st_size < 40_000
    assert np.array_equal(SentenceEncoder.load(folder).encode(TEXTS), vectors)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sampled(2)
def test_peft_reads_the_folder(bert_folder, tmp_path, kind):
    from peft import PeftModel
    from transformers import AutoModel

    encoder = with_adapter(bert_folder, kind=kind)
    folder = save_encoder(encoder, tmp_path / "adapter", card={})
    theirs = PeftModel.from_pretrained(AutoModel.from_pretrained(bert_folder), folder).eval()
    ids = torch.from_numpy(encoder.tokenize(TEXTS[:1])[0].astype(np.int64))[None]
    states = theirs(input_ids=ids).last_hidden_state.mean(dim=1)
    assert_close(states.detach().numpy(), encoder.encode(TEXTS[:1]), 1e-5)


def test_sentence_transformers_reads_it(bert_folder, tmp_path):
    theirs = pytest.importorskip("sentence_transformers")
    encoder = with_adapter(bert_folder)
    folder = save_encoder(encoder, tmp_path / "adapter", card={})
    vectors = theirs.SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
    assert_close(vectors, encoder.encode(TEXTS), 1e-5)


FAMILIES = [
    "distilbert",
    "electra",
    "albert",
    "mpnet",
    "deberta-v2",
    "modernbert",
    "qwen3",
    "llama",
    "gpt2",
    "t5",
]


CASES = [(family, "mean") for family in FAMILIES]
CASES += [
    (family, pooling) for family in ("distilbert", "modernbert") for pooling in ("cls", "max", "first_last")
]


@pytest.mark.parametrize(("family", "pooling"), CASES)
@pytest.mark.sampled(3)
def test_families_and_poolings(tmp_path, family, pooling):
    folder = tmp_path / family
    folder.mkdir()
    made(config_of(family)).save_pretrained(folder)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(TOKENS)), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_config()), encoding="utf-8")
    config = BackboneConfig(path=str(folder), pooling=pooling, max_length=32, adapter=AdapterConfig(rank=2))
    encoder = load_backbone(config, seed=0)
    plain = encoder.eval().encode(TEXTS)
    learn(encoder)
    vectors = encoder.eval().encode(TEXTS)
    assert np.abs(vectors - plain).max() > 1e-5
    names = {name for name, values in encoder.named_parameters() if values.requires_grad}
    assert all("lora_" in name and ("att" in name.lower() or family in ("t5",)) for name in names), names
    assert_close(merged(encoder).encode(TEXTS), vectors, 3e-6)
    saved = save_encoder(encoder, tmp_path / "adapter", card={})
    assert np.array_equal(SentenceEncoder.load(saved).encode(TEXTS), vectors)


def test_a_cross_encoder_keeps_its_head_beside(bert_folder, tmp_path):
    encoder = with_adapter(bert_folder)
    pairs = CrossEncoder(encoder, outputs=1, segments=True, symmetric=False, seed=0).eval()
    folder = save_encoder(pairs, tmp_path / "pairs", card={})
    assert not (folder / "model.safetensors").exists()
    loaded = CrossEncoder.load(folder)
    scores = pairs.score([("今天", "天气"), ("我", "你")])
    assert np.array_equal(loaded.score([("今天", "天气"), ("我", "你")]), scores)
    np.testing.assert_allclose(merged(loaded).score([("今天", "天气"), ("我", "你")]), scores, atol=1e-6)
    theirs = pytest.importorskip("sentence_transformers").CrossEncoder(str(folder), device="cpu")
    np.testing.assert_allclose(theirs.predict([("今天", "天气"), ("我", "你")]), scores, atol=1e-5)


def test_adapters_of_one_base_share_its_weights(bert_folder, tmp_path):
    encoders = []
    for seed in (1, 2):
        folder = save_encoder(with_adapter(bert_folder, seed), tmp_path / str(seed), card={})
        encoders.append((SentenceEncoder.load(folder), folder))
    (first, _), (second, folder) = encoders
    pointers = [{values.data_ptr() for _, values in base_weights(one.backbone)} for one, _ in encoders]
    assert pointers[0] == pointers[1]
    before, other = first.encode(TEXTS), second.encode(TEXTS)
    assert np.abs(before - other).max() > 1e-3
    merged(second)  # a copy: neither of the two has changed
    learn(second)
    assert np.array_equal(first.encode(TEXTS), before)
    assert np.array_equal(SentenceEncoder.load(folder).encode(TEXTS), other)


def test_fewer_layers_and_a_base_in_half_precision(bert_folder, tmp_path, load):
    encoder = load(bert_folder, layers=1, adapter=AdapterConfig(rank=2, base="bfloat16"))
    assert {values.dtype for _, values in base_weights(encoder.backbone)} == {torch.bfloat16}
    learn(encoder)
    vectors = encoder.eval().encode(TEXTS)
    folder = save_encoder(encoder, tmp_path / "adapter", card={})
    assert np.array_equal(SentenceEncoder.load(folder).encode(TEXTS), vectors)
    assert json.loads((folder / "modules.json").read_text())[0]["type"] == "juzhen.SentenceEncoder"


def test_settings_that_import_code_are_not_read(bert_folder, tmp_path):
    folder = save_encoder(with_adapter(bert_folder), tmp_path / "adapter", card={})
    settings = json.loads((folder / "adapter_config.json").read_text())
    vectors = SentenceEncoder.load(folder).encode(TEXTS)
    settings |= {
        "megatron_config": {},
        "megatron_core": "antigravity",
        "auto_mapping": {"parent_library": "this"},
    }
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    assert np.array_equal(SentenceEncoder.load(folder).encode(TEXTS), vectors)


@pytest.mark.slow
def test_exports_hold_the_merged_weights(bert_folder, tmp_path):
    encoder = with_adapter(bert_folder)
    proof = export_encoder(encoder, tmp_path / "whole", Format.SENTENCE_TRANSFORMERS, limit=8)
    assert not proof.fault()
    loaded = SentenceEncoder.load(tmp_path / "whole")
    assert not has_adapter(loaded.backbone)
    vectors = encoder.encode(TEXTS)
    assert_close(loaded.encode(TEXTS), vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    assert has_adapter(encoder.backbone)


def test_runs_with_adapters_are_merged_by_what_they_compute(bert_folder):
    first, second = with_adapter(bert_folder, 1), with_adapter(bert_folder, 2)
    whole = Models([first, second], ["first", "second"]).merge(
        "linear", [0.5, 0.5], density=1.0, scale=1.0, seed=0
    )
    weights = [merged(encoder).state_dict() for encoder in (first, second)]
    for name, values in whole.state_dict().items():
        if values.is_floating_point():
            torch.testing.assert_close(values, (weights[0][name] + weights[1][name]) / 2)


def test_fit_teaches_an_adapter(bert_folder, tmp_path):
    rows = [("今天天气很好", "今天天气好", 1), ("今天天气很好", "我你他们", 0)] * 4
    encoder = fit(str(bert_folder), rows, epochs=2, batch_size=4, learning_rate=1e-2, adapter="lora")
    assert has_adapter(encoder.backbone)
    again = SentenceEncoder.load(encoder.save(tmp_path / "adapter"))
    assert np.array_equal(again.encode(TEXTS), encoder.encode(TEXTS))
    assert np.abs(again.encode(TEXTS) - SentenceEncoder.load(bert_folder).encode(TEXTS)).max() > 1e-4


def test_an_adapter_of_a_decoder_keeps_the_attention_that_it_was_trained_with(tmp_path):
    base = write("qwen3", tmp_path / "base")
    config = BackboneConfig(
        path=str(base), pooling="last", attention="bidirectional", adapter=AdapterConfig(rank=4)
    )
    encoder = load_backbone(config, seed=0)
    learn(encoder)
    vectors = encoder.eval().encode(TEXTS)
    folder = save_encoder(encoder, tmp_path / "adapter", card={})
    assert np.array_equal(SentenceEncoder.load(folder).encode(TEXTS), vectors)
    assert_close(merged(encoder).encode(TEXTS), vectors)
    causal = load_backbone(BackboneConfig(path=str(folder), attention="causal"), seed=0).eval()
    assert np.abs(causal.encode(TEXTS) - vectors).max() > 1e-3
    again = save_encoder(causal, tmp_path / "causal", card={})
    assert np.array_equal(SentenceEncoder.load(again).encode(TEXTS), causal.encode(TEXTS))
