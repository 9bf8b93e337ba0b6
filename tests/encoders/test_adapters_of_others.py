"""Adapters that peft and sentence-transformers wrote: the numbers of peft, or a refusal by the key's name."""

import dataclasses
import json
import shutil

import families
import numpy as np
import pytest
import rerankers
import torch
from decoders import write
from refusals import rows
from safetensors.torch import load_file, save_file

import juzhen
from juzhen.adapters import FORMS, KEYS, NEUTRAL
from juzhen.core.errors import UserError
from juzhen.encoders import CrossEncoder, SentenceEncoder, save_encoder
from juzhen.encoders.base_weights import merged

peft = pytest.importorskip("peft")
transformers = pytest.importorskip("transformers")

TEXTS = ["今天天气很好", "ab cd", "我"]
PAIRS = [("今天天气很好", "我"), ("ab cd", "今天")]
QUERIES = r"encoder\.layer\.1\.attention\.self\.(query|value)"


def drawn(model, seed=1):
    """The adapter of a model with numbers that change something."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, values in model.named_parameters():
            if "lora_" in name and "magnitude" not in name:
                values.copy_(torch.randn_like(values) * 0.3)
            if "magnitude" in name:
                values.mul_(1 + torch.rand_like(values))
    return model.eval()


def written(base, folder, *, kind=transformers.AutoModel, **options):
    """The folder that peft writes for an adapter of a base, and its model."""
    settings = {"r": 4, "lora_alpha": 6, "target_modules": ["query", "value"]} | options
    model = drawn(peft.get_peft_model(kind.from_pretrained(base), peft.LoraConfig(**settings)))
    model.save_pretrained(str(folder))
    return folder, model


@torch.no_grad()
def means_of(model, tokenizer, texts=TEXTS):
    """Means of the last states, as the encoder of the whole model gives them."""
    found = []
    for text in texts:
        inputs = tokenizer(text, return_tensors="pt", return_token_type_ids=False)
        states = model(**inputs, output_hidden_states=True).hidden_states[-1]
        found.append(states[0].mean(dim=0).numpy())
    return np.stack(found)


def assert_same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_each_key_of_peft_is_decided():
    assert {field.name for field in dataclasses.fields(peft.LoraConfig)} == KEYS.keys()


HONOURED = {
    "rslora": {"use_rslora": True},
    "alpha_pattern": {"alpha_pattern": {"layer.1.attention.self.query": 40}},
    "rank_pattern": {"rank_pattern": {r"layer\.0\.attention\.self\.value": 2}, "use_rslora": True},
    "layers_to_transform": {"layers_to_transform": [1]},
    "layers_pattern": {"layers_to_transform": 0, "layers_pattern": "layer"},
    "exclude_modules": {"exclude_modules": ["layer.1.attention.self.query"]},
    "regex": {"target_modules": QUERIES},
    "all linear": {"target_modules": "all-linear"},
    "dora": {"use_dora": True, "use_rslora": True},
    "lora_bias": {"lora_bias": True},
    "embeddings": {"target_modules": ["query", "word_embeddings"]},
    "gaussian": {"init_lora_weights": "gaussian"},
    "mica": {"init_lora_weights": "mica"},
}


@pytest.mark.parametrize("options", HONOURED.values(), ids=HONOURED)
@pytest.mark.sampled(2)
def test_it_gives_the_numbers_of_peft(bert_folder, tmp_path, options):
    folder, theirs = written(bert_folder, tmp_path / "adapter", **options)
    encoder = SentenceEncoder.load(folder)
    expected = means_of(theirs, encoder.tokenizer)
    assert_same(encoder.encode(TEXTS), expected)
    assert np.abs(SentenceEncoder.load(bert_folder).encode(TEXTS) - expected).max() > 1e-3
    assert_same(merged(encoder).encode(TEXTS), expected)
    again = save_encoder(encoder, tmp_path / "again", card={})
    assert np.array_equal(SentenceEncoder.load(again).encode(TEXTS), encoder.encode(TEXTS))


REFUSED = {
    "bias": "lora_only",
    "init_lora_weights": "pissa_niter_4",
    "trainable_token_indices": [1, 2],
    "target_parameters": ["experts.gate_up_proj"],
    "layer_replication": [[0, 2], [1, 2]],
    "alora_invocation_tokens": [5],
    "use_qalora": True,
    "kasa_config": {"beta": 1.0},
    "megatron_config": {"tensor_model_parallel_size": 2},
    "key_of_tomorrow": 3,
}


def test_keys_that_change_no_number_are_passed_over(bert_folder, tmp_path):
    folder, _ = written(bert_folder, tmp_path / "adapter")
    settings = json.loads((folder / "adapter_config.json").read_text())
    harmless = {name: {} for name, rule in KEYS.items() if rule == NEUTRAL} | {"key_of_today": None}
    kept = {name: settings[name] for name in ("base_model_name_or_path", "peft_type")}
    (folder / "adapter_config.json").write_text(json.dumps(settings | harmless | kept))
    SentenceEncoder.load(folder)


NO_NUMBERS = [
    ("r", -4),
    ("r", 0),
    ("r", 10**9),
    ("r", "8"),
    ("r", 4.5),
    ("r", True),
    ("r", None),
    ("lora_alpha", "8"),
    ("lora_alpha", [8]),
    ("lora_alpha", None),
    ("lora_alpha", 1e30),
    ("alpha_pattern", {"query": -1e30}),
    ("rank_pattern", [["query", 2]]),
    ("rank_pattern", {"query": -1}),
    ("rank_pattern", {"query": "2"}),
    ("rank_pattern", {"[": 2}),
    ("alpha_pattern", {"query": "4"}),
    ("alpha_pattern", 7),
    ("target_modules", {"query": 1}),
    ("target_modules", "[query"),
    ("target_modules", [1, 2]),
    ("exclude_modules", 3),
    ("layers_to_transform", "1"),
    ("layers_to_transform", [0.5]),
    ("layers_pattern", 4),
    ("lora_dropout", "0.1"),
    ("lora_dropout", 1.5),
    ("use_rslora", "true"),
    ("use_dora", 1),
    ("lora_bias", "yes"),
    ("fan_in_fan_out", "no"),
]
"""Values that peft cannot compute with."""
NAME = "base_model_name_or_path"
BASES = [
    ("/nowhere/at/all", f"no such folder.*{NAME} in adapter_config.json"),
    ("nobody/has-this", f"could not be fetched.*{NAME} in adapter_config.json"),
    ("bge_small_zh", r"BAAI/bge-small-zh-v1\.5: .*could not be fetched"),
    ("", f"{NAME}="),
    (None, f"{NAME}="),
]


def saying(f, **settings):
    """An adapter of peft whose settings say something else."""
    folder, _ = written(f.bert_folder, f.tmp_path / "adapter")
    path = folder / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))
    return folder


def named(f, renamed):
    """An adapter whose tensors have other names, and that peft leaves out in part or whole."""
    folder, _ = written(f.bert_folder, f.tmp_path / "adapter")
    path = folder / "adapter_model.safetensors"
    save_file({renamed(name): values for name, values in load_file(path).items()}, path, {"format": "pt"})
    return folder


BARE = len("base_model.model.")
PASSED_OVER = {
    "none": lambda name: name[BARE:],
    "one": lambda name: name[BARE:] if "layer.0.attention.self.query" in name else name,
    "twice": lambda name: name[:BARE] + name,
    "half": lambda name: name.removeprefix("base_model."),
    "another": lambda name: f"{name[:BARE]}foo.{name[BARE:]}",
    "instead": lambda name: f"bert.{name[BARE:]}",
    "whole": lambda name: f"{name[:BARE]}bert.{name[BARE:]}",
}
"""Names at which peft 0.21 keeps the numbers of the base."""


def with_weights_of_its_base(f):
    folder, _ = written(f.bert_folder, f.tmp_path / "adapter", modules_to_save=["LayerNorm"])
    SentenceEncoder.load(folder)  # they have not learnt anything
    tensors = load_file(folder / "adapter_model.safetensors")
    name = next(name for name in tensors if "LayerNorm" in name)
    save_file(tensors | {name: tensors[name] + 1}, folder / "adapter_model.safetensors", {"format": "pt"})
    return folder


def on_itself(f):
    return saying(f, base_model_name_or_path=str(f.tmp_path / "adapter"))


def on_another(f):
    other = shutil.copytree(saying(f), f.tmp_path / "other")
    return saying(f, base_model_name_or_path=str(other))


def pickled(f):
    folder = saying(f)
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")
    return folder


def on_truncated_embeddings(f):
    """A base whose embeddings are not read here."""
    base = save_encoder(f.load(f.bert_folder, pooling="cls"), f.tmp_path / "base", card={})
    path = base / "config_sentence_transformers.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"truncate_dim": 8}))
    return written(base, f.tmp_path / "adapter")[0]


def of_a_classifier(f):
    kind = transformers.AutoModelForSequenceClassification
    return written(f.bert_folder, f.tmp_path / "adapter", kind=kind, task_type="SEQ_CLS")[0]


FOLDERS = {
    "a key": [
        (
            lambda f, key=key: SentenceEncoder.load(saying(f, **{key: REFUSED[key]})),
            f"{key}=.*merge_and_unload",
        )
        for key in REFUSED
    ],
    "a value": [
        (
            lambda f, key=key, value=value: SentenceEncoder.load(saying(f, **{key: value})),
            rf"adapter_config\.json: {key}=.*expected .*save_pretrained",
        )
        for key, value in NO_NUMBERS
    ],
    "a base": [
        (lambda f, name=name: SentenceEncoder.load(saying(f, base_model_name_or_path=name)), words)
        for name, words in BASES
    ],
    "a kind": [
        (lambda f, kind=kind: SentenceEncoder.load(saying(f, peft_type=kind)), f"{kind} .*{told}")
        for kind, told in (
            ("PROMPT_TUNING", "no weights to merge"),
            ("P_TUNING", "LoRA"),
            ("LOHA", "merge_and_unload"),
        )
    ],
    "a name": [
        (
            lambda f, renamed=renamed: SentenceEncoder.load(named(f, renamed)),
            r"lora_A.*base_model\.model\..*save_pretrained",
        )
        for renamed in PASSED_OVER.values()
    ],
    "a folder": [
        (lambda f, made=made: SentenceEncoder.load(made(f)), words)
        for made, words in (
            (on_itself, "adapter itself"),
            (on_another, "an adapter, too"),
            (with_weights_of_its_base, "modules_to_save: .*LayerNorm.*merge_and_unload"),
            (pickled, r"adapter_model\.bin can run code"),
            (on_truncated_embeddings, "truncate_dim"),
            (of_a_classifier, r"CrossEncoder\.load"),
        )
    ],
}


@pytest.mark.parametrize(("call", "words"), rows(FOLDERS))
@pytest.mark.sampled(4)
def test_what_would_change_the_numbers_is_refused_by_its_key(f, call, words):
    with pytest.raises(UserError, match=words):
        call(f)


def test_null_is_the_default_of_peft(bert_folder, tmp_path):
    folder, theirs = written(bert_folder, tmp_path / "adapter")
    path = folder / "adapter_config.json"
    keys = (
        "rank_pattern",
        "alpha_pattern",
        "exclude_modules",
        "layers_to_transform",
        "lora_dropout",
        "use_dora",
    )
    path.write_text(json.dumps(json.loads(path.read_text()) | dict.fromkeys(keys)))
    encoder = SentenceEncoder.load(folder)
    assert_same(encoder.encode(TEXTS), means_of(theirs, encoder.tokenizer))


def test_a_missing_number_is_the_default_of_peft(bert_folder, tmp_path):
    folder, theirs = written(bert_folder, tmp_path / "adapter", r=8, lora_alpha=8)
    path = folder / "adapter_config.json"
    settings = json.loads(path.read_text())
    path.write_text(json.dumps({key: settings[key] for key in settings.keys() - {"r", "lora_alpha"}}))
    encoder = SentenceEncoder.load(folder)
    assert_same(encoder.encode(TEXTS), means_of(theirs, encoder.tokenizer))


def test_each_honoured_key_has_a_form():
    assert {key for key, rule in KEYS.items() if rule == "read"} == FORMS.keys()


WHOLE = {
    "masked": (transformers.AutoModelForMaskedLM, {"alpha_pattern": {r"^bert\.encoder\.layer\.1\..*": 40}}),
    "names": (
        transformers.AutoModelForMaskedLM,
        {"target_modules": ["bert.encoder.layer.1.attention.self.key"]},
    ),
    "every linear": (transformers.AutoModelForMaskedLM, {"target_modules": "all-linear"}),
    "layers": (
        transformers.AutoModelForSequenceClassification,
        {"layers_to_transform": [1], "task_type": "SEQ_CLS"},
    ),
}


@pytest.mark.parametrize(("kind", "options"), WHOLE.values(), ids=WHOLE)
@pytest.mark.sampled(2)
def test_an_adapter_of_a_whole_model_gives_its_states(bert_folder, tmp_path, kind, options):
    folder, theirs = written(bert_folder, tmp_path / "adapter", kind=kind, **options)
    settings = json.loads((folder / "adapter_config.json").read_text()) | {"task_type": None}
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    encoder = SentenceEncoder.load(folder)
    expected = means_of(theirs, encoder.tokenizer)
    assert_same(encoder.encode(TEXTS), expected)
    again = save_encoder(encoder, tmp_path / "again", card={})
    assert np.array_equal(SentenceEncoder.load(again).encode(TEXTS), encoder.encode(TEXTS))
    if kind is transformers.AutoModelForMaskedLM:  # peft opens what is saved beside the plain model
        plain = peft.PeftModel.from_pretrained(
            transformers.AutoModel.from_pretrained(bert_folder), again
        ).eval()
        assert_same(means_of(plain, encoder.tokenizer), expected)


def test_an_adapter_of_a_whole_model_has_the_names_of_its_record(bert_folder, tmp_path):
    folder, _ = written(bert_folder, tmp_path / "adapter", kind=transformers.AutoModelForMaskedLM)
    path = folder / "adapter_model.safetensors"
    tensors = load_file(path)
    save_file(
        {name.replace(".bert.", "."): values for name, values in tensors.items()}, path, {"format": "pt"}
    )
    with pytest.raises(UserError, match=r"auto_mapping, task_type.*save_pretrained"):
        SentenceEncoder.load(folder)
    save_file(tensors, path, {"format": "pt"})
    SentenceEncoder.load(folder)
    settings = json.loads((folder / "adapter_config.json").read_text())
    settings |= {"auto_mapping": None, "task_type": "FEATURE_EXTRACTION"}
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    with pytest.raises(UserError, match=r"auto_mapping, task_type.*save_pretrained"):
        SentenceEncoder.load(folder)
    (folder / "adapter_config.json").write_text(json.dumps(settings | {"auto_mapping": [1]}))
    with pytest.raises(UserError, match=r"adapter_config\.json: auto_mapping"):
        SentenceEncoder.load(folder)


def test_an_adapter_of_a_language_model(tmp_path):
    base = write("qwen3", tmp_path / "base")
    options = {
        "kind": transformers.AutoModelForCausalLM,
        "target_modules": ["q_proj", "v_proj"],
        "task_type": "CAUSAL_LM",
    }
    folder, theirs = written(base, tmp_path / "adapter", use_rslora=True, **options)
    encoder = SentenceEncoder.load(folder)
    inner = theirs.base_model.model.model
    with torch.no_grad():
        expected = inner(**encoder.tokenizer(TEXTS[0], return_tensors="pt")).last_hidden_state[0].mean(dim=0)
    assert_same(encoder.encode(TEXTS[0]), expected.numpy())


def test_the_base_is_found_by_name_and_folder(folder, tmp_path, monkeypatch):
    adapter, _ = written(folder, tmp_path / "adapter", revision="main")
    path = adapter / "adapter_config.json"
    settings = json.loads(path.read_text())

    def based_on(name, **more):
        path.write_text(json.dumps(settings | {"base_model_name_or_path": name} | more))
        return SentenceEncoder.load(adapter)

    vectors = based_on(str(folder)).encode(TEXTS)
    monkeypatch.chdir(folder.parent)
    assert np.array_equal(based_on(folder.name).encode(TEXTS), vectors)


def test_it_pools_as_its_base_does(bert_folder, tmp_path, load):
    base = save_encoder(
        load(bert_folder, pooling="cls", normalize=True, max_length=9), tmp_path / "base", card={}
    )
    folder, _ = written(base, tmp_path / "adapter")
    encoder = SentenceEncoder.load(folder)
    assert (encoder.pooling, encoder.normalize, encoder.max_length) == ("cls", True, 9)


def test_what_its_base_says_beside_the_weights_does_not_count_where_it_says_more(bert_folder, tmp_path, load):
    """A base whose embeddings are not read here, beside an adapter with modules of its own."""
    base = save_encoder(load(bert_folder, pooling="cls"), tmp_path / "base", card={})
    adapter, _ = written(base, tmp_path / "adapter")
    path = base / "config_sentence_transformers.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"truncate_dim": 8}))
    for name in ("modules.json", "1_Pooling"):
        source = base / name
        shutil.copytree(source, adapter / name) if source.is_dir() else shutil.copy(source, adapter / name)
    assert SentenceEncoder.load(adapter).pooling == "cls"


@pytest.mark.parametrize("targets", [["query", "value"], "all-linear", ["dense"]], ids=str)
@pytest.mark.parametrize("family", ["bert", "roberta"])
@pytest.mark.sampled(2)
def test_a_classifier_beside_an_adapter(tmp_path, targets, family):
    base = tmp_path / "base"
    base.mkdir()
    families.write(family, base, families.build(family), segments=family == "bert")
    options = {"task_type": "SEQ_CLS", "target_modules": targets, "use_rslora": True}
    kind = transformers.AutoModelForSequenceClassification
    folder, theirs = written(base, tmp_path / "adapter", kind=kind, **options)
    encoder = CrossEncoder.load(folder)
    with torch.no_grad():
        inputs = [encoder.inner.tokenizer(*pair, return_tensors="pt") for pair in PAIRS]
        expected = torch.cat([theirs(**one).logits for one in inputs]).numpy()
    assert_same(encoder.logits(*zip(*PAIRS, strict=True)), expected)
    again = save_encoder(encoder, tmp_path / "again", card={})
    assert np.array_equal(CrossEncoder.load(again).score(PAIRS), encoder.score(PAIRS))


def pairs_of_theirs(base, folder, heads):
    theirs = pytest.importorskip("sentence_transformers", minversion="6")
    model = theirs.CrossEncoder(str(base), num_labels=1, device="cpu")
    options = {"r": 4, "lora_alpha": 16, "use_rslora": True, "modules_to_save": heads}
    model.add_adapter(peft.LoraConfig(**options, target_modules=["query"]))
    drawn(model).save_pretrained(str(folder))
    return folder, model


def answers_of_theirs(base, folder, targets, chat=None):
    theirs = pytest.importorskip("sentence_transformers", minversion="6")
    from sentence_transformers.cross_encoder.modules import LogitScore
    from sentence_transformers.sentence_transformer.modules import Transformer

    options = {"processor_kwargs": {"chat_template": chat}} if chat else {}
    parts = [Transformer(str(base), transformer_task="text-generation", **options), LogitScore(5, 6)]
    model = theirs.CrossEncoder(modules=parts, device="cpu", activation_fn=torch.nn.Identity())
    model.add_adapter(peft.LoraConfig(r=4, lora_alpha=16, target_modules=targets))
    drawn(model).save_pretrained(str(folder))
    return folder, model


@pytest.mark.oracle
def test_adapters_that_sentence_transformers_wrote(bert_folder, tmp_path):
    theirs = pytest.importorskip("sentence_transformers", minversion="6")
    options = {"r": 4, "lora_alpha": 16, "use_rslora": True}
    model = theirs.SentenceTransformer(str(bert_folder), device="cpu")
    model.add_adapter(peft.LoraConfig(**options, target_modules=["query", "dense"]))
    drawn(model).save_pretrained(str(tmp_path / "sentences"))
    assert_same(SentenceEncoder.load(tmp_path / "sentences").encode(TEXTS), model.encode(TEXTS))
    folder, model = pairs_of_theirs(bert_folder, tmp_path / "pairs", heads=["classifier"])
    logits = CrossEncoder.load(folder).logits(*zip(*PAIRS, strict=True))[:, 0]
    assert_same(logits, model.predict(PAIRS, activation_fn=torch.nn.Identity()))


@pytest.mark.oracle
@pytest.mark.parametrize("options", [{"use_dora": True}, {"task_type": "CAUSAL_LM"}], ids=str)
def test_adapters_that_another_program_reads_otherwise(tmp_path, options):
    """sentence-transformers reopens DoRA without its magnitudes, peft finds no such layer in a language model."""
    theirs = pytest.importorskip("sentence_transformers", minversion="6")
    base = write("qwen3", tmp_path / "base")
    model = theirs.SentenceTransformer(str(base), device="cpu")
    model.add_adapter(peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], **options))
    drawn(model).save_pretrained(str(tmp_path / "saved"))
    encoder = SentenceEncoder.load(tmp_path / "saved")
    assert_same(encoder.encode(TEXTS), model.encode(TEXTS))
    reopened = theirs.SentenceTransformer(str(tmp_path / "saved"), device="cpu").encode(TEXTS)
    is_same = np.allclose(encoder.encode(TEXTS), reopened, atol=1e-5 * np.abs(reopened).max())
    assert is_same == ("use_dora" not in options)
    assert any("use_dora" in line for line in encoder.load_warnings) != is_same


@pytest.mark.oracle
@pytest.mark.parametrize("chat", [None, "{% for m in messages %}{{ m.role }} {{ m.content }} {% endfor %}?"])
def test_an_adapter_of_a_language_model_that_answers(tmp_path, chat):
    base = rerankers.write("qwen3", tmp_path / "base", tied=False)
    for targets in (["q_proj", "v_proj"], ["q_proj", "embed_tokens"]):
        folder, model = answers_of_theirs(base, tmp_path / targets[1], targets, chat)
        assert_same(CrossEncoder.load(folder).score(PAIRS), model.predict(PAIRS))


def without_a_head(f):
    """A language model whose head they draw anew."""
    base = rerankers.write("qwen3", f.tmp_path / "base", tied=False)
    folder, _ = answers_of_theirs(base, f.tmp_path / "adapter", ["q_proj", "v_proj"])
    (base / "model.safetensors").unlink()
    config = transformers.AutoConfig.from_pretrained(base)
    transformers.AutoModel.from_config(config).save_pretrained(base)
    return folder


def of_a_head(f):
    base = rerankers.write("qwen3", f.tmp_path / "base", tied=False)
    return answers_of_theirs(base, f.tmp_path / "adapter", ["q_proj", "lm_head"])[0]


def of_token_vectors(f):
    theirs = pytest.importorskip("sentence_transformers", minversion="6")
    model = theirs.MultiVectorEncoder(str(f.bert_folder), device="cpu")
    model.add_adapter(peft.LoraConfig(r=4, target_modules=["query"]))
    model.save_pretrained(str(f.tmp_path / "saved"))
    return f.tmp_path / "saved"


THEIRS = {
    "theirs": [
        (
            lambda f: CrossEncoder.load(pairs_of_theirs(f.bert_folder, f.tmp_path / "pairs", None)[0]),
            "weights of classifier.*modules_to_save",
        ),
        (lambda f: CrossEncoder.load(of_a_head(f)), "lm_head.*merge_and_unload"),
        (
            lambda f: CrossEncoder.load(without_a_head(f)),
            r"lm_head\.weight is missing in model\.safetensors",
        ),
        (
            lambda f: juzhen.MultiVectorEncoder.load(of_token_vectors(f)),
            r"adapter_config\.json.*merge_and_unload",
        ),
    ]
}


@pytest.mark.oracle
@pytest.mark.parametrize(("call", "words"), rows(THEIRS))
def test_adapters_of_theirs_that_would_compute_otherwise_are_refused(f, call, words):
    with pytest.raises(UserError, match=words):
        call(f)
