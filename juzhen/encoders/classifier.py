"""The head of a cross-encoder that others saved, taken apart into layers over a pooled state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from safetensors import safe_open
from torch import Tensor, nn
from transformers import PretrainedConfig

from juzhen.core.columns import require_finite_weights
from juzhen.core.errors import UserError, require_choice
from juzhen.core.lazy_names import offered
from juzhen.encoders.base import weight_files
from juzhen.encoders.first_look import EncoderFiles, find_encoder
from juzhen.encoders.layout import Layout
from juzhen.encoders.locate import CLASSIFIER
from juzhen.encoders.parts import read_parts
from juzhen.encoders.projection import (
    IDENTITY,
    NORM_EPS,
    OutputLayer,
    OutputNorm,
    Projection,
    load_projections,
)
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.settings_file import naming
from juzhen.encoders.spec import BackboneConfig
from juzhen.encoders.transformer import read_architecture

_ACTIVATION = "torch.nn.modules.activation."
NORM, CHOSEN = "LayerNorm", "classifier_activation"
"""A normalization in the place of a linear layer · the activation that config.json names."""
_ROBERTA = (("classifier.dense", "Tanh"), ("classifier.out_proj", None))
HEADS: dict[str, tuple[tuple[str, str | None], ...]] = {
    **{
        name: ((f"{name}.pooler.dense", "Tanh"), ("classifier", None))
        for name in ("bert", "gte", "nomic_bert")
    },
    "albert": (("albert.pooler", "Tanh"), ("classifier", None)),
    "distilbert": (("pre_classifier", "ReLU"), ("classifier", None)),
    "deberta-v2": (("pooler.dense", "GELU"), ("classifier", None)),
    "electra": (("classifier.dense", "GELU"), ("classifier.out_proj", None)),
    "eurobert": (("dense", "GELU"), ("classifier", None)),
    "modernbert": (("head.dense", CHOSEN), ("head.norm", NORM), ("classifier", None)),
    **dict.fromkeys(("roberta", "xlm-roberta", "camembert", "mpnet", "jina_embeddings_v3"), _ROBERTA),
}
"""Architecture → the layers over a pooled state in its class with a head, and their activations."""

POOLED = {"cls": "cls", "bos": "cls", "mean": "mean", "late": "mean"}
"""`classifier_pooling` of config.json → our pooling; late: the first layer of the head comes before it."""

CHOICES = {"gelu": "GELU", "relu": "ReLU", "silu": "SiLU", "tanh": "Tanh", "sigmoid": "Sigmoid"}
"""`classifier_activation` of config.json → the activation."""

NLI = ("entailment", "neutral", "contradiction")
"""The order in which a head of three classes has them here."""


@dataclass(frozen=True)
class Head:
    """What makes logits of the states of a pair: layers, `token_layers` of them before pooling, and the last one."""

    layers: list[OutputLayer]
    last: nn.Linear
    token_layers: int = 0


def read_theirs(folder: Path, path: str, revision: str | None) -> tuple[SentenceEncoder, Head]:
    """The encoder in such a folder, and its head.

    Raises UserError for what is not read here.

    path  as BackboneConfig has it
    """
    config = BackboneConfig(path=path, revision=revision, initialize="pretrained")
    files = find_encoder(config)
    pooling, token_layers = _pooling_of(files, folder)
    encoder = SentenceEncoder.of(read_parts(replace(config, pooling=pooling), seed=0))
    layers, last = _read_head(folder, files, encoder.backbone.config)
    return encoder, Head(layers, last, token_layers)


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
    width, count = architecture.hidden_size, layout.token_layers
    return load_projections(layout.head, width=width, layer_norm=None, token_layers=count)


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
        stored = offered("adapters", "layers")(stored, files.adapter, lambda name: _is_of_head(name, family))
    missing = [name for name, _ in HEADS[family] if f"{name}.weight" not in stored]
    if missing:
        raise UserError(
            f"{files.adapter or folder}: the weights of {', '.join(missing)}, which make the score, are in no file. "
            "Save them with the model; beside an adapter, name them in modules_to_save"
        )
    require_finite_weights(stored.items(), files.adapter or folder)
    return [
        _layer(stored, name, _named(activation, architecture, folder)) for name, activation in HEADS[family]
    ]


def _named(activation: str | None, architecture: PretrainedConfig, folder: Path) -> str | None:
    """The activation of a layer. Raises UserError for one of config.json that is not computed here."""
    if activation != CHOSEN:
        return activation
    chosen = architecture.classifier_activation
    require_choice(f"{folder}: {CHOSEN}", chosen, CHOICES)
    if architecture.norm_eps != NORM_EPS:
        raise UserError(
            f"norm_eps={architecture.norm_eps}: a head with {NORM_EPS} alone is computed here. Use another"
        )
    return CHOICES[chosen]


def _is_of_head(name: str, family: str) -> bool:
    return any(name.startswith(f"{layer}.") for layer, _ in HEADS[family])


def _layer(stored: Mapping[str, Tensor], name: str, activation: str | None) -> OutputLayer:
    parts = {key: stored[f"{name}.{key}"].float() for key in ("weight", "bias") if f"{name}.{key}" in stored}
    layer: OutputNorm | Projection
    if activation == NORM:
        layer = OutputNorm(len(parts["weight"]))
        inner: nn.Module = layer.norm
    else:
        rows, columns = parts["weight"].shape
        named = IDENTITY if activation is None else f"{_ACTIVATION}{activation}"
        layer = Projection(columns, rows, bias="bias" in parts, activation=named)
        inner = layer.linear
    inner.load_state_dict(parts, strict=False)  # without a bias that of a normalization is 0
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


def _pooling_of(files: EncoderFiles, folder: Path) -> tuple[str, int]:
    """What the head reads, and how many of its layers come before. Raises UserError for what no head reads here."""
    if files.layout.head:
        return files.layout.pooling_for(None), files.layout.token_layers
    architecture = read_architecture(files.layout.transformer, dropout=None)
    chosen = getattr(architecture, "classifier_pooling", "cls")
    require_choice(f"{folder}: classifier_pooling", chosen, POOLED)
    return POOLED[chosen], int(chosen == "late")
