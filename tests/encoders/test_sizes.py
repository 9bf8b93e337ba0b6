"""Numbers beyond the sizes of a pretrained encoder start no training."""

from juzhen.encoders.backbone_config import AdapterConfig, BackboneConfig
from juzhen.encoders.preflight import check_encoder_files


def config(**settings):
    return BackboneConfig(
        path="builtin/mini_zh", initialize=settings.pop("initialize", "pretrained"), **settings
    )


def test_growing_shrinking_and_random_encoders_stay():
    for settings in ({"layers": 1}, {"layers": 16}, {"layers": 0, "initialize": "random"}):
        check_encoder_files(config(**settings))
    check_encoder_files(config(adapter=AdapterConfig(rank=256)))
