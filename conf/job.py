"""The shape of a job's configuration: every key, its type, its values and what it means. Values live in `conf/`.

A job is made of the configs in `juzhen.data.spec` and `juzhen.encoders.backbone_config`. Fields carry no defaults
that `conf/` also has; `None` means "may be left out". Needs no torch.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from conf.duration import Duration, Length, SomeLength, Unit
from juzhen.core.schema import SCHEMA
from juzhen.core.text import name_fault
from juzhen.data.spec import DatasetConfig, Source
from juzhen.encoders.backbone_config import BackboneConfig
from juzhen.evaluation.settings import EvaluationConfig, HardwareConfig

SampleBy = Literal["size", "weight", "uniform", "drawn", "round_robin", "blend"]

View = Literal["translation", "synonym", "sentence_order", "delete", "repeat", "cutoff", "shuffle"]
"""Names of `juzhen.encoders.augmentation.VIEWS`."""


@dataclass(config=SCHEMA, kw_only=True)
class OptimizerConfig:
    lr: float = Field(gt=0, description="peak learning rate")
    weight_decay: float = Field(ge=0, description="not applied to biases and normalisation weights")
    betas: list[Annotated[float, Field(ge=0, lt=1)]] = Field(
        min_length=2, max_length=2, description="of AdamW, two numbers"
    )
    eps: float = Field(gt=0, description="of AdamW")
    warmup: Length = Field(description="the learning rate rises linearly from 0")
    decay: Literal["linear", "constant", "inverse_sqrt"] = Field(
        description="linear: falls to 0 at the end · constant · inverse_sqrt: by the root of the steps"
    )
    clip_norm: float | None = Field(
        default=None, gt=0, description="gradients are scaled down to this length; null: not"
    )
    layer_decay: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="learning rate of a layer, as a share of that of the layer above; null: all alike",
    )
    # Old results lack it.
    state_bits: Literal[32, 8] = Field(
        default=32, description="bits of each of the two moments of AdamW; 8: a quarter of their memory"
    )

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        warmup = Duration.parse(self.warmup)
        if warmup.unit is Unit.PERCENT and warmup.amount > 100:
            raise ValueError(f"warmup={self.warmup}: expected at most 100 percent of the training")
        if self.decay == "inverse_sqrt" and warmup.amount == 0:
            raise ValueError(
                f"warmup={self.warmup}: decay=inverse_sqrt is lr · √(warm-up/step), and nothing without a warm-up; "
                "type for example 'optimizer.warmup=10 percent'"
            )
        return self


@dataclass(config=SCHEMA, kw_only=True)
class TrainingConfig:
    duration: SomeLength = Field(
        description='"3 epochs", "500 steps", "100000 examples" or "50 percent" (of an epoch)'
    )
    batch_size: int = Field(ge=1, description="rows that a loss sees together, over all devices")
    share_sentences: bool = Field(
        description="equal sentences of a batch are encoded once, and share a dropout mask"
    )
    accumulate: int = Field(ge=1, description="batches per optimizer step; rows couple only inside a batch")
    length_window: int = Field(ge=1, description="batches whose rows are put in order of length; 1: none")
    stratify_by: Literal["none", "label", "length", "label_length"] = Field(
        description="held in proportion by a batch"
    )
    validate_every: SomeLength = Field(description="percent is of the whole training")
    patience: int | None = Field(
        default=None, ge=1, description="validations without a better score, then stop; null: never"
    )
    monitor: str = Field(
        description="auto: dev of the trained sets, each by the metric of its kind; or a key such as dev/csts/spearman",
    )
    checkpoint_every: SomeLength = Field(description="how much work the end of the machine may cost")

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if self.stratify_by != "none" and self.length_window > 1:
            raise ValueError(
                f"stratify_by={self.stratify_by}: training.length_window={self.length_window} puts rows of like length "
                "in a batch, labels in proportion; leave one of them at its default"
            )
        return self


@dataclass(config=SCHEMA, kw_only=True)
class AugmentationConfig:
    """How sentences of labelled sets are changed while they are learnt from; labels stay, evaluation too."""

    views: list[View] = Field(description="in this order; []: nothing is changed")
    probability: float = Field(gt=0, le=1, description="of a sentence of a batch to be changed")
    sets: list[str] | None = Field(
        default=None, min_length=1, description="trained sets whose sentences are changed; null: all"
    )
    delete: float = Field(gt=0, lt=1, description="share of words left out")
    repeat: float = Field(gt=0, lt=1, description="share of words written twice")
    cutoff: float = Field(gt=0, lt=1, description="share of words left out in one run")
    shuffle: int = Field(ge=2, description="words that change places among each other")
    synonym: float = Field(gt=0, lt=1, description="share of the words of the lexicon that are replaced")
    translations: str | None = Field(
        default=None, description="file of texts and their translations there and back"
    )


@dataclass(config=SCHEMA, kw_only=True)
class LoggerConfig:
    progress: bool = Field(description="progress bars")
    every_steps: int = Field(ge=1, description="optimizer steps between two logged points")
    csv: bool = Field(description="metrics.csv below the run folder")
    wandb: Literal["auto", "offline", "online", "off"] = Field(
        description="auto: online where a key is present and the network answers, else offline"
    )
    project: str = Field(description="of Weights & Biases")
    entity: str | None = Field(
        default=None, description="team or user of Weights & Biases; null: the account's default"
    )
    group: str | None = Field(
        default=None, description="null: the sweep's, or the run's name without its seed"
    )
    tags: list[str] = Field(description="of Weights & Biases")


@dataclass(config=SCHEMA, kw_only=True)
class SetConfig:
    """What one set of a mixture has of its own."""

    weight: float | None = Field(
        default=None, gt=0, description="its share of the batches with sample_by=weight or drawn; null: 1"
    )
    batch_size: int | None = Field(default=None, ge=1, description="null: as the job says")
    loss: dict[str, Any] | None = Field(default=None, description="instead of the job's")
    loss_weight: float | None = Field(
        default=None, gt=0, description="multiplies its loss; null: 1, or with weigh_loss its weight"
    )


@dataclass(config=SCHEMA, kw_only=True)
class StageConfig:
    """What one stage of a curriculum has of its own; null: as the job says."""

    dataset: list[str] | None = Field(
        default=None, description="sets that it mixes; null: the one of the stage's name"
    )
    share_percent: float | None = Field(
        default=None, gt=0, description="it lasts for this part of training.duration"
    )
    limit: int | None = Field(
        default=None, ge=1, description="it trains on at most this many rows of each of its sets"
    )
    loss: dict[str, Any] | None = Field(default=None, description="instead of the job's")
    training: dict[str, Any] | None = Field(default=None, description="keys of `training`")
    optimizer: dict[str, Any] | None = Field(default=None, description="keys of `optimizer`")


@dataclass(config=SCHEMA, kw_only=True)
class ScheduleConfig:
    """In which order, and in which shares, sets are learnt from."""

    name: Literal["mix", "serial"] = Field(description="mix: one stage · serial: one stage after another")
    order: list[str] | None = Field(
        default=None, description="serial: stages, repeated at will; null: one per set, in order"
    )
    stages: dict[str, StageConfig | None] = Field(description="serial: stage → what it has of its own")
    sets: dict[str, SetConfig] = Field(description="set → what it has of its own where sets are mixed")
    sample_by: SampleBy = Field(
        description="size: every row once per epoch · weight: by weights · uniform: all sets alike · drawn: the set "
        "of each batch is drawn by weights · round_robin: one after another · blend: each step has a batch of every set"
    )
    temperature: float = Field(
        gt=0, description="shares are raised to 1/temperature; 1: as they are, large: equal"
    )
    weigh_loss: bool = Field(default=False, description="a set's weight multiplies its loss, too")
    store: str | None = Field(
        default=None, description="folder of stages that runs share; null: each run keeps its own"
    )

    @model_validator(mode="after")
    def _names_can_be_folders(self) -> Self:
        for key, names in (("order", self.order or ()), ("stages", self.stages)):
            for name in names:
                if fault := name_fault(name):
                    raise ValueError(f"{key}: {name}: expected a name of a stage: {fault}")
        return self


@dataclass(config=SCHEMA, kw_only=True)
class JobConfig:
    """Everything that decides one run."""

    name: str = Field(description="folder name, before the hash")
    seed: int = Field(ge=0, lt=2**32, description="of all that is drawn")
    data_dir: str = Field(description="where local data sets lie")
    cache_dir: str | None = Field(
        default=None, description="keeps what can be computed again; null: nothing is kept"
    )
    output_dir: str = Field(description="folder of runs; . is the one that this is started in")
    run_dir: str = Field(description="folder of this run")
    source: Source = Field()
    on_bad_row: Literal["error", "drop"] = Field()
    resume: Literal["never", "auto"] = Field()
    trial: str | None = Field(
        default=None, description="<journal>#<number>: a trial whose pruner may end the run"
    )
    sweep_row: str | None = Field(
        default=None, description="name of the row of a sweep that this run is: what tables call it"
    )
    init_from: str | None = Field(
        default=None, description="a run or an encoder folder: start from its weights"
    )
    filter_leaks: bool = Field(
        description="leave out training rows that an evaluation set of this job has too"
    )
    debug_rows: int | None = Field(
        default=None, ge=1, description="rows kept per split, at most; for trying things out"
    )
    dataset: dict[str, DatasetConfig] = Field(description="what is trained on, in order")
    evaluate: dict[str, DatasetConfig] = Field(description="what is evaluated on besides")
    model: dict[str, Any] = Field(description="what is trained; the group `model`")
    backbone: BackboneConfig
    loss: dict[str, Any] = Field(description="what is minimised; the group `loss`")
    schedule: ScheduleConfig
    training: TrainingConfig
    optimizer: OptimizerConfig
    augmentation: AugmentationConfig
    hardware: HardwareConfig
    evaluation: EvaluationConfig
    callbacks: dict[str, dict[str, Any] | None] = Field(
        description="name → a callback of callbacks/: `_target_`, `decides_weights` and its numbers; null: left out"
    )
    logger: LoggerConfig

    @model_validator(mode="after")
    def _names_are_names(self) -> Self:
        if fault := name_fault(self.name):
            raise ValueError(f"name={self.name}: expected a name of a folder: {fault}")
        for key, folder in (("output_dir", self.output_dir), ("run_dir", self.run_dir)):
            if not folder.strip():
                raise ValueError(f"{key}=: expected a folder; {key}=. is the one that this is started in")
        for group, sets in (("dataset", self.dataset), ("evaluate", self.evaluate)):
            for key, described in sets.items():
                if described.name != key:
                    raise ValueError(
                        f"{group}.{key}.name={described.name}: expected {key}, as in its '# @package dataset.{key}': "
                        "results go by the name"
                    )
        return self
