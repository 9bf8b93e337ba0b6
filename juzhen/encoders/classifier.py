"""The head of a cross-encoder that others saved, taken apart into layers over a pooled state."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn
from transformers import PretrainedConfig

from juzhen.core.errors import UserError
from juzhen.core.finite import require_finite_weights
from juzhen.encoders.layout import Layout, read_layout
from juzhen.encoders.locate import CLASSIFIER, WEIGHTS
from juzhen.encoders.parts import read_parts
from juzhen.encoders.projection import IDENTITY, OutputLayer, Projection, load_projections
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.settings_file import naming, read_settings
from juzhen.encoders.spec import BackboneConfig

_ACTIVATION = "torch.nn.modules.activation."
_ROBERTA = (("classifier.dense", "Tanh"), ("classifier.out_proj", None))
HEADS: dict[str, tuple[tuple[str, str | None], ...]] = {
    "bert": (("bert.pooler.dense", "Tanh"), ("classifier", None)),
    "albert": (("albert.pooler", "Tanh"), ("classifier", None)),
    "distilbert": (("pre_classifier", "ReLU"), ("classifier", None)),
    "deberta-v2": (("pooler.dense", "GELU"), ("classifier", None)),
    "electra": (("classifier.dense", "GELU"), ("classifier.out_proj", None)),
    **dict.fromkeys(("roberta", "xlm-roberta", "camembert", "mpnet"), _ROBERTA),
}
"""Architecture → the layers over the first token's state in its class with a head, and their activations."""

NLI = ("entailment", "neutral", "contradiction")
"""The order in which a head of three classes has them here."""


def read_theirs(
    folder: Path, path: str, revision: str | None
) -> tuple[SentenceEncoder, list[OutputLayer], nn.Linear]:
    """The encoder in such a folder, and what `read_head` gives. Raises UserError for what is not read here.

    path  as BackboneConfig has it
    """
    layout = read_layout(folder)
    pooling = _pooling_of(layout, folder)
    config = BackboneConfig(path=path, revision=revision, initialize="pretrained", pooling=pooling)
    encoder = SentenceEncoder.of(read_parts(config, seed=0))
    return encoder, *read_head(folder, layout, encoder.backbone.config)


def read_head(
    folder: Path, layout: Layout, architecture: PretrainedConfig
) -> tuple[list[OutputLayer], nn.Linear]:
    """The layers between the pooled state of a pair and its logits, and the last one.

    folder  of a cross-encoder that sentence-transformers or transformers wrote

    Raises UserError for heads that are no such layers, and for classes that are not known.
    """
    with naming(f"{folder}: the head does not load"):
        layers = _of_modules(layout, architecture) if layout.head else _of_classifier(layout, architecture)
    *between, last = layers
    if not isinstance(last, Projection) or last.activation_name != IDENTITY or last.adds_input:
        raise UserError(
            f"{folder}: the layer of the scores has an activation or a residual, which is not supported"
        )
    if last.out_features > 1:
        order = _order_of_classes(folder, architecture.id2label or {}, last.out_features)
        for values in last.linear.parameters():
            values.data = values.data[order]
    return between, last.linear


def _of_modules(layout: Layout, architecture: PretrainedConfig) -> Sequence[OutputLayer]:
    return load_projections(layout.head, width=architecture.hidden_size, layer_norm=None)


def _of_classifier(layout: Layout, architecture: PretrainedConfig) -> Sequence[OutputLayer]:
    family, folder = architecture.model_type, layout.transformer
    if family not in HEADS or getattr(architecture, "pooler_hidden_act", "gelu") != "gelu":
        raise UserError(
            f"{folder}: the head of {family}{CLASSIFIER} is not read here; those of {', '.join(HEADS)} are, and what "
            "sentence-transformers wrote as Transformer, Pooling and Dense"
        )
    with safe_open(folder / WEIGHTS[0], framework="pt") as file:
        stored = {name: file.get_tensor(name) for name in file.keys() if _is_of_head(name, family)}  # noqa: SIM118
    require_finite_weights(stored.items(), folder / WEIGHTS[0])
    return [_layer(stored, name, activation) for name, activation in HEADS[family]]


def _is_of_head(name: str, family: str) -> bool:
    return any(name.startswith(f"{layer}.") for layer, _ in HEADS[family])


def _layer(stored: Mapping[str, Tensor], name: str, activation: str | None) -> Projection:
    weight, bias = stored[f"{name}.weight"].float(), stored[f"{name}.bias"].float()
    named = IDENTITY if activation is None else f"{_ACTIVATION}{activation}"
    layer = Projection(weight.shape[1], weight.shape[0], bias=True, activation=named)
    with torch.no_grad():
        layer.linear.weight.copy_(weight)
        layer.linear.bias.copy_(bias)
    return layer


def _order_of_classes(folder: Path, labels: Mapping[Any, str], count: int) -> list[int]:
    """Which class stands where here: entailment, neutral, contradiction; 0, 1. Raises UserError for other classes."""
    names = [str(labels.get(number, "")).lower() for number in range(count)]
    if sorted(names) == sorted(NLI):
        return [names.index(name) for name in NLI]
    if count == 2 and names in (["label_0", "label_1"], ["0", "1"]):
        return [0, 1]
    raise UserError(
        f"{folder}: its head has {count} classes ({', '.join(names)}), of which no score can be made; expected one "
        f"number, 0 and 1, or {', '.join(NLI)} as id2label in config.json"
    )


def _pooling_of(layout: Layout, folder: Path) -> str:
    """What the head reads; of a classifier the first token's state. Raises UserError for what no head reads here."""
    if not layout.head:
        path = layout.transformer / "config.json"
        pooling = read_settings(path).get("classifier_pooling", "cls")
    else:
        pooling = layout.pooling_for(None)
    if pooling not in ("cls", "mean"):
        raise UserError(f"{folder}: its head reads the pooling {pooling}; only cls and mean are supported")
    return str(pooling)
