"""Decoders and rotary encoders: packed, padded, alone and by sentence-transformers they are the same numbers."""

import json

import decoders
import numpy as np
import pytest
import torch
from decoders import BERTS, DECODERS, ENCODERS, PADDED

from juzhen.backends import open_backend
from juzhen.encoders import SentenceEncoder, load_backbone, save_encoder
from juzhen.encoders.backbone import looks_ahead
from juzhen.encoders.backbone_config import BackboneConfig

TEXTS = [
    "我",
    "今天天气很好 ab cd",
    "a dog runs through the tall grass near a river",
    "今天 天气" * 12,
    "x y z",
    "his long text is cut since it has more than it may have" * 3,
]
ALL = (*DECODERS, *ENCODERS, *BERTS, *PADDED)


def load(folder, **settings):
    settings = {"initialize": "pretrained"} | settings
    return load_backbone(BackboneConfig(path=str(folder), **settings), seed=0).eval()


def near(values, expected, most=1e-5):
    """As a share of the longest row: these embeddings are not of length 1."""
    values, expected = np.asarray(values), np.asarray(expected)
    assert np.isfinite(values).all()
    assert np.abs(values - expected).max() <= most * max(1.0, np.linalg.norm(expected, axis=-1).max())


def pooling_of(family):
    return "last" if family in (*DECODERS, "gpt2", "gemma2") else "mean"


def alone(folder, texts, pooling):
    """What transformers gives for each text by itself, with its own attention."""
    from transformers import AutoModel, AutoTokenizer

    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows = []
    for text in texts:
        inputs = tokenizer(text, return_tensors="pt", truncation=True, max_length=64)
        with torch.no_grad():
            states = model(**inputs).last_hidden_state[0]
        rows.append(states[-1] if pooling == "last" else states.mean(0))
    return torch.stack(rows).numpy()


@pytest.mark.parametrize("family", ALL)
@pytest.mark.sampled(4)
def test_an_encoder_gives_what_transformers_gives_for_each_text_alone(family, tmp_path):
    folder = decoders.write(family, tmp_path / "m")
    encoder = load(folder, pooling=pooling_of(family))
    assert encoder._packs == (family not in PADDED)
    expected = alone(folder, TEXTS, encoder.pooling)
    near(encoder.encode(TEXTS), expected)
    near([encoder.encode(text) for text in TEXTS], expected)
    near(encoder.encode(TEXTS * 11)[-len(TEXTS) :], expected)


def outcome(encoder, texts):
    """Embeddings, and gradients of all weights for a sum that weighs them."""
    direction = torch.randn(
        len(texts), encoder.dim, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    encoder.zero_grad()
    embeddings = encoder(encoder.collate(encoder.tokenize(texts)))
    (embeddings * direction).sum().backward()
    gradients = [torch.zeros(1) if one.grad is None else one.grad.flatten() for one in encoder.parameters()]
    return embeddings.detach(), torch.cat(gradients)


@pytest.mark.slow
@pytest.mark.parametrize("attention", [None, "bidirectional"])
@pytest.mark.parametrize("family", ALL)
def test_an_exported_graph_gives_the_same(family, attention, tmp_path):
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package)
    if attention and family not in DECODERS:
        pytest.skip("it looks both ways")
    folder = decoders.write(family, tmp_path / "m")
    encoder = load(folder, pooling=pooling_of(family), attention=attention)
    backend, expected = open_backend(encoder, "onnx"), encoder.encode(TEXTS)
    near(encoder.encode(TEXTS, backend=backend), expected)
    near([encoder.encode(text, backend=backend) for text in TEXTS], expected)


@pytest.mark.parametrize("attention", [None, "bidirectional"])
@pytest.mark.parametrize("family", [*DECODERS, *ENCODERS])
@pytest.mark.sampled(5)
def test_packed_equals_padded_with_gradients(family, attention, tmp_path):
    if attention and family not in DECODERS:
        pytest.skip("it looks both ways")
    encoder = load(
        decoders.write(family, tmp_path / "m"), pooling=pooling_of(family), attention=attention
    ).double()
    packed = outcome(encoder, TEXTS)
    encoder._packs = False
    encoder.backbone.set_attn_implementation("sdpa")
    for values, expected in zip(packed, outcome(encoder, TEXTS), strict=True):
        assert (values - expected).norm() <= 1e-6 * expected.norm()  # pooling is in float32 by design


@pytest.mark.parametrize("family", [*DECODERS, "modernbert"])
@pytest.mark.sampled(3)
def test_dropped_attention_and_bf16_see_the_same_tokens(family, tmp_path):
    """Plain products take the place of the fused kernel where a CPU has none."""
    encoder = load(decoders.write(family, tmp_path / "m"), pooling=pooling_of(family))
    expected, _ = outcome(encoder, TEXTS)
    encoder.bfloat16()
    rounded, _ = outcome(encoder, TEXTS)
    cosines = torch.nn.functional.cosine_similarity(rounded, expected)
    assert cosines.min() > 0.98


@pytest.mark.oracle
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("family", ALL)
def test_sentence_transformers_reads_and_writes_the_same(family, side, tmp_path):
    theirs = pytest.importorskip("sentence_transformers", minversion="6")
    from sentence_transformers.sentence_transformer import modules

    if side == "left" and family in (
        *BERTS,
        "electra",
        "albert",
        "deberta-v2",
        "mpnet",
        "distilbert",
        "gpt2",
    ):
        pytest.skip("counts learnt positions from the padding")
    folder = decoders.write(family, tmp_path / "m", side=side)
    mode = "lasttoken" if pooling_of(family) == "last" else "mean"
    parts = [modules.Transformer(str(folder)), modules.Pooling(32, mode), modules.Normalize()]
    prompts = {"query": "a dog: ", "document": ""}
    model = theirs.SentenceTransformer(modules=parts, prompts=prompts, device="cpu")
    model.save(str(tmp_path / "theirs"))
    encoder = SentenceEncoder.load(tmp_path / "theirs")
    assert (encoder.pooling, encoder.normalize) == (pooling_of(family), True)
    saved = save_encoder(encoder, tmp_path / "ours", card={})
    again = theirs.SentenceTransformer(str(saved), device="cpu")
    for options in ({}, {"prompt_name": "query"}):
        expected = model.encode(TEXTS, batch_size=64, **options)
        near(encoder.encode(TEXTS, **options), expected)
        near(again.encode(TEXTS, batch_size=1, **options), expected)
        near(again.encode(TEXTS * 11, batch_size=64, **options)[-len(TEXTS) :], expected)


BEGINS = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [
        {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"Sequence": {"id": "B", "type_id": 0}},
    ],
    "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]}},
}
"""Llama's tokenizer.json: a token before each text, none behind it."""


@pytest.mark.parametrize("says", [True, False, None])
@pytest.mark.parametrize("ends", ["template", "none", "begins"])
@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama", "mistral"])
@pytest.mark.sampled(9)
def test_the_end_token_stands_once_where_the_folder_says_so(family, ends, says, tmp_path):
    folder, end = decoders.write(family, tmp_path / "m"), decoders.VOCABULARY.index(decoders.END)
    settings = {} if says is None else {"add_eos_token": says}
    decoders.write_tokenizer(folder, ends="none" if ends == "begins" else ends, **settings)
    if ends == "begins":
        content = json.loads((folder / "tokenizer.json").read_text())
        (folder / "tokenizer.json").write_text(json.dumps(content | {"post_processor": BEGINS}))
    encoder = load(folder, pooling="last", max_length=8)
    expected = int(says is True or ends == "template")
    has_any = expected or ends == "begins"  # without a token of its own an empty text is refused
    texts = ["x", "a dog runs through", *([""] if has_any else [])]
    rows = [row.tolist() for row in encoder.tokenize(texts)]
    assert [row.count(end) for row in rows] == [expected] * len(texts)
    assert all(row[-1] == end for row in rows if expected)
    assert [row.count(2) for row in rows] == [int(ends == "begins")] * len(texts)
    assert len(rows[1]) == 8, "the end token outlives the cut"
    again = SentenceEncoder.load(save_encoder(encoder, tmp_path / "saved", card={}))
    assert [row.tolist() for row in again.tokenize(texts)] == rows
    assert again.encode(texts[:2]).tobytes() == encoder.encode(texts[:2]).tobytes()


def test_a_tokenizer_without_end_and_padding_works(tmp_path):
    folder = decoders.write("llama", tmp_path / "m", ends="none")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    for name in ("eos_token", "pad_token"):
        del settings[name]
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    encoder = load(folder, pooling="last")
    assert (encoder.tokenizer.eos_token, encoder.tokenizer.pad_token) == (None, None)
    near(encoder.encode(TEXTS), [encoder.encode(text) for text in TEXTS])


@pytest.mark.oracle
@pytest.mark.parametrize("attention", ["causal", "bidirectional"])
@pytest.mark.parametrize("family", [*DECODERS, "gemma2"])
def test_the_choice_of_attention_is_saved_and_read_elsewhere(family, attention, tmp_path):
    theirs = pytest.importorskip("sentence_transformers", minversion="6")
    folder = decoders.write(family, tmp_path / "m")
    encoder, as_built = load(folder, pooling="mean", attention=attention), load(folder, pooling="mean")
    expected = encoder.encode(TEXTS)
    assert (np.abs(expected - as_built.encode(TEXTS)).max() < 1e-5) == (attention == "causal")
    saved = save_encoder(encoder, tmp_path / "saved", card={})
    assert SentenceEncoder.load(saved).encode(TEXTS).tobytes() == expected.tobytes()
    near(theirs.SentenceTransformer(str(saved), device="cpu").encode(TEXTS, batch_size=2), expected)
    back = load(saved, attention="causal")
    near(back.encode(TEXTS), as_built.encode(TEXTS))


@pytest.mark.oracle
def test_an_encoder_like_embedding_gemma(tmp_path):
    theirs = pytest.importorskip("sentence_transformers", minversion="6")
    from sentence_transformers.sentence_transformer import modules

    folder = decoders.write("gemma3_text", tmp_path / "m", use_bidirectional_attention=True, sliding_window=6)
    layers = [modules.Dense(32, 96, bias=False, activation_function=None), modules.Dense(96, 32, bias=False)]
    parts = [modules.Transformer(str(folder)), modules.Pooling(32, "mean"), *layers, modules.Normalize()]
    prompts = {"query": "task: search result | query: ", "document": "title: none | text: "}
    model = theirs.SentenceTransformer(modules=parts, prompts=prompts, device="cpu")
    model.save(str(tmp_path / "theirs"))
    encoder = SentenceEncoder.load(tmp_path / "theirs")
    assert encoder._packs
    assert looks_ahead(encoder.backbone.config)
    near(encoder.encode_query(TEXTS), model.encode_query(TEXTS))
    near(encoder.encode_document(TEXTS), model.encode_document(TEXTS))
    saved = save_encoder(encoder, tmp_path / "ours", card={})
    assert json.loads((saved / "config.json").read_text())["sliding_window"] == 6
    near(theirs.SentenceTransformer(str(saved), device="cpu").encode_query(TEXTS), model.encode_query(TEXTS))
    causal = load(saved, attention="causal")
    assert not looks_ahead(causal.backbone.config)
    again = SentenceEncoder.load(save_encoder(causal, tmp_path / "causal", card={}))
    near(again.encode(TEXTS), causal.encode(TEXTS))


def test_what_a_user_should_hear_is_said_once(tmp_path):
    folder = decoders.write("qwen3", tmp_path / "m", ends="none")
    (plain, end) = load(folder, pooling="last").load_warnings, load(folder).load_warnings
    assert len(plain) == len(end) == 1
    assert "add_eos_token" in plain[0]
    assert end[0].startswith("pooling=mean: the folder names none, and qwen3 looks to the left")
    encoder = load(folder, pooling="mean", attention="bidirectional")
    assert encoder.load_warnings == (
        "attention=bidirectional: the weights have learnt the other one; they need training",
    )
    saved = save_encoder(encoder, tmp_path / "saved", card={})
    assert "bidirectional" in (saved / "README.md").read_text()
    assert load(saved).load_warnings == ()
    assert (
        load(saved, pooling="cls")
        .load_warnings[0]
        .startswith("pooling=cls: this encoder was trained with mean")
    )
    default, line = load(decoders.write("mpnet", tmp_path / "mpnet")).load_warnings
    assert default.startswith("pooling=mean")
    assert line.startswith("sentences are padded to the longest beside them: mpnet is not among")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"auto_map": {"AutoModel": "modeling.Model"}}))
    assert "brings code of its own, which is not run: qwen3" in load(folder, pooling="mean").load_warnings[0]


@pytest.mark.parametrize(
    ("rotation", "limit"),
    [
        ({"rope_type": "default"}, 40),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 40}, 160),
        ({"rope_type": "dynamic", "factor": 4.0}, 40),
    ],
)
def test_no_text_is_longer_than_the_positions_reach(rotation, limit, tmp_path):
    folder = decoders.write("qwen3", tmp_path / "m", max_position_embeddings=40)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps(config | {"rope_parameters": rotation | {"rope_theta": 1e4}})
    )
    assert load(folder, pooling="last", max_length=limit)._packs == (rotation["rope_type"] != "dynamic")


@pytest.mark.parametrize("layers", [1, 3])
def test_a_random_decoder_of_other_layers_is_saved_and_loaded(layers, tmp_path):
    folder = decoders.write("qwen2", tmp_path / "m")  # which names the kind of each layer
    encoder = load(folder, initialize="random", layers=layers, pooling="last")
    again = SentenceEncoder.load(save_encoder(encoder, tmp_path / "saved", card={}))
    assert again.backbone.config.num_hidden_layers == layers
    near(again.encode(TEXTS), encoder.encode(TEXTS))
