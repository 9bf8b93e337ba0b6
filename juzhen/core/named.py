"""Models and losses by their names. Where a class lies decides no key and no row, so that modules can be moved."""

import os
import re
from collections.abc import Mapping
from typing import Any

BY_KIND = "by_kind"

WITHOUT_BATCH = {"info_nce": "info_nce_own"}
"""Loss → the same over a row's own negatives, by which a set with `learning.in_batch: false` is learnt from."""

TF_IDF = "lexical"
LEXICAL = (TF_IDF, "bm25")
"""Models without an encoder, which go by the characters or words that texts share."""

PROMPT_KEYS = ("prompts", "default_prompt_name", "include_prompt")
"""Keys of a backbone: what stands before every sentence, and whether it is pooled."""

NOT_PART_OF_THE_RUN = (
    "hydra", "name", "hardware", "callbacks", "logger", "data_dir", "cache_dir", "output_dir", "run_dir", "resume",
    "trial", "sweep_row",
)  # fmt: skip
"""Top-level keys that change speed, places or messages, but not what is computed; of callbacks, those that decide
weights are told apart.

Of `hardware` two values count all the same: its precision, since bf16 products are other numbers, not the same ones
sooner, and compiling, which has another dropout learnt from. The accelerator, devices, threads and micro-batches
change how sums are rounded and which numbers dropout draws, as another machine or another seed would, but not what is
computed.
"""


def name_of(node: Mapping[str, Any]) -> str:
    """The name of a model or a loss, `by_kind` of a table example kind → loss.

    Settings without a name are called by the module of their class: lightning_modules.cot.CotEncoder → cot.
    """
    target = node.get("_target_")
    if not target:
        return BY_KIND
    return str(node.get("name") or ".".join(["", target]).split(".")[-2])


def numbers_of(node: Mapping[str, Any]) -> dict[str, Any]:
    """What the constructor of a model or a loss takes from its settings."""
    return {key: value for key, value in node.items() if key not in ("_target_", "name")}


OFF = {"softmax": {"smoothing": 0}}
"""Loss → numbers that change nothing. Runs from before they could be set stay."""


def without_paths(settings: Any) -> Any:
    """Settings in which models and losses, at any depth, are told by their names alone.

    >>> without_paths({"loss": {"_target_": "juzhen.losses.pairs.Circle", "name": "circle", "margin": 0.2}})
    {'loss': {'name': 'circle', 'margin': 0.2}}
    """
    if isinstance(settings, list):
        return [without_paths(value) for value in settings]
    if not isinstance(settings, Mapping):
        return settings
    if "_target_" in settings:
        name, numbers = name_of(settings), numbers_of(settings)
        off = OFF.get(name, {})
        settings = {"name": name} | {key: value for key, value in numbers.items() if off.get(key) != value}
    return {key: without_paths(value) for key, value in settings.items()}


def deciding_callbacks(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Those that say of themselves that they decide the weights: they are part of what a run is. {} by default."""
    return {
        name: without_paths(node)
        for name, node in chosen.items()
        if isinstance(node, Mapping) and node.get("decides_weights")
    }


def deciding_optimizer(optimizer: Mapping[str, Any]) -> dict[str, Any]:
    """Its numbers, without a decay by layers where there is none, and without 32 bits: as before these could be set."""
    absent = {"layer_decay": None, "state_bits": 32}
    return {key: value for key, value in optimizer.items() if key not in absent or value != absent[key]}


def deciding_set(described: Mapping[str, Any]) -> dict[str, Any]:
    """A data set's description without what it leaves to the loss: as before it could say how it is learnt from."""
    settings = {
        key: value
        for key, value in described.items()
        if key not in ("symmetric", "grades") or value is not None
    }
    if isinstance(settings.get("learning"), Mapping):
        settings["learning"] = {
            key: value for key, value in settings["learning"].items() if value is not None
        }
    return (
        settings
        if settings.get("learning")
        else {key: value for key, value in settings.items() if key != "learning"}
    )


def deciding_backbone(backbone: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration without its name, and without adapter, attention and prompts that it leaves open: as once.

    A path counts as one, however it is spelt: ./a/ is a.
    """
    return {
        key: os.path.normpath(value) if key == "path" and isinstance(value, str) else value
        for key, value in backbone.items()
        if key != "name" and not (key in (*PROMPT_KEYS, "adapter", "attention") and value is None)
    }


def made_from(verb: str, source: str, origin: str) -> str:
    """The `origin` of a set that a verb makes of `source`, which is set/split and has an origin of its own.

    >>> parents(made_from("mine", "lcqmc_hard/train", made_from("distil", "lcqmc/train", "https://…")))
    ['lcqmc_hard', 'lcqmc']
    """
    return f"juzhen {verb}, from {source} ({origin})"


def parents(origin: str) -> list[str]:
    """The sets that one was made of by our verbs, as its `origin` says, the nearest first."""
    return re.findall(r"juzhen \w+, from ([^/\s]+)/\w+ \(", origin)
