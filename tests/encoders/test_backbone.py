import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from juzhen.core.errors import UserError
from juzhen.core.paths import ROOT
from juzhen.encoders import SentenceEncoder, load_backbone, save_encoder
from juzhen.encoders.backbone_config import BackboneConfig
from juzhen.encoders.projection import Projection


def write_json(path, content):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def write_modules(folder, kinds, *, package="sentence_transformers.models", transformer=""):
    paths = {kind: "" if kind == "Transformer" else f"{place}_{kind}" for place, kind in enumerate(kinds)}
    paths["Transformer"] = transformer
    modules = [
        {"idx": place, "name": str(place), "path": paths[kind], "type": f"{package}.{kind}"}
        for place, kind in enumerate(kinds)
    ]
    write_json(folder / "modules.json", modules)


def test_a_plain_folder_means_mean_pooling_and_the_models_length(folder, load):
    encoder = load(folder)
    assert (encoder.pooling, encoder.normalize, encoder.max_length, encoder.dim) == ("mean", False, 32, 32)
    assert encoder.training
    assert encoder.backbone.pooler is None
    assert encoder.backbone.config._attn_implementation == "packed"


def test_pooling_is_read_or_chosen_or_said_to_be_the_mean(folder, load):
    with pytest.warns(UserWarning, match="pooling=mean") as told:
        SentenceEncoder.load(folder)
    assert len(told) == 1
    assert not load(folder, pooling="cls").load_warnings
    write_modules(folder, ["Transformer"])
    with pytest.raises(UserError, match="no Pooling"):
        load(folder)
    assert load(folder, pooling="cls").pooling == "cls"


def test_the_weights_are_those_of_the_file_in_float32(folder, load):
    stored = load_file(folder / "model.safetensors")
    save_file(
        {name: value.half() for name, value in stored.items()}, folder / "model.safetensors", {"format": "pt"}
    )
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"dtype": "float16"}))
    encoder = load(folder)
    for name, weight in encoder.backbone.state_dict().items():
        assert weight.dtype == torch.float32
        assert torch.equal(weight, stored[name].half().float())
    saved = save_encoder(encoder, folder.parent / "again", card={})
    assert json.loads((saved / "config.json").read_text())["dtype"] == "float32"
    assert {weight.dtype for weight in load_file(saved / "model.safetensors").values()} == {torch.float32}


def test_random_weights_follow_the_seed_and_leave_the_global_state_alone(load):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first, again, other = (
        load("builtin/encoder", initialize="random", seed=seed).backbone.state_dict() for seed in (1, 1, 2)
    )
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(
        first["embeddings.word_embeddings.weight"], other["embeddings.word_embeddings.weight"]
    )


def test_a_path_is_found_from_the_working_directory_then_from_the_repository(folder, load, monkeypatch):
    monkeypatch.chdir(folder.parent)
    assert load("model").dim == 32
    assert load("./model").dim == 32
    assert load("builtin/encoder", initialize="random").dim == 256
    assert (ROOT / "juzhen" / "builtin" / "encoder").is_dir()


def test_dropout_is_set_everywhere(any_folder, load):
    encoder = load(any_folder, dropout=0.25)
    rates = {module.p for module in encoder.modules() if isinstance(module, nn.Dropout)}
    assert rates == {0.25}


MEAN_SWITCH = {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (MEAN_SWITCH, "mean"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_max_tokens": True}, "max"),
        ({"pooling_mode_weightedmean_tokens": True}, "weighted"),
        ({"pooling_mode": "cls"}, "cls"),
        ({"pooling_mode": ["max"]}, "max"),
        ({"pooling_mode": "weightedmean", "embedding_dimension": 32}, "weighted"),
    ],
)
def test_sentence_transformers_pooling_is_honoured(folder, load, config, expected):
    write_modules(folder, ["Transformer", "Pooling"])
    write_json(folder / "1_Pooling" / "config.json", config)
    assert load(folder).pooling == expected
    assert load(folder, pooling="first_last").pooling == "first_last"


@pytest.mark.parametrize(
    "config",
    [
        {"pooling_mode_cls_token": True, "pooling_mode_max_tokens": True},
        {"pooling_mode": ["mean", "max"]},
        {"pooling_mode": "last_word"},
    ],
)
def test_another_pooling_can_be_chosen_than_one_we_lack(folder, load, config):
    write_modules(folder, ["Transformer", "Pooling"])
    write_json(folder / "1_Pooling" / "config.json", config)
    assert load(folder, pooling="mean").pooling == "mean"


@pytest.mark.parametrize("name", ["sentence_bert_config.json", "sentence_roberta_config.json"])
def test_normalization_and_length_are_honoured_unless_overridden(folder, load, name):
    write_modules(folder, ["Transformer", "Pooling", "Normalize"])
    write_json(folder / "1_Pooling" / "config.json", MEAN_SWITCH)
    write_json(folder / name, {"max_seq_length": 12, "do_lower_case": False})
    encoder = load(folder)
    assert (encoder.normalize, encoder.max_length) == (True, 12)
    encoder = load(folder, normalize=False, max_length=20)
    assert (encoder.normalize, encoder.max_length) == (False, 20)


def test_the_newest_module_names_and_the_tokenizers_length(folder, load):
    write_modules(folder, ["Transformer", "Pooling"], package="sentence_transformers.base.modules.any_file")
    write_json(folder / "1_Pooling" / "config.json", {"pooling_mode": "mean"})
    write_json(folder / "sentence_bert_config.json", {"transformer_task": "feature-extraction"})
    config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    write_json(folder / "tokenizer_config.json", config | {"model_max_length": 9})
    assert load(folder).max_length == 9


def test_a_transformer_in_a_subfolder(bert_folder, tmp_path, load):
    folder = tmp_path / "model"
    folder.mkdir()
    shutil.copytree(bert_folder, folder / "0_Transformer")
    write_modules(folder, ["Transformer", "Pooling"], transformer="0_Transformer")
    write_json(folder / "1_Pooling" / "config.json", MEAN_SWITCH)
    assert load(folder).dim == 32


def test_a_dense_layer_is_applied(folder, load):
    write_modules(folder, ["Transformer", "Pooling", "Dense"])
    write_json(folder / "1_Pooling" / "config.json", MEAN_SWITCH)
    layer = Projection(32, 7, bias=True, activation="torch.nn.modules.activation.Tanh")
    layer.save(folder / "2_Dense")
    encoder = load(folder).eval()
    assert encoder.dim == 7
    shutil.rmtree(folder / "1_Pooling")
    (folder / "modules.json").unlink()
    plain = load(folder).eval()
    tokens = plain.collate(plain.tokenize(["今天", "我"]))
    torch.testing.assert_close(encoder(tokens), torch.tanh(layer.linear(plain(tokens))))


def test_embeddings_of_length_1_may_stand_before_another_layer(folder, load, tmp_path):
    plain = load(folder).eval()
    write_modules(folder, ["Transformer", "Pooling", "Normalize", "Dense", "Normalize", "Normalize"])
    write_json(folder / "1_Pooling" / "config.json", MEAN_SWITCH)
    layer = Projection(32, 7, bias=True, activation="torch.nn.modules.activation.Tanh")
    layer.save(folder / "3_Dense")
    encoder = load(folder).eval()
    tokens = plain.collate(plain.tokenize(["今天", "我"]))
    normalize = torch.nn.functional.normalize
    torch.testing.assert_close(encoder(tokens), normalize(torch.tanh(layer.linear(normalize(plain(tokens))))))
    assert encoder.normalize
    again = load(save_encoder(encoder, tmp_path / "again", card={}))
    torch.testing.assert_close(again.eval()(tokens), encoder(tokens), rtol=0, atol=0)


def test_random_weights_need_no_weight_file(folder, load):
    (folder / "model.safetensors").unlink()
    assert load(folder, initialize="random").dim == 32


def test_lengths_beyond_the_positions_are_refused(any_folder, load):
    assert load(any_folder, max_length=32).max_length == 32  # RoBERTa has 34 rows and uses 32
    encoder = load(any_folder).eval()
    assert encoder.max_length == 32
    assert encoder.encode(["今" * 100], batch_tokens=100, show_progress=False).shape == (1, 32)
    with pytest.raises(UserError, match=r"max_length=33: .*3 to 32"):
        load(any_folder, max_length=33)


def test_every_backbone_file_has_every_key(project_root):
    from dataclasses import fields

    from omegaconf import OmegaConf

    names = [
        field.name for field in fields(BackboneConfig) if field.name != "adapter"
    ]  # of a group of its own
    files = sorted((project_root / "conf" / "backbone").glob("*.yaml"))
    assert {"random_small", "local", "bert_zh"} <= {path.stem for path in files}
    for path in files:
        assert path.read_text(encoding="utf-8").startswith("# ")
        settings = OmegaConf.load(path)
        assert list(settings) == names, path.name
        BackboneConfig(
            **{key: "…" if OmegaConf.is_missing(settings, key) else settings[key] for key in names}
        )


def test_the_built_in_default_loads(project_root):
    from omegaconf import OmegaConf

    settings = OmegaConf.load(project_root / "conf" / "backbone" / "random_small.yaml")
    encoder = load_backbone(BackboneConfig(**settings), seed=1)
    assert (encoder.dim, encoder.max_length, encoder.pooling) == (256, 128, "mean")
