"""Numbers beyond the sizes of a pretrained encoder start no training."""

import json
import shutil

import pytest

from juzhen.core.errors import UserError
from juzhen.core.paths import BUILTIN
from juzhen.encoders.backbone_config import AdapterConfig, BackboneConfig
from juzhen.encoders.preflight import check_encoder_files


def config(**settings):
    return BackboneConfig(
        path="builtin/mini_zh", initialize=settings.pop("initialize", "pretrained"), **settings
    )


@pytest.mark.parametrize("layers", [0, 17, 100_000])
def test_layers_that_the_encoder_cannot_use_are_refused_before_weights_are_read(layers):
    with pytest.raises(UserError, match=f"layers={layers}"):
        check_encoder_files(config(layers=layers))


@pytest.mark.parametrize("rank", [257, 9999])
def test_a_rank_above_the_width_is_refused(rank):
    with pytest.raises(UserError, match=f"rank={rank}"):
        check_encoder_files(config(adapter=AdapterConfig(rank=rank)))


def test_growing_shrinking_and_random_encoders_stay():
    for settings in ({"layers": 1}, {"layers": 16}, {"layers": 0, "initialize": "random"}):
        check_encoder_files(config(**settings))
    check_encoder_files(config(adapter=AdapterConfig(rank=256)))


def test_an_architecture_that_cannot_grow_says_so_before_weights_are_read(tmp_path):
    folder = shutil.copytree(BUILTIN / "mini_zh@2", tmp_path / "other")
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(settings | {"model_type": "electra"}))
    with pytest.raises(UserError, match="layers=1: electra"):
        check_encoder_files(BackboneConfig(path=str(folder), initialize="pretrained", layers=1))
