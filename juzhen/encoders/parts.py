"""The parts of a sentence encoder as a folder or the hub has them: any Hugging Face encoder, and what follows it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoTokenizer, PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from juzhen.core.errors import UserError
from juzhen.core.threads import limit_threads
from juzhen.encoders.first_look import check_vocabulary, find_encoder, read_tokenizer_file
from juzhen.encoders.layout import Layout
from juzhen.encoders.locate import encoder_source, scores_pairs
from juzhen.encoders.projection import load_projections
from juzhen.encoders.prompts import Prompts
from juzhen.encoders.settings_file import Settings, told_simply
from juzhen.encoders.spec import BackboneConfig
from juzhen.encoders.transformer import from_scratch, from_weights, quiet, read_architecture, token_embeddings


@dataclass
class Parts:
    """What a sentence encoder is made of.

    options  keywords that a PooledEncoder takes
    prompts  templates that sentences are read through; None: there are none
    folder   where the weights and what else was learnt lie; None: the weights are random
    """

    backbone: PreTrainedModel
    tokenizer: Tokenizer
    options: dict[str, Any]
    prompts: Prompts | None
    folder: Path | None


def read_parts(config: BackboneConfig, *, seed: int) -> Parts:
    """The parts that `config` describes, in float32 on the CPU.

    seed  draws the weights under `initialize=random`; the global random state is left as it was

    What the configuration leaves open (null) is taken from the folder; what the folder leaves open is pooling
    mean, not normalized, as many tokens as the model can take. Raises UserError for every mistake that can be
    seen in the files.
    """
    found = find_encoder(config)
    layout = found.layout
    limit_threads()
    with quiet(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        architecture = read_architecture(layout.transformer, dropout=config.dropout)
        if config.initialize == "random":
            if config.layers is not None:
                architecture.num_hidden_layers = config.layers
            backbone = from_scratch(architecture, shown=found.shown)
        elif found.on_hub_only:
            backbone = from_weights(config.path, architecture, revision=config.revision)
        else:
            backbone = from_weights(str(layout.transformer), architecture, local_files_only=True)
        tokenizer = _read_tokenizer(layout.transformer)
    check_vocabulary(tokenizer.get_vocab(), len(token_embeddings(backbone).weight), shown=config.path)
    options = {
        "pooling": layout.pooling_for(config.pooling),
        "normalize": bool(layout.normalize) if config.normalize is None else config.normalize,
        "max_length": _max_length(config, layout, backbone, tokenizer),
        "projections": load_projections(
            layout.projections, width=_state_size(backbone), layer_norm=config.layer_norm
        ),
        "prefix": layout.prefix.configured(config),
    }
    folder = found.folder if config.initialize == "pretrained" else None
    return Parts(backbone, tokenizer, options, layout.prompts, folder)


def embedding_size(source: str | Path, *, revision: str | None = None) -> int:
    """Numbers of an embedding of the encoder in a folder or of a run, or of the hub, by what its files say.

    Raises UserError where there is none, and for a cross-encoder.
    """
    # Weights, which the start of a training from scratch lacks, are not asked for.
    config = BackboneConfig(path=encoder_source(source), revision=revision, initialize="random")
    found = find_encoder(config)
    if scores_pairs(found.folder):
        raise UserError(f"{source}: holds a cross-encoder, which scores pairs and has no embeddings")
    for folder in found.layout.projections[-1:]:
        layer = Settings.read(folder / "config.json")
        return layer.get("dimension" if "dimension" in layer.values else "out_features", int)
    return int(read_architecture(found.layout.transformer, dropout=None).hidden_size)


def _read_tokenizer(folder: Path) -> Tokenizer:
    with told_simply(f"{folder}: the tokenizer does not load"):
        try:
            return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        except Exception:
            read_tokenizer_file(folder)  # transformers says no more than which key was not there
            raise


def _state_size(backbone: PreTrainedModel) -> int:
    size = getattr(backbone.config, "hidden_size", None)
    if not isinstance(size, int):
        raise UserError(f"{backbone.config.model_type}: this architecture is no encoder of texts alone")
    return size


def _max_length(
    config: BackboneConfig, layout: Layout, backbone: PreTrainedModel, tokenizer: Tokenizer
) -> int:
    """Tokens per sentence: what was asked for if the model can take it, else what the folder says."""
    limit = num_positions(backbone)
    wanted = config.max_length
    if wanted is not None:
        smallest = tokenizer.num_special_tokens_to_add() + 1
        if wanted < smallest or (limit is not None and wanted > limit):
            raise UserError(
                f"max_length={wanted}: {config.path} takes {smallest} to "
                f"{limit or 'any number of'} tokens per sentence"
            )
        return wanted
    told = [layout.max_length or tokenizer.model_max_length, limit]
    # Tokenizers that do not know their length say 10^30.
    known = [number for number in told if number is not None and number < 10**9]
    if not known:
        raise UserError(f"{config.path} does not say how many tokens it takes; add max_length=128")
    if min(known) <= (special := tokenizer.num_special_tokens_to_add()):
        raise UserError(
            f"{config.path} takes {min(known)} tokens, and {special} of them are special: none is left for the text"
        )
    return min(known)


def num_positions(backbone: PreTrainedModel) -> int | None:
    """The most tokens a sentence may have, or None for models without a limit.

    RoBERTa and its kin count positions from padding_idx + 1, so two of their 514 rows are never used.
    """
    limit = getattr(backbone.config, "max_position_embeddings", None)
    for name, module in backbone.named_modules():
        if (
            name.endswith("position_embeddings")
            and isinstance(module, nn.Embedding)
            and module.padding_idx is not None
        ):
            limit = module.num_embeddings - module.padding_idx - 1
    return limit if limit is not None and limit > 0 else None
