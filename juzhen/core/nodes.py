"""Models and losses in a configuration: `_target_`, name and parameters. Needs no torch."""

from collections.abc import Iterator, Mapping
from typing import Any

BY_KIND = "by_kind"

INNER = "of"
"""Key of the wrapped loss."""

WITHOUT_BATCH = {"info_nce": "info_nce_own"}
"""Loss → the same loss over a row's own negatives, for sets with `learning.in_batch: false`."""

LATER_NUMBERS: Mapping[str, Mapping[str, Any]] = {
    "lambda_loss": {"weighting_scheme": "ndcg_loss2pp", "k": None, "graded": False},
    "info_nce_guided": {"relative_margin": 0},
}
"""Loss → numbers that losses of earlier versions lacked, at which they compute what they did then.

They are in the digest of a stage, and not in the key of a run and its row.
"""

OFF: Mapping[str, Mapping[str, Any]] = {"softmax": {"label_smoothing": 0}}
"""Loss → such numbers that are in neither."""


def name_of(node: Mapping[str, Any]) -> str:
    """Return the name of a model or loss. For a table of losses by example kind it is `by_kind`.

    Settings without a name have that of their class's module: lightning_modules.cot.CotEncoder → cot.
    """
    target = node.get("_target_")
    if not target:
        return BY_KIND
    return str(node.get("name") or ".".join(["", target]).split(".")[-2])


def numbers_of(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return the constructor arguments of a model or loss."""
    return {key: value for key, value in node.items() if key not in ("_target_", "name")}


def class_of(node: Mapping[str, Any]) -> str:
    """Return the class name without its module. "" without a class."""
    return str(node.get("_target_", "")).rpartition(".")[2]


def loss_names(job: Mapping[str, Any]) -> set[str]:
    """Return the names of all losses of a composed job, its stages and its sets, with wrapped losses."""
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
