"""The transformer itself: its config.json and its weights."""

import inspect
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
import transformers
from tokenizers import normalizers
from torch import nn
from transformers import (
    CONFIG_MAPPING,
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from juzhen.core.columns import require_finite_weights
from juzhen.core.errors import UserError
from juzhen.encoders.layout import is_static
from juzhen.encoders.settings_file import naming, read_settings
from juzhen.encoders.static import StaticConfig, read_static, read_static_config, read_static_tokenizer
from juzhen.encoders.their_settings import lower_cases

DROPOUTS = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "hidden_dropout",
    "attention_dropout",
    "embedding_dropout",
    "mlp_dropout",
    "dropout",
    "dropout_rate",
)
"""What architectures call the dropout of their layers; those of classification heads are not here."""


def read_architecture(folder: Path, *, dropout: float | None) -> PretrainedConfig:
    """config.json with the dropout that was asked for."""
    if is_static(folder):
        architecture: PretrainedConfig = read_static_config(folder)
        if dropout is not None:
            _set_dropout(architecture, dropout)
        return architecture
    settings = read_settings(folder / "config.json")
    family = settings.get("model_type")
    if settings.get("auto_map") and family not in CONFIG_MAPPING:
        raise UserError(
            f"{folder}: {family or 'this encoder'} brings code of its own, and juzhen runs no code that comes with "
            "a model or with data; choose an encoder that transformers has itself, such as modernbert"
        )
    with naming(f"{folder}/config.json: transformers cannot read it"):
        architecture = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    # How layers are computed is ours to choose: a name of the hub here would fetch code from there and run it.
    architecture._attn_implementation_internal = architecture._experts_implementation_internal = None
    if has_decoder(architecture) and model_class(architecture) is None:
        raise UserError(
            f"{folder}: {architecture.model_type} is an encoder with decoder; expected an encoder alone"
        )
    if dropout is not None:
        _set_dropout(architecture, dropout)
    return architecture


def _set_dropout(architecture: PretrainedConfig, dropout: float) -> None:
    names = [name for name in DROPOUTS if hasattr(architecture, name)]
    if not names:
        raise UserError(
            f"dropout={dropout}: {architecture.model_type} has no dropout to set; leave it at null"
        )
    for name in names:
        setattr(architecture, name, dropout)


def has_dropout(architecture: PretrainedConfig) -> bool:
    """Whether anything is dropped in training."""
    return any(getattr(architecture, name, None) for name in DROPOUTS)


def model_class(architecture: PretrainedConfig) -> Any:
    """The class of transformers that makes token states of texts; of an encoder with decoder that of the encoder.

    None where transformers has no such class.
    """
    listed: Any = AutoModel._model_mapping.get(type(architecture), None)
    listed = listed[0] if isinstance(listed, tuple | list) else listed
    if listed is None or not has_decoder(architecture):
        return listed
    return getattr(transformers, f"{listed.__name__.removesuffix('Model')}EncoderModel", None)


def has_decoder(architecture: PretrainedConfig) -> bool:
    """Whether a decoder belongs to the architecture, although a folder may hold the encoder alone."""
    names = architecture.architectures or [""]
    return architecture.is_encoder_decoder or names[0].endswith("EncoderModel")


def _without_pooler(architecture: PretrainedConfig) -> dict[str, bool]:
    """Arguments that leave BERT's pooler out: we do our own pooling, and unused weights upset DDP."""
    built = model_class(architecture)
    takes = built is not None and "add_pooling_layer" in inspect.signature(built.__init__).parameters
    return {"add_pooling_layer": False} if takes else {}


def from_scratch(architecture: PretrainedConfig, *, shown: str) -> PreTrainedModel:
    """A model with random weights. Raises UserError for a config.json that describes none; `shown` names its folder."""
    with naming(f"{shown}: config.json describes no model that can be built"):
        if has_decoder(architecture):
            return model_class(architecture)._from_config(architecture, dtype=torch.float32)
        return AutoModel.from_config(architecture, dtype=torch.float32, **_without_pooler(architecture))


def from_weights(source: str, architecture: PretrainedConfig, **options: object) -> PreTrainedModel:
    """A model with the weights of a folder or of the hub. Raises UserError where these are not those of its config."""
    if isinstance(architecture, StaticConfig):
        return read_static(Path(source), architecture)
    with naming(f"{source}: the weights do not load"):
        built = model_class(architecture) if has_decoder(architecture) else AutoModel
        backbone, report = built.from_pretrained(
            source,
            config=architecture,
            use_safetensors=True,
            trust_remote_code=False,
            dtype=torch.float32,  # otherwise the precision of the file
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # named below
            **_without_pooler(architecture),
            **options,
        )
    for name, stored, expected in sorted(report["mismatched_keys"]):
        raise UserError(
            f"{source}: {name} has {_size(stored)} numbers in the weights, {_size(expected)} by config.json "
            f"({len(report['mismatched_keys'])} such tensors); the two do not belong together"
        )
    missing = sorted(name for name in report["missing_keys"] if "pooler" not in name)
    if missing:
        raise UserError(
            f"{source}: weights missing for {', '.join(missing[:3])} ({len(missing)} in all); config.json and "
            "model.safetensors do not belong together"
        )
    _require_all_layers(source, backbone, report["unexpected_keys"])
    require_finite_weights(backbone.named_parameters(), source)
    return backbone


def _size(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape))


def _require_all_layers(source: str, backbone: nn.Module, unexpected: Iterable[str]) -> None:
    """Raises UserError where the weights hold further layers: a shorter model would be used, and nobody would know.

    What else is left over (heads, poolers) is of no use here.
    """
    has_layers = getattr(backbone.config, "num_hidden_layers", 1) >= 1
    patterns = {re.sub(r"\d+", "#", name) for name in backbone.state_dict()}
    prefix = f"{backbone.base_model_prefix}."
    shapes = {name: re.sub(r"\d+", "#", name.removeprefix(prefix)) for name in unexpected}
    lost = sorted(
        name for name, shape in shapes.items() if shape in patterns or (not has_layers and ".#." in shape)
    )
    if lost:
        raise UserError(
            f"{source}: the weights have {lost[0]}, which config.json does not have ({len(lost)} such tensors); to use "
            "the first layers alone set layers"
        )


def read_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a folder. Raises UserError where it does not load."""
    if is_static(folder):
        return read_static_tokenizer(folder)
    with naming(f"{folder}: the tokenizer does not load"):
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        if lower_cases(folder):
            before = tokenizer.backend_tokenizer.normalizer
            tokenizer.backend_tokenizer.normalizer = normalizers.Sequence(
                [normalizers.Lowercase(), *([] if before is None else [before])]
            )
        return tokenizer


def token_embeddings(backbone: PreTrainedModel) -> nn.Embedding:
    """The table of tokens. Raises UserError for a model without one, which reads no texts."""
    with naming(f"{backbone.config.model_type}: this architecture has no table of tokens"):
        table: Any = backbone.get_input_embeddings()
        assert table.weight.dim() == 2
    return cast(nn.Embedding, table)


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps transformers' progress bars and table of left-out weights off the screen; we check ourselves."""
    logger = transformers.utils.logging
    verbosity, had_bars = logger.get_verbosity(), logger.is_progress_bar_enabled()
    logger.set_verbosity(logging.ERROR)
    logger.disable_progress_bar()
    try:
        yield
    finally:
        logger.set_verbosity(verbosity)
        if had_bars:
            logger.enable_progress_bar()


def compile_layers(backbone: nn.Module) -> None:
    """Lets torch.compile fuse what is between the products of each layer, in place; the weights keep their names.

    One layer is compiled and serves all of its kind. The first step takes tens of seconds longer.
    """
    for stack in [module for module in backbone.modules() if isinstance(module, nn.ModuleList)]:
        if len({type(layer) for layer in stack}) == 1:
            for layer in stack:
                layer.compile(dynamic=True)


def checkpoint_layers(backbone: nn.Module) -> None:
    """Keeps of each layer its input alone in training, and computes it again, with the same dropout, on the way back.

    (Chen et al. 2016, https://arxiv.org/abs/1604.06174) Raises UserError for an architecture that cannot.
    """
    if not getattr(backbone, "supports_gradient_checkpointing", False):
        raise UserError(
            f"gradient_checkpointing=true: {cast(PreTrainedModel, backbone).config.model_type} cannot compute layers "
            "again; type micro_batch_tokens=8192 instead, which saves memory with every architecture"
        )
    cast(PreTrainedModel, backbone).activation_checkpointing_enable({"use_reentrant": False})
