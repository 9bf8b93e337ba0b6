"""What is saved here, sentence-transformers computes or refuses; what it saves is computed here or refused."""

from pathlib import Path

import families
import numpy as np
import pytest
import torch

from juzhen.core.errors import UserError
from juzhen.encoders import CrossEncoder, SentenceEncoder, load_backbone, save_encoder
from juzhen.encoders.backbone_config import BackboneConfig
from juzhen.encoders.components import embedding_size
from juzhen.encoders.projection import BilinearScore

pytestmark = pytest.mark.oracle
TEXTS = ["今天天气很好 ab cd", "我", "a dog runs through the tall grass", "x y z"]
PAIRS = [(TEXTS[0], TEXTS[1]), (TEXTS[2], TEXTS[3]), (TEXTS[3], TEXTS[0])]
MARKED = ("bert", "albert", "deberta-v2", "electra", "nomic_bert")
"""Families whose own tokenizers mark the second sentence."""


@pytest.fixture(scope="module")
def theirs():
    return pytest.importorskip("sentence_transformers", minversion="6")


@pytest.fixture(scope="module")
def parts(theirs):
    from sentence_transformers.sentence_transformer import modules

    return modules


def written(family, folder) -> Path:
    folder.mkdir()
    return families.write(family, folder, families.build(family), segments=family in MARKED)


def near(found, expected, most=1e-6):
    """Relative to the largest number: these embeddings are not of length 1."""
    assert np.abs(found - expected).max() <= most * np.abs(expected).max()


@pytest.mark.parametrize(
    "family", ["bert", "roberta", "distilbert", "gpt2", "modernbert", "t5", "deberta-v2"]
)
def test_they_read_first_last(theirs, family, tmp_path):
    config = BackboneConfig(
        path=str(written(family, tmp_path / "m")),
        initialize="pretrained",
        pooling="first_last",
        layer_norm=True,
    )
    encoder = load_backbone(config, seed=0).eval()
    folder = save_encoder(encoder, tmp_path / "saved", card={})
    expected = encoder.encode(TEXTS)
    near(theirs.SentenceTransformer(str(folder), device="cpu").encode(TEXTS), expected)
    again = SentenceEncoder.load(folder)
    assert again.pooling == "first_last"
    assert again.encode(TEXTS).tobytes() == expected.tobytes()


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize("segments", [True, False])
@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "gpt2"])
def test_they_read_a_cross_encoder(theirs, family, segments, pooling, tmp_path):
    inner = SentenceEncoder.load(written(family, tmp_path / "m"))
    inner.pooling = pooling
    for outputs in (1, 3):
        encoder = CrossEncoder(inner, outputs=outputs, segments=segments, symmetric=False, seed=1).eval()
        folder = save_encoder(encoder, tmp_path / f"saved{outputs}", card={})
        logits = encoder.logits(*zip(*PAIRS, strict=True)).squeeze()
        near(theirs.CrossEncoder(str(folder), device="cpu").predict(PAIRS), logits)
        assert (
            CrossEncoder.load(folder).logits(*zip(*PAIRS, strict=True)).squeeze().tobytes()
            == logits.tobytes()
        )


def test_what_they_cannot_compute_does_not_open(theirs, tmp_path):
    source = written("bert", tmp_path / "m")
    bilinear = SentenceEncoder.load(source)
    bilinear.score_head = BilinearScore(bilinear.dim)
    folder = save_encoder(bilinear, tmp_path / "bilinear", card={})
    with pytest.raises(ValueError, match=r"juzhen\.SentenceEncoder"):
        theirs.SentenceTransformer(str(folder), device="cpu")
    both = CrossEncoder(SentenceEncoder.load(source), outputs=1, segments=True, symmetric=True, seed=0)
    folder = save_encoder(both.eval(), tmp_path / "symmetric", card={})
    with pytest.raises(ValueError, match=r"juzhen\.CrossEncoder"):
        theirs.CrossEncoder(str(folder), device="cpu")
    expected = both.score(PAIRS)
    assert CrossEncoder.load(folder).score(PAIRS).tobytes() == expected.tobytes()


def models(parts, path):
    """Name → modules, and a part of our refusal; None: ours gives the same."""

    def transformer(**options):
        return parts.Transformer(str(path), **options)

    def weighed(*weights, start=1, pooling="mean"):
        layers = parts.WeightedLayerPooling(
            32, 2, start, layer_weights=torch.nn.Parameter(torch.tensor(weights))
        )
        return [transformer(config_args={"output_hidden_states": True}), layers, parts.Pooling(32, pooling)]

    plain = [transformer(), parts.Pooling(32)]
    return {
        "residual": ([*plain, parts.Dense(32, 32, use_residual=True)], None),
        "projected residual": ([*plain, parts.Dense(32, 8, use_residual=True)], None),
        "dropout": ([*plain, parts.Dropout(0.5), parts.Dense(32, 8), parts.Normalize()], None),
        "layer norm": ([*plain, parts.LayerNorm(32)], None),
        "weightedmean": ([transformer(), parts.Pooling(32, "weightedmean")], None),
        "max": ([transformer(), parts.Pooling(32, "max")], None),
        "first and last": (weighed(2.0, 2.0), None),
        "last": (weighed(0.0, 0.0, 3.0, start=0), None),
        "all layers": (weighed(1.0, 1.0, 1.0, start=0), "first and the last, equal"),
        "layers at cls": (weighed(1.0, 1.0, pooling="cls"), "only the mean"),
        "lasttoken": ([transformer(), parts.Pooling(32, "lasttoken")], None),
        "two": ([transformer(), parts.Pooling(32, ("cls", "mean"))], r"pooling cls \+ mean"),
        "sqrt": ([transformer(), parts.Pooling(32, "mean_sqrt_len_tokens")], None),
        "late": ([*plain, parts.Normalize(), parts.Dense(32, 8)], None),
        "late norm": ([*plain, parts.Normalize(), parts.LayerNorm(32), parts.Normalize()], None),
        "twice": ([*plain, parts.Normalize(), parts.Normalize()], None),
        "again and again": (
            [*plain, *[parts.Normalize()] * 2, parts.Dense(32, 8), parts.Normalize(), parts.Dense(8, 4)],
            None,
        ),
        "nobody reads it": (
            [*plain, parts.Dense(32, 8, module_output_name="other"), parts.Normalize()],
            None,
        ),
        "read by its name": (
            [
                *plain,
                parts.Dense(32, 8, module_output_name="other"),
                parts.Normalize("missing"),
                parts.Normalize("other"),
                parts.Dense(8, 4, module_input_name="other", module_output_name="sentence_embedding"),
            ],
            None,
        ),
        "states": (
            [*plain, parts.Dense(32, 32, module_output_name="token_embeddings")],
            r"2_Dense/config\.json: module_output_name=token_embeddings.*Use",
        ),
        "states of length 1": (
            [*plain, parts.Normalize("token_embeddings")],
            r"2_Normalize/config\.json: module_input_name=token_embeddings.*Use",
        ),
        "pooled late": ([transformer(), parts.Normalize(), parts.Pooling(32)], "Pooling.*order.*Use"),
        "router": ([parts.Router.for_query_document(plain, plain)], None),
        "static": (
            [parts.StaticEmbedding(transformer().tokenizer, embedding_dim=8), parts.Dense(8, 4)],
            None,
        ),
    }


def test_we_read_their_modules(theirs, parts, tmp_path):
    for name, (modules, refusal) in models(parts, written("bert", tmp_path / "m")).items():
        model = theirs.SentenceTransformer(modules=modules, device="cpu")
        model.save(str(tmp_path / name))
        if refusal is None:
            encoder, expected = SentenceEncoder.load(tmp_path / name), model.encode(TEXTS)
            near(encoder.encode(TEXTS), expected)
            assert embedding_size(tmp_path / name) == expected.shape[1]
            again = save_encoder(encoder, tmp_path / f"{name} again", card={})
            near(theirs.SentenceTransformer(str(again), device="cpu").encode(TEXTS), expected)
            assert SentenceEncoder.load(again).encode(TEXTS).tobytes() == encoder.encode(TEXTS).tobytes()
        else:
            with pytest.raises(UserError, match=refusal):
                SentenceEncoder.load(tmp_path / name)


@pytest.mark.parametrize("family", ["t5", "umt5", "xlnet", "gpt2"])
def test_we_read_their_families(theirs, parts, family, tmp_path):
    modules = [parts.Transformer(str(written(family, tmp_path / "m"))), parts.Pooling(32)]
    model = theirs.SentenceTransformer(modules=modules, device="cpu")
    model.save(str(tmp_path / "saved"))
    near(SentenceEncoder.load(tmp_path / "saved").encode(TEXTS), model.encode(TEXTS))


USES = {
    "dot": ({"similarity_fn_name": "dot"}, "similarity_fn_name is 'dot'"),
    "euclidean": ({"similarity_fn_name": "euclidean"}, "similarity_fn_name is 'euclidean'"),
    "cut": ({"truncate_dim": 8}, "truncate_dim=8"),
    "cosine": ({"similarity_fn_name": "cosine"}, None),
}


def test_how_they_use_a_model_is_honoured_or_refused(theirs, parts, tmp_path):
    path = written("bert", tmp_path / "m")
    for name, (options, refusal) in USES.items():
        plain = [parts.Transformer(str(path)), parts.Pooling(32)]
        theirs.SentenceTransformer(modules=plain, device="cpu", **options).save(str(tmp_path / name))
        if refusal is None:
            SentenceEncoder.load(tmp_path / name)
            continue
        with pytest.raises(UserError, match=refusal):
            SentenceEncoder.load(tmp_path / name)


def classifier(family, folder, outputs, **settings) -> Path:
    from transformers import AutoModelForSequenceClassification

    config = families.config_of(family)
    config.num_labels = outputs
    vars(config).update(settings)
    torch.manual_seed(1)
    model = AutoModelForSequenceClassification.from_config(config).eval()
    if outputs == 3:
        model.config.id2label = {0: "contradiction", 1: "entailment", 2: "neutral"}
    folder.mkdir()
    return families.write(family, folder, model, segments=family in MARKED)


HEADS = [
    *(
        (family, {})
        for family in (
            "bert",
            "roberta",
            "distilbert",
            "electra",
            "deberta-v2",
            "albert",
            "mpnet",
            "gte",
            "nomic_bert",
        )
    ),
    ("jina_embeddings_v3", {}),
    *(("modernbert", {"classifier_pooling": name}) for name in ("cls", "mean")),
    ("modernbert", {"classifier_activation": "relu", "classifier_bias": True, "norm_bias": True}),
    *(("eurobert", {"classifier_pooling": name}) for name in ("late", "bos", "mean")),
]


@pytest.mark.parametrize("outputs", [1, 2, 3])
@pytest.mark.parametrize(("family", "settings"), HEADS, ids=str)
def test_we_read_their_cross_encoders(theirs, family, settings, outputs, tmp_path):
    folder = classifier(family, tmp_path / "plain", outputs, **settings)
    model = theirs.CrossEncoder(str(folder), device="cpu")
    model.save(str(tmp_path / "saved"))
    expected = model.predict(PAIRS, activation_fn=torch.nn.Identity()).reshape(len(PAIRS), outputs)
    if outputs == 3:  # entailment, neutral, contradiction
        expected = expected[:, [1, 2, 0]]
    for place in (folder, tmp_path / "saved"):
        with pytest.raises(UserError, match=r"CrossEncoder\.load"):
            SentenceEncoder.load(place)
        encoder = CrossEncoder.load(place)
        near(encoder.logits(*zip(*PAIRS, strict=True)), expected)
        assert np.isfinite(encoder.score(PAIRS)).all()
    again = save_encoder(encoder, tmp_path / "again", card={})
    near(theirs.CrossEncoder(str(again), device="cpu").predict(PAIRS).reshape(expected.shape), expected)
    near(CrossEncoder.load(again).logits(*zip(*PAIRS, strict=True)), expected)


def test_their_heads_read_any_pooling_and_layers_before_it(theirs, parts, tmp_path):
    path = str(written("bert", tmp_path / "m"))
    last = {"module_output_name": "scores", "activation_function": torch.nn.Identity()}
    tokens = parts.Dense(32, 16, module_input_name="token_embeddings")
    for name, between in {
        **{
            mode: [parts.Pooling(32, mode)]
            for mode in ("max", "mean_sqrt_len_tokens", "lasttoken", "weightedmean")
        },
        "tokens": [tokens, parts.Pooling(16), parts.LayerNorm(16)],
        "length 1": [parts.Pooling(32), parts.Normalize()],
    }.items():
        head = parts.Dense(16 if name == "tokens" else 32, 1, **last)
        model = theirs.CrossEncoder(modules=[parts.Transformer(path), *between, head], device="cpu")
        model.save(str(tmp_path / name))
        encoder = CrossEncoder.load(tmp_path / name)
        expected = model.predict(PAIRS, activation_fn=torch.nn.Identity())
        near(encoder.logits(*zip(*PAIRS, strict=True))[:, 0], expected, 3e-6)
        again = save_encoder(encoder, tmp_path / f"{name} again", card={})
        near(theirs.CrossEncoder(str(again), device="cpu").predict(PAIRS), expected, 3e-6)
        assert np.array_equal(CrossEncoder.load(again).score(PAIRS), encoder.score(PAIRS))


def test_heads_that_we_lack_are_named(theirs, parts, tmp_path):
    for settings, message in (
        ({"norm_eps": 1e-3}, r"norm_eps=0\.001"),
        ({"classifier_activation": "gelu_new"}, "classifier_activation=gelu_new"),
    ):
        with pytest.raises(UserError, match=message):
            CrossEncoder.load(classifier("modernbert", tmp_path / message[:8], 1, **settings))
    with pytest.raises(UserError, match=r"the head of gpt2ForSequenceClassification .*Use one of"):
        CrossEncoder.load(classifier("gpt2", tmp_path / "gpt2", 1))
    transformer = parts.Transformer(str(written("bert", tmp_path / "m")))
    head = parts.Dense(32, 1, module_output_name="scores")  # with tanh
    theirs.CrossEncoder(modules=[transformer, parts.Pooling(32), head], device="cpu").save(
        str(tmp_path / "tanh")
    )
    with pytest.raises(UserError, match="layer of the scores has an activation"):
        CrossEncoder.load(tmp_path / "tanh")


def test_an_encoder_of_sentences_is_no_cross_encoder(tmp_path):
    folder = written("bert", tmp_path / "m")
    with pytest.raises(UserError, match=r"SentenceEncoder\.load"):
        CrossEncoder.load(folder)
