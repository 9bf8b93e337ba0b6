"""Folders of encoders that were mixed up, cut short or written by hand: which file it is, and what is wrong with it."""

import json
import shutil

import pytest
import torch
from jobs import tiny_encoder
from safetensors.torch import load_file, save_file

from juzhen.core.errors import UserError
from juzhen.encoders import load_encoder, save_encoder
from juzhen.encoders.bundle import save_cross_encoder
from juzhen.encoders.cross_encoder import CrossEncoder
from juzhen.encoders.layout import read_layout
from juzhen.encoders.projection import Projection

DEEP = "[" * 100_000


@pytest.fixture(scope="module")
def whole(tmp_path_factory, tiny_backbone):
    """An encoder of two layers as we write it."""
    root = tmp_path_factory.mktemp("whole")
    shutil.copytree(tiny_backbone, root / "plain")
    config = json.loads((root / "plain" / "config.json").read_text())
    (root / "plain" / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 2}))
    return save_encoder(tiny_encoder(root / "plain"), root / "encoder", card={})


@pytest.fixture
def folder(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "encoder")


def refused(load, folder, *parts):
    with pytest.raises(UserError) as caught:
        load(folder)
    told = str(caught.value)
    for part in (str(folder), *parts):
        assert part in told
    assert "\n" not in told
    assert "trust_remote_code" not in told
    assert len(told) < 900


def write(folder, name, content):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


MODULE = '{"type": "sentence_transformers.models.Transformer", "path": ""}'
POOLING = '{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}'
OWN = {"pooling": "first_last", "normalize": False, "max_length": 9, "projections": []}
LAYOUTS = [
    ("modules.json", "{}", "expected a list of modules"),
    ("modules.json", "[]", "the first one a Transformer"),
    ("modules.json", "null", "expected a list of modules"),
    ("modules.json", "[1]", "holds 1, expected an object"),
    ("modules.json", "[{}]", "type is missing"),
    ("modules.json", '[{"type": 1, "path": ""}]', "type is 1, expected a text"),
    ("modules.json", MODULE.replace('""', "1").join("[]"), "path is 1, expected a text"),
    ("modules.json", MODULE.replace('""', '"../.."').join("[]"), "'../..' is no folder of this encoder"),
    ("modules.json", POOLING.join("[]"), "Pooling stands in an order"),
    ("modules.json", f"[{MODULE}, {MODULE}]", "Transformer stands in an order"),
    ("modules.json", DEEP, "not valid JSON"),
    ("modules.json", b"\xff\xfe[]", "not valid JSON"),
    ("1_Pooling/config.json", "[]", "holds [], expected an object"),
    ("1_Pooling/config.json", '{"pooling_mode": 7}', "pooling_mode is 7, expected a text or a list"),
    ("sentence_bert_config.json", "[]", "expected an object"),
    ("sentence_bert_config.json", '{"max_seq_length": -3}', "max_seq_length is -3, expected a whole number"),
    ("sentence_bert_config.json", '{"max_seq_length": 1.5}', "max_seq_length is 1.5"),
    ("sentence_bert_config.json", '{"max_seq_length": true}', "max_seq_length is True"),
    ("config_sentence_transformers.json", "[]", "expected an object"),
    ("config_sentence_transformers.json", '{"prompts": [1]}', "prompts is [1], expected an object"),
    ("juzhen.json", "[]", "expected an object"),
    ("juzhen.json", "{}", "pooling is missing"),
    ("juzhen.json", json.dumps(OWN | {"pooling": "mea"}), "mean"),
    ("juzhen.json", json.dumps(OWN | {"normalize": "x"}), "normalize is 'x', expected true or false"),
    ("juzhen.json", json.dumps(OWN | {"max_length": "x" * 999}), "expected a whole number above 0 or null"),
    ("juzhen.json", json.dumps(OWN | {"projections": ["../x"]}), "'../x' is no folder"),
    ("juzhen.json", json.dumps(OWN | {"prompts": {"x": 1}}), "no templates"),
]


@pytest.mark.parametrize(("name", "content", "part"), LAYOUTS)
def test_what_a_folder_says_of_itself(folder, name, content, part):
    write(folder, name, content)
    with pytest.raises(UserError) as caught:
        read_layout(folder)
    told = str(caught.value)
    assert part in told
    assert "\n" not in told
    assert len(told) < 500


def test_a_projection_that_is_not_there_or_does_not_fit(folder):
    write(folder, "juzhen.json", json.dumps(OWN | {"projections": ["2_Dense"]}))
    refused(load_encoder, folder, "2_Dense/config.json: missing")
    Projection(32, 8, bias=True, activation="torch.nn.modules.linear.Identity").save(folder / "2_Dense")
    config = json.loads((folder / "2_Dense" / "config.json").read_text())
    for change, part in (
        ({"in_features": "x"}, "in_features is 'x', expected a whole number"),
        ({"out_features": 9}, "config.json and model.safetensors do not belong together"),
        ({"bias": 1}, "bias is 1, expected true or false"),
        ({"activation_function": "os.system"}, "activation 'os.system' is not supported"),
    ):
        write(folder, "2_Dense/config.json", json.dumps(config | change))
        refused(Projection.load, folder / "2_Dense", part)


def config(**changes):
    def change(folder):
        told = json.loads((folder / "config.json").read_text())
        write(folder, "config.json", json.dumps(told | changes))

    return change


def weights(change):
    def changed(folder):
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

    return changed


def file(name, content):
    return lambda folder: write(folder, name, content)


def header(size, content=b"{}"):
    return file("model.safetensors", size.to_bytes(8, "little") + content)


NAME = "encoder.layer.0.attention.output.LayerNorm.bias"
WHOLE = {
    "a wider model": (
        config(hidden_size=64),
        ["they are not those of config.json", "has 32 numbers in the weights, 64 by config.json", "and 3"],
    ),
    "another vocabulary": (
        config(vocab_size=7306),
        ["embeddings.word_embeddings.weight has 7305 × 32 numbers", "7306 × 32"],
    ),
    "fewer layers": (
        config(num_hidden_layers=1),
        ["encoder.layer.1.", "num_hidden_layers", "set layers"],
    ),
    "weights that are none": (
        weights(lambda tensors: tensors[NAME].fill_(torch.nan)),
        [f"{NAME} holds NaN or infinite numbers"],
    ),
}
MORE = {
    "no layers": (
        config(num_hidden_layers=0),
        ["which config.json does not have", "is num_hidden_layers too low?"],
    ),
    "more layers": (config(num_hidden_layers=5), ["weights missing for encoder.layer.2."]),
    "odd heads": (config(num_attention_heads=3), ["not a multiple of the number of attention heads"]),
    "no heads": (config(num_attention_heads=0), ["the weights do not load: ZeroDivisionError"]),
    "fewer words": (config(vocab_size=10), ["7305 × 32 numbers in the weights, 10 × 32"]),
    "fewer positions": (config(max_position_embeddings=4), ["512 × 32 numbers in the weights, 4 × 32"]),
    "no such activation": (config(hidden_act="nope"), ["the weights do not load: KeyError: 'nope'"]),
    "a size below 0": (config(hidden_size=-32), ["negative dimension"]),
    "a deep config": (file("config.json", DEEP), ["config.json: transformers cannot read it"]),
    "a list for a tokenizer": (file("tokenizer.json", "[]"), ["tokenizer.json: the tokenizer does not load"]),
    "half a tokenizer": (
        file("tokenizer.json", '{"model": {"type": "WordPiece"}}'),
        ["tokenizer.json: the tokenizer does not load"],
    ),
    "bytes for a tokenizer": (file("tokenizer.json", b"\xff\0"), ["tokenizer.json"]),
    "a list of settings": (file("tokenizer_config.json", "[]"), ["the tokenizer does not load"]),
    "no weights at all": (file("model.safetensors", b""), ["the weights do not load"]),
    "a header of nothing": (header(2), ["weights missing for"]),
    "a header without end": (header(2**60), ["the weights do not load"]),
    "words that no row embeds": (
        lambda folder: (config(vocab_size=9)(folder), weights(fewer_words)(folder)),
        ["the tokenizer has 7305 tokens, but the model embeds 9"],
    ),
}


def fewer_words(tensors):
    tensors["embeddings.word_embeddings.weight"] = tensors["embeddings.word_embeddings.weight"][:9].clone()


@pytest.mark.parametrize("name", [*WHOLE, *(pytest.param(name, marks=pytest.mark.slow) for name in MORE)])
def test_files_that_do_not_belong_together(folder, name):
    change, parts = (WHOLE | MORE)[name]
    change(folder)
    refused(load_encoder, folder, *parts)


def test_a_whole_folder_is_read(folder):
    assert load_encoder(folder).max_length == 32


def test_the_settings_of_a_cross_encoder(whole, tmp_path):
    joint = CrossEncoder(load_encoder(whole), outputs=1, segments=True, symmetric=False, seed=0)
    folder = save_cross_encoder(joint, tmp_path / "joint", card={})
    settings = json.loads((folder / "crossencoder.json").read_text())
    for change, part in (
        ({"outputs": 3}, "crossencoder.json and head.safetensors do not belong together"),
        ({"outputs": 0}, "outputs is 0, expected a whole number above 0"),
        ({"segments": None}, "segments is None, expected true or false"),
        ({"pooling": 3}, "pooling is 3, expected a text"),
    ):
        write(folder, "crossencoder.json", json.dumps(settings | change))
        refused(CrossEncoder.load, folder, part)
    write(folder, "crossencoder.json", "[]")
    refused(CrossEncoder.load, folder, "expected an object")
