"""Fewer or more layers of a transformer: the first ones alone, or new ones that begin by changing nothing."""

import copy
from typing import Any, cast

import torch
from torch import nn
from transformers import PreTrainedModel

from juzhen.core.errors import UserError
from juzhen.encoders.transformer import from_scratch, quiet

GROWS = ("bert", "roberta", "xlm-roberta", "camembert")
"""Architectures whose layers end in a normalization, and are added as is said below."""


def require_growing(backbone: PreTrainedModel, layers: int) -> None:
    """Raises UserError for an architecture that cannot be given other layers."""
    if backbone.config.model_type not in GROWS:
        raise UserError(
            f"layers={layers}: {backbone.config.model_type} cannot be given other layers; "
            f"only {', '.join(GROWS)} can. Leave it at null"
        )


def other_layers(backbone: PreTrainedModel, layers: int, *, seed: int) -> PreTrainedModel:
    """A copy with its first `layers` layers, or with new ones on top, drawn with `seed`."""
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
