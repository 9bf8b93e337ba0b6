"""What is known of the architectures of transformers: which are packed, and which look to the left alone."""

import inspect
from dataclasses import dataclass
from typing import Any, Literal

from transformers import PretrainedConfig, PreTrainedModel

from juzhen.core.errors import UserError
from juzhen.encoders.first_look import BY_LENGTH


@dataclass(frozen=True)
class Architecture:
    """How a model type numbers positions, and where its tokens look.

    positions   learned: one embedding each, from 0 · after_pad: from the padding token's number + 1, as in RoBERTa ·
                rotary: queries and keys are turned, from 0
    is_decoder  a token attends to those before it, unless a configuration says otherwise
    is_proved   tests hold for every configuration; others are proved when they are loaded
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
    """Whether tests hold for the architecture, whatever its configuration says."""
    entry = ARCHITECTURES.get(architecture.model_type)
    return entry is not None and entry.is_proved and why_padded(architecture) is None


def why_padded(architecture: PretrainedConfig) -> str | None:
    """Why sentences of this architecture are padded; None: they are packed."""
    name = architecture.model_type
    if name not in ARCHITECTURES:
        return f"{name} is not among the architectures that are packed"
    if getattr(architecture, "is_decoder", False):
        return f"{name} is configured as a decoder"
    if rotations := sorted(rotary_types(architecture) & set(BY_LENGTH)):
        return f"its rotary positions ({', '.join(rotations)}) depend on the longest sentence of a batch"
    if getattr(architecture, "attn_logit_softcapping", None) and name == "gemma2":
        return "its attention scores are capped (attn_logit_softcapping), which no packed kernel does"
    return None


def rotary_types(architecture: PretrainedConfig) -> set[str]:
    """Kinds of rotary positions in a configuration, which may have one for each type of layer."""
    settings: Any = getattr(architecture, "rope_parameters", None) or {}
    kinds = [settings, *settings.values()] if isinstance(settings, dict) else []
    return {str(kind["rope_type"]) for kind in kinds if isinstance(kind, dict) and "rope_type" in kind}


def looks_ahead(architecture: PretrainedConfig) -> bool:
    """Whether a token attends to those behind it, too."""
    entry = ARCHITECTURES.get(architecture.model_type)
    if entry is None or not entry.is_decoder:
        return not getattr(architecture, "is_decoder", False)
    is_causal = getattr(architecture, "is_causal", None)
    return is_causal is False or bool(getattr(architecture, "use_bidirectional_attention", False))


def set_attention(architecture: PretrainedConfig, attention: str | None) -> None:
    """Has a decoder look both ways or to the left alone, by the entries of config.json that transformers reads.

    attention  causal, bidirectional; None: as the configuration says. The model must be built afterwards.

    (BehnamGhader et al. 2024, https://arxiv.org/abs/2404.05961) Raises UserError for other architectures.
    """
    if attention is None:
        return
    entry = ARCHITECTURES.get(architecture.model_type)
    if entry is None or not entry.is_decoder:
        decoders = ", ".join(name for name, one in ARCHITECTURES.items() if one.is_decoder)
        raise UserError(
            f"attention={attention}: {architecture.model_type} attends as its architecture does; leave it at null. It "
            f"can be chosen for {decoders}"
        )
    if (attention == "bidirectional") == looks_ahead(architecture):
        return
    if getattr(architecture, "use_bidirectional_attention", False):
        architecture.use_bidirectional_attention = False
    architecture.is_causal = attention == "causal"


def without_cache(backbone: PreTrainedModel) -> dict[str, Any]:
    """The argument with which a decoder keeps no keys and values for tokens to come."""
    return {"use_cache": False} if "use_cache" in inspect.signature(backbone.forward).parameters else {}


def first_position(architecture: PretrainedConfig) -> int:
    """The number of the first position of a sentence, for architectures that are packed."""
    after_pad = ARCHITECTURES[architecture.model_type].positions == "after_pad"
    return 1 + architecture.pad_token_id if after_pad else 0
