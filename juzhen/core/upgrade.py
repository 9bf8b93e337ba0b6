"""Results of earlier versions in the words of today. The only place that knows how they were written.

Format 1 spelt some keys otherwise, and told models and losses by the paths of their classes, without a name.
"""

from collections.abc import Callable, Mapping
from typing import Any

from juzhen.core.errors import UserError
from juzhen.core.named import name_of, path_of_today
from juzhen.core.renamed import RENAMED

FORMAT_VERSION = 2

BACKBONES = {
    "builtin/encoder": "embedded",
    "builtin/mini_zh": "mini_zh",
    "google-bert/bert-base-uncased": "bert_en",
    "google-bert/bert-base-chinese": "bert_zh",
    "hfl/chinese-macbert-base": "macbert_zh",
    "hfl/chinese-roberta-wwm-ext": "roberta_wwm_zh",
    "sentence-transformers/all-MiniLM-L6-v2": "minilm_en",
}
"""Path of a backbone → its name, as far as format 1 had files for them."""

Node = dict[str, Any]


def upgraded(fields: Node) -> Node:
    """The fields of a result file in the format of today. Raises UserError for a format that is newer."""
    written = fields.get("format_version", 1)
    if written > FORMAT_VERSION:
        raise UserError(f"format {written}, this version reads {FORMAT_VERSION} and older ones")
    config = _config(fields["config"])
    filled = [fill | {"sets": _each(fill["sets"], _renamed)} for fill in fields.get("filled", [])]
    return fields | {"config": config, "filled": filled, "format_version": FORMAT_VERSION}


def _config(config: Node) -> Node:
    """A job's configuration in the spelling of today; models, losses and backbones have names."""
    config = _renamed(config)
    for group in ("dataset", "evaluate"):
        if group in config:
            config[group] = _each(config[group], _renamed)
    if isinstance(config.get("backbone"), Mapping):
        config["backbone"] = _renamed(config["backbone"])
        if name := BACKBONES.get(config["backbone"].get("path")):
            config["backbone"].setdefault("name", name)
    if isinstance(config.get("schedule"), Mapping):
        groups = {key: _each(config["schedule"].get(key), _owner) for key in ("stages", "sets")}
        config["schedule"] = config["schedule"] | {key: one for key, one in groups.items() if one is not None}
    for key in ("model", "loss"):
        if key in config:
            config[key] = _named(config[key])
    if isinstance(config.get("earlier"), Mapping):
        config["earlier"] = _owner(config["earlier"])
    return config


def _owner(one: Any) -> Any:
    """What a set or a stage has of its own."""
    one = _renamed(one)
    return one | {"loss": _named(one["loss"])} if isinstance(one, dict) and one.get("loss") else one


def _named(node: Any) -> Any:
    """A model or a loss, or each of a table of losses, with its name and with the path that its class has today."""
    if not isinstance(node, Mapping):
        return node
    if "_target_" not in node:
        return _each(node, _named)
    named = {"_target_": path_of_today(node["_target_"]) or node["_target_"], "name": name_of(node)}
    if named["name"] == "cot" and not node.get("variant"):
        named["variant"] = _variant(node)
    return named | {key: one for key, one in node.items() if key not in named}


def _variant(model: Mapping[str, Any]) -> str:
    """The name of the settings of a prompt encoder, from before they had one."""
    english = (model.get("templates") or {}).get("en") or {}
    masks = str(english.get("anchor")).count("[MASK]")
    alone = english.get("stage_2") is None
    told = {
        "simcse": model.get("read") == "pooling",
        "cot_published": model.get("denoise") == "pads",
        "cot_single": model.get("denoise") == "positions",
        "cot_long": alone and masks > 1,
        "cot_first_stage": alone,
        "cot_matched": model.get("match_norm") is True,
        "cot_detached": model.get("end_to_end") is False,
        "cot_without_negative": model.get("use_negative") is False,
    }
    return next((name for name, is_so in told.items() if is_so), "cot")


def _renamed(node: Any) -> Any:
    return {RENAMED.get(key, key): one for key, one in node.items()} if isinstance(node, Mapping) else node


def _each(nodes: Any, change: Callable[[Any], Any]) -> Any:
    return {key: change(one) for key, one in nodes.items()} if isinstance(nodes, Mapping) else nodes
