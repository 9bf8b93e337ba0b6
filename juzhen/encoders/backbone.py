"""From a configuration to a sentence encoder that training starts from."""

from juzhen.encoders.grow import with_layers
from juzhen.encoders.parts import read_parts
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.spec import BackboneConfig


def load_backbone(config: BackboneConfig, *, seed: int) -> SentenceEncoder:
    """The sentence encoder that `config` describes, in float32 on the CPU, in training mode.

    seed  draws what is new: weights under `initialize=random`, added layers

    What the configuration leaves open, and errors: as `juzhen.encoders.parts.read_parts`.
    """
    encoder = SentenceEncoder.of(read_parts(config, seed=seed)).train()
    return encoder if config.layers is None else with_layers(encoder, config.layers, seed=seed)
