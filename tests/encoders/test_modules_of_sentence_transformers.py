"""What is saved here, sentence-transformers computes or refuses; what it saves is computed here or refused."""

import json
import shutil
from functools import partial
from pathlib import Path

import families
import numpy as np
import pytest
import rerankers
import torch

from juzhen.core.errors import UserError
from juzhen.encoders import CrossEncoder, SentenceEncoder, load_backbone, save_encoder
from juzhen.encoders.backbone_config import AdapterConfig, BackboneConfig
from juzhen.encoders.components import embedding_size
from juzhen.encoders.projection import BilinearScore
from juzhen.encoders.prompts import Prompts
from juzhen.families.answers.encoder import GenerativeReranker

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


def bilinear(source, folder):
    encoder = SentenceEncoder.load(source)
    encoder.score_head = BilinearScore(encoder.dim)
    return save_encoder(encoder, folder, card={})


def symmetric(source, folder):
    both = CrossEncoder(SentenceEncoder.load(source), outputs=1, segments=True, symmetric=True, seed=0).eval()
    save_encoder(both, folder, card={})
    assert CrossEncoder.load(folder).score(PAIRS).tobytes() == both.score(PAIRS).tobytes()
    return folder


def dora(source, folder):  # it would leave the lengths out, with a warning
    pytest.importorskip("peft")
    from test_adapters import with_adapter

    return save_encoder(with_adapter(source, kind="dora"), folder, card={})


def headless(source, folder):  # it would make a head up
    pytest.importorskip("peft")
    base = rerankers.write("qwen3", folder.parent / "lm", tied=False)
    SentenceEncoder.load(base).backbone.save_pretrained(base)
    settings = {"initialize": "pretrained", "pooling": "last", "adapter": AdapterConfig(rank=4)}
    encoder = load_backbone(BackboneConfig(path=str(base), **settings), seed=0)
    return GenerativeReranker.around(encoder).save(folder)


@pytest.mark.parametrize("make", [bilinear, symmetric, dora, headless])
def test_what_they_cannot_compute_does_not_open(theirs, tmp_path, make):
    folder = make(written("bert", tmp_path / "m"), tmp_path / "saved")
    reader = theirs.CrossEncoder if make in (symmetric, headless) else theirs.SentenceTransformer
    with pytest.raises(Exception, match="juzhen"):
        reader(str(folder), device="cpu")


def models(parts, path):
    """Name → modules."""

    def transformer(**options):
        return parts.Transformer(str(path), **options)

    def weighed(*weights, start=1, pooling="mean"):
        layers = parts.WeightedLayerPooling(
            32, 2, start, layer_weights=torch.nn.Parameter(torch.tensor(weights))
        )
        return [transformer(config_args={"output_hidden_states": True}), layers, parts.Pooling(32, pooling)]

    plain = [transformer(), parts.Pooling(32)]
    return {
        "residual": [*plain, parts.Dense(32, 32, use_residual=True)],
        "projected residual": [*plain, parts.Dense(32, 8, use_residual=True)],
        "dropout": [*plain, parts.Dropout(0.5), parts.Dense(32, 8), parts.Normalize()],
        "layer norm": [*plain, parts.LayerNorm(32)],
        "weightedmean": [transformer(), parts.Pooling(32, "weightedmean")],
        "max": [transformer(), parts.Pooling(32, "max")],
        "first and last": weighed(2.0, 2.0),
        "layers that nobody gives": [transformer(), *weighed(2.0, 2.0)[1:]],
        "last": weighed(0.0, 0.0, 3.0, start=0),
        "all layers": weighed(1.0, 1.0, 1.0, start=0),
        "layers at cls": weighed(1.0, 1.0, pooling="cls"),
        "lasttoken": [transformer(), parts.Pooling(32, "lasttoken")],
        "two": [transformer(), parts.Pooling(32, ("cls", "mean"))],
        "sqrt": [transformer(), parts.Pooling(32, "mean_sqrt_len_tokens")],
        "late": [*plain, parts.Normalize(), parts.Dense(32, 8)],
        "late norm": [*plain, parts.Normalize(), parts.LayerNorm(32), parts.Normalize()],
        "twice": [*plain, parts.Normalize(), parts.Normalize()],
        "again and again": [
            *plain,
            *[parts.Normalize()] * 2,
            parts.Dense(32, 8),
            parts.Normalize(),
            parts.Dense(8, 4),
        ],
        "nobody reads it": [*plain, parts.Dense(32, 8, module_output_name="other"), parts.Normalize()],
        "read by its name": [
            *plain,
            parts.Dense(32, 8, module_output_name="other"),
            parts.Normalize("missing"),
            parts.Normalize("other"),
            parts.Dense(8, 4, module_input_name="other", module_output_name="sentence_embedding"),
        ],
        "states": [*plain, parts.Dense(32, 32, module_output_name="token_embeddings")],
        "states of length 1": [*plain, parts.Normalize("token_embeddings")],
        "pooled late": [transformer(), parts.Normalize(), parts.Pooling(32)],
        "router": [parts.Router.for_query_document(plain, plain)],
        "static": [parts.StaticEmbedding(transformer().tokenizer, embedding_dim=8), parts.Dense(8, 4)],
    }


UNREAD = {
    "all layers": "first and the last, equal",
    "layers at cls": "only the mean",
    "two": r"pooling cls \+ mean",
    "states": r"2_Dense/config\.json: module_output_name=token_embeddings.*Use",
    "states of length 1": r"2_Normalize/config\.json: module_input_name=token_embeddings.*Use",
    "pooled late": "Pooling.*order.*Use",
}


def test_we_read_their_modules(theirs, parts, tmp_path):
    for name, modules in models(parts, written("bert", tmp_path / "m")).items():
        if name not in UNREAD:
            model = theirs.SentenceTransformer(modules=modules, device="cpu")
            model.save(str(tmp_path / name))
            encoder, expected = SentenceEncoder.load(tmp_path / name), model.encode(TEXTS)
            near(encoder.encode(TEXTS), expected)
            assert embedding_size(tmp_path / name) == expected.shape[1]
            again = save_encoder(encoder, tmp_path / f"{name} again", card={})
            near(theirs.SentenceTransformer(str(again), device="cpu").encode(TEXTS), expected)
            assert SentenceEncoder.load(again).encode(TEXTS).tobytes() == encoder.encode(TEXTS).tobytes()


@pytest.mark.parametrize(
    ("family", "changes", "refusal"),
    [
        ("bert", {"return_dict": False}, None),
        ("bert", {"chunk_size_feed_forward": 2}, None),
        ("roberta", {"pad_token_id": 5}, "pad_token_id=5"),
    ],
)
def test_what_config_json_says_beside_the_sizes(family, changes, refusal, tmp_path):
    expected = SentenceEncoder.load(folder := written(family, tmp_path / "m")).encode(TEXTS)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    if refusal is None:
        near(SentenceEncoder.load(folder).encode(TEXTS), expected)
    else:
        with pytest.raises(UserError, match=refusal):
            SentenceEncoder.load(folder)


REPLACED = [
    {"type": "Replace", "pattern": {"Regex": "[A-Z]"}, "content": "x"},
    {"type": "Lowercase"},
]
SPECIAL = {
    name: {"id": name, "ids": [number], "tokens": [name]} for name, number in (("[CLS]", 2), ("[SEP]", 3))
}


def marked(single, pair):
    """A post_processor; [name, segment] of each part."""

    def parts(names):
        return [
            {"Sequence" if name in "AB" else "SpecialToken": {"id": name, "type_id": segment}}
            for name, segment in names
        ]

    return {
        "post_processor": {
            "type": "TemplateProcessing",
            "single": parts(single),
            "pair": parts(pair),
            "special_tokens": SPECIAL,
        }
    }


PAIR = [("[CLS]", 0), ("A", 0), ("[SEP]", 0), ("B", 1), ("[SEP]", 1)]
SECOND = marked([("[CLS]", 0), ("A", 1), ("[SEP]", 1)], PAIR)
REVERSED = marked(PAIR[:3], [("[CLS]", 0), ("B", 0), ("[SEP]", 0), ("A", 1), ("[SEP]", 1)])
LENGTHS, TOKENIZER = "sentence_bert_config.json", "tokenizer_config.json"
EDITED = {
    "lower": (
        {"tokenizer.json": {"normalizer": {"type": "Sequence", "normalizers": REPLACED}}},
        {"do_lower_case": True},
    ),
    "lower first": ({"tokenizer.json": {"normalizer": REPLACED[0]}}, {"do_lower_case": True}),
    "old and new": (
        {},
        {"tokenizer_args": {"model_max_length": 6}, "processor_kwargs": {"model_max_length": 9}},
    ),
    "old alone": (
        {},
        {"tokenizer_args": {}, "processor_kwargs": {"model_max_length": 6}, "max_seq_length": 9},
    ),
    "files": (
        {
            LENGTHS: None,
            "sentence_xlnet_config.json": {"max_seq_length": 5},
            "sentence_distilbert_config.json": {"max_seq_length": 8},
            "sentence_albert_config.json": {"max_seq_length": 7},
        },
        {},
    ),
    "empty file": ({LENGTHS: None, "sentence_roberta_config.json": {"max_seq_length": 6}}, {}),
    "other file": ({LENGTHS: None, "sentence_mpnet_config.json": {"max_seq_length": 6}}, {}),
    "segments": ({"tokenizer.json": SECOND}, r"another segment.*tokenizer\.json"),
    **{
        f"length {length}": ({TOKENIZER: {"model_max_length": length}}, r"model_max_length=.*Write")
        for length in (16.5, "16", 0, True)
    },
}


def edited(folder, files):
    """The folder, in whose files objects say more, or nothing else (None)."""
    for name, more in files.items():
        path = folder / name
        before = json.loads(path.read_text(encoding="utf-8")) if path.exists() and more is not None else {}
        path.write_text(json.dumps(before | (more or {})), encoding="utf-8")
    return folder


@pytest.mark.parametrize(("files", "then"), EDITED.values(), ids=EDITED)
def test_what_people_write_into_their_files(theirs, parts, files, then, tmp_path):
    plain = edited(
        written("bert", tmp_path / "m"), {TOKENIZER: {"tokenizer_class": "PreTrainedTokenizerFast"}}
    )
    model = theirs.SentenceTransformer(
        modules=[parts.Transformer(str(plain)), parts.Pooling(32)], device="cpu"
    )
    model.save(str(tmp_path / "saved"))
    folder = edited(tmp_path / "saved", files | ({LENGTHS: then} if isinstance(then, dict) and then else {}))
    if isinstance(then, str):
        with pytest.raises(UserError, match=then):
            SentenceEncoder.load(folder)
        return
    texts = [*TEXTS, "A Dog RUNS"]
    expected = [theirs.SentenceTransformer(str(folder), device="cpu").encode(text) for text in texts]
    near(SentenceEncoder.load(folder).encode(texts), np.stack(expected))


def test_what_they_read_otherwise_is_said(theirs, parts, tmp_path):
    def said(folder):
        return " ".join(SentenceEncoder.load(folder).load_warnings)

    chat = {"chat_template": "{% for m in messages %}x {{ m.content }}{% endfor %}"}
    plain = edited(written("modernbert", tmp_path / "m"), {TOKENIZER: chat})
    assert "chat template" in said(plain)
    assert "pads on the left" in said(
        edited(written("bert", tmp_path / "b"), {TOKENIZER: {"padding_side": "left"}})
    )
    modules = [parts.Transformer(str(written("modernbert", tmp_path / "n"))), parts.Pooling(32)]
    theirs.SentenceTransformer(modules=modules, device="cpu").save(str(tmp_path / "saved"))
    folder = tmp_path / "saved"
    assert not said(edited(folder, {TOKENIZER: chat}))
    longer = {LENGTHS: {"max_seq_length": 60}, "config.json": {"max_position_embeddings": 20}}
    assert "max_position_embeddings" in said(edited(folder, longer))
    edited(folder, {"config.json": {"max_position_embeddings": 60}})
    settings = "config_sentence_transformers.json"
    for prompts, name, sides in (
        ({"query": "ab ", "passage": "今 "}, None, {"document"}),
        ({"sts": "ab "}, "sts", {"query", "document"}),
        ({"query": "ab ", "document": "今 "}, "query", set()),
    ):
        edited(folder, {settings: {"prompts": prompts, "default_prompt_name": name}})
        model, encoder = theirs.SentenceTransformer(str(folder), device="cpu"), SentenceEncoder.load(folder)
        for side in ("query", "document"):
            same = np.allclose(
                getattr(encoder, f"encode_{side}")(TEXTS[0]),
                getattr(model, f"encode_{side}")(TEXTS[0]),
                atol=1e-4,
            )
            assert same == (side not in sides)
            assert (f"each {side}" in said(folder)) == (side in sides)


@pytest.mark.parametrize("family", ["t5", "umt5", "xlnet", "gpt2"])
def test_we_read_their_families(theirs, parts, family, tmp_path):
    modules = [parts.Transformer(str(written(family, tmp_path / "m"))), parts.Pooling(32)]
    model = theirs.SentenceTransformer(modules=modules, device="cpu")
    model.save(str(tmp_path / "saved"))
    near(SentenceEncoder.load(tmp_path / "saved").encode(TEXTS), model.encode(TEXTS))


def as_they_use_it(theirs, parts, tmp_path, **options):
    plain = [parts.Transformer(str(written("bert", tmp_path / "m"))), parts.Pooling(32)]
    theirs.SentenceTransformer(modules=plain, device="cpu", **options).save(str(tmp_path / "used"))
    return tmp_path / "used"


def test_the_cosine_is_what_we_compute(theirs, parts, tmp_path):
    SentenceEncoder.load(as_they_use_it(theirs, parts, tmp_path, similarity_fn_name="cosine"))


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
        encoder = CrossEncoder.load(place)
        near(encoder.logits(*zip(*PAIRS, strict=True)), expected)
        assert np.isfinite(encoder.score(PAIRS)).all()
    again = save_encoder(encoder, tmp_path / "again", card={})
    near(theirs.CrossEncoder(str(again), device="cpu").predict(PAIRS).reshape(expected.shape), expected)
    near(CrossEncoder.load(again).logits(*zip(*PAIRS, strict=True)), expected)


@pytest.mark.parametrize(
    "key", ["activation_fn", "sentence_transformers", "sbert_ce_default_activation_function"]
)
def test_what_they_apply_to_scores_is_said(theirs, key, tmp_path):
    folder = classifier("bert", tmp_path / "plain", 1)
    name = "torch.nn.modules.activation.Tanh"
    if key == "activation_fn":
        theirs.CrossEncoder(str(folder), device="cpu", activation_fn=torch.nn.Tanh()).save(
            str(tmp_path / "m")
        )
    else:
        value = {"activation_fn": name, "version": "4.0.0"} if key == "sentence_transformers" else name
        edited(shutil.copytree(folder, tmp_path / "m"), {"config.json": {key: value}})
    with pytest.warns(UserWarning, match="scores are logits.*Tanh"):
        encoder = CrossEncoder.load(tmp_path / "m")
    expected = theirs.CrossEncoder(str(tmp_path / "m"), device="cpu").predict(PAIRS)
    near(np.tanh(encoder.score(PAIRS)), expected)


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


def modernbert(theirs, parts, tmp_path, **settings):
    return classifier("modernbert", tmp_path / "m", 1, **settings)


def with_tanh(theirs, parts, tmp_path):
    transformer = parts.Transformer(str(written("bert", tmp_path / "m")))
    head = parts.Dense(32, 1, module_output_name="scores")
    model = theirs.CrossEncoder(modules=[transformer, parts.Pooling(32), head], device="cpu")
    model.save(str(tmp_path / "tanh"))
    return tmp_path / "tanh"


def of_modules(name, theirs, parts, tmp_path):
    modules = models(parts, written("bert", tmp_path / "m"))[name]
    theirs.SentenceTransformer(modules=modules, device="cpu").save(str(tmp_path / "saved"))
    return tmp_path / "saved"


def with_the_second_sentence_first(theirs, parts, tmp_path):
    files = {TOKENIZER: {"tokenizer_class": "PreTrainedTokenizerFast"}, "tokenizer.json": REVERSED}
    return edited(classifier("bert", tmp_path / "m", 1), files)


def without_its_pooling(theirs, parts, tmp_path):
    (as_they_use_it(theirs, parts, tmp_path) / "1_Pooling" / "config.json").unlink()
    return tmp_path / "used"


REFUSED = [
    (SentenceEncoder, without_its_pooling, r"1_Pooling/config\.json"),
    (CrossEncoder, with_the_second_sentence_first, "second sentence first"),
    *((SentenceEncoder, partial(of_modules, name), words) for name, words in UNREAD.items()),
    (SentenceEncoder, partial(as_they_use_it, similarity_fn_name="dot"), "similarity_fn_name is 'dot'"),
    (SentenceEncoder, partial(as_they_use_it, similarity_fn_name="euclidean"), "similarity_fn_name is 'eucl"),
    (SentenceEncoder, partial(as_they_use_it, truncate_dim=8), "truncate_dim=8"),
    *(
        (
            SentenceEncoder,
            partial(lambda family, *given: classifier(family, given[-1] / "m", 1), family),
            r"CrossEncoder\.load",
        )
        for family in dict(HEADS)
    ),
    (CrossEncoder, partial(modernbert, norm_eps=1e-3), r"norm_eps=0\.001"),
    (CrossEncoder, partial(modernbert, classifier_activation="gelu_new"), "classifier_activation=gelu_new"),
    (
        CrossEncoder,
        lambda *given: classifier("gpt2", given[-1] / "m", 1),
        "head of gpt2ForSequenceClassification .*Use one of",
    ),
    (CrossEncoder, with_tanh, "layer of the scores has an activation"),
    (CrossEncoder, lambda *given: written("bert", given[-1] / "m"), r"SentenceEncoder\.load"),
]


@pytest.mark.parametrize(("kind", "make", "words"), REFUSED)
def test_what_we_do_not_compute_is_refused(theirs, parts, tmp_path, kind, make, words):
    folder = make(theirs, parts, tmp_path)
    with pytest.raises(UserError, match=words):
        kind.load(folder)


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize(
    ("prompts", "name"),
    [
        ({"query": "ab ", "passage": "今 "}, None),
        ({"query": "ab ", "corpus": "今 "}, "query"),
        ({"sts": "ab "}, "sts"),
        ({"query": "ab "}, None),
        ({"document": "今 "}, None),
    ],
)
def test_queries_and_documents_have_our_prompts_there_too(theirs, tmp_path, prompts, name, include):
    encoder = SentenceEncoder.load(written("bert", tmp_path / "m"), pooling="mean")
    encoder.prompts = Prompts(prompts, name, include)
    folder = encoder.save_pretrained(tmp_path / "saved") or tmp_path / "saved"
    model, again = theirs.SentenceTransformer(str(folder), device="cpu"), SentenceEncoder.load(folder)
    assert again.prompts == encoder.prompts
    assert not [line for line in again.load_warnings if "encode_" in line]
    for method in ("encode", "encode_query", "encode_document"):
        expected = getattr(encoder, method)(TEXTS)
        near(getattr(model, method)(TEXTS), expected)
        near(getattr(again, method)(TEXTS), expected)
    settings = json.loads((folder / "config_sentence_transformers.json").read_text())
    edited(
        folder, {"config_sentence_transformers.json": {"prompts": settings["prompts"] | {"document": "x "}}}
    )
    assert SentenceEncoder.load(folder).prompts.texts["document"] == "x "
