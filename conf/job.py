"""The shape of a job's configuration: every key, its type, its values and what it means. Values live in `conf/`.

A job is made of the configs in `juzhen.data.spec` and `juzhen.encoders.backbone_config`. Fields carry no defaults
that `conf/` also has. `None` means "may be left out". Needs no torch.
"""

import dataclasses
import re
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from juzhen.core.errors import UserError
from juzhen.core.schema import configuration
from juzhen.core.text import name_fault
from juzhen.data.spec import DatasetConfig, Source
from juzhen.encoders.backbone_config import BackboneConfig
from juzhen.evaluation.settings import EvaluationConfig, HardwareConfig


class Unit(StrEnum):
    STEPS = "steps"
    EPOCHS = "epochs"
    EXAMPLES = "examples"
    PERCENT = "percent"


@dataclasses.dataclass(frozen=True)
class Duration:
    """A length of training in exactly one unit.

    >>> Duration.parse("3 epochs").in_steps(steps_per_epoch=10, batch_size=32, total_steps=None)
    30
    >>> Duration.parse("10 percent").in_steps(steps_per_epoch=10, batch_size=32, total_steps=200)
    20
    """

    amount: float
    unit: Unit

    @classmethod
    def parse(cls, text: str, *, key: str = "duration") -> "Duration":
        """Read a duration.

        Args:
            text: `<number> <unit>`. Units are steps, epochs, examples and percent, also in the singular.
            key: Configuration key for the message.

        Returns:
            The duration.

        Raises:
            UserError: The text is not a duration.
        """
        match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s+(\w+)\s*", str(text))
        units = {unit.value: unit for unit in Unit} | {unit.value.rstrip("s"): unit for unit in Unit}
        if not match or match[2] not in units:
            raise UserError(
                f"{key}={text!r}: expected a number and one unit of {', '.join(Unit)}, as in '{key}=3 epochs'. In "
                "quotes on the command line"
            )
        return cls(float(match[1]), units[match[2]])

    def in_steps(self, *, steps_per_epoch: int, batch_size: float, total_steps: int | None) -> int:
        """Convert the duration into whole optimizer steps.

        Args:
            steps_per_epoch: Optimizer steps of one epoch.
            batch_size: Rows of an optimizer step.
            total_steps: Steps of the whole training. A percentage is taken of them. None: of one epoch.

        Returns:
            Steps, at least 1 unless the amount is 0.
        """
        steps = self.exact_steps(
            steps_per_epoch=steps_per_epoch, batch_size=batch_size, total_steps=total_steps
        )
        return max(round(steps), 1) if self.amount else 0

    def exact_steps(self, *, steps_per_epoch: int, batch_size: float, total_steps: int | None) -> float:
        """Compute `in_steps` before it is rounded to whole steps.

        Args:
            steps_per_epoch: Optimizer steps of one epoch.
            batch_size: Rows of an optimizer step.
            total_steps: Steps of the whole training. A percentage is taken of them. None: of one epoch.

        Returns:
            Steps, a fraction if the duration is not a whole number of them.
        """
        match self.unit:
            case Unit.STEPS:
                return self.amount
            case Unit.EPOCHS:
                return self.amount * steps_per_epoch
            case Unit.EXAMPLES:
                return self.amount / batch_size
            case Unit.PERCENT:
                return self.amount / 100 * (total_steps or steps_per_epoch)


def is_length(text: str) -> str:
    """Check for pydantic that a text is a duration.

    Args:
        text: Value of a configuration key.

    Returns:
        `text` itself.

    Raises:
        ValueError: It is not a duration.
    """
    try:
        Duration.parse(text)
    except UserError as error:
        units = ", ".join(Unit)
        raise ValueError(f"expected a number and one unit of {units}, as in '3 epochs'") from error
    return text


def _no_null(text: str) -> str:
    if Duration.parse(text).amount == 0:
        raise ValueError("expected more than 0")
    return text


Length = Annotated[str, AfterValidator(is_length)]
"""A key whose value is a duration."""
SomeLength = Annotated[Length, AfterValidator(_no_null)]
"""The same, of more than 0."""


SampleBy = Literal["size", "weight", "uniform", "drawn", "round_robin", "blend"]

View = Literal["translation", "synonym", "sentence_order", "delete", "repeat", "cutoff", "shuffle"]
"""Names of `juzhen.encoders.augmentation.VIEWS`."""


@configuration
class OptimizerConfig:
    lr: float = Field(gt=0, le=1, description="peak learning rate")
    weight_decay: float = Field(ge=0, le=1e3, description="not applied to biases and normalisation weights")
    betas: list[Annotated[float, Field(ge=0, lt=1)]] = Field(
        min_length=2, max_length=2, description="AdamW, two numbers"
    )
    eps: float = Field(gt=0, description="epsilon of AdamW")
    warmup: Length = Field(description="linear rise of the learning rate from 0")
    decay: Literal["linear", "constant", "inverse_sqrt"] = Field(
        description="linear: falls to 0 at the end · constant · inverse_sqrt: by the root of the steps"
    )
    clip_norm: float | None = Field(
        default=None, gt=0, description="gradients are scaled down to this norm · null: no clipping"
    )
    layer_decay: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="learning rate of a layer as a share of the layer above · null: equal rates",
    )
    # Old results lack it.
    state_bits: Literal[32, 8] = Field(
        default=32, description="bits per AdamW moment · 8: a quarter of their memory"
    )

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        warmup = Duration.parse(self.warmup)
        if warmup.unit is Unit.PERCENT and warmup.amount > 100:
            raise ValueError(f"warmup={self.warmup}: expected at most 100 percent of the training")
        if self.decay == "inverse_sqrt" and warmup.amount == 0:
            raise ValueError(
                f"warmup={self.warmup}: decay=inverse_sqrt is lr · √(warm-up/step), and nothing without a warm-up. "
                "Type for example 'optimizer.warmup=10 percent'"
            )
        return self


@configuration
class TrainingConfig:
    duration: SomeLength = Field(
        description='"3 epochs", "500 steps", "100000 examples" or "50 percent" (of an epoch)'
    )
    batch_size: int = Field(ge=1, description="rows per batch, over all devices")
    share_sentences: bool = Field(
        description="true: equal sentences of a batch are encoded once and share a dropout mask"
    )
    accumulate: int = Field(ge=1, description="batches per optimizer step. Rows interact only within a batch")
    length_window: int = Field(
        ge=1, description="batches whose rows are sorted by length · 1: random batches"
    )
    stratify_by: Literal["none", "label", "length", "label_length"] = Field(
        description="property that each batch has in proportion"
    )
    validate_every: SomeLength = Field(description="time between validations. Percent: of the whole training")
    patience: int | None = Field(
        default=None, ge=1, description="validations without a better score before stopping · null: never"
    )
    monitor: str = Field(
        description="auto: dev of the trained sets, by the metric of their kinds · or a key such as dev/csts/spearman",
    )
    checkpoint_every: SomeLength = Field(description="time between checkpoints, the most work lost by a kill")
    # Old results lack it.
    keep: Literal["checkpoint", "balanced"] = Field(
        default="checkpoint",
        description="checkpoint: as trained · balanced: a mean of start and checkpoint, which loses less on other sets",
    )

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if self.stratify_by != "none" and self.length_window > 1:
            raise ValueError(
                f"stratify_by={self.stratify_by}: training.length_window={self.length_window} puts rows of like length "
                "in a batch, labels in proportion. Leave one of them at its default"
            )
        return self


@configuration
class AugmentationConfig:
    """Changes of training sentences of labelled sets. Labels and evaluation stay unchanged."""

    views: list[View] = Field(description="changes, in this order · []: none")
    probability: float = Field(gt=0, le=1, description="probability that a sentence of a batch is changed")
    sets: list[str] | None = Field(
        default=None, min_length=1, description="trained sets with changed sentences · null: all"
    )
    delete: float = Field(gt=0, lt=1, description="share of words left out")
    repeat: float = Field(gt=0, lt=1, description="share of words written twice")
    cutoff: float = Field(gt=0, lt=1, description="share of words left out in one span")
    shuffle: int = Field(ge=2, description="words that are shuffled together")
    synonym: float = Field(gt=0, lt=1, description="share of lexicon words that are replaced")
    translations: str | None = Field(default=None, description="file of texts and their back-translations")


@configuration
class LoggerConfig:
    progress: bool = Field(description="progress bars")
    every_steps: int = Field(ge=1, description="optimizer steps between two logged points")
    csv: bool = Field(description="metrics.csv below the run folder")
    wandb: Literal["auto", "offline", "online", "off"] = Field(
        description="auto: online with a key and a network, else offline"
    )
    project: str = Field(description="Weights & Biases project")
    entity: str | None = Field(
        default=None, description="Weights & Biases team or user · null: the account's default"
    )
    group: str | None = Field(
        default=None,
        description="Weights & Biases group · null: the sweep's, or the run's name without its seed",
    )
    tags: list[str] = Field(description="Weights & Biases project")


@configuration
class SetConfig:
    """Settings of one set of a mixture."""

    weight: float | None = Field(
        default=None, gt=0, description="share of the batches with sample_by=weight or drawn · null: 1"
    )
    batch_size: int | None = Field(default=None, ge=1, description="rows per batch · null: as in the job")
    loss: dict[str, Any] | None = Field(default=None, description="instead of the job's")
    loss_weight: float | None = Field(
        default=None, gt=0, description="factor of its loss · null: 1, or its weight with weigh_loss"
    )


@configuration
class StageConfig:
    """Settings of one stage of a curriculum · null: as in the job."""

    dataset: list[str] | None = Field(
        default=None, description="sets that it mixes · null: the set with the stage's name"
    )
    share_percent: float | None = Field(
        default=None, gt=0, description="length in percent of training.duration"
    )
    limit: int | None = Field(default=None, ge=1, description="training rows per set, at most")
    loss: dict[str, Any] | None = Field(default=None, description="instead of the job's")
    training: dict[str, Any] | None = Field(default=None, description="keys of `training`")
    optimizer: dict[str, Any] | None = Field(default=None, description="keys of `optimizer`")


@configuration
class ScheduleConfig:
    """Order and shares of the trained sets."""

    name: Literal["mix", "serial"] = Field(description="mix: one stage · serial: one stage after another")
    order: list[str] | None = Field(
        default=None, description="serial: stages, repeats allowed · null: one per set, in order"
    )
    stages: dict[str, StageConfig | None] = Field(description="serial: stage → its settings")
    sets: dict[str, SetConfig] = Field(description="set → its settings in a mixture")
    sample_by: SampleBy = Field(
        description="size: every row once per epoch · weight: by weights · uniform: all sets alike · drawn: the set "
        "of each batch is drawn by weights · round_robin: one after another · blend: each step has a batch of every set"
    )
    temperature: float = Field(
        gt=0, description="shares are raised to 1/temperature. 1: unchanged, large: equal"
    )
    weigh_loss: bool = Field(default=False, description="true: a set's weight multiplies its loss, too")
    store: str | None = Field(
        default=None, description="folder of stages shared by runs · null: each run keeps its own"
    )

    @model_validator(mode="after")
    def _names_can_be_folders(self) -> Self:
        for key, names in (("order", self.order or ()), ("stages", self.stages)):
            for name in names:
                if fault := name_fault(name):
                    raise ValueError(f"{key}: {name}: expected a name of a stage: {fault}")
        return self


@configuration
class JobConfig:
    """Configuration of one run."""

    name: str = Field(description="folder name, before the hash")
    seed: int = Field(ge=0, lt=2**32, description="random seed")
    data_dir: str = Field(description="folder of local data sets")
    cache_dir: str | None = Field(
        default=None, description="folder of caches, may be deleted · null: no cache"
    )
    output_dir: str = Field(description="folder of runs · .: the current folder")
    run_dir: str = Field(description="folder of this run")
    source: Source = Field()
    on_bad_row: Literal["error", "drop"] = Field()
    resume: Literal["never", "auto"] = Field()
    trial: str | None = Field(
        default=None, description="<journal>#<number> of a search, whose pruner may end the run"
    )
    sweep_row: str | None = Field(default=None, description="row name of a sweep, for tables")
    init_from: str | None = Field(
        default=None, description="a run or an encoder folder: start from its weights"
    )
    filter_leaks: bool = Field(
        description="true: drop training rows that are in an evaluation set of this job"
    )
    debug_rows: int | None = Field(default=None, ge=1, description="rows per split, at most, for trials")
    dataset: dict[str, DatasetConfig] = Field(description="trained sets, in order")
    evaluate: dict[str, DatasetConfig] = Field(description="further evaluation sets, the group `benchmark`")
    model: dict[str, Any] = Field(description="model, the group `model`")
    backbone: BackboneConfig
    loss: dict[str, Any] = Field(description="loss, the group `loss`")
    schedule: ScheduleConfig
    training: TrainingConfig
    optimizer: OptimizerConfig
    augmentation: AugmentationConfig
    hardware: HardwareConfig
    evaluation: EvaluationConfig
    callbacks: dict[str, dict[str, Any] | None] = Field(
        description="name → callback of callbacks/: `_target_`, `decides_weights` and its settings · null: left out"
    )
    logger: LoggerConfig

    @model_validator(mode="after")
    def _names_are_names(self) -> Self:
        if fault := name_fault(self.name):
            raise ValueError(f"name={self.name}: expected a name of a folder: {fault}")
        for key, folder in (("output_dir", self.output_dir), ("run_dir", self.run_dir)):
            if not folder.strip():
                raise ValueError(f"{key}=: expected a folder. Type {key}=. for the working folder")
        for group, sets in (("dataset", self.dataset), ("evaluate", self.evaluate)):
            for key, described in sets.items():
                if described.name != key:
                    raise ValueError(
                        f"{group}.{key}.name={described.name}: expected {key}, as in its '# @package "
                        f"dataset.{key}', because "
                        "results are stored under the name"
                    )
        return self
