"""The shape of a job's configuration: every key, its type, its values and what it means. Values live in `conf/`.

What a data set and an encoder say of themselves stands in `juzhen.data.spec` and `juzhen.encoders.spec`; the job is
made of them. Fields carry no defaults that `conf/` also has; `None` means "may be left out". Needs no torch.
"""

from dataclasses import dataclass
from typing import Any

from omegaconf import MISSING

from conf.duration import duration_option
from juzhen.core.option import option
from juzhen.data.spec import DatasetConfig, Source
from juzhen.encoders.spec import BackboneConfig
from juzhen.evaluation.spec import EvaluationConfig, HardwareConfig

VIEWS = ("translation", "synonym", "sentence_order", "delete", "repeat", "cutoff", "shuffle")
"""Names of `juzhen.encoders.views.VIEWS`."""


@dataclass
class OptimizerConfig:
    lr: float = option("peak learning rate", above=0)
    weight_decay: float = option("not applied to biases and normalisation weights", at_least=0)
    betas: list[float] = option("of AdamW", at_least=0, below=1)
    eps: float = option("of AdamW", above=0)
    warmup: str = duration_option("the learning rate rises linearly from 0", at_least=0)
    decay: str = option(
        "linear: falls to 0 at the end · constant · inverse_sqrt: by the root of the steps",
        among=("linear", "constant", "inverse_sqrt"),
    )
    clip_norm: float | None = option("gradients are scaled down to this length; null: not", None, above=0)


@dataclass
class TrainingConfig:
    duration: str = duration_option(
        '"3 epochs", "500 steps", "100000 examples" or "50 percent" (of an epoch)', above=0
    )
    batch_size: int = option("rows that a loss sees together, over all devices", at_least=1)
    share_sentences: bool = option("equal sentences of a batch are encoded once, and share a dropout mask")
    accumulate: int = option("batches per optimizer step; rows couple only inside a batch", at_least=1)
    length_window: int = option("batches whose rows are put in order of length; 1: none", at_least=1)
    stratify_by: str = option(
        "held in proportion by a batch", among=("none", "label", "length", "label_length")
    )
    validate_every: str = duration_option("percent is of the whole training", above=0)
    patience: int | None = option(
        "validations without a better score, then stop; null: never", None, at_least=1
    )
    monitor: str = option(
        "auto: dev of the trained sets, each by the metric of its kind; or a key such as dev/csts/spearman"
    )
    checkpoint_every: str = duration_option("how much work the end of the machine may cost", above=0)


@dataclass
class AugmentationConfig:
    """How sentences of labelled sets are changed while they are learnt from; labels stay, evaluation too."""

    views: list[str] = option("in this order; []: nothing is changed", among=VIEWS)
    probability: float = option("of a sentence of a batch to be changed", above=0)
    sets: list[str] | None = option("trained sets whose sentences are changed; null: all", None)
    delete: float = option("share of words left out", above=0, below=1)
    repeat: float = option("share of words written twice", above=0, below=1)
    cutoff: float = option("share of words left out in one run", above=0, below=1)
    shuffle: int = option("words that change places among each other", at_least=2)
    synonym: float = option("share of the words of the lexicon that are replaced", above=0, below=1)
    translations: str | None = option("file of texts and their translations there and back", None)


@dataclass
class LoggerConfig:
    progress: bool = option("progress bars")
    every_steps: int = option("optimizer steps between two logged points", at_least=1)
    csv: bool = option("metrics.csv below the run folder")
    wandb: str = option(
        "auto: online where a key is present and the network answers, else offline",
        among=("auto", "offline", "online", "off"),
    )
    project: str = option("of Weights & Biases")
    entity: str | None = option("team or user of Weights & Biases; null: the account's default", None)
    group: str | None = option("null: the sweep's, or the run's name without its seed", None)
    tags: list[str] = option("of Weights & Biases")


@dataclass
class SetConfig:
    """What one set of a mixture has of its own."""

    weight: float | None = option("its share of the batches with sample_by=weight; null: 1", None, above=0)
    batch_size: int | None = option("null: as the job says", None, at_least=1)
    loss: dict[str, Any] | None = option("instead of the job's", None)


@dataclass
class StageConfig:
    """What one stage of a curriculum has of its own; null: as the job says."""

    dataset: list[str] | None = option("sets that it mixes; null: the one of the stage's name", None)
    share_percent: float | None = option("it lasts for this part of training.duration", None, above=0)
    loss: dict[str, Any] | None = option("instead of the job's", None)
    training: dict[str, Any] | None = option("keys of `training`", None)
    optimizer: dict[str, Any] | None = option("keys of `optimizer`", None)


@dataclass
class ScheduleConfig:
    """In which order, and in which shares, sets are learnt from."""

    name: str = option("mix: one stage · serial: one stage after another", among=("mix", "serial"))
    order: list[str] | None = option("serial: stages, repeated at will; null: one per set, in order", None)
    stages: dict[str, StageConfig] = option("serial: stage → what it has of its own")
    sets: dict[str, SetConfig] = option("set → what it has of its own where sets are mixed")
    sample_by: str = option("size: every row once per epoch · weight: by weights", among=("size", "weight"))
    temperature: float = option("shares are raised to 1/temperature; 1: as they are, large: equal", above=0)
    store: str | None = option("folder of stages that runs share; null: each run keeps its own", None)


@dataclass
class JobConfig:
    """Everything that decides one run."""

    name: str = option("folder name, before the hash")
    seed: int = option("of all that is drawn", at_least=0, below=2**32)
    data_dir: str = option("where local data sets lie")
    cache_dir: str | None = option("keeps what can be computed again; null: nothing is kept", None)
    output_dir: str = option("folder of runs")
    run_dir: str = option("folder of this run")
    source: str = option(among=tuple(Source))
    on_bad_row: str = option(among=("error", "drop"))
    resume: str = option(among=("never", "auto"))
    trial: str | None = option("<journal>#<number>: a trial whose pruner may end the run", None)
    sweep_row: str | None = option("name of the row of a sweep that this run is: what tables call it", None)
    init_from: str | None = option("a run or an encoder folder: start from its weights", None)
    filter_leaks: bool = option("leave out training rows that an evaluation set of this job has too")
    debug_rows: int | None = option("rows kept per split, at most; for trying things out", None, at_least=1)
    dataset: dict[str, DatasetConfig] = option("what is trained on, in order")
    evaluate: dict[str, DatasetConfig] = option("what is evaluated on besides")
    model: dict[str, Any] = option("what is trained; the group `model`")
    backbone: BackboneConfig = MISSING
    loss: dict[str, Any] = option("what is minimised; the group `loss`")
    schedule: ScheduleConfig = MISSING
    training: TrainingConfig = MISSING
    optimizer: OptimizerConfig = MISSING
    augmentation: AugmentationConfig = MISSING
    hardware: HardwareConfig = MISSING
    evaluation: EvaluationConfig = MISSING
    # name → a callback of callbacks/: `_target_`, `decides_weights` and its numbers; null: left out
    callbacks: dict[str, Any] = MISSING
    logger: LoggerConfig = MISSING
