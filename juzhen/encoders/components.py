"""Components of a sentence encoder from a folder or the hub: any Hugging Face encoder, and the modules after it."""

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import safe_open
from torch import nn
from transformers import BitsAndBytesConfig, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers import PreTrainedTokenizerBase as Tokenizer

from juzhen.core.errors import UserError, require_number
from juzhen.core.examples import Side as TextSide
from juzhen.core.lazy_names import offered
from juzhen.core.machine import limit_threads
from juzhen.core.text import short
from juzhen.core.text_warnings import caller_level
from juzhen.encoders.backbone import (
    ARCHITECTURES,
    first_position,
    from_scratch,
    from_weights,
    looks_ahead,
    other_layers,
    quiet,
    read_architecture,
    read_tokenizer,
    set_attention,
    token_embeddings,
    why_padded,
)
from juzhen.encoders.backbone_config import AdapterConfig, BackboneConfig
from juzhen.encoders.base_weights import remember_base, share_weights
from juzhen.encoders.folder_settings import ROUTER, naming, read_settings, stated
from juzhen.encoders.layout import MODULES_FILE, ROUTED, STATIC, Layout, Side, is_static
from juzhen.encoders.preflight import (
    EncoderFiles,
    check_adapter,
    check_vocabulary,
    find_encoder,
    most_positions,
    without_added,
)
from juzhen.encoders.projection import IDENTITY, load_projections
from juzhen.encoders.prompts import PROMPTS_FILE, Prompts, Templates
from juzhen.encoders.resolve_path import (
    Base,
    check_files,
    encoder_source,
    has_weights,
    is_built_in,
    locate_folder,
    scores_pairs,
    weight_files,
)
from juzhen.encoders.tokens import append_end_token, special_around


def _load_warnings(
    config: BackboneConfig,
    layout: Layout,
    architecture: PretrainedConfig,
    tokenizer: PreTrainedTokenizerBase,
    *,
    pooling: str,
) -> tuple[str, ...]:
    """Warnings for an encoder that was loaded with a configuration and a pooling."""
    path = layout.transformer / "config.json"
    settings = read_settings(path) if path.is_file() else {}
    notes = [
        *_of_pooling(config, layout, architecture, pooling),
        *_unlike_theirs(config, layout, architecture, tokenizer),
    ]
    code = settings.get("auto_map") or {}
    if isinstance(code, Mapping) and "AutoModel" in code:
        notes.append(
            f"the folder brings code of its own, which is not run: {architecture.model_type} of transformers computes "
            "it. Where that code attends otherwise, say so: attention=bidirectional"
        )
    if config.attention is not None:
        in_folder = type(architecture).from_dict(dict(settings))
        if looks_ahead(architecture) != looks_ahead(in_folder):
            notes.append(
                f"attention={config.attention}: the weights have learnt the other one; they need training"
            )
    if pooling == "last" and not special_around(tokenizer)[1]:
        notes.append(
            "pooling=last: the tokenizer puts no token behind a text, and the last token of each text is read. For one "
            'end token, set "add_eos_token": true in tokenizer_config.json'
        )
    if architecture.model_type == STATIC:
        if settings.get("model_type") != STATIC and config.max_length is None:
            notes.append(
                f"texts are read up to token {tokenizer.model_max_length:,}, where sentence-transformers reads all of "
                "a static embedding; max_length says another number"
            )
    elif (reason := why_padded(architecture)) is not None:
        notes.append(
            f"sentences are padded to the longest beside them: {reason}. The numbers are the same, time and memory more"
        )
    return tuple(notes)


def _of_pooling(
    config: BackboneConfig, layout: Layout, architecture: PretrainedConfig, pooling: str
) -> Iterator[str]:
    if layout.pooling is not None and pooling != layout.pooling:
        yield f"pooling={pooling}: this encoder was trained with {layout.pooling}; its embeddings are other ones"
    entry = ARCHITECTURES.get(architecture.model_type)
    if config.pooling is not None or layout.pooling is not None or architecture.model_type == STATIC:
        return
    if entry is not None and entry.is_decoder and not looks_ahead(architecture):
        yield (
            f"pooling={pooling}: the folder names none, and {architecture.model_type} looks to the left alone, so that "
            "its last token is the one that has seen the text: pooling=last"
        )
    elif config.initialize == "pretrained":
        yield f"pooling={pooling}: the folder has no {MODULES_FILE} that names one, so the mean of all tokens is taken"


def _unlike_theirs(
    config: BackboneConfig, layout: Layout, architecture: PretrainedConfig, tokenizer: Tokenizer
) -> Iterator[str]:
    """What sentence-transformers 6 reads otherwise in the same folder."""
    entry, limit = ARCHITECTURES.get(architecture.model_type), most_positions(architecture.to_dict())
    is_rotary = entry is not None and entry.positions == "rotary"
    if is_rotary and config.max_length is None and limit and (layout.max_length or 0) > limit:
        yield (
            f"texts are read up to token {limit:,}, max_position_embeddings of config.json, where "
            f"sentence-transformers reads {layout.max_length:,}; for these write that number there"
        )
    yield from _unlike_padding(architecture, tokenizer)
    if config.pooling is None and layout.pooling is None and getattr(tokenizer, "chat_template", None):
        yield (
            f"a text is read without the chat template of the tokenizer, which sentence-transformers puts around it "
            f"where a folder has no {MODULES_FILE}"
        )
    for name, side in (("query", TextSide.QUERY), ("document", TextSide.DOCUMENT)):
        text, theirs = layout.prompts.of_side(side), layout.prompts.texts.get(name, "")
        if config.prompts is None and name not in layout.prompts.added and text != theirs:
            yield (
                f"each {name} is read behind {short(repr(text))}, where encode_{name} of sentence-transformers takes "
                f"no prompt; for both name a prompt {name} in {PROMPTS_FILE}"
            )


@dataclass
class EncoderComponents:
    """Components of a sentence encoder.

    Attributes:
        backbone: The transformer.
        tokenizer: The tokenizer.
        options: Keyword arguments of a PooledEncoder.
        templates: Templates around sentences, or None.
        folder: Folder of the weights. None for random weights.
        load_warnings: Lines to print once.
    """

    backbone: PreTrainedModel
    tokenizer: Tokenizer
    options: dict[str, Any]
    templates: Templates | None
    folder: Path | None
    load_warnings: tuple[str, ...] = ()


def unlike_predict(folder: Path, outputs: int = 1) -> Iterator[str]:
    """Yield a warning about scores of a cross-encoder that are not those of sentence-transformers.

    Args:
        folder: Folder of the cross-encoder.
        outputs: Nodes of its head.

    Yields:
        One warning, or nothing for one output whose activation is the identity or is not named.
    """
    if outputs > 1:
        yield (
            f"a score is one number for a pair, where predict of sentence-transformers gives {outputs}, one for each "
            "class. logits() computes these, before an activation of the folder"
        )
        return
    settings = [
        read_settings(folder / name) for name in (PROMPTS_FILE, "config.json") if (folder / name).is_file()
    ]
    of_version_4 = [one.get("sentence_transformers") for one in settings]
    places = [*settings, *(one for one in of_version_4 if isinstance(one, Mapping))]
    keys = ("activation_fn", "sbert_ce_default_activation_function")
    named = (one[key] for one in places for key in keys if one.get(key) is not None)
    if (activation := str(next(named, IDENTITY))) != IDENTITY:
        yield (
            f"scores are logits, where predict of sentence-transformers applies {activation.rpartition('.')[2]} "
            "(activation_fn of the folder). Apply it to the scores for its numbers"
        )


def unlike_default(prompts: Prompts) -> Iterator[str]:
    """Yield a warning about a default prompt that `encode` of an encoder with two sides does not read.

    Args:
        prompts: Prompts of the folder.

    Yields:
        One warning, or nothing if both read texts alike.
    """
    if prompts.default_prompt_name is not None and prompts.text != prompts.of_side(TextSide.DOCUMENT):
        yield (
            f"default_prompt_name: encode reads texts as documents, where sentence-transformers puts "
            f"{short(repr(prompts.text))} before them. encode_query and encode_document are equal in both"
        )


def _unlike_padding(architecture: PretrainedConfig, tokenizer: Tokenizer) -> Iterator[str]:
    entry = ARCHITECTURES.get(architecture.model_type)
    if tokenizer.padding_side == "left" and entry is not None and entry.positions == "learned":
        yield (
            "the tokenizer pads on the left, where sentence-transformers counts positions from the padding, so its "
            "numbers depend on the texts next to one. Here they do not"
        )


def _other_dtype(folder: Path) -> Iterator[str]:
    """What to say of a transformer or a table that other programs compute in half precision."""
    dtypes = stated(folder, "dtype", "torch_dtype")
    if is_static(folder) or (not dtypes and has_weights(folder)):
        dtypes = _stored_dtypes(folder)
    dtype = next((str(one).lower() for one in dtypes if one != "auto"), "").removeprefix("torch.")
    dtype = dtype.replace("f16", "float16")  # F16 and BF16 of safetensors
    if dtype in ("float16", "bfloat16"):
        yield (
            f"the weights are {dtype}, in which sentence-transformers and transformers compute. juzhen "
            "computes in float32, so the numbers differ by rounding"
        )


def _stored_dtypes(folder: Path) -> list[str]:
    """Formats of the weights in a folder. sentence-transformers multiplies the weights of tokens in float32."""
    for path in weight_files(folder)[:1]:
        with safe_open(path, framework="numpy") as file:
            names = [name for name in file.keys() if name != "mapping"]  # noqa: SIM118
            if "embeddings" not in names or "weights" not in names:
                return [file.get_slice(name).get_dtype() for name in names]
    return []


def warn_of(source: str | Path, lines: Iterable[str]) -> None:
    """Warn of differences in a loaded encoder, once for each line.

    Args:
        source: Folder or hub id, put before each line.
        lines: The differences.
    """
    for line in lines:
        warnings.warn(f"{source}: {line}", stacklevel=caller_level())


def read_transformer(folder: Path, *, shown: str) -> tuple[PreTrainedModel, Tokenizer]:
    """Load weights in float32 and tokenizer of a folder, on the CPU.

    Args:
        folder: The folder.
        shown: Its name in messages.

    Returns:
        Transformer and tokenizer.

    Raises:
        UserError: A file is missing or does not load.
    """
    limit_threads()
    check_files(folder, needs_weights=True, shown=shown)
    warn_of(shown, _other_dtype(folder))
    architecture = read_architecture(folder, dropout=None)
    with quiet():
        backbone = from_weights(str(folder), architecture, local_files_only=True)
        tokenizer = read_tokenizer(folder)
    warn_of(shown, _unlike_padding(architecture, tokenizer))
    return backbone, tokenizer


def read_components(
    config: BackboneConfig, *, seed: int, reader: str | None = None, side: Side | None = None
) -> EncoderComponents:
    """Load the components of a configured encoder, in float32 on the CPU.

    A null setting keeps the value of the folder. The defaults of a folder are mean pooling, no normalization, and
    as many tokens as the model accepts.

    Args:
        config: The encoder.
        seed: Seed of the weights under `initialize=random`. The global random state is kept.
        reader: The calling class, for a folder that only one class reads.
        side: As in `read_layout`.

    Returns:
        Transformer, tokenizer, settings and warnings about the folder.

    Raises:
        UserError: A file does not load, or files do not match.
    """
    files = find_encoder(config, side=side)
    layout = files.layout
    if layout.reader not in (None, reader):
        if layout.reader == ROUTED:
            raise UserError(
                f"{config.path}: holds a {ROUTER}, with separate weights for queries and documents. Load it with "
                f"{ROUTED}.load(…)"
            )
        raise UserError(
            f"{config.path}: holds a {layout.reader}, whose states are not sentence embeddings. Load it with "
            f"{layout.reader}.load(…)"
        )
    check_adapter(config, files)
    limit_threads()
    with quiet(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        architecture = read_architecture(layout.transformer, dropout=config.dropout)
        set_attention(architecture, config.attention or (files.base.attention if files.base else None))
        if config.initialize == "random":
            if config.layers is not None:
                architecture.num_hidden_layers = config.layers
                if types := getattr(architecture, "layer_types", None):
                    chosen = [types[number % len(types)] for number in range(config.layers)]
                    architecture.layer_types = chosen
            backbone = from_scratch(architecture, shown=files.shown)
        elif files.on_hub_only:
            backbone = from_weights(config.path, architecture, revision=config.revision)
        elif files.base is not None:
            backbone = _with_adapter(config, files, architecture, has_head=reader is not None)
        else:
            backbone = from_weights(str(layout.transformer), architecture, **_in_bits(config.adapter))
            path = (
                config.path
                if locate_folder(config.path) is None or is_built_in(config.path)
                else str(files.folder)
            )
            base = Base(path, files.commit, "", dropout=config.dropout, attention=config.attention)
            remember_base(backbone, base, layout.transformer)
        tokenizer = read_tokenizer(files.tokenizer)
        with naming(f"{layout.transformer}: the tokenizer does not load"):
            append_end_token(tokenizer, files.tokenizer)
    check_vocabulary(
        without_added(tokenizer.get_vocab(), files), len(token_embeddings(backbone).weight), shown=config.path
    )
    first, padding = first_position(backbone.config), tokenizer.pad_token_id
    if first and padding is not None and first != padding + 1:  # a text could hold what they take for padding
        raise UserError(
            f"{config.path}: pad_token_id={first - 1} in config.json, {padding} in the tokenizer. Copy both again."
        )
    pooling = layout.pooling_for(config.pooling)
    options = {
        "pooling": pooling,
        "normalize": bool(layout.normalize) if config.normalize is None else config.normalize,
        "max_length": _max_length(config, layout, backbone, tokenizer),
        "projections": load_projections(
            layout.projections, width=backbone.config.hidden_size, layer_norm=config.layer_norm
        ),
        "prompts": layout.prompts_for(config),
    }
    folder = files.folder if config.initialize == "pretrained" else None
    notes = _load_warnings(config, layout, backbone.config, tokenizer, pooling=pooling)
    if folder is not None and config.adapter is None and backbone.dtype is torch.float32:
        notes += (*_other_dtype(layout.transformer),)
    is_theirs = files.adapter is not None and (files.folder / MODULES_FILE).is_file()
    if is_theirs and offered("adapters", "settings")(files.adapter).get("use_dora"):
        notes += (
            "use_dora: sentence-transformers leaves the magnitudes of DoRA out when it opens a folder. The numbers "
            "here are those of peft, and of the model that wrote the folder",
        )
    return EncoderComponents(backbone, tokenizer, options, layout.templates, folder, notes)


def _with_adapter(
    config: BackboneConfig, files: EncoderFiles, architecture: PretrainedConfig, *, has_head: bool
) -> PreTrainedModel:
    """Base weights, shared with other adapters of the same base in memory, with an adapter from files."""
    base, folder = cast(Base, files.base), files.layout.transformer
    dropout = base.dropout if config.dropout is None else config.dropout
    base = replace(base, attention=config.attention or base.attention)

    def load() -> PreTrainedModel:
        full = from_weights(str(folder), architecture, **_in_bits(AdapterConfig(base=base.precision)))
        return full if base.layers is None else other_layers(full, base.layers, seed=0)

    if config.dropout is None and dropout is not None:
        architecture = read_architecture(folder, dropout=dropout)
        set_attention(architecture, base.attention)
    if files.layout.templates is None:
        backbone = share_weights((folder, base, dropout), load)
    else:  # a token is added to the table of its own
        backbone = load()
    offered("adapters", "load")(backbone, cast(Path, files.adapter), base, folder, has_head=has_head)
    return backbone


def _in_bits(adapter: AdapterConfig | None) -> dict[str, Any]:
    """How `from_weights` reads a folder: whole, or in 4 bits."""
    if adapter is None or adapter.base != "nf4":
        return {"local_files_only": True}
    if not torch.cuda.is_available():
        raise UserError(
            "base=nf4: weights in 4 bits (QLoRA) need a CUDA device, which is missing. Choose "
            "base=bfloat16 or base=float32."
        )
    numbers = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}
    bits = BitsAndBytesConfig(**numbers, bnb_4bit_compute_dtype=torch.bfloat16)
    return {"local_files_only": True, "quantization_config": bits, "device_map": {"": 0}}


def embedding_size(source: str | Path, *, revision: str | None = None) -> int:
    """Dimensions of the embeddings of an encoder, according to its files.

    Args:
        source: A run, a folder or a hub id.
        revision: Version on the hub. None is main.

    Returns:
        Dimensions of the output layer if the encoder has one, else the hidden size of its transformer.

    Raises:
        UserError: The encoder is missing, or it is a cross-encoder.
    """
    # Weights, which the start of a training from scratch lacks, are not asked for.
    config = BackboneConfig(path=encoder_source(source), revision=revision, initialize="random")
    files = find_encoder(config)
    if scores_pairs(files.folder):
        raise UserError(f"{source}: holds a cross-encoder, which scores pairs and has no embeddings")
    for folder in [folder for folder in files.layout.projections if folder is not None][-1:]:
        layer = read_settings(folder / "config.json")
        return int(layer.get("dimension") or layer["out_features"])
    return int(read_architecture(files.layout.transformer, dropout=None).hidden_size)


def _max_length(
    config: BackboneConfig, layout: Layout, backbone: PreTrainedModel, tokenizer: Tokenizer
) -> int:
    """Tokens per sentence: the configured number if the model can take it, else that of the folder."""
    limit, least = num_positions(backbone), tokenizer.num_special_tokens_to_add() + 1
    of_folder = layout.max_length or tokenizer.model_max_length
    # Tokenizers that do not know their length say 10^30.
    number = config.max_length or min(
        (size for size in (of_folder, limit) if size and size < 10**9), default=0
    )
    require_number("max_length", number, least, limit or math.inf)
    return number


def num_positions(backbone: PreTrainedModel) -> int | None:
    """Maximal number of tokens of a sentence, None for no limit.

    RoBERTa counts positions from padding_idx + 1, so two of its 514 rows are never used.

    Args:
        backbone: A transformer.

    Returns:
        Number of tokens, special ones included, or None.
    """
    limit = most_positions(backbone.config.to_dict())
    for name, module in backbone.named_modules():
        if (
            name.removesuffix(".base_layer").endswith("position_embeddings")
            and isinstance(module, nn.Embedding)
            and module.padding_idx is not None
        ):
            limit = module.num_embeddings - module.padding_idx - 1
    return limit
