"""Which values a key may have, beyond its type: closed sets, ranges, durations."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from omegaconf import DictConfig, ListConfig, OmegaConf

from conf.duration import Duration, Unit
from conf.job import BackendName, Source
from juzhen.core.errors import UserError, nearest
from juzhen.core.examples import Kind
from juzhen.core.measures import MEASURES
from juzhen.core.names import name_fault
from juzhen.data.files import DATASETS
from launch.explain import ConfigError
from launch.set_files import check_dataset, check_name


@dataclass(frozen=True)
class Range:
    """Numbers from `least` (or above `above`) up to but without `below`."""

    least: float | None = None
    above: float | None = None
    below: float | None = None

    def __contains__(self, number: float) -> bool:
        # Written so that NaN is outside every range.
        return (
            (self.least is None or number >= self.least)
            and (self.above is None or number > self.above)
            and (number < (float("inf") if self.below is None else self.below))
        )

    def __str__(self) -> str:
        limits = {"at least": self.least, "more than": self.above, "less than": self.below}
        return " and ".join(f"{word} {limit:.10g}" for word, limit in limits.items() if limit is not None)


def _for_both(table: dict) -> dict:
    """The same rule for the sets trained on and for those evaluated on."""
    return {f"{group}.*.{key}": rule for group in ("dataset", "evaluate") for key, rule in table.items()}


ALLOWED: dict[str, tuple[str, ...]] = {
    "source": tuple(Source),
    "on_bad_row": ("error", "drop"),
    "resume": ("never", "auto"),
    "schedule.name": ("mix", "serial"),
    "schedule.sample_by": ("size", "weight"),
    "backbone.initialise": ("pretrained", "random"),
    "backbone.pooling": ("mean", "cls", "max", "first_last", "weighted"),
    "augmentation.views": (
        "translation",
        "synonym",
        "sentence_order",
        "delete",
        "repeat",
        "cutoff",
        "shuffle",
    ),
    "optimiser.decay": ("linear", "constant", "inverse_sqrt"),
    "training.stratify_by": ("none", "label", "length", "label_length"),
    "evaluation.splits": ("dev", "test"),
    "evaluation.backend": tuple(BackendName),
    "health.on_collapse": ("warn", "stop"),
    "hardware.accelerator": ("cpu", "cuda", "mps"),
    "hardware.strategy": ("auto", "ddp"),
    "hardware.precision": ("32-true", "bf16-mixed", "16-mixed"),
    "logger.wandb": ("auto", "offline", "online", "off"),
} | _for_both(
    {"source": tuple(Source), "kind": tuple(Kind), "view": tuple(Kind), "language": ("zh", "en", "en-zh")}
)
"""Key → its possible values; of a list, each element. `*` stands for any dataset."""

RANGES: dict[str, Range] = {
    "seed": Range(least=0, below=2**32),
    "debug_rows": Range(least=1),
    "training.batch_size": Range(least=1),
    "training.accumulate": Range(least=1),
    "training.length_window": Range(least=1),
    "training.patience": Range(least=1),
    "optimiser.lr": Range(above=0),
    "optimiser.weight_decay": Range(least=0),
    "optimiser.betas": Range(least=0, below=1),
    "optimiser.eps": Range(above=0),
    "optimiser.clip_norm": Range(above=0),
    "backbone.dropout": Range(least=0, below=1),
    "backbone.layers": Range(least=0),
    "backbone.max_length": Range(least=3),  # one token between the two special ones
    "augmentation.probability": Range(above=0),
    "augmentation.delete": Range(above=0, below=1),
    "augmentation.repeat": Range(above=0, below=1),
    "augmentation.cutoff": Range(above=0, below=1),
    "augmentation.synonym": Range(above=0, below=1),
    "augmentation.shuffle": Range(least=2),
    "health.probe_sentences": Range(least=0),
    "health.collapse_cosine": Range(least=-1, below=1),
    "health.collapse_rank": Range(least=0),
    "health.collapse_spread": Range(least=0),
    "health.gradient_range": Range(least=0),
    "hardware.devices": Range(least=1),
    "hardware.num_nodes": Range(least=1),
    "hardware.threads": Range(least=1, below=1025),  # a process has room for some thousands
    "hardware.num_workers": Range(least=0),
    "hardware.eval_batch_tokens": Range(least=1),
    "hardware.train_piece_tokens": Range(least=1),
    "hardware.snapshot_share": Range(above=0),
    "hardware.snapshot_kept_mib": Range(least=0),
    "evaluation.bootstrap_samples": Range(least=0),
    "logger.every_steps": Range(least=1),
    "schedule.temperature": Range(above=0),
    "schedule.sets.*.weight": Range(above=0),
    "schedule.sets.*.batch_size": Range(least=1),
    "schedule.stages.*.share_percent": Range(above=0),
} | _for_both(
    {
        "limit": Range(least=1),
        "layouts.*.window": Range(least=8),
        "layouts.*.held_out_percent": Range(least=0, below=100),
        "layouts.*.held_out_rows": Range(least=1),
    }
)
"""Key → where its number, or each number of its list, must lie. null passes where the schema allows it."""

MONITORED = (
    "spearman",
    "pearson",
    "accuracy",
    "f1",
    "average_precision",
    "auc",
    "macro_f1",
    "mlm_accuracy",
    "ranking_accuracy",
    "triplet_accuracy",
    "score_gap",
)
"""Metrics that may choose a checkpoint: higher is better."""

DURATIONS: dict[str, Range] = {
    "training.duration": Range(above=0),
    "training.validate_every": Range(above=0),
    "training.checkpoint_every": Range(above=0),
    "optimiser.warmup": Range(least=0),
}
"""Keys whose value is a duration → where its amount must lie."""


def check_values(job: DictConfig) -> None:
    """Raises ConfigError for the first value of a typed job that is outside its set or range."""
    for pattern, allowed in ALLOWED.items():
        for key, value in _select(job, pattern):
            if value not in allowed:
                raise ConfigError(_not_allowed(key, value, allowed), key)
    for pattern, limits in RANGES.items():
        for key, value in _select(job, pattern):
            if value not in limits:
                raise ConfigError(f"{key}={value}: expected {limits}", key)
    for pattern, limits in DURATIONS.items():
        for key, value in _select(job, pattern):
            _check_duration(key, value, limits)
    _check_monitor(job)
    _check_transfer(job)
    _check_names(job)
    for group in ("dataset", "evaluate"):
        for name, dataset in job[group].items():
            check_name(group, name, dataset)
            check_dataset(f"{group}.{name}", dataset)
    if len(job.optimiser.betas) != 2:
        raise ConfigError(f"optimiser.betas={job.optimiser.betas}: expected two numbers", "optimiser.betas")
    _check_decay(job.optimiser)
    _check_batches(job.training)
    _check_layer_norm(job)
    ends = job.health.gradient_range
    if ends is not None and (len(ends) != 2 or not ends[0] < ends[1]):
        raise ConfigError(
            f"health.gradient_range={list(ends)}: expected the lowest and then the highest length, as in [0.1, 10]",
            "health.gradient_range",
        )


def _not_allowed(key: str, value: str, allowed: tuple[str, ...]) -> str:
    message = f"{key}={value}: expected {' or '.join(allowed)}"
    hint = nearest(str(value).lower(), allowed)
    if hint.startswith("did"):
        message += f"; {hint}"
    if value == "False" and "off" in allowed:
        message += '; in a file, write "off" in quotes'  # YAML reads a bare off as false
    return message


def _check_duration(key: str, value: str, limits: Range) -> None:
    try:
        duration = Duration.parse(value, key=key)
    except UserError as error:
        raise ConfigError(str(error), key) from error
    if duration.amount not in limits:
        raise ConfigError(f"{key}={value}: expected {limits} {duration.unit}", key)
    if key == "optimiser.warmup" and duration.unit is Unit.PERCENT and duration.amount > 100:
        raise ConfigError(f"{key}={value}: expected at most 100 percent of the training", key)


def _check_decay(optimiser: DictConfig) -> None:
    """A rate that falls from the end of the warm-up on, by its length, needs one."""
    no_warmup = Duration.parse(optimiser.warmup).amount == 0
    if optimiser.decay == "inverse_sqrt" and no_warmup:
        raise ConfigError(
            f"optimiser.warmup={optimiser.warmup}: decay=inverse_sqrt is lr · √(warm-up/step), and nothing without a "
            "warm-up; type for example 'optimiser.warmup=10 percent'",
            "optimiser.warmup",
        )


def _check_batches(training: DictConfig) -> None:
    if training.stratify_by != "none" and training.length_window > 1:
        raise ConfigError(
            f"training.stratify_by={training.stratify_by}: training.length_window={training.length_window} puts rows "
            "of like length in a batch, labels in proportion; leave one of them at its default",
            "training.stratify_by",
        )


def _check_layer_norm(job: DictConfig) -> None:
    wanted, start = job.backbone.layer_norm, job.init_from
    if wanted is not None and start is not None:
        raise ConfigError(
            f"backbone.layer_norm={str(wanted).lower()}: init_from={start} takes the place of the backbone; type "
            f"backbone=local backbone.path=<encoder folder of {start}> in its stead",
            "backbone.layer_norm",
        )


def _check_monitor(job: DictConfig) -> None:
    """`auto`, or `dev/<set>/<metric>` of a set that the job scores."""
    value, key = job.training.monitor, "training.monitor"
    match = re.fullmatch(r"dev/([^/]+)/[^/]+", value)
    if value == "auto":
        return
    if not match:
        raise ConfigError(f"{key}={value}: expected auto, or a key such as dev/csts/spearman", key)
    metric = value.rpartition("/")[2]
    if metric not in MONITORED:
        raise ConfigError(f"{key}={value}: {metric} chooses no checkpoint; {nearest(metric, MONITORED)}", key)
    sets = {**job.evaluate, **job.dataset}
    if match[1] not in sets:
        raise ConfigError(
            f"{key}={value}: this job does not score {match[1]}; {nearest(match[1], sets)}", key
        )
    kind = sets[match[1]].kind
    known = [one for one in MEASURES[Kind(kind)] if one in MONITORED]
    if metric not in (*known, "mlm_accuracy"):  # any text has hidden tokens
        raise ConfigError(
            f"{key}={value}: {match[1]} has {kind.replace('_', ' ')}s, which have no {metric} while training goes on; "
            f"choose {' or '.join(known) or 'another set'}",
            key,
        )


def _check_transfer(job: DictConfig) -> None:
    """Sets of the job, or of conf/dataset."""
    key = "evaluation.transfer"
    known = {*job.dataset, *job.evaluate, *(path.stem for path in DATASETS.glob("*.yaml"))}
    for name in job.evaluation.transfer:
        if name not in known:
            raise ConfigError(f"{key}={name}: there is no such set; {nearest(name, known)}", key)


def _check_names(job: DictConfig) -> None:
    """Folders and keys of results are named after these, so none may be a path, or more than one word."""
    order = job.schedule.order or []
    for key, name in [("schedule.order", one) for one in order] + list(_keys(job, "schedule.stages")):
        if fault := name_fault(str(name)):
            raise ConfigError(f"{key}: {name}: expected a name of a stage: {fault}", key)
    sets = [
        (f"{key}.{name}.name", job[key][name].name) for key in ("dataset", "evaluate") for name in job[key]
    ]
    for key, name in [*_keys(job, "dataset"), *_keys(job, "evaluate"), *sets]:
        if not re.fullmatch(r"\w[\w-]*", str(name)):
            raise ConfigError(f"{key}: {name}: expected a name of a set: letters, digits, _ and -", key)
    for key in ("output_dir", "run_dir"):
        if not job[key].strip():
            raise ConfigError(f"{key}=: expected a folder; {key}=. is the one that this is started in", key)
    if fault := name_fault(job.name):
        raise ConfigError(f"name={job.name}: expected a name of a folder: {fault}", "name")


def _keys(job: DictConfig, group: str) -> Iterator[tuple[str, str]]:
    yield from ((group, name) for name in OmegaConf.select(job, group))


def _select(job: DictConfig, pattern: str) -> Iterator[tuple[str, object]]:
    """Key and value of everything that a pattern names and that is not null; a list gives its elements."""
    nodes: list[tuple[str, object]] = [("", job)]
    for part in pattern.split("."):
        nodes = [
            (f"{path}.{name}".lstrip("."), node[name])
            for path, node in nodes
            for name in (node if part == "*" else [part])
        ]
    for path, value in nodes:
        if isinstance(value, ListConfig):
            yield from ((path, element) for element in value)
        elif value is not None:
            yield path, value
