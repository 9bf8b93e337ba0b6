"""The name and the key of a composition: what a folder is called, and when two commands mean the same run."""

from collections.abc import Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf

from conf import for_scores
from juzhen import identity
from juzhen.core.machine import HARDWARE, found_hardware
from juzhen.core.nodes import INNER, name_of
from juzhen.core.safe_open import read_yaml
from juzhen.models import settings_of


def run_key(config: Mapping[str, Any] | DictConfig) -> str:
    """Eight hex digits over everything that decides the numbers of a run."""
    return identity.key_of_settings(deciding_settings(config))


def deciding_settings(config: Mapping[str, Any] | DictConfig) -> dict[str, Any]:
    """As of `juzhen.identity`; of a composition, each `${…}` counts by what it stands for."""
    return identity.deciding_settings(_filled_in(config) if isinstance(config, DictConfig) else config)


def _filled_in(config: DictConfig) -> dict[str, Any]:
    """What decides a run, and its hardware, in plain containers. The folder is left out: its name asks for the key."""
    keys = [
        key for key in config if key not in identity.NOT_PART_OF_THE_RUN or key in ("hardware", "callbacks")
    ]
    nodes = {key: "???" if OmegaConf.is_missing(config, key) else config[key] for key in keys}
    return {
        key: OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node
        for key, node in nodes.items()
    }


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
    loss, inner = name_of(config["loss"]), config["loss"].get(INNER)
    while isinstance(inner, Mapping):
        loss, inner = f"{loss}_{name_of(inner)}", inner.get(INNER)
    settings = settings_of(config["model"])
    uses_loss = settings.uses_loss() and bool(config.get("dataset"))
    parts = [*([joined] if settings.trains else []), model, *([loss] if uses_loss else [])]
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
