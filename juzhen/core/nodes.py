"""A model or a loss as a configuration has it: its class as `_target_`, its name, and its numbers. Needs no torch."""

from collections.abc import Iterator, Mapping
from typing import Any

BY_KIND = "by_kind"

INNER = "of"
"""Key of the loss that another one is made around."""

WITHOUT_BATCH = {"info_nce": "info_nce_own"}
"""Loss → the same over a row's own negatives, by which a set with `learning.in_batch: false` is learnt from."""


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


def class_of(node: Mapping[str, Any]) -> str:
    """The name of the class, without its module; "" without a class."""
    return str(node.get("_target_", "")).rpartition(".")[2]


def loss_names(job: Mapping[str, Any]) -> set[str]:
    """Names of the losses of a composed job, its stages and its sets, and of those that these are made around."""
    schedule = job.get("schedule")
    schedule = schedule if isinstance(schedule, Mapping) else {}
    owners = [job, *(schedule.get("stages") or {}).values(), *(schedule.get("sets") or {}).values()]
    losses = [owner["loss"] for owner in owners if isinstance(owner, Mapping) and owner.get("loss")]
    nodes = [node for loss in losses for node in ([loss] if "_target_" in loss else loss.values())]
    return {name for node in nodes if isinstance(node, Mapping) for name in _names_within(node)}


def _names_within(loss: Mapping[str, Any]) -> Iterator[str]:
    yield name_of(loss)
    if isinstance(loss.get(INNER), Mapping):
        yield from _names_within(loss[INNER])
