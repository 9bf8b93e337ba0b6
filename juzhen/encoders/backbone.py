"""Pretrained transformers: which architectures are supported, how weights are read, how layers are added."""

import copy
import inspect
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import torch
import transformers
from tokenizers import normalizers
from torch import Tensor, nn
from transformers import (
    CONFIG_MAPPING,
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)
from transformers.modeling_outputs import BaseModelOutput

from juzhen.core.columns import require_finite_weights
from juzhen.core.errors import UserError
from juzhen.core.text import short
from juzhen.encoders.folder_settings import COPY_AGAIN, lower_cases, naming, read_settings, read_tensors
from juzhen.encoders.layout import STATIC, is_static, static_shape
from juzhen.encoders.preflight import BY_LENGTH, GROWS, not_growing
from juzhen.encoders.resolve_path import WEIGHTS

LENGTH = 512
"""Default tokens of a text, as in model2vec. sentence-transformers reads all tokens."""


class StaticConfig(PretrainedConfig):
    """Configuration of a table of token vectors.

    Args:
        vocab_size: Number of tokens.
        hidden_size: Numbers of each token's vector.
        **options: Of `PretrainedConfig`.
    """

    model_type = STATIC

    def __init__(self, vocab_size: int = 1, hidden_size: int = 1, **options: Any) -> None:
        super().__init__(**options)
        self.vocab_size, self.hidden_size = vocab_size, hidden_size
        self.num_hidden_layers = 0


class StaticTokens(PreTrainedModel):
    """Gives the vector of each token as its state.

    Args:
        config: Its sizes.
    """

    config_class = StaticConfig

    def __init__(self, config: StaticConfig) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocab_size, config.hidden_size)
        self.post_init()  # type: ignore[no-untyped-call]

    def get_input_embeddings(self) -> nn.Module:
        return self.embedding

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the table of tokens.

        Args:
            value: An nn.Embedding, (tokens, dim).
        """
        self.embedding = cast(nn.Embedding, value)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, output_hidden_states: bool = False
    ) -> BaseModelOutput:
        """Look up the vector of each token.

        Args:
            input_ids: Token ids, (sentences, length).
            attention_mask: Not read.
            output_hidden_states: Return the vectors as hidden states, too.

        Returns:
            Vectors (sentences, length, dim) in `last_hidden_state`.
        """
        states = self.embedding(input_ids)
        return BaseModelOutput(
            last_hidden_state=states, hidden_states=(states, states) if output_hidden_states else None
        )


AutoConfig.register(STATIC, StaticConfig)
AutoModel.register(StaticConfig, StaticTokens)


def _read_static(folder: Path, config: StaticConfig) -> StaticTokens:
    """Read the token table of a folder.

    Args:
        folder: An encoder of static embeddings.
        config: Its sizes.

    Raises:
        UserError: The weights do not load, or are not finite.
    """
    path = folder / WEIGHTS[0]
    with naming(f"{path}: the weights do not load", COPY_AGAIN):
        tensors = read_tensors(path)
        table = tensors["embedding.weight"] if "embedding.weight" in tensors else tensors["embeddings"]
        factors = tensors.get("weights")
        for part, values in (("table of tokens", table), ("weights", factors)):
            if values is not None and (values.dtype is torch.bool or values.is_complex()):
                raise UserError(f"{path}: the {part} holds {values.dtype}. Write it as float32")
        table = table.float()
        if (rows := tensors.get("mapping")) is not None:
            is_whole = rows.dtype is not torch.bool and not rows.is_floating_point()
            if not is_whole or not 0 <= int(rows.min()) <= int(rows.max()) < len(table):
                raise UserError(
                    f"{path}: mapping names rows from {rows.min().item()} to {rows.max().item()} of a table of "
                    f"{len(table)}. Copy the file again"
                )
            table = table[rows.long()]
        if factors is not None:
            table = table * factors.float()[:, None]
    require_finite_weights([("the product of embeddings and weights", table)], path)
    backbone = StaticTokens(config)
    with torch.no_grad():
        backbone.embedding.weight.copy_(table)
    return backbone


def _read_static_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """Read tokenizer.json without special tokens. The file defines its own truncation.

    Args:
        folder: An encoder of static embeddings.

    Raises:
        UserError: The tokenizer does not load.
    """
    with naming(f"{folder}: the tokenizer does not load"):
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
        tokenizer.model_max_length = (tokenizer.backend_tokenizer.truncation or {}).get("max_length", LENGTH)
        tokenizer.backend_tokenizer.post_processor = None
    return tokenizer


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Switch dropout off inside the block.

    Args:
        module: Any module. Its mode is restored at the end.
    """
    was_training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(was_training)


@dataclass(frozen=True)
class Architecture:
    """Positions and attention of a model type.

    Attributes:
        positions: learned: one embedding each, from 0 · after_pad: from the id of the padding token + 1, as in RoBERTa
            ·
            rotary: rotated queries and keys, from 0.
        is_decoder: Attention is causal by default.
        is_proved: Tests cover every configuration. Other types are checked at loading.
    """

    positions: Literal["learned", "after_pad", "rotary"] = "rotary"
    is_decoder: bool = False
    is_proved: bool = False


_AFTER_PAD = Architecture("after_pad", is_proved=True)
_ENCODER, _DECODER = Architecture(), Architecture(is_decoder=True)

ARCHITECTURES = {
    "bert": Architecture("learned", is_proved=True),
    "roberta": _AFTER_PAD,
    "xlm-roberta": _AFTER_PAD,
    "camembert": _AFTER_PAD,
    "albert": Architecture("learned"),
    "electra": Architecture("learned"),
    "eurobert": _ENCODER,
    "gte": _ENCODER,
    "jina_embeddings_v3": _ENCODER,
    "modernbert": _ENCODER,
    "nomic_bert": _ENCODER,
    "gemma": _DECODER,
    "gemma2": _DECODER,
    "gemma3_text": _DECODER,
    "llama": _DECODER,
    "mistral": _DECODER,
    "phi3": _DECODER,
    "qwen2": _DECODER,
    "qwen3": _DECODER,
}
"""Model types whose sentences are packed. Other types are padded and give the same numbers."""


def is_proved(architecture: PretrainedConfig) -> bool:
    """True if tests cover the architecture in every configuration.

    Args:
        architecture: As `config.json` has it.

    Returns:
        False for an architecture that juzhen pads, or that tests cover in part.
    """
    entry = ARCHITECTURES.get(architecture.model_type)
    return entry is not None and entry.is_proved and why_padded(architecture) is None


def why_padded(architecture: PretrainedConfig) -> str | None:
    """Find out why sentences of an architecture are padded.

    Args:
        architecture: As `config.json` has it.

    Returns:
        The reason, as a part of a sentence. None if sentences are packed.
    """
    name = architecture.model_type
    if name not in ARCHITECTURES:
        return f"{name} is not among the architectures that are packed"
    if getattr(architecture, "is_decoder", False):
        return f"{name} is configured as a decoder"
    settings: Any = getattr(architecture, "rope_parameters", None) or {}
    # Each type of layer may have settings of its own.
    kinds = [settings, *settings.values()] if isinstance(settings, dict) else []
    types = {str(kind.get("rope_type")) for kind in kinds if isinstance(kind, dict)}
    if rotations := sorted(types & set(BY_LENGTH)):
        return f"its rotary positions ({', '.join(rotations)}) depend on the longest sentence of a batch"
    if getattr(architecture, "attn_logit_softcapping", None) and name == "gemma2":
        return "its attention scores are capped (attn_logit_softcapping), which no packed kernel does"
    return None


def looks_ahead(architecture: PretrainedConfig) -> bool:
    """True if a token attends to later tokens, too.

    Args:
        architecture: As `config.json` has it.

    Returns:
        False for a decoder with causal attention.
    """
    entry = ARCHITECTURES.get(architecture.model_type)
    if entry is None or not entry.is_decoder:
        return not getattr(architecture, "is_decoder", False)
    is_causal = getattr(architecture, "is_causal", None)
    return is_causal is False or bool(getattr(architecture, "use_bidirectional_attention", False))


def set_attention(architecture: PretrainedConfig, attention: str | None) -> None:
    """Make a decoder causal or bidirectional, by the entries of config.json that transformers reads.

    BehnamGhader et al. 2024, https://arxiv.org/abs/2404.05961. The model must be built afterwards.

    Args:
        architecture: Configuration to change.
        attention: causal or bidirectional. None keeps the configuration.

    Raises:
        UserError: The architecture is not a decoder.
    """
    if attention is None:
        return
    entry = ARCHITECTURES.get(architecture.model_type)
    if entry is None or not entry.is_decoder:
        decoders = ", ".join(name for name, one in ARCHITECTURES.items() if one.is_decoder)
        raise UserError(
            f"attention={attention}: {architecture.model_type} has a fixed attention. Leave it at null. It "
            f"can be chosen for {decoders}."
        )
    if (attention == "bidirectional") == looks_ahead(architecture):
        return
    if getattr(architecture, "use_bidirectional_attention", False):
        architecture.use_bidirectional_attention = False
    architecture.is_causal = attention == "causal"


def without_cache(backbone: PreTrainedModel) -> dict[str, Any]:
    """Return the argument with which a decoder keeps no keys and values for tokens to come.

    Args:
        backbone: Any backbone.

    Returns:
        Keyword arguments for its forward pass. Empty if it has no cache.
    """
    return {"use_cache": False} if "use_cache" in inspect.signature(backbone.forward).parameters else {}


def first_position(architecture: PretrainedConfig) -> int:
    """Return the number of the first position of a sentence, for packed architectures.

    Args:
        architecture: As `config.json` has it.

    Returns:
        1 + pad_token_id for architectures such as RoBERTa, else 0.
    """
    entry = ARCHITECTURES.get(architecture.model_type)
    return 1 + architecture.pad_token_id if entry is not None and entry.positions == "after_pad" else 0


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
"""Names of layer dropout in configurations, without the dropout of classification heads."""


def read_architecture(folder: Path, *, dropout: float | None) -> PretrainedConfig:
    """Read config.json.

    Args:
        folder: An encoder.
        dropout: Replaces the dropout of all layers. None: as in the file.

    Returns:
        Configuration of transformers, or a `StaticConfig` for a token table.

    Raises:
        UserError: config.json does not load, or the architecture has no dropout to replace.
    """
    if is_static(folder):
        vocabulary, dim = static_shape(folder)
        architecture: PretrainedConfig = StaticConfig(vocab_size=vocabulary, hidden_size=dim)
    else:
        architecture = _read_transformer_config(folder)
    if dropout is not None:
        names = [name for name in DROPOUTS if hasattr(architecture, name)]
        if not names:
            raise UserError(f"dropout={dropout}: {architecture.model_type} has no dropout. Leave it at null")
        for name in names:
            setattr(architecture, name, dropout)
    return architecture


def _read_transformer_config(folder: Path) -> PretrainedConfig:
    settings = read_settings(folder / "config.json")
    family = settings.get("model_type")
    if settings.get("auto_map") and family not in CONFIG_MAPPING:
        raise UserError(
            f"{folder}: {family or 'this encoder'} comes with code, and juzhen never runs the code of a "
            "model. Choose an architecture of transformers, such as modernbert"
        )
    with naming(f"{folder}/config.json: transformers cannot read it"):
        architecture: PretrainedConfig = AutoConfig.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    # How layers are computed is ours to choose: a name of the hub here would fetch code from there and run it.
    architecture._attn_implementation_internal = architecture._experts_implementation_internal = None
    architecture.return_dict = True
    if getattr(architecture, "chunk_size_feed_forward", 0):  # less memory, the same numbers
        architecture.chunk_size_feed_forward = 0
    if _has_decoder(architecture) and model_class(architecture) is None:
        raise UserError(
            f"{folder}: {architecture.model_type} is an encoder with decoder. Expected an encoder alone"
        )
    return architecture


def has_dropout(architecture: PretrainedConfig) -> bool:
    """True if the architecture has dropout in training.

    Args:
        architecture: As `config.json` has it.

    Returns:
        False if every rate of dropout is 0 or missing.
    """
    return any(getattr(architecture, name, None) for name in DROPOUTS)


def model_class(architecture: PretrainedConfig) -> Any:
    """Return the class of transformers that computes token states.

    Args:
        architecture: As `config.json` has it.

    Returns:
        The encoder for an encoder-decoder. None if transformers has no such class.
    """
    listed: Any = AutoModel._model_mapping.get(type(architecture), None)
    listed = listed[0] if isinstance(listed, tuple | list) else listed
    if listed is None or not _has_decoder(architecture):
        return listed
    return getattr(transformers, f"{listed.__name__.removesuffix('Model')}EncoderModel", None)


def _has_decoder(architecture: PretrainedConfig) -> bool:
    """True if the architecture includes a decoder, even if a folder holds the encoder alone.

    Args:
        architecture: As `config.json` has it.
    """
    names = architecture.architectures or [""]
    return architecture.is_encoder_decoder or names[0].endswith("EncoderModel")


def _without_pooler(architecture: PretrainedConfig) -> dict[str, bool]:
    """Arguments that leave BERT's pooler out: we do our own pooling, and unused weights upset DDP."""
    built = model_class(architecture)
    takes = built is not None and "add_pooling_layer" in inspect.signature(built.__init__).parameters
    return {"add_pooling_layer": False} if takes else {}


def from_scratch(architecture: PretrainedConfig, *, shown: str) -> PreTrainedModel:
    """Build a model with random weights.

    Args:
        architecture: As `config.json` has it.
        shown: Name of its folder for the message.

    Returns:
        In float32, with weights of the global random generator.

    Raises:
        UserError: No model can be built.
    """
    with naming(f"{shown}: config.json describes no model that can be built"):
        if _has_decoder(architecture):
            return model_class(architecture)._from_config(architecture, dtype=torch.float32)
        return AutoModel.from_config(architecture, dtype=torch.float32, **_without_pooler(architecture))


def from_weights(source: str, architecture: PretrainedConfig, **options: object) -> PreTrainedModel:
    """Load a model from a folder or the hub.

    Args:
        source: Folder, or id of the hub.
        architecture: As its `config.json` has it.
        **options: For `from_pretrained`, such as the revision.

    Returns:
        In float32.

    Raises:
        UserError: The weights do not load, do not match the configuration, or are not finite.
    """
    if isinstance(architecture, StaticConfig):
        return _read_static(Path(source), architecture)
    with naming(f"{source}: the weights do not load", COPY_AGAIN):
        built = model_class(architecture) if _has_decoder(architecture) else AutoModel
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
            f"({len(report['mismatched_keys'])} such tensors). Copy both files from the same model"
        )
    missing = sorted(name for name in report["missing_keys"] if "pooler" not in name)
    if missing:
        raise UserError(
            f"{source}: weights missing for {', '.join(missing[:3])} ({len(missing)} in all). Copy "
            "config.json and model.safetensors from the same model"
        )
    _require_all_layers(source, backbone, report["unexpected_keys"])
    require_finite_weights(backbone.named_parameters(), source)
    return backbone


def _size(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape))


def _require_all_layers(source: str, backbone: nn.Module, unexpected: Iterable[str]) -> None:
    """Raise UserError if the weights have more layers than the configuration, which would silently drop them.

    Other unused weights (heads, poolers) do not matter.
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
            f"{source}: the weights have {lost[0]}, which config.json does not have ({len(lost)} such tensors). To use "
            "the first layers alone set layers"
        )


def read_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a folder.

    Args:
        folder: An encoder.

    Returns:
        The fast tokenizer with a positive `model_max_length`. It lowercases if the folder requires that.

    Raises:
        UserError: It does not load.
    """
    if is_static(folder):
        return _read_static_tokenizer(folder)
    with naming(f"{folder}: the tokenizer does not load"):
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        if lower_cases(folder):
            before = tokenizer.backend_tokenizer.normalizer
            parts: Any = (
                before if isinstance(before, normalizers.Sequence) else [] if before is None else [before]
            )
            # sentence-transformers keeps a Lowercase where it stands: what comes before it may read capitals.
            if not any(isinstance(part, normalizers.Lowercase) for part in parts):
                tokenizer.backend_tokenizer.normalizer = normalizers.Sequence(
                    [normalizers.Lowercase(), *parts]
                )
        length = tokenizer.model_max_length
        if type(length) not in (int, float) or length < 1 or length % 1:
            raise UserError(
                f"{folder}/tokenizer_config.json: model_max_length={short(repr(length))}: expected a whole number from "
                "1 on. Write the number of tokens that the encoder was trained with"
            )
        tokenizer.model_max_length = int(length)
        return tokenizer


def token_embeddings(backbone: PreTrainedModel) -> nn.Embedding:
    """Return the embedding table of the tokens.

    Args:
        backbone: Any backbone.

    Returns:
        The module itself, weights (vocabulary, dim).

    Raises:
        UserError: A model without one, which reads no texts.
    """
    with naming(f"{backbone.config.model_type}: this architecture has no table of tokens", ". Use another"):
        table: Any = backbone.get_input_embeddings()
        assert table.weight.dim() == 2
    return cast(nn.Embedding, table)


@contextmanager
def quiet() -> Iterator[None]:
    """Hide progress bars and the table of unused weights of transformers. We check the weights ourselves."""
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
    """Let torch.compile fuse the operations of each layer, in place. The weights keep their names.

    One compiled layer serves all layers of its type. The first step takes tens of seconds longer.

    Args:
        backbone: The transformer.

    Example:
        >>> from juzhen.encoders import load_encoder
        >>> compile_layers(load_encoder("builtin/mini_zh").backbone)  # nothing is compiled before the first step
    """
    for stack in [module for module in backbone.modules() if isinstance(module, nn.ModuleList)]:
        if len({type(layer) for layer in stack}) == 1:
            for layer in stack:
                layer.compile(dynamic=True)


def checkpoint_layers(backbone: nn.Module) -> None:
    """Keep only the input of each layer in training, and recompute the layer in the backward pass.

    The recomputed layer has the same dropout. Chen et al. 2016, https://arxiv.org/abs/1604.06174.

    Args:
        backbone: The transformer.

    Raises:
        UserError: The architecture does not support it.

    Example:
        >>> from juzhen.encoders import load_encoder
        >>> encoder = load_encoder("builtin/mini_zh")
        >>> checkpoint_layers(encoder.backbone)
        >>> encoder.backbone.is_gradient_checkpointing
        True
    """
    if not getattr(backbone, "supports_gradient_checkpointing", False):
        raise UserError(
            f"gradient_checkpointing=true: {cast(PreTrainedModel, backbone).config.model_type} cannot compute layers "
            "again. Type micro_batch_tokens=8192 instead, which saves memory with every architecture"
        )
    cast(PreTrainedModel, backbone).activation_checkpointing_enable({"use_reentrant": False})


def require_growing(backbone: PreTrainedModel, layers: int) -> None:
    """Check that layers can be added to or removed from an architecture.

    Args:
        backbone: Any backbone.
        layers: Number of layers, for the message.

    Raises:
        UserError: They cannot.
    """
    if backbone.config.model_type not in GROWS:
        raise not_growing(layers, backbone.config.model_type)


def other_layers(backbone: PreTrainedModel, layers: int, *, seed: int) -> PreTrainedModel:
    """Copy a backbone with its first layers, or with new ones on top.

    Args:
        backbone: Not changed.
        layers: Number of layers of the copy.
        seed: Draws new weights.

    Returns:
        A copy on the CPU with `layers` layers. New layers on top have weights drawn from the seed.
    """
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
    """Scale the embedding tables to the size of fresh ones. The normalization above cancels the factor.

    Tables that are trained alone grow large. A masked language model on such a table starts from absurd certainty.
    """
    parts: Any = backbone.embeddings
    tables = [part.weight for part in parts.children() if isinstance(part, nn.Embedding)]
    factor = backbone.config.initializer_range * 2 / parts.word_embeddings.weight.std()
    for table in tables:
        table.mul_(factor)
