"""The name and the key of a run: what a folder is called, and when two commands mean the same run."""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from conf import for_scores
from conf.declared import declared
from conf.own_classes import is_own
from juzhen.core.accelerator import HARDWARE, found_hardware
from juzhen.core.errors import UserError
from juzhen.core.named import (
    NOT_PART_OF_THE_RUN,
    deciding_backbone,
    deciding_callbacks,
    deciding_optimizer,
    deciding_set,
    name_of,
    without_paths,
)
from juzhen.core.opened import open_input, read_yaml
from juzhen.core.reading import as_read
from juzhen.encoders.base import BASE_FILE
from juzhen.encoders.layout import read_layout
from juzhen.encoders.locate import ADAPTER, ADAPTER_WEIGHTS, encoder_source


def run_key(config: Mapping[str, Any] | DictConfig) -> str:
    """Eight hex digits over everything that decides the numbers of a run."""
    return key_of_settings(deciding_settings(config))


def key_of_settings(deciding: Mapping[str, Any]) -> str:
    """The key of what `deciding_settings` gave."""
    text = json.dumps(deciding, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def deciding_settings(config: Mapping[str, Any] | DictConfig) -> dict[str, Any]:
    """Everything that decides the numbers of a run, in plain containers.

    What the job does not read (`juzhen.core.reading`) is left out. Models and losses count by their names, wherever
    their classes lie, a backbone by its path. An encoder to start
    from, and a teacher, count by their weights and their prompt, not by their paths. The order of mappings is kept: a
    curriculum [a, b] is another run than [b, a]. Of a composition, each `${…}` counts by what it stands for.
    """
    if isinstance(config, DictConfig):
        config = _filled_in(config)
    config = as_read(config)
    deciding = without_paths({key: value for key, value in config.items() if key not in NOT_PART_OF_THE_RUN})
    if isinstance(config.get("backbone"), Mapping):
        deciding["backbone"] = deciding_backbone(config["backbone"])
    if isinstance(config.get("optimizer"), Mapping):
        deciding["optimizer"] = deciding_optimizer(config["optimizer"])
    for group in ("dataset", "evaluate"):
        if isinstance(config.get(group), Mapping):
            deciding[group] |= {
                name: deciding_set(node)
                for name, node in deciding[group].items()
                if isinstance(node, Mapping)
            }
    if isinstance(config.get("schedule"), Mapping):
        deciding["schedule"].pop("store", None)
        if not deciding["schedule"].get("weigh_loss"):  # runs from before there was such a key stay
            deciding["schedule"].pop("weigh_loss", None)
    if config.get("init_from"):
        deciding["init_from"] = _weights_digest(Path(config["init_from"]))
    hardware = config.get("hardware") or {}
    deciding["precision"] = hardware.get("precision")
    if hardware.get("compile"):  # runs from before it counted stay
        deciding["compile"] = True
    if augmentation := deciding_augmentation(deciding.pop("augmentation", None) or {}):
        deciding["augmentation"] = augmentation
    if callbacks := deciding_callbacks(config.get("callbacks") or {}):
        deciding["callbacks"] = callbacks
    deciding["model"] = deciding_model(with_language(config))
    evaluation = (config.get("evaluation") or {}).items()
    deciding["evaluation"] = {
        key: sorted({*value}) if isinstance(value, list) else value  # in whatever order they are asked for
        for key, value in evaluation
        if key != "cache_embeddings" and (key not in ("rankings", "limit") or value)
    }
    return deciding


def _filled_in(config: DictConfig) -> dict[str, Any]:
    """What decides a run, and its hardware, in plain containers. The folder is left out: its name asks for the key."""
    keys = [key for key in config if key not in NOT_PART_OF_THE_RUN or key in ("hardware", "callbacks")]
    nodes = {key: "???" if OmegaConf.is_missing(config, key) else config[key] for key in keys}
    return {
        key: OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node
        for key, node in nodes.items()
    }


def deciding_model(model: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a model without the name that they go by, which changes no numbers; a teacher by its weights."""
    deciding = {key: value for key, value in without_paths(model).items() if key != "variant"}
    if deciding.get("teacher_prompt") is None:
        deciding.pop("teacher_prompt", None)  # runs from before there was such a key stay
    if deciding.get("teacher"):
        with suppress(UserError):  # a teacher that is not there is told of by the job
            deciding["teacher"] = _weights_digest(Path(encoder_source(deciding["teacher"])))
    return deciding


def with_language(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the model, `language` filled in by the sets of the job where it is null and they agree.

    The sets that are learnt from decide; where nothing is learnt, those that are evaluated on. A set of translations
    counts for both of its languages. Languages whose templates are the same, as those of model=simcse are, agree.
    """
    model = dict(config.get("model") or {})
    if model.get("language", "") is not None:
        return model
    sets = config.get("dataset") or config.get("evaluate") or {}
    languages = [word for described in sets.values() for word in (described.get("language") or "").split("-")]
    templated = [language for language in dict.fromkeys(languages) if language in model["templates"]]
    unused = () if model.get("use_negative") else ("negative",)
    texts = [
        {view: text for view, text in model["templates"][language].items() if view not in unused}
        for language in templated
    ]
    if templated and all(text == texts[0] for text in texts):
        model["language"] = templated[0]
    return model


def deciding_augmentation(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What of an augmentation decides numbers, a file of translations by its content; {} where it changes nothing."""
    views = list(settings.get("views") or ())
    if not views:
        return {}
    deciding = {key: settings.get(key) for key in ("views", "probability", "sets", *views) if key in settings}
    if "translation" in views:
        path = Path(settings.get("translations") or "").expanduser()
        is_there = path.is_file()  # where it is not, the job will say so
        deciding["translations"] = _file_digest(path, path.stat().st_mtime_ns) if is_there else str(path)
    return deciding


WHOLE_OR_ADAPTER = ("model.safetensors", ADAPTER_WEIGHTS)


def _weights_digest(folder: Path) -> str:
    """Digest of the weights below a run or encoder folder; the path itself where there are none (the job will say)."""
    for encoder in (folder / "encoder", folder):
        first = [encoder / name for name in WHOLE_OR_ADAPTER if (encoder / name).is_file()]
        if first:
            # A head, or layers after pooling, lie in files of their own, and so does what an adapter says of its base.
            files = first[:1]
            files += sorted(path for path in encoder.rglob("*.safetensors") if path not in files)
            files += [path for path in (encoder / name for name in (ADAPTER, BASE_FILE)) if path.is_file()]
            digests = [_file_digest(path, path.stat().st_mtime_ns) for path in files] + _prompt(encoder)
            return digests[0] if len(digests) == 1 else hashlib.sha256(" ".join(digests).encode()).hexdigest()
    return str(folder)


def _prompt(folder: Path) -> list[str]:
    """What stands before every sentence, and whether it is pooled; nothing where nothing does."""
    with suppress(UserError):  # of broken files the job will speak
        prompts = read_layout(folder).prompts
        return [f"{prompts.text!r} {prompts.include_prompt}"] if prompts.text else []
    return []


@lru_cache(maxsize=8)
def _file_digest(path: Path, modified_ns: int) -> str:
    """Digest of a file; `modified_ns` only tells the cache when it is out of date."""
    with open_input(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def run_name(config: Mapping[str, Any]) -> str:
    """A readable name: trained sets, model, loss and seed, less what has no part in it.

    A model that learns nothing has neither sets nor a loss, one with an objective of its own no loss.
    """
    datasets = list(config.get("dataset") or {}) or ["untrained"]
    schedule = config.get("schedule") or {}
    is_serial = schedule.get("name") == "serial"
    joined = ("-" if is_serial else "+").join((is_serial and schedule.get("order")) or datasets)
    if len(joined) > 80:
        joined = f"{datasets[0]}+{len(datasets) - 1}more"
    model = config["model"].get("variant") or name_of(config["model"])
    loss, inner = name_of(config["loss"]), config["loss"].get("of")
    while isinstance(inner, Mapping):
        loss, inner = f"{loss}_{name_of(inner)}", inner.get("of")
    trains, uses_loss = True, True
    with suppress(UserError):  # a model that is not there is told of in other places
        if is_own(target := config["model"].get("_target_")):
            declaration = declared(target)
            trains, uses_loss = declaration.trains is not False, declaration.uses_loss
    learns = trains and bool(config.get("dataset"))
    parts = [*([joined] if trains else []), model, *([loss] if learns and uses_loss else [])]
    return f"{'-'.join(parts)}-s{config.get('seed')}"


def this_machine(key: str) -> Any:
    """`${this_machine:key}`: the value of a key in the file of conf/hardware that suits this machine."""
    return read_yaml(HARDWARE / f"{found_hardware()[0]}.yaml")[key]


def register_resolvers() -> None:
    """Makes the resolvers of `conf/` known to OmegaConf; may be called again."""
    for_scores.register()
    for name, resolver in {
        "this_machine": this_machine,
        "run_key": lambda *, _root_: run_key(_root_),
        "run_name": lambda *, _root_: run_name(OmegaConf.to_container(_root_, resolve=False)),
    }.items():
        OmegaConf.register_new_resolver(name, resolver, replace=True)
