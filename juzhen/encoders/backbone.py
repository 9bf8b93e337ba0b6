"""The sentence encoder that training starts from; with more or fewer layers, where that is asked for.

A shallow encoder that learnt fast is the start of a deeper one.
"""

import copy
from typing import Any, cast

import torch
from torch import nn
from transformers import PreTrainedModel

from juzhen.core.errors import UserError
from juzhen.encoders.parts import read_parts
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.spec import BackboneConfig
from juzhen.encoders.transformer import from_scratch, quiet

GROWS = ("bert", "roberta", "xlm-roberta", "camembert")
"""Architectures whose layers end in a normalization, and are added as is said below."""


def load_backbone(config: BackboneConfig, *, seed: int) -> SentenceEncoder:
    """The sentence encoder that `config` describes, in float32 on the CPU, in training mode.

    seed  draws what is new: weights under `initialize=random`, added layers

    What the configuration leaves open, and errors: as `juzhen.encoders.parts.read_parts`.
    """
    encoder = SentenceEncoder.of(read_parts(config, seed=seed)).train()
    return encoder if config.layers is None else with_layers(encoder, config.layers, seed=seed)


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
    if config.model_type not in GROWS:
        raise UserError(
            f"layers={layers}: {config.model_type} cannot be given other layers; "
            f"only {', '.join(GROWS)} can. Leave it at null"
        )
    if encoder.templates is not None:
        raise UserError(f"layers={layers}: an encoder with templates keeps its layers; leave it at null")
    grown = SentenceEncoder(
        _with_layers(encoder.backbone, layers, seed=seed),
        encoder.tokenizer,
        pooling=encoder.pooling,
        normalize=encoder.normalize,
        max_length=encoder.max_length,
        projections=encoder.output_layers,
        prompts=encoder.prompts,
    )
    grown.score_head, grown.licence = encoder.score_head, encoder.licence
    return grown.train(encoder.training)


def _with_layers(backbone: PreTrainedModel, layers: int, *, seed: int) -> PreTrainedModel:
    architecture = copy.deepcopy(backbone.config)
    before, architecture.num_hidden_layers = architecture.num_hidden_layers, layers
    with quiet(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        grown = from_scratch(architecture, shown=f"layers={layers}")
    grown.load_state_dict(
        {name: weight for name, weight in backbone.state_dict().items() if name in grown.state_dict()},
        strict=False,
    )
    if layers > before:
        _hand_on(grown, before)
    return grown


@torch.no_grad()
def _hand_on(backbone: PreTrainedModel, before: int) -> None:
    """Sets all layers from number `before` on so that they change nothing."""
    layers: Any = cast(Any, backbone).encoder.layer
    for layer in layers[before:]:
        for matrix in (layer.attention.output.dense, layer.output.dense):
            nn.init.zeros_(matrix.weight)
            nn.init.zeros_(matrix.bias)
    below: Any = layers[before - 1].output if before else backbone.embeddings
    top = layers[-1].output.LayerNorm
    top.load_state_dict(below.LayerNorm.state_dict())
    nn.init.ones_(below.LayerNorm.weight)
    nn.init.zeros_(below.LayerNorm.bias)
    if not before:
        _shrink_tables(backbone)


def _shrink_tables(backbone: PreTrainedModel) -> None:
    """Brings the embedding tables to the size of fresh ones, by one factor, which the normalization above takes out.

    Tables learnt alone grow large; naming hidden tokens with the same table then starts from absurd certainty.
    """
    parts: Any = backbone.embeddings
    tables = [part.weight for part in parts.children() if isinstance(part, nn.Embedding)]
    factor = backbone.config.initializer_range * 2 / parts.word_embeddings.weight.std()
    for table in tables:
        table.mul_(factor)
