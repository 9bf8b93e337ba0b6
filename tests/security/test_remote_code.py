"""An encoder that brings comes with code is refused, and the refusal does not advise to run it."""

import json
import shutil

import pytest

from juzhen.core.errors import UserError
from juzhen.data import source
from juzhen.data.spec import HubConfig
from juzhen.encoders import load_backbone
from juzhen.encoders.backbone_config import BackboneConfig

CODE = "import pathlib\npathlib.Path('sprung').touch()\n"


def plant(folder, **settings):
    """Adds the files by which a model of the hub asks for its own code."""
    for name, change in settings.items():
        path = folder / f"{name}.json"
        content = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps(content | change))
    for name in ("modeling_theirs", "configuration_theirs", "tokenization_theirs"):
        (folder / f"{name}.py").write_text(CODE)


@pytest.mark.parametrize("initialize", ["random", "pretrained"])
@pytest.mark.parametrize(
    "settings",
    [
        {
            "config": {
                "model_type": "theirs",
                "auto_map": {
                    "AutoConfig": "configuration_theirs.TheirConfig",
                    "AutoModel": "modeling_theirs.TheirModel",
                },
            }
        },
        {"config": {"model_type": "theirs"}},
        {
            "tokenizer_config": {
                "tokenizer_class": "TheirTokenizer",
                "auto_map": {"AutoTokenizer": ["tokenization_theirs.TheirTokenizer", None]},
            },
            "config": {
                "model_type": "theirs",
                "auto_map": {"AutoConfig": "configuration_theirs.TheirConfig"},
            },
        },
    ],
    ids=["model", "unknown", "tokenizer"],
)
def test_code_of_strangers_is_not_run_and_not_advised(
    tiny_backbone, tmp_path, monkeypatch, settings, initialize
):
    folder = shutil.copytree(tiny_backbone, tmp_path / "theirs")
    (folder / "model.safetensors").touch()
    plant(folder, **settings)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as refused:
        load_backbone(BackboneConfig(path=str(folder), initialize=initialize), seed=0)
    assert "trust_remote_code" not in str(refused.value)
    assert str(folder) in str(refused.value)
    if "auto_map" in settings["config"]:
        assert "comes with code" in str(refused.value)
    assert not list(tmp_path.rglob("sprung"))


@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation", "_experts_implementation"])
def test_code_of_the_hub_for_a_layer_is_not_fetched(tiny_backbone, tmp_path, key):
    folder = shutil.copytree(tiny_backbone, tmp_path / "theirs")
    plant(folder, config={key: "a-stranger/kernels"})
    encoder = load_backbone(BackboneConfig(path=str(folder), initialize="random"), seed=0)
    assert "stranger" not in str(encoder.backbone.config._attn_implementation)


def test_a_data_set_of_the_hub_that_wants_code_is_refused_without_advice(monkeypatch):
    def load(*given, **more):
        assert not more.get("trust_remote_code")
        raise ValueError("theirs contains custom code. Pass `trust_remote_code=True` to allow it.\nmore")

    monkeypatch.setattr("datasets.load_dataset", load)
    monkeypatch.setattr(source, "require_hub", lambda name, hub_id: None)  # as if there were a network
    with pytest.raises(UserError, match="comes with code") as refused:
        source.read_hub("x", HubConfig(id="a/theirs", splits={"train": "train"}, columns={}), "train")
    assert "trust_remote_code" not in str(refused.value)
