"""The numbers of every loss on file, for models that score by cosines and for those that score by logits."""

import inspect
import json
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from typing import Any

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from conf import resolvers
from conf.own_classes import own_class
from juzhen.core.nodes import INNER, numbers_of
from juzhen.core.paths import CONFIGURATION
from lightning_modules.loss_factory import declared_loss

FAMILIES = {
    resolvers.COSINE: ("biencoder", "distill", "guided"),
    resolvers.LOGIT: ("crossencoder", "splade"),
}
"""What scores are → models whose scores are that; together they read every loss."""


def options(group: str) -> dict[str, dict[str, Any]]:
    """Name → configuration of every file of a group, in the order of the alphabet. The files are read once."""
    return deepcopy(_read(group))


@cache
def _read(group: str) -> dict[str, dict[str, Any]]:
    nodes = {path.stem: OmegaConf.load(path) for path in sorted((CONFIGURATION / group).glob("*.yaml"))}
    with initialize_config_dir(str(CONFIGURATION), version_base="1.3"):
        composed = {
            name: compose(f"{group}/{name}")[group] for name, node in nodes.items() if "defaults" in node
        }
    return {name: OmegaConf.to_container(node) for name, node in (nodes | composed).items()}


def losses_for(model: Mapping[str, Any], **typed: Any) -> dict[str, dict[str, Any]]:
    """Name → configuration of every loss, with the numbers that a job with `model` has.

    typed  values that are given by hand, to each loss that has the key
    """
    return deepcopy(_resolved(json.dumps([dict(model), typed], sort_keys=True)))


@cache
def _resolved(choice: str) -> dict[str, dict[str, Any]]:
    resolvers.register()
    (model, typed), losses = json.loads(choice), options("loss")
    for loss in losses.values():
        loss |= {key: value for key, value in typed.items() if key in loss}
    job = OmegaConf.create({"model": model, "losses": losses})
    return OmegaConf.to_container(job.losses, resolve=True)


def documented() -> dict[str, dict[str, dict[str, str]]]:
    """Loss → number → unit of the scores → value as a text; without the units that the loss does not read."""
    numbers: dict[str, dict[str, dict[str, str]]] = {}
    for unit, model in ((unit, options("model")[name]) for unit, names in FAMILIES.items() for name in names):
        for loss, config in losses_for(model).items():
            provided = own_class(model["_target_"]).provides
            if "_target_" not in config or not declared_loss(config).suits(provided):
                continue
            for key, value in _with_other_unit(model, loss, config).items():
                numbers.setdefault(loss, {}).setdefault(key, {})[unit] = written(value)
    return numbers


def _with_other_unit(model: Mapping[str, Any], loss: str, numbers: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of a loss, and its temperature in the unit that its file does not choose."""
    plain = {key: value for key, value in numbers_of(numbers).items() if key != INNER}
    if "temperature_unit" in plain:
        other = "score" if plain["temperature_unit"] == resolvers.SPREAD else resolvers.SPREAD
        elsewhere = losses_for(model, temperature_unit=other)[loss]
        plain[f"temperature (temperature_unit={other})"] = elsewhere["temperature"]
    return plain


def written(value: Any) -> str:
    """A value as a configuration spells it, whole numbers without a point."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value if isinstance(value, str) else json.dumps(value)


def number_table() -> list[str]:
    """The lines of a Markdown table: loss, number, value with cosines, with logits, and of the class."""
    rows = ["| loss | number | with cosines | with logits | the class by itself |", "|---|---|---|---|---|"]
    for loss, numbers in sorted(documented().items()):
        defaults = class_defaults(loss)
        for key, values in numbers.items():
            cells = " | ".join(f"`{values[unit]}`" if unit in values else "refused" for unit in FAMILIES)
            alone = f"`{written(defaults[key])}`" if key in defaults else ""
            rows.append(f"| `{loss}` | {key} | {cells} | {alone} |")
    return rows


def class_defaults(loss: str) -> dict[str, Any]:
    """Number → what the class of a loss on file takes where it is not given."""
    taken = inspect.signature(own_class(_read("loss")[loss]["_target_"])).parameters.items()
    return {name: parameter.default for name, parameter in taken if parameter.default is not parameter.empty}
