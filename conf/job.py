"""The shape of a job's configuration: every key, its type and what it means. Values live in `conf/`.

Fields carry no defaults that `conf/` also has; `None` means "may be left out". Importing this needs no torch.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from omegaconf import MISSING

from juzhen.core.errors import UserError, nearest
from juzhen.core.secrets import register_environment

register_environment()  # whoever reads a configuration has this, and with it what it may take from the environment


class Source(StrEnum):
    """Where the rows of a dataset come from. Chosen, never guessed."""

    BUILTIN = "builtin"  # shipped with juzhen
    LOCAL = "local"  # files below data_dir
    HUB = "hub"  # the Hugging Face hub, at a pinned revision


class BackendName(StrEnum):
    """What computes embeddings where nothing is learnt. ONNX needs the extra `onnx` and runs on the CPU."""

    TORCH = "torch"  # the encoder as it is trained, in the precision of the hardware
    TORCH_BF16 = "torch_bf16"  # its products in bfloat16
    ONNX = "onnx"  # ONNX Runtime, float32
    ONNX_INT8 = "onnx_int8"  # ONNX Runtime, weights and states of matrix products in 8 bits

    @property
    def needs_onnx(self) -> bool:
        return self in (BackendName.ONNX, BackendName.ONNX_INT8)


def backend_name(name: str, *, key: str) -> BackendName:
    """The back end of that name. Raises UserError that says where it was given (`key`) and what is nearest."""
    try:
        return BackendName(name)
    except ValueError:
        raise UserError(f"{key}={name}: no such back end; {nearest(name, BackendName)}") from None


@dataclass
class LayoutConfig:
    """One way in which a dataset's files are written."""

    files: dict[str, Any] = MISSING  # split → path below data_dir, or a list of paths, read one after another
    # .tsv .txt .csv .json .jsonl .parquet, also .gz .zst
    columns: dict[str, Any] = MISSING  # field of the example → column name, or 0-based position
    header: bool = True  # tsv and csv: the first line names the columns
    quoted: bool = False  # tsv and csv: fields may be wrapped in double quotes
    rows: dict[str, int | None] | None = None  # promised rows of this layout, instead of the dataset's
    # characters; .txt of running text: long lines are cut into windows of at most so many
    window: int | None = None
    # with `window`, where there is no dev file: lines that are dev, by a hash of them
    held_out_percent: float = 0.0
    held_out_rows: int | None = None  # of these windows at most so many are scored; null: all


@dataclass
class HubConfig:
    """A dataset of the Hugging Face hub."""

    id: str = MISSING
    revision: str | None = None  # commit; null only where none could be verified
    subset: str | None = None
    splits: dict[str, str] = MISSING  # our split → the hub's
    columns: dict[str, Any] = MISSING  # field of the example → column


@dataclass
class DatasetConfig:
    """One dataset: all that juzhen knows about it."""

    name: str = MISSING
    kind: str = MISSING  # a value of schema.Kind
    language: str = MISSING  # zh, en, or en-zh for translations
    about: str = MISSING  # one line for people
    licence: str = MISSING
    origin: str = MISSING  # where it comes from: URL or citation
    layout: str = MISSING  # which of `layouts` the local files follow
    layouts: dict[str, LayoutConfig] = MISSING
    rows: dict[str, int | None] = MISSING  # rows promised per split; null = not promised
    source: str | None = None  # null: the job's `source`
    hub: HubConfig | None = None
    labels: dict[str, int] | None = None  # gold label as in the file → class number
    ignore_labels: list[str] | None = None  # rows with these labels are left out, as the authors say
    score_range: list[float] | None = None  # lowest and highest gold score
    view: str | None = None  # train on this kind instead of the one the loss would choose
    limit: int | None = None  # train on at most this many rows, drawn with the job's seed


@dataclass
class BackboneConfig:
    """The pretrained transformer, and how its token states become one embedding."""

    path: str = MISSING  # hub id, or a folder in transformers or sentence-transformers layout
    revision: str | None = None
    initialise: str = MISSING  # pretrained: weights must be there · random: from config.json alone
    pooling: str | None = None  # mean cls max first_last weighted; null: what the folder says, else mean
    normalise: bool | None = None  # embeddings of length 1; null: what the folder says, else no
    # LayerNorm as the last layer before length 1; null: what the folder says, else no
    layer_norm: bool | None = None
    max_length: int | None = None  # tokens; null: what the folder says
    dropout: float | None = None  # null: what the folder says
    # fewer: the first ones; more: new ones that begin by changing nothing; null: as they are
    layers: int | None = None
    learning_rate: float = MISSING  # peak learning rate that suits its size; optimiser.lr takes it from here


@dataclass
class OptimiserConfig:
    lr: float = MISSING
    weight_decay: float = MISSING  # not applied to biases and normalisation weights
    betas: list[float] = MISSING
    eps: float = MISSING
    warmup: str = MISSING  # a duration: the learning rate rises linearly from 0
    decay: str = MISSING  # linear: falls to 0 at the end · constant · inverse_sqrt: by the root of the steps
    clip_norm: float | None = None  # gradients are scaled down to this length; null: not


@dataclass
class TrainingConfig:
    duration: str = MISSING  # "3 epochs", "500 steps", "100000 examples" or "50 percent" (of one epoch)
    batch_size: int = MISSING  # rows that a loss sees together, over all devices
    share_sentences: bool = MISSING  # equal sentences of a batch are encoded once, and share a dropout mask
    accumulate: int = MISSING  # batches per optimiser step; rows couple only inside a batch
    # rows of so many batches are put in order of length before they are cut; 1: not
    length_window: int = MISSING
    stratify_by: str = MISSING  # none label length label_length: what every batch holds in proportion
    validate_every: str = MISSING  # a duration; percent is of the whole training
    patience: int | None = None  # stop after this many validations without a better score; null: never
    monitor: str = MISSING  # auto: mean dev Spearman of the trained sets; or a key such as dev/csts/spearman
    checkpoint_every: str = MISSING  # a duration: how much work the end of the machine may cost


@dataclass
class HardwareConfig:
    """Speed, and not the maths; only the precision makes other numbers."""

    accelerator: str = MISSING  # cpu cuda mps
    devices: int = MISSING
    num_nodes: int = MISSING
    strategy: str = MISSING
    precision: str = MISSING  # 32-true bf16-mixed 16-mixed
    threads: int | None = None  # CPU threads per process; null: all cores
    compile: bool = MISSING  # torch.compile the layers; pays on few machines, see LOG.md
    num_workers: int = MISSING  # processes that prepare batches; 0: none
    eval_batch_tokens: int = MISSING  # tokens per batch when nothing is learnt
    # tokens whose activations are kept at a time; null: a whole batch's
    train_piece_tokens: int | None = None
    snapshot_folder: str | None = None  # in memory, for the state after each step; null: not kept
    snapshot_share: float = 0.05  # of the time that keeping it may take; else not after every step
    snapshot_kept_mib: int = 1024  # that the states of killed runs may take together; the oldest go first


@dataclass
class EvaluationConfig:
    splits: list[str] = MISSING  # of dev and test
    bootstrap_samples: int = MISSING  # resamples for the 95 % interval; 0: none
    untrained: bool = MISSING  # also score the weights before training
    without_leaks: bool = MISSING  # also score the rows whose pair this job's training has not seen
    backend: str = MISSING  # a BackendName: what encodes the sets in the end; validation always uses torch
    cache_embeddings: bool = MISSING  # keep embeddings below cache_dir: nothing is encoded twice
    transfer: list[str] = field(default_factory=list)  # classified on frozen embeddings; old results lack it
    transfer_limit: int | None = None  # training rows of such a classifier, at most; null: all


@dataclass
class AugmentationConfig:
    """How sentences of labelled sets are changed while they are learnt from; labels stay, evaluation too."""

    views: list[str] = MISSING  # names of juzhen.encoders.views.VIEWS, in order; []: nothing is changed
    probability: float = MISSING  # of a sentence of a batch to be changed
    sets: list[str] | None = None  # trained sets whose sentences are changed; null: all
    delete: float = MISSING  # shares of words: left out,
    repeat: float = MISSING  # written twice,
    cutoff: float = MISSING  # left out in one run,
    shuffle: int = MISSING  # (words that change places among each other)
    synonym: float = MISSING  # replaced, of those that the lexicon knows
    translations: str | None = None  # file of texts and their translations there and back


@dataclass
class HealthConfig:
    """What is watched of embeddings, scores and gradients while a model learns; changes no weights."""

    probe_sentences: int = MISSING  # dev sentences that are looked at, at each validation; 0: none
    collapse_cosine: float = MISSING  # alarm when the mean cosine of two sentences is above this
    collapse_rank: float = MISSING  # alarm when embeddings use fewer directions than this (effective rank)
    collapse_spread: float = MISSING  # alarm when scores that are no cosines deviate by less than this
    on_collapse: str = MISSING  # warn stop
    # lowest and highest length of the gradient of the loss with respect to what it reads; null: not measured
    gradient_range: list[float] | None = None


@dataclass
class LoggerConfig:
    progress: bool = MISSING  # progress bars
    every_steps: int = MISSING
    csv: bool = MISSING
    wandb: str = MISSING  # auto offline online off
    project: str = MISSING
    entity: str | None = None
    group: str | None = None  # null: the sweep's, or the run's name without its seed
    tags: list[str] = MISSING


@dataclass
class SetConfig:
    """What one set of a mixture has of its own."""

    weight: float | None = None  # its share of the batches with sample_by=weight; null: 1
    batch_size: int | None = None  # instead of training.batch_size
    loss: dict[str, Any] | None = None  # instead of the job's


@dataclass
class StageConfig:
    """What one stage of a curriculum has of its own; null: as the job says."""

    dataset: list[str] | None = None  # sets that it mixes; null: the one of the stage's name
    share_percent: float | None = None  # it lasts for this part of training.duration
    loss: dict[str, Any] | None = None
    training: dict[str, Any] | None = None  # keys of TrainingConfig
    optimiser: dict[str, Any] | None = None  # keys of OptimiserConfig


@dataclass
class ScheduleConfig:
    """In which order, and in which shares, sets are learnt from."""

    name: str = MISSING  # mix: one stage · serial: stage after stage, weights carried on
    order: list[str] | None = None  # serial: names of stages, repeated at will; null: one per set, in order
    stages: dict[str, StageConfig] = MISSING  # serial: stage → what it has of its own
    sets: dict[str, SetConfig] = MISSING  # set → what it has of its own where sets are mixed
    sample_by: str = MISSING  # size: every row once per epoch · weight: in proportion to the sets' weights
    temperature: float = MISSING  # shares are raised to 1/temperature: 1 as they are, large: all equal
    store: str | None = None  # folder of finished stages that runs share; null: each run keeps its own


@dataclass
class JobConfig:
    """Everything that decides one run."""

    name: str = MISSING
    seed: int = MISSING
    data_dir: str = MISSING
    cache_dir: str | None = None  # what can be computed again is kept here between runs; null: nothing is
    output_dir: str = MISSING
    run_dir: str = MISSING
    source: str = MISSING
    on_bad_row: str = MISSING  # error drop
    resume: str = MISSING  # never auto
    # <journal>#<number>: each validation is told to that trial, whose pruner may end the run
    trial: str | None = None
    sweep_row: str | None = None  # name of the row of a sweep that this run is: what tables call it
    init_from: str | None = None  # a run or an encoder folder: start from its weights
    filter_leaks: bool = MISSING  # leave out training rows that an evaluation set of this job has too
    debug_rows: int | None = None  # rows kept per split, at most; for trying things out
    dataset: dict[str, DatasetConfig] = MISSING  # what is trained on, in order
    evaluate: dict[str, DatasetConfig] = MISSING  # what is evaluated on besides
    model: dict[str, Any] = MISSING
    backbone: BackboneConfig = MISSING
    loss: dict[str, Any] = MISSING
    schedule: ScheduleConfig = MISSING
    training: TrainingConfig = MISSING
    optimiser: OptimiserConfig = MISSING
    augmentation: AugmentationConfig = MISSING
    hardware: HardwareConfig = MISSING
    evaluation: EvaluationConfig = MISSING
    health: HealthConfig = MISSING
    logger: LoggerConfig = MISSING
