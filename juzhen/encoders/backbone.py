"""The sentence encoder that training starts from; with more or fewer layers, where that is asked for.

A shallow encoder that learnt fast is the start of a deeper one.
"""

from juzhen.core.errors import UserError
from juzhen.core.lazy_names import offered
from juzhen.encoders.frozen import has_adapter, remember_layers
from juzhen.encoders.layers import other_layers, require_growing
from juzhen.encoders.parts import read_parts
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.spec import BackboneConfig


def load_backbone(config: BackboneConfig, *, seed: int, reader: str | None = None) -> SentenceEncoder:
    """The sentence encoder that `config` describes, in float32 on the CPU, in training mode.

    seed  draws what is new: weights under `initialize=random`, added layers, an adapter
    reader  as of `read_parts`

    What the configuration leaves open, and errors: as `juzhen.encoders.parts.read_parts`.
    """
    encoder = SentenceEncoder.of(read_parts(config, seed=seed, reader=reader)).train()
    if config.layers is not None:
        encoder = with_layers(encoder, config.layers, seed=seed)
    if config.adapter is not None:
        offered("adapters", "add")(encoder.backbone, config.adapter, seed=seed)
    return encoder


def with_layers(encoder: SentenceEncoder, layers: int, *, seed: int) -> SentenceEncoder:
    """The encoder with its first `layers` layers, or with new ones on top that hand on what they are given.

    A new layer adds nothing to the states until it has learnt something, because its two output matrices are 0; its
    other weights are drawn with `seed`. The encoder gives the embeddings it gave before: the last normalization moves
    to the new top, and normalizing twice is normalizing once. Raises UserError for other architectures than BERT and
    RoBERTa.
    """
    config = encoder.backbone.config
    if config.num_hidden_layers == layers:
        return encoder
    require_growing(encoder.backbone, layers)
    if has_adapter(encoder.backbone) or encoder.templates is not None:
        raise UserError(
            f"layers={layers}: an encoder with adapter or templates keeps its layers; leave it at null"
        )
    backbone = other_layers(encoder.backbone, layers, seed=seed)
    remember_layers(backbone, encoder.backbone, layers)
    grown = SentenceEncoder(
        backbone,
        encoder.tokenizer,
        pooling=encoder.pooling,
        normalize=encoder.normalize,
        max_length=encoder.max_length,
        projections=encoder.output_layers,
        prompts=encoder.prompts,
    )
    grown.score_head, grown.licence = encoder.score_head, encoder.licence
    return grown.train(encoder.training)
