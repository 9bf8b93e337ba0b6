"""What a user should hear once of an encoder that is loaded: where it departs from its folder, and what costs more."""

from collections.abc import Iterator, Mapping
from typing import Any

from transformers import PretrainedConfig, PreTrainedTokenizerBase

from juzhen.encoders.architectures import ARCHITECTURES, looks_ahead, why_padded
from juzhen.encoders.layout import STATIC, Layout
from juzhen.encoders.settings_file import read_settings
from juzhen.encoders.spec import BackboneConfig
from juzhen.encoders.special_tokens import special_around


def remarks(
    config: BackboneConfig,
    layout: Layout,
    architecture: PretrainedConfig,
    tokenizer: PreTrainedTokenizerBase,
    *,
    pooling: str,
) -> tuple[str, ...]:
    """Lines on an encoder that was loaded as `config` says, with `pooling`."""
    path = layout.transformer / "config.json"
    settings = read_settings(path) if path.is_file() else {}
    notes = [*_of_pooling(config, layout, architecture, pooling), *_of_code(settings, architecture)]
    if config.attention is not None and looks_ahead(architecture) != _looked_ahead(settings, architecture):
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
    says_nothing = config.pooling is None and layout.pooling is None
    if says_nothing and entry is not None and entry.is_decoder and not looks_ahead(architecture):
        yield (
            f"pooling={pooling}: the folder names none, and {architecture.model_type} looks to the left alone, so that "
            "its last token is the one that has seen the text: pooling=last"
        )


def _of_code(settings: Mapping[str, Any], architecture: PretrainedConfig) -> Iterator[str]:
    code = settings.get("auto_map") or {}
    if isinstance(code, Mapping) and "AutoModel" in code:
        yield (
            f"the folder brings code of its own, which is not run: {architecture.model_type} of transformers computes "
            "it. Where that code attends otherwise, say so: attention=bidirectional"
        )


def _looked_ahead(settings: Mapping[str, Any], architecture: PretrainedConfig) -> bool:
    """Whether a token attended to those behind it by the folder's own config.json."""
    return looks_ahead(type(architecture).from_dict(dict(settings)))
