"""Losses for the sets of a job: tried before anything is loaded, built when training begins."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from conf.job import JobConfig
from conf.own_classes import own_class
from juzhen.core.errors import UserError, require_choice
from juzhen.core.examples import NLI_CLASSES, TARGET_COLUMN, TEACHER_SCORE, Kind
from juzhen.core.nodes import INNER, name_of, numbers_of
from juzhen.data.spec import Source
from juzhen.encoders.augmentation import TextViews, Views
from juzhen.losses.loss import Loss
from juzhen.training.optimizer import eight_bit_adamw
from lightning_modules.chosen_losses import Match, chosen_losses, declared_loss
from lightning_modules.sharding import check_sharding


def match_losses(job: JobConfig) -> dict[str, Match]:
    """One match per trained dataset, in order. Raises UserError when a loss cannot learn from a set."""
    matches = chosen_losses(job)
    for match in matches.values():
        if match.loss:  # its constructor refuses numbers it cannot use; better now than later
            build_loss(match.loss, dim=1, num_classes=2)
    model = own_class(job.model["_target_"])
    if job.hardware.strategy == "fsdp":
        check_sharding(job)
    if job.optimizer.state_bits == 8:
        eight_bit_adamw()
    _require_labels(job, matches)
    _require_teacher_scores(job, matches)
    model.check(job, matches)
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


def _require_teacher_scores(job: JobConfig, matches: Mapping[str, Match]) -> None:
    """Raises UserError where a loss cannot do without a teacher's scores, and the set has no columns of them."""
    for name, match in matches.items():
        if not (match.loss and declared_loss(match.loss).needs_teacher_scores):
            continue
        config = job.dataset[name]
        is_on_hub = (config.source or job.source) == Source.HUB
        columns = (config.hub if is_on_hub else config.layouts[config.layout]).columns
        layout = None if is_on_hub else config.layouts[config.layout]
        if layout is not None and layout.format is not None:
            has_scores, remedy = layout.teacher_scores, f"teacher_scores: true in its layout {config.layout}"
        else:
            has_scores = TEACHER_SCORE.format("positive") in columns
            remedy = "columns: {…, score_positive: …, score_negative: …}"
        if config.kind != Kind.TRIPLET or not has_scores:
            raise UserError(
                f"loss={name_of(match.loss)} needs what a teacher scores each document of a row; where {name} has "
                f"these, say kind: triplet and {remedy}; loss=list_mle does without"
            )


def build_loss(config: Mapping[str, Any], *, dim: int, num_classes: int) -> Loss:
    """The loss of a configuration node; only one with a head is told the sizes."""
    target = own_class(config["_target_"])
    numbers = numbers_of(config)
    sizes = {"dim": dim, "num_classes": num_classes} if target.has_parameters else {}
    try:
        if INNER in numbers:
            numbers[INNER] = build_loss(numbers[INNER], dim=dim, num_classes=num_classes)
        return target(**numbers, **sizes)
    except UserError as error:  # it names the parameter
        raise UserError(f"loss.{str(error).removeprefix('loss.')}") from None


def build_losses(matches: Mapping[str, Match], *, dim: int, num_classes: Mapping[str, int]) -> nn.ModuleDict:
    """One loss per dataset; datasets of one kind share it, and with it the head it may own, unless it remembers rows.

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
        if key not in shared or shared[key].is_stateful:
            shared[key] = build_loss(match.loss, dim=dim, num_classes=classes)
        losses[name] = shared[key]
    return losses


GROUP = "augmentation"


def check_augmentation(job: JobConfig, matches: Mapping[str, Match], *, model: type) -> None:
    """Raises UserError where what is asked for could not be done in a stage with `matches`, before data are read.

    job    the whole one, with the sets of other stages
    model  class of the model, whose `input_kind` says whether it makes its own pairs of sentences
    """
    config = job.augmentation
    if not config.views or not matches:
        return
    setting = f"{GROUP}.views={list(config.views)}"
    for name in config.sets or ():
        require_choice(f"{GROUP}.sets", name, job.dataset)
    if model.input_kind is not None:
        raise UserError(
            f"{setting}: {model.__name__} learns from text alone and makes of it what it compares; leave {GROUP} out. "
            "Changed sentences as positives are model=views"
        )
    for name, match in matches.items():
        if match.kind is Kind.SENTENCE and (config.sets is None or name in config.sets):
            raise UserError(
                f"{setting}: the loss of {name} learns from single sentences, of which there are no labels to keep; "
                "for changed sentences as positives type model=views loss=info_nce"
            )
    TextViews(Views.of(vars(config), group=GROUP))  # a file of translations is read here
