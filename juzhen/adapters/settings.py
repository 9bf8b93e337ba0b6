"""Settings of a peft adapter, and which of them are supported. Needs no torch."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from juzhen.core.errors import UserError
from juzhen.core.text import short
from juzhen.encoders.folder_settings import NEUTRAL, READ, UNREAD, is_empty, naming, read_settings, rules
from juzhen.encoders.resolve_path import ADAPTER

KIND = "LORA"
KEYS: dict[str, str | tuple[Any, ...]] = (
    rules(
        "auto_mapping base_model_name_or_path inference_mode peft_type peft_version revision task_type",
        NEUTRAL,
    )
    | rules("r target_modules fan_in_fan_out layers_to_transform layers_pattern alpha_pattern", READ)
    | rules("exclude_modules lora_alpha lora_bias lora_dropout rank_pattern use_dora use_rslora", READ)
    | rules("corda_config ensure_weight_tying eva_config loftq_config lora_ga_config megatron_core", NEUTRAL)
    | rules("qalora_group_size runtime_config", NEUTRAL)
    | rules("alora_invocation_tokens arrow_config kasa_config layer_replication megatron_config", UNREAD)
    | rules("monteclora_config target_parameters trainable_token_indices use_bdlora use_qalora", UNREAD)
    | rules("velora_config", UNREAD)
    | {
        "bias": ("none",),
        "modules_to_save": NEUTRAL,  # what it names is in the file of weights, and refused there
        # The others (pissa, corda, olora, loftq, lora_ga) change the weights of the base, which others share here.
        "init_lora_weights": (True, False, "gaussian", "eva", "orthogonal", "mica"),
    }
)
"""Key of peft's adapter_config.json → rule, as in `juzhen.encoders.folder_settings`. A tuple holds supported values."""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_scale(value: Any) -> bool:
    return _is_number(value) and abs(value) <= 1e4


def _is_count(value: Any) -> bool:
    return type(value) is int and value > 0


def _is_regex(value: Any) -> bool:
    try:
        re.compile(value)
    except (re.error, TypeError):
        return False
    return isinstance(value, str)


def _is_pattern(value: Any, is_one: Callable[[Any], bool]) -> bool:
    return isinstance(value, dict) and all(map(_is_regex, value)) and all(map(is_one, value.values()))


def _is_one_or_list(value: Any, kind: type, is_one: Callable[[Any], bool]) -> bool:
    return is_one(value) or (isinstance(value, list) and all(type(each) is kind for each in value))


FORMS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "r": (_is_count, "a whole number from 1 on"),
    "lora_alpha": (_is_scale, "a number from -10000 to 10000"),
    "rank_pattern": (
        lambda value: _is_pattern(value, _is_count),
        "an object: regular expression → whole number from 1 on",
    ),
    "alpha_pattern": (
        lambda value: _is_pattern(value, _is_scale),
        "an object: regular expression → number from -10000 to 10000",
    ),
    **dict.fromkeys(
        ("target_modules", "exclude_modules", "layers_pattern"),
        (
            lambda value: _is_one_or_list(value, str, _is_regex),
            "a regular expression, or a list of names",
        ),
    ),
    "layers_to_transform": (
        lambda value: _is_one_or_list(value, int, lambda number: type(number) is int),
        "a whole number, or a list of them",
    ),
    "lora_dropout": (lambda value: _is_number(value) and 0 <= value <= 1, "a number from 0 to 1"),
    **dict.fromkeys(
        ("fan_in_fan_out", "lora_bias", "use_dora", "use_rslora"),
        (lambda value: isinstance(value, bool), "true or false"),
    ),
}
"""Supported key → predicate for valid values, and their description."""

NEEDED = ("r", "lora_alpha")
"""Keys for which null is invalid. Elsewhere null is peft's default."""

MERGE = "Merge the adapter into its model (merge_and_unload of peft), and load that"


def read_adapter_settings(folder: Path) -> dict[str, Any]:
    """The numbers that peft makes an adapter by. A key that would change the numbers, or import code, is refused."""
    path = folder / ADAPTER
    with naming(f"{path}: no settings of an adapter"):
        settings = read_settings(path)
        kind = str(settings["peft_type"])
    if kind != KIND:
        raise UserError(f"{path}: {kind} adapters are not supported. Known: {KIND}. {MERGE}")
    read: dict[str, Any] = {}
    for key, value in settings.items():
        rule = KEYS.get(key, UNREAD)
        if rule == READ:
            is_one, expected = FORMS[key]
            if value is None and key not in NEEDED:
                continue
            if not is_one(value):
                raise UserError(
                    f"{path}: {key}={short(repr(value))}: expected {expected}. Fix the file, or write it again with "
                    "save_pretrained of peft"
                )
            read[key] = value
        elif rule != NEUTRAL and not is_empty(value) and (rule == UNREAD or value not in rule):
            is_new = key not in KEYS
            problem = (
                "a key of peft that is not known here" if is_new else "adapters with it are not read here"
            )
            otherwise = ", or take the key out where it says only how the adapter was trained" * is_new
            raise UserError(f"{path}: {key}={short(repr(value))}: {problem}. {MERGE}{otherwise}")
    return read
