"""What the files of an encoder tell before torch is loaded: seconds sooner, and in the words of who loads them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from juzhen.core.errors import UserError, require_packages
from juzhen.core.lazy_names import offered
from juzhen.core.process import hub_problem
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
    """The files of an encoder.

    shown        how messages name the folder of the transformer
    on_hub_only  its weights: the hub may hold converted ones that the repository lacks, and transformers knows where
    base         of an adapter: what it stands beside, whose folder is the transformer's here; None: whole weights
    adapter      its folder; None: whole weights
    tokenizer    the folder of the tokenizer
    commit       of the hub, where the files are from there; else what the configuration says
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
    """Where the files lie that a configuration means, and what they say; they are fetched from the hub if need be.

    beside  the folder of an adapter, whose base the configuration means
    alone   its transformer is looked for, and nothing else that its files say
    side  as of `read_layout`

    Raises UserError for a folder without them, and for a hub that cannot be asked.
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
    commit = config.revision if is_local else _commit(folder) or config.revision
    return EncoderFiles(folder, layout, label, on_hub_only, layout.transformer, commit=commit)


def _commit(folder: Path) -> str | None:
    """What the hub's cache calls the folder of a commit."""
    return folder.name if re.fullmatch("[0-9a-f]{40}", folder.name) else None


def _beside_base(config: BackboneConfig, folder: Path, layout: Layout) -> EncoderFiles:
    """The files of an adapter and of its base. Raises UserError where the base is gone, or another one."""
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
    """What stands before every sentence of a job, as far as a configuration and files that are here say so.

    start  as of `check_encoder_files`
    """
    if start is not None:
        config = BackboneConfig(path=str(encoder_folder(start)), initialize="pretrained")
    folder = locate_folder(config.path)
    if folder is None and config.prompts is None:
        return ""  # the hub is asked later
    prompts = Prompts() if folder is None else read_layout(folder).prompts
    return prompts.configured(config).text


def marks_segments(config: BackboneConfig, *, start: str | None) -> bool:
    """Whether architecture and tokenizer tell two sentences apart by segments, as far as files that are here say so.

    start  as of `check_encoder_files`
    """
    folder = encoder_folder(start) if start is not None else locate_folder(config.path)
    if folder is None:
        return True  # who loads it sees
    files = find_encoder(BackboneConfig(path=str(folder), initialize="random"))
    if _architecture(files.layout.transformer).get("type_vocab_size", 2) < 2:
        return False
    tokenizer = read_tokenizer_file(files.tokenizer)
    return tokenizer is None or any(tokenizer.encode("a", "b").type_ids)


def check_encoder_files(config: BackboneConfig, *, start: str | None = None) -> None:
    """Raises UserError for an encoder that could not be loaded, as far as its files say so. Needs no torch.

    start  a run, or an encoder's folder, that goes before the backbone of the configuration

    What would have to be fetched is not looked at: that comes after everything that may still be refused.
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
    limit = most_positions(architecture)
    if config.max_length is not None and limit is not None and config.max_length > limit:
        raise UserError(f"max_length={config.max_length}: {config.path} has positions for {limit:,} tokens")
    if (tokenizer := read_tokenizer_file(files.tokenizer)) is not None:
        check_vocabulary(
            without_added(tokenizer.get_vocab(), files), architecture.get("vocab_size"), shown=config.path
        )


def check_adapter(config: BackboneConfig, files: EncoderFiles) -> None:
    """Raises UserError for an adapter that could not be put beside these weights, as far as files and packages say."""
    adapter = config.adapter
    if adapter is not None or files.base is not None:
        require_packages("an adapter", "peft", extra="peft")
    if adapter is None:
        return
    if files.base is not None:
        raise UserError(
            f"{config.path}: holds an adapter already, which goes on learning where no other is asked for; leave "
            "adapter out, or start from its merged weights (juzhen export … --format sentence-transformers)"
        )
    if config.initialize == "random":
        raise UserError(
            "initialize=random: an adapter learns beside weights that have learnt something, and is saved without "
            "them; choose initialize=pretrained, or leave adapter out"
        )
    if adapter.base == "nf4":
        user, otherwise = "base=nf4 (weights in 4 bits on a CUDA device)", ", or choose base=bfloat16"
        require_packages(user, "bitsandbytes", extra="qlora", otherwise=otherwise)


def without_added(vocabulary: Mapping[str, int], files: EncoderFiles) -> Mapping[str, int]:
    """A tokenizer's vocabulary without the token of templates, which a base does not have and loading adds."""
    added = (INJECTED,) if files.base is not None and files.layout.templates is not None else ()
    return {token: number for token, number in vocabulary.items() if token not in added}


def _require_prompt_of(start: str, config: BackboneConfig) -> None:
    """Raises UserError for a backbone with another prompt than the encoder that takes its place."""
    prompts = read_layout(encoder_folder(start)).prompts
    configured = prompts.configured(config)
    if (configured.text, configured.include_prompt) != (prompts.text, prompts.include_prompt):
        raise UserError(
            f"{start} takes the place of the backbone, and its encoder has the prompt {prompts.text!r} "
            f"({'pooled' if prompts.include_prompt else 'not pooled'}) and not {configured.text!r} "
            f"({'pooled' if configured.include_prompt else 'not pooled'}); start from the path of its encoder "
            "folder instead, with the prompt beside it"
        )


def _architecture(folder: Path) -> Mapping[str, Any]:
    return {} if is_static(folder) else read_settings(folder / "config.json")


def most_positions(architecture: Mapping[str, Any]) -> int | None:
    """Positions that config.json has, None for no limit. Rotary ones that are stretched reach as far as they are.

    Kinds that change with the longest sentence of a batch count as far as they are not stretched: beyond that, an
    embedding would depend on the sentences beside it.
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


def read_tokenizer_file(folder: Path) -> "Tokenizer | None":
    """What tokenizer.json holds; None where there is none: an older kind, that transformers converts."""
    from tokenizers import Tokenizer

    path = folder / TOKENIZER_FILE
    if not path.is_file():
        return None
    with naming(f"{path}: the tokenizer does not load; fetch or copy the file again"):
        return Tokenizer.from_file(str(path))


def check_vocabulary(numbers: Mapping[str, int], rows: Any, *, shown: str) -> None:
    """Raises UserError for a tokenizer that gives a token a number for which there is no embedding."""
    largest = max(numbers.values(), default=-1)
    if isinstance(rows, int) and largest >= rows:
        raise UserError(
            f"{shown}: the tokenizer has {max(len(numbers), largest + 1)} tokens, but the model embeds {rows}; "
            "tokenizer and config.json do not belong together"
        )
