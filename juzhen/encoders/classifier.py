"""The head of a cross-encoder that others saved, taken apart into layers over a pooled state."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn
from transformers import PretrainedConfig

from juzhen.core.errors import UserError
from juzhen.core.finite import require_finite_weights
from juzhen.encoders.adapter_files import weight_files
from juzhen.encoders.adapter_folder import adapted_layers
from juzhen.encoders.first_look import EncoderFiles, find_encoder
from juzhen.encoders.layout import Layout
from juzhen.encoders.locate import CLASSIFIER
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
    """The encoder in such a folder, the layers between the pooled state of a pair and its logits, and the last one.

    Raises UserError for what is not read here.

    path  as BackboneConfig has it
    """
    config = BackboneConfig(path=path, revision=revision, initialize="pretrained")
    files = find_encoder(config)
    config = replace(config, pooling=_pooling_of(files.layout, folder))
    encoder = SentenceEncoder.of(read_parts(config, seed=0))
    return encoder, *_read_head(folder, files, encoder.backbone.config)


def _read_head(
    folder: Path, files: EncoderFiles, architecture: PretrainedConfig
) -> tuple[list[OutputLayer], nn.Linear]:
    """The layers between the pooled state of a pair and its logits, and the last one.

    Raises UserError for heads that are no such layers, and for classes that are not known.
    """
    with naming(f"{folder}: the head does not load"):
        is_apart = bool(files.layout.head)
        layers = _of_modules(files.layout, architecture) if is_apart else _of_classifier(files, architecture)
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


def _of_classifier(files: EncoderFiles, architecture: PretrainedConfig) -> Sequence[OutputLayer]:
    family, folder = architecture.model_type, files.layout.transformer
    if family not in HEADS or getattr(architecture, "pooler_hidden_act", "gelu") != "gelu":
        raise UserError(
            f"{folder}: the head of {family}{CLASSIFIER} is not read here; those of {', '.join(HEADS)} are, and what "
            "sentence-transformers wrote as Transformer, Pooling and Dense"
        )
    stored = {}
    for path in weight_files(folder):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118
                # A base of an adapter that is no classifier has its pooler without what stands before it in one.
                known = name if _is_of_head(name, family) else f"{family}.{name}"
                if _is_of_head(known, family):
                    stored[known] = file.get_tensor(name)
    if files.adapter is not None:
        stored = adapted_layers(stored, files.adapter, lambda name: _is_of_head(name, family))
    missing = [name for name, _ in HEADS[family] if f"{name}.weight" not in stored]
    if missing:
        raise UserError(
            f"{files.adapter or folder}: the weights of {', '.join(missing)}, which make the score, are in no file. "
            "Save them with the model; beside an adapter, name them in modules_to_save"
        )
    require_finite_weights(stored.items(), files.adapter or folder)
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
