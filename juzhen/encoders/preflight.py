"""Checks of encoder files before torch is loaded: they are fast, and their messages name the user's setting."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from juzhen.core.errors import UserError, require_packages
from juzhen.core.lazy_names import offered
from juzhen.core.machine import hub_problem
from juzhen.encoders.backbone_config import BackboneConfig
from juzhen.encoders.folder_settings import naming, read_settings
from juzhen.encoders.layout import (
    MODULES_FILE,
    OWN_FILE,
    PAIRS_FILE,
    Layout,
    Side,
    is_static,
    read_layout,
    transformer_alone,
)
from juzhen.encoders.prompts import INJECTED, Prompts
from juzhen.encoders.resolve_path import (
    ADAPTER,
    BASE_FILE,
    Base,
    base_digest,
    check_files,
    download,
    encoder_folder,
    has_tokenizer,
    has_weights,
    is_adapter,
    locate_folder,
    read_base,
    require_base,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer


TOKENIZER_FILE = "tokenizer.json"

BY_LENGTH = ("dynamic", "longrope")
"""Rotary positions that depend on the longest sentence of a batch, once that is longer than the first training was."""


@dataclass(frozen=True)
class EncoderFiles:
    """Files of an encoder.

    Attributes:
        folder: The encoder folder.
        layout: Its layout.
        shown: Name of the transformer folder in messages.
        on_hub_only: transformers fetches the weights, because the hub may hold converted ones outside the repository.
        tokenizer: Folder of the tokenizer.
        base: Base of an adapter, whose folder is then that of the transformer. None for full weights.
        adapter: Folder of the adapter. None for full weights.
        commit: Commit on the hub, or the revision of the configuration.
    """

    folder: Path
    layout: Layout
    shown: str
    on_hub_only: bool
    tokenizer: Path
    base: Base | None = None
    adapter: Path | None = None
    commit: str | None = None


def find_encoder(
    config: BackboneConfig, *, beside: Path | None = None, alone: bool = False, side: Side | None = None
) -> EncoderFiles:
    """Find the files of a configured encoder, and fetch them from the hub if necessary.

    Args:
        config: The configured encoder.
        beside: Folder of an adapter whose base is configured.
        alone: Find the transformer and ignore the other settings.
        side: As in `read_layout`.

    Returns:
        Folder and layout of the encoder, its tokenizer, and the base of an adapter.

    Raises:
        UserError: The folder lacks a file, or the hub is not reachable.
    """
    folder = locate_folder(config.path)
    is_local = folder is not None
    folder = folder or download(config.path, config.revision)
    layout = transformer_alone(folder) if alone else read_layout(folder, side=side)
    if is_adapter(layout.transformer):
        if beside is not None:
            own = layout.transformer.resolve() == beside.resolve()
            problem = "the base is this adapter itself" if own else "the base is an adapter, too"
            raise UserError(
                f"{beside}: base={config.path}: {problem}. Name whole weights as its base, or merge that adapter first"
            )
        return _beside_base(config, folder, layout)
    on_hub_only = beside is None and not is_local and layout.transformer == folder and not has_weights(folder)
    label = config.path if layout.transformer == folder else f"{config.path}/{layout.transformer.name}"
    needs_weights = config.initialize == "pretrained" and not on_hub_only
    check_files(layout.transformer, needs_weights=needs_weights, shown=label)
    is_commit = not is_local and re.fullmatch(
        "[0-9a-f]{40}", folder.name
    )  # so the hub's cache calls the folder
    commit = folder.name if is_commit else config.revision
    return EncoderFiles(folder, layout, label, on_hub_only, layout.transformer, commit=commit)


def _beside_base(config: BackboneConfig, folder: Path, layout: Layout) -> EncoderFiles:
    """Files of an adapter and of its base. Raises UserError if the base is missing or has changed."""
    adapter = layout.transformer
    base = read_base(adapter)
    offered("adapters", "settings")(adapter)
    is_silent = not any((folder / name).is_file() for name in (MODULES_FILE, OWN_FILE, PAIRS_FILE))
    try:
        start = BackboneConfig(path=base.path, revision=base.revision)
        files = find_encoder(start, beside=adapter, alone=not is_silent)
    except UserError as error:
        key = f"path in {BASE_FILE}" if base.digest else f"base_model_name_or_path in {ADAPTER}"
        raise UserError(
            f"{adapter}: the base of this adapter is not there: {error}. Put it there, or write where it is as {key}"
        ) from error
    require_base(base, files.layout.transformer, adapter=adapter)
    if base.digest == "":
        base = replace(base, digest=base_digest(files.layout.transformer), revision=files.commit)
    layout = files.layout if is_silent else replace(layout, transformer=files.layout.transformer)
    tokenizer = adapter if has_tokenizer(adapter) else files.tokenizer
    return replace(files, folder=folder, layout=layout, tokenizer=tokenizer, base=base, adapter=adapter)


def prompt_at_start(config: BackboneConfig, *, start: str | None) -> str:
    """Prompt of every sentence of a job, according to its configuration and to local files.

    Args:
        config: The configured encoder.
        start: As in `check_encoder_files`.

    Returns:
        Text of the prompt. "" for none, and for a model of the hub that is not yet here.
    """
    if start is not None:
        config = BackboneConfig(path=str(encoder_folder(start)), initialize="pretrained")
    folder = locate_folder(config.path)
    if folder is None and config.prompts is None:
        return ""  # the hub is asked later
    prompts = Prompts() if folder is None else read_layout(folder).prompts
    return prompts.configured(config).text


def marks_segments(config: BackboneConfig, *, start: str | None) -> bool:
    """True if architecture and tokenizer mark two sentences by segments, according to local files.

    Args:
        config: The configured encoder.
        start: As in `check_encoder_files`.

    Returns:
        False if the transformer has one segment, or the tokenizer puts both sentences in the same one.

    Raises:
        UserError: An adapter whose base is missing.
    """
    folder = encoder_folder(start) if start is not None else locate_folder(config.path)
    if folder is None:
        return True  # who loads it sees
    files = find_encoder(BackboneConfig(path=str(folder), initialize="random"))
    if _architecture(files.layout.transformer).get("type_vocab_size", 2) < 2:
        return False
    tokenizer = _read_tokenizer_file(files.tokenizer)
    return tokenizer is None or any(tokenizer.encode("a", "b").type_ids)


def check_encoder_files(config: BackboneConfig, *, start: str | None = None) -> None:
    """Check that an encoder can be loaded, according to its files. Needs no torch.

    Files on the hub are not checked. They are fetched after all other checks.

    Args:
        config: The configured encoder.
        start: A run or an encoder folder that replaces the configured backbone.

    Raises:
        UserError: A file is missing or broken, or a setting does not fit the encoder.
    """
    if start is not None:
        _require_prompt_of(start, config)
        config = BackboneConfig(path=str(encoder_folder(start)), initialize="pretrained")
    if locate_folder(config.path) is None and hub_problem() is None:
        return
    files = find_encoder(config)
    layout = files.layout
    layout.prompts_for(config)
    layout.pooling_for(config.pooling)
    check_adapter(config, files)
    architecture = _architecture(layout.transformer)
    _check_sizes(config, architecture)
    limit = most_positions(architecture)
    if config.max_length is not None and limit is not None and config.max_length > limit:
        problem = f"max_length={config.max_length}: {config.path} has positions for {limit:,} tokens"
        raise UserError(f"{problem}. Choose {limit} or less")
    if (tokenizer := _read_tokenizer_file(files.tokenizer)) is not None:
        check_vocabulary(
            without_added(tokenizer.get_vocab(), files), architecture.get("vocab_size"), shown=config.path
        )


def _check_sizes(config: BackboneConfig, architecture: Mapping[str, Any]) -> None:
    """Raise UserError for numbers of layers and ranks that a pretrained encoder of these sizes cannot use."""
    if config.initialize == "random":
        return
    there, kind = architecture.get("num_hidden_layers"), architecture.get("model_type")
    if config.layers is not None and config.layers != there:
        if config.layers == 0:
            raise UserError(
                f"layers=0: no layer of {config.path} would be left, and no order of words would be read. Type "
                "layers=1 or more"
            )
        if kind and kind not in GROWS:
            raise not_growing(config.layers, kind)
        if there and config.layers > MOST_GROWTH * there:
            raise UserError(
                f"layers={config.layers}: {config.path} has {there}, and the new ones would have learned nothing. Type "
                f"at most layers={MOST_GROWTH * there}"
            )
    width = architecture.get("hidden_size")
    if config.adapter is not None and width and config.adapter.rank > width:
        raise UserError(
            f"rank={config.adapter.rank}: the layers of {config.path} are {width} wide, and an adapter of that "
            "rank learns as much as all weights. Choose a rank such as 16, or leave adapter out"
        )


GROWS = ("bert", "roberta", "xlm-roberta", "camembert")
"""Architectures whose layers end in a normalization. Layers can be added to them."""

MOST_GROWTH = 4
"""Most layers, as a multiple of those of the pretrained encoder."""


def not_growing(layers: int, kind: str) -> UserError:
    """Return the error about an architecture that cannot get other layers.

    Args:
        layers: Requested number of layers.
        kind: `model_type` of the architecture.

    Returns:
        The error, not raised.
    """
    return UserError(
        f"layers={layers}: {kind} cannot get other layers, only {', '.join(GROWS)} can. Leave it at null"
    )


def check_adapter(config: BackboneConfig, files: EncoderFiles) -> None:
    """Raise UserError if files or packages do not allow the configured adapter.

    Args:
        config: Configuration with the adapter. None needs peft only for an adapter in the files.
        files: Files of the encoder.

    Raises:
        UserError: A package is missing, the files have an adapter already, or the weights would be random.
    """
    adapter = config.adapter
    if adapter is not None or files.base is not None:
        require_packages("an adapter", "peft", extra="peft")
    if adapter is None:
        return
    if files.base is not None:
        raise UserError(
            f"{config.path}: has an adapter already, which continues to learn without this setting. Leave adapter "
            "out, or start from the merged weights (juzhen export … --format sentence-transformers)."
        )
    if config.initialize == "random":
        raise UserError(
            "initialize=random: an adapter needs pretrained weights, and is saved without them. Choose "
            "initialize=pretrained, or leave adapter out."
        )
    if adapter.base == "nf4":
        user, otherwise = "base=nf4 (weights in 4 bits on a CUDA device)", ", or choose base=bfloat16"
        require_packages(user, "bitsandbytes", extra="qlora", otherwise=otherwise)


def without_added(vocabulary: Mapping[str, int], files: EncoderFiles) -> Mapping[str, int]:
    """A tokenizer's vocabulary without the token of templates, which a base does not have and loading adds.

    Args:
        vocabulary: Token → id.
        files: Files of the encoder. Only one with an adapter and templates has such a token.

    Returns:
        Token → id, a new dictionary.
    """
    added = (INJECTED,) if files.base is not None and files.layout.templates is not None else ()
    return {token: number for token, number in vocabulary.items() if token not in added}


def _require_prompt_of(start: str, config: BackboneConfig) -> None:
    """Raise UserError if the configured prompt differs from that of the encoder that replaces the backbone."""
    prompts = read_layout(encoder_folder(start)).prompts
    configured = prompts.configured(config)
    if (configured.text, configured.include_prompt) != (prompts.text, prompts.include_prompt):
        raise UserError(
            f"{start}: its encoder, which replaces the backbone, has the prompt {prompts.text!r} "
            f"({'pooled' if prompts.include_prompt else 'not pooled'}) and not {configured.text!r} "
            f"({'pooled' if configured.include_prompt else 'not pooled'}). Start from the path of its encoder "
            "folder instead, and set the prompt."
        )


def _architecture(folder: Path) -> Mapping[str, Any]:
    return {} if is_static(folder) else read_settings(folder / "config.json")


def most_positions(architecture: Mapping[str, Any]) -> int | None:
    """Positions in config.json, including stretched rotary positions. None for no limit.

    Rotary types that depend on the longest sentence of a batch count only up to their original length. Beyond it an
    embedding would depend on the other sentences of the batch.

    Args:
        architecture: Content of config.json.

    Returns:
        Positions, at least 1, or None.
    """
    limit = architecture.get("max_position_embeddings")
    rotation = architecture.get("rope_parameters") or architecture.get("rope_scaling") or {}
    kind = rotation.get("rope_type", rotation.get("type"))
    first = rotation.get("original_max_position_embeddings") or architecture.get(
        "original_max_position_embeddings"
    )
    if not isinstance(limit, int) or limit <= 0:
        return None
    if kind in BY_LENGTH:
        return min(limit, first or limit)
    factor = rotation.get("factor")
    return max(limit, int(first * factor)) if first and factor and kind != "default" else limit


def _read_tokenizer_file(folder: Path) -> "Tokenizer | None":
    """Read tokenizer.json. None if it is missing, because transformers converts older tokenizers."""
    from tokenizers import Tokenizer

    path = folder / TOKENIZER_FILE
    if not path.is_file():
        return None
    with naming(f"{path}: the tokenizer does not load"):
        return Tokenizer.from_file(str(path))


def check_vocabulary(numbers: Mapping[str, int], rows: Any, *, shown: str) -> None:
    """Raise UserError if a token id has no embedding.

    Args:
        numbers: Token → id.
        rows: Rows of the embedding table, by config.json. Anything but an integer is not checked.
        shown: Name of the encoder in the message.

    Raises:
        UserError: The largest id is not below the rows of the table.
    """
    largest = max(numbers.values(), default=-1)
    if isinstance(rows, int) and largest >= rows:
        raise UserError(
            f"{shown}: the tokenizer has {max(len(numbers), largest + 1)} tokens, but the model embeds {rows}. "
            "Copy tokenizer and config.json from the same model."
        )
