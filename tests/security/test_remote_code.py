"""Code that an encoder names for a layer is not fetched."""

import json
import shutil

import pytest

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


@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation", "_experts_implementation"])
def test_code_of_the_hub_for_a_layer_is_not_fetched(tiny_backbone, tmp_path, key):
    folder = shutil.copytree(tiny_backbone, tmp_path / "theirs")
    plant(folder, config={key: "a-stranger/kernels"})
    encoder = load_backbone(BackboneConfig(path=str(folder), initialize="random"), seed=0)
    assert "stranger" not in str(encoder.backbone.config._attn_implementation)
