"""Tiny random models of every family of transformers that can be built from a config alone."""

import contextlib
import copy
import json
from pathlib import Path

import torch
from transformers import CONFIG_MAPPING, PretrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

from juzhen.encoders.backbone import model_class
from tools.build_vocabulary import tokenizer, tokenizer_config

TOKENS = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz"),
    *(f"##{x}" for x in "abcdefghijklmnopqrstuvwxyz"),
    *"今天气很好吗我你他们",
]
SIZES: dict[str, float] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "emb_dim", "dim", "embedding_size"), 32),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers"), 2),
    **dict.fromkeys(("encoder_layers", "decoder_layers", "num_decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "num_key_value_heads"), 2),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 2),
    **dict.fromkeys(("intermediate_size", "d_ff", "d_inner", "ffn_dim", "hidden_dim", "n_inner"), 64),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim", "moe_intermediate_size"), 64),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx"), 130),
    **dict.fromkeys(("initializer_range", "init_std", "embed_init_std"), 0.5),
    **dict.fromkeys(("head_dim", "d_kv"), 16),
    **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), 0),
    "vocab_size": len(TOKENS),
    "num_experts": 8,
    "n_routed_experts": 8,
    "num_local_experts": 8,
    "initializer_factor": 3.0,
    "attention_window": 4,
    "rotary_dim": 16,
}
SPECIAL: dict[str, dict[str, object]] = {
    "reformer": {
        "attention_head_size": 16, "axial_pos_embds_dim": [16, 16], "axial_pos_shape": [10, 13], "is_decoder": False,
    },
    "funnel": {"block_sizes": [1, 1], "num_decoder_layers": 1, "n_head": 2, "d_head": 16},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "mamba2": {"num_heads": 4, "head_dim": 16, "n_groups": 1},
    "longt5": {"local_radius": 4, "global_block_size": 4},
    "layoutlm": {"max_2d_position_embeddings": 64},
}  # fmt: skip
MOST_NUMBERS = 20_000_000


def config_of(family: str) -> PretrainedConfig:
    """A small config of that family, by its defaults."""
    kind = CONFIG_MAPPING[family]
    known = kind().to_dict().keys() | getattr(kind, "attribute_map", {}).keys()
    sizes = {name: one for name, one in SIZES.items() if name in known}
    return kind(**sizes | SPECIAL.get(family, {}))


def build(family: str) -> PreTrainedModel | None:
    """A model of that family with random weights, the same each time; None where its defaults make no small one."""
    with contextlib.suppress(Exception):
        config = config_of(family)
        if not hasattr(config, "vocab_size") and family not in SPECIAL:
            return None
        with torch.device("meta"):
            # T5's class of the encoder alone changes the configuration that it is given.
            shape = copy.deepcopy(config)
            if sum(one.numel() for one in model_class(shape)(shape).parameters()) > MOST_NUMBERS:
                return None
        return made(config)
    return None


def made(config: PretrainedConfig) -> PreTrainedModel:
    """The model of a configuration, with the same weights each time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return model_class(config)(config).eval()


def write(family: str, folder: Path, model: PreTrainedModel, *, segments: bool) -> Path:
    """The model with a tokenizer whose texts have segments, or none."""
    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(TOKENS)), encoding="utf-8")
    names = ["input_ids", *(["token_type_ids"] if segments else []), "attention_mask"]
    settings = tokenizer_config() | {"model_max_length": 64, "model_input_names": names}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder


FAMILIES = sorted(MODEL_MAPPING_NAMES)
