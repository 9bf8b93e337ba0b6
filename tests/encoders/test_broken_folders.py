"""Folders of encoders that were mixed up, cut short or written by hand: which file it is, and what is wrong with it."""

import json
import re
import shutil

import pytest
import torch
from jobs import tiny_encoder
from safetensors.torch import load_file, save_file

from juzhen.core.errors import UserError
from juzhen.encoders import load_encoder, save_encoder
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
    ("modules.json", "[]", "the first one a Transformer"),
    ("modules.json", "[{}]", "path and type"),
    ("modules.json", MODULE.replace('""', '"../.."').join("[]"), "'../..' is not a folder of this encoder"),
    ("modules.json", POOLING.join("[]"), "Pooling is in an unsupported order"),
    ("modules.json", f"[{MODULE}, {MODULE}]", "Transformer is in an unsupported order"),
    ("modules.json", DEEP, "brackets in brackets"),
    ("modules.json", b"\xff\xfe[]", "UnicodeDecodeError"),
    ("config_sentence_transformers.json", "[1]", "config_sentence_transformers.json"),
    ("juzhen.json", "{}", "KeyError: 'pooling'"),
    ("juzhen.json", json.dumps(OWN | {"projections": ["../x"]}), "'../x' is not a folder"),
    ("juzhen.json", json.dumps(OWN | {"prompts": {"x": 1}}), "unexpected keyword argument 'x'"),
]


@pytest.mark.parametrize(("name", "content", "part"), LAYOUTS)
def test_what_a_folder_says_of_itself(folder, name, content, part):
    write(folder, name, content)
    refused(read_layout, folder, part)


def test_a_projection_that_is_not_there_or_does_not_fit(folder):
    write(folder, "juzhen.json", json.dumps(OWN | {"projections": ["2_Dense"]}))
    refused(load_encoder, folder, "2_Dense/config.json")
    Projection(32, 8, bias=True, activation="torch.nn.modules.linear.Identity").save(folder / "2_Dense")
    config = json.loads((folder / "2_Dense" / "config.json").read_text())
    for change, part in (
        ({"out_features": 9}, "config.json and model.safetensors do not belong together"),
        ({"activation_function": "os.system"}, "activation=os.system: unknown choice. Known"),
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


NAME = "encoder.layer.0.attention.output.LayerNorm.bias"
WHOLE = {
    "a wider model": (config(hidden_size=64), ["32 numbers in the weights", "64 by config.json"]),
    "fewer layers": (config(num_hidden_layers=1), ["encoder.layer.1.", "first layers alone set layers"]),
    "weights that are none": (
        weights(lambda tensors: tensors[NAME].fill_(torch.nan)),
        [f"{NAME} holds NaN or infinite numbers"],
    ),
}
MORE = {
    "another vocabulary": (config(vocab_size=7306), ["7305 × 32 numbers", "7306 × 32"]),
    "no layers": (config(num_hidden_layers=0), ["which config.json does not have"]),
    "more layers": (config(num_hidden_layers=5), ["weights missing for encoder.layer.2."]),
    "no heads": (config(num_attention_heads=0), ["the weights do not load: ZeroDivisionError"]),
    "a deep config": (file("config.json", DEEP), ["config.json: ValueError: brackets in brackets"]),
    "half a tokenizer": (
        file("tokenizer.json", '{"model": {"type": "WordPiece"}}'),
        ["the tokenizer does not load"],
    ),
    "no weights at all": (file("model.safetensors", b""), ["the weights do not load"]),
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
    folder = save_encoder(joint, tmp_path / "joint", card={})
    settings = json.loads((folder / "crossencoder.json").read_text())
    write(folder, "crossencoder.json", json.dumps(settings | {"outputs": 3}))
    refused(CrossEncoder.load, folder, "crossencoder.json and head.safetensors do not belong together")


def test_a_file_is_no_folder_and_names_its_own(tmp_path, encoder_folder):
    weights = encoder_folder / "model.safetensors"
    with pytest.raises(UserError, match=re.escape(f"{weights}: a file. Give {encoder_folder}")):
        load_encoder(weights)
    other = tmp_path / "texts.txt"
    other.write_text("一")
    with pytest.raises(UserError, match=r"a file\. Give a run"):
        load_encoder(other)
