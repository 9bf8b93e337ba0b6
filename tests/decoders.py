"""Tiny random models of the encoders that people train today, with the tokenizers that such models have."""

import json
from pathlib import Path

import torch
from families import TOKENS, config_of, made
from transformers import PretrainedConfig

from tools.build_vocabulary import tokenizer, tokenizer_config

END = "<|endoftext|>"
VOCABULARY = [*TOKENS, END]
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
SHARED = {"num_key_value_heads": 2, "head_dim": 8, "use_cache": True}
LAYERS = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 4}
"""Windows that the texts of these tests are longer than."""

SETTINGS: dict[str, dict[str, object]] = {
    "qwen2": SHARED | LAYERS | {"use_sliding_window": True, "max_window_layers": 0},
    "qwen3": SHARED,
    "llama": SHARED,
    "mistral": SHARED | {"sliding_window": 5},
    "phi3": SHARED | {"sliding_window": 6, "pad_token_id": 0},
    "gemma": SHARED,
    "gemma2": SHARED | LAYERS | {"query_pre_attn_scalar": 8},
    "gemma3_text": SHARED | LAYERS | {"query_pre_attn_scalar": 12},
    "modernbert": {"layer_types": LAYERS["layer_types"], "local_attention": 6},
    "eurobert": {"num_key_value_heads": 2},
}
"""What differs from the defaults, so that the paths of each architecture are taken."""

DECODERS = ("qwen2", "qwen3", "llama", "mistral", "phi3", "gemma", "gemma3_text")
ENCODERS = ("modernbert", "eurobert", "nomic_bert", "jina_embeddings_v3", "gte", "electra", "albert")
BERTS = ("bert", "roberta", "xlm-roberta", "camembert")
PADDED = ("deberta-v2", "mpnet", "distilbert", "gemma2", "gpt2")
SEGMENTS = ("bert", "albert", "electra", "nomic_bert", "deberta-v2")


def architecture(family: str, **settings: object) -> PretrainedConfig:
    config = config_of(family)
    known = config.to_dict().keys() | config.attribute_map.keys()
    values = {
        name: value for name, value in (SIZES | {"vocab_size": len(VOCABULARY)}).items() if name in known
    }
    return type(config)(**config.to_dict() | values | SETTINGS.get(family, {}) | settings)


def write_tokenizer(
    folder: Path, *, ends: str | None, side: str = "right", segments: bool = False, **settings
) -> None:
    """ends: template (END behind each text, as Qwen3-Embedding), none (nothing is put there), None: [CLS] [SEP]."""
    content = tokenizer(VOCABULARY)
    if ends is not None:
        after = [{"SpecialToken": {"id": END, "type_id": 0}}] if ends == "template" else []
        number = VOCABULARY.index(END)
        content["post_processor"] = {
            "type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}}, *after],
            "pair": [
                {"Sequence": {"id": "A", "type_id": 0}},
                {"Sequence": {"id": "B", "type_id": 0}},
                *after,
            ],
            "special_tokens": {END: {"id": END, "ids": [number], "tokens": [END]}} if after else {},
        }
    (folder / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    names = ["input_ids", *(["token_type_ids"] if segments else []), "attention_mask"]
    known = tokenizer_config() | {"model_max_length": 64, "model_input_names": names, "padding_side": side}
    if ends is not None:
        known |= {"eos_token": END, "pad_token": END, "tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(known | settings), encoding="utf-8")


def write(
    family: str, folder: Path, *, side: str = "right", ends: str | None = "decoder", **settings
) -> Path:
    """The folder of a tiny random model; decoders end each text with END, encoders have [CLS] and [SEP]."""
    folder.mkdir(parents=True, exist_ok=True)
    with torch.random.fork_rng(devices=[]):
        made(architecture(family, **settings)).save_pretrained(folder)
    if ends == "decoder":
        ends = "template" if family in (*DECODERS, "gemma2", "gpt2") else None
    write_tokenizer(folder, ends=ends, side=side, segments=family in SEGMENTS)
    return folder
