"""Which loss trains on which dataset, in which reading: decided and refused before anything is loaded."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from torch import nn

from lightning_modules.base import SentenceModule
from losses.loss import Loss
from schema.config import DatasetConfig, JobConfig
from schema.contract import choose_view
from schema.errors import UserError
from schema.examples import NLI_CLASSES, TARGET_COLUMN, Kind
from schema.own_classes import own_class

LOSS_FOLDER = Path(__file__).resolve().parents[1] / "conf" / "loss"


@dataclass(frozen=True)
class Match:
    """A dataset and the loss that learns from it.

    kind  example kind that is read, after at most one view: what the loss is fed, or what the model asks for
    loss  configuration of the loss (`_target_` and its numbers); empty where the model needs none
    """

    dataset: str
    kind: Kind
    loss: Mapping[str, Any]


def match_losses(job: JobConfig) -> dict[str, Match]:
    """One match per trained dataset, in order. Raises UserError when a loss cannot learn from a set."""
    matches = chosen_losses(job)
    for match in matches.values():
        if match.loss:  # its constructor refuses numbers it cannot use; better now than later
            build_loss(match.loss, dim=1, num_classes=2)
    model = own_class(job.model["_target_"])
    _require_labels(job, matches)
    model.check(job, {name: (match.kind, match.loss) for name, match in matches.items()})
    return matches


def _require_labels(job: JobConfig, matches: Mapping[str, Match]) -> None:
    """Raises UserError where batches shall hold labels in proportion, and no row that is learnt from has any."""
    by = job.training.stratify_by
    if "label" in by and matches and not any(match.kind in TARGET_COLUMN for match in matches.values()):
        read = ", ".join(f"{name} as {match.kind.replace('_', ' ')}s" for name, match in matches.items())
        raise UserError(
            f"training.stratify_by={by}: what is learnt from has no labels ({read}); "
            "choose training.stratify_by=length or none"
        )


def chosen_losses(job: JobConfig) -> dict[str, Match]:
    """As `match_losses`, for a job that has been tried: its losses may have had other numbers than they have today."""
    model = own_class(job.model["_target_"])
    own = {name: one.loss for name, one in job.schedule.sets.items() if one.loss is not None}
    if model.reads is None:
        return {
            name: _match(name, config, own.get(name, job.loss), model) for name, config in job.dataset.items()
        }
    if model.gives is None:
        _refuse_losses(job, model)
    views = {
        name: choose_view(
            name,
            Kind(config.kind),
            model.__name__,
            (model.reads,),
            wanted=config.view,
            chooser="model",
        )
        for name, config in job.dataset.items()
    }
    losses = {name: {} if model.gives is None else _loss_of(model, own.get(name, job.loss)) for name in views}
    return {name: Match(name, kind, losses[name]) for name, kind in views.items()}


def _refuse_losses(job: JobConfig, model: type[SentenceModule]) -> None:
    """Raises UserError where a set or a stage is given a loss of its own, and the model would read none.

    The loss of the job is there whether anybody asked for it or not, and is left unread.
    """
    for group, owners in (("sets", job.schedule.sets), ("stages", job.schedule.stages)):
        for name, one in owners.items():
            if one.loss is not None:
                raise UserError(
                    f"schedule.{group}.{name}.loss: {model.__name__} learns without a loss; leave it out"
                )


def _loss_of(model: type[SentenceModule], losses: Mapping[str, Any]) -> Mapping[str, Any]:
    """The loss for what the model makes of its rows. Raises UserError for one that does not take it."""
    chosen = losses if "_target_" in losses else losses.get(model.gives, {})
    if not chosen or model.gives not in own_class(chosen["_target_"]).takes:
        fitting = [name for name, kinds in _losses_on_file().items() if model.gives in kinds]
        given = chosen["_target_"].split(".")[-2] if chosen else "by_kind"
        raise UserError(
            f"loss={given}: {model.__name__} makes {model.gives.replace('_', ' ')}s, which this loss does not "
            f"take; choose one of {', '.join(fitting)}, as in loss={fitting[0]}"
        )
    return chosen


def _match(
    name: str, dataset: DatasetConfig, losses: Mapping[str, Any], model: type[SentenceModule]
) -> Match:
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
    target = own_class(chosen["_target_"])
    if target.reads not in model.offers:
        raise UserError(_unreadable(chosen["_target_"].split(".")[-2], target.reads, kind, model))
    kind = choose_view(
        name,
        kind,
        chosen["_target_"].split(".")[-2],
        target.takes,
        wanted=wanted,
        alternatives=_losses_on_file(model.offers),
    )
    return Match(name, kind, chosen)


def build_loss(config: Mapping[str, Any], *, dim: int, num_classes: int) -> Loss:
    """The loss of a configuration node; only one with a head is told the sizes."""
    target = own_class(config["_target_"])
    numbers = {name: value for name, value in config.items() if name != "_target_"}
    return target(**numbers, **({"dim": dim, "num_classes": num_classes} if target.has_head else {}))


NEEDS = {
    "logits": "one logit per class",
    "cosines": "a cosine of two embeddings",
    "embeddings": "an embedding of each sentence",
    "scores": "one score per pair",
    "layers": "a cosine at each of several layers",
}
"""What a loss reads, in words."""


def _unreadable(loss: str, reads: str, kind: Kind, model: type[SentenceModule]) -> str:
    """Why `loss` cannot learn from what `model` gives, and which losses can."""
    message = f"loss={loss} needs {NEEDS[reads]}, and {model.__name__} gives none; "
    if reads == "logits":
        return message + "for labelled pairs choose loss=softmax, which has a head of its own, or loss=bce"
    fitting = [name for name, kinds in _losses_on_file(model.offers).items() if kind in kinds]
    return message + f"choose one of {', '.join(fitting) or 'none on file'}"


@cache
def _losses_on_file(offers: tuple[str, ...] = SentenceModule.offers) -> dict[str, tuple[Kind, ...]]:
    """Every loss in conf/loss that reads one of `offers`, with the kinds it takes."""
    nodes = {path.stem: OmegaConf.load(path) for path in sorted(LOSS_FOLDER.glob("*.yaml"))}
    targets = {name: own_class(node["_target_"]) for name, node in nodes.items() if "_target_" in node}
    return {name: target.takes for name, target in targets.items() if target.reads in offers}


def build_losses(matches: Mapping[str, Match], *, dim: int, num_classes: Mapping[str, int]) -> nn.ModuleDict:
    """One loss per dataset; datasets of one kind share it, and with it the head it may own.

    dim          size of an embedding
    num_classes  dataset key → classes of its labels
    """
    shared: dict[tuple[Kind, str], Loss] = {}
    losses = nn.ModuleDict()
    for name, match in matches.items():
        if not match.loss:
            continue
        classes = len(NLI_CLASSES) if match.kind is Kind.NLI_PAIR else num_classes[name]
        key = (match.kind, str((match.loss, classes)))
        if key not in shared:
            shared[key] = build_loss(match.loss, dim=dim, num_classes=classes)
        losses[name] = shared[key]
    return losses
