"""Losses of a job: chosen and checked before anything is loaded, built when training begins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from typing import Any

from omegaconf import OmegaConf
from torch import nn

from conf.job import JobConfig
from conf.own_classes import keys_of, own_class
from juzhen.core.errors import UserError, require_choice
from juzhen.core.examples import NLI_CLASSES, NLI_GRADES, TARGET_COLUMN, TEACHER_SCORE, Kind
from juzhen.core.kinds import CONVERSIONS, choose_conversion
from juzhen.core.paths import CONFIGURATION
from juzhen.data.spec import DatasetConfig, LearningConfig, Source
from juzhen.encoders.augmentation import TextViews, Views
from juzhen.losses.loss import Loss
from juzhen.models import settings_of
from juzhen.models.settings import INNER, WITHOUT_BATCH, ModelSettings, name_of, numbers_of
from juzhen.training.optimizer import eight_bit_adamw
from lightning_modules.sharding import check_sharding

LOSS_FOLDER = CONFIGURATION / "loss"
OWN_NEGATIVES = "juzhen.losses.in_batch_negatives.InfoNCEOwn"


@dataclass(frozen=True)
class Match:
    """Loss and example kind of a dataset.

    Attributes:
        kind: Example kind that is read, after at most one view. It is the input of the loss, or of the model.
        loss: Configuration of the loss (`_target_` and hyperparameters) with the overrides of the set. Empty
            if the model needs none.
    """

    kind: Kind
    loss: Mapping[str, Any]


@dataclass(frozen=True)
class Needs:
    """Needs of a loss from data and model, as in `juzhen.losses.loss.Loss`.

    Args:
        input_kinds, input_type, reads_tokens, needs_teacher_scores, has_parameters: As of `Loss`.
    """

    input_kinds: tuple[Kind, ...]
    input_type: str
    reads_tokens: bool
    needs_teacher_scores: bool
    has_parameters: bool

    def suits(self, provided: Sequence[str]) -> bool:
        """Check that a model has the inputs of the loss.

        Args:
            provided: Names of the model's outputs, as in `ModelSettings.provides`.

        Returns:
            True if it has them.
        """
        return self.input_type in provided or (self.reads_tokens and "tokens" in provided)


def _needs(loss: Any) -> Needs:
    return Needs(**{field.name: getattr(loss, field.name) for field in fields(Needs)})


def declared_loss(node: Mapping[str, Any]) -> Needs:
    """Read the needs of a loss from its settings. A wrapper has the needs of the wrapped loss.

    Args:
        node: Settings of the loss, with the path of its class in `_target_`.

    Returns:
        The declared needs. Nothing is built.

    Raises:
        UserError: The wrapper does not support the wrapped loss, or the path is outside juzhen.
    """
    outer: Any = own_class(node["_target_"])
    takes = getattr(outer, "takes", None)
    if takes is None:
        return _needs(outer)
    inner_node = node.get(INNER)
    if not isinstance(inner_node, Mapping) or "_target_" not in inner_node:
        raise UserError(f"loss={name_of(node)}: expected one loss inside. Type loss@loss.{INNER}=cosent")
    inner = declared_loss(inner_node)
    is_fixed = inner.has_parameters and not outer.takes_heads
    if is_fixed or inner.input_type not in takes:
        reason = "it owns a head of one size of embedding" if is_fixed else f"it reads {inner.input_type}"
        raise UserError(
            f"loss={name_of(node)}: loss={name_of(inner_node)} cannot be inside, as {reason}. "
            f"Choose a loss of scores or of embeddings, as in loss@loss.{INNER}=cosent"
        )
    takes_over = not outer.input_type or inner.input_type in ("teacher", "guide")
    return replace(
        _needs(outer),
        input_kinds=inner.input_kinds,
        needs_teacher_scores=inner.needs_teacher_scores,
        input_type=inner.input_type if takes_over else outer.input_type,
    )


def chosen_losses(job: JobConfig) -> dict[str, Match]:
    """Choose the loss and the row kind of each trained dataset.

    It does not check the hyperparameters of losses: see `match_losses`.

    Args:
        job: Its datasets, losses, model and `schedule` are read.

    Returns:
        Dataset key → its match, in the order of `job.dataset`.

    Raises:
        UserError: A loss cannot learn from a set.
    """
    model = settings_of(job.model)
    if model.input_kind is not None and model.loss_kind is None:
        _refuse_losses(job, model)
    matches = {}
    for name, dataset in job.dataset.items():
        overrides = job.schedule.sets.get(name)
        losses = job.loss if overrides is None or overrides.loss is None else overrides.loss
        find = _for_the_rows if model.input_kind is None else _for_what_is_made
        kind, loss = find(name, dataset, losses, model)
        matches[name] = Match(kind, _as_the_set_says(loss, dataset, kind, model))
    return matches


def _refuse_losses(job: JobConfig, model: type[ModelSettings]) -> None:
    """Raise UserError if a set or a stage has a loss setting that the model would ignore.

    The job always has a loss, requested or not. Ignoring it is not an error.
    """
    for group, owners in (("sets", job.schedule.sets), ("stages", job.schedule.stages)):
        for name, owner in owners.items():
            if owner.loss is not None:
                raise UserError(
                    f"schedule.{group}.{name}.loss: model={model.name} learns without a loss. Leave it out"
                )


def _for_what_is_made(
    name: str, dataset: DatasetConfig, losses: Mapping[str, Any], model: type[ModelSettings]
) -> tuple[Kind, Mapping[str, Any]]:
    """Return the kind to read rows as, and the loss for the examples that the model makes of them, or {}."""
    kinds_needed = (model.input_kind,)
    view = choose_conversion(
        name, Kind(dataset.kind), model.name, kinds_needed, wanted=dataset.convert_to, chooser="model"
    )
    kind_made = model.loss_kind
    if kind_made is None:
        return view, {}
    chosen = losses if "_target_" in losses else losses.get(kind_made, {})
    loss = declared_loss(chosen) if chosen else None
    if loss is not None:
        _require_readable(name_of(chosen), loss, kind_made, model)
    if loss is None or kind_made not in loss.input_kinds:
        fitting = [
            loss_name for loss_name, kinds in _losses_on_file(model.provides).items() if kind_made in kinds
        ]
        raise UserError(
            f"loss={name_of(chosen)}: model={model.name} makes {kind_made.replace('_', ' ')}s, which this loss "
            f"does not take. Choose one of {', '.join(fitting)}, as in loss={fitting[0]}"
        )
    return view, chosen


def _for_the_rows(
    name: str, dataset: DatasetConfig, losses: Mapping[str, Any], model: type[ModelSettings]
) -> tuple[Kind, Mapping[str, Any]]:
    """Return the kind to read rows as, which is the input of the loss, and the loss."""
    kind = Kind(dataset.kind)
    chosen = losses if "_target_" in losses else _of_kind(name, dataset, losses, model)
    target = declared_loss(chosen)
    _require_readable(name_of(chosen), target, kind, model)
    options = {"wanted": dataset.convert_to, "alternatives": partial(_losses_on_file, model.provides)}
    return choose_conversion(name, kind, name_of(chosen), target.input_kinds, **options), chosen


def _of_kind(
    name: str, dataset: DatasetConfig, losses: Mapping[str, Any], model: type[ModelSettings]
) -> Mapping[str, Any]:
    """Return the loss for the set's kind from a table by kinds, else for the first kind that a view leads to.

    Retrieval and reranking judgements have no entry in the table. They are therefore trained on as positive
    pairs.
    """
    kind = Kind(dataset.kind)
    gives = (Kind(dataset.convert_to),) if dataset.convert_to else (kind, *CONVERSIONS[kind])
    for source in gives:
        if source in losses:
            return losses[source]
    views = [view for view in CONVERSIONS[kind] if view in losses]
    fitting = [loss for loss, kinds in _losses_on_file(model.provides).items() if {*gives} & {*kinds}]
    raise UserError(
        f"loss=by_kind names no loss for {gives[0]}, which {name} gives. It has {', '.join(losses)}. Type "
        + (f"dataset.{name}.convert_to={views[0]}, or " if views else "")
        + f"loss=<name>, one of {', '.join(fitting)}"
    )


def _as_the_set_says(
    loss: Mapping[str, Any], dataset: DatasetConfig, kind: Kind, model: type[ModelSettings]
) -> Mapping[str, Any]:
    """Apply the overrides of a set to its loss. Raises UserError for an override without effect.

    Args:
        loss: Configuration of the loss, {} if the model needs none.
        kind: Example kind that the rows of the set are read as.
    """
    if INNER in loss:
        return {**loss, INNER: _as_the_set_says(loss[INNER], dataset, kind, model)}
    learning = dataset.learning or LearningConfig()
    for key, value in vars(learning).items():
        if value is not None and (obstacle := _obstacle(key, value, loss, kind, model)):
            key_path = f"dataset.{dataset.name}.learning.{key}"
            raise UserError(f"{key_path}={str(value).lower()}: {obstacle}, or type {key_path}=null")
    if learning.in_batch is False:
        loss = {
            "_target_": OWN_NEGATIVES,
            "name": WITHOUT_BATCH.get(name_of(loss), name_of(loss)),
            **{key: value for key, value in loss.items() if key == "temperature"},
        }
    return loss if learning.temperature is None else {**loss, "temperature": learning.temperature}


def _obstacle(
    key: str, value: Any, loss: Mapping[str, Any], kind: Kind, model: type[ModelSettings]
) -> str | None:
    """Explain why an override would have no effect, and the remedy. None if it takes effect."""
    learner = f"loss={name_of(loss)}" if loss else f"model={model.name}"
    if key == "temperature":
        if not loss or "temperature" not in keys_of(loss["_target_"]).model_fields:
            return f"{learner} has none. Choose a loss with a temperature, such as loss=info_nce"
        if "cosines" not in model.provides or loss.get("temperature_unit", "score") != "score":
            return f"it divides cosines, and {learner} gets other numbers here. Type loss.temperature=…"
        return None
    if key == "in_batch":
        asks = {*WITHOUT_BATCH} if value else {*WITHOUT_BATCH, *WITHOUT_BATCH.values()}
        if not loss or name_of(loss) not in asks:
            return f"{learner} does not ask whether texts of other rows are negatives. Choose loss=info_nce"
        for number in ("symmetric", "false_negative_margin") if not value else ():
            if str(loss.get(number)) not in ("False", "None"):  # a margin of 0 is one
                return f"loss.{number}={loss[number]} is about texts of other rows. Leave it out"
    if (key == "num_negatives" or value is False) and kind is not Kind.TRIPLET:
        kind_name = kind.replace("_", " ").replace("nli", "NLI")
        return (
            f"rows are read as {kind_name}s, which have no negatives of their own. Have them read as triplets"
        )
    return None


NEEDS = {
    "logits": "one logit per class",
    "cosines": "a cosine of two embeddings",
    "embeddings": "an embedding of each sentence",
    "scores": "one score per pair",
    "layers": "what each of several layers gives",
    "teacher": "the vector of a teacher for each sentence",
    "lists": "one score per document of a row",
    "drawn_lists": "scores of documents that are drawn from other rows, which model=crossencoder gives",
    "guide": "the vectors of a guide for the texts of a row",
}
"""What a loss consumes, in words."""

TAUGHT = {"teacher": "distill", "guide": "guided"}
"""What a loss consumes of another encoder → the model that gives it."""


def _require_readable(name: str, loss: Needs, kind: Kind, model: type[ModelSettings]) -> None:
    """Raise UserError with suitable losses if a loss cannot consume the outputs of a model."""
    if loss.suits(model.provides):
        return
    if loss.input_type in TAUGHT:
        hint = f"Type model={TAUGHT[loss.input_type]} model.teacher=<folder, run or hub id of an encoder> too"
    elif loss.input_type == "logits":
        hint = "For labelled pairs choose loss=softmax, which has a head, or loss=bce"
    else:
        on_file = _losses_on_file(model.provides)
        fitting = [other for other, kinds in on_file.items() if kind in kinds] or [
            other for other, kinds in on_file.items() if set(CONVERSIONS[kind]) & set(kinds)
        ]
        hint = f"Choose one of {', '.join(fitting) or 'none on file'}"
    raise UserError(f"loss={name} needs {NEEDS[loss.input_type]}, and model={model.name} gives none. {hint}")


@cache
def _losses_on_file(provided: tuple[str, ...] | None = None) -> dict[str, tuple[Kind, ...]]:
    """Return the input kinds of every loss in conf/loss that consumes any of `provided`.

    By default `provided` is the outputs of most models.

    Wrappers and losses that need a teacher's scores are left out, since few sets have these. The others can
    be suggested for any set of a kind.
    """
    provided = provided or ModelSettings.provides
    nodes = {path.stem: OmegaConf.load(path) for path in sorted(LOSS_FOLDER.glob("*.yaml"))}
    targets = {
        name: _needs(own_class(node["_target_"])) for name, node in nodes.items() if "_target_" in node
    }
    return {
        name: target.input_kinds
        for name, target in targets.items()
        if target.suits(provided) and not target.needs_teacher_scores
    }


def class_grades(config: DatasetConfig, kind: Kind) -> tuple[float, ...]:
    """Compute the similarity grade of each class. Graded pairs scale `grades` by `score_range`.

    Args:
        config: The set.
        kind: Example kind that the rows of the set are read as.

    Returns:
        A number from 0 to 1 for each class, ascending for graded pairs.

    Raises:
        UserError: Graded pairs without `grades`, or with grades that do not rise within `score_range`.
    """
    if kind is not Kind.SCORED_PAIR:
        return NLI_GRADES if kind is Kind.NLI_PAIR else (0.0, 1.0)
    key, grades = f"dataset.{config.name}.grades", config.grades
    low, high = config.score_range or (0.0, 1.0)
    if not grades:
        example = [round(low + (high - low) * share, 6) for share in (0, 0.5, 1)]
        spelt = ",".join(f"{grade:g}" for grade in example)
        raise UserError(
            f"{key}=null: loss=ce needs classes, and the scores of {config.name} are any numbers from {low:g} to "
            f"{high:g}. If there are few distinct scores, list them, such as {key}=[{spelt}]. Else choose a loss of "
            "scores, such as loss=cosent or loss=ce_mse"
        )
    if len(grades) < 2 or list(grades) != sorted(set(grades)) or not low <= grades[0] <= grades[-1] <= high:
        raise UserError(
            f"{key}={list(grades)}: expected two or more numbers that rise, within score_range [{low:g}, {high:g}]"
        )
    return tuple((value - low) / (high - low) for value in grades)


def match_losses(job: JobConfig) -> dict[str, Match]:
    """Choose the losses as `chosen_losses` does, and check their hyperparameters and the model's needs.

    Args:
        job: The whole configuration.

    Returns:
        Dataset key → its match, in the order of `job.dataset`.

    Raises:
        UserError: A loss cannot learn from a set, a number is outside its limits, or the model refuses the job.
    """
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
    """Raise UserError if batches are stratified by label and no training row has a label."""
    by = job.training.stratify_by
    if "label" in by and matches and not any(match.kind in TARGET_COLUMN for match in matches.values()):
        read = ", ".join(f"{name} as {match.kind.replace('_', ' ')}s" for name, match in matches.items())
        raise UserError(
            f"training.stratify_by={by}: the training rows have no labels ({read}). "
            "Choose training.stratify_by=length or none"
        )


def _require_teacher_scores(job: JobConfig, matches: Mapping[str, Match]) -> None:
    """Raise UserError if a loss requires a teacher's scores, and the set has no columns of them."""
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
                f"loss={name_of(match.loss)} needs a teacher score for each document of a row. If {name} has "
                f"these, write kind: triplet and {remedy}. loss=list_mle needs none"
            )


def build_loss(config: Mapping[str, Any], *, dim: int, num_classes: int) -> Loss:
    """Build the loss of a configuration node.

    Args:
        config: Path of the class in `_target_`, and its hyperparameters.
        dim: Dimension of an embedding. Only a loss with a head receives it.
        num_classes: Number of classes. Only a loss with a head receives it.

    Returns:
        A new loss.

    Raises:
        UserError: A hyperparameter is outside its limits.
    """
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
    """Build one loss per dataset. Datasets of one kind share a loss and its head, unless it remembers rows.

    Args:
        matches: Dataset key → its loss and row kind. Sets without a loss are left out.
        dim: Dimension of an embedding.
        num_classes: Dataset key → number of classes.

    Returns:
        Dataset key → loss.

    Raises:
        UserError: An option of a loss with a wrong value.
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
        losses._modules[name] = shared[
            key
        ]  # add_module refuses a set of train.csv: ModuleDict has a method train
    return losses


GROUP = "augmentation"


def check_augmentation(job: JobConfig, matches: Mapping[str, Match], *, model: type) -> None:
    """Check that the augmentation of a job is possible in a stage, before data are read.

    Args:
        job: The whole job, with the sets of other stages.
        matches: Dataset key → loss and row kind of the stage.
        model: Class of the model. Its `input_kind` shows if it makes pairs of sentences.

    Raises:
        UserError: The augmentation is impossible.
    """
    config = job.augmentation
    if not config.views or not matches:
        return
    setting = f"{GROUP}.views={list(config.views)}"
    for name in config.sets or ():
        require_choice(f"{GROUP}.sets", name, job.dataset)
    if model.input_kind is not None:
        raise UserError(
            f"{setting}: {model.__name__} learns from text alone and makes of it what it compares. Leave {GROUP} out. "
            "Changed sentences as positives are model=views"
        )
    for name, match in matches.items():
        if match.kind is Kind.SENTENCE and (config.sets is None or name in config.sets):
            raise UserError(
                f"{setting}: the loss of {name} learns from single sentences, which have no labels. "
                "For changed sentences as positives type model=views loss=info_nce"
            )
    TextViews(Views.of(vars(config), group=GROUP))  # a file of translations is read here
