"""Folders and settings that give no encoder are refused as they are loaded, by file or key and with the way out."""

import json
import os
import shutil

import decoders
import families
import numpy as np
import pytest
import rerankers
import torch
from refusals import rows
from safetensors.torch import load_file, save_file
from test_backbone import write_json, write_modules

from juzhen.core.errors import UserError
from juzhen.core.paths import BUILTIN
from juzhen.encoders import (
    CrossEncoder,
    PromptEncoder,
    SentenceEncoder,
    load_backbone,
    load_encoder,
    save_encoder,
)
from juzhen.encoders.backbone_config import AdapterConfig, BackboneConfig
from juzhen.encoders.folder_settings import naming
from juzhen.encoders.layout import read_layout
from juzhen.encoders.preflight import check_encoder_files
from juzhen.encoders.projection import IDENTITY, BilinearScore, OutputNorm, Projection
from juzhen.encoders.prompts import Templates
from juzhen.families.answers.encoder import GenerativeReranker
from juzhen.families.late.encoder import MultiVectorEncoder
from juzhen.families.sparse.encoder import SparseEncoder

DEEP = "[" * 100_000
WEIGHTS = "model.safetensors"
BIAS = "encoder.layer.0.attention.output.LayerNorm.bias"
MEAN_SWITCH = {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}


def changed(folder, name, **values):
    """The folder, in which a JSON file says more."""
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | values), encoding="utf-8")
    return folder


def written(folder, name, content):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def without(folder, name):
    (folder / name).unlink()
    return folder


def reweighed(folder, change, name=WEIGHTS):
    """The folder, in whose tensors something is changed."""
    tensors = load_file(folder / name)
    change(tensors)
    save_file(tensors, folder / name, metadata={"format": "pt"})
    return folder


def poisoned(path, name, value=torch.nan):
    """A file of tensors with one number that is none."""
    reweighed(path.parent, lambda tensors: tensors[name].view(-1)[-1:].fill_(value), path.name)


def cut_short(folder, name):
    os.truncate(folder / name, (folder / name).stat().st_size // 2)
    return folder


def pickled(folder):
    torch.save({}, without(folder, WEIGHTS) / "pytorch_model.bin")
    return folder


def at(words):
    """The words, in a message that names the folder, too."""
    return rf"(?=.*/(saved|model|joint)(?![\w.])).*({words})"


def pretrained(folder, **settings):
    return BackboneConfig(path=str(folder), initialize="pretrained", **settings)


def pooled(folder, *kinds, pooling=MEAN_SWITCH, **options):
    """The folder in the layout of sentence-transformers."""
    kinds = kinds or ("Transformer", "Pooling")
    write_modules(folder, kinds, **options)
    write_json(folder / f"{kinds.index('Pooling') if 'Pooling' in kinds else 1}_Pooling/config.json", pooling)
    return folder


def dense(folder, **config):
    pooled(folder, "Transformer", "Pooling", "Dense")
    Projection(32, 2, bias=True, activation="torch.nn.modules.activation.Tanh").save(folder / "2_Dense")
    return changed(folder, "2_Dense/config.json", **config)


@pytest.fixture(scope="module")
def two_layers(tmp_path_factory, tiny_backbone):
    """An encoder of two layers as we write it."""
    plain = shutil.copytree(tiny_backbone, tmp_path_factory.mktemp("whole") / "plain")
    changed(plain, "config.json", num_hidden_layers=2)
    config = BackboneConfig(path=str(plain), initialize="random", max_length=32)
    return save_encoder(load_backbone(config, seed=0), plain.parent / "encoder", card={})


@pytest.fixture
def saved(two_layers, tmp_path):
    """A copy of it that a row may change."""
    return shutil.copytree(two_layers, tmp_path / "saved")


@pytest.fixture(scope="module")
def language_model(tmp_path_factory):
    return rerankers.write("qwen3", tmp_path_factory.mktemp("lm") / "m", tied=False)


def last(folder, **settings):
    return load_backbone(pretrained(folder, pooling="last", **settings), seed=0)


def adapted(f, **settings):
    pytest.importorskip("peft")
    from test_adapters import with_adapter

    return with_adapter(f.bert_folder, **settings)


def adapter_folder(f):
    return save_encoder(adapted(f), f.tmp_path / "adapter", card={})


def on_another_base(f):
    pytest.importorskip("peft")
    from test_adapters import with_adapter

    folder = save_encoder(with_adapter(f.folder), f.tmp_path / "adapter", card={})
    reweighed(f.folder, lambda tensors: next(iter(tensors.values())).add_(1e-3))
    return folder


def on_a_lost_base(f):
    folder = on_another_base(f)
    shutil.rmtree(f.folder)
    return folder


def of_a_changed_base(f):
    encoder = adapted(f)
    with torch.no_grad():
        encoder.backbone.embeddings.word_embeddings.weight += 1
    return encoder


LORA = AdapterConfig(rank=2)
ADAPTERS = [
    (lambda f: SentenceEncoder.load(on_another_base(f)), r"other weights .*digest \w{16}, now \w{16}"),
    (lambda f: SentenceEncoder.load(on_a_lost_base(f)), "base of this adapter .*no such folder"),
    (lambda f: adapted(f, targets=["query", "keys"]), r"targets=\[keys\].*Known: .*self.key"),
    (lambda f: adapted(f, base="nf4"), "base=nf4 .*needs bitsandbytes"),
    (lambda f: f.load(f.bert_folder, initialize="random", adapter=LORA), "=random: .*initialize=pretrained"),
    (lambda f: f.load(f.bert_folder, layers=3, adapter=LORA), "Save the encoder"),
    (lambda f: f.load(adapter_folder(f), adapter=LORA), "has an adapter already.*juzhen export"),
    (lambda f: save_encoder(of_a_changed_base(f), f.tmp_path / "changed", card={}), "Merge the adapter"),
    (
        lambda f: SentenceEncoder.load(changed(adapter_folder(f), "adapter_config.json", peft_type="LOHA")),
        "LOHA .*LORA",
    ),
]
SIZES = [
    *(
        (lambda f, n=n: check_encoder_files(pretrained("builtin/mini_zh", layers=n)), f"layers={n}")
        for n in (0, 17, 100_000)
    ),
    *(
        (
            lambda f, n=n: check_encoder_files(pretrained("builtin/mini_zh", adapter=AdapterConfig(rank=n))),
            f"rank={n}",
        )
        for n in (257, 9999)
    ),
    (lambda f: check_encoder_files(pretrained(electra(f), layers=1)), "layers=1: electra"),
    (lambda f: f.load(f.distilbert_folder, layers=5), "layers=5: distilbert .*Leave it at null"),
    (lambda f: f.load(changed(f.folder, "config.json", vocab_size=9), initialize="random"), "embeds 9"),
    *(
        (
            lambda f, rope=rope, n=n: check_encoder_files(beyond(f, rope, n)),
            f"max_length={n + 1}: .* {n} tokens",
        )
        for rope, n in (
            ({"rope_type": "default"}, 40),
            ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 40}, 160),
            ({"rope_type": "dynamic", "factor": 4.0}, 40),
        )
    ),
]


def electra(f):
    return changed(
        shutil.copytree(BUILTIN / "mini_zh@2", f.tmp_path / "other"), "config.json", model_type="electra"
    )


def beyond(f, rope, limit):
    """A decoder that is asked for one token more than it has positions for."""
    folder = decoders.write("qwen3", f.tmp_path / "m", max_position_embeddings=40)
    changed(folder, "config.json", rope_parameters=rope | {"rope_theta": 1e4})
    return BackboneConfig(path=str(folder), max_length=limit + 1)


PLACES = [
    *(
        (lambda f, path=path: f.load(path), "no such folder")
        for path in ("./nowhere", "/nowhere/at/all", "a/b/c", "../nowhere", "长" * 200, f"/{'x' * 300}/y")
    ),
    (lambda f: f.load(f.bert_folder / "config.json"), "a file"),
    (lambda f: f.load("google-bert/not-there"), "HF_HUB_OFFLINE is set.*use a folder"),
    (lambda f: online(f, "http://127.0.0.1:9").load("google-bert/not-there"), "hub does not answer"),
    (lambda f: check_encoder_files(pretrained("google-bert/not-there")), "HF_HUB_OFFLINE is set.*cache"),
    (lambda f: check_encoder_files(pretrained(f.folder), start=str(f.tmp_path)), "neither a run nor"),
    (lambda f: load_encoder(f.encoder_folder / WEIGHTS), r"model\.safetensors: a file\. Give .*encoder"),
    (lambda f: load_encoder(written(f.tmp_path, "texts.txt", "一") / "texts.txt"), r"a file\. Give a run"),
    (lambda f: load_encoder(f.tmp_path / "nowhere"), "no such folder"),
    (lambda f: load_encoder(f.tmp_path), "neither a run nor an encoder"),
    (lambda f: load_encoder(unfinished(f.tmp_path)), r"encoder: config.json is missing"),
    (
        lambda f: save_encoder(f.load(f.bert_folder), written(f.tmp_path, "thesis.txt", "…"), card={}),
        r"thesis\.txt, .*not written by juzhen",
    ),
    *(
        (lambda f, kind=kind, source=source: kind.load(source), words)
        for kind in (SentenceEncoder, CrossEncoder)
        for source, words in (
            ("builtin/mini_hz", "builtin/mini_hz: .*Did you mean builtin/mini_zh"),
            ("nobody/nothing", "nobody/nothing: no such folder.*fetched"),
        )
    ),
    *(
        (lambda f, kind=kind: kind.load(f.encoder_folder.parent / "encoderr"), "Did you mean .*encoder")
        for kind in (SentenceEncoder, CrossEncoder)
    ),
]


def online(f, address):
    for name in ("HF_HUB_OFFLINE", "HTTPS_PROXY", "https_proxy"):
        f.monkeypatch.delenv(name, raising=False)
    f.monkeypatch.setenv("HF_ENDPOINT", address)
    return f


def unfinished(folder):
    (folder / "encoder").mkdir()
    return folder


MODULES = [
    *(
        (lambda f, config=config: f.load(pooled(f.folder, pooling=config)), f"{name} .*pooling=mean")
        for config, name in (
            ({"pooling_mode_cls_token": True, "pooling_mode_max_tokens": True}, r"cls \+ max"),
            ({"pooling_mode": ["mean", "max"]}, r"mean \+ max"),
            ({"pooling_mode": "last_word"}, "last_word"),
        )
    ),
    (lambda f: f.load(in_a_subfolder(f)), "0_Transformer: model.safetensors is missing"),
    *(
        (lambda f, config=config: f.load(dense(f.folder, **config)), words)
        for config, words in (
            ({"activation_function": "os.system"}, "activation=os.system: .*Known"),
            ({"module_output_name": "token_embeddings"}, "module_output_name=token_embeddings.*Use"),
            ({"module_input_name": "token_embeddings"}, "module_input_name=token_embeddings.*Use"),
            ({"module_input_name": "other"}, "module_input_name='other'.*sentence_embedding"),
        )
    ),
    # A layer without settings is not taken for a Normalize, which has none.
    (lambda f: f.load(written(dense(f.folder), "2_Dense/config.json", "{}")), "2_Dense"),
    (lambda f: f.load(without(dense(f.folder), "2_Dense/config.json")), "2_Dense"),
    (lambda f: f.load(pooled(f.folder, "Transformer", "Pooling", "LSTM")), r"models\.LSTM "),
    (lambda f: f.load(pooled(f.folder, "Transformer", package="custom_code")), r"custom_code\.Transformer "),
    (lambda f: f.load(pooled(f.folder, "Transformer", "Normalize", "Pooling")), "Pooling.*order.*Use"),
    *(
        (
            lambda f, kinds=kinds: SentenceEncoder.load(pooled(f.folder, "Transformer", *kinds)),
            r"modules\.json: .*no Pooling.*backbone\.pooling=mean",
        )
        for kinds in ((), ("Normalize",), ("Dropout",))
    ),
]


def in_a_subfolder(f):
    folder = f.tmp_path / "outer"
    shutil.copytree(f.bert_folder, folder / "0_Transformer")
    pooled(folder, "Transformer", "Pooling", transformer="0_Transformer")
    return without(folder, "0_Transformer/model.safetensors")


MODULE = '{"type": "sentence_transformers.models.Transformer", "path": ""}'
POOLING = '{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}'
OWN = {"pooling": "first_last", "normalize": False, "max_length": 9, "projections": []}
LAYOUTS = [
    (lambda f, name=name, content=content: read_layout(written(f.saved, name, content)), at(words))
    for name, content, words in (
        ("modules.json", "[]", "first one a Transformer"),
        ("modules.json", "[{}]", "path and type"),
        ("modules.json", MODULE.replace('""', '"../.."').join("[]"), r"'\.\./\.\.' is not a folder"),
        ("modules.json", POOLING.join("[]"), "Pooling .*order"),
        ("modules.json", f"[{MODULE}, {MODULE}]", "Transformer .*order"),
        ("modules.json", DEEP, "brackets in brackets"),
        ("modules.json", b"\xff\xfe[]", "UnicodeDecodeError"),
        ("config_sentence_transformers.json", "[1]", r"config_sentence_transformers\.json"),
        ("juzhen.json", "{}", "'pooling'"),
        ("juzhen.json", json.dumps(OWN | {"projections": ["../x"]}), r"'\.\./x' is not a folder"),
        ("juzhen.json", json.dumps(OWN | {"prompts": {"x": 1}}), "argument 'x'"),
    )
]


def projection(f, **config):
    Projection(32, 8, bias=True, activation=IDENTITY).save(f.saved / "2_Dense")
    return changed(f.saved, "2_Dense/config.json", **config) / "2_Dense"


def pairs(f, encoder=None):
    """The folder of a cross-encoder."""
    encoder = encoder or SentenceEncoder.load(f.bert_folder)
    joint = CrossEncoder(encoder, outputs=1, segments=True, symmetric=False, seed=0)
    return save_encoder(joint, f.tmp_path / "joint", card={})


def fewer_words(tensors):
    name = "embeddings.word_embeddings.weight"
    tensors[name] = tensors[name][:9].clone()


TOGETHER = [
    (
        lambda f: load_encoder(
            written(f.saved, "juzhen.json", json.dumps(OWN | {"projections": ["2_Dense"]}))
        ),
        at(r"2_Dense/config\.json"),
    ),
    (
        lambda f: load_encoder(
            written(
                projection(f).parent, "juzhen.json", json.dumps(OWN | {"projections": ["2_Dense", "2_Dense"]})
            )
        ),
        at(r"2_Dense/config\.json.*of 32 numbers, where 8"),
    ),
    (lambda f: Projection.load(projection(f, out_features=9)), at(r"config\.json and model\.safetensors")),
    (lambda f: Projection.load(projection(f, activation_function="os.system")), at("os.system.*Known")),
    (
        lambda f: CrossEncoder.load(changed(pairs(f), "crossencoder.json", outputs=3)),
        at(r"crossencoder\.json and head\.safetensors"),
    ),
    (lambda f: CrossEncoder.load(without(pairs(f), "crossencoder.json")), r"crossencoder\.json"),
    (
        lambda f: load_encoder(changed(f.saved, "config.json", hidden_size=64)),
        at("32 numbers .*64 by config"),
    ),
    (
        lambda f: load_encoder(changed(f.saved, "config.json", num_hidden_layers=1)),
        at(r"encoder\.layer\.1\..*first layers alone set layers"),
    ),
    (lambda f: load_encoder(reweighed(f.saved, lambda t: t[BIAS].fill_(torch.nan))), at(f"{BIAS} holds NaN")),
]
LARGER = [
    (lambda f, change=change: load_encoder(change(f.saved)), at(words))
    for change, words in (
        (lambda folder: changed(folder, "config.json", vocab_size=7306), "7305 × 32 .*7306 × 32"),
        (lambda folder: changed(folder, "config.json", num_hidden_layers=0), "config.json does not have"),
        (
            lambda folder: changed(folder, "config.json", num_hidden_layers=5),
            r"missing .*encoder\.layer\.2\.",
        ),
        (lambda folder: changed(folder, "config.json", num_attention_heads=0), "weights do not load .*zero"),
        (lambda folder: written(folder, "config.json", DEEP), r"config\.json: .*brackets in brackets"),
        (
            lambda folder: written(folder, "tokenizer.json", '{"model": {"type": "WordPiece"}}'),
            "tokenizer does not load",
        ),
        (lambda folder: written(folder, WEIGHTS, b""), "weights do not load"),
        (
            lambda folder: reweighed(changed(folder, "config.json", vocab_size=9), fewer_words),
            "7305 tokens.*embeds 9",
        ),
    )
]
LOST = "encoder.layer.1.output.dense.weight"
BART = '{"model_type": "bart", "is_encoder_decoder": true}'
BROKEN = [
    (lambda f, change=change, look=look: load_broken(f, change, look), at(words))
    for change, look, words in (
        (lambda at: without(at, "config.json"), "config.json is missing", "config.json is missing"),
        (lambda at: written(at, "config.json", "{"), "config.json", "config.json"),
        (lambda at: without(at, "tokenizer.json"), "no tokenizer. Expected one of", "no tokenizer"),
        (lambda at: cut_short(at, "tokenizer.json"), None, "tokenizer does not load"),
        (lambda at: changed(at, "config.json", vocab_size=9), "embeds 9", "53 × 32 numbers|embeds 9"),
        (lambda at: without(at, WEIGHTS), f"{WEIGHTS} is missing", "missing.*initialize=random"),
        (lambda at: cut_short(at, WEIGHTS), None, "weights do not load"),
        (pickled, None, r"only pytorch_model\.bin .*save_pretrained"),
        (lambda at: reweighed(at, lambda tensors: tensors.pop(LOST)), None, rf"missing for {LOST} \(1 "),
        (lambda at: changed(at, "config.json", hidden_size=64), None, "64"),
        (lambda at: changed(at, "config.json", model_type="nope"), None, r"config\.json: .*nope"),
        (lambda at: written(at, "config.json", BART), None, "encoder with decoder"),
    )
]


def load_broken(f, change, look):
    """A look at the files sees it as well, where it must."""
    config = pretrained(f.folder)
    assert load_backbone(config, seed=0).dim == 32
    change(f.folder)
    if look is not None:
        with pytest.raises(UserError, match=look):
            check_encoder_files(config)
    load_backbone(config, seed=0)


FAMILIES = [
    *(
        (lambda f, family=family: SentenceEncoder.load(family_folder(f, family)), f"{family}: .*{words}")
        for family, words in {
            "convbert": "Choose another encoder",
            "fnet": "Choose another encoder",
            "nystromformer": "Choose another encoder",
            "yoso": "Choose another encoder",
            "big_bird": "sparse attention .*original_full",
            "tapas": "does not read texts",
            "reformer": "do not have the 32 numbers",
            "beit": "no table of tokens",
            "dpr": "does not read texts",
        }.items()
    ),
    (lambda f: SentenceEncoder.load(with_a_seen_padding(f)), "mobilebert: .*Choose another encoder"),
    (
        lambda f: load_backbone(
            pretrained(changed(decoder(f), "config.json", auto_map={}, model_type="neobert")), seed=0
        ),
        "neobert",
    ),
    (lambda f: SentenceEncoder.load(without_a_named_end(f)), "eos_token is missing"),
    *(
        (
            lambda f, family=family: f.load(
                decoders.write(family, f.tmp_path / "m"), attention="bidirectional"
            ),
            f"attention=bidirectional: {family} .* null",
        )
        for family in ("modernbert", "bert", "gpt2", "deberta-v2")
    ),
]


def family_folder(f, family):
    return families.write(family, f.tmp_path, families.build(family), segments=True)


def with_a_seen_padding(f):
    model = families.build("mobilebert")
    with torch.no_grad():
        # MobileBERT puts each token's right neighbour beside it
        model.embeddings.word_embeddings.weight[0] = 1.0
    return families.write("mobilebert", f.tmp_path, model, segments=True)


def decoder(f):
    return decoders.write("qwen3", f.tmp_path / "m", ends="none")


def without_a_named_end(f):
    folder = decoders.write("llama", f.tmp_path / "m", ends="none")
    settings = json.loads((folder / "tokenizer_config.json").read_text()) | {"add_eos_token": True}
    del settings["eos_token"]
    return written(folder, "tokenizer_config.json", json.dumps(settings))


def sparse(f):
    encoder = SparseEncoder.around(SentenceEncoder.load(f.bert_folder))
    return encoder.save(f.tmp_path / "sparse")


def tokens(f, **rules):
    from juzhen.families.late.folder import MultiVectorSettings

    reading = MultiVectorSettings(**{"query_length": 16, "document_length": 30, "expand_to": 16} | rules)
    return MultiVectorEncoder.around(SentenceEncoder.load(f.bert_folder), dim=8, reading=reading)


def answers(f, **changes):
    folder = GenerativeReranker.around(last(f.language_model)).save(f.tmp_path / "asked")
    if changes:
        rerankers.answer_folder(folder, **changes)
    return folder


def bilinear(f):
    encoder = SentenceEncoder.load(f.bert_folder)
    encoder.score_head = BilinearScore(encoder.dim)
    return save_encoder(encoder, f.tmp_path / "form", card={})


def spoilt(folder, value, name, tensor):
    poisoned(folder / name, tensor, value)
    return folder


def layer(f, made):
    made.save(f.tmp_path / "layer")
    return f.tmp_path / "layer"


def not_finite(value):
    """Numbers that are none, in each file that holds tensors or settings."""
    return [
        (
            lambda f: Projection.load(
                spoilt(
                    layer(f, Projection(8, 4, bias=True, activation=IDENTITY)),
                    value,
                    WEIGHTS,
                    "linear.weight",
                )
            ),
            "linear.weight holds NaN",
        ),
        (
            lambda f: OutputNorm.load(spoilt(layer(f, OutputNorm(8)), value, WEIGHTS, "norm.bias")),
            "norm.bias holds NaN",
        ),
        (
            lambda f: SentenceEncoder.load(spoilt(bilinear(f), value, "score.safetensors", "form")),
            "form holds NaN",
        ),
        (
            lambda f: CrossEncoder.load(spoilt(pairs(f), value, "head.safetensors", "weight")),
            "weight holds NaN",
        ),
        (
            lambda f: SparseEncoder.load(
                spoilt(sparse(f), value, WEIGHTS, "cls.predictions.transform.dense.bias")
            ),
            "cls.predictions.transform.dense.bias holds NaN",
        ),
        (
            lambda f: CrossEncoder.load(spoilt(answers(f), value, WEIGHTS, "lm_head.weight")),
            "lm_head.weight holds NaN",
        ),
        (lambda f: SentenceEncoder.load(spoilt_adapter(f, value)), "lora_B.* holds NaN"),
    ]


def spoilt_adapter(f, value):
    folder = adapter_folder(f)
    tensors = load_file(folder / "adapter_model.safetensors")
    name = next(name for name in tensors if "lora_B" in name)
    return spoilt(folder, value, "adapter_model.safetensors", name)


NOT_FINITE = [
    *(
        (
            lambda f, n=n: SentenceEncoder.load(changed(f.folder, "config.json", layer_norm_eps=n)),
            "layer_norm_eps",
        )
        for n in (float("nan"), float("inf"))
    ),
    *(
        (
            lambda f, n=n: SentenceEncoder.load(
                changed(adapter_folder(f), "adapter_config.json", lora_alpha=n)
            ),
            r"adapter_config\.json: lora_alpha",
        )
        for n in (float("nan"), float("inf"))
    ),
    *not_finite(torch.nan),
    *not_finite(-torch.inf),
]
ANSWERS = [
    (
        lambda f: setattr(
            GenerativeReranker.around(last(f.language_model), template="{query}> {document}."),
            "instruction",
            "x",
        ),
        "instruction='x': .*no place for one",
    ),
    *(
        (lambda f, options=options: GenerativeReranker.around(last(f.language_model), **options), words)
        for options, words in (
            ({"true_answer": "perhaps so"}, "true_answer=perhaps so: .*no such token"),
            ({"template": "{document} {query}"}, r"\{query\} and then \{document\}"),
            ({"template": "{query}"}, "expected the places"),
            ({"template": "{instructions} {query} {document}"}, r"template=.*\{instructions\}.*instruction"),
            ({"template": "{query}{document}"}, "query and document across ''"),
            ({"template": "{query}>{document}", "instruction": "x"}, "no place {instruction}"),
            ({"false_answer": "yes"}, r"not among the [\d,]+ tokens"),
        )
    ),
    (
        lambda f: GenerativeReranker.around(last(f.language_model, max_length=100)),
        r"max_length=100: .*\d+ tokens",
    ),
    (lambda f: answers_of(f, "qwen3", attention="bidirectional"), "needs a causal language model"),
    (lambda f: answers_of(f, "gemma2"), "final_logit_softcapping=30"),
    *(
        (lambda f, change=change: CrossEncoder.load(answers(f, **change)), words)
        for change, words in (
            ({"transformer_task": "any-to-any"}, "transformer_task=.*expected text-generation"),
            ({"processing_kwargs": {"text": {"max_length": 9}}}, "processing_kwargs: text: max_length"),
            ({"modality_config": {"image": {}}}, "modality_config: text=None"),
            ({"model_kwargs": {"rope_scaling": 2}}, "model_kwargs: rope_scaling"),
        )
    ),
    (
        lambda f: CrossEncoder.load(reweighed(answers(f), lambda tensors: tensors.pop("lm_head.weight"))),
        r"lm_head\.weight is missing in model\.safetensors",
    ),
]


def answers_of(f, family, **options):
    place = rerankers.write(family, f.tmp_path / "m", by_bytes=False)
    return GenerativeReranker.around(last(place, **options), true_answer="a", false_answer="b")


def listed(folder, *kinds):
    return written(
        folder, "modules.json", json.dumps([{"path": kind[:-1], "type": f"a.{kind}"} for kind in kinds])
    )


KINDS = [
    (lambda f: PromptEncoder.load(f.bert_folder), r"holds no templates.*SentenceEncoder\.load"),
    (lambda f: SentenceEncoder.load(pairs(f)), r"holds a cross-encoder.*CrossEncoder\.load"),
    (lambda f: CrossEncoder.load(f.bert_folder), r"not a cross-encoder.*SentenceEncoder\.load"),
    (lambda f: SentenceEncoder.load(answers(f)), r"CrossEncoder\.load"),
    (lambda f: tokens(f, query_length=900, expand_to=900), "query_length=900"),
    (lambda f: SentenceEncoder.load(tokens(f).save(f.tmp_path / "late")), r"MultiVectorEncoder\.load"),
    (lambda f: MultiVectorEncoder.load(BUILTIN / "mini_zh@2"), "holds no encoder of token vectors"),
    (
        lambda f: MultiVectorEncoder.load(listed(tokens(f).save(f.tmp_path / "late"), "Transformer", "LSTM")),
        "Transformer, LSTM. Expected Transformer, Dense",
    ),
    (lambda f: SentenceEncoder.load(sparse(f)), r"SparseEncoder\.load"),
    (lambda f: SparseEncoder.load(BUILTIN / "mini_zh@2"), "holds no"),
    (
        lambda f: SparseEncoder.load(
            changed(sparse(f), "config_sentence_transformers.json", max_active_dims=8)
        ),
        "max_active_dims is 8",
    ),
    (
        lambda f: SparseEncoder.load(listed(sparse(f), "SparseStaticEmbedding")),
        r"modules\.json: .*Use another",
    ),
    (
        lambda f: SparseEncoder.load(listed(sparse(f), "SparseAutoEncoder")),
        r"modules\.json: .*SpladePooling.*take it out.*model_type",
    ),
    (
        lambda f: SparseEncoder.around(
            load_backbone(BackboneConfig(path="builtin/decoder", initialize="random", layers=1), seed=0)
        ),
        "masked language model.*such as a BERT",
    ),
]


def with_prompts(f):
    from test_prompts import with_prompts

    return with_prompts(f.bert_folder, f.tmp_path / "model")


def cut_at_the_front(f):
    from transformers import AutoTokenizer

    folder = with_prompts(f)
    AutoTokenizer.from_pretrained(folder, truncation_side="left").save_pretrained(folder)
    return folder


BEFORE = {"prompts": {"query": "你是: ", "passage": "在这: "}, "default_prompt_name": "query"}
TEMPLATE = "“[X]”，[MASK]"
PROMPTS = [
    (lambda f: f.load(with_prompts(f), default_prompt_name="qeury"), "=qeury: .* Did you mean query"),
    (lambda f: f.load(with_prompts(f), prompts={"other": "x"}), "default_prompt_name=query: no such prompt"),
    (lambda f: f.load(with_prompts(f), max_length=5), "max_length=5: .* 5 tokens .* max_length=21"),
    (
        lambda f: f.load(f.bert_folder, pooling="last", include_prompt=False, **BEFORE),
        "include_prompt=false: pooling=last .*Leave it out",
    ),
    (lambda f: f.load(cut_at_the_front(f)), "truncation_side to right"),
    (lambda f: pairs(f, f.load(f.bert_folder, **BEFORE)), "two sentences in one.*default_prompt_name=none"),
    (
        lambda f: PromptEncoder.around(f.load(f.bert_folder, **BEFORE), Templates(TEMPLATE)),
        "templates.*default_prompt_name=none",
    ),
    (
        lambda f: check_encoder_files(pretrained(with_prompts(f), **BEFORE), start=str(f.bert_folder)),
        "has the prompt '' .*the path of its encoder folder",
    ),
    *(
        (lambda f, changes=changes: templates(**changes), words)
        for changes, words in (
            ({"anchor": "no place [MASK]"}, r"expected one \[X\]"),
            ({"anchor": "[X] and [X] [MASK]"}, r"expected one \[X\]"),
            ({"negative": "[X]"}, r"\[MASK\].*read=pooling"),
            ({"stage_2": "so it is [MASK]"}, "IT_SPECIAL_TOKEN"),
            ({"read": "pooling"}, "read=pooling"),
        )
    ),
    (
        lambda f: PromptEncoder.around(f.load(f.bert_folder, max_length=6), templates()),
        "longest template takes",
    ),
]


def templates(**changes):
    from test_prompt_encoder import prompts

    return prompts(**changes)


@pytest.fixture(scope="module")
def static(tmp_path_factory):
    """A table of 16 numbers for each token of the built-in encoder, in the layout of an export."""
    from test_static import write_table

    return write_table(tmp_path_factory.mktemp("static"))


TABLE = np.ones((4, 2), dtype=np.float32)
STATIC = [
    *(
        (
            lambda f, tensors=tensors: SentenceEncoder.load(static_of(f, tensors)),
            rf"model\.safetensors: {words}.* Copy the file again",
        )
        for tensors, words in (
            ({"embeddings": TABLE[0]}, "embeddings has the shape"),
            ({"embedding.weight": TABLE[None]}, r"embedding\.weight has the shape"),
            ({"embeddings": TABLE[:0]}, "embeddings has the shape"),
            ({"embeddings": TABLE, "mapping": np.array([0, -1])}, "mapping names rows from -1"),
            ({"embeddings": TABLE, "mapping": np.array([0, 4])}, "mapping names rows from 0 to 4"),
            ({"embeddings": TABLE, "mapping": np.array([0.5, 1])}, "mapping names rows"),
            ({"embeddings": TABLE, "mapping": np.array([False, True])}, "mapping names rows"),
            ({"embeddings": TABLE, "mapping": np.zeros((2, 2), dtype=np.int64)}, "mapping has the shape"),
            ({"embeddings": TABLE, "weights": np.ones(1)}, "weights has the shape"),
            ({"embeddings": TABLE, "weights": np.ones((4, 2))}, "weights has the shape"),
        )
    ),
    *(
        (lambda f, tensors=tensors: SentenceEncoder.load(static_of(f, tensors)), r"torch\.bool.*float32")
        for tensors in ({"embeddings": TABLE > 0}, {"embeddings": TABLE, "weights": TABLE[:, 0] > 0})
    ),
    (lambda f: SentenceEncoder.load(static_of(f, {"layer": TABLE})), r"config\.json is missing"),
    (lambda f: SentenceEncoder.load(overflowing(f)), "holds NaN or infinite"),
    *(
        (lambda f, words=words: train_on_a_table(f, *words.split()), told)
        for words, told in {
            "backbone.layers=2": "static_embedding .*Leave it at null",
            "backbone.dropout=0.1": "static_embedding .*Leave it at null",
            "model=crossencoder loss=bce dataset=[demo_qmc]": "no special token between two sentences",
            "model=colbert": "one vector for a token in all texts",
            "model=splade": "static_embedding: .*masked language model",
        }.items()
    ),
]


def static_of(f, tensors):
    from safetensors.numpy import save_file as save_arrays

    folder = shutil.copytree(f.static, f.tmp_path / "table")
    save_arrays(tensors, folder / WEIGHTS)
    return folder


def overflowing(f):
    table = load_file(f.static / WEIGHTS)["embeddings"].numpy() + 1e20
    return static_of(f, {"embeddings": table, "weights": np.full(len(table), 1e19, np.float32)})


def train_on_a_table(f, *words):
    from jobs import run_job

    run_job(f.tmp_path, f.static, "backbone=local", *words)


def damaged(f, name, damage):
    """A folder of modules, in one of whose files the text is another."""
    path = pooled(f.folder, pooling={"pooling_mode_mean_tokens": True}) / name
    path.write_text(damage(path.read_text(encoding="utf-8") if path.exists() else ""), encoding="utf-8")
    SentenceEncoder.load(f.folder)


WAY_OUT = at(r"Copy the files? again|Mend the file|Use another")
DAMAGED = [
    *(
        (lambda f, name=name, damage=damage: damaged(f, name, damage), WAY_OUT)
        for name, damage in (
            ("config.json", lambda text: text[: len(text) // 2]),
            ("tokenizer.json", lambda text: json.dumps({"version": "1.0"})),
            ("tokenizer.json", lambda text: ""),
            ("tokenizer_config.json", lambda text: "[1]"),
            ("modules.json", lambda text: "{"),
            ("1_Pooling/config.json", lambda text: "not json"),
            ("config_sentence_transformers.json", lambda text: '{"prompts": '),
            ("sentence_bert_config.json", lambda text: "\x00"),
        )
    ),
    *(
        (
            lambda f, name=name, more={key: value}: damaged(
                f, name, lambda text: json.dumps(json.loads(text or "{}") | more)
            ),
            rf"(?=.*{name}).*{key}=",
        )
        for name, key in (
            ("sentence_bert_config.json", "do_lower_case"),
            ("config_sentence_transformers.json", "include_prompt"),
            ("1_Pooling/config.json", "pooling_mode_cls_token"),
            ("1_Pooling/config.json", "include_prompt"),
        )
        for value in ("no", "false", [], 2)
    ),
    (
        lambda f: CrossEncoder.load(changed(pairs(f), "crossencoder.json", symmetric="no")),
        "crossencoder.json: symmetric='no'",
    ),
    (lambda f: raised(KeyError("added_tokens")), r"^x: KeyError: 'added_tokens'\. Copy the files again"),
    (lambda f: raised(ValueError("This needs trust_remote_code=True")), "Use another model$"),
]


def raised(error):
    with naming("x"):
        raise error


MISSPELT = [
    (lambda f, given=given: f.load(f.bert_folder, **given), words)
    for given, words in (
        ({"pooling": "frist_last"}, r"pooling=frist_last: .*'first_last'"),
        ({"initialize": "pretraned"}, "initialize=pretraned: .*'pretrained'"),
        ({"dropout": 1.5}, r"dropout=1\.5: .*less than 1"),
        ({"max_length": 2}, r"max_length=2: .*equal to 3"),
        ({"max_length": True}, "max_length=true"),
        ({"poling": "mean"}, "poling: .*pooling"),
    )
] + [
    (lambda f, make=make, given={name: value}: make(f, given), rf"{key}{name}\b")
    for name, value in (
        ("alpha", 0),
        ("alpha", float("nan")),
        ("rank", 0),
        ("rank", True),
        ("rank", 8.0),
        ("dropout", "x"),
        ("kind", "lorra"),
        ("targets", "query"),
        ("base", None),
        ("rnak", 4),
    )
    for make, key in (
        (lambda f, given: f.load(f.bert_folder, adapter=given), r"adapter\."),
        (lambda f, given: AdapterConfig(**given), "^"),
    )
]
REFUSED = {
    "an adapter": ADAPTERS,
    "damage": DAMAGED,
    "a misspelt setting": MISSPELT,
    "a size": SIZES,
    "a place": PLACES,
    "modules": MODULES,
    "a layout": LAYOUTS,
    "files together": TOGETHER,
    "larger files": LARGER,
    "a broken file": BROKEN,
    "a family": FAMILIES,
    "no number": NOT_FINITE,
    "answers": ANSWERS,
    "a kind": KINDS,
    "prompts": PROMPTS,
    "a table": STATIC,
}


@pytest.mark.parametrize(("call", "words"), rows(REFUSED, slow=["larger files"]))
@pytest.mark.sampled(3)
def test_a_folder_or_setting_is_refused_by_its_name(f, call, words):
    with pytest.raises(UserError, match=words) as caught:
        call(f)
    told = str(caught.value)
    assert "\n" not in told
    assert "trust_remote_code" not in told
    assert len(told) < 900
