"""Which loss trains on which dataset, in which reading: decided and refused before anything is loaded."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.utils import get_class
from omegaconf import OmegaConf
from torch import nn

from losses.loss import Loss
from schema.config import DatasetConfig, JobConfig
from schema.contract import choose_view
from schema.errors import UserError
from schema.examples import NLI_CLASSES, Kind

LOSS_FOLDER = Path(__file__).resolve().parents[1] / "conf" / "loss"


@dataclass(frozen=True)
class Match:
    """A dataset and the loss that learns from it.

    kind  example kind that the loss is fed, after at most one view
    loss  configuration of the loss (`_target_` and its numbers)
    """

    dataset: str
    kind: Kind
    loss: Mapping[str, Any]


def match_losses(job: JobConfig) -> dict[str, Match]:
    """One match per trained dataset, in order. Raises UserError when a loss cannot learn from a set."""
    return {name: _match(name, config, job.loss) for name, config in job.dataset.items()}


def _match(name: str, dataset: DatasetConfig, losses: Mapping[str, Any]) -> Match:
    kind = Kind(dataset.kind)
    wanted = dataset.view
    if "_target_" in losses:
        chosen = losses
    elif (wanted or kind) in losses:
        chosen = losses[wanted or kind]
    else:
        raise UserError(
            f"loss=by_kind names no loss for {wanted or kind}, which {name} gives; "
            f"it has {', '.join(losses)}. Choose one: loss=<name>, one of {', '.join(_losses_on_file())}."
        )
    target = get_class(chosen["_target_"])
    kind = choose_view(
        name,
        kind,
        chosen["_target_"].split(".")[-2],
        target.takes,
        wanted=wanted,
        alternatives=_losses_on_file(),
    )
    build_loss(
        chosen, dim=1, num_classes=2
    )  # its constructor refuses numbers it cannot use; better now than later
    return Match(name, kind, chosen)


def build_loss(config: Mapping[str, Any], *, dim: int, num_classes: int) -> Loss:
    """The loss of a configuration node; only one with a head is told the sizes."""
    target = get_class(config["_target_"])
    numbers = {name: value for name, value in config.items() if name != "_target_"}
    return target(**numbers, **({"dim": dim, "num_classes": num_classes} if target.has_head else {}))


def _losses_on_file() -> dict[str, tuple[Kind, ...]]:
    """Every loss that has a file in conf/loss, with the kinds it takes."""
    nodes = {path.stem: OmegaConf.load(path) for path in sorted(LOSS_FOLDER.glob("*.yaml"))}
    return {name: get_class(node["_target_"]).takes for name, node in nodes.items() if "_target_" in node}


def build_losses(matches: Mapping[str, Match], *, dim: int, num_classes: Mapping[str, int]) -> nn.ModuleDict:
    """One loss per dataset; datasets of one kind share it, and with it the head it may own.

    dim          size of an embedding
    num_classes  dataset key → classes of its labels
    """
    shared: dict[tuple[Kind, str], Loss] = {}
    losses = nn.ModuleDict()
    for name, match in matches.items():
        classes = len(NLI_CLASSES) if match.kind is Kind.NLI_PAIR else num_classes[name]
        key = (match.kind, str((match.loss, classes)))
        if key not in shared:
            shared[key] = build_loss(match.loss, dim=dim, num_classes=classes)
        losses[name] = shared[key]
    return losses
